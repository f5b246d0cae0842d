"""The conversation of a run, folded from its journal: messages, arguments, outcomes, decisions.

What a model is shown, and what a tool is called with, comes from here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from sayso.domain import events as e
from sayso.domain.call import Call, Outcome, call_id
from sayso.domain.hold import Decision
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.run import Run
from sayso.errors import NotUnderstood

ERASED = "[erased]"
"""What stands for a message whose entry was redacted."""

_SILENT = frozenset(
    {
        e.AttemptVoided,
        e.CallDoubted,
        e.CallStarted,
        e.CancelRequested,
        e.DecisionEffective,
        e.RunResumed,
        e.RunSuspended,
        e.RunTakenOver,
    }
)
"""What a conversation has nothing of. A long one has many of them, so they are not matched."""


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
        self.late: list[e.LateResult] = []
        self.calls: dict[str, Call] = {}
        self.args: dict[str, bytes] = {}
        """What each call is, or would be, executed with: as edited, if it was."""
        self.tool_versions: dict[str, str] = {}
        """The version of its tool that each call was last asked for, or asked about, with."""
        self.outcomes: dict[str, Outcome] = {}
        self.decisions: dict[str, Decision] = {}
        """What people decided on each call last."""
        self.approvers: dict[str, tuple[str, ...]] = {}
        """Who could decide on each call that was held, when it was last asked about."""
        self._before = before
        self._doubts = doubts or {}
        self._holds: dict[int, str] = {}
        self._said: list[tuple[int, UserMessage]] = []
        self._turns: list[e.TurnTaken] = []

    def add(self, seq: int, event: e.AnyEvent | None) -> None:
        """Fold in the next entry; None is one that was redacted."""
        if seq != self.seq + 1:
            raise NotUnderstood(f"entry {self.seq + 1} of {self.run_id!r} is missing")
        self.seq = seq
        if type(event) in _SILENT:
            return
        match event:
            case e.CallFinished():
                self.outcomes[event.call] = event.outcome
            case e.RunStarted():
                self._before = (*self._before, *event.history)
                self._said.append((seq, UserMessage(text=event.input, by=str(event.by))))
            case e.MessageReceived():
                self._said.append((seq, UserMessage(text=event.text, by=str(event.by))))
            case e.TurnTaken():
                self._turns.append(event)
                for call in event.calls:
                    self.calls[call.ref] = call
                    self.args[call.ref] = bytes(call.args)
                    self.tool_versions[call.ref] = call.tool_version
            case e.HoldOpened():
                self._holds[event.hold] = event.call
                self.approvers[event.call] = event.approvers
                if event.tool_version:
                    self.tool_versions[event.call] = event.tool_version
            case e.HoldRevised():
                self.args[self._ref(event.hold)] = bytes(event.args)
                self.approvers[self._ref(event.hold)] = event.approvers
            case e.HoldSettled():
                self.decisions[self._ref(event.hold)] = event.decision
            case e.DecisionUndone():
                self.decisions.pop(self._ref(event.hold), None)
            case e.LateResult():
                self.late.append(event)
            case e.RunCompleted():
                self.output = bytes(event.output)
            case e.RunFailed():
                self.error = event.error
            case None if seq == 1:
                self._said.append((seq, UserMessage(text=ERASED)))
            case _:
                pass

    def messages(self) -> tuple[Message, ...]:
        """List the conversation as a model must see it: each turn, then its outcomes."""
        found: list[Message] = list(self._before)
        said = iter(self._said)
        waiting = next(said, None)
        for turn in self._turns:
            while waiting is not None and waiting[0] <= turn.seen:
                found.append(waiting[1])
                waiting = next(said, None)
            found.append(
                AssistantMessage(text=turn.text, calls=turn.calls, raw=turn.raw, model=turn.model)
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
        those of earlier runs of the thread their ids. What was redacted cannot be compared.
        """
        mine = {
            (self.calls[ref].tool, self.args[ref]): ref
            for _, ref in run.doubts
            if ref in self.calls
        }
        return {**self._doubts, **mine}

    def _ref(self, hold: int) -> str:
        # The entry that opened the hold may be redacted.
        return self._holds.get(hold, "")

    def _tool_message(self, call: Call) -> ToolMessage:
        args = self.args[call.ref]
        edited = args != bytes(call.args)
        return ToolMessage(
            call_id=call_id(self.run_id, call.ref),
            tool=call.tool,
            outcome=self.outcomes[call.ref],
            given=call.given,
            note=f"A person edited the arguments to {args.decode()}" if edited else "",
        )
