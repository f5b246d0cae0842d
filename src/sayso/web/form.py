"""Forms made from a JSON Schema and the values that there are, and read back exactly.

Rule 1: a value is text until it is read here: no browser makes a number of 9007199254740993.
Rule 2: what was not touched keeps its very value: 12400.0 stays 12400.0, whatever its schema says.
Rule 3: what a control could not show truthfully is edited as JSON in ASCII, where every character
that cannot be seen has its number.
A schema is a hint here. Whether the whole fits is for whoever takes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.glyph import show
from sayso.domain.hint import NO_SCHEMA, Schema, entry_schema, resolve, text_of
from sayso.domain.question import is_day
from sayso.domain.secret import mark_in
from sayso.errors import BadValue

ABSENT = msgspec.UNSET
"""There is no such entry."""
LONG = 70
"""From here on a text gets a box of several lines."""
DEPTH_MAX = 6
"""What is nested deeper is edited as JSON."""
OPTIONS_MAX = 200
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_PLAIN_KINDS = {"email": "email", "uri": "url", "date": "date"}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One control of a form, or a group of them."""

    name: str
    """Of the control: a prefix, and the JSON Pointer of the value."""
    label: str
    key: str = ""
    """What the value is called where it is used, whatever its schema calls it."""
    kind: str
    """`text`, `long`, `email`, `url`, `date`, `integer`, `number`, `choice`, `lines`, `json`,
    `object` or `secret`.
    """
    value: Any = ABSENT
    """What is there now."""
    text: str = ""
    """What its control has in it."""
    was: str = ""
    """What it had at first."""
    about: str = ""
    required: bool = True
    nullable: bool = False
    options: tuple[tuple[str, str], ...] = ()
    """Of a choice: the JSON of each value, and how it is called."""
    items: str = ""
    """Of lines: the type of each."""
    error: str = ""
    fields: tuple[Field, ...] = ()

    @property
    def id(self) -> str:
        """What its label and its error name it by: names may have anything in them."""
        return f"f-{hashlib.sha256(self.name.encode()).hexdigest()[:10]}"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody sent."""

    value: Any
    problems: dict[str, str]
    """By the name of the control, what is wrong there."""
    changed: frozenset[str]
    """The names of the controls that say something else than at first."""


def make_fields(schema: Schema | None, value: Any, prefix: str) -> tuple[Field, ...]:
    """Make the controls for an object, in the order of its schema."""
    root = schema or NO_SCHEMA
    return _entries(resolve(root, root), as_object(value), root, prefix, 0)


def read_fields(fields: tuple[Field, ...], posted: Mapping[str, str]) -> Reading:
    """Read what was sent. What is not among it stays as it is."""
    problems: dict[str, str] = {}
    changed: set[str] = set()
    value = _read_object(fields, posted, problems, changed)
    return Reading(value=value, problems=problems, changed=frozenset(changed))


def fill_in(
    fields: tuple[Field, ...], posted: Mapping[str, str], problems: Mapping[str, str]
) -> tuple[Field, ...]:
    """Give the controls with what was typed into them, and what is wrong there."""
    return tuple(
        msgspec.structs.replace(
            field,
            text=field.text if field.kind == "secret" else _sent(field, posted, field.text),
            error=problems.get(field.name, ""),
            fields=fill_in(field.fields, posted, problems),
        )
        for field in fields
    )


def names_of(fields: tuple[Field, ...]) -> set[str]:
    """Give the names of all controls and groups."""
    return {name for one in fields for name in (one.name, *names_of(one.fields))}


def pointer(*path: str) -> str:
    """Make a JSON Pointer."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def _entries(
    hints: Schema, value: dict[str, Any], root: Schema, prefix: str, depth: int
) -> tuple[Field, ...]:
    known = hints.get("properties")
    names = [*cast("Schema", known)] if isinstance(known, Mapping) else list[str]()
    needed = hints.get("required")
    required = set(cast("list[str]", needed)) if isinstance(needed, list) else set[str]()
    names += [key for key in value if key not in names]
    return tuple(
        _field(
            prefix + pointer(key),
            key,
            value.get(key, ABSENT),
            entry_schema(hints, key),
            root,
            required=key in required,
            depth=depth,
        )
        for key in names
    )


