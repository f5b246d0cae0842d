"""What a call's own body does to its run: it takes steps, asks, and goes on. Verbs, like `verbs`.

Rule: every one of these names the attempt it belongs to. An attempt that no longer counts changes
nothing, whoever still executes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sayso.domain import events as e
from sayso.domain.call import CallState, Outcome
from sayso.domain.hold import InDoubt
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.settling import Draft, cut_short
from sayso.domain.verbs import HoldRequest, Start, halt, open_holds, supersede, unsilenced


def continue_call(run: Run, start: Start) -> list[e.Event]:
    """Let a body go on whose asks are settled; nothing if it does already, or must not."""
    row = run.call(start.ref)
    if row is None or row.state is not CallState.ANSWERED or run.ending:
        return []
    return [
        e.CallContinued(
            call=row.ref,
            attempt=row.attempt + 1,
            worker=start.worker,
            tick=start.tick,
            timeout_ms=start.timeout_ms,
        )
    ]


def start_step(
    run: Run, ref: str, *, attempt: int, name: str, digest: str, effect: str
) -> list[e.Event]:
    """Begin the next step of a body; nothing if the body no longer counts."""
    row = _owned(run, ref, attempt)
    if row is None or run.ending:
        return []
    step = row.step + 1
    return [
        e.StepStarted(call=ref, attempt=attempt, step=step, name=name, digest=digest, effect=effect)
    ]


def finish_step(run: Run, ref: str, *, attempt: int, outcome: Outcome) -> list[e.Event]:
    """Record what a step gave; nothing if the body no longer counts."""
    row = _owned(run, ref, attempt)
    if row is None or not row.stepping:
        return []
    return [e.StepFinished(call=ref, attempt=attempt, step=row.step, outcome=outcome)]


def ask(
    run: Run, ref: str, *, requests: Sequence[HoldRequest], attempt: int, now: int
) -> list[e.Event]:
    """Ask what a body, or a call that waits for its answer, wants to know."""
    if _owned(run, ref, attempt) is None or run.ending:
        return []
    draft = Draft(run)
    strand = run.strand_of(ref)
    if strand is not None and strand.resolve == "latest":
        # Two bodies that ask again would withdraw each other's questions for ever.
        draft.add(*supersede(run, now=now, bodies_too=False))
    draft.add(*open_holds(draft.run, requests, now=now))
    draft.add(*halt(draft.run, ref))
    return draft.events


def park(run: Run, ref: str, *, attempt: int, why: str, again: bool = False) -> list[e.Event]:
    """Let a body go on from the journal that nobody executes any more.

    `again`: the step it was at had no effect, or one that may be repeated.
    """
    row = _owned(run, ref, attempt)
    if row is None:
        return []
    found: list[e.Event] = []
    if row.stepping and again:
        found.append(e.StepVoided(call=ref, attempt=attempt, step=row.step, why=why))
    found.append(e.BodyParked(call=ref, attempt=attempt, why=why))
    # In a run that is to end no body goes on.
    return [*found, cut_short(run, row)] if run.ending else found


def doubt_step(
    run: Run,
    ref: str,
    *,
    attempt: int,
    why: str,
    ruling: Require,
    digest: str,
    now: int,
    may_live: bool = False,
    elsewhere: bool = False,
) -> list[e.Event]:
    """Say that nobody knows whether a step had its effect, and ask a person."""
    row = _owned(run, ref, attempt)
    if row is None or not row.stepping:
        return []
    draft = Draft(run)
    draft.add(e.CallDoubted(call=ref, attempt=attempt, why=why))
    doubt = InDoubt(
        attempt=attempt,
        worker=row.worker,
        why=why,
        step=row.step,
        may_live=may_live,
        elsewhere=elsewhere,
    )
    request = HoldRequest(ref=ref, ruling=unsilenced(ruling), ask=doubt, digest=digest)
    draft.add(*open_holds(draft.run, [request], now=now))
    return draft.events


def doubt_body(
    run: Run, ref: str, *, attempt: int, why: str, ruling: Require, now: int
) -> list[e.Event]:
    """Let a body that has begun go on only if a person says so, wherever in it that is; nothing if
    it is over, or waits for a person anyway.
    """
    row = run.call(ref)
    begun = (CallState.STARTED, CallState.ANSWERED)
    if row is None or row.state not in begun or row.attempt != attempt:
        return []
    draft = Draft(run)
    if row.stepping:
        draft.add(e.StepVoided(call=ref, attempt=attempt, step=row.step, why=why))
    draft.add(e.CallDoubted(call=ref, attempt=attempt, why=why))
    # Its question is just this: whether to go on here, whatever goes on elsewhere.
    doubt = InDoubt(attempt=attempt, worker=row.worker, why=why, elsewhere=True)
    request = HoldRequest(ref=ref, ruling=unsilenced(ruling), ask=doubt)
    draft.add(*open_holds(draft.run, [request], now=now))
    return draft.events


def _owned(run: Run, ref: str, attempt: int) -> CallRow | None:
    row = run.call(ref)
    if row is None or row.state is not CallState.STARTED or row.attempt != attempt:
        return None
    return row
