"""What must still be true, by the store's clock and on its shelf, when an append is committed.

Deadlines are compared inside the append, so that neither a late sweeper nor a slow client is a way
around them; so is what a person may do and how often a grant was used, so that neither is taken
away while somebody is still acting on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sayso.domain import events as e
from sayso.domain.hold import Expired, Withdrawn
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


def conditions_of(run: Run, events: Iterable[e.Event]) -> tuple[Condition, ...]:
    """Derive from the run before them what must hold when these events are committed."""
    found: list[Condition] = []
    for event in events:
        if not isinstance(
            event, e.HoldSettled | e.HoldRevised | e.DecisionEffective | e.DecisionUndone
        ):
            continue
        hold = run.hold(event.hold)
        if hold is None:  # Opened by this very append.
            continue
        found.extend(
            _conditions(hold.deadline, hold.decision and hold.decision.effective_at, event)
        )
    return tuple(found)


def _conditions(deadline: int | None, effective_at: int | None, event: e.Event) -> list[Condition]:
    match event:
        case e.HoldSettled(decision=decision) if isinstance(decision.verdict, Withdrawn):
            return []
        case e.HoldSettled(decision=decision, hold=n) if isinstance(decision.verdict, Expired):
            return [] if deadline is None else [Since(at=deadline, hold=n)]
        case e.HoldSettled(hold=n) | e.HoldRevised(hold=n):
            return [] if deadline is None else [Before(at=deadline, hold=n)]
        case e.DecisionEffective(hold=n) if effective_at is not None:
            return [Since(at=effective_at, hold=n)]
        case e.DecisionUndone(hold=n) if effective_at is not None:
            return [Before(at=effective_at, hold=n)]
        case _:
            return []
