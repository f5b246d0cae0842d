"""What events do to a run: the part of an append that is about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.lifecycle import epilogue
from sayso.domain.run import Run
from sayso.engine.live import Live
from sayso.engine.parcel import Kind
from sayso.engine.sent import Order, Part, Takes
from sayso.engine.write import make_write
from sayso.store.base import Key
from sayso.store.rows import take_steps


def first_part(event: e.RunStarted, worker: str = "", key: Key | None = None) -> Part:
    """Make the first entry of a run."""
    steps = take_steps(None, (event,))
    live = Live(steps[0].after, owner=worker, last=b"")
    write = make_write(b"", steps, owner=worker, key=key)
    return Part(live=live, run=live.run, events=(event,), owner=worker, write=write)


def next_part(
    live: Live,
    events: Sequence[e.Event],
    order: Order,
    *,
    owner: Callable[[str, Run, Takes | None], str | None],
    notices: Collection[Kind],
    now: int,
) -> Part:
    """Say what events do to a run: the end or the change of status that they bring included. The
    rule of its `owner` says whose it is then; None: whose it was.
    """
    before = live.run
    steps = take_steps(before, events)
    if follows := epilogue(steps[-1].after, now):
        steps += take_steps(steps[-1].after, follows)
    after = steps[-1].after
    owned_by = owner(live.owner, after, order.takes)
    owner_was = "" if owned_by else order.owned_by
    items = () if order.items is None else order.items()
    write = make_write(
        live.last,
        steps,
        owner=owned_by,
        owner_was=owner_was,
        key=order.key,
        items=items,
        notices=notices,
    )
    return Part(
        live=live,
        run=after,
        events=tuple([step.event for step in steps]),
        owner=live.owner if owned_by is None else owned_by,
        write=write,
        quiet=order.quiet,
    )


def news_of(part: Part, above: Run, now: int) -> Sequence[e.Event]:
    """Say what the end of a run does to the one that waits for it."""
    run, time = part.run, part.run.work_time
    return settling.settle_child(
        above,
        run.parent_hold,
        settling.verdict_of(run, part.events),
        child=run.id,
        now=now,
        turns=run.turns + run.spent,
        worked_ms=0 if above.work_time is None or time is None else time.worked_by(now),
    )
