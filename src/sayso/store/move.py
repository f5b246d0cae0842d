"""Moving a whole store into another one, so that every run goes on there and none goes on here.

Rule 1: the store that is moved is shut before the first row is read, for every process that has it
open; the one that is filled is opened after the last row was compared, and not before. At no time
can both be worked on.
Rule 2: whoever is killed on the way finds both as they were left, and goes on.
Rule 3: what was moved is read again from both, and has to be the same, byte for byte; every chain
and every seal has to hold where it is now.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Container
from typing import Literal

import msgspec

from sayso.errors import CannotMove, SaysoError
from sayso.store.compare import compare, pages
from sayso.store.transfer import TABLES, Mark, Table, Transfer, over_at


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far a move has come."""

    doing: Literal["carried", "compared"]
    table: str
    done: int
    total: int


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved."""

    source: str
    target: str
    rows: dict[str, int]
    """How many of each table."""


Progress = Callable[[Step], None]


async def move(
    source: Transfer,
    target: Transfer,
    *,
    key_ids: Container[str] | None = None,
    even_if_silent: bool = False,
    progress: Progress = lambda _: None,
) -> Moved:
    """Move everything in a store to another one, which is empty, or was left by this very move.

    `key_ids` are those of the keys that the other one is used with; None: they are not looked at.
    `CannotMove` if somebody works on the store, if the other one has something of its own in it, or
    if they do not have the same in them afterwards.
    """
    await _check_origin(source)
    await _begin(source, target, even_if_silent=even_if_silent)
    for table in TABLES:
        await _carry(source, target, table, progress)
    ticks = [over_at(state) or 0 for _, state in await source.owned()]
    await target.go_on_after(await source.last_rev(), max(ticks, default=0))
    found = await compare(source, target, key_ids, _tell(progress))
    await target.reopen()
    rows = {name: sums.rows for name, sums in found.items()}
    return Moved(source=source.name, target=target.name, rows=rows)


async def undo(source: Transfer, target: Transfer, *, progress: Progress = lambda _: None) -> None:
    """Let a store that was moved go on itself. `CannotMove` if the other was worked on since."""
    mark, there = await source.mark(), await target.mark()
    if mark is None or mark.state != "moved":
        raise CannotMove(f"{source.name!r} was not moved")
    if there is not None and there.token != mark.token:
        raise CannotMove(f"{source.name!r} was moved to {mark.other!r}, not to {target.name!r}")
    half = there is not None and there.state == "filling"
    if not half:
        # One that was never whole has nothing that a restored store could miss; and that one takes
        # no writes all the same, until `sayso restored` has looked at it.
        await _check_origin(source)
    await _check_origin(target)
    undone = Mark(state="undone", other=source.name, token=mark.token, at=_now())
    if half:
        # Nobody could open it yet. Its mark comes last: with that it would be taken for whole.
        await source.reopen()
        await target.shut(undone)
        return
    # Shut before it is looked at: what is the same then stays the same. One that is shut already
    # was left by whoever was interrupted, and nobody knows whether they had looked.
    await target.shut(undone)
    try:
        await compare(source, target, None, _tell(progress))
    except BaseException as error:
        await target.reopen()
        if not isinstance(error, CannotMove):
            raise
        raise CannotMove(
            f"{target.name!r} was worked on since: it is the one to go on with ({error})"
        ) from None
    await source.reopen()


async def _check_origin(store: Transfer) -> None:
    """Refuse a store of which nobody knows what has happened since: over there nobody would ask,
    and what was worked on can look as if it was not.
    """
    if fault := await store.fault():
        mark = await store.mark()
        shut = (
            f"; a move to {mark.other!r} has shut it: `sayso move --undo` opens it for that, "
            f"unless {mark.other!r} is whole, and then that is the one to go on with"
            if mark is not None and mark.state == "moved"
            else ""
        )
        raise CannotMove(
            f"{store.name!r} was restored or copied: {fault}; run `sayso restored` on it first"
            f"{shut}"
        )


async def _begin(source: Transfer, target: Transfer, *, even_if_silent: bool) -> None:
    """Mark both stores, or find them marked by this very move."""
    if source.name == target.name:
        raise CannotMove(f"{source.name!r} cannot be moved into itself")
    mark, there = await source.mark(), await target.mark()
    if mark is not None and mark.state != "moved":
        raise CannotMove(f"{source.name!r} is itself filled by a move that is not finished")
    if mark is not None:
        if there is None or (there.token, there.state) != (mark.token, "filling"):
            raise CannotMove(f"{source.name!r} was moved to {mark.other!r} already")
        return
    token = os.urandom(8).hex()
    if there is not None:
        # Left by a move that was killed before it had shut the source: it has nothing in it yet.
        if there.state != "filling" or there.other != source.name or await _has_rows(target):
            raise CannotMove(
                f"{target.name!r} is taken by a move from {there.other!r}: finish that, or remove "
                "it and name a store that is not there yet"
            )
        token = there.token
    else:
        await target.begin(Mark(state="filling", other=source.name, token=token, at=_now()))
    mark = Mark(state="moved", other=target.name, token=token, at=_now())
    try:
        await source.shut(mark, even_if_silent=even_if_silent)
    except BaseException:
        # Unless it was shut, and only the answer was lost, the other one is as empty as it was.
        with contextlib.suppress(SaysoError):
            if await source.mark() is None:
                await target.reopen()
        raise


async def _carry(source: Transfer, target: Transfer, table: Table, progress: Progress) -> None:
    total, done = await source.count(table), await target.count(table)
    after = await target.last(table)
    async for page in pages(source, table, after):
        await target.fill(table, page, after)
        after = table.key_of(page[-1])
        done += len(page)
        progress(Step(doing="carried", table=table.name, done=done, total=total))


async def _has_rows(store: Transfer) -> bool:
    return any([await store.last(table) is not None for table in TABLES])


def _tell(progress: Progress) -> Callable[[str, int, int], None]:
    def tell(table: str, done: int, total: int) -> None:
        progress(Step(doing="compared", table=table, done=done, total=total))

    return tell


def _now() -> int:
    return int(time.time() * 1000)
