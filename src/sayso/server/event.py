"""What goes over the wire of a journal: events as readers need them.

Rule: a projection, and a bounded promise. What is in the journal may change its form; what is sent
has this one, and says of the rest only that it happened.
"""

from __future__ import annotations

from typing import Any

from sayso.domain import events as e
from sayso.domain.call import Call, call_id
from sayso.domain.digest import decode_value
from sayso.domain.hold import ASK_KINDS, hold_id, request_id
from sayso.domain.recorded import Recorded
from sayso.domain.secret import mask_args
from sayso.server.wire import Out, decision_out, outcome_out, principal_out
from sayso.store.views import moment


class EventOut(Out):
    """An event of a run."""

    run_id: str
    seq: int
    at: str
    type: str
    """Such as `turn.taken`, `hold.opened`, `call.finished`, `run.completed`."""
    data: dict[str, Any]


def event_out(found: Recorded) -> EventOut:
    """Show an event with its place."""
    return EventOut(
        run_id=found.run_id,
        seq=found.seq,
        at=moment(found.at).isoformat(),
        type=found.type,
        data=_data(found.run_id, found.event),
    )


def _data(run: str, event: e.AnyEvent | None) -> dict[str, Any]:
    match event:
        case e.RunStarted():
            return {
                "agent": event.agent,
                "by": principal_out(event.by).model_dump(),
                "input": event.input,
                "thread": event.thread or None,
            }
        case e.MessageReceived():
            return {"by": principal_out(event.by).model_dump(), "text": event.text}
        case e.TurnTaken():
            calls = [_call(run, call) for call in event.calls]
            return {
                "turn": event.turn,
                "strand": event.strand,
                "text": event.text,
                "calls": calls,
            }
        case e.CommandReceived():
            return {"by": principal_out(event.by).model_dump(), "call": _call(run, event.call)}
        case e.CallStarted():
            return {"call_id": call_id(run, event.call), "attempt": event.attempt}
        case e.CallFinished():
            return {"call_id": call_id(run, event.call), "outcome": outcome_out(event.outcome)}
        case e.RunCompleted():
            return {"output": decode_value(bytes(event.output))}
        case e.RunFailed():
            return {"error": event.error}
        case e.RunCancelled():
            return {"reason": event.reason}
        case _:
            return _hold_data(run, event)


def _hold_data(run: str, event: e.AnyEvent | None) -> dict[str, Any]:
    match event:
        case e.HoldOpened():
            return {
                "hold_id": hold_id(run, event.hold),
                "request_id": request_id(run, event.suspension),
                "call_id": call_id(run, event.call),
                "kind": ASK_KINDS[type(event.ask)],
                "digest": event.digest,
                "version": event.version,
                "deadline": None if event.deadline is None else moment(event.deadline).isoformat(),
            }
        case e.HoldRevised():
            return {
                "hold_id": hold_id(run, event.hold),
                "digest": event.digest,
                "version": event.version,
                "by": principal_out(event.by).model_dump(),
            }
        case e.HoldSettled() | e.VoteCast():
            return {
                "hold_id": hold_id(run, event.hold),
                "version": event.version,
                "decision": decision_out(event.decision).model_dump(mode="json"),
            }
        case (
            e.HoldEscalated()
            | e.HoldReassigned()
            | e.DecisionEffective()
            | e.DecisionUndone()
            | e.VoteUndone()
        ):
            return {"hold_id": hold_id(run, event.hold)}
        case _:
            return {}


def _call(run: str, call: Call) -> dict[str, Any]:
    args = decode_value(mask_args(bytes(call.args)))
    return {"id": call_id(run, call.ref), "tool": call.tool, "args": args}
