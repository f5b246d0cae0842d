"""Who may decide a hold, and why not: the one place that says so to people.

`apply_holds` checks the same of every event once more, as far as the journal alone can tell.
"""

from __future__ import annotations

import msgspec

from sayso.domain.apply_holds import requesters
from sayso.domain.hold import (
    Decision,
    Expired,
    Hold,
    hold_id,
    may_decide,
    name_approvers,
)
from sayso.domain.people import Authority, Right
from sayso.domain.run import Run
from sayso.domain.value import CLOCK
from sayso.errors import AlreadyDecided, HoldExpired, NotAllowed, UnknownHold


def decidable(run: Run, n: int, *, by: Authority, now: int) -> tuple[Hold, Right]:
    """Find a hold that somebody may decide now, and by what right; or say why not."""
    hold = run.hold(n)
    if hold is None:
        raise UnknownHold(f"there is no open hold {hold_id(run.id, n)!r}")
    right = entitled(run, hold, by)
    if hold.decision is not None:
        raise AlreadyDecided(decision=hold.decision)
    if hold.deadline is not None and now >= hold.deadline:
        raise HoldExpired(decision=expiry(hold, hold.deadline))
    return hold, right


def entitled(run: Run, hold: Hold, by: Authority) -> Right:
    """Say by what right somebody may decide a hold, or raise `NotAllowed`."""
    name = hold_id(run.id, hold.n)
    if not by.active:
        raise NotAllowed(f"{by.by} may not decide {name!r}: they are no longer active")
    right = by.right(hold.approvers)
    if hold.child or right is None or not may_decide(hold.approvers, by, hold.kind):
        asked = hold.child or name_approvers(hold.approvers)
        raise NotAllowed(f"{by.by} may not decide {name!r}: it asks {asked}")
    if by.is_one_of(requesters(run, hold)):
        raise NotAllowed(
            f"{by.by} may not decide {name!r}: it is for others than who asked for it, made it "
            "what it is, or stands in for them"
        )
    return right


def recorded_right(by: Authority, right: Right) -> str:
    """Say what is written down of a right: nothing where somebody is meant by their own name."""
    own = right.name in (f"user:{by.by.id}", "anyone") and not right.of
    return "" if own or by.by.kind != "person" else right.name


def expiry(hold: Hold, at: int) -> Decision:
    """Make what time decides of a hold that nobody has."""
    silent = msgspec.Raw(hold.silent_answer.encode()) if hold.silent_answer else None
    return Decision(
        verdict=Expired(silence=hold.on_silence, answer=silent),
        by=CLOCK,
        at=at,
        effective_at=at,
        digest=hold.digest,
        channel="clock",
    )
