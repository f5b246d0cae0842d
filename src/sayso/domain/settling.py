"""How holds are settled, and what follows: decisions, expiry, cancelling. Verbs, like `verbs`.

Rule 1: a verb changes nothing, and is run again on the reloaded run when its append was stale. It
raises `Refused` if what was asked cannot be, and returns nothing if it is no longer wanted.
Rule 2: time, ids and randomness come in as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.apply_holds import missing
from sayso.domain.call import CallState, Declined, Failed, Outcome, Returned, Unknown
from sayso.domain.entitled import decidable, expiry, recorded_right
from sayso.domain.hold import (
    Answered,
    Approved,
    Decision,
    Errored,
    Expired,
    Hold,
    Rejected,
    Verdict,
    Withdrawn,
    hold_id,
    request_id,
)
from sayso.domain.lifecycle import apply
from sayso.domain.people import Authority, Basis, unrecorded
from sayso.domain.ruling import duration_text
from sayso.domain.run import CallRow, Run
from sayso.domain.standing import says_yes
from sayso.domain.value import CLOCK, Principal
from sayso.errors import (
    AlreadyDecided,
    BudgetSpent,
    CannotUndo,
    NotAllowed,
    NotWhatWasShown,
    RunFinished,
    UnknownHold,
    WrongVerdict,
)

_FITS: dict[str, tuple[type[Verdict], ...]] = {
    "approval": (Approved, Rejected),
    "in_doubt": (Approved, Rejected, Answered, Errored),
    "question": (Answered, Rejected, Errored),
    "sign_in": (Approved, Rejected, Errored),
    "consent": (Approved, Rejected, Errored),
    "external": (Answered, Rejected, Errored),
    "delegation": (Answered, Errored),
}
"""Which verdicts of a person answer which kind of ask."""
_SAID_BY: dict[type, str] = {
    Approved: "approve()",
    Rejected: "reject('why')",
    Answered: "answer(value)",
    Errored: "fail('why')",
}
"""What people write to give a verdict."""


def check_shown(run: Run, n: int, digest: str | None) -> None:
    """Refuse a decision on anything but what was shown."""
    hold = run.hold(n)
    if hold is None:
        raise UnknownHold(f"there is no open hold {hold_id(run.id, n)!r}")
    if (digest is None and hold.version > 1) or (digest is not None and digest != hold.digest):
        raise NotWhatWasShown(digest=hold.digest, version=hold.version)


def settle(
    run: Run,
    n: int,
    verdict: Verdict,
    *,
    by: Principal | Authority,
    now: int,
    undo_ms: int = 0,
    channel: str = "library",
    key: str = "",
    note: str = "",
    whole: bool = False,
    alone: bool = True,
    basis: tuple[Basis, ...] = (),
    even_if_alive: bool = False,
) -> list[e.Event]:
    """Settle a hold, or vote on one that takes several persons. The first decision stands; a later
    one raises `AlreadyDecided`.

    `whole`: all of its suspension is being decided, as some holds demand. Not `alone`: others are
    decided at once, and what comes of it is left to `follow`. With `undo_ms` it counts
    only after that time, but from the hold's deadline on at the latest: taken back later it would
    leave a hold that nobody may decide any more. `basis`: the records by which the votes before it
    still count.
    """
    who = by if isinstance(by, Authority) else unrecorded(by)
    hold, right = decidable(run, n, by=who, now=now)
    if hold.together and not whole:
        request = request_id(run.id, hold.suspension)
        raise WrongVerdict(
            f"{hold_id(run.id, n)!r} is decided with all others of {request!r}, or not at all: "
            f"resume({request!r}, ...)"
        )
    if not isinstance(verdict, _FITS[hold.kind]):
        word = _SAID_BY.get(type(verdict), type(verdict).__name__)
        fits = ", ".join(_SAID_BY[kind] for kind in _FITS[hold.kind])
        name = hold_id(run.id, n)
        raise WrongVerdict(f"{word} does not answer {name!r}, which asks {hold.kind!r}: use {fits}")
    _check_doubt(run, hold, verdict, note=note, even_if_alive=even_if_alive)
    if isinstance(verdict, Approved) and verdict.args is not None:
        raise WrongVerdict("other arguments are another version: revise the hold, then approve it")
    if run.ending and says_yes(verdict):
        raise WrongVerdict("the run is being cancelled: the call cannot be run again")
    _check_budget(run, hold, verdict, now)
    effective_at = now + undo_ms
    decision = Decision(
        verdict=verdict,
        by=who.by,
        at=now,
        effective_at=effective_at if hold.deadline is None else min(effective_at, hold.deadline),
        digest=hold.digest,
        channel=channel,
        assurance=who.via,
        key=key,
        note=note,
        right=recorded_right(who, right),
        of=right.of,
        basis=right.basis,
        even_if_alive=even_if_alive,
    )
    _check_voted(hold, decision, who)
    if missing(hold, decision):
        vote = replace(decision, effective_at=now)
        return [e.VoteCast(hold=n, version=hold.version, decision=vote)]
    decision = replace(decision, basis=tuple(dict.fromkeys((*right.basis, *basis))))
    return _settled(run, hold, decision) if alone else [_settling(hold, decision)]


def _check_doubt(run: Run, hold: Hold, verdict: Verdict, *, note: str, even_if_alive: bool) -> None:
    """Refuse what says too little of a call in doubt, or too much of anything else."""
    name = hold_id(run.id, hold.n)
    in_doubt = hold.kind == "in_doubt"
    if even_if_alive and not (in_doubt and isinstance(verdict, Approved)):
        raise WrongVerdict(
            f"even_if_alive= goes with approve() of a call in doubt, and not with {name!r}"
        )
    if in_doubt and isinstance(verdict, Answered) and verdict.result() is None and not note.strip():
        # It is the only trace of what somebody has found out.
        raise WrongVerdict(
            f"answer(None) says nothing of {name!r} but that it happened: give its result, as "
            "answer(value), or say how you know, as note='...'"
        )


def _check_voted(hold: Hold, decision: Decision, who: Authority) -> None:
    """Refuse to count somebody twice. Whoever has said yes may still say no, if one no decides."""
    # They may have voted by an identity that nobody knew to be theirs yet.
    mine = {*decision.persons, *who.also}
    before = [vote for vote in hold.votes if not mine.isdisjoint(vote.persons)]
    last_word = isinstance(decision.verdict, Rejected) and hold.reject_quorum == 1
    if not before or not isinstance(decision.verdict, Approved | Rejected) or last_word:
        return
    vote = before[0]
    more = f"{missing(hold, vote)} more" if missing(hold, vote) else "no more"
    raise AlreadyDecided(
        f"{vote.by} has {vote.word} it already, and counts once; it takes {more}. "
        "To say something else, take it back first: undo(...)",
        decision=vote,
    )


def follow(before: Run, run: Run, events: Sequence[e.Event]) -> list[e.Event]:
    """Say what comes of holds that were settled at once. What one of them leads to, such as the end
    of the run, must not take back what was decided of the others.
    """
    draft = Draft(run)
    for event in events:
        if not isinstance(event, e.HoldSettled) or run.hold(event.hold) is not None:
            continue  # It is not effective yet.
        hold = before.hold(event.hold)
        assert hold is not None, "what was settled was open before"
        # Its call may be over already, with another one of these.
        if draft.run.call(hold.call) is not None:
            draft.add(*_consequences(draft.run, hold, event.decision))
    return draft.events


def settle_child(
    run: Run, n: int, verdict: Verdict, *, child: str, now: int, turns: int, worked_ms: int = 0
) -> list[e.Event]:
    """Tell a run how a run that it waits for has ended; nothing if it no longer waits."""
    hold = run.hold(n)
    if hold is None or hold.child != child:
        return []
    decision = Decision(
        verdict=verdict,
        by=Principal(kind="agent", id=child),
        at=now,
        effective_at=now,
        digest=hold.digest,
        channel="engine",
    )
    return _settled(run, hold, decision, turns=turns, worked_ms=worked_ms)


def undo(run: Run, n: int, *, by: Principal, now: int) -> list[e.Event]:
    """Take a decision back before it is effective, or a vote before the hold is settled. Only
    whoever made it may.
    """
    hold = run.hold(n)
    if hold is None:
        raise CannotUndo
    members = [other for other in run.holds if other.suspension == hold.suspension]
    # What was decided together is taken back together.
    undone = [other for other in members if other.together] if hold.together else [hold]
    if hold.decision is None and any(vote.by == by for vote in hold.votes):
        return [e.VoteUndone(hold=other.n, person=by.id, by=by, at=now) for other in undone]
    if hold.decision is None or now >= hold.decision.effective_at:
        raise CannotUndo
    if hold.decision.by != by:
        raise NotAllowed("only whoever decided may take the decision back")
    return [e.DecisionUndone(hold=other.n, by=by, at=now) for other in undone]


def sweep(run: Run, *, now: int) -> list[e.Event]:
    """Do what is due: ask others as well, expire holds whose time is up, let decisions count."""
    draft = Draft(run)
    draft.add(*escalate(run, now=now))
    for hold in draft.run.holds:
        if hold.decision is not None:
            if hold.decision.effective_at <= now:
                draft.add(e.DecisionEffective(hold=hold.n))
                draft.add(*_consequences(draft.run, hold, hold.decision))
        elif hold.deadline is not None and hold.deadline <= now:
            draft.add(*_settled(draft.run, hold, expiry(hold, now)))
        if draft.run.ending and not run.ending:
            break  # Everything else was withdrawn by that, but for doubts: they are still due.
    return draft.events


def escalate(run: Run, *, now: int) -> list[e.Event]:
    """Ask those as well whose time has come."""
    return [
        e.HoldEscalated(hold=hold.n, to=rung.to, at=rung.at)
        for hold in run.holds
        if hold.decision is None
        for rung in hold.ladder
        if rung.at <= now
    ]


def verdict_of(run: Run, events: Sequence[e.Event]) -> Verdict:
    """Say what the end of a run, brought by these events, is to the run that waits for it."""
    for event in events:
        match event:
            case e.RunCompleted(output=output):
                return Answered(value=output)
            case e.RunFailed(error=error):
                return Errored(message=f"{run.agent} failed: {error}")
            case _:
                pass
    return Errored(message=f"{run.agent} was cancelled: {run.ending_why or 'no reason was given'}")


def cancel(
    run: Run, *, by: Principal, now: int, reason: str = "", error: str = ""
) -> list[e.Event]:
    """End the run, as failed if there is an error. What has started is waited for."""
    if run.final:
        raise RunFinished(f"the run {run.id!r} is {run.final}")
    if run.ending:
        return []
    draft = Draft(run)
    draft.add(e.CancelRequested(by=by, at=now, reason=reason, error=error))
    why = error or reason or "the run was cancelled"
    draft.add(*withdraw(draft.run, by=by, now=now, reason=why))
    for row in draft.run.calls(CallState.READY, CallState.APPROVED):
        draft.add(e.CallFinished(call=row.ref, outcome=Declined(reason=why, by=str(by))))
    for row in draft.run.calls(CallState.ANSWERED):
        draft.add(cut_short(draft.run, row))
    return draft.events


def withdraw(
    run: Run,
    *,
    by: Principal,
    now: int,
    reason: str,
    only: str = "",
    decided_too: bool = True,
    bodies_too: bool = True,
) -> list[e.Event]:
    """Take back what a run asks, or one call of it; with `decided_too`, also what is decided and
    can still be undone; with `bodies_too`, also what bodies ask that go on after it.
    """
    # A call in doubt stays open whatever happens to the run: somebody must look into it. So does
    # one that another run works on: that run is to end first.
    draft = Draft(run)
    for hold in run.holds:
        if hold.kind == "in_doubt" or hold.child or only not in ("", hold.call):
            continue
        if hold.decision is not None and not decided_too:
            continue
        if hold.then == "continue" and not bodies_too:
            continue
        decision = Decision(
            verdict=Withdrawn(reason=reason),
            by=by,
            at=now,
            effective_at=now,
            digest=hold.digest,
        )
        draft.add(*_settled(draft.run, hold, decision))
    return draft.events


class Draft:
    """Events so far, and the run as it will be after them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.events: list[e.Event] = []

    def add(self, *events: e.Event) -> None:
        run = self.run
        for event in events:
            run = apply(run, event)
        self.run = run
        self.events.extend(events)


