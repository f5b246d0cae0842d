"""Events put together by hand: right in everything but what a test makes wrong."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState
from sayso.domain.hold import Approval, Decision, Hold, Verdict
from sayso.domain.lifecycle import apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run, with_call
from sayso.errors import IllegalEvent

from .build import (
    MIRA,
    NOW,
    QUESTION,
    WORKER,
    answer,
    call,
    commit,
    doubted,
    executing,
    held,
    started,
)

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


def wondered(run: Run, ref: str = "1.0", **changes: Any) -> e.HoldOpened:
    """What a body asks at the place that it has come to."""
    row = call(run, ref)
    asked = {"then": "continue", "step": row.step + 1, "version": 1, "digest": "q"}
    return opened(run, ref, **{**asked, "ask": QUESTION, **changes})


def continued(row: CallRow, **changes: Any) -> e.CallContinued:
    event = e.CallContinued(
        call=row.ref, attempt=row.attempt + 1, worker=WORKER, tick=7, timeout_ms=1000
    )
    return replace(event, **changes)


def step(row: CallRow, **changes: Any) -> e.StepStarted:
    event = e.StepStarted(
        call=row.ref,
        attempt=row.attempt,
        step=row.step + 1,
        name="reserve",
        digest="s",
        effect="once",
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


def in_state(state: CallState, *, hold: bool, stepping: bool = False) -> Run:
    """A run forged so that its only call is in this state, with a hold on it or not, and perhaps
    in the middle of its first step.
    """
    run = doubted(executing("d")) if state is CallState.DOUBTED else held("d")
    holds = tuple(replace(one, editable=True) for one in run.holds) if hold else ()
    row = replace(call(run), state=state, stepping=stepping, step=int(stepping))
    return replace(with_call(run, row), holds=holds)
