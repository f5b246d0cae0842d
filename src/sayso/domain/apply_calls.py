"""What the events about calls, their attempts and their steps do to a run. Part of `lifecycle`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState, Returned, Unknown
from sayso.domain.run import CallRow, Run, with_call
from sayso.errors import IllegalEvent

_S = CallState
CALL_MOVES: dict[type[e.Event], dict[CallState, CallState]] = {
    e.CallStarted: {_S.READY: _S.STARTED, _S.APPROVED: _S.STARTED},
    e.CallContinued: {_S.ANSWERED: _S.STARTED},
    e.StepStarted: {_S.STARTED: _S.STARTED},
    e.StepFinished: {_S.STARTED: _S.STARTED, _S.ANSWERED: _S.ANSWERED},
    e.StepVoided: {_S.STARTED: _S.STARTED, _S.ANSWERED: _S.ANSWERED},
    e.BodyParked: {_S.STARTED: _S.ANSWERED},
    e.AttemptVoided: {_S.STARTED: _S.READY},
    e.CallDoubted: {_S.STARTED: _S.DOUBTED, _S.ANSWERED: _S.DOUBTED},
    e.CallFinished: {state: _S.DONE for state in _S if state is not _S.DONE},
}
"""Which event moves a call from which state to which; `apply_holds.HOLD_MOVES` has those of holds.
`AttemptVoided` takes a call that was approved back to approved.
"""
_BEGUN = (_S.STARTED, _S.DOUBTED, _S.WAITING, _S.ANSWERED)


def move(
    run: Run, ref: str, event: e.Event, moves: Mapping[CallState, CallState] | None = None
) -> CallRow:
    """Give a call as it is after an event, or refuse the event."""
    row = run.call(ref)
    found = CALL_MOVES[type(event)] if moves is None else moves
    state = row and found.get(row.state)
    if row is None or state is None:
        where = f"while {row.state}" if row else "of a turn that is over"
        raise IllegalEvent(f"{type(event).__name__} is not legal for the call {ref} {where}")
    return replace(row, state=state)


def call_started(run: Run, event: e.CallStarted) -> Run:
    """Let a worker own this attempt."""
    row = move(run, event.call, event)
    _refuse_ending(run)
    if event.digest != row.digest or event.attempt != row.attempt + 1:
        raise IllegalEvent(f"attempt {event.attempt} of {event.call} is not what may start")
    return with_call(run, _owned(row, event))


def call_continued(run: Run, event: e.CallContinued) -> Run:
    """Let a worker own the body from here on."""
    row = move(run, event.call, event)
    _refuse_ending(run)
    if event.attempt != row.attempt + 1 or row.stepping:
        raise IllegalEvent(f"the body of {event.call} cannot go on as attempt {event.attempt}")
    return with_call(run, _owned(row, event))


def step_started(run: Run, event: e.StepStarted) -> Run:
    """Note that a body is about to take a step."""
    row = _of_attempt(move(run, event.call, event), event.attempt)
    _refuse_ending(run)
    if row.stepping or event.step != row.step + 1:
        raise IllegalEvent(f"step {event.step} is not the next one of {event.call}")
    return with_call(run, replace(row, step=event.step, stepping=True))


def step_finished(run: Run, event: e.StepFinished) -> Run:
    """Note that a step has its outcome."""
    row = _of_step(move(run, event.call, event), event)
    return with_call(run, replace(row, stepping=False))


def step_voided(run: Run, event: e.StepVoided) -> Run:
    """Let a step be taken again."""
    row = _of_step(move(run, event.call, event), event)
    return with_call(run, replace(row, step=row.step - 1, stepping=False))


def body_parked(run: Run, event: e.BodyParked) -> Run:
    """Let a body go on that nobody has in memory any more."""
    row = _of_attempt(move(run, event.call, event), event.attempt)
    if row.stepping:
        raise IllegalEvent("a step without an outcome has to be looked into first")
    return with_call(run, replace(row, voids=row.voids + 1))


def call_finished(run: Run, event: e.CallFinished) -> Run:
    """Give a call its one outcome."""
    before = run.call(event.call)
    row = move(run, event.call, event)
    assert before is not None  # `move` has found it.
    begun = before.state in _BEGUN
    if (event.attempt != row.attempt) if begun else event.attempt:
        raise IllegalEvent(f"this outcome is not of attempt {row.attempt}")
    if run.holds_of(row.ref):
        raise IllegalEvent("a call with an open hold has no outcome yet")
    doubted = before.state is _S.DOUBTED and not isinstance(event.outcome, Returned)
    if doubted or isinstance(event.outcome, Unknown):
        run = replace(run, doubts=(*run.doubts, (row.digest, row.ref)))
    return with_call(run, row)


def attempt_voided(run: Run, event: e.AttemptVoided) -> Run:
    """Let a call start again whose attempt does not count."""
    row = _of_attempt(move(run, event.call, event), event.attempt)
    if row.step:
        raise IllegalEvent("a body that has taken steps goes on from them")
    state = _S.APPROVED if row.approved else _S.READY
    return with_call(run, replace(row, state=state, voids=row.voids + 1))


def call_doubted(run: Run, event: e.CallDoubted) -> Run:
    """Note that an attempt may or may not have had its effect."""
    return with_call(run, _of_attempt(move(run, event.call, event), event.attempt))


def _owned(row: CallRow, event: e.CallStarted | e.CallContinued) -> CallRow:
    return replace(
        row,
        attempt=event.attempt,
        worker=event.worker,
        tick=event.tick,
        timeout_ms=event.timeout_ms,
    )


def _refuse_ending(run: Run) -> None:
    if run.ending:
        raise IllegalEvent("nothing starts in a run that is to end")


def _of_attempt(row: CallRow, attempt: int) -> CallRow:
    if row.attempt != attempt:
        raise IllegalEvent(f"attempt {attempt} is not the one under way")
    return row


def _of_step(row: CallRow, event: e.StepFinished | e.StepVoided) -> CallRow:
    row = _of_attempt(row, event.attempt)
    if not row.stepping or event.step != row.step:
        raise IllegalEvent(f"step {event.step} of {event.call} is not under way")
    return row
