"""Which holds something has happened to, read from what is committed."""

from __future__ import annotations

import msgspec

from sayso.domain import events as e
from sayso.errors import SaysoError
from sayso.store.base import Entry, Store
from sayso.store.journal import decode

_TAGS = (b'"hold.', b'"vote.', b'"decision.')


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A hold that something has happened to."""

    run_id: str
    n: int
    position: int
    wide: bool = False
    """It may ask others from now on: whoever it asked before may not be told of it any more."""


def moved_by(entry: Entry) -> list[Moved]:
    """Say which holds an entry is about."""
    # Most entries are about nothing that pages list, and are not even read.
    if entry.redacted or not any(tag in entry.payload[:64] for tag in _TAGS):
        return []
    try:
        found = decode(entry)
    except SaysoError:
        return []  # Written by a newer Sayso; its own pages know what it is.
    match found:
        case (
            e.HoldOpened(hold=n)
            | e.HoldRevised(hold=n)
            | e.VoteCast(hold=n)
            | e.VoteUndone(hold=n)
            | e.HoldSettled(hold=n)
            | e.DecisionEffective(hold=n)
            | e.DecisionUndone(hold=n)
        ):
            wide = isinstance(found, e.HoldRevised)
        case e.HoldEscalated(hold=n) | e.HoldReassigned(hold=n):
            wide = True
        case _:
            return []
    return [Moved(run_id=entry.run_id, n=n, position=entry.position, wide=wide)]


async def find_end(store: Store) -> int:
    """Find the position of the last entry, in a number of looks that hardly grows with it."""
    low, step = 0, 1
    while page := await store.tail(after=low + step, limit=1):
        low, step = page[0].position, step * 2
    # Nothing comes after `high`, and something is at `low`, unless there is nothing at all.
    high = low + step
    while low < high:
        middle = (low + high) // 2
        page = await store.tail(after=middle, limit=1)
        low, high = (page[0].position, high) if page else (low, middle)
    return high
