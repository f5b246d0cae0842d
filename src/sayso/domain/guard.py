"""What must still be true, by the store's own clock, when an append is committed.

Deadlines are compared inside the append, so that neither a late sweeper nor a slow client is a way
around them.
"""

from __future__ import annotations

from collections.abc import Iterable

from sayso.domain import events as e
from sayso.domain.hold import Expired, Hold, Withdrawn
from sayso.domain.people import PERSON, Basis
from sayso.domain.run import Run
from sayso.domain.value import Value


class Before(Value, frozen=True, kw_only=True):
    """Store time is earlier than this."""

    at: int
    hold: int = 0


class Since(Value, frozen=True, kw_only=True):
    """Store time is this or later."""

    at: int
    hold: int = 0


class ItemAt(Value, frozen=True, kw_only=True):
    """The item of the run's project with this kind and id is at this rev; 0: there is none.

    No rev is ever given twice, so an item that was dropped and made anew is another one.
    """

    kind: str
    id: str
    rev: int


Condition = Before | Since | ItemAt
_UNCONDITIONAL = frozenset(
    {
        e.CallFinished,
        e.HoldOpened,
        e.MessageReceived,
        e.RunCompleted,
        e.RunResumed,
        e.RunSuspended,
        e.TurnTaken,
    }
)
"""What most appends are made of, and nothing can rule out; all else is matched."""


def conditions_of(run: Run, events: Iterable[e.Event]) -> tuple[Condition, ...]:
    """Derive from the run before them what must hold when these events are committed."""
    found: list[Condition] = []
    for event in events:
        if type(event) in _UNCONDITIONAL:
            continue
        match event:
            case e.CallStarted(call=ref, basis=basis):
                row = run.call(ref)
                if row is not None and row.start_by is not None:
                    found.append(Before(at=row.start_by))
                if event.grant_until is not None:
                    found.append(Before(at=event.grant_until))
                found += _resting_on(basis)
            case e.HoldSettled(hold=n, decision=decision) | e.VoteCast(hold=n, decision=decision):
                found += _conditions(run.hold(n), event)
                found += _resting_on(decision.basis)
            case e.HoldRevised(hold=n, basis=basis) | e.HoldReassigned(hold=n, basis=basis):
                found += _conditions(run.hold(n), event)
                found += _resting_on(basis)
            case e.DecisionEffective(hold=n) | e.DecisionUndone(hold=n) | e.HoldEscalated(hold=n):
                found += _conditions(run.hold(n), event)
            case _:
                pass
    return tuple(dict.fromkeys(found))


def _resting_on(basis: Iterable[Basis]) -> list[Condition]:
    found: list[Condition] = []
    for one in basis:
        found.append(ItemAt(kind=PERSON, id=one.person, rev=one.rev))
        if one.until is not None:
            found.append(Before(at=one.until))
    return found


def _conditions(hold: Hold | None, event: e.Event) -> list[Condition]:
    if hold is None:  # Opened by this very append.
        return []
    deadline = hold.deadline
    effective_at = None if hold.decision is None else hold.decision.effective_at
    match event:
        case e.HoldSettled(decision=decision) if isinstance(decision.verdict, Withdrawn):
            return []
        case e.HoldSettled(decision=decision, hold=n) if isinstance(decision.verdict, Expired):
            return [] if deadline is None else [Since(at=deadline, hold=n)]
        case (
            e.HoldSettled(hold=n)
            | e.HoldRevised(hold=n)
            | e.VoteCast(hold=n)
            | e.HoldReassigned(hold=n)
        ):
            return [] if deadline is None else [Before(at=deadline, hold=n)]
        case e.HoldEscalated(hold=n, at=at):
            return [Since(at=at, hold=n)]
        case e.DecisionEffective(hold=n) if effective_at is not None:
            return [Since(at=effective_at, hold=n)]
        case e.DecisionUndone(hold=n) if effective_at is not None:
            return [Before(at=effective_at, hold=n)]
        case _:
            return []
