"""What the events about holds do to a run, and when they may not be. Part of `lifecycle`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.apply_calls import move
from sayso.domain.call import CallState
from sayso.domain.hold import (
    ASK_KINDS,
    Approved,
    Decision,
    Delegation,
    Expired,
    Hold,
    InDoubt,
    Rejected,
    Rung,
    Then,
    Withdrawn,
    may_decide,
)
from sayso.domain.people import resolve_names
from sayso.domain.question import Question
from sayso.domain.ruling import OPERATOR, Require, anyone
from sayso.domain.run import CallRow, Refusal, Run, with_call, with_hold
from sayso.domain.standing import equal_refusal, says_yes
from sayso.domain.value import CLOCK, SAYSO, Principal
from sayso.errors import IllegalEvent

_S = CallState
HOLD_MOVES: dict[Then, dict[CallState, CallState]] = {
    "start": {_S.READY: _S.HELD, _S.APPROVED: _S.HELD, _S.DOUBTED: _S.DOUBTED},
    "outcome": {_S.READY: _S.WAITING, _S.APPROVED: _S.WAITING, _S.STARTED: _S.WAITING},
    "continue": {_S.STARTED: _S.WAITING, _S.WAITING: _S.WAITING},
}
"""Where a hold takes its call, by what settling it will do."""
YES_MOVES = {_S.HELD: _S.APPROVED, _S.DOUBTED: _S.APPROVED}
"""Where a yes takes a call that is asked about."""
ANSWER_MOVES = {_S.WAITING: _S.ANSWERED, _S.DOUBTED: _S.ANSWERED}
"""Where the last answer takes a call whose body asks, or whose step is in doubt."""
THENS: dict[str, tuple[Then, ...]] = {
    "approval": ("start", "continue"),
    "in_doubt": ("start",),
    "question": ("outcome", "continue"),
    "sign_in": ("start", "continue"),
    "consent": ("start", "continue"),
    "external": ("outcome", "continue"),
    "delegation": ("outcome", "continue"),
}
"""What each kind of ask may do for its call: a yes is no outcome, and an answer starts nothing."""
_NEVER_SILENT = frozenset({"in_doubt", "sign_in", "consent"})


def hold_opened(run: Run, event: e.HoldOpened) -> Run:
    """Ask a person."""
    row = move(run, event.call, event, HOLD_MOVES[event.then])
    doubt = isinstance(event.ask, InDoubt)
    if event.hold != run.holds_opened + 1:
        raise IllegalEvent(f"hold {event.hold} is not the next one")
    if doubt != (row.state is _S.DOUBTED):
        raise IllegalEvent("only a call in doubt is asked about as one")
    kind = ASK_KINDS[type(event.ask)]
    if event.then not in THENS[kind]:
        raise IllegalEvent(f"{event.then!r} is not what a hold that asks {kind!r} is for")
    if kind in _NEVER_SILENT and event.ruling.on_silence == "approve":
        raise IllegalEvent("silence never lets a call in doubt start again, nor signs anybody in")
    if kind == "delegation" and event.deadline is not None:
        raise IllegalEvent("a run that works on something is cancelled, not left behind")
    if run.ending and not doubt:
        raise IllegalEvent("nobody is asked for leave in a run that is to end")
    _check_place(run, event, row)
    _check_alone(run, event)
    _check_suspension(run, event)
    _check_ruling(event.ruling, kind)
    ask = event.ask
    hold = Hold(
        n=event.hold,
        call=event.call,
        kind=kind,
        version=event.version,
        digest=event.digest,
        suspension=event.suspension,
        approvers=event.approvers,
        deadline=event.deadline,
        on_silence=_last_silence(event.ruling),
        entry=run.seq,
        opened_at=event.at,
        editable=event.ruling.editable and event.then == "start" and kind == "approval",
        on_reject=event.ruling.on_reject,
        then=event.then,
        together=event.together,
        step=event.ask.step if isinstance(event.ask, InDoubt) else event.step,
        child=ask.run if isinstance(ask, Delegation) else "",
        quorum=event.ruling.quorum,
        reject_quorum=event.ruling.reject_quorum,
        not_requester=event.ruling.not_requester,
        ladder=_ladder(run, event.ruling, event.at),
        start_by_ms=event.ruling.start_by_ms,
        silent_answer=_silent_answer(event),
        attempt=ask.attempt if isinstance(ask, InDoubt) else 0,
        may_live=isinstance(ask, InDoubt) and ask.may_live,
        worker=ask.worker if isinstance(ask, InDoubt) and not ask.elsewhere else "",
        remind_every_ms=event.ruling.remind_every_ms,
    )
    if hold.on_silence == "answer" and not hold.silent_answer:
        raise IllegalEvent("silence answers only a question that has a default")
    if _about_call(event):
        row = replace(row, version=event.version, digest=event.digest)
    if event.then == "start":
        row = replace(row, approved=False)
    if kind in ("approval", "in_doubt") and _about_call(event):
        row = replace(row, start_by=None)
    if event.then == "continue":
        row = replace(row, step=event.step)
    return replace(
        with_call(run, row),
        holds=(*run.holds, hold),
        holds_opened=event.hold,
        suspensions=event.suspension,
    )


def hold_revised(run: Run, event: e.HoldRevised) -> Run:
    """Ask something else."""
    hold = _open_hold(run, event.hold)
    _check_decider(run, hold, event, event.at)
    _check_ruling(event.ruling, hold.kind)
    if event.version != hold.version + 1 or not hold.editable:
        raise IllegalEvent(f"hold {hold.n} cannot become version {event.version}")
    if hold.deadline is not None and (event.deadline is None or event.deadline > hold.deadline):
        raise IllegalEvent("an edit never buys time")
    row = move(run, hold.call, event, {_S.HELD: _S.HELD})
    row = replace(
        row, version=event.version, digest=event.digest, entry=run.seq, editor=event.by.id
    )
    hold = replace(
        hold,
        version=event.version,
        digest=event.digest,
        revised=run.seq,
        approvers=event.approvers,
        deadline=event.deadline,
        on_silence=_last_silence(event.ruling),
        on_reject=event.ruling.on_reject,
        editable=event.ruling.editable,
        quorum=event.ruling.quorum,
        reject_quorum=event.ruling.reject_quorum,
        not_requester=event.ruling.not_requester,
        # What was said was said of something else.
        votes=(),
        ladder=_ladder(run, event.ruling, hold.opened_at),
        start_by_ms=event.ruling.start_by_ms,
        handed=(),
        remind_every_ms=event.ruling.remind_every_ms,
    )
    return with_hold(with_call(run, row), hold)


def vote_cast(run: Run, event: e.VoteCast) -> Run:
    """Count what somebody says, where it takes more than one."""
    hold = _open_hold(run, event.hold)
    decision = event.decision
    if event.version != hold.version or decision.digest != hold.digest:
        raise IllegalEvent("a vote binds the version and digest that were shown")
    _check_verdict(run, hold, decision)
    if decision.effective_at != decision.at:
        raise IllegalEvent("a vote counts at once: it can be taken back until the hold is settled")
    if has_voted(hold, decision.persons):
        raise IllegalEvent(f"{decision.by} has voted on hold {hold.n}, or somebody for them")
    if not isinstance(decision.verdict, Approved | Rejected) or missing(hold, decision) < 1:
        raise IllegalEvent(f"this settles hold {hold.n}, and is no vote")
    return with_hold(run, replace(hold, votes=(*hold.votes, decision)))


def vote_undone(run: Run, event: e.VoteUndone) -> Run:
    """Count a vote no more."""
    hold = _open_hold(run, event.hold)
    rest = tuple(vote for vote in hold.votes if vote.by.id != event.person)
    if len(rest) == len(hold.votes):
        raise IllegalEvent(f"{event.person!r} has not voted on hold {hold.n}")
    if event.by not in (SAYSO, Principal(id=event.person)):
        raise IllegalEvent("a vote is taken back by whoever cast it")
    return with_hold(run, replace(hold, votes=rest))


def hold_escalated(run: Run, event: e.HoldEscalated) -> Run:
    """Ask others as well."""
    hold = _open_hold(run, event.hold)
    if not hold.ladder or (event.at, event.to) != (hold.ladder[0].at, hold.ladder[0].to):
        raise IllegalEvent(f"hold {hold.n} is not to be escalated to {event.to} at {event.at}")
    approvers = tuple(dict.fromkeys((*hold.approvers, *event.to)))
    return with_hold(run, replace(hold, approvers=approvers, ladder=hold.ladder[1:]))


def hold_reassigned(run: Run, event: e.HoldReassigned) -> Run:
    """Ask somebody else instead."""
    hold = _open_hold(run, event.hold)
    if event.right == OPERATOR and event.basis and event.by.kind == "person":
        _check_in_time(hold, event.at)
    else:
        _check_decider(run, hold, event, event.at)
        own = (event.right,) if event.right else (f"user:{event.by.id}", anyone)
        if event.instead_of not in own:
            raise IllegalEvent(f"{event.by} is not asked as {event.instead_of!r}")
    if hold.child or event.instead_of not in hold.approvers or not event.to.startswith("user:"):
        raise IllegalEvent(f"hold {hold.n} cannot be handed over to {event.to}")
    named = event.instead_of.startswith("user:") and event.right != OPERATOR
    if hold.together or (max(hold.quorum, hold.reject_quorum) > 1 and not named):
        raise IllegalEvent(f"hold {hold.n} is not handed over to one person")
    if event.to.removeprefix("user:") in requesters(run, hold):
        raise IllegalEvent(f"hold {hold.n} is for others than who asked for it")
    if has_voted(hold, {event.by.id, event.of, event.instead_of.removeprefix("user:")}):
        raise IllegalEvent(f"who has voted on hold {hold.n} does not hand it over as well")
    approvers = [event.to if who == event.instead_of else who for who in hold.approvers]
    first = dict(hold.handed)
    first[event.to] = first.pop(event.instead_of, event.instead_of)
    handed = tuple(first.items())
    return with_hold(run, replace(hold, approvers=tuple(dict.fromkeys(approvers)), handed=handed))


def hold_settled(run: Run, event: e.HoldSettled) -> Run:
    """Take a decision, of somebody or of time."""
    hold = run.hold(event.hold)
    decision = event.decision
    withdrawn = isinstance(decision.verdict, Withdrawn)
    if hold is None or (hold.decision is not None and not withdrawn):
        raise IllegalEvent(f"hold {event.hold} is not open")
    if event.version != hold.version or decision.digest != hold.digest:
        raise IllegalEvent("a decision binds the version and digest that were shown")
    _check_verdict(run, hold, decision)
    if missing(hold, decision):
        raise IllegalEvent(f"hold {hold.n} takes more than that: {missing(hold, decision)} more")
    run = replace(run, spent=run.spent + event.turns)
    if event.worked_ms and (time := run.work_time) is not None:
        time = replace(time, worked_ms=time.worked_ms + event.worked_ms)
        run = replace(run, work_time=time)
    if decision.effective_at > decision.at:
        return with_hold(run, replace(hold, decision=decision))
    return _effective(run, hold, decision, event)


def decision_effective(run: Run, event: e.DecisionEffective) -> Run:
    """Let a decision count that can no longer be undone."""
    hold = run.hold(event.hold)
    if hold is None or hold.decision is None:
        raise IllegalEvent(f"hold {event.hold} has no decision that waits to take effect")
    settled = e.HoldSettled(hold=hold.n, version=hold.version, decision=hold.decision)
    return _effective(run, hold, hold.decision, settled)


def decision_undone(run: Run, event: e.DecisionUndone) -> Run:
    """Take a decision back."""
    hold = run.hold(event.hold)
    if hold is None or hold.decision is None:
        raise IllegalEvent(f"hold {event.hold} has no decision to undo")
    own = event.by == hold.decision.by and event.at < hold.decision.effective_at
    # What was decided elsewhere and did not count there yet does not begin to count here.
    if not own and event.by != SAYSO:
        raise IllegalEvent("a decision is undone by whoever made it, before it is effective")
    return with_hold(run, replace(hold, decision=None))


def late_result(run: Run, event: e.LateResult) -> Run:
    """Know that an attempt is over. Nothing else follows: it does not count any more."""
    for hold in run.holds_of(event.call):
        if hold.may_live and hold.attempt == event.attempt:
            run = with_hold(run, replace(hold, may_live=False))
    return run


def run_adopted(run: Run, event: e.RunAdopted) -> Run:
    """Let silence no longer approve what was asked elsewhere, nor any body go on by it: it may have
    done so there. What became of a worker there cannot be seen from here.
    """
    for hold in run.holds:
        if hold.worker:
            run = with_hold(run, replace(hold, worker=""))
    for n in event.silenced:
        hold = run.hold(n)
        if hold is None or hold.on_silence != "approve":
            raise IllegalEvent(f"silence does not approve hold {n}")
        run = with_hold(run, replace(hold, on_silence="reject"))
    for n in event.undated:
        hold = run.hold(n)
        if hold is None or hold.deadline is None or not hold.resumes:
            raise IllegalEvent(f"silence lets no body go on by hold {n}")
        run = with_hold(run, replace(hold, deadline=None))
    time = run.work_time
    if time is not None and time.since:
        # On its way, or in a backup, nobody worked on it.
        last = event.times[-1] if event.times else time.since
        run = replace(run, work_time=time.stopped(last).resumed(event.at))
    return run


def _about_call(event: e.HoldOpened) -> bool:
    """Tell whether the hold asks about the call itself, and so shows the call's digest."""
    if isinstance(event.ask, InDoubt):
        return not event.ask.step
    return event.then == "start"


