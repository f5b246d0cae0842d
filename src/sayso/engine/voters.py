"""Who decides, and who has voted: what they are worth when it is decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.entitled import entitled
from sayso.domain.guard import ItemAt
from sayso.domain.hold import hold_id
from sayso.domain.people import Authority, Basis
from sayso.domain.run import Run
from sayso.domain.value import SAYSO, Principal
from sayso.engine.parts import Parts
from sayso.errors import ConditionFailed, NotAllowed, WorkerMayLive
from sayso.store.doubt import life_of, may_live_still

TRIES_MAX = 20
"""How often a decision is tried while people's records change."""

T = TypeVar("T")


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What the people are worth right now who decide, or have voted."""

    who: Authority
    lapsed: dict[int, list[str]]
    """By hold, those whose vote does not count any more."""
    basis: dict[int, tuple[Basis, ...]]
    """By hold, the records by which the others' still does."""
    living: dict[int, str]
    """By hold of a call in doubt that may still be under way: why it cannot be run again now."""


async def standing_of(parts: Parts, run_id: str, ns: Sequence[int], by: Principal) -> Standing:
    """Read what those are worth who decide holds, and who have voted on them."""
    run = await parts.ledger.load(run_id)
    records = parts.records
    lapsed: dict[int, list[str]] = {}
    basis: dict[int, tuple[Basis, ...]] = {}
    living: dict[int, str] = {}
    for n in ns:
        hold = run.hold(n)
        if hold is not None and hold.may_live:
            living[n] = may_live_still(hold.worker, await life_of(parts.store, hold.worker))
        for vote in () if hold is None else hold.votes:
            voter = await records.authority(run.project, vote.by)
            try:
                assert hold is not None, "it has votes"
                basis[n] = (*basis.get(n, ()), *entitled(run, hold, voter).basis)
            except NotAllowed:
                lapsed.setdefault(n, []).append(vote.by.id)
    who = await records.authority(run.project, by)
    return Standing(who=who, lapsed=lapsed, basis=basis, living=living)


def check_over(run: Run, n: int, standing: Standing) -> None:
    """Refuse to run a call again whose attempt before may still be under way. Fencing protects the
    journal from a worker that comes back, and nothing outside.
    """
    hold = run.hold(n)
    if hold is None or not hold.may_live:
        return
    # One that was asked about only since then was not looked at.
    why = standing.living.get(n, "it was given up only just now: look at it again")
    if why:
        name = hold_id(run.id, n)
        raise WorkerMayLive(f"{name!r} cannot be run again now: {why}", worker=hold.worker)


def records_moved(error: BaseException) -> bool:
    """Tell whether an append was refused because a person's record is not what it was."""
    condition = getattr(error, "condition", None)
    return isinstance(error, ConditionFailed) and isinstance(condition, ItemAt)


async def while_records_move(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try again on what the records say now."""
    for _ in range(TRIES_MAX):
        try:
            return await attempt()
        except ConditionFailed as error:
            if not records_moved(error):
                raise
    return await attempt()


def escalate(run: Run, n: int, now: int) -> list[e.Event]:
    """Ask those as well about a hold whose time has come."""
    # Whom time has brought in may decide, whether or not a sweeper has noticed.
    found = settling.escalate(run, now=now)
    return [one for one in found if isinstance(one, e.HoldEscalated) and one.hold == n]


def lapse(run: Run, n: int, persons: Iterable[str], now: int) -> list[e.Event]:
    """Count the votes of these persons no more."""
    hold = run.hold(n)
    votes = () if hold is None else hold.votes
    why = "whoever cast it may not decide this any more"
    return [
        e.VoteUndone(hold=n, person=vote.by.id, by=SAYSO, at=now, why=why)
        for vote in votes
        if vote.by.id in persons
    ]
