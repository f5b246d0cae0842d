"""Events put together by hand: right in everything but what a test makes wrong."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState
from sayso.domain.hold import Approval, Decision, Hold, Verdict
from sayso.domain.lifecycle import apply_all
from sayso.domain.policy import Require
from sayso.domain.run import CallRow, Run, with_call
from sayso.errors import IllegalEvent

from .build import MIRA, NOW, WORKER, answer, call, commit, doubted, executing, held, started

HOUR = 3_600_000
TIMED = Require(within_ms=HOUR)
PAID = e.RunCompleted(output=msgspec.Raw(b'"Paid."'))
VALUE = msgspec.Raw(b"1")


def illegal(run: Run | None, *events: e.Event, match: str) -> None:
    with pytest.raises(IllegalEvent, match=match):
        apply_all(run, events)


def completed() -> Run:
    run = started()
    return commit(run, answer(run), PAID)


def opened(run: Run, ref: str = "1.0", **changes: Any) -> e.HoldOpened:
    row = call(run, ref)
    event = e.HoldOpened(
        hold=run.holds_opened + 1,
        call=ref,
        digest=row.digest,
        version=row.version,
        ask=Approval(),
        ruling=Require(),
        approvers=("user:mira",),
        suspension=run.suspensions + 1,
        at=NOW,
    )
    return replace(event, **changes)


def revised(run: Run, n: int = 1, **changes: Any) -> e.HoldRevised:
    hold = the_hold(run, n)
    event = e.HoldRevised(
        hold=n,
        version=hold.version + 1,
        args=msgspec.Raw(b"{}"),
        digest="d2",
        by=MIRA,
        ruling=Require(),
        approvers=("user:mira",),
        at=NOW,
        deadline=hold.deadline,
    )
    return replace(event, **changes)


def settled(run: Run, verdict: Verdict, n: int = 1, **changes: Any) -> e.HoldSettled:
    hold = the_hold(run, n)
    made = Decision(verdict=verdict, by=MIRA, at=NOW, effective_at=NOW, digest=hold.digest)
    return e.HoldSettled(hold=n, version=hold.version, decision=replace(made, **changes))


def attempt(row: CallRow, **changes: Any) -> e.CallStarted:
    event = e.CallStarted(
        call=row.ref,
        attempt=row.attempt + 1,
        worker=WORKER,
        digest=row.digest,
        tick=7,
        timeout_ms=1000,
    )
    return replace(event, **changes)


def the_hold(run: Run, n: int = 1) -> Hold:
    hold = run.hold(n)
    assert hold is not None
    return hold


def in_state(state: CallState, *, hold: bool) -> Run:
    """A run forged so that its only call is in this state, with a hold on it or not."""
    run = doubted(executing("d")) if state is CallState.DOUBTED else held("d")
    holds = tuple(replace(one, editable=True) for one in run.holds) if hold else ()
    return replace(with_call(run, replace(call(run), state=state)), holds=holds)
