"""How a run that comes from another store is taken in: the verb `adopt`.

Rule 1: whatever was allowed elsewhere and has not happened yet is asked again here, because it may
have happened there since; whatever was under way there is in doubt. A body that has begun goes on
only once a person has said so here.
Rule 2: silence is not the new decision that this takes: it approves nothing that was asked
elsewhere, and no body goes on by it, whatever it would say.

A store that was restored from a backup is like another store: what was done since, nobody there
knows of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from sayso.domain import bodies
from sayso.domain import events as e
from sayso.domain.call import CallState, Effect
from sayso.domain.hold import Approval, InDoubt
from sayso.domain.operand import OperandPin
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.settling import Draft
from sayso.domain.value import SAYSO
from sayso.domain.verbs import HoldRequest, doubt_call, open_holds, unsilenced

ASKED_AGAIN = "Asked again: it was approved elsewhere before the run was adopted here."
UNDER_WAY = "it was under way elsewhere when the run was adopted here"
BEGUN = "its body had begun elsewhere when the run was adopted here, and may have gone on there"


class Words(NamedTuple):
    """What people are told of why they are asked again."""

    asked_again: str
    unasked: str
    under_way: str
    begun: str
    vote: str


ADOPTED = Words(
    asked_again=ASKED_AGAIN,
    unasked="Asked because it may have been made elsewhere before the run was adopted here.",
    under_way=UNDER_WAY,
    begun=BEGUN,
    vote="it was cast elsewhere before the run was adopted here",
)
RESTORED = Words(
    asked_again="Asked again: it was approved before the store was backed up, and may have run "
    "since.",
    unasked="Asked because the store was restored: it may have run since the backup.",
    under_way="it was under way when the store was backed up, and the store was restored since",
    begun="its body had begun when the store was backed up, and may have gone on since",
    vote="it was cast before the store was restored",
)


class Lore:
    """What a journal says of its calls that the state of its run does not keep."""

    def __init__(self, events: Iterable[e.Event]) -> None:
        self.effects: dict[str, str] = {}
        """The effect of the step that each body came to last."""
        self.rulings: dict[str, Require] = {}
        """By whom it was last decided whether each call may start."""
        self.asked: dict[str, e.HoldOpened] = {}
        self.operands: dict[str, tuple[OperandPin, ...]] = {}
        """The files of each call that people were last asked about."""
        self._holds: dict[int, e.HoldOpened] = {}
        for event in events:
            self._add(event)

    def _add(self, event: e.Event) -> None:
        match event:
            case e.StepStarted():
                self.effects[event.call] = event.effect
            case e.HoldOpened(then="start"):
                self._holds[event.hold] = event
                if event.operands or event.tool_version:
                    self.operands[event.call] = event.operands
                # A sign-in counts only where nobody was asked about the call itself.
                if isinstance(event.ask, Approval | InDoubt) or event.call not in self.asked:
                    self.asked[event.call] = event
                    self.rulings[event.call] = event.ruling
            case e.HoldRevised():
                self.rulings[self._holds[event.hold].call] = event.ruling
                self.operands[self._holds[event.hold].call] = event.operands
            case _:
                pass


def adopt(
    run: Run,
    lore: Lore,
    adopted: e.RunAdopted,
    *,
    durable: Collection[str] = (),
    doubts: Mapping[str, Require] | None = None,
    unasked: Mapping[str, Require] | None = None,
    words: Words = ADOPTED,
) -> list[e.Event]:
    """Take in a run that is at its journal's end: say so, and put all that could start anything
    under quarantine. A finished one only says so.

    `durable` are the calls whose tool's body goes on from the journal, `doubts` says whom to ask
    about those in doubt; without it, whoever was asked whether they may start. `unasked` says whom
    to ask about calls that nobody was to be asked about, and that must not be made twice.
    """
    draft = Draft(run)
    silenced = tuple(hold.n for hold in run.holds if hold.on_silence == "approve")
    undated = tuple(hold.n for hold in run.holds if hold.resumes and hold.deadline is not None)
    draft.add(replace(adopted, silenced=silenced, undated=undated))
    if run.final:
        return draft.events
    now = adopted.at
    for hold in run.holds:
        if hold.decision is not None:
            draft.add(e.DecisionUndone(hold=hold.n, by=SAYSO, at=now))
        for vote in hold.votes:
            who, why = vote.by.id, words.vote
            draft.add(e.VoteUndone(hold=hold.n, person=who, by=SAYSO, at=now, why=why))
    for row in run.calls(CallState.STARTED, CallState.ANSWERED):
        ruling = (doubts or {}).get(row.ref) or _doubt_ruling(lore, row)
        body = bool(row.step) or row.ref in durable or row.state is CallState.ANSWERED
        draft.add(*_under_way(draft.run, row, lore, ruling, now, body=body, words=words))
    groups = [(strand.calls, strand.resolve) for strand in run.strands]
    groups += [((row,), "each") for row in run.commands]
    for rows, resolve in groups:
        approved = [row for row in rows if row.state is CallState.APPROVED]
        draft.add(*_ask_again(draft.run, approved, lore, now, resolve=resolve, words=words))
        requests = [
            HoldRequest(ref=row.ref, ruling=replace(unasked[row.ref], why=words.unasked))
            for row in rows
            if row.state is CallState.READY and unasked and row.ref in unasked
        ]
        draft.add(*open_holds(draft.run, requests, now=now))
    return draft.events


def _under_way(
    run: Run, row: CallRow, lore: Lore, ruling: Require, now: int, *, body: bool, words: Words
) -> list[e.Event]:
    ref, attempt = row.ref, row.attempt
    if not body:
        pins = lore.operands.get(ref, ())
        return doubt_call(
            run,
            ref,
            attempt=attempt,
            why=words.under_way,
            ruling=ruling,
            now=now,
            may_live=True,
            elsewhere=True,
            operands=pins,
        )
    if row.stepping and lore.effects[ref] == Effect.ONCE:
        return bodies.doubt_step(
            run,
            ref,
            attempt=attempt,
            why=words.under_way,
            ruling=ruling,
            digest=row.digest,
            now=now,
            may_live=True,
            elsewhere=True,
        )
    if run.ending:
        return bodies.park(run, ref, attempt=attempt, why=words.under_way, again=True)
    ruling = replace(ruling, title=f"Go on with {row.tool} here?")
    return bodies.doubt_body(run, ref, attempt=attempt, why=words.begun, ruling=ruling, now=now)


def _ask_again(
    run: Run, rows: Sequence[CallRow], lore: Lore, now: int, *, resolve: str, words: Words
) -> list[e.Event]:
    requests = [
        HoldRequest(
            ref=row.ref,
            ruling=_again(lore, row, words),
            policy_version=lore.asked[row.ref].policy_version,
            duplicate_of=lore.asked[row.ref].duplicate_of,
            operands=lore.operands.get(row.ref, ()),
        )
        for row in rows
    ]
    # The latest question is the only one that is left of those before it.
    way = resolve if resolve == "together" else "each"
    return open_holds(run, requests, now=now, resolve=way)


def _again(lore: Lore, row: CallRow, words: Words) -> Require:
    ruling = replace(unsilenced(lore.rulings[row.ref]), why=words.asked_again)
    about_doubt = isinstance(lore.asked[row.ref].ask, InDoubt)
    return replace(ruling, title="") if about_doubt else ruling


def _doubt_ruling(lore: Lore, row: CallRow) -> Require:
    before = lore.rulings.get(row.ref, Require())
    title = f"Did {row.tool} happen?"
    # To run it again is a decision like the first one.
    return Require(
        approvers=before.approvers,
        quorum=before.quorum,
        not_requester=before.not_requester,
        escalate_after_ms=before.escalate_after_ms,
        escalate_to=before.escalate_to,
        chain=before.chain,
        risk=before.risk,
        title=title,
        editable=False,
    )