def _field(
    name: str, key: str, value: Any, schema: Any, root: Schema, *, required: bool, depth: int
) -> Field:
    hints = resolve(schema, root)
    kind, text, more = _control(value, hints, root, depth)
    if kind == "object":
        more["fields"] = _entries(hints, as_object(value), root, name, depth + 1)
    return Field(
        name=name,
        label=text_of(hints, "title") or key,
        key=key,
        kind=kind,
        value=value,
        text=text,
        was=text,
        about=text_of(hints, "description"),
        required=required,
        nullable=_nullable(schema, hints),
        **more,
    )


def _control(
    value: Any, hints: Schema, root: Schema, depth: int
) -> tuple[str, str, dict[str, Any]]:
    """Choose a control for a value: its kind, the text in it, and what else it needs."""
    if value is not ABSENT and mark_in(value) is not None:
        return "secret", "[secret]", {}
    options = _options(value, hints)
    if options:
        return "choice", "" if value is ABSENT else _json(value), {"options": options}
    empty = value is ABSENT or value is None
    wanted = hints.get("type") if empty else _type(value)
    blank = "" if empty else None
    match wanted:
        case "string":
            return (_plain_kind(hints), "", {}) if empty else _text(str(value), hints)
        case "integer" | "number" if hints.get("type") in ("integer", "number", None):
            kind = hints.get("type") or "number"
            return str(kind), _json(value) if blank is None else blank, {}
        case "boolean" if hints.get("type") in ("boolean", None):
            yes_no = (("true", "Yes"), ("false", "No"))
            return "choice", _json(value) if blank is None else blank, {"options": yes_no}
        case "array":
            return _lines([] if empty else value, hints, root, blank=blank)
        case "object" if hints.get("properties") and depth < DEPTH_MAX and value is not None:
            return "object", "", {}
        case _:
            return "json", _json(value, 2) if blank is None else blank, {}


def _text(value: str, hints: Schema) -> tuple[str, str, dict[str, Any]]:
    if show(value).escaped:
        return "json", _json(value), {}
    kind = _plain_kind(hints)
    if kind == "date" and not is_day(value):
        kind = "text"
    if "\n" in value or (kind == "text" and len(value) > LONG):
        kind = "long"  # Where there is one line only, a browser leaves the ends of lines out.
    return kind, value, {}


def _plain_kind(hints: Schema) -> str:
    return _PLAIN_KINDS.get(text_of(hints, "format"), "text")


def _lines(
    value: Any, hints: Schema, root: Schema, *, blank: str | None
) -> tuple[str, str, dict[str, Any]]:
    """Edit a list of plain values a line each, and any other list as JSON."""
    kind = resolve(hints.get("items"), root).get("type")
    if kind == "string" and all(isinstance(one, str) and _is_line(one) for one in value):
        return "lines", "\n".join(value), {"items": "string"}
    if kind in ("integer", "number") and all(_type(one) in ("integer", "number") for one in value):
        return "lines", "\n".join(_json(one) for one in value), {"items": str(kind)}
    return "json", _json(value, 2) if blank is None else blank, {}


def _is_line(text: str) -> bool:
    return bool(text) and text == text.strip() and "\n" not in text and not show(text).escaped


def _options(value: Any, hints: Schema) -> tuple[tuple[str, str], ...]:
    """Give what can be chosen; what is there now is always among it."""
    found: list[tuple[str, str]] = []
    several = hints.get("enum")
    if isinstance(several, list):
        found = [(_json(one), _called(one)) for one in cast("list[Any]", several)]
    elif isinstance(hints.get("oneOf"), list):
        cases = cast("list[Any]", hints["oneOf"])
        if all(isinstance(one, Mapping) and "const" in one for one in cases):
            found = [
                (_json(one["const"]), _titled(text_of(one, "title"), one["const"]))
                for one in cast("list[Schema]", cases)
            ]
    if not found or len(found) > OPTIONS_MAX:
        return ()
    if value is not ABSENT and _json(value) not in dict(found):
        found.insert(0, (_json(value), _called(value)))
    return tuple(found)


