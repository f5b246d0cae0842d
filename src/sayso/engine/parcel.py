"""Which parcels an append puts into the outbox, and which it removes: notices about holds.

Rule 1: they follow from what a run asks before the append and after it, and from nothing else. So
none is there for what was never committed, and none stays for what nobody is asked any more.
Rule 2: a parcel holds ids and times. What is shown of a hold is read when it is delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, get_args

import msgspec

from sayso.domain import events as e
from sayso.domain.hold import Hold, hold_id
from sayso.domain.run import Run
from sayso.store.base import NewParcel
from sayso.store.rows import Step

Kind = Literal["asked", "escalated", "reminder", "voted", "settled"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TOLD: frozenset[Kind] = frozenset({"asked", "escalated", "reminder"})
"""What everybody is told who tells people. The rest is for who keeps a message up to date."""
_WHILE_ASKED: tuple[Kind, ...] = ("voted", "reminder")
_UNTIL_SETTLED: tuple[Kind, ...] = ("asked", "escalated")
EVERY_MS_MIN, EVERY_MS_MAX = 60_000, 10 * 365 * 24 * 3_600_000
"""How often people are reminded at most, and at least."""


LATER = "later"
"""The kind of a parcel by which somebody is reminded who wants to be; told as a `reminder`."""


class Slip(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What is inside of a parcel."""

    hold: str
    at: int
    """When what it is about happened, in store time: the same however often it is delivered."""
    to: str = ""
    """The one person whom it is for, if it is not for all who are asked."""


def parcels_of(
    steps: Sequence[Step], *, notices: Collection[Kind]
) -> tuple[tuple[NewParcel, ...], tuple[str, ...]]:
    """Give the parcels that these steps put, and the ids of those that they remove: of the kinds in
    `notices`, and reminders. Those of a rule are there for whoever delivers them.
    """
    before, after = steps[0].before, steps[-1].after
    held = after.holds if before is None else before.holds + after.holds
    if not notices and not [hold for hold in held if hold.remind_every_ms]:
        return (), ()
    was = {} if before is None else _asked(before)
    now = _asked(after)
    at = max((_time(step.event) for step in steps), default=0)
    known = {hold.n for hold in (before.holds if before is not None else ())}
    put: list[NewParcel] = []
    gone: list[str] = []
    for n, hold in now.items():
        old = was.get(n)
        put += _reminder(after, hold, old, at)
        if "asked" in notices and (n not in known or (old is not None and _is_news(old, hold))):
            put.append(_parcel("asked", after, hold, at, due_at=at))
        if "voted" in notices and old is not None and old.votes != hold.votes:
            put.append(_parcel("voted", after, hold, at, due_at=at))
        if old is not None and _period(old) and not _period(hold):
            gone.append(parcel_id("reminder", after.id, n))
    if "escalated" in notices and before is not None:
        risen = {step.event.hold for step in steps if isinstance(step.event, e.HoldEscalated)}
        put += [_parcel("escalated", after, now[n], at, due_at=at) for n in risen & now.keys()]
    for n in was.keys() - now.keys():
        gone += _of(after, was[n], _WHILE_ASKED, notices)
    left = {hold.n for hold in after.holds}
    over = [hold for hold in held if hold.n not in left and not hold.child]
    for hold in over:
        # Not when it is decided: whoever takes that back asks those who were not told yet.
        gone += _of(after, hold, _UNTIL_SETTLED, notices)
        if "settled" in notices:
            put.append(_parcel("settled", after, hold, at, due_at=at))
    return tuple(put), tuple(gone)


def parcel_id(kind: Kind, run_id: str, n: int) -> str:
    """Name a parcel: one of each kind for a hold."""
    return f"{kind}:{hold_id(run_id, n)}"


def read_slip(data: bytes) -> Slip | None:
    """Read what is inside of a parcel; None if this version does not understand it."""
    try:
        return msgspec.json.decode(data, type=Slip)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def reminder_after(opened_at: int, every_ms: int | None, now: int) -> tuple[int, int] | None:
    """Say how many times people were to be reminded by now, and when the next time is; None if
    they are not to be. What was missed meanwhile is not made up for.
    """
    every = _bounded(every_ms)
    if every is None:
        return None
    times = max(0, now - opened_at) // every
    return times, opened_at + (times + 1) * every


def _asked(run: Run) -> dict[int, Hold]:
    """Find what a run asks people. What another run settles is nothing that they are shown."""
    return {hold.n: hold for hold in run.holds if hold.decision is None and not hold.child}


def _reminder(run: Run, hold: Hold, old: Hold | None, at: int) -> list[NewParcel]:
    if old is not None and _period(old) == _period(hold):
        return []
    found = reminder_after(hold.opened_at, hold.remind_every_ms, at)
    return (
        [] if found is None else [_parcel("reminder", run, hold, hold.opened_at, due_at=found[1])]
    )


def _is_news(old: Hold, hold: Hold) -> bool:
    """Tell whether something else is asked, or somebody else in place of who was."""
    return hold.version != old.version or not set(old.approvers) <= set(hold.approvers)


def _of(run: Run, hold: Hold, kinds: Iterable[Kind], notices: Collection[Kind]) -> list[str]:
    """Name the parcels of these kinds that a hold may have."""
    reminds = _period(hold) is not None
    may: list[Kind] = [
        kind for kind in kinds if (reminds if kind == "reminder" else kind in notices)
    ]
    return [parcel_id(kind, run.id, hold.n) for kind in may]


def _period(hold: Hold) -> int | None:
    return _bounded(hold.remind_every_ms)


def _bounded(every_ms: int | None) -> int | None:
    # A ruling that was made by hand may say anything.
    if every_ms is None or every_ms <= 0:
        return None
    return min(max(int(every_ms), EVERY_MS_MIN), EVERY_MS_MAX)


def _parcel(kind: Kind, run: Run, hold: Hold, at: int, *, due_at: int) -> NewParcel:
    slip = Slip(hold=hold_id(run.id, hold.n), at=at)
    name = parcel_id(kind, run.id, hold.n)
    return NewParcel(id=name, kind=kind, due_at=due_at, data=msgspec.json.encode(slip))


def _time(event: e.Event) -> int:
    match event:
        case e.HoldSettled(decision=decision) | e.VoteCast(decision=decision):
            return decision.at
        case _:
            return getattr(event, "at", 0)