def _check_budget(run: Run, hold: Hold, verdict: Verdict, now: int) -> None:
    """Refuse what would let a run go on that has no turn left to see what became of it, or no time
    to take one.
    """
    time, spent = run.work_time, ""
    if run.turns_max and run.turns + run.spent >= run.turns_max:
        spent = f"taken the {run.turns_max} turns that it may take"
    elif time is not None and not time.left_ms(now):
        spent = f"worked for the {duration_text(time.timeout_ms)} that it may work"
    if not spent or run.strand_of(hold.call) is None:
        return
    # That something has happened can always be said, and a command needs no turn.
    if isinstance(verdict, Approved) or (isinstance(verdict, Answered) and hold.kind != "in_doubt"):
        raise BudgetSpent(
            f"{run.id!r} has {spent}, and cannot go on after {hold_id(run.id, hold.n)!r}: "
            "reject it, or cancel the run"
        )


def _settled(
    run: Run, hold: Hold, decision: Decision, *, turns: int = 0, worked_ms: int = 0
) -> list[e.Event]:
    draft = Draft(run)
    draft.add(_settling(hold, decision, turns=turns, worked_ms=worked_ms))
    if decision.effective_at <= decision.at:
        draft.add(*_consequences(draft.run, hold, decision))
    return draft.events


