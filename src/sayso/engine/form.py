"""Forms: the one place that knows JSON Schema, and imports it when it is needed.

A schema may come from a model and an answer from anybody, so neither may cost more than it should.

Rule 1: a schema is draft 2020-12 and refers to nothing but its own parts. Nothing is ever fetched.
Rule 2: a schema has an end: one that contains itself is refused, and so is one that becomes too
large when its references are written out.
Rule 3: checking has a budget. An answer that cannot be checked within it is refused.
Rule 4: a message speaks of the schema and never repeats the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.pattern import read_pattern
from sayso.domain.question import (
    SCHEMA_BYTES_MAX,
    Problem,
    Question,
    check_answer,
    is_moment,
    make_question,
)
from sayso.errors import BadQuestion, BadValue

DEPTH_MAX = 20
PARTS_MAX = 2000
"""How many schemas a schema contains, with its references written out."""
STEPS_MAX = 50_000
"""How much is compared when an answer is checked; well under a second's work."""
ANSWER_BYTES_MAX = 64 * 1024
"""How large a form's answer is. The library quotes it in every error, which takes its time."""
PROBLEMS_MAX = 20
NAME_MAX = 200
DRAFT = "https://json-schema.org/draft/2020-12/schema"
FORMATS = ("date", "email", "ipv4", "ipv6", "uuid")
"""Checked, and `date-time`; others are only said. Not what happens to be installed beside us."""

_MAPS = ("properties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    *("items", "contains", "additionalProperties", "propertyNames"),
    *("not", "if", "then", "else"),
)
_REFUSED = (
    # They find their targets while checking, or look at everything twice.
    *("$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"),
    *("unevaluatedItems", "unevaluatedProperties", "$vocabulary"),
    # A form has fields with names.
    "patternProperties",
)


def make_form_question(text: str, **fields: Any) -> Question:
    """Make a question of any kind, its schema checked: `make_question` with what that needs."""
    return make_question(text, **fields, check_schema=check_schema, form=check_form)


def check_any_answer(question: Question, value: bytes) -> bytes:
    """Check an answer to a question of any kind: `check_answer` with what that needs."""
    return check_answer(question, value, form=check_form)


def check_schema(text: str) -> None:
    """Raise `BadQuestion` for a schema that no form can be made of."""
    _read(text)


def check_form(question: Question, value: Any) -> list[Problem]:
    """Say where a value does not fit the question's schema."""
    try:
        form = _read(question.schema)
    except BadQuestion as error:
        # Written by another version, or by hand.
        return [("", str(error))]
    if len(encode_value(value)) > ANSWER_BYTES_MAX:
        return [("", f"this has more than {ANSWER_BYTES_MAX:,} bytes, too many for a form")]
    token = _steps.set([0])
    try:
        problems = form.problems(value, sensitive=question.sensitive)
    except (_TooMuch, RecursionError):
        return [("", "this is too large to be checked")]
    finally:
        _steps.reset(token)
    return problems


_steps: ContextVar[list[int]] = ContextVar("sayso_form_steps")


class _TooMuch(Exception):
    """Checking this answer takes longer than it may."""


def _spend(steps: int) -> None:
    spent = _steps.get()
    spent[0] += steps
    if spent[0] > STEPS_MAX:
        raise _TooMuch


class _Form(msgspec.Struct, frozen=True):
    """A schema that is ready to be used."""

    validator: Any
    names: frozenset[str]
    """Of its fields, wherever they are."""

    def problems(self, value: Any, *, sensitive: bool) -> list[Problem]:
        """Say what does not fit, one line for each place."""
        found: dict[Problem, None] = {}
        for error in self.validator.iter_errors(value):
            for path, message in _say(error):
                shown = _pointer([self._shown(part, sensitive=sensitive) for part in path])
                found[shown, message] = None
            if len(found) >= PROBLEMS_MAX:
                break
        return list(found)[:PROBLEMS_MAX]

    def _shown(self, part: str | int, *, sensitive: bool) -> str:
        # A name that is not the form's was given with the answer, and may be the secret itself.
        if sensitive and isinstance(part, str) and part not in self.names:
            return "*"
        return str(part)[:NAME_MAX]