def _called(value: Any) -> str:
    """Call a value so that no other one is called the same: the text `1` has quotes."""
    if not isinstance(value, str):
        return _json(value)
    # Browsers show one blank for many in what can be chosen, and none at its ends.
    plain = value and value == " ".join(value.split()) and not value.startswith('"')
    return value if plain and not _is_json(value) else _json(value)


def _titled(title: str, value: Any) -> str:
    """Call a value as its schema does, and by itself: that may be something else."""
    called = _called(value)
    return f"{title} ({called})" if title and title != called else called


def _is_json(text: str) -> bool:
    try:
        decode_value(text)
    except BadValue:
        return False
    return True


def _nullable(schema: Any, hints: Schema) -> bool:
    kinds: Any = hints.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        return True
    some: Any = cast("Schema", schema).get("anyOf") if isinstance(schema, Mapping) else None
    return isinstance(some, list) and {"type": "null"} in some


def _read_object(
    fields: tuple[Field, ...],
    posted: Mapping[str, str],
    problems: dict[str, str],
    changed: set[str],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        if field.kind == "object":
            value = _read_group(field, posted, problems, changed)
        elif field.kind == "secret" or _sent(field, posted, field.was) == _flat(field.was):
            value = field.value
        else:
            changed.add(field.name)
            try:
                value = _parse(field, _sent(field, posted, field.was))
            except BadValue as error:
                problems[field.name] = str(error)
                value = field.value
        if value is not ABSENT:
            found[field.name.rpartition("/")[2].replace("~1", "/").replace("~0", "~")] = value
        elif field.required and field.name not in problems:
            problems[field.name] = "this is missing"
    return found


def _read_group(
    field: Field, posted: Mapping[str, str], problems: dict[str, str], changed: set[str]
) -> Any:
    wrong: dict[str, str] = {}
    touched: set[str] = set()
    value = _read_object(field.fields, posted, wrong, touched)
    if field.value is ABSENT and not field.required and not touched:
        return ABSENT  # Nobody has begun it, so nothing of it is missing.
    problems.update(wrong)
    changed |= touched
    return value


def _sent(field: Field, posted: Mapping[str, str], default: str) -> str:
    sent = posted.get(field.name)
    return _flat(default if sent is None else sent)


def _flat(text: str) -> str:
    # Browsers send the lines of a text with both characters at their ends.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse(field: Field, text: str) -> Any:
    """Read what somebody typed, or raise `BadValue` in words for them."""
    plain = field.kind in ("text", "long")
    if not text.strip() and not (plain and field.value is not ABSENT):
        if field.kind == "lines" and (field.value is not ABSENT or field.required):
            return []
        if field.nullable and field.value is not ABSENT:
            return None
        if not field.required or field.value is ABSENT:
            return ABSENT
        raise BadValue("this must not be empty")
    match field.kind:
        case "integer":
            return _number(text, whole=True)
        case "number":
            return _number(text, whole=False)
        case "choice":
            if text not in dict(field.options):
                raise BadValue("choose one of these")
            return decode_value(text)
        case "lines":
            lines = [line.strip() for line in text.split("\n") if line.strip()]
            if field.items == "string":
                return lines
            return [_number(line, whole=field.items == "integer") for line in lines]
        case "json":
            return decode_value(text)
        case "date" if not is_day(text.strip()):
            raise BadValue("give a date, such as 2026-11-16")
        case "date" | "email" | "url":
            return text.strip()
        case _:
            return text


def _number(text: str, *, whole: bool) -> int | float:
    said = text.strip()
    if whole and not _INTEGER.fullmatch(said):
        raise BadValue("give a whole number, in digits")
    try:
        value = decode_value(said)
    except BadValue:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue("give a number, such as 1200 or 12.5")
    return value


def read_number(text: str) -> int | float:
    """Read a number exactly as it was typed, or raise `BadValue` in words for people."""
    return _number(text, whole=False)


def as_object(value: Any) -> dict[str, Any]:
    """Give an object's entries; none for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _type(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return kinds.get(cast("type[Any]", type(value)), "object")


def _json(value: Any, indent: int | None = None) -> str:
    # As it is kept, but for characters beyond ASCII, which have their numbers.
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, indent=indent)
    return json.dumps(value) if isinstance(value, str) else encode_value(value).decode()
