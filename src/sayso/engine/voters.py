"""Who decides, and who has voted: what they are worth when it is decided."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.apply_holds import requesters
from sayso.domain.entitled import entitled
from sayso.domain.guard import Before, ItemAt
from sayso.domain.hold import Decision, hold_id, may_decide
from sayso.domain.people import Authority, Basis
from sayso.domain.run import Run
from sayso.domain.value import SAYSO, Principal
from sayso.engine.live import Live
from sayso.engine.parts import Parts
from sayso.errors import ConditionFailed, NotAllowed, WorkerMayLive
from sayso.store.base import Entry, HoldFound
from sayso.store.look import Wish
from sayso.store.views import HoldView, hold_view

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
    votes: dict[int, tuple[Decision, ...]]
    """By hold, the votes that were looked at."""
    live: Live | None = None
    """The run as it was when they were looked at."""
    journal: Sequence[Entry] = ()
    """What was read of its journal."""


async def standing_of(
    parts: Parts, run_id: str, ns: Sequence[int], by: Principal, *, journal_max: int = 0
) -> Standing:
    """Read what those are worth who decide holds, and who have voted on them; with `journal_max`, a
    journal as short as this as well, if it takes no time.
    """
    wish = Wish(items=parts.records.wants(by), journal_max=journal_max)
    live = await parts.ledger.look(run_id, wish)
    run, records = live.run, parts.records.beside(live)
    who = await records.authority(run.project, by)
    lapsed: dict[int, list[str]] = {}
    basis: dict[int, tuple[Basis, ...]] = {}
    living: dict[int, str] = {}
    votes: dict[int, tuple[Decision, ...]] = {}
    for n in ns:
        hold = run.hold(n)
        if hold is not None and hold.may_live:
            from sayso.store.doubt import life_of, may_live_still

            living[n] = may_live_still(hold.worker, await life_of(parts.store, hold.worker))
        votes[n] = () if hold is None else hold.votes
        for vote in votes[n]:
            voter = await records.authority(run.project, vote.by)
            try:
                assert hold is not None, "it has votes"
                right = entitled(run, hold, voter)
            except NotAllowed:
                lapsed.setdefault(n, []).append(vote.by.id)
                continue
            if {voter.by.id, right.of} - {""} <= {*vote.persons}:
                basis[n] = (*basis.get(n, ()), *right.basis)
            else:
                # They turn out to be, or to speak for, somebody else: who may have voted as well.
                lapsed.setdefault(n, []).append(vote.by.id)
    return Standing(
        who=who,
        lapsed=lapsed,
        basis=basis,
        living=living,
        votes=votes,
        live=live,
        journal=live.fold(),
    )


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


def check_votes(run: Run, n: int, standing: Standing) -> None:
    """Refuse to count votes that nobody has looked at: they came in meanwhile."""
    hold = run.hold(n)
    if hold is not None and hold.votes != standing.votes[n]:
        raise ConditionFailed("somebody has voted meanwhile", condition=standing)


async def asked(parts: Parts, found: HoldFound, who: Authority) -> HoldView | None:
    """Give a view of a hold if it asks somebody. One that is for others than who asked for it does
    not ask them, whatever name they go by.
    """
    row = found.row
    # A service that owns a run is not asked for the approvals in it.
    if not may_decide(row.who, who, row.kind):
        return None
    view = hold_view(found)
    if row.status == "settled" or not view.not_requester:
        return view
    run = await parts.ledger.load(row.run_id)
    hold = run.hold(row.n)
    return None if hold is not None and who.is_one_of(requesters(run, hold)) else view


def records_moved(error: BaseException) -> bool:
    """Tell whether an append was refused because what it rests on is not what it was: a person's
    record, the time that somebody stands in for another, or the votes before it.
    """
    condition = getattr(error, "condition", None)
    over = isinstance(condition, Before) and not condition.hold
    return isinstance(error, ConditionFailed) and (over or isinstance(condition, ItemAt | Standing))


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
