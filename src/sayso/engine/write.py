"""From events to a write: entries, the row of the run, the rows of holds, the conditions.

Everything but the events themselves is derived here, so that no row can say what no event did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.guard import conditions_of
from sayso.domain.hold import Decision, Hold, HoldStatus
from sayso.domain.lifecycle import apply, status_of
from sayso.domain.run import FOLD, Run
from sayso.engine.ids import entry_id
from sayso.store.base import HoldRow, Key, NewEntry, Write

_TOUCHES = e.HoldOpened | e.HoldRevised | e.HoldSettled | e.DecisionEffective | e.DecisionUndone


class Step(NamedTuple):
    """An event, with the run before and after it."""

    before: Run | None
    event: e.Event
    after: Run


def take_steps(run: Run | None, events: Iterable[e.Event]) -> list[Step]:
    """Apply events one after another, and keep every state on the way."""
    steps: list[Step] = []
    for event in events:
        after = apply(run, event)
        steps.append(Step(run, event, after))
        run = after
    return steps


def make_write(
    last: bytes,
    steps: Sequence[Step],
    *,
    owner: str | None = None,
    owner_was: str | None = None,
    key: Key | None = None,
) -> Write:
    """Make the write that appends these steps after the entry with the id `last`."""
    before, after = steps[0].before, steps[-1].after
    events = [step.event for step in steps]
    return Write(
        run=after.id,
        after=before.seq if before else 0,
        after_id=last,
        entries=tuple(
            NewEntry(id=entry_id(), payload=codec.encode_event(cast("e.AnyEvent", event)))
            for event in events
        ),
        project=after.project,
        agent=after.agent,
        thread=after.thread,
        status=status_of(after).value,
        fold=FOLD,
        state=codec.encode_run(after),
        due_at=None if after.final else after.due_at,
        holds=_hold_rows(steps),
        owner=owner,
        owner_was=owner_was,
        key=key,
        only_if=conditions_of(before, events) if before else (),
    )


def _hold_rows(steps: Iterable[Step]) -> tuple[HoldRow, ...]:
    """Make the rows of every hold that these steps touch, as they are after the last."""
    rows: dict[int, HoldRow] = {}
    for before, event, after in steps:
        if before is not None and isinstance(event, _TOUCHES):
            rows[event.hold] = _row(before, after, event.hold, event)
    return tuple(rows.values())


def _row(before: Run, after: Run, n: int, event: e.Event) -> HoldRow:
    hold = after.hold(n)
    if hold is not None:
        return _hold_row(after, hold, hold.status, hold.decision)
    hold = before.hold(n)
    assert hold is not None, "an event touches a hold that was never there"
    decision = event.decision if isinstance(event, e.HoldSettled) else hold.decision
    return _hold_row(before, hold, HoldStatus.SETTLED, decision)


def _hold_row(run: Run, hold: Hold, status: HoldStatus, decision: Decision | None) -> HoldRow:
    call = run.call(hold.call)
    assert call is not None, "a hold without its call"
    return HoldRow(
        run_id=run.id,
        n=hold.n,
        call=hold.call,
        kind=hold.kind,
        tool=call.tool,
        version=hold.version,
        digest=hold.digest,
        status=status.value,
        suspension=hold.suspension,
        entry=hold.entry,
        revised=hold.revised,
        args_entry=call.entry,
        opened_at=hold.opened_at,
        deadline=hold.deadline,
        who=hold.approvers,
        decision=None if decision is None else codec.encode_decision(decision),
    )
