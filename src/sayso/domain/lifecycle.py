"""The state machine. All of it.

Rule 1: `apply` is the only function that makes a new run from an old one, and it refuses every
event that the tables below do not allow: a bug elsewhere becomes an error, not a second payment.
Rule 2: `status_of` is the only place that knows a status; `epilogue` alone announces one.
Rule 3: it knows nothing of why an event is appended; `verbs` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState, Returned, Unknown
from sayso.domain.hold import (
    Approved,
    Decision,
    Expired,
    Hold,
    InDoubt,
    Rejected,
    Verdict,
    Withdrawn,
    may_decide,
)
from sayso.domain.policy import Require, unenforced
from sayso.domain.run import (
    CallRow,
    Refusal,
    Run,
    Status,
    Strand,
    with_call,
    with_hold,
    with_strand,
)
from sayso.domain.value import CLOCK, Principal
from sayso.errors import IllegalEvent

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.RUNNING: frozenset(
        {Status.SUSPENDED, Status.COMPLETED, Status.FAILED, Status.CANCELLED}
    ),
    Status.SUSPENDED: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELLED}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}
FINAL = frozenset(status for status, exits in TRANSITIONS.items() if not exits)
OPEN = frozenset(TRANSITIONS) - FINAL

LEGAL: dict[type[e.Event], frozenset[Status]] = {
    e.RunStarted: frozenset(),  # Only as the first entry.
    e.MessageReceived: OPEN,
    e.TurnTaken: frozenset({Status.RUNNING}),
    e.HoldOpened: OPEN,
    e.HoldRevised: OPEN,
    e.HoldSettled: OPEN,
    e.DecisionEffective: OPEN,
    e.DecisionUndone: OPEN,
    e.CallStarted: frozenset({Status.RUNNING}),
    e.CallFinished: OPEN,
    e.AttemptVoided: frozenset({Status.RUNNING}),
    e.CallDoubted: frozenset({Status.RUNNING}),
    e.LateResult: frozenset(TRANSITIONS),
    e.CancelRequested: OPEN,
    e.RunTakenOver: frozenset({Status.RUNNING}),
    e.RunSuspended: frozenset({Status.SUSPENDED}),
    e.RunResumed: frozenset({Status.RUNNING}),
    e.RunCompleted: frozenset({Status.RUNNING}),
    # A run that ends has nothing open, and so is not suspended, even if it was before this append.
    e.RunFailed: frozenset({Status.RUNNING}),
    e.RunCancelled: frozenset({Status.RUNNING}),
    e.EntryRedacted: FINAL,
}
"""Which event may happen in which status."""

_S = CallState
CALL_MOVES: dict[type[e.Event], dict[CallState, CallState]] = {
    e.HoldOpened: {_S.READY: _S.HELD, _S.APPROVED: _S.HELD, _S.DOUBTED: _S.DOUBTED},
    e.HoldRevised: {_S.HELD: _S.HELD},
    e.HoldSettled: {_S.HELD: _S.APPROVED, _S.DOUBTED: _S.APPROVED},
    e.CallStarted: {_S.READY: _S.STARTED, _S.APPROVED: _S.STARTED},
    e.AttemptVoided: {_S.STARTED: _S.READY},
    e.CallDoubted: {_S.STARTED: _S.DOUBTED},
    e.CallFinished: {state: _S.DONE for state in _S if state is not _S.DONE},
}
"""Which event moves a call from which state to which. `HoldSettled` moves it only by a yes, and
`AttemptVoided` takes a call that was approved back to approved.
"""

_WAITING = (_S.READY, _S.APPROVED)
_WORK = (_S.STARTED, *_WAITING)


def status_of(run: Run) -> Status:
    """Compute what the run is doing."""
    if run.final:
        return Status(run.final)
    if run.holds and not has_work(run):
        return Status.SUSPENDED
    return Status.RUNNING


def has_work(run: Run) -> bool:
    """Tell whether something is executing, could start, or is due a turn."""
    for strand in run.strands:
        if strand_due(run, strand) or any(c.state in _WORK for c in strand.calls):
            return True
    return False


def strand_due(run: Run, strand: Strand) -> bool:
    """Tell whether a strand is due a turn: every call has its outcome and there is news."""
    if run.ending:
        return False
    for call in strand.calls:
        if call.state is not _S.DONE:
            return False
    return bool(strand.calls) or strand.said > strand.seen


def startable(run: Run) -> list[CallRow]:
    """List the calls that could start now."""
    return [] if run.ending else run.calls(*_WAITING)


def equal_refusal(run: Run, digest: str) -> Refusal | None:
    """Find out whether this very call was rejected or expired in this run before."""
    return next((refusal for refusal in run.refusals if refusal.digest == digest), None)


def says_yes(verdict: Verdict) -> bool:
    """Tell whether a verdict lets the call start."""
    if isinstance(verdict, Expired):
        return verdict.silence == "approve"
    return isinstance(verdict, Approved)


def epilogue(run: Run) -> list[e.Event]:
    """Say what follows by itself from what was just appended: the end, or a change of status."""
    if run.ending and not (run.final or run.holds or has_work(run)):
        if run.ending == Status.FAILED:
            return [e.RunFailed(error=run.ending_why)]
        return [e.RunCancelled(reason=run.ending_why)]
    status = status_of(run)
    # With an open hold it would be suspended.
    if (status is Status.RUNNING and not run.holds and not has_work(run)) or _stranded(run):
        raise IllegalEvent("this would leave the run with something that can never go on")
    if status is run.told:
        return []
    return [e.RunSuspended() if status is Status.SUSPENDED else e.RunResumed()]


def apply(run: Run | None, event: e.Event) -> Run:
    """Make the run after an event from the run before it. Raise `IllegalEvent` if it cannot be."""
    if isinstance(event, e.RunStarted):
        if run is not None:
            raise IllegalEvent("a run starts once")
        return _started(event)
    if run is None:
        raise IllegalEvent(f"{type(event).__name__} cannot be the first entry of a run")
    kind = type(event)
    if (status := status_of(run)) not in LEGAL[kind]:
        raise IllegalEvent(f"{kind.__name__} is not legal while {status}")
    return _APPLY[kind](replace(run, seq=run.seq + 1), event)


def apply_all(run: Run | None, events: Iterable[e.Event]) -> Run:
    """Apply events one after another; the first makes the run if there is none."""
    for event in events:
        run = apply(run, event)
    if run is None:
        raise IllegalEvent("a run without entries is no run")
    return run


def _stranded(run: Run) -> bool:
    # A call that waits and asks nobody, or that may start in a run where nothing starts any more.
    asking = [hold.call for hold in run.holds]
    waiting = [c for c in run.calls(_S.HELD, _S.DOUBTED) if c.ref not in asking]
    return bool(waiting or (run.ending and run.calls(*_WAITING)))


def _started(event: e.RunStarted) -> Run:
    if not event.run.startswith("run_"):
        raise IllegalEvent(f"{event.run!r} does not begin with 'run_': its holds could not be read")
    return Run(
        id=event.run,
        project=event.project,
        agent=event.agent,
        by=event.by,
        started_at=event.at,
        seq=1,
        strands=(Strand(name=e.MAIN, said=1),),
        thread=event.thread,
        previous=event.previous,
        root=event.root,
    )


def _message(run: Run, event: e.MessageReceived) -> Run:
    strand = _strand(run, event.strand)
    return with_strand(run, replace(strand, said=run.seq))


def _turn(run: Run, event: e.TurnTaken) -> Run:
    strand = _strand(run, event.strand)
    if event.turn != run.turns + 1 or not strand_due(run, strand):
        raise IllegalEvent(f"turn {event.turn} is not due")
    if not strand.seen <= event.seen < run.seq:
        raise IllegalEvent("a turn has seen what the one before has, and nothing after itself")
    if any(c.ref != f"{event.turn}.{index}" for index, c in enumerate(event.calls)):
        raise IllegalEvent("a call goes by its turn and its place in it")
    rows = tuple(
        CallRow(ref=c.ref, tool=c.tool, digest=c.digest, entry=run.seq, state=_S.READY)
        for c in event.calls
    )
    after = replace(strand, turn=event.turn, seen=event.seen, calls=rows)
    return replace(with_strand(run, after), turns=event.turn)


def _hold_opened(run: Run, event: e.HoldOpened) -> Run:
    row = _move(run, event.call, event)
    doubt = isinstance(event.ask, InDoubt)
    if event.hold != run.holds_opened + 1:
        raise IllegalEvent(f"hold {event.hold} is not the next one")
    # A tool that was upgraded while its call waited is asked about again, under a new digest.
    anew = event.version == row.version + 1
    if not anew and (event.version, event.digest) != (row.version, row.digest):
        raise IllegalEvent(f"hold {event.hold} is not about the call {event.call} as it is")
    if doubt != (row.state is _S.DOUBTED):
        raise IllegalEvent("only a call in doubt is asked about as one")
    if doubt and event.ruling.on_silence == "approve":
        raise IllegalEvent("silence never lets a call in doubt start again")
    if run.ending and not doubt:
        raise IllegalEvent("nobody is asked for leave in a run that is to end")
    if any(hold.call == row.ref for hold in run.holds):
        raise IllegalEvent(f"the call {row.ref} has an open hold")
    _check_suspension(run, event)
    _check_ruling(event.ruling)
    hold = Hold(
        n=event.hold,
        call=event.call,
        kind="in_doubt" if doubt else "approval",
        version=event.version,
        digest=event.digest,
        suspension=event.suspension,
        approvers=event.approvers,
        deadline=event.deadline,
        on_silence=event.ruling.on_silence,
        entry=run.seq,
        opened_at=event.at,
        editable=event.ruling.editable and not doubt,
        on_reject=event.ruling.on_reject,
    )
    row = replace(row, approved=False, version=event.version, digest=event.digest)
    return replace(
        with_call(run, row),
        holds=(*run.holds, hold),
        holds_opened=event.hold,
        suspensions=event.suspension,
    )


def _check_suspension(run: Run, event: e.HoldOpened) -> None:
    # One append opens it, so its members follow each other in the journal.
    joins = bool(run.holds) and run.holds[-1].entry == run.seq - 1
    if event.suspension not in ({run.suspensions + 1} | ({run.suspensions} if joins else set())):
        raise IllegalEvent("a suspension never grows")


def _check_ruling(ruling: Require) -> None:
    if demand := unenforced(ruling):
        raise IllegalEvent(f"a hold cannot demand {demand}: one decision would settle it")


def _check_decider(hold: Hold, by: Principal, at: int) -> None:
    if not may_decide(hold.approvers, by):
        raise IllegalEvent(f"{by} may not decide hold {hold.n}")
    if hold.deadline is not None and at >= hold.deadline:
        raise IllegalEvent(f"hold {hold.n} is past its deadline")


def _hold_revised(run: Run, event: e.HoldRevised) -> Run:
    hold = _open_hold(run, event.hold)
    _check_decider(hold, event.by, event.at)
    _check_ruling(event.ruling)
    if event.version != hold.version + 1 or not hold.editable:
        raise IllegalEvent(f"hold {hold.n} cannot become version {event.version}")
    if hold.deadline is not None and (event.deadline is None or event.deadline > hold.deadline):
        raise IllegalEvent("an edit never buys time")
    row = _move(run, hold.call, event)
    row = replace(row, version=event.version, digest=event.digest, entry=run.seq)
    hold = replace(
        hold,
        version=event.version,
        digest=event.digest,
        revised=run.seq,
        approvers=event.approvers,
        deadline=event.deadline,
        on_silence=event.ruling.on_silence,
        on_reject=event.ruling.on_reject,
        editable=event.ruling.editable,
    )
    return with_hold(with_call(run, row), hold)


def _hold_settled(run: Run, event: e.HoldSettled) -> Run:
    hold = run.hold(event.hold)
    decision = event.decision
    withdrawn = isinstance(decision.verdict, Withdrawn)
    if hold is None or (hold.decision is not None and not withdrawn):
        raise IllegalEvent(f"hold {event.hold} is not open")
    if event.version != hold.version or decision.digest != hold.digest:
        raise IllegalEvent("a decision binds the version and digest that were shown")
    _check_verdict(hold, decision)
    if decision.effective_at > decision.at:
        return with_hold(run, replace(hold, decision=decision))
    return _effective(run, hold, decision, event)


def _check_verdict(hold: Hold, decision: Decision) -> None:
    match decision.verdict:
        case Withdrawn():
            if hold.kind == "in_doubt":
                raise IllegalEvent("whether a call in doubt happened cannot be withdrawn")
        case Expired(silence=silence):
            if decision.by != CLOCK or hold.deadline is None or decision.at < hold.deadline:
                raise IllegalEvent("expiry is nobody's decision, and not before the deadline")
            if silence != hold.on_silence:
                raise IllegalEvent(f"silence means {hold.on_silence!r} here, not {silence!r}")
        case verdict:
            _check_decider(hold, decision.by, decision.at)
            if isinstance(verdict, Approved) and verdict.args is not None:
                raise IllegalEvent("other arguments are another version, to be decided as one")


def _decision_effective(run: Run, event: e.DecisionEffective) -> Run:
    hold = run.hold(event.hold)
    if hold is None or hold.decision is None:
        raise IllegalEvent(f"hold {event.hold} has no decision that waits to take effect")
    settled = e.HoldSettled(hold=hold.n, version=hold.version, decision=hold.decision)
    return _effective(run, hold, hold.decision, settled)


def _effective(run: Run, hold: Hold, decision: Decision, event: e.HoldSettled) -> Run:
    run = replace(run, holds=tuple(other for other in run.holds if other.n != hold.n))
    if says_yes(decision.verdict):
        return with_call(run, replace(_move(run, hold.call, event), approved=True))
    refused = isinstance(decision.verdict, Rejected | Expired)
    if hold.kind == "approval" and refused and hold.version == 1:
        before = equal_refusal(run, hold.digest)
        others = tuple(r for r in run.refusals if r.digest != hold.digest)
        times = before.times + 1 if before else 1
        refusal = Refusal(digest=hold.digest, hold=hold.n, times=times)
        run = replace(run, refusals=(*others, refusal))
    return run


def _decision_undone(run: Run, event: e.DecisionUndone) -> Run:
    hold = run.hold(event.hold)
    if hold is None or hold.decision is None:
        raise IllegalEvent(f"hold {event.hold} has no decision to undo")
    if event.by != hold.decision.by or event.at >= hold.decision.effective_at:
        raise IllegalEvent("a decision is undone by whoever made it, before it is effective")
    return with_hold(run, replace(hold, decision=None))


def _call_started(run: Run, event: e.CallStarted) -> Run:
    row = _move(run, event.call, event)
    if run.ending:
        raise IllegalEvent("nothing starts in a run that is to end")
    if event.digest != row.digest or event.attempt != row.attempt + 1:
        raise IllegalEvent(f"attempt {event.attempt} of {event.call} is not what may start")
    row = replace(
        row,
        attempt=event.attempt,
        worker=event.worker,
        tick=event.tick,
        timeout_ms=event.timeout_ms,
    )
    return with_call(run, row)


def _call_finished(run: Run, event: e.CallFinished) -> Run:
    before = run.call(event.call)
    row = _move(run, event.call, event)
    assert before is not None  # `_move` has found it.
    started = before.state in (_S.STARTED, _S.DOUBTED)
    if (event.attempt != row.attempt) if started else event.attempt:
        raise IllegalEvent(f"this outcome is not of attempt {row.attempt}")
    if any(hold.call == row.ref for hold in run.holds):
        raise IllegalEvent("a call with an open hold has no outcome yet")
    doubted = before.state is _S.DOUBTED and not isinstance(event.outcome, Returned)
    if doubted or isinstance(event.outcome, Unknown):
        run = replace(run, doubts=(*run.doubts, (row.digest, row.ref)))
    return with_call(run, row)


def _attempt_voided(run: Run, event: e.AttemptVoided) -> Run:
    row = _of_attempt(_move(run, event.call, event), event.attempt)
    return with_call(run, replace(row, state=_S.APPROVED if row.approved else _S.READY))


def _call_doubted(run: Run, event: e.CallDoubted) -> Run:
    return with_call(run, _of_attempt(_move(run, event.call, event), event.attempt))


def _cancel_requested(run: Run, event: e.CancelRequested) -> Run:
    if run.ending:
        raise IllegalEvent("the run is to end already")
    ending = Status.FAILED if event.error else Status.CANCELLED
    return replace(run, ending=ending.value, ending_why=event.error or event.reason)


def _announced(run: Run, event: e.RunSuspended | e.RunResumed) -> Run:
    status = Status.SUSPENDED if isinstance(event, e.RunSuspended) else Status.RUNNING
    if status not in TRANSITIONS[run.told]:
        raise IllegalEvent(f"the run is {status} already")
    return replace(run, told=status)


def _completed(run: Run, event: e.RunCompleted) -> Run:
    del event
    if run.ending or _has_open(run):
        raise IllegalEvent("a run with something open is not complete")
    return replace(run, final=Status.COMPLETED.value, told=Status.COMPLETED)


def _ended(run: Run, event: e.RunFailed | e.RunCancelled) -> Run:
    status = Status.FAILED if isinstance(event, e.RunFailed) else Status.CANCELLED
    if run.ending != status.value or _has_open(run):
        raise IllegalEvent("a run ends as it was to, once all it has started is over")
    return replace(run, final=status.value, told=status)


def _has_open(run: Run) -> bool:
    return bool(run.holds) or has_work(run) or _stranded(run)


def _unchanged(run: Run, event: e.Event) -> Run:
    del event
    return run


_APPLY: dict[type[e.Event], Callable[[Run, Any], Run]] = {
    e.MessageReceived: _message,
    e.TurnTaken: _turn,
    e.HoldOpened: _hold_opened,
    e.HoldRevised: _hold_revised,
    e.HoldSettled: _hold_settled,
    e.DecisionEffective: _decision_effective,
    e.DecisionUndone: _decision_undone,
    e.CallStarted: _call_started,
    e.CallFinished: _call_finished,
    e.AttemptVoided: _attempt_voided,
    e.CallDoubted: _call_doubted,
    e.LateResult: _unchanged,
    e.CancelRequested: _cancel_requested,
    e.RunTakenOver: _unchanged,
    e.RunSuspended: _announced,
    e.RunResumed: _announced,
    e.RunCompleted: _completed,
    e.RunFailed: _ended,
    e.RunCancelled: _ended,
    e.EntryRedacted: _unchanged,
}


def _strand(run: Run, name: str) -> Strand:
    strand = run.strand(name)
    if strand is None:
        raise IllegalEvent(f"there is no strand {name!r}")
    return strand


def _move(run: Run, ref: str, event: e.Event) -> CallRow:
    row = run.call(ref)
    state = row and CALL_MOVES[type(event)].get(row.state)
    if row is None or state is None:
        where = f"while {row.state}" if row else "of a turn that is over"
        raise IllegalEvent(f"{type(event).__name__} is not legal for the call {ref} {where}")
    return replace(row, state=state)


def _open_hold(run: Run, n: int) -> Hold:
    hold = run.hold(n)
    if hold is None or hold.decision is not None:
        raise IllegalEvent(f"hold {n} is not open")
    return hold


def _of_attempt(row: CallRow, attempt: int) -> CallRow:
    if row.attempt != attempt:
        raise IllegalEvent(f"attempt {attempt} is not the one under way")
    return row
