"""Reading the files that a call names: to pin them before a person is asked, and for its body.

Rule 1: what is hashed and what is handed out are the same bytes, read once. Nothing is checked in
one read and used by another.
Rule 2: only regular files are read, as much as their tool allows, beside the event loop. What
cannot be read is `BadValue`; that a file is not there is a fact like its content.
Rule 3: a relative path counts from the working directory, links are followed: it is the content
that is pinned, wherever it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial

from sayso.domain.operand import OPERANDS_MAX, OperandFile, OperandPin
from sayso.engine.ports import Tool
from sayso.errors import BadValue, NotDone, contained

PATIENCE_S = 60.0
"""How long the files of one call may take: a file of a dead server can take for ever."""
_CHUNK = 1024 * 1024


async def pin(tool: Tool, args: bytes) -> tuple[OperandPin, ...]:
    """Say what the files contain that a tool's arguments name; `BadValue` if one cannot be read."""
    with contained(f"the tool {tool.name!r}"):
        files = tool.operands(args)
    if not files:
        return ()
    if len(files) > OPERANDS_MAX:
        raise BadValue(f"a call names at most {OPERANDS_MAX} files, not {len(files)}")
    from sayso.engine.thread import in_thread

    reading = in_thread(partial(_pin_all, files), {}, f"the files of {tool.name}")
    try:
        async with asyncio.timeout(PATIENCE_S):
            found: tuple[OperandPin, ...] = await reading
    except TimeoutError:
        raise BadValue(
            f"the files of this call could not be read within {PATIENCE_S:g} seconds"
        ) from None
    return found


def read_pinned(tool: Tool, args: bytes, pins: Sequence[OperandPin], name: str) -> bytes:
    """Read a file for the body of a call, and compare it with its pin if there is one."""
    files = tool.operands(args)
    file = next((one for one in files if one.name == name), None)
    if file is None:
        known = ", ".join(one.name for one in files) or "none: mark them with Operand()"
        raise BadValue(f"{name!r} names no file of this call; those that do: {known}")
    chunks: list[bytes] = []
    try:
        found = _pin(file, chunks.append)
    except BadValue as error:
        # If somebody was asked, it could be read then.
        raise (NotDone(str(error)) if pins else error) from None
    if pins and found not in pins:
        raise NotDone(f"the file {file.path!r} is not what it was when it was allowed")
    if found.absent:
        raise FileNotFoundError(f"there is no file {file.path!r}")
    return b"".join(chunks)


def _pin_all(files: Sequence[OperandFile]) -> tuple[OperandPin, ...]:
    return tuple([_pin(file, None) for file in files])


def _pin(file: OperandFile, take: Callable[[bytes], None] | None) -> OperandPin:
    """Say what a file contains, and hand its bytes to `take` as they are read."""
    try:
        # A pipe that nobody writes to must not be waited for.
        fd = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return OperandPin(name=file.name, path=file.path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BadValue(f"the file {file.path!r} cannot be read: {why}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadValue(f"{file.path!r} is not a file that can be read")
        return _read(fd, file, take)
    except OSError as error:
        raise BadValue(f"the file {file.path!r} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _read(fd: int, file: OperandFile, take: Callable[[bytes], None] | None) -> OperandPin:
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(fd, _CHUNK):
        size += len(chunk)
        # Counted as it is read: a file may grow, and some say that they are empty.
        if size > file.bytes_max:
            raise BadValue(f"the file {file.path!r} has more than {file.bytes_max:,} bytes")
        digest.update(chunk)
        if take is not None:
            take(chunk)
    return OperandPin(name=file.name, path=file.path, sha256=digest.hexdigest(), size=size)
