"""What people see of a call's arguments, made from the stored bytes: the one place for it.

Rule 1: every argument is here, nested ones too, each under its own name. What a channel folds up
says how large it is, and has a digest.
Rule 2: different bytes give different renderings. Bytes that are not the only ones of their value
are not shown as arguments at all, but as the bytes that they are.
Of a secret its mark is shown, and nothing else.
Rule 3: words that somebody put beside the arguments stand apart from them, with whose they are.
These are plain values. A terminal draws them by `drawing.py`; whoever makes HTML or chat messages
of them escapes for that, and needs no other cleaning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.glyph import inline, number, show
from sayso.domain.hint import (
    NO_SCHEMA,
    Schema,
    entry_schema,
    item_schema,
    read_number,
    resolve,
    text_of,
)
from sayso.domain.operand import OperandPin
from sayso.domain.secret import SEALED, mark_in
from sayso.domain.value import Value
from sayso.errors import BadValue

CHARS_MAX = 1000
"""A longer text may be folded."""
ROWS_MAX = 30
ITEMS_MAX = 50
"""So may a list or an object with more in it."""
NAME_MAX = 100
"""A longer name is cut, and says so."""
SHORT = 12
"""How much of a file's digest is shown, to be compared by eye."""

Kind = Literal["object", "list", "text", "integer", "number", "boolean", "null", "bytes", "secret"]
By = Literal["agent", "tool"]
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_-]*")


class Fold(Value, frozen=True, kw_only=True):
    """That a value is long enough to be folded, and what a fold says of it."""

    size: int
    unit: Literal["characters", "items", "entries"]
    bytes: int
    """Of its text in UTF-8, or of its JSON if it is no text."""
    sha256: str
    """Of those bytes."""

    def __str__(self) -> str:
        return f"{self.size:,} {self.unit}, {self.bytes:,} bytes, sha256 {self.sha256}"


class Part(Value, frozen=True, kw_only=True):
    """One value among the arguments, with all that is in it."""

    name: str
    """Its name in the object it is in, in quotes if that is no plain word, or `[0]` in a list."""
    kind: Kind
    rows: tuple[str, ...] = ()
    """What is shown of it: the lines of a text, or one; none for an object or a list."""
    raw: str = ""
    """The value itself, as JSON in ASCII; empty for an object or a list."""
    formatted: str = ""
    """How people would write it, by its schema: for beside `rows`, never instead of them."""
    title: str = ""
    """What its schema calls it."""
    description: str = ""
    notes: tuple[str, ...] = ()
    """What a reader should know about it."""
    fold: Fold | None = None
    """Set if it is long. What is above is the whole of it all the same."""
    parts: tuple[Part, ...] = ()


class Line(Value, frozen=True, kw_only=True):
    """A part, and where it is."""

    path: str
    """Such as `transfer.items[0]."odd name"`."""
    depth: int
    part: Part


class Words(Value, frozen=True, kw_only=True):
    """What somebody says about a call. Nothing checks that it is so."""

    by: By
    part: Part


class File(Value, frozen=True, kw_only=True):
    """A file that an argument names, as it was when it was asked about."""

    name: str
    """The argument, such as `paths[0]`."""
    path: str
    """As it was given, in one line."""
    raw: str
    """The path itself, as JSON in ASCII."""
    size: int
    sha256: str
    """Of its content; empty if there was no such file."""

    def __str__(self) -> str:
        if not self.sha256:
            return f"{self.path}, which is not there"
        return f"{self.path}, {self.size:,} bytes, sha256 {self.sha256[:SHORT]}"


class Rendering(Value, frozen=True, kw_only=True):
    """What people see of a call's arguments."""

    parts: tuple[Part, ...]
    bytes: int
    inspectable: bool = True
    """False: these bytes are no arguments, and are shown as bytes."""
    words: tuple[Words, ...] = ()
    files: tuple[File, ...] = ()

    @property
    def folded(self) -> bool:
        """Tell whether anything in it is long enough to be folded."""
        mine = any(line.part.fold is not None for line in self.lines())
        return mine or any(words.part.fold is not None for words in self.words)

    def lines(self) -> Iterator[Line]:
        """Give every part with its path, each before what is in it."""
        return _walk(self.parts, "", 0)


def render(
    args: bytes,
    schema: Schema | None = None,
    *,
    words: Iterable[tuple[By, str, str]] = (),
    operands: Iterable[OperandPin] = (),
) -> Rendering:
    """Render the bytes of a call's arguments, with hints from the tool's JSON Schema.

    `words` are what an agent or a tool says of the call: by whom, what it is, and the text.
    `operands` are the files that the arguments name.
    """
    said = tuple([Words(by=by, part=_text(name, text)) for by, name, text in words if text])
    files = tuple([_file(pin) for pin in operands])
    try:
        value = decode_value(args)
        only = encode_value(value) == args
    except BadValue:
        value, only = None, False
    if not only:
        parts = (_bytes(args),)
        return Rendering(parts=parts, bytes=len(args), inspectable=False, words=said, files=files)
    root = schema or NO_SCHEMA
    # No name of an argument looks like this one.
    whole = _part("(value)", value, root, root, {})
    parts = whole.parts if whole.kind == "object" else (whole,)
    return Rendering(parts=parts, bytes=len(args), words=said, files=files)


