"""What can be done to a run: each verb looks at a run and returns the events to append.

Rule 1: a verb changes nothing, and is run again on the reloaded run when its append was stale. It
raises `Refused` if what was asked cannot be, and returns nothing if it is no longer wanted.
Rule 2: time, ids and randomness come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sayso.domain import events as e
from sayso.domain.call import CallState, Declined, Outcome, Returned, Unknown
from sayso.domain.hold import (
    Answered,
    Approval,
    Approved,
    Ask,
    Decision,
    Errored,
    Expired,
    Hold,
    InDoubt,
    Rejected,
    Verdict,
    Withdrawn,
    hold_id,
    may_decide,
    name_approvers,
    resolve_approvers,
)
from sayso.domain.lifecycle import FINAL, apply_all, says_yes, status_of, strand_due
from sayso.domain.policy import Require
from sayso.domain.run import CallRow, Run, Status
from sayso.domain.value import CLOCK, Principal, Value
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    HoldExpired,
    NotAllowed,
    NotWhatWasShown,
    RunFinished,
    RunWaiting,
    UnknownHold,
    WrongVerdict,
)

_FITS: dict[str, tuple[type[Verdict], ...]] = {
    "approval": (Approved, Rejected),
    "in_doubt": (Approved, Rejected, Answered, Errored),
}
"""Which verdicts of a person answer which kind of ask."""
_SAID_BY: dict[type, str] = {
    Approved: "approve()",
    Rejected: "reject('why')",
    Answered: "answer(value)",
    Errored: "fail('why')",
}
"""What people write to give a verdict."""


class HoldRequest(Value, frozen=True, kw_only=True):
    """A hold to be opened."""

    ref: str
    ruling: Require
    ask: Ask = Approval()
    policy_version: str = ""
    duplicate_of: str = ""
    digest: str = ""
    """Of the call as it is now, if its tool has changed since it was asked for."""
    tool_version: str = ""


class Start(Value, frozen=True, kw_only=True):
    """A call to be started."""

    ref: str
    digest: str
    worker: str
    tick: int
    timeout_ms: int
    tool_version: str = ""


def say(
    run: Run, text: str, *, by: Principal, now: int, key: str = "", supersede: bool = False
) -> list[e.Event]:
    """Say something to a run. One that waits for a person refuses, unless superseded."""
    _refuse_ended(run)
    found: list[e.Event] = []
    if supersede:
        found = _withdraw(run, by=by, now=now, reason="superseded by a new message")
    elif status_of(run) is Status.SUSPENDED:
        holds = [hold_id(run.id, hold.n) for hold in run.holds]
        raise RunWaiting(
            f"{run.id!r} waits for a person: decide {', '.join(holds)} first, or withdraw what it "
            "asks with say(..., supersede=True)",
            holds=holds,
        )
    return [*found, e.MessageReceived(by=by, text=text, key=key)]


def take_turn(run: Run, turn: e.TurnTaken) -> list[e.Event]:
    """Record the model's answer; nothing if the run has moved on without it."""
    strand = run.strand(turn.strand)
    if strand is None or turn.turn != run.turns + 1 or not strand_due(run, strand):
        return []
    return [turn]


def complete(run: Run, output: bytes) -> list[e.Event]:
    """End the run with a result; nothing if there is news that its model has not seen."""
    if run.ending or run.final or any(strand_due(run, strand) for strand in run.strands):
        return []
    return [e.RunCompleted(output=msgspec.Raw(output))]


def open_holds(run: Run, requests: Sequence[HoldRequest], *, now: int) -> list[e.Event]:
    """Ask people, all in one suspension."""
    found: list[e.Event] = []
    for offset, request in enumerate(requests, start=1):
        row = _call(run, request.ref)
        within = request.ruling.within_ms
        found.append(
            e.HoldOpened(
                hold=run.holds_opened + offset,
                call=request.ref,
                digest=request.digest or row.digest,
                version=row.version + 1 if request.digest else row.version,
                ask=request.ask,
                ruling=request.ruling,
                approvers=resolve_approvers(request.ruling, run.by),
                suspension=run.suspensions + 1,
                at=now,
                deadline=None if within is None else now + within,
                policy_version=request.policy_version,
                tool_version=request.tool_version,
                duplicate_of=request.duplicate_of,
            )
        )
    return found


