"""What goes over the wire: the bodies of requests and answers, and how views become answers.

Rule 1: a request says what is wanted, never who wants it. What is not asked for is refused.
Rule 2: an answer is made from committed views; what is secret is masked in them already.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from sayso.domain.call import Declined, Failed, Outcome, Returned, Unknown
from sayso.domain.digest import decode_value
from sayso.domain.drawing import render_text
from sayso.domain.hold import Decision, Rejected, Verdict, approve, fail, reject
from sayso.domain.hold import answer as answered
from sayso.domain.message import AssistantMessage, Message, ToolMessage
from sayso.domain.secret import mask_args
from sayso.domain.value import Principal
from sayso.engine.window import Brief, Request
from sayso.errors import BadValue
from sayso.store.views import HoldView, RunView, moment

NAME_MAX = 512
TEXT_MAX = 1_000_000
REASON_MAX = 10_000

Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Field(max_length=TEXT_MAX)]
Reason = Annotated[str, Field(max_length=REASON_MAX)]
Action = Literal["approve", "reject", "answer", "fail"]


class In(BaseModel):
    """The base of what is received."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Out(BaseModel):
    """The base of what is sent."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StartIn(In):
    """A run to start."""

    agent: Name
    input: Text
    thread: Name | None = None
    metadata: dict[str, JsonValue] | None = None
    mode: Literal["async", "wait", "stream"] = "async"
    """`async`: answer once it is committed. `wait`: once it is suspended or finished, or 30 seconds
    are over. `stream`: with its events as they come, until it is suspended or finished.
    """


class MessageIn(In):
    """Something to say to a run."""

    text: Text
    supersede: bool = False


class CommandIn(In):
    """A command's arguments."""

    args: dict[str, JsonValue] = {}
    strand: Name | None = None


class CancelIn(In):
    """Why a run is cancelled."""

    reason: Reason = ""


class VerdictIn(In):
    """What is decided."""

    action: Action
    args: dict[str, JsonValue] | None = None
    """With `approve`: yes to these arguments instead."""
    reason: Reason = ""
    """With `reject` and `fail`: why."""
    value: JsonValue = None
    """With `answer`."""
    note: Reason = ""

    def verdict(self) -> Verdict:
        """Make the verdict. `BadValue` if something is said that goes with another action."""
        if self.args is not None and self.action != "approve":
            raise BadValue(f"`args` goes with approve, not with {self.action}")
        if "value" in self.model_fields_set and self.action != "answer":
            raise BadValue(f"`value` goes with answer, not with {self.action}")
        if self.reason and self.action not in ("reject", "fail"):
            raise BadValue(f"`reason` goes with reject and fail, not with {self.action}")
        match self.action:
            case "approve":
                return approve() if self.args is None else approve(args=self.args)
            case "reject":
                return reject(self.reason)
            case "answer":
                return answered(self.value)
            case "fail":
                return fail(self.reason)


class ResumeIn(VerdictIn):
    """What to say to all that one request asks."""

    seen: Name | None = None
    mode: Literal["async", "wait", "stream"] = "wait"


class PrincipalOut(Out):
    """Who acts."""

    id: str
    kind: Literal["person", "agent", "service", "clock"]


class DecisionOut(Out):
    """A decision as it is recorded."""

    verdict: str
    reason: str | None = None
    by: PrincipalOut
    of: str | None = None
    """Whom they stood in for."""
    at: datetime
    effective_at: datetime
    channel: str
    note: str


class OperandOut(Out):
    """A file that an argument names, as it was when it was asked about."""

    name: str
    path: str
    size: int
    sha256: str


class HoldOut(Out):
    """A hold, as whoever decides needs to see it."""

    id: str
    run_id: str
    request_id: str
    call_id: str
    kind: str
    status: str
    tool: str
    args: JsonValue
    args_json: str
    """The very bytes of the arguments, for readers whose numbers are not exact."""
    operands: list[OperandOut]
    """The files that the arguments name."""
    shown: str
    """What people see of the call, drawn from the very bytes that would be executed."""
    title: str
    why: str
    risk: str
    digest: str
    """What a decision must carry as `seen`."""
    version: int
    opened_at: datetime
    deadline: datetime | None
    on_silence: str
    """What it means if nobody has decided by then."""
    escalates_at: datetime | None
    approvers: list[str]
    quorum: int
    missing: int
    """How many more persons must say yes."""
    not_requester: bool
    editable: bool
    grantable: bool
    together: bool
    agent: str
    project: str
    lineage: list[str]
    doubt: str | None
    duplicate_of: str | None
    ask: dict[str, JsonValue] | None
    """What is asked, in full: a question with its options, a provider and its scopes."""
    votes: list[DecisionOut]
    decision: DecisionOut | None


class CallOut(Out):
    """A call that the model asked for."""

    ref: str
    """Its place in the run."""
    tool: str
    args: JsonValue


class MessageOut(Out):
    """A message of the conversation."""

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: list[CallOut] = []
    call_id: str | None = None
    tool: str | None = None
    outcome: dict[str, JsonValue] | None = None


class RunOut(Out):
    """A run, as of its last committed entry."""

    type: Literal["run"] = "run"
    id: str
    project: str
    agent: str
    by: PrincipalOut
    status: Literal["running", "suspended", "completed", "failed", "cancelled"]
    cancelling: bool
    seq: int
    started_at: datetime
    thread: str | None
    output: JsonValue
    error: str | None
    holds: list[HoldOut]
    messages: list[MessageOut]


class RequestOut(Out):
    """All that one suspension asks."""

    request_id: str
    seen: str
    """The digest of all of it."""
    message: str
    calls: list[HoldOut]
    approval_url: str
    """POST here with an empty body says yes to all of it, as shown here; GET shows a page."""
    rejection_url: str


