"""What can be done to a run: each verb looks at a run and returns the events to append.

Rule 1: a verb changes nothing, and is run again on the reloaded run when its append was stale. It
raises `Refused` if what was asked cannot be, and returns nothing if it is no longer wanted.
Rule 2: time, ids and randomness come in as arguments.

What people decide is in `settling`, what the bodies of calls do is in `bodies`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from sayso.domain import events as e
from sayso.domain.call import Call, CallState, Declined, Failed, Outcome
from sayso.domain.entitled import decidable, recorded_right
from sayso.domain.hold import (
    Approval,
    Ask,
    Delegation,
    InDoubt,
    Then,
    hold_id,
    resolve_approvers,
)
from sayso.domain.lifecycle import FINAL
from sayso.domain.operand import OperandPin
from sayso.domain.people import Authority, Basis, unrecorded
from sayso.domain.ruling import Require, common_approvers, enough
from sayso.domain.run import CallRow, Run, Status
from sayso.domain.settling import Draft, declined_by_end, withdraw
from sayso.domain.standing import startable, status_of, strand_due
from sayso.domain.value import SAYSO, Principal, Value
from sayso.errors import NotWhatWasShown, RunFinished, RunWaiting, WrongVerdict

_NOBODY: Mapping[str, int] = MappingProxyType({})


class HoldRequest(Value, frozen=True, kw_only=True):
    """A hold to be opened."""

    ref: str
    ruling: Require
    ask: Ask = Approval()
    policy_version: str = ""
    duplicate_of: str = ""
    digest: str = ""
    """Of the call as it is now, if its tool or its files have changed since it was asked for; of
    what is asked, if that is not the call itself.
    """
    tool_version: str = ""
    then: Then = "start"
    step: int = 0
    operands: tuple[OperandPin, ...] = ()

    @property
    def about_call(self) -> bool:
        """Tell whether it is the call itself that is asked about."""
        if isinstance(self.ask, InDoubt):
            return not self.ask.step
        return self.then == "start"


class Start(Value, frozen=True, kw_only=True):
    """A call to be started."""

    ref: str
    digest: str
    worker: str
    tick: int
    timeout_ms: int
    tool_version: str = ""
    grant: str = ""
    grant_until: int | None = None
    basis: tuple[Basis, ...] = ()


def say(
    run: Run,
    text: str,
    *,
    by: Principal,
    now: int,
    key: str = "",
    supersede: bool = False,
    listens: bool = False,
) -> list[e.Event]:
    """Say something to a run. One that waits for a person refuses, unless superseded. With
    `listens`, it hears as long as its main strand does not wait itself.
    """
    _refuse_ended(run)
    found: list[e.Event] = []
    holds = [hold_id(run.id, hold.n) for hold in run.holds if not hold.child]
    deaf = status_of(run) is Status.SUSPENDED and (_main_waits(run) or not listens)
    if supersede:
        found = withdraw(run, by=by, now=now, reason="superseded by a new message")
    elif deaf and holds:
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


def open_holds(
    run: Run, requests: Sequence[HoldRequest], *, now: int, resolve: str = "each"
) -> list[e.Event]:
    """Ask people, all in one suspension.

    `together`: they are decided together, by people who may decide each of them and by the earliest
    deadline among them; if there is no such person, each on its own. `latest`: only the last one is
    asked, and whatever the run asked before is withdrawn.
    """
    draft = Draft(run)
    if resolve == "latest" and requests:
        draft.add(*supersede(run, now=now))
        for request in requests[:-1]:
            draft.add(*decline(draft.run, request.ref, Declined(reason="a later question counts")))
        requests = requests[-1:]
    # One verdict is for all that is decided together, and only approvals have one in common.
    decided = [request for request in requests if isinstance(request.ask, Approval)]
    common = _in_common(run, decided) if resolve == "together" else None
    together = len(decided) > 1 and common is not None
    withins = [r.ruling.within_ms for r in decided if r.ruling.within_ms is not None]
    first = draft.run.suspensions + 1
    for request in requests:
        joint = together and isinstance(request.ask, Approval)
        within = min(withins, default=None) if joint else request.ruling.within_ms
        asked = _joint(request, decided, common or ()) if joint else request
        draft.add(_opened(draft.run, asked, within, now, suspension=first, together=joint))
    return draft.events


def _in_common(run: Run, requests: Sequence[HoldRequest]) -> tuple[str, ...] | None:
    """Name those who may decide each of these; None if there is nobody, or are too few."""
    common: tuple[str, ...] | None = ()
    for request in requests:
        # The owner by name: whoever decides them all must be good for each, also when it starts.
        named = resolve_approvers(request.ruling, run.by)
        common = None if common is None else common_approvers(common, named)
    if common is None:
        return None
    quorum = max((request.ruling.quorum for request in requests), default=1)
    mine = resolve_approvers(Require(), run.by)
    left = tuple(who for who in common if not _four_eyes(requests) or who not in mine)
    return common if left and enough(quorum, left) else None


def _four_eyes(requests: Iterable[HoldRequest]) -> bool:
    return any(request.ruling.not_requester for request in requests)


def _joint(
    request: HoldRequest, members: Sequence[HoldRequest], approvers: tuple[str, ...]
) -> HoldRequest:
    """Make a request one of several that are decided alike, also by silence."""
    silences = {member.ruling.on_silence for member in members}
    silence = silences.pop() if len(silences) == 1 else "reject"
    ruling = msgspec.structs.replace(
        request.ruling,
        approvers=approvers,
        editable=False,
        on_silence="reject" if silence == "escalate" else silence,
        # As many for each as for the strictest: one would be let go before the others.
        quorum=max(member.ruling.quorum for member in members),
        reject_quorum=min(member.ruling.reject_quorum for member in members),
        not_requester=_four_eyes(members),
        # Who is asked later would be asked for one of them and not for the others.
        escalate_after_ms=None,
        escalate_to=(),
        chain=(),
    )
    return msgspec.structs.replace(request, ruling=ruling)


def supersede(run: Run, *, now: int, bodies_too: bool = True) -> list[e.Event]:
    """Take back what a run asks because it asks something new; what is decided stays decided."""
    return withdraw(
        run,
        by=SAYSO,
        now=now,
        reason="superseded by a later question",
        decided_too=False,
        bodies_too=bodies_too,
    )


def halt(run: Run, ref: str) -> list[e.Event]:
    """Give the calls their outcome that come after one that asks, if that stops its turn."""
    strand = run.strand_of(ref)
    if strand is None or strand.siblings != "halt":
        return []
    refs = [row.ref for row in strand.calls]
    draft = Draft(run)
    reason = (
        f"it was not executed: {strand.calls[refs.index(ref)].tool} before it waits for a person"
    )
    for later in refs[refs.index(ref) + 1 :]:
        draft.add(*decline(draft.run, later, Declined(reason=reason)))
    return draft.events


def _opened(
    run: Run,
    request: HoldRequest,
    within: int | None,
    now: int,
    *,
    suspension: int,
    together: bool,
) -> e.HoldOpened:
    row = _call(run, request.ref)
    version = row.version + 1 if request.digest else row.version
    ruling = request.ruling
    return e.HoldOpened(
        hold=run.holds_opened + 1,
        call=request.ref,
        digest=request.digest or row.digest,
        version=version if request.about_call else 1,
        ask=request.ask,
        ruling=ruling,
        approvers=() if isinstance(request.ask, Delegation) else resolve_approvers(ruling, run.by),
        suspension=suspension,
        at=now,
        deadline=_deadline(ruling, within, now),
        policy_version=request.policy_version,
        tool_version=request.tool_version,
        duplicate_of=request.duplicate_of,
        then=request.then,
        together=together,
        step=request.step,
        operands=request.operands,
    )


def _deadline(ruling: Require, within: int | None, now: int) -> int | None:
    if within is None:
        return None
    # Those whom silence brings in have as much time as those before them.
    return now + within * 2 if ruling.on_silence == "escalate" else now + within


def revise(
    run: Run,
    n: int,
    *,
    args: bytes,
    digest: str,
    ruling: Require,
    by: Principal | Authority,
    now: int,
    policy_version: str = "",
    operands: tuple[OperandPin, ...] = (),
) -> list[e.Event]:
    """Edit what is asked. It becomes a new version, to be decided by whom the new ruling names."""
    who = by if isinstance(by, Authority) else unrecorded(by)
    hold, right = decidable(run, n, by=who, now=now)
    if not hold.editable:
        raise WrongVerdict(f"the arguments of {hold_id(run.id, n)!r} may not be edited")
    within = _deadline(ruling, ruling.within_ms, now)
    return [
        e.HoldRevised(
            hold=n,
            version=hold.version + 1,
            args=msgspec.Raw(args),
            digest=digest,
            by=who.by,
            ruling=ruling,
            approvers=resolve_approvers(ruling, run.by),
            at=now,
            # An edit never buys time.
            deadline=min((at for at in (hold.deadline, within) if at is not None), default=None),
            right=recorded_right(who, right),
            of=right.of,
            basis=right.basis,
            policy_version=policy_version,
            operands=operands,
        )
    ]


def start_calls(run: Run, starts: Iterable[Start]) -> list[e.Event]:
    """Start calls that may start, on the digest that may; the others are left alone."""
    found: list[e.Event] = []
    able = {row.ref: row for row in startable(run)}
    for start in starts:
        row = able.get(start.ref)
        if row is None:
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
                grant=start.grant,
                grant_until=start.grant_until,
                basis=start.basis,
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
    return [voided, *declined_by_end(run, row)] if run.ending else [voided]


def doubt_call(
    run: Run,
    ref: str,
    *,
    attempt: int,
    why: str,
    ruling: Require,
    now: int,
    probe: str = "",
    operands: tuple[OperandPin, ...] = (),
    may_live: bool = False,
    elsewhere: bool = False,
) -> list[e.Event]:
    """Say that nobody knows whether an attempt had its effect, and ask a person. `operands`: the
    files that it was started with.
    """
    row = _under_way(run, ref, attempt)
    if row is None:
        return []
    draft = Draft(run)
    draft.add(e.CallDoubted(call=ref, attempt=attempt, why=why))
    # Where a body was in the middle of a step, it is the step that may have happened.
    step = row.step if row.stepping else 0
    ask = InDoubt(
        attempt=attempt,
        worker=row.worker,
        why=why,
        probe=probe,
        step=step,
        may_live=may_live,
        elsewhere=elsewhere,
    )
    request = HoldRequest(ref=ref, ruling=unsilenced(ruling), ask=ask, operands=operands)
    draft.add(*open_holds(draft.run, [request], now=now))
    return draft.events


def unsilenced(ruling: Require) -> Require:
    """Make a ruling fit to ask about a doubt: silence may let a call start, but is not the new
    decision that a second start takes.
    """
    if ruling.on_silence != "approve":
        return ruling
    return msgspec.structs.replace(ruling, on_silence="reject")


def command(
    run: Run, call: Call, *, by: Principal, now: int, key: str = "", strand: str = e.MAIN
) -> list[e.Event]:
    """Invoke a command on a run. It goes by its number among the run's commands."""
    _refuse_ended(run)
    call = msgspec.structs.replace(call, ref=f"c{run.commanded + 1}")
    return [e.CommandReceived(call=call, by=by, at=now, key=key, strand=strand)]