def revise(
    run: Run, n: int, *, args: bytes, digest: str, ruling: Require, by: Principal, now: int
) -> list[e.Event]:
    """Edit what is asked. It becomes a new version, to be decided by whom the new ruling names."""
    hold = _decidable(run, n, by=by, now=now)
    if not hold.editable:
        raise WrongVerdict(f"the arguments of {hold_id(run.id, n)!r} may not be edited")
    within = None if ruling.within_ms is None else now + ruling.within_ms
    return [
        e.HoldRevised(
            hold=n,
            version=hold.version + 1,
            args=msgspec.Raw(args),
            digest=digest,
            by=by,
            ruling=ruling,
            approvers=resolve_approvers(ruling, run.by),
            at=now,
            # An edit never buys time.
            deadline=min((at for at in (hold.deadline, within) if at is not None), default=None),
        )
    ]


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
    by: Principal,
    now: int,
    undo_ms: int = 0,
    channel: str = "library",
    key: str = "",
    note: str = "",
) -> list[e.Event]:
    """Settle a hold. The first decision stands; a later one raises `AlreadyDecided`.

    With `undo_ms` it counts only after that time, but from the hold's deadline on at the latest:
    taken back later it would leave a hold that nobody may decide any more.
    """
    hold = _decidable(run, n, by=by, now=now)
    if not isinstance(verdict, _FITS[hold.kind]):
        word = _SAID_BY.get(type(verdict), type(verdict).__name__)
        fits = ", ".join(_SAID_BY[kind] for kind in _FITS[hold.kind])
        name = hold_id(run.id, n)
        raise WrongVerdict(f"{word} does not answer {name!r}, which asks {hold.kind!r}: use {fits}")
    if isinstance(verdict, Approved) and verdict.args is not None:
        raise WrongVerdict("other arguments are another version: revise the hold, then approve it")
    if run.ending and says_yes(verdict):
        raise WrongVerdict("the run is being cancelled: the call cannot be run again")
    effective_at = now + undo_ms
    decision = Decision(
        verdict=verdict,
        by=by,
        at=now,
        effective_at=effective_at if hold.deadline is None else min(effective_at, hold.deadline),
        digest=hold.digest,
        channel=channel,
        key=key,
        note=note,
    )
    return _settled(run, hold, decision)


def undo(run: Run, n: int, *, by: Principal, now: int) -> list[e.Event]:
    """Take a decision back before it is effective. Only whoever made it may."""
    hold = run.hold(n)
    if hold is None or hold.decision is None or now >= hold.decision.effective_at:
        raise CannotUndo
    if hold.decision.by != by:
        raise NotAllowed("only whoever decided may take the decision back")
    return [e.DecisionUndone(hold=n, by=by, at=now)]


def sweep(run: Run, *, now: int) -> list[e.Event]:
    """Do what is due: expire holds whose time is up, let decisions take effect."""
    draft = _Draft(run)
    for hold in run.holds:
        if hold.decision is not None:
            if hold.decision.effective_at <= now:
                draft.add(e.DecisionEffective(hold=hold.n))
                draft.add(*_consequences(draft.run, hold, hold.decision))
        elif hold.deadline is not None and hold.deadline <= now:
            draft.add(*_settled(draft.run, hold, _expiry(hold, now)))
        if draft.run.ending and not run.ending:
            break  # Everything else was withdrawn by that, but for doubts: they are still due.
    return draft.events


