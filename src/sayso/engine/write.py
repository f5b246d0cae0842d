"""From events to a write: entries, the row of the run, the rows of holds, the conditions.

Everything but the events themselves is derived from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.guard import conditions_of
from sayso.domain.run import FOLD
from sayso.domain.standing import status_of
from sayso.engine.ids import entry_ids
from sayso.engine.parcel import Kind, parcels_of
from sayso.store.base import ItemPut, Key, NewEntry, Write
from sayso.store.rows import Step, hold_rows


def make_write(
    last: bytes,
    steps: Sequence[Step],
    *,
    owner: str | None = None,
    owner_was: str | None = None,
    key: Key | None = None,
    items: Sequence[ItemPut] = (),
    notices: Collection[Kind] = (),
) -> Write:
    """Make the write that appends these steps after the entry with the id `last`. `notices` are
    the kinds of them that somebody is to be told.
    """
    before, after = steps[0].before, steps[-1].after
    events = [step.event for step in steps]
    ids = entry_ids(len(events))
    parcels, unparcels = parcels_of(steps, notices=notices)
    return Write(
        run=after.id,
        after=before.seq if before else 0,
        after_id=last,
        entries=tuple(
            [
                NewEntry(id=one, payload=codec.encode_event(event))
                for one, event in zip(ids, events, strict=True)
            ]
        ),
        project=after.project,
        agent=after.agent,
        thread=after.thread,
        status=status_of(after).value,
        fold=FOLD,
        state=codec.encode_run(after),
        due_at=None if after.final else after.due_at,
        holds=tuple(hold_rows(steps).values()),
        owner=owner,
        owner_was=owner_was,
        key=key,
        only_if=conditions_of(before, events) if before else (),
        items=tuple(items),
        redacts=_redacts(events) if after.final else (),
        parcels=parcels,
        unparcels=unparcels,
    )


def _redacts(events: Iterable[e.Event]) -> tuple[int, ...]:
    return tuple([n for one in events if isinstance(one, e.Erasing) for n in one.erases])
