"""The rows that follow from events: what a write puts, and what an audit expects.

Both take them from here, and nothing else makes a row: none can say what no event did.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    Hold,
    HoldStatus,
    Rejected,
    Verdict,
    Withdrawn,
)
from sayso.domain.lifecycle import apply
from sayso.domain.run import Run
from sayso.domain.transcript import ERASED
from sayso.store.base import HoldRow
from sayso.store.words import join_words

_TOUCHES = (
    e.HoldOpened,
    e.HoldRevised,
    e.VoteCast,
    e.VoteUndone,
    e.HoldEscalated,
    e.HoldReassigned,
    e.HoldSettled,
    e.DecisionEffective,
    e.DecisionUndone,
)


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


def hold_rows(steps: Iterable[Step]) -> dict[int, HoldRow]:
    """Make the rows of every hold that these steps touch, as they are after the last."""
    rows: dict[int, HoldRow] = {}
    for step in steps:
        before, event, after = step.before, step.event, step.after
        if before is None:
            continue
        for n in _touched(event):
            hold = after.hold(n) or before.hold(n)
            assert hold is not None, "an event touches a hold that was never there"
            # What another run settles is nothing that people are shown.
            if not hold.child:
                row = _row(before, after, n, event)
                known = rows.get(n)
                # What people are shown of it is in no state: only what says it can tell it.
                words = _words(after, row, event) or (known.words if known else None)
                rows[n] = replace(row, words=words)
    return rows


def _touched(event: e.Event) -> tuple[int, ...]:
    if isinstance(event, e.RunAdopted):
        return event.undated
    return (event.hold,) if isinstance(event, _TOUCHES) else ()


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


def _words(run: Run, row: HoldRow, event: e.Event) -> str | None:
    if not isinstance(event, e.HoldOpened | e.HoldRevised):
        return None
    return join_words(event.ruling.title, row.tool, run.agent, str(run.by))


def _row(before: Run, after: Run, n: int, event: e.Event) -> HoldRow:
    hold = after.hold(n)
    if hold is not None:
        return _hold_row(after, hold, hold.status, hold.decision)
    hold = before.hold(n)
    assert hold is not None, "an event touches a hold that was never there"
    decision = event.decision if isinstance(event, e.HoldSettled) else hold.decision
    return _hold_row(before, hold, HoldStatus.SETTLED, decision)


def _hold_row(run: Run, hold: Hold, status: HoldStatus, decision: Decision | None) -> HoldRow:
    call = run.call(hold.call)
    assert call is not None, "a hold without its call"
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
    )
