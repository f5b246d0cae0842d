"""The conversation of a run, folded from its journal: messages, arguments, outcomes, decisions.

What a model is shown, and what a tool is called with, comes from here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from sayso.domain import events as e
from sayso.domain.call import Call, Outcome, call_id
from sayso.domain.hold import Approval, Ask, Decision, InDoubt
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.operand import OperandPin
from sayso.domain.run import Run
from sayso.domain.secret import blank, is_sealed, mask_args
from sayso.domain.standing import says_yes
from sayso.domain.value import Principal
from sayso.errors import NotUnderstood

ERASED = "[erased]"
"""What stands for a message whose entry was redacted."""


class Place:
    """What the body of a call came to at one place: a step it took, or what it asked there."""

    def __init__(self, name: str = "", digest: str = "", effect: str = "") -> None:
        self.name = name
        self.digest = digest
        self.effect = effect
        self.outcome: Outcome | None = None
        """What the step gave; None if it has no outcome, or this is not a step."""
        self.asks: dict[int, Ask] = {}
        """What was asked there, by the number of the hold."""
        self.decisions: dict[int, Decision] = {}


class StrandLog:
    """What was said and done on one strand."""

    def __init__(self, parent: str = "", data: bytes | None = None) -> None:
        self.parent = parent
        self.data = data
        """What the agent keeps of it."""
        self.closed = False
        self.result: bytes | None = None
        self.error = ""
        self.said: list[tuple[int, UserMessage]] = []
        self.turns: list[e.TurnTaken] = []


class Transcript:
    """Everything that was said and done in a run up to some entry."""

    def __init__(
        self,
        run_id: str,
        before: tuple[Message, ...] = (),
        doubts: Mapping[tuple[str, bytes], str] | None = None,
    ) -> None:
        self.run_id = run_id
        self.seq = 0
        """The last entry folded in."""
        self.output: bytes | None = None
        self.error: str = ""
        self.erased = False
        """Whether all that was said in it was erased."""
        self.late: list[e.LateResult] = []
        self.calls: dict[str, Call] = {}
        self.commands: dict[str, tuple[Principal, str]] = {}
        """Who invoked each command, and on which strand."""
        self.args: dict[str, bytes] = {}
        """What each call is, or would be, executed with: as edited, if it was."""
        self.tool_versions: dict[str, str] = {}
        """The version of its tool that each call was last asked for, or asked about, with."""
        self.operands: dict[str, tuple[OperandPin, ...]] = {}
        """The files of each call that people were asked about, as they were then."""
        self.outcomes: dict[str, Outcome] = {}
        self.decisions: dict[str, Decision] = {}
        """What people last decided on whether each call may start."""
        self.approvals: dict[str, list[Decision]] = {}
        """All that let each call start when it was last decided: the votes, and the last word."""
        self.handed: dict[str, dict[str, str]] = {}
        """Who was asked about each call in place of whom."""
        self.settled: dict[str, e.HoldSettled] = {}
        """By which entries they did."""
        self.looked_into: dict[str, dict[int, e.HoldSettled]] = {}
        """What was decided on steps of each call that were in doubt, by the number of the hold."""
        self.approvers: dict[str, tuple[str, ...]] = {}
        """Who could decide on each call that was held, when it was last asked about."""
        self.places: dict[str, list[Place]] = {}
        """What the body of each call came to, in its order."""
        self.began: dict[str, bytes] = {}
        """What the agent kept of a call's strand when it first started. Its body is told this, or
        it would come to something else when it goes through the journal again.
        """
        self.trace = ""
        """Where what the run does now was set off: by its start, or by the last decision."""
        self.strands: dict[str, StrandLog] = {e.MAIN: StrandLog()}
        self._before = before
        self._doubts = doubts or {}
        self._strands_of: dict[str, str] = {}
        self._gated: set[str] = set()
        """Calls that people were asked about before they could start."""
        self._holds: dict[int, e.HoldOpened] = {}
        self._votes: dict[int, list[Decision]] = {}

    def add(self, seq: int, event: e.AnyEvent | None) -> None:
        """Fold in the next entry; None is one that was redacted."""
        if seq != self.seq + 1:
            raise NotUnderstood(f"entry {self.seq + 1} of {self.run_id!r} is missing")
        self.seq = seq
        fold = self._FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    def messages(self, strand: str = e.MAIN) -> tuple[Message, ...]:
        """List the conversation as a model must see it: each turn, then its outcomes."""
        log = self.strands[strand]
        found: list[Message] = list(self._before) if strand == e.MAIN else []
        said = iter(log.said)
        waiting = next(said, None)
        for turn in log.turns:
            while waiting is not None and waiting[0] <= turn.seen:
                found.append(waiting[1])
                waiting = next(said, None)
            found.append(
                AssistantMessage(
                    text=turn.text,
                    calls=tuple([_masked(call) for call in turn.calls]),
                    raw=turn.raw,
                    model=turn.model,
                )
            )
            found.extend(
                self._tool_message(call) for call in turn.calls if call.ref in self.outcomes
            )
        while waiting is not None:
            found.append(waiting[1])
            waiting = next(said, None)
        return tuple(found)

    def doubted(self, run: Run) -> dict[tuple[str, bytes], str]:
        """Give the calls whose outcome nobody knows, by tool and arguments: their refs, and for
        those of earlier runs of the thread their ids. What was redacted cannot be compared, and
        secrets are not.
        """
        mine = {
            (self.calls[ref].tool, blank(self.args[ref])): ref
            for _, ref in run.doubts
            if ref in self.calls
        }
        return {**self._doubts, **mine}

    def ask_of(self, hold: int) -> Ask | None:
        """Give what a hold asks; None if the entry that opened it was redacted."""
        opened = self._holds.get(hold)
        return None if opened is None else opened.ask

    def traces_of(self, ref: str) -> list[str]:
        """Give where people were asked about a call, as far as somebody traced that."""
        return [one.trace for one in self._holds.values() if one.call == ref and one.trace]

    def votes_for(self, hold: int, decision: Decision) -> list[Decision]:
        """Give the votes on a hold that say the same as a decision, and so bring it about."""
        kind = type(decision.verdict)
        return [one for one in self._votes.get(hold, ()) if isinstance(one.verdict, kind)]

    def _started(self, event: e.RunStarted) -> None:
        self.trace = event.trace
        self._before = (*self._before, *event.history)
        self._say(e.MAIN, UserMessage(text=event.input, by=str(event.by)))

    def _message(self, event: e.MessageReceived) -> None:
        self._say(event.strand, UserMessage(text=event.text, by=str(event.by)))

    def _redacted(self, event: None) -> None:
        del event
        if self.seq == 1:
            self._say(e.MAIN, UserMessage(text=ERASED))

    def _say(self, strand: str, message: UserMessage) -> None:
        self._log(strand).said.append((self.seq, message))

    def _turn(self, event: e.TurnTaken) -> None:
        self._log(event.strand).turns.append(event)
        for call in event.calls:
            self._ask_for(call, event.strand)

    def _command(self, event: e.CommandReceived) -> None:
        self.commands[event.call.ref] = (event.by, event.strand)
        self._ask_for(event.call, event.strand)

    def _call_started(self, event: e.CallStarted) -> None:
        data = self._log(self._strands_of.get(event.call, e.MAIN)).data
        if data is not None:
            self.began.setdefault(event.call, data)

    def _call_finished(self, event: e.CallFinished) -> None:
        self.outcomes[event.call] = event.outcome

    def _late_result(self, event: e.LateResult) -> None:
        self.late.append(event)

    def _completed(self, event: e.RunCompleted) -> None:
        self.output = bytes(event.output)

    def _failed(self, event: e.RunFailed) -> None:
        self.error = event.error

    def _all_erased(self, event: e.RunErased) -> None:
        del event
        self.erased = True

    def _ask_for(self, call: Call, strand: str) -> None:
        self._strands_of[call.ref] = strand
        self.calls[call.ref] = call
        self.args[call.ref] = bytes(call.args)
        self.tool_versions[call.ref] = call.tool_version
        if call.operands:
            self.operands[call.ref] = call.operands

    def _strand_opened(self, event: e.StrandOpened) -> None:
        data = None if event.data is None else bytes(event.data)
        self.strands[event.strand] = StrandLog(event.parent, data)
        if event.text:
            self._say(event.strand, UserMessage(text=event.text))

    def _strand_changed(self, event: e.StrandChanged) -> None:
        self._log(event.strand).data = bytes(event.data)

    def _strand_closed(self, event: e.StrandClosed) -> None:
        log = self._log(event.strand)
        log.closed, log.error = True, event.error
        log.result = None if event.result is None else bytes(event.result)

    def _step_started(self, event: e.StepStarted) -> None:
        place = self._place(event.call, event.step)
        place.name, place.digest, place.effect = event.name, event.digest, event.effect

    def _step_finished(self, event: e.StepFinished) -> None:
        self._place(event.call, event.step).outcome = event.outcome

    def _step_voided(self, event: e.StepVoided) -> None:
        self._place(event.call, event.step)
        self.places[event.call].pop()

    def _hold_opened(self, event: e.HoldOpened) -> None:
        self._holds[event.hold] = event
        if event.tool_version:
            self.tool_versions[event.call] = event.tool_version
            self.operands[event.call] = event.operands
        gate = _is_gate(event)
        if gate:
            self._gated.add(event.call)
        # What its body asks does not change whom the call itself asked.
        if gate or (_lets_start(event.ask) and event.call not in self._gated):
            self.approvers[event.call] = event.approvers
        if event.then == "continue":
            self._place(event.call, event.step).asks[event.hold] = event.ask

    def _hold_revised(self, event: e.HoldRevised) -> None:
        opened = self._holds.get(event.hold)
        if opened is None:
            return  # The entry that opened it was redacted.
        self.args[opened.call] = bytes(event.args)
        self.operands[opened.call] = event.operands
        self.approvers[opened.call] = event.approvers
        self._votes.pop(event.hold, None)

    def _hold_settled(self, event: e.HoldSettled) -> None:
        self.trace = event.trace
        opened = self._holds.get(event.hold)
        if opened is None:
            return
        if opened.then == "continue":
            self._place(opened.call, opened.step).decisions[event.hold] = event.decision
        elif _lets_start(opened.ask):
            self.decisions[opened.call] = event.decision
            votes = [one for one in self._votes.get(event.hold, ()) if says_yes(one.verdict)]
            self.approvals[opened.call] = [*votes, event.decision]
            self.settled[opened.call] = event
        elif isinstance(opened.ask, InDoubt):
            self.looked_into.setdefault(opened.call, {})[event.hold] = event

    def _decision_undone(self, event: e.DecisionUndone) -> None:
        opened = self._holds.get(event.hold)
        if opened is None:
            return
        if opened.then == "continue":
            self._place(opened.call, opened.step).decisions.pop(event.hold, None)
        elif _lets_start(opened.ask):
            self.decisions.pop(opened.call, None)
            self.approvals.pop(opened.call, None)
            self.settled.pop(opened.call, None)
        elif isinstance(opened.ask, InDoubt):
            self.looked_into.get(opened.call, {}).pop(event.hold, None)

    def _vote_cast(self, event: e.VoteCast) -> None:
        self._votes.setdefault(event.hold, []).append(event.decision)

    def _vote_undone(self, event: e.VoteUndone) -> None:
        votes = self._votes.get(event.hold, ())
        self._votes[event.hold] = [one for one in votes if one.by.id != event.person]

    def _hold_escalated(self, event: e.HoldEscalated) -> None:
        opened = self._holds.get(event.hold)
        if opened is not None and _is_gate(opened):
            asked = (*self.approvers[opened.call], *event.to)
            self.approvers[opened.call] = tuple(dict.fromkeys(asked))

    def _hold_reassigned(self, event: e.HoldReassigned) -> None:
        opened = self._holds.get(event.hold)
        if opened is not None:
            handed = self.handed.setdefault(opened.call, {})
            handed[event.to] = handed.get(event.instead_of, event.instead_of)

    def _place(self, ref: str, step: int) -> Place:
        # By its number: an entry that told of an earlier one may be redacted.
        places = self.places.setdefault(ref, [])
        places.extend(Place() for _ in range(step - len(places)))
        return places[step - 1]

    def _log(self, strand: str) -> StrandLog:
        # The entry that opened it may be redacted.
        found = self.strands.get(strand)
        if found is None:
            found = self.strands[strand] = StrandLog()
        return found

    def _tool_message(self, call: Call) -> ToolMessage:
        args = self.args[call.ref]
        edited = args != bytes(call.args)
        return ToolMessage(
            call_id=call_id(self.run_id, call.ref),
            tool=call.tool,
            outcome=self.outcomes[call.ref],
            given=call.given,
            note=f"A person edited the arguments to {mask_args(args).decode()}" if edited else "",
        )

    _FOLDS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        e.RunStarted: _started,
        e.MessageReceived: _message,
        e.TurnTaken: _turn,
        e.CommandReceived: _command,
        e.StrandOpened: _strand_opened,
        e.StrandChanged: _strand_changed,
        e.StrandClosed: _strand_closed,
        e.HoldOpened: _hold_opened,
        e.HoldRevised: _hold_revised,
        e.VoteCast: _vote_cast,
        e.VoteUndone: _vote_undone,
        e.HoldEscalated: _hold_escalated,
        e.HoldReassigned: _hold_reassigned,
        e.HoldSettled: _hold_settled,
        e.DecisionUndone: _decision_undone,
        e.CallStarted: _call_started,
        e.CallFinished: _call_finished,
        e.StepStarted: _step_started,
        e.StepFinished: _step_finished,
        e.StepVoided: _step_voided,
        e.LateResult: _late_result,
        e.RunCompleted: _completed,
        e.RunFailed: _failed,
        e.RunErased: _all_erased,
        type(None): _redacted,
    }
    """What each event says of a conversation. Those that are not here say nothing of it."""


def _masked(call: Call) -> Call:
    """Give a call as everybody may see it, its model included."""
    args = bytes(call.args)
    if not is_sealed(args):
        return call
    return msgspec.structs.replace(call, args=msgspec.Raw(mask_args(args)))


def _is_gate(opened: e.HoldOpened) -> bool:
    return opened.then == "start" and _lets_start(opened.ask)


def _lets_start(ask: Ask) -> bool:
    """Tell whether it is asked if the call may start. A sign-in says nothing about that."""
    return isinstance(ask, Approval) or (isinstance(ask, InDoubt) and not ask.step)