def start_calls(run: Run, starts: Iterable[Start]) -> list[e.Event]:
    """Start calls that may start, on the digest that may; the others are left alone."""
    found: list[e.Event] = []
    for start in starts:
        row = run.call(start.ref)
        if row is None or row.state not in (CallState.READY, CallState.APPROVED) or run.ending:
            continue
        if row.digest != start.digest:
            raise NotWhatWasShown(f"the call {start.ref} is not the one that may start")
        found.append(
            e.CallStarted(
                call=start.ref,
                attempt=row.attempt + 1,
                worker=start.worker,
                digest=start.digest,
                tick=start.tick,
                timeout_ms=start.timeout_ms,
                tool_version=start.tool_version,
            )
        )
    return found


def finish_call(
    run: Run, ref: str, *, attempt: int, outcome: Outcome, why: str = ""
) -> list[e.Event]:
    """Record what became of an attempt; one that no longer counts is recorded as late."""
    if _under_way(run, ref, attempt) is None:
        return [e.LateResult(call=ref, attempt=attempt, outcome=outcome)]
    return [e.CallFinished(call=ref, attempt=attempt, outcome=outcome, why=why)]


def decline(run: Run, ref: str, outcome: Outcome) -> list[e.Event]:
    """Give a call that will not start its outcome; nothing if it has one or has started."""
    row = run.call(ref)
    if row is None or row.state not in (CallState.READY, CallState.APPROVED):
        return []
    return [e.CallFinished(call=ref, outcome=outcome)]


def void_attempt(run: Run, ref: str, *, attempt: int, why: str) -> list[e.Event]:
    """Let a call start again whose attempt had no effect, or one that may be repeated."""
    row = _under_way(run, ref, attempt)
    if row is None:
        return []
    voided = e.AttemptVoided(call=ref, attempt=attempt, why=why)
    return [voided, *_declined_by_end(run, row)] if run.ending else [voided]


def doubt_call(
    run: Run, ref: str, *, attempt: int, why: str, ruling: Require, now: int, probe: str = ""
) -> list[e.Event]:
    """Say that nobody knows whether an attempt had its effect, and ask a person."""
    row = _under_way(run, ref, attempt)
    if row is None:
        return []
    if ruling.on_silence == "approve":
        # Silence may let a call start, but is not the new decision that a second start takes.
        ruling = msgspec.structs.replace(ruling, on_silence="reject")
    draft = _Draft(run)
    draft.add(e.CallDoubted(call=ref, attempt=attempt, why=why))
    ask = InDoubt(attempt=attempt, worker=row.worker, why=why, probe=probe)
    request = HoldRequest(ref=ref, ruling=ruling, ask=ask)
    draft.add(*open_holds(draft.run, [request], now=now))
    return draft.events


def cancel(
    run: Run, *, by: Principal, now: int, reason: str = "", error: str = ""
) -> list[e.Event]:
    """End the run, as failed if there is an error. What has started is waited for."""
    if run.final:
        raise RunFinished(f"the run {run.id!r} is {run.final}")
    if run.ending:
        return []
    draft = _Draft(run)
    draft.add(e.CancelRequested(by=by, at=now, reason=reason, error=error))
    why = error or reason or "the run was cancelled"
    draft.add(*_withdraw(draft.run, by=by, now=now, reason=why))
    for row in draft.run.calls(CallState.READY, CallState.APPROVED):
        draft.add(e.CallFinished(call=row.ref, outcome=Declined(reason=why, by=str(by))))
    return draft.events