def _check_place(run: Run, event: e.HoldOpened, row: CallRow) -> None:
    if row.stepping and not (isinstance(event.ask, InDoubt) and event.ask.step):
        raise IllegalEvent(f"step {row.step} of {event.call} has to be looked into first")
    if _about_call(event):
        # A tool that was upgraded while its call waited is asked about again, under a new digest.
        anew = event.version == row.version + 1
        if not anew and (event.version, event.digest) != (row.version, row.digest):
            raise IllegalEvent(f"hold {event.hold} is not about the call {event.call} as it is")
        return
    if event.version != 1:
        raise IllegalEvent("what a call asks is asked in one version")
    # What is asked at once is asked at one place.
    place = row.step if run.holds_of(event.call) else row.step + 1
    if isinstance(event.ask, InDoubt):
        if event.ask.step != row.step or not row.stepping:
            raise IllegalEvent(f"step {event.ask.step} of {event.call} is not in doubt")
    elif event.then == "continue" and event.step != place:
        raise IllegalEvent(f"the body of {event.call} is not at step {event.step}")


def _check_alone(run: Run, event: e.HoldOpened) -> None:
    # Only a body asks several things at once, all in one append.
    for hold in run.holds_of(event.call):
        if {event.then, hold.then} != {"continue"} or hold.suspension != event.suspension:
            raise IllegalEvent(f"the call {event.call} has an open hold")


