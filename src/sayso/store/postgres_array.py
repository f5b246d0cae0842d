"""Columns of parameters as arrays in PostgreSQL's binary form.

The driver picks the type of a list by what is in it, and a statement would be prepared anew for
every mixture. These have the same type whatever they have, none included.
"""

from __future__ import annotations

import struct
from typing import ClassVar

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

from sayso.errors import BadValue, StoreError

_HEAD = struct.Struct("!iiIii")
_EMPTY = struct.Struct("!iiI")
_LENGTH = struct.Struct("!i")
_NULL = _LENGTH.pack(-1)

Cell = bytes | None


class Texts(list[Cell]):
    """A `text[]`, of what `text` gives."""


class Numbers(list[Cell]):
    """A `bigint[]`, of what `number` gives."""


class Blobs(list[Cell]):
    """A `bytea[]`."""


def text(value: str | None) -> Cell:
    """Encode a text. `BadValue` for one that no column of PostgreSQL can have."""
    if value is None:
        return None
    if "\0" in value:
        raise BadValue("it cannot be kept: there is a NUL in it")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise BadValue("it cannot be kept: there is half a character in it") from None


def number(value: int | None) -> Cell:
    """Encode a number. `StoreError` for one that has more than 64 bits."""
    try:
        return None if value is None else value.to_bytes(8, "big", signed=True)
    except OverflowError:
        raise StoreError(f"{value} cannot be kept: it has more than 64 bits") from None


class _ArrayDumper(Dumper):
    format = Format.BINARY
    array: ClassVar[int]
    element: ClassVar[int]

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        # Not of its class, or the driver would give it whatever is copied into such a column.
        self.oid = self.array

    def dump(self, obj: list[Cell]) -> Buffer:
        if not obj:
            return _EMPTY.pack(0, 0, self.element)
        parts = [_HEAD.pack(1, None in obj, self.element, len(obj), 1)]
        for cell in obj:
            parts += (_NULL,) if cell is None else (_LENGTH.pack(len(cell)), cell)
        return b"".join(parts)


class _TextsDumper(_ArrayDumper):
    array, element = 1009, 25


class _NumbersDumper(_ArrayDumper):
    array, element = 1016, 20


class _BlobsDumper(_ArrayDumper):
    array, element = 1001, 17


psycopg.adapters.register_dumper(Texts, _TextsDumper)
psycopg.adapters.register_dumper(Numbers, _NumbersDumper)
psycopg.adapters.register_dumper(Blobs, _BlobsDumper)
