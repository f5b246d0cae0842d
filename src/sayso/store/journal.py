"""Reading journals as events rather than bytes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain.events import AnyEvent
from sayso.domain.lifecycle import apply_all
from sayso.domain.recorded import Recorded
from sayso.domain.run import Run
from sayso.errors import NotUnderstood, StoreError
from sayso.store.base import PAGE_MAX, Entry, HoldFound, Store
from sayso.store.look import NOTHING, Look, Wish

if TYPE_CHECKING:
    from sayso.store.query import HoldQuery


def decode(entry: Entry) -> AnyEvent | None:
    """Read an entry's event; None if it was redacted."""
    return None if entry.redacted else codec.decode_event(entry.payload)


def recorded(entry: Entry) -> Recorded:
    """Read an entry with its place and time."""
    return Recorded(
        run_id=entry.run_id,
        seq=entry.seq,
        at=entry.at,
        event=decode(entry),
        position=entry.position,
    )


async def read_journal(
    store: Store, run_id: str, *, after: int = 0, until: int | None = None
) -> list[Entry]:
    """Read all of a run's entries after one, page by page; with `until`, up to that one or more."""
    found: list[Entry] = []
    while True:
        page = await store.journal(run_id, after=after)
        found.extend(page)
        if len(page) < PAGE_MAX or (until is not None and page[-1].seq >= until):
            return found
        after = page[-1].seq


async def look_at(store: Store, run_id: str, wish: Wish) -> Look | None:
    """Read a run's row; where each read takes a round trip, what else is wished for as well. What
    cannot be read now is for whoever needs it to read, and to complain of.
    """
    if wish != NOTHING and store.queue is not None:
        with contextlib.suppress(StoreError):
            return await store.look(run_id, wish)
    row = await store.load(run_id)
    return None if row is None else Look(row=row)


async def read_holds(store: Store, query: HoldQuery) -> list[HoldFound]:
    """List all holds that are asked for, page by page."""
    found: list[HoldFound] = []
    query = replace(query, limit=PAGE_MAX)
    while True:
        page = await store.holds(query)
        found.extend(page)
        if len(page) < PAGE_MAX:
            return found
        query = replace(query, after=page[-1].key)


async def replay(store: Store, run_id: str) -> Run:
    """Fold a run's state from its journal alone."""
    events = [decode(entry) for entry in await read_journal(store, run_id)]
    if None in events:
        raise NotUnderstood(f"the state of {run_id!r} cannot be folded: an entry was redacted")
    return apply_all(None, [event for event in events if event is not None])