def _check_suspension(run: Run, event: e.HoldOpened) -> None:
    # One append opens it, so its members follow each other in the journal.
    joins = bool(run.holds) and run.holds[-1].entry == run.seq - 1
    newest = run.suspensions
    if event.suspension != newest + 1 and not (joins and event.suspension == newest):
        raise IllegalEvent("a suspension never grows")


def _check_ruling(ruling: Require, kind: str) -> None:
    many = max(ruling.quorum, ruling.reject_quorum) > 1
    if many and kind not in ("approval", "in_doubt"):
        raise IllegalEvent(f"a quorum is for approvals: {kind!r} is settled by one person")
    if ruling.on_silence == "answer" and kind != "question":
        raise IllegalEvent("silence answers nothing but a question")
    if ruling.escalations and kind == "delegation":
        raise IllegalEvent("what another run works on is decided by nobody, however late")


def _last_silence(ruling: Require) -> str:
    # Others are asked first; what silence means in the end is a no.
    return "reject" if ruling.on_silence == "escalate" else ruling.on_silence


def _ladder(run: Run, ruling: Require, since: int) -> tuple[Rung, ...]:
    return tuple(
        [
            Rung(at=since + step.after_ms, to=resolve_names(step.to, run.by))
            for step in ruling.escalations
        ]
    )