def _file(pin: OperandPin) -> File:
    return File(
        name=inline(pin.name, rtl=False),
        path=_quoted(pin.path),
        raw=json.dumps(pin.path),
        size=pin.size,
        sha256=pin.sha256,
    )


def _walk(parts: tuple[Part, ...], path: str, depth: int) -> Iterator[Line]:
    for part in parts:
        dot = "." if path and not part.name.startswith("[") else ""
        mine = f"{path}{dot}{part.name}"
        yield Line(path=mine, depth=depth, part=part)
        yield from _walk(part.parts, mine, depth + 1)


def _part(name: str, value: Any, schema: Any, root: Schema, beside: dict[str, Any]) -> Part:
    hints = resolve(schema, root)
    kind = cast("type[object]", type(value))
    if (mark := mark_in(value)) is not None:
        part = _secret(name, mark, hints)
    elif kind is dict:
        part = _object(name, value, hints, root)
    elif kind is list:
        part = _list(name, value, hints, root)
    elif kind is str:
        part = _text(name, value, hints, beside)
    else:
        part = _scalar(name, value, hints, beside)
    return part


def _object(name: str, value: dict[str, Any], hints: Schema, root: Schema) -> Part:
    parts = [
        _part(_name(key), value[key], entry_schema(hints, key), root, value)
        for key in sorted(value)
    ]
    return _with(hints, name=name, kind="object", fold=_fold_many(value), parts=tuple(parts))


def _list(name: str, value: list[Any], hints: Schema, root: Schema) -> Part:
    parts = [
        _part(f"[{at}]", item, item_schema(hints, at), root, {}) for at, item in enumerate(value)
    ]
    return _with(hints, name=name, kind="list", fold=_fold_many(value), parts=tuple(parts))


def _text(
    name: str, value: str, hints: Schema = NO_SCHEMA, beside: dict[str, Any] | None = None
) -> Part:
    shown = show(value)
    is_money = text_of(hints, "format").startswith("money")
    reading = read_number(value, hints, beside or {}) if is_money else None
    return _with(
        hints,
        name=name,
        kind="text",
        rows=shown.rows,
        raw=json.dumps(value),
        formatted=reading.text if reading else "",
        notes=shown.notes + ((reading.note,) if reading and reading.note else ()),
        fold=_fold_text(value),
    )


def _secret(name: str, mark: str, hints: Schema) -> Part:
    # No argument of anybody's is an object like this one, so nothing else is shown like this.
    shown = f"[secret {mark}]"
    return _with(hints, name=name, kind="secret", rows=(shown,), raw=json.dumps({SEALED: mark}))


def _scalar(name: str, value: Any, hints: Schema, beside: dict[str, Any]) -> Part:
    raw = json.dumps(value)
    if value is None or type(value) is bool:
        kind = "null" if value is None else "boolean"
        return _with(hints, name=name, kind=kind, rows=(raw,), raw=raw)
    reading = read_number(value, hints, beside)
    return _with(
        hints,
        name=name,
        kind="integer" if type(value) is int else "number",
        rows=(raw,),
        raw=raw,
        formatted=reading.text,
        notes=(reading.note,) if reading.note else (),
        fold=_fold_text(raw),
    )


def _bytes(args: bytes) -> Part:
    # What is no UTF-8 becomes surrogates, which are shown by their numbers.
    text = args.decode("utf-8", "surrogateescape")
    shown = show(text)
    return Part(
        name="bytes",
        kind="bytes",
        rows=shown.rows,
        raw=json.dumps(text),
        notes=("no call could be made with these bytes", *shown.notes),
        fold=_fold_text(text),
    )


def _with(hints: Schema, **fields: Any) -> Part:
    title, about = text_of(hints, "title"), text_of(hints, "description")
    if not title and not about:
        return Part(**fields)
    return Part(title=_brief(title), description=_brief(about), **fields)


def _brief(text: str) -> str:
    more = len(text) - CHARS_MAX
    return inline(text) if more <= 0 else f"{inline(text[:CHARS_MAX])} [{more:,} more characters]"


def _name(key: str) -> str:
    """Show a name so that nobody takes it for anything else, and no two names are shown alike."""
    if len(key) <= NAME_MAX and _NAME.fullmatch(key):
        return key
    return _quoted(key)


def _quoted(text: str) -> str:
    # Its quotes and whatever comes after it keep their places, so nothing in it runs to the left.
    shown = inline(text[:NAME_MAX], rtl=False).replace('"', number('"'))
    more = len(text) - NAME_MAX
    return f'"{shown}"' if more <= 0 else f'"{shown}" and {more:,} more, sha256 {_sha256(text)}'


def _fold_text(text: str) -> Fold | None:
    if len(text) <= CHARS_MAX and text.count("\n") < ROWS_MAX:
        return None
    size = len(text.encode("utf-8", "surrogateescape"))
    return Fold(size=len(text), unit="characters", bytes=size, sha256=_sha256(text))


def _fold_many(value: dict[str, Any] | list[Any]) -> Fold | None:
    if len(value) <= ITEMS_MAX:
        return None
    # As `encode_value` writes it, which has been done for the whole.
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    unit = "items" if type(value) is list else "entries"
    return Fold(size=len(value), unit=unit, bytes=len(text.encode()), sha256=_sha256(text))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
