"""Recording what became of a call."""

from __future__ import annotations

from functools import partial

from sayso.domain import bodies, codec, verbs
from sayso.domain import events as e
from sayso.domain.call import Failed, call_id
from sayso.domain.digest import ask_digest
from sayso.domain.operand import OperandPin
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.domain.settling import Draft
from sayso.domain.transcript import Transcript
from sayso.engine.attempt import Asked, Done, Doubt, Parked, Result, StepDoubt, Void
from sayso.engine.parts import Parts
from sayso.engine.ports import Scene
from sayso.engine.sent import Verb
from sayso.errors import IllegalEvent, SaysoError


async def propose_record(parts: Parts, run_id: str, ref: str, attempt: int, result: Result) -> Verb:
    """Say how to record what became of an attempt."""
    doubts = isinstance(result, Doubt | StepDoubt | Parked)
    if isinstance(result, Doubt | StepDoubt) and result.may_live:
        parts.going.doubt(call_id(run_id, ref))
    ruling = await doubt_ruling(parts, run_id, ref) if doubts else Require()
    pins = (await parts.ledger.transcript(run_id)).operands.get(ref, ()) if doubts else ()
    return lambda run: _events(parts, run, ref, attempt, result=result, ruling=ruling, pins=pins)


def _events(
    parts: Parts,
    run: Run,
    ref: str,
    attempt: int,
    *,
    result: Result,
    ruling: Require,
    pins: tuple[OperandPin, ...],
) -> list[e.Event]:
    now = parts.store.now()
    row = run.call(ref)
    spent = row is not None and row.voids + 1 >= parts.bounds.attempts_max
    match result:
        case Done(moves=moves) if moves:
            return _finish_moved(parts, run, ref, attempt, result)
        case Done(outcome=outcome, why=why):
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome, why=why)
        case Void(why=why, lost=True) if run.ending or spent:
            # It is not known to be undone: "declined" would be a lie, "not done" another.
            message = f"nobody knows how it ended, after attempt {attempt}: {why}"
            outcome = Failed(error="Interrupted", message=message)
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
        case Void(why=why) if spent:
            message = f"not done in {attempt} attempts, the last because: {why}"
            outcome = Failed(error="NotDone", message=message)
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
        case Void(why=why):
            return verbs.void_attempt(run, ref, attempt=attempt, why=why)
        case Doubt(why=why, probe=probe, may_live=live):
            doubt = partial(verbs.doubt_call, run, ref, attempt=attempt, why=why, ruling=ruling)
            return doubt(now=now, probe=probe, operands=pins, may_live=live)
        case StepDoubt(why=why, may_live=live):
            return bodies.doubt_step(
                run,
                ref,
                attempt=attempt,
                why=why,
                ruling=ruling,
                digest=row.digest if row is not None else "",
                now=now,
                may_live=live,
            )
        case Parked(why=why) if spent:
            why = f"its body was lost {parts.bounds.attempts_max} times, the last because: {why}"
            doubt = partial(verbs.doubt_call, run, ref, attempt=attempt, why=why, ruling=ruling)
            return doubt(now=now, operands=pins)
        case Parked(why=why, again=again):
            return bodies.park(run, ref, attempt=attempt, why=why, again=again)
        case Asked():
            return _ask(parts, run, ref, attempt, result)


def _finish_moved(parts: Parts, run: Run, ref: str, attempt: int, done: Done) -> list[e.Event]:
    """Record a result together with what its call changes in the run: both, or an error."""
    transcript = parts.ledger.fold(run)
    strand = strand_of(run, transcript, ref)
    found = verbs.finish_call(run, ref, attempt=attempt, outcome=done.outcome, why=done.why)
    if not found or isinstance(found[0], e.LateResult):
        return found
    try:
        draft = Draft(run)
        draft.add(*found)
        driver = parts.drivers[run.agent]
        scene = Scene(draft.run, transcript, parts.store.now())
        draft.add(*driver.moved(scene, strand, done.moves))
    except (SaysoError, IllegalEvent) as error:
        outcome = Failed(error=type(error).__name__, message=str(error))
        return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
    return draft.events


def _ask(parts: Parts, run: Run, ref: str, attempt: int, asked: Asked) -> list[e.Event]:
    ask = asked.wanted.ask
    request = verbs.HoldRequest(
        ref=ref,
        ruling=parts.bound(run, ref, asked.wanted.ruling),
        ask=ask,
        then="outcome",
        policy_version=parts.gate.policy.version,
        digest=ask_digest(
            project=run.project, run=run.id, call=ref, step=0, ask=codec.encode_ask(ask)
        ),
    )
    if run.ending:
        outcome = Failed(error="Cancelled", message=f"the run was to end: {run.ending_why}")
        return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
    return bodies.ask(run, ref, requests=[request], attempt=attempt, now=parts.store.now())


async def doubt_ruling(parts: Parts, run_id: str, ref: str) -> Require:
    """Say who is asked if nobody knows how a call ended."""
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    call = transcript.calls[ref]
    tool = parts.drivers[run.agent].tools.get(call.tool)
    asked = transcript.approvers.get(ref, ())
    return parts.gate.doubt_ruling(run, tool, call.tool, transcript.args[ref], asked=asked)


def strand_of(run: Run, transcript: Transcript | None, ref: str) -> str:
    """Name the strand of a run that a call belongs to."""
    strand = run.strand_of(ref)
    if strand is not None:
        return strand.name
    command = None if transcript is None else transcript.commands.get(ref)
    return e.MAIN if command is None else command[1]