def _settling(
    hold: Hold, decision: Decision, *, turns: int = 0, worked_ms: int = 0
) -> e.HoldSettled:
    return e.HoldSettled(
        hold=hold.n, version=hold.version, decision=decision, turns=turns, worked_ms=worked_ms
    )


def _consequences(run: Run, hold: Hold, decision: Decision) -> list[e.Event]:
    """Say what follows for the call, and for the run, once a decision is effective."""
    draft = Draft(run)
    draft.add(*_for_call(run, hold, _row(run, hold), decision))
    name = hold_id(run.id, hold.n)
    match decision.verdict:
        case Expired(silence="fail"):
            error = f"nobody decided {name} in time"
            draft.add(*cancel(draft.run, by=CLOCK, now=decision.at, error=error))
        case Expired(silence="cancel"):
            reason = f"nobody decided {name} in time"
            draft.add(*cancel(draft.run, by=CLOCK, now=decision.at, reason=reason))
        case Rejected(reason=reason) if hold.on_reject == "cancel" and hold.kind != "in_doubt":
            draft.add(*cancel(draft.run, by=decision.by, now=decision.at, reason=reason))
        case _:
            pass
    return draft.events


def _for_call(run: Run, hold: Hold, row: CallRow, decision: Decision) -> list[e.Event]:
    in_doubt = hold.kind == "in_doubt"
    if in_doubt and hold.step:
        return _for_step(run, hold, row, decision)
    if hold.then == "continue":
        over = run.ending and row.state is CallState.ANSWERED
        return [cut_short(run, row)] if over else []
    if hold.then == "start" and says_yes(decision.verdict):
        # Said before the run was to end, effective after that: nothing starts any more.
        return declined_by_end(run, row) if run.ending else []
    return [
        e.CallFinished(
            call=row.ref,
            attempt=0 if row.state is CallState.HELD else row.attempt,
            outcome=_outcome(hold, decision),
            why=f"{decision.by} looked into it" if in_doubt else "",
        )
    ]