class SuspendedOut(RequestOut):
    """A run that waits for somebody."""

    type: Literal["suspended"] = "suspended"
    run_id: str
    more: list[RequestOut]
    """What else it waits for."""


class RejectedOut(Out):
    """A run that a rejection has ended."""

    type: Literal["rejected"] = "rejected"
    run_id: str
    status: Literal["cancelled"] = "cancelled"
    message: str
    hold_id: str
    decision: DecisionOut


Answer = Annotated[RunOut | SuspendedOut | RejectedOut, Field(discriminator="type")]
"""What became of a run so far."""


class AcceptedOut(Out):
    """Something was committed, and goes on by itself."""

    run_id: str
    status: Literal["running", "suspended", "completed", "failed", "cancelled"]
    url: str


class BriefOut(Out):
    """A run in a list."""

    id: str
    agent: str
    by: PrincipalOut
    status: Literal["running", "suspended", "completed", "failed", "cancelled"]
    seq: int
    started_at: datetime
    thread: str | None


class RunsOut(Out):
    """A page of runs."""

    items: list[BriefOut]
    next: str | None
    """Give this as `after` for the next page; null at the end."""


class HoldsOut(Out):
    """A page of holds."""

    items: list[HoldOut]
    next: str | None


class CommandOut(Out):
    """What became of a command so far."""

    call_id: str
    status: Literal["done", "held"]
    outcome: dict[str, JsonValue] | None
    holds: list[str]


def principal_out(one: Principal) -> PrincipalOut:
    """Show who acts."""
    return PrincipalOut(id=one.id, kind=one.kind)


def decision_out(one: Decision) -> DecisionOut:
    """Show a decision."""
    reason = getattr(one.verdict, "reason", "") or getattr(one.verdict, "message", "")
    return DecisionOut(
        verdict=one.word,
        reason=reason or None,
        by=principal_out(one.by),
        of=one.of or None,
        at=moment(one.at),
        effective_at=moment(one.effective_at),
        channel=one.channel,
        note=one.note,
    )


def hold_out(hold: HoldView) -> HoldOut:
    """Show a hold."""
    ask = None if hold.ask is None else decode_value(msgspec.json.encode(hold.ask))
    return HoldOut(
        **{name: getattr(hold, name) for name in _SAME_OF_HOLD},
        operands=[OperandOut(**msgspec.structs.asdict(one)) for one in hold.operands],
        on_silence=hold.ruling.on_silence,
        approvers=list(hold.approvers),
        lineage=list(hold.lineage),
        shown=render_text(hold.shown, full=True),
        doubt=hold.doubt or None,
        ask=ask,
        votes=[decision_out(vote) for vote in hold.votes],
        decision=None if hold.decision is None else decision_out(hold.decision),
    )


def outcome_out(outcome: Outcome) -> dict[str, Any]:
    """Show what became of a call."""
    match outcome:
        case Returned():
            return {"is": "returned", "value": outcome.result()}
        case Failed(error=error, message=message):
            return {"is": "failed", "error": error, "message": message}
        case Declined(reason=reason):
            return {"is": "declined", "reason": reason}
        case Unknown(reason=reason):
            return {"is": "unknown", "reason": reason}


def message_out(message: Message) -> MessageOut:
    """Show a message of the conversation."""
    match message:
        case AssistantMessage(text=text, calls=calls):
            asked = [
                CallOut(
                    ref=call.ref, tool=call.tool, args=decode_value(mask_args(bytes(call.args)))
                )
                for call in calls
            ]
            return MessageOut(role="assistant", text=text, calls=asked)
        case ToolMessage(call_id=call, tool=tool, outcome=outcome):
            return MessageOut(
                role="tool", text="", call_id=call, tool=tool, outcome=outcome_out(outcome)
            )
        case _:
            return MessageOut(role="user", text=message.text)


def run_out(view: RunView) -> RunOut:
    """Show a run."""
    return RunOut(
        **{name: getattr(view, name) for name in _SAME_OF_RUN},
        by=principal_out(view.by),
        holds=[hold_out(hold) for hold in view.holds],
        messages=[message_out(message) for message in view.messages],
    )


def brief_out(one: Brief) -> BriefOut:
    """Show a run in a list."""
    return BriefOut(
        id=one.id,
        agent=one.agent,
        by=principal_out(one.by),
        status=one.status,  # pyright: ignore[reportArgumentType] - of the store's own five.
        seq=one.seq,
        started_at=moment(one.started_at),
        thread=one.thread,
    )


def request_out(request: Request, base: str) -> RequestOut:
    """Show all that a suspension still asks."""
    asked = [hold for hold in request.holds if hold.status == "open"] or list(request.holds)
    url = f"{base}/v1/resume/{request.id}?seen={request.digest}&action="
    return RequestOut(
        request_id=request.id,
        seen=request.digest,
        message="; ".join(hold.title for hold in asked),
        calls=[hold_out(hold) for hold in asked],
        approval_url=f"{url}approve",
        rejection_url=f"{url}reject",
    )


def is_ended_by(hold: HoldView) -> bool:
    """Tell whether a hold's decision can have ended its run."""
    return hold.decision is not None and isinstance(hold.decision.verdict, Rejected)


_SAME_OF_RUN = frozenset(RunOut.model_fields) - {"type", "by", "holds", "messages"}
_SAME_OF_HOLD = frozenset(HoldOut.model_fields) - {
    "operands",
    "on_silence",
    "approvers",
    "lineage",
    "shown",
    "doubt",
    "ask",
    "votes",
    "decision",
}