def _silent_answer(event: e.HoldOpened) -> str:
    default = event.ask.default if isinstance(event.ask, Question) else None
    wanted = event.ruling.on_silence == "answer" and default is not None
    return bytes(default).decode() if wanted and default is not None else ""


def requesters(run: Run, hold: Hold) -> tuple[str, ...]:
    """Name those who must not decide a hold that is for others than who asked for the call: who
    started the run, who invoked the command, who made the arguments what they are.
    """
    row = run.call(hold.call)
    found = (run.by.id,) if row is None else (run.by.id, row.by, row.editor)
    return tuple(one for one in found if one) if hold.not_requester else ()


def missing(hold: Hold, decision: Decision) -> int:
    """Say how many more must say the same before it settles the hold."""
    if not isinstance(decision.verdict, Approved | Rejected):
        return 0
    kind = type(decision.verdict)
    # Whoever says it twice, once for themselves and once for somebody else, has said it once.
    others = [
        vote
        for vote in hold.votes
        if isinstance(vote.verdict, kind) and not {*vote.persons} & {*decision.persons}
    ]
    needed = hold.quorum if kind is Approved else hold.reject_quorum
    return max(needed - len(others) - 1, 0)


def has_voted(hold: Hold, persons: Iterable[str]) -> bool:
    """Tell whether one of these has voted, or somebody for them."""
    return not {who for vote in hold.votes for who in vote.persons}.isdisjoint(persons)