@lru_cache(maxsize=64)
def _read(text: str) -> _Form:
    import referencing
    from jsonschema import FormatChecker
    from jsonschema.exceptions import SchemaError

    try:
        schema = decode_value(text, bytes_max=SCHEMA_BYTES_MAX)
    except BadValue as error:
        raise BadQuestion(f"the schema cannot be used: {error}") from None
    names = _check_parts(schema)
    kinds = _validator()
    try:
        # Without formats: "regex" would compile patterns for an engine that we do not use.
        kinds.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        where = _pointer(error.absolute_path) or "its top"
        why = error.message[:500]
        raise BadQuestion(f"the schema is not JSON Schema: at {where}: {why}") from None
    formats = FormatChecker(formats=FORMATS)
    formats.checks("date-time")(_is_moment)
    # A registry of our own, because the usual one fetches what it does not know.
    registry = cast("Any", referencing).Registry()
    validator = kinds(schema, registry=registry, format_checker=formats)
    return _Form(validator, names)


def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or is_moment(value)


def _check_parts(schema: Any) -> frozenset[str]:
    """Look at every schema inside a schema, and give the names of all fields."""
    parts = dict(_walk(schema))
    if not isinstance(schema, dict) or parts[""].get("type", "object") != "object":
        raise BadQuestion("the schema of a form describes an object")
    names: set[str] = set()
    for path, part in parts.items():
        _check_part(path, part)
        fields = part.get("properties")
        names.update(cast("dict[str, Any]", fields) if isinstance(fields, dict) else ())
    sizes: dict[str, int] = {}
    if _measure("", parts, sizes, ()) > PARTS_MAX:
        raise BadQuestion(f"the schema has more than {PARTS_MAX:,} parts")
    return frozenset(names)


