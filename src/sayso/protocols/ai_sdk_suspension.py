"""What a client of the AI SDK is told of a hold: one `data-suspension` part, replaced in place.

It has what `tool-approval-request` cannot carry for every release: what exactly is decided on (the
arguments and their digest), who is asked, how far it is, and how it was settled. Answers that
people gave are not in it: they may be secret, and the call's output has what they led to.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from sayso.domain import events as e
from sayso.domain.call import call_id
from sayso.domain.digest import decode_value
from sayso.domain.hold import (
    ASK_KINDS,
    Approval,
    Approved,
    Decision,
    Delegation,
    Errored,
    Rejected,
    Withdrawn,
    hold_id,
    may_decide,
    request_id,
)
from sayso.domain.people import Authority
from sayso.domain.ruling import Require
from sayso.domain.secret import mask_args
from sayso.domain.standing import says_yes

Chunk = dict[str, Any]
"""One chunk of a UI message stream, as JSON."""


class Asked:
    """A hold as its entries tell of it so far."""

    def __init__(self, run_id: str, opened: e.HoldOpened, args: bytes) -> None:
        self.run_id = run_id
        self.n = opened.hold
        self.opened = opened
        self.ruling: Require = opened.ruling
        self.approvers: tuple[str, ...] = opened.approvers
        self.deadline = opened.deadline
        self.version = opened.version
        self.digest = opened.digest
        self.args = args
        self.votes: list[Decision] = []
        self.decision: Decision | None = None
        self.effective = False

    @property
    def id(self) -> str:
        """Its public id: the `approvalId` of the wire."""
        return hold_id(self.run_id, self.n)

    @property
    def open(self) -> bool:
        """Tell whether it can be decided."""
        return self.decision is None

    @property
    def is_approval(self) -> bool:
        """Tell whether it asks for a yes or a no to a call."""
        return isinstance(self.opened.ask, Approval)

    @property
    def allowed(self) -> bool:
        """Tell whether it was settled with a yes."""
        return self.decision is not None and says_yes(self.decision.verdict)

    def add(self, event: e.AnyEvent) -> None:
        """Take in what happened to it."""
        match event:
            case e.HoldRevised():
                self.version, self.digest = event.version, event.digest
                self.ruling, self.approvers = event.ruling, event.approvers
                self.deadline, self.args = event.deadline, bytes(event.args)
                self.votes.clear()
            case e.VoteCast():
                self.votes.append(event.decision)
            case e.VoteUndone():
                self.votes = [vote for vote in self.votes if vote.by.id != event.person]
            case e.HoldEscalated():
                self.approvers = tuple(dict.fromkeys((*self.approvers, *event.to)))
            case e.HoldReassigned():
                others = [who for who in self.approvers if who != event.instead_of]
                self.approvers = tuple(dict.fromkeys((*others, event.to)))
            case e.HoldSettled():
                self.decision = event.decision
                self.effective = event.decision.effective_at <= event.decision.at
            case e.DecisionEffective():
                self.effective = True
            case e.DecisionUndone():
                self.decision, self.effective = None, False
            case _:
                pass

    def is_for(self, who: Authority | None, requesters: Iterable[str]) -> bool:
        """Tell whether somebody may decide it, as far as the journal can tell; None: anybody."""
        if isinstance(self.opened.ask, Delegation):
            return False  # It is settled by the end of another run.
        if who is None:
            return True
        others = self.ruling.not_requester and who.is_one_of(requesters)
        return not others and may_decide(self.approvers, who, ASK_KINDS[type(self.opened.ask)])


def suspension_chunk(asked: Asked, tool: str, *, mine: bool) -> Chunk:
    """Tell a client all that it may know of a hold."""
    opened, ruling = asked.opened, asked.ruling
    data: dict[str, Any] = {
        "id": asked.id,
        "requestId": request_id(asked.run_id, opened.suspension),
        "toolCallId": call_id(asked.run_id, opened.call),
        "kind": ASK_KINDS[type(opened.ask)],
        "tool": tool,
        "status": "open" if asked.open else "settled" if asked.effective else "decided",
        "version": asked.version,
        "digest": asked.digest,
        "args": shown_args(asked.args),
        "title": ruling.title or tool,
        "why": ruling.why,
        "risk": ruling.risk,
        "approvers": list(asked.approvers),
        "mine": mine,
        "editable": ruling.editable,
        "together": opened.together,
        "quorum": ruling.quorum,
        "votes": [_said(vote) for vote in asked.votes],
    }
    ask = msgspec.json.decode(msgspec.json.encode(opened.ask))
    del ask["is"]
    if ask:
        data["ask"] = ask
    if asked.deadline is not None:
        data["deadline"] = moment(asked.deadline)
    if asked.decision is not None:
        data["decision"] = _said(asked.decision)
    return {"type": "data-suspension", "id": asked.id, "data": data}


def shown_args(args: bytes) -> Any:
    """Give arguments as anybody may see them."""
    return decode_value(mask_args(args))


def reason_of(decision: Decision) -> str:
    """Say why something was decided as it was, as far as anybody said so."""
    match decision.verdict:
        case Rejected(reason=reason) | Withdrawn(reason=reason):
            return reason or decision.note
        case Errored(message=message):
            return message
        case Approved():
            return decision.note
        case _:
            return decision.note or decision.word


def moment(ms: int) -> str:
    """Write store time for a client."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _said(decision: Decision) -> dict[str, Any]:
    said = {"verdict": decision.word, "by": str(decision.by), "at": moment(decision.at)}
    reason = reason_of(decision)
    return {**said, "reason": reason} if reason else said
