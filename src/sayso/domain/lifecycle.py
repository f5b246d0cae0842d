"""The state machine. All of it: which event is legal when, and what it leads to.

Rule 1: `apply` is the only function that makes a new run from an old one, and it refuses every
event that the tables do not allow: a bug elsewhere becomes an error, not a second payment. What the
events do is in `apply_calls` and `apply_holds`, and for the rest below.
Rule 2: `status_of` (in `standing`) is the only place that knows a status; `epilogue` alone
announces one.
Rule 3: it knows nothing of why an event is appended; `verbs` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sayso.domain import apply_calls as calls
from sayso.domain import apply_holds as holds
from sayso.domain import events as e
from sayso.domain.call import Call, CallState
from sayso.domain.ruling import BATCHES
from sayso.domain.run import CallRow, Run, Status, Strand, WorkTime, with_strand
from sayso.domain.standing import (
    concludes,
    has_open,
    has_work,
    status_of,
    strand_due,
    stranded,
)
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
_RUNNING = frozenset({Status.RUNNING})

LEGAL: dict[type[e.Event], frozenset[Status]] = {
    e.RunStarted: frozenset(),  # Only as the first entry.
    e.MessageReceived: OPEN,
    e.TurnTaken: _RUNNING,
    e.CommandReceived: OPEN,
    e.StrandOpened: OPEN,
    e.StrandChanged: OPEN,
    e.StrandClosed: OPEN,
    e.HoldOpened: OPEN,
    e.HoldRevised: OPEN,
    e.VoteCast: OPEN,
    e.VoteUndone: OPEN,
    e.GrantGiven: OPEN,
    e.HoldEscalated: OPEN,
    e.HoldReassigned: OPEN,
    e.HoldSettled: OPEN,
    e.DecisionEffective: OPEN,
    e.DecisionUndone: OPEN,
    e.CallStarted: _RUNNING,
    e.CallContinued: _RUNNING,
    e.CallFinished: OPEN,
    e.StepStarted: _RUNNING,
    e.StepFinished: _RUNNING,
    e.StepVoided: _RUNNING,
    e.BodyParked: _RUNNING,
    e.AttemptVoided: _RUNNING,
    e.CallDoubted: _RUNNING,
    e.LateResult: frozenset(TRANSITIONS),
    e.CancelRequested: OPEN,
    e.RunTakenOver: _RUNNING,
    e.RunAdopted: frozenset(TRANSITIONS),
    e.RunSuspended: frozenset({Status.SUSPENDED}),
    e.RunResumed: _RUNNING,
    e.RunCompleted: _RUNNING,
    # A run that ends has nothing open, and so is not suspended, even if it was before this append.
    e.RunFailed: _RUNNING,
    e.RunCancelled: _RUNNING,
    e.EntryRedacted: FINAL,
    e.RunErased: FINAL,
}
"""Which event may happen in which status."""


def epilogue(run: Run, now: int = 0) -> list[e.Event]:
    """Say what follows by itself from what was just appended: the end, or a change of status. It
    has to know `now` for a run whose time to work is bounded.
    """
    if run.ending and not (run.final or has_open(run)):
        if run.ending == Status.FAILED:
            return [e.RunFailed(error=run.ending_why)]
        return [e.RunCancelled(reason=run.ending_why)]
    status = status_of(run)
    # With an open hold it would be suspended.
    idle = status is Status.RUNNING and not (run.holds or has_work(run) or concludes(run))
    if idle or stranded(run):
        raise IllegalEvent("this would leave the run with something that can never go on")
    if status is run.told:
        return []
    at = 0 if run.work_time is None else now
    return [e.RunSuspended(at=at) if status is Status.SUSPENDED else e.RunResumed(at=at)]


RECENT_MAX = 32
_recent: dict[tuple[int, int], tuple[Run | None, e.Event, Run]] = {}
"""What was applied last, by identity. A verb tries its events on the run, and verbs are made of
verbs: without this each event would be applied three or four times over before it is appended.
"""


def apply(run: Run | None, event: e.Event) -> Run:
    """Make the run after an event from the run before it. Raise `IllegalEvent` if it cannot be."""
    # Both are kept beside the result, so that no other object can come to have their identity.
    key = id(run), id(event)
    known = _recent.get(key)
    if known is not None:
        return known[2]
    after = _apply(run, event)
    if len(_recent) >= RECENT_MAX:
        _recent.clear()
    _recent[key] = (run, event, after)
    return after


def _apply(run: Run | None, event: e.Event) -> Run:
    if isinstance(event, e.RunStarted):
        if run is not None:
            raise IllegalEvent("a run starts once")
        return _started(event)
    if run is None:
        raise IllegalEvent(f"{type(event).__name__} cannot be the first entry of a run")
    kind = type(event)
    legal = LEGAL[kind]
    # Whether an open run is suspended is not free to say, and most events may be in both.
    if (run.final or legal is not OPEN) and (status := status_of(run)) not in legal:
        raise IllegalEvent(f"{kind.__name__} is not legal while {status}")
    return _APPLY[kind](replace(run, seq=run.seq + 1), event)


def apply_all(run: Run | None, events: Iterable[e.Event]) -> Run:
    """Apply events one after another; the first makes the run if there is none."""
    for event in events:
        run = apply(run, event)
    if run is None:
        raise IllegalEvent("a run without entries is no run")
    return run


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
        turns_max=event.turns_max,
        work_time=(
            WorkTime(timeout_ms=event.timeout_ms, since=event.at) if event.timeout_ms else None
        ),
        parent=event.parent,
        parent_call=event.parent_call,
        parent_hold=event.parent_hold,
        lineage=event.lineage,
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
    if [c.ref for c in event.calls] != [f"{event.turn}.{n}" for n in range(len(event.calls))]:
        raise IllegalEvent("a call goes by its turn and its place in it")
    if (event.resolve, event.siblings) not in BATCHES:
        raise IllegalEvent(f"{event.resolve!r} with {event.siblings!r} is no way to decide a turn")
    after = replace(
        strand,
        turn=event.turn,
        seen=event.seen,
        calls=tuple([_ready(run, call) for call in event.calls]),
        resolve=event.resolve,
        siblings=event.siblings,
    )
    return replace(with_strand(run, after), turns=event.turn)


def _command(run: Run, event: e.CommandReceived) -> Run:
    _strand(run, event.strand)
    if run.ending:
        raise IllegalEvent("nothing starts in a run that is to end")
    if event.call.ref != f"c{run.commanded + 1}":
        raise IllegalEvent(f"{event.call.ref} is not the next command")
    by = event.by.id if event.by.kind == "person" else ""
    commands = (*run.commands, replace(_ready(run, event.call), by=by))
    return replace(run, commands=commands, commanded=run.commanded + 1)


def _strand_opened(run: Run, event: e.StrandOpened) -> Run:
    _strand(run, event.parent)
    if run.ending:
        raise IllegalEvent("nothing starts in a run that is to end")
    if not event.strand.endswith(f".{run.strands_opened + 1}"):
        raise IllegalEvent(f"{event.strand!r} is not the name of strand {run.strands_opened + 1}")
    strand = Strand(name=event.strand, said=run.seq if event.text else 0, parent=event.parent)
    strands = (*run.strands, strand)
    return replace(run, strands=strands, strands_opened=run.strands_opened + 1)


def _strand_changed(run: Run, event: e.StrandChanged) -> Run:
    _strand(run, event.strand)
    return run


def _strand_closed(run: Run, event: e.StrandClosed) -> Run:
    strand = _strand(run, event.strand)
    if not strand.parent:
        raise IllegalEvent("the strand that a run begins with ends with the run")
    if any(call.state is not CallState.DONE for call in strand.calls):
        raise IllegalEvent(f"{event.strand!r} has a call without an outcome")
    if any(other.parent == strand.name for other in run.strands):
        raise IllegalEvent(f"{event.strand!r} has strands below it")
    return replace(run, strands=tuple(s for s in run.strands if s.name != strand.name))


def _cancel_requested(run: Run, event: e.CancelRequested) -> Run:
    if run.ending:
        raise IllegalEvent("the run is to end already")
    ending = Status.FAILED if event.error else Status.CANCELLED
    return replace(run, ending=ending.value, ending_why=event.error or event.reason)


def _announced(run: Run, event: e.RunSuspended | e.RunResumed) -> Run:
    status = Status.SUSPENDED if isinstance(event, e.RunSuspended) else Status.RUNNING
    if status not in TRANSITIONS[run.told]:
        raise IllegalEvent(f"the run is {status} already")
    time = run.work_time
    if bool(event.at) != (time is not None):
        raise IllegalEvent("when a run stops or goes on is said if its time is bounded, or never")
    if time is None:
        return replace(run, told=status)
    time = time.stopped(event.at) if status is Status.SUSPENDED else time.resumed(event.at)
    return replace(run, told=status, work_time=time)


def _completed(run: Run, event: e.RunCompleted) -> Run:
    del event
    if run.ending or has_open(run):
        raise IllegalEvent("a run with something open is not complete")
    return replace(run, final=Status.COMPLETED.value, told=Status.COMPLETED)


def _ended(run: Run, event: e.RunFailed | e.RunCancelled) -> Run:
    status = Status.FAILED if isinstance(event, e.RunFailed) else Status.CANCELLED
    if run.ending != status.value or has_open(run):
        raise IllegalEvent("a run ends as it was to, once all it has started is over")
    return replace(run, final=status.value, told=status)


def _erased(run: Run, event: e.RunErased) -> Run:
    if not 0 < event.through < run.seq:
        raise IllegalEvent("only what was there before can be erased")
    # The one thing in a run's state that somebody has said.
    return replace(run, ending_why="")


def _unchanged(run: Run, event: e.Event) -> Run:
    del event
    return run


_APPLY: dict[type[e.Event], Callable[[Run, Any], Run]] = {
    e.MessageReceived: _message,
    e.TurnTaken: _turn,
    e.CommandReceived: _command,
    e.StrandOpened: _strand_opened,
    e.StrandChanged: _strand_changed,
    e.StrandClosed: _strand_closed,
    e.HoldOpened: holds.hold_opened,
    e.HoldRevised: holds.hold_revised,
    e.VoteCast: holds.vote_cast,
    e.VoteUndone: holds.vote_undone,
    e.GrantGiven: _unchanged,
    e.HoldEscalated: holds.hold_escalated,
    e.HoldReassigned: holds.hold_reassigned,
    e.HoldSettled: holds.hold_settled,
    e.DecisionEffective: holds.decision_effective,
    e.DecisionUndone: holds.decision_undone,
    e.CallStarted: calls.call_started,
    e.CallContinued: calls.call_continued,
    e.CallFinished: calls.call_finished,
    e.StepStarted: calls.step_started,
    e.StepFinished: calls.step_finished,
    e.StepVoided: calls.step_voided,
    e.BodyParked: calls.body_parked,
    e.AttemptVoided: calls.attempt_voided,
    e.CallDoubted: calls.call_doubted,
    e.LateResult: holds.late_result,
    e.CancelRequested: _cancel_requested,
    e.RunTakenOver: _unchanged,
    e.RunAdopted: holds.run_adopted,
    e.RunSuspended: _announced,
    e.RunResumed: _announced,
    e.RunCompleted: _completed,
    e.RunFailed: _ended,
    e.RunCancelled: _ended,
    e.EntryRedacted: _unchanged,
    e.RunErased: _erased,
}


def _strand(run: Run, name: str) -> Strand:
    strand = run.strand(name)
    if strand is None:
        raise IllegalEvent(f"there is no strand {name!r}")
    return strand


def _ready(run: Run, call: Call) -> CallRow:
    return CallRow(
        ref=call.ref, tool=call.tool, digest=call.digest, entry=run.seq, state=CallState.READY
    )