def drop_commands(run: Run, *, now: int, told: Mapping[str, int] = _NOBODY) -> list[e.Event]:
    """Give up the commands of a run that is about to be complete, but for those under way.

    `told`: the bodies that were told so before, and at which attempt. One that has gone on since
    and asks again ends here: it could go on asking for ever.
    """
    draft = Draft(run)
    reason = "the run is complete"
    for row in run.commands:
        if row.state in (CallState.READY, CallState.APPROVED):
            draft.add(*decline(draft.run, row.ref, Declined(reason=reason)))
        elif row.state in (CallState.HELD, CallState.WAITING):
            draft.add(*withdraw(draft.run, by=SAYSO, now=now, reason=reason, only=row.ref))
            there = draft.run.call(row.ref)
            again = row.attempt > told.get(row.ref, row.attempt)
            if again and there is not None and there.state is CallState.ANSWERED:
                over = Failed(error="Cancelled", message=f"{reason}, and it asked again")
                draft.add(e.CallFinished(call=row.ref, attempt=row.attempt, outcome=over))
    return draft.events


def _main_waits(run: Run) -> bool:
    return any(call.state is not CallState.DONE for call in run.strands[0].calls)


def _refuse_ended(run: Run) -> None:
    if status_of(run) in FINAL or run.ending:
        raise RunFinished(f"the run {run.id!r} is {run.final or 'being cancelled'}")


def _under_way(run: Run, ref: str, attempt: int) -> CallRow | None:
    row = run.call(ref)
    if row is None or row.state is not CallState.STARTED or row.attempt != attempt:
        return None
    return row


def _call(run: Run, ref: str) -> CallRow:
    row = run.call(ref)
    assert row is not None, f"{ref} is not a call of an open turn"
    return row