class _Draft:
    """Events so far, and the run as it will be after them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.events: list[e.Event] = []

    def add(self, *events: e.Event) -> None:
        self.run = apply_all(self.run, events)
        self.events.extend(events)


def _refuse_ended(run: Run) -> None:
    if status_of(run) in FINAL or run.ending:
        raise RunFinished(f"the run {run.id!r} is {run.final or 'being cancelled'}")


def _call(run: Run, ref: str) -> CallRow:
    row = run.call(ref)
    assert row is not None, f"{ref} is not a call of an open turn"
    return row


def _under_way(run: Run, ref: str, attempt: int) -> CallRow | None:
    row = run.call(ref)
    if row is None or row.state is not CallState.STARTED or row.attempt != attempt:
        return None
    return row


def _decidable(run: Run, n: int, *, by: Principal, now: int) -> Hold:
    hold = run.hold(n)
    if hold is None:
        raise UnknownHold(f"there is no open hold {hold_id(run.id, n)!r}")
    if not may_decide(hold.approvers, by):
        asked = name_approvers(hold.approvers)
        raise NotAllowed(f"{by} may not decide {hold_id(run.id, n)!r}: it asks {asked}")
    if hold.decision is not None:
        raise AlreadyDecided(decision=hold.decision)
    if hold.deadline is not None and now >= hold.deadline:
        raise HoldExpired(decision=_expiry(hold, hold.deadline))
    return hold


def _expiry(hold: Hold, at: int) -> Decision:
    return Decision(
        verdict=Expired(silence=hold.on_silence),
        by=CLOCK,
        at=at,
        effective_at=at,
        digest=hold.digest,
        channel="clock",
    )


def _settled(run: Run, hold: Hold, decision: Decision) -> list[e.Event]:
    draft = _Draft(run)
    draft.add(e.HoldSettled(hold=hold.n, version=hold.version, decision=decision))
    if decision.effective_at <= decision.at:
        draft.add(*_consequences(draft.run, hold, decision))
    return draft.events


def _consequences(run: Run, hold: Hold, decision: Decision) -> list[e.Event]:
    """Say what follows for the call, and for the run, once a decision is effective."""
    row = _call(run, hold.call)
    if says_yes(decision.verdict):
        # Said before the run was to end, effective after that: nothing starts any more.
        return _declined_by_end(run, row) if run.ending else []
    in_doubt = hold.kind == "in_doubt"
    draft = _Draft(run)
    draft.add(
        e.CallFinished(
            call=row.ref,
            attempt=row.attempt if in_doubt else 0,
            outcome=_outcome(hold, decision),
            why=f"{decision.by} looked into it" if in_doubt else "",
        )
    )
    match decision.verdict:
        case Expired(silence="fail"):
            error = f"nobody decided {hold_id(run.id, hold.n)} in time"
            draft.add(*cancel(draft.run, by=CLOCK, now=decision.at, error=error))
        case Expired(silence="cancel"):
            reason = f"nobody decided {hold_id(run.id, hold.n)} in time"
            draft.add(*cancel(draft.run, by=CLOCK, now=decision.at, reason=reason))
        case Rejected(reason=reason) if hold.on_reject == "cancel" and not in_doubt:
            draft.add(*cancel(draft.run, by=decision.by, now=decision.at, reason=reason))
        case _:
            pass
    return draft.events


def _declined_by_end(run: Run, row: CallRow) -> list[e.Event]:
    reason = f"the run was to end: {run.ending_why}"
    return [e.CallFinished(call=row.ref, outcome=Declined(reason=reason))]


def _outcome(hold: Hold, decision: Decision) -> Outcome:
    match decision.verdict:
        case Answered(value=value):
            return Returned(value=value)
        case Errored(message=message):
            return Unknown(reason=message)
        case Rejected(reason=reason):
            return Declined(reason=reason or "rejected", by=str(decision.by))
        case Withdrawn(reason=reason):
            return Declined(reason=reason or "withdrawn", by=str(decision.by))
        case _ if hold.kind == "in_doubt":
            return Unknown(reason="nobody looked into it in time")
        case _:
            return Declined(reason="nobody decided in time")


def _withdraw(run: Run, *, by: Principal, now: int, reason: str) -> list[e.Event]:
    # A call in doubt stays open whatever happens to the run: somebody must look into it.
    draft = _Draft(run)
    for hold in run.holds:
        if hold.kind == "in_doubt":
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
