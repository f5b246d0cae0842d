"""The rows that follow from events: what a write puts, and what an audit expects.

Both take them from here, and nothing else makes a row: none can say what no event did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

import msgspec
from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.digest import encode_value
from sayso.domain.hold import (
    Answered,
    Approved,
    Decision,
    Errored,
    Expired,
    HoldStatus,
    Rejected,
    Verdict,
    Withdrawn,
)
from sayso.domain.lifecycle import apply
from sayso.domain.run import Run
from sayso.domain.transcript import ERASED
from sayso.store.base import HoldRow, RunRow, Write

_Touching = (
    e.HoldOpened
    | e.HoldRevised
    | e.VoteCast
    | e.VoteUndone
    | e.HoldEscalated
    | e.HoldReassigned
    | e.HoldSettled
    | e.DecisionEffective
    | e.DecisionUndone
)
_TOUCHES = frozenset(get_args(_Touching))


class Step(msgspec.Struct, frozen=True, gc=False):
    """An event, with the run before and after it."""

    before: Run | None
    event: e.Event
    after: Run


def take_steps(run: Run | None, events: Iterable[e.Event]) -> list[Step]:
    """Apply events one after another, and keep every state on the way."""
    steps: list[Step] = []
    for event in events:
        after = apply(run, event)
        steps.append(Step(run, event, after))
        run = after
    return steps


def run_row(write: Write) -> RunRow:
    """Give the row of a run after a write that was committed; without its hash, which is the
    store's to know, and without its owner if the write has left that as it was.
    """
    return RunRow(
        id=write.run,
        project=write.project,
        agent=write.agent,
        thread=write.thread,
        status=write.status,
        seq=write.after + len(write.entries),
        hash=b"",
        last=write.entries[-1].id,
        fold=write.fold,
        state=write.state,
        due_at=write.due_at,
        owner=write.owner or "",
    )


def hold_rows(steps: Iterable[Step]) -> dict[int, HoldRow]:
    """Make the rows of every hold that these steps touch, as they are after the last."""
    rows: dict[int, HoldRow] = {}
    for step in steps:
        for n in _touched(step.event):
            known = rows.get(n)
            row = _row(step, n, None if known is None else known.words)
            if row is not None:
                rows[n] = row
    return rows


def _touched(event: e.Event) -> tuple[int, ...]:
    if isinstance(event, e.RunAdopted):
        return event.undated
    return (cast("_Touching", event).hold,) if type(event) in _TOUCHES else ()


def erased_row(row: HoldRow) -> HoldRow:
    """Give the row of a hold without anything that somebody has said: who decided, when and in one
    word what, remains.
    """
    if row.votes is not None:
        votes = tuple(_bare_decision(vote) for vote in codec.decode_votes(row.votes))
        row = replace(row, votes=codec.encode_votes(votes))
    if row.decision is not None:
        bare = _bare_decision(codec.decode_decision(row.decision))
        row = replace(row, decision=codec.encode_decision(bare))
    # Its title is one of the words that it is found by.
    return replace(row, words="")


def without_vote(row: HoldRow, vote: Decision) -> HoldRow:
    """Give the row of a hold without what somebody said with a vote on it."""
    if row.votes is None:
        return row
    votes = tuple(
        _bare_decision(one) if one == vote else one for one in codec.decode_votes(row.votes)
    )
    return replace(row, votes=codec.encode_votes(votes))


def _bare_decision(decision: Decision) -> Decision:
    return replace(decision, verdict=_bare(decision.verdict), key="", note="")


def _bare(verdict: Verdict) -> Verdict:
    match verdict:
        case Answered():
            return Answered(value=msgspec.Raw(encode_value(ERASED)))
        case Errored():
            return Errored(message=ERASED)
        case Expired():
            return verdict
        case Approved() | Rejected() | Withdrawn():
            return type(verdict)()


def _row(step: Step, n: int, words: str | None) -> HoldRow | None:
    """Make the row of a hold after a step; None if another run settles it, which is nothing that
    people are shown. `words` are what it is found by, if this step does not say it.
    """
    run, event = step.after, step.event
    hold = run.hold(n)
    if hold is not None:
        status, decision = hold.status, hold.decision
    else:
        assert step.before is not None, "an event touches a hold before there is a run"
        run = step.before
        hold = run.hold(n)
        assert hold is not None, "an event touches a hold that was never there"
        decision = event.decision if isinstance(event, e.HoldSettled) else hold.decision
        status = HoldStatus.SETTLED
    if hold.child:
        return None
    call = run.call(hold.call)
    assert call is not None, "a hold without its call"
    if isinstance(event, e.HoldOpened | e.HoldRevised):
        from sayso.store.words import join_words

        words = join_words(event.ruling.title, call.tool, run.agent, str(run.by))
    return HoldRow(
        run_id=run.id,
        n=hold.n,
        call=hold.call,
        kind=hold.kind,
        tool=call.tool,
        version=hold.version,
        digest=hold.digest,
        status=status.value,
        suspension=hold.suspension,
        entry=hold.entry,
        revised=hold.revised,
        args_entry=call.entry,
        opened_at=hold.opened_at,
        deadline=hold.deadline,
        who=hold.approvers,
        votes=codec.encode_votes(hold.votes) if hold.votes else None,
        escalates_at=hold.ladder[0].at if hold.ladder else None,
        decision=None if decision is None else codec.encode_decision(decision),
        words=words,
    )