def _check_in_time(hold: Hold, at: int) -> None:
    if hold.deadline is not None and at >= hold.deadline:
        raise IllegalEvent(f"hold {hold.n} is past its deadline")


def _check_decider(
    run: Run, hold: Hold, said: Decision | e.HoldRevised | e.HoldReassigned, at: int
) -> None:
    by = said.by
    if hold.child:
        if by != Principal(kind="agent", id=hold.child):
            raise IllegalEvent(f"hold {hold.n} is settled by the end of {hold.child}")
    elif said.right:
        # By another name than their own somebody is meant only where a record says so.
        if by.kind != "person" or said.right not in hold.approvers or not said.basis:
            raise IllegalEvent(f"{by} may not decide hold {hold.n} as {said.right}")
    elif not may_decide(hold.approvers, by, hold.kind):
        raise IllegalEvent(f"{by} may not decide hold {hold.n}")
    if not {by.id, said.of}.isdisjoint(requesters(run, hold)):
        raise IllegalEvent(f"hold {hold.n} is for others than who asked for it")
    _check_in_time(hold, at)


def _check_verdict(run: Run, hold: Hold, decision: Decision) -> None:
    match decision.verdict:
        case Withdrawn():
            if hold.kind == "in_doubt" or hold.child:
                raise IllegalEvent("what has been started cannot be withdrawn")
        case Expired(silence=silence, answer=answer):
            if decision.by != CLOCK or hold.deadline is None or decision.at < hold.deadline:
                raise IllegalEvent("expiry is nobody's decision, and not before the deadline")
            said = "" if answer is None else bytes(answer).decode()
            if (silence, said) != (hold.on_silence, hold.silent_answer):
                raise IllegalEvent(f"silence means {hold.on_silence!r} here, not {silence!r}")
        case verdict:
            _check_decider(run, hold, decision, decision.at)
            if isinstance(verdict, Approved) and verdict.args is not None:
                raise IllegalEvent("other arguments are another version, to be decided as one")


def _effective(run: Run, hold: Hold, decision: Decision, event: e.HoldSettled) -> Run:
    run = replace(run, holds=tuple(other for other in run.holds if other.n != hold.n))
    if hold.resumes:
        if run.holds_of(hold.call):
            return run
        return with_call(run, move(run, hold.call, event, ANSWER_MOVES))
    if hold.then == "start" and says_yes(decision.verdict):
        row = replace(move(run, hold.call, event, YES_MOVES), approved=True)
        if hold.start_by_ms is not None:
            row = replace(row, start_by=decision.effective_at + hold.start_by_ms)
        return with_call(run, row)
    digest = _refused(run, hold, decision)
    if digest:
        before = equal_refusal(run, digest)
        others = tuple(r for r in run.refusals if r.digest != digest)
        times = before.times + 1 if before else 1
        refusal = Refusal(digest=digest, hold=hold.n, times=times)
        run = replace(run, refusals=(*others, refusal))
    return run


def _refused(run: Run, hold: Hold, decision: Decision) -> str:
    """Give the digest of the call that a decision refuses, as its model asked for it; or nothing.

    Whoever declines to answer has refused the call that asks: put again, it would only tire them.
    That nothing came from outside in time refuses nothing; nor is a command asked by a model.
    """
    row = run.call(hold.call)
    match decision.verdict:
        case Rejected():
            kinds = ("approval", "question", "external")
        case Expired(answer=None):
            kinds = ("approval", "question")
        case _:
            return ""
    if row is None or row.version != 1 or hold.kind not in kinds:
        return ""
    return row.digest if hold.kind == "approval" or run.strand_of(hold.call) else ""


def _open_hold(run: Run, n: int) -> Hold:
    hold = run.hold(n)
    if hold is None or hold.decision is not None:
        raise IllegalEvent(f"hold {n} is not open")
    return hold