def _walk(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every schema inside a schema with its JSON Pointer."""
    stack = [("", schema)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, dict):
            known = cast("dict[str, Any]", part)
            yield path, known
            stack.extend(_children(path, known))
        elif isinstance(part, bool):
            yield path, {}


def _children(path: str, part: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, child in part.items():
        if key in _SINGLE:
            yield f"{path}/{key}", child
        elif key in _MAPS and isinstance(child, dict):
            for name, one in cast("dict[str, Any]", child).items():
                yield path + _pointer([key, name]), one
        elif key in _LISTS and isinstance(child, list):
            for at, one in enumerate(cast("list[Any]", child)):
                yield f"{path}/{key}/{at}", one


def _check_part(path: str, part: dict[str, Any]) -> None:
    for key in _REFUSED:
        if key in part:
            raise BadQuestion(f"the schema uses {key}, which forms cannot")
    if str(part.get("$schema", DRAFT)).rstrip("#") != DRAFT:
        raise BadQuestion(f"the schema is of another draft: use {DRAFT}")
    if path and ("$id" in part or "$schema" in part):
        raise BadQuestion("only the top of a schema has $id or $schema")
    pattern = part.get("pattern")
    if isinstance(pattern, str):
        read_pattern(pattern)


def _measure(
    path: str, parts: dict[str, dict[str, Any]], sizes: dict[str, int], above: tuple[str, ...]
) -> int:
    """Count what is inside a schema, each reference written out."""
    if path in above:
        raise BadQuestion(f"the schema contains itself, at {path or 'its top'}: a form has an end")
    if len(above) > DEPTH_MAX:
        raise BadQuestion(f"the schema is nested deeper than {DEPTH_MAX}")
    # A schema may be deep enough in one place and too deep in another, so depth counts as well.
    key = f"{len(above)}:{path}"
    if key not in sizes:
        part = parts[path]
        inside = [where for where, _ in _children(path, part) if where in parts]
        if "$ref" in part:
            inside.append(_target(part["$ref"], parts))
        sizes[key] = 1 + sum(_measure(one, parts, sizes, (*above, path)) for one in inside)
    return sizes[key]


def _target(ref: Any, parts: dict[str, dict[str, Any]]) -> str:
    if isinstance(ref, str) and ref.startswith("#") and unquote(ref[1:]) in parts:
        return unquote(ref[1:])
    raise BadQuestion(
        f"the schema refers to {str(ref)[:200]!r}, which is not a part of it: "
        "use references such as #/$defs/name"
    )


@lru_cache(maxsize=1)
def _validator() -> Any:
    """Make the class of validators that count what they do."""
    from jsonschema import Draft202012Validator, validators

    known = {**Draft202012Validator.VALIDATORS, **_OURS}
    counted = {key: _counted(key, check) for key, check in known.items()}
    return cast("Any", validators).extend(Draft202012Validator, counted)


def _counted(key: str, check: Any) -> Any:
    whole = key in ("const", "enum", "uniqueItems", "dependentRequired")

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if whole:
            _spend(_count(value) + (_count(instance) if key == "uniqueItems" else 0))
        else:
            _spend(1 + _length(value) + _length(instance))
        return check(validator, value, instance, schema)

    return run


def _length(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, dict | list) else 0


def _count(value: Any) -> int:
    """Count a value's parts."""
    stack, count = [value], 0
    while stack:
        item = stack.pop()
        count += 1
        if isinstance(item, dict):
            stack.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            stack.extend(cast("list[Any]", item))
    return count


def _pattern(_validator: Any, value: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str):
        pattern = read_pattern(value)
        # A character is a step for each of the pattern's states, and a quick one.
        _spend(len(instance) * pattern.size // 20)
        if not pattern.occurs(instance):
            yield _wrong()


def _multiple(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    # As written in decimals: 0.3 is three times 0.1, whatever its bits say, and no integer is too
    # large to be divided.
    if isinstance(instance, bool) or not isinstance(instance, int | float):
        return
    if Fraction(repr(instance)) % Fraction(repr(value)) != 0:
        yield _wrong()


def _unique(_validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    # Not one by one with each other, which takes for ever when there are thousands.
    if value and isinstance(instance, list):
        items = cast("list[Any]", instance)
        if len({encode_value(_plain(one)) for one in items}) != len(items):
            yield _wrong()


def _plain(value: Any) -> Any:
    """Make numbers that are equal look equal: 1 and 1.0 are one number to JSON Schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in cast("dict[str, Any]", value).items()}
    return value


def _wrong() -> Any:
    from jsonschema import ValidationError

    return ValidationError("")


_OURS = {"pattern": _pattern, "multipleOf": _multiple, "uniqueItems": _unique}


def _say(error: Any) -> Iterator[tuple[list[str | int], str]]:
    """Say in our words what is wrong, and where."""
    path = list(error.absolute_path)
    want = error.validator_value
    match error.validator:
        case "required":
            for name in want:
                if name not in error.instance:
                    yield [*path, name], "this is missing"
        case "additionalProperties" if want is False:
            known = error.schema.get("properties", {})
            for name in list(error.instance)[:PROBLEMS_MAX]:
                if name not in known:
                    yield [*path, name], "the form has no such field"
        case "anyOf" | "oneOf" if (inner := _likely(error)) is not None:
            for one in inner:
                yield from _say(one)
        case key:
            yield path, _message(key, want)


def _likely(error: Any) -> list[Any] | None:
    """Give what is wrong with the one alternative that was meant, if that is clear."""
    branches: dict[Any, list[Any]] = {}
    for one in error.context:
        branches.setdefault(one.relative_schema_path[0], []).append(one)
    meant = [
        errors
        for errors in branches.values()
        if not any(one.validator in ("type", "const") and not one.relative_path for one in errors)
    ]
    return meant[0] if len(meant) == 1 else None


_MESSAGES = {
    "format": "this is not in the format {}",
    "pattern": "this does not fit the pattern {}",
    "minimum": "this must be at least {}",
    "maximum": "this must be at most {}",
    "exclusiveMinimum": "this must be more than {}",
    "exclusiveMaximum": "this must be less than {}",
    "multipleOf": "this must be a multiple of {}",
    "minLength": "this must have at least {} characters",
    "maxLength": "this must have at most {} characters",
    "minItems": "this must have at least {} items",
    "maxItems": "this must have at most {} items",
    "minProperties": "this must have at least {} fields",
    "maxProperties": "this must have at most {} fields",
    "uniqueItems": "this has the same item twice",
    "propertyNames": "this has a field whose name does not fit",
    "anyOf": "this fits none of the alternatives",
    "oneOf": "this must fit exactly one of the alternatives",
    "not": "this is what it must not be",
}


def _message(key: Any, want: Any) -> str:
    if key is None:
        return "this has something that must not be given"
    if key == "type":
        kinds = cast("list[str]", want) if isinstance(want, list) else [str(want)]
        return f"this must be of type {' or '.join(kinds)}"
    if key in ("const", "enum"):
        values = cast("list[Any]", want) if key == "enum" else [want]
        return f"this must be {' or '.join(encode_value(one).decode() for one in values)}"[:500]
    return _MESSAGES.get(str(key), "this does not fit ({key})").format(want, key=key)


def _pointer(path: Any) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
