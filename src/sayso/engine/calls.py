"""Starting calls and recording what became of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import Effect, Failed, call_id
from sayso.domain.policy import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.value import SAYSO
from sayso.engine.attempt import Done, Doubt, Result, Void, look_into, run_attempt
from sayso.engine.ledger import Verb, Written
from sayso.engine.parts import Parts
from sayso.engine.ports import Context
from sayso.engine.proposal import Proposal, start_of
from sayso.errors import StoreClosed, StoreError

log = logging.getLogger("sayso")


async def propose_starts(
    parts: Parts, run_id: str, rows: Sequence[CallRow], worker: str
) -> Proposal:
    """Check calls that may start once more, and propose to start those that still may."""
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    driver = parts.drivers[run.agent]
    checked = [
        (
            row,
            await parts.gate.recheck(
                run, row, transcript, tools=driver.tools, check=driver.check_for_intervention
            ),
        )
        for row in rows
    ]
    tick = parts.store.tick()

    def verb(run: Run) -> list[e.Event]:
        now = parts.store.now()
        found: list[e.Event] = []
        requests: list[verbs.HoldRequest] = []
        for row, check in checked:
            if run.call(row.ref) != row or run.ending:
                continue  # It has moved on since it was checked.
            if check.broken:
                return settling.cancel(run, by=SAYSO, now=now, error=check.broken)
            if check.outcome is not None:
                found += verbs.decline(run, row.ref, check.outcome)
            elif check.request is not None:
                requests.append(check.request)
            else:
                start = start_of(driver, row, worker=worker, tick=tick)
                found += verbs.start_calls(run, [start])
        return found + verbs.open_holds(run, requests, now=now)

    return Proposal(verb=verb, args={row.ref: check.args for row, check in checked}, tick=tick)


async def run_body(
    parts: Parts, run_id: str, event: e.CallStarted, args: bytes, tick: int
) -> Result:
    """Call the tool whose start has just been committed, unless that took too long."""
    run = (await parts.ledger.live(run_id)).run
    call = run.call(event.call)
    late_ms = parts.store.tick() - tick
    if late_ms > parts.bounds.start_grace_ms or call is None:
        return Void(why=f"not sent: {late_ms} ms had passed when its start was committed")
    tool = parts.drivers[run.agent].tools[call.tool]
    return await run_attempt(tool, context_of(parts, run, event.call, event.attempt), args)


async def look_after(parts: Parts, run_id: str, row: CallRow, *, may_live: bool) -> Result:
    """Find out what became of a call that a worker started and did not finish. One that may still
    be under way is not probed: what is not there yet may still come.
    """
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    tool = parts.drivers[run.agent].tools.get(row.tool)
    why = f"the worker {row.worker} was gone before it said how it ended"
    if may_live and tool is not None and tool.effect is Effect.ONCE:
        return Doubt(why="its worker lost sight of it")
    ctx = context_of(parts, run, row.ref, row.attempt)
    return await look_into(tool, ctx, transcript.args[row.ref], why=why)


async def propose_record(parts: Parts, run_id: str, ref: str, attempt: int, result: Result) -> Verb:
    """Say how to record what became of an attempt."""
    ruling = await _doubt_ruling(parts, run_id, ref) if isinstance(result, Doubt) else Require()
    return lambda run: _events(parts, run, ref, attempt, result=result, ruling=ruling)


async def insist(parts: Parts, run_id: str, verb: Verb, first: Awaitable[Written]) -> None:
    """Wait for a record, and offer it again to a store that is only busy or full: the effect has
    happened, and must not become doubtful for want of a moment.
    """
    deadline = parts.store.tick() + parts.bounds.result_patience_s * 1000
    posted = first
    while True:
        try:
            await posted
        except StoreClosed:
            raise
        except StoreError as error:
            if parts.store.tick() > deadline:
                raise
            log.warning("%s: a result waits: %s", run_id, error)
            await asyncio.sleep(parts.bounds.backoff_s)
        else:
            return
        posted = parts.ledger.post(run_id, verb, quiet=True)


def _events(
    parts: Parts, run: Run, ref: str, attempt: int, *, result: Result, ruling: Require
) -> list[e.Event]:
    match result:
        case Done(outcome=outcome, why=why):
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome, why=why)
        case Void(why=why, lost=True) if run.ending or attempt >= parts.bounds.attempts_max:
            # It is not known to be undone: "declined" would be a lie, "not done" another.
            message = f"nobody knows how it ended, after attempt {attempt}: {why}"
            outcome = Failed(error="Interrupted", message=message)
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
        case Void(why=why) if attempt >= parts.bounds.attempts_max:
            message = f"not done in {attempt} attempts, the last because: {why}"
            outcome = Failed(error="NotDone", message=message)
            return verbs.finish_call(run, ref, attempt=attempt, outcome=outcome)
        case Void(why=why):
            return verbs.void_attempt(run, ref, attempt=attempt, why=why)
        case Doubt(why=why, probe=probe):
            now = parts.store.now()
            return verbs.doubt_call(
                run, ref, attempt=attempt, why=why, ruling=ruling, now=now, probe=probe
            )


async def _doubt_ruling(parts: Parts, run_id: str, ref: str) -> Require:
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    call = transcript.calls[ref]
    tool = parts.drivers[run.agent].tools.get(call.tool)
    asked = transcript.approvers.get(ref, ())
    return parts.gate.doubt_ruling(run, tool, call.tool, transcript.args[ref], asked=asked)


def context_of(parts: Parts, run: Run, ref: str, attempt: int) -> Context:
    """Gather what a tool is told of its call."""
    return Context(
        run_id=run.id,
        call_id=call_id(run.id, ref),
        key=call_id(run.id, ref),
        attempt=attempt,
        by=run.by,
        agent=run.agent,
        project=run.project,
        thread=run.thread,
        deps=parts.deps,
    )