def _for_step(run: Run, hold: Hold, row: CallRow, decision: Decision) -> list[e.Event]:
    """Say what follows for a step that was in doubt: its body goes on in any case."""
    why = f"{decision.by} looked into it"
    at, step = row.attempt, hold.step
    if says_yes(decision.verdict):
        voided = e.StepVoided(call=row.ref, attempt=at, step=step, why=why)
        # Said before the run was to end, effective after that: no body goes on any more.
        return [voided, cut_short(run, row)] if run.ending else [voided]
    outcome = _outcome(hold, decision)
    found = e.StepFinished(call=row.ref, attempt=at, step=step, outcome=outcome, why=why)
    return [found, cut_short(run, row, outcome)] if run.ending else [found]


def cut_short(run: Run, row: CallRow, known: Outcome | None = None) -> e.CallFinished:
    """End a call whose body was waiting when its run was to end."""
    message = f"the run was to end: {run.ending_why}"
    unknown = isinstance(known, Unknown)
    outcome = known if unknown else Failed(error="Cancelled", message=message)
    return e.CallFinished(call=row.ref, attempt=row.attempt, outcome=outcome)


def declined_by_end(run: Run, row: CallRow) -> list[e.Event]:
    """Give a call its outcome that cannot start any more."""
    reason = f"the run was to end: {run.ending_why}"
    return [e.CallFinished(call=row.ref, outcome=Declined(reason=reason))]


def _outcome(hold: Hold, decision: Decision) -> Outcome:
    match decision.verdict:
        case Answered(value=value):
            return Returned(value=value)
        case Errored(message=message) if hold.kind == "in_doubt":
            return Unknown(reason=message)
        case Errored(message=message):
            return Failed(error="Errored", message=message)
        case Rejected(reason=reason):
            return Declined(reason=reason or "rejected", by=str(decision.by))
        case Withdrawn(reason=reason):
            return Declined(reason=reason or "withdrawn", by=str(decision.by))
        case Expired(answer=value) if value is not None:
            return Returned(value=value)
        case _ if hold.kind == "in_doubt":
            return Unknown(reason="nobody looked into it in time")
        case _:
            return Declined(reason="nobody decided in time")


def _row(run: Run, hold: Hold) -> CallRow:
    row = run.call(hold.call)
    assert row is not None, "a hold belongs to a call of an open turn, or to a command"
    return row
