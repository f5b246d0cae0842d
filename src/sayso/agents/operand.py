"""Which parameters of a tool name files, read from their annotations."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, cast, get_args, get_origin

from sayso.domain.operand import Operand, OperandFile
from sayso.errors import BadTool, BadValue

_MANY = (list, tuple, set, frozenset, Sequence)


def operand_of(hint: Any, parameter: str, tool: str) -> Operand | None:
    """Find out whether a parameter names files. `BadTool` if it is marked so and could not."""
    marks = list(_marks(hint))
    if not marks:
        return None
    for mark, kind in marks:
        if not isinstance(mark, Operand):
            raise BadTool(f"{parameter!r} of the tool {tool!r}: write Operand(), with the brackets")
        if type(mark.bytes_max) is not int or mark.bytes_max < 1:
            raise BadTool(f"bytes_max of {parameter!r} of the tool {tool!r} is a number from 1 on")
        if not _names_files(kind):
            raise BadTool(
                f"{parameter!r} of the tool {tool!r} is marked with Operand() and is no path: mark "
                "a str, a Path, or a list of them"
            )
    if len(marks) > 1 or not _names_files(hint):
        raise BadTool(
            f"Operand() of {parameter!r} of the tool {tool!r} marks a part of it: give the file a "
            "parameter of its own"
        )
    return cast("Operand", marks[0][0])


def name_files(parameter: str, operand: Operand, value: Any) -> Iterator[OperandFile]:
    """Give the files that one argument names."""
    if isinstance(value, str):
        yield OperandFile(name=parameter, path=value, bytes_max=operand.bytes_max)
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from name_files(f"{parameter}[{at}]", operand, item)
    elif value is not None:
        raise BadValue(f"{parameter!r} names a file, and is no path")


def _marks(hint: Any) -> Iterator[tuple[Any, Any]]:
    """Give every mark in an annotation, with what it marks."""
    parts = get_args(hint)
    if get_origin(hint) is Annotated:
        yield from ((part, parts[0]) for part in parts[1:] if _is_mark(part))
        parts = parts[:1]
    for part in parts:
        yield from _marks(part)


def _is_mark(note: Any) -> bool:
    return isinstance(note, Operand) or note is Operand


def _names_files(hint: Any) -> bool:
    """Tell whether all that JSON can say here is a path, several, or none."""
    from pathlib import Path, PurePath

    if hint in (str, Path, PurePath, type(None)):
        return hint is not type(None)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _names_files(parts[0])
    if origin in (Union, types.UnionType):
        return all(_names_files(part) for part in parts if part is not type(None))
    return origin in _MANY and all(_names_files(part) for part in parts if part is not ...)
