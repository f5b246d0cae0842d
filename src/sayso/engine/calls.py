"""Starting calls, letting their bodies go on, and finding out what became of lost ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import Effect, Failed, Returned, call_id
from sayso.domain.hold import Answered, Decision
from sayso.domain.ruling import Forbid, Require
from sayso.domain.run import CallRow, Run
from sayso.domain.secret import Veil, is_sealed, opened
from sayso.domain.settling import Draft
from sayso.domain.transcript import Place, Transcript
from sayso.domain.value import SAYSO
from sayso.engine.attempt import (
    Doubt,
    Parked,
    Result,
    Void,
    look_into,
    run_attempt,
)
from sayso.engine.body import DurableBody
from sayso.engine.context import Context, Tokens
from sayso.engine.gate import UNSIGNED
from sayso.engine.grants import Uses
from sayso.engine.leg import look_into_body, run_leg
from sayso.engine.operand import read_pinned
from sayso.engine.parts import Parts
from sayso.engine.ports import Driver, Scene, Tool
from sayso.engine.proposal import Proposal, allowed_by, start_of
from sayso.engine.record import doubt_ruling, strand_of
from sayso.errors import BadKeys, SaysoError, StoreError


async def propose_starts(
    parts: Parts, run_id: str, rows: Sequence[CallRow], worker: str
) -> Proposal:
    """Check calls that may start once more, and propose to start those that still may."""
    live, transcript = await parts.ledger.both(run_id)
    run, seen = live.run, live.run.seq
    # What was there when they were found may have come to nothing, or to other numbers.
    there = [row for row in rows if run.call(row.ref) == row]
    # Left to a worker that can read what their bodies were answered, and trusts it.
    able = [row for row in there if _usable(parts, run, transcript, row)]
    if there and not able:
        await parts.vault.rest(parts.bounds.look_s)
    driver = parts.drivers[run.agent]
    checks = parts.checks(run)
    scene = Scene(run, transcript)
    # A check takes its time, and people may change meanwhile.
    records = None if checks else parts.records.beside(live)
    checked = [
        (
            row,
            await parts.gate.recheck(
                run,
                row,
                transcript,
                tools=tools_of(driver, scene, row),
                checks=checks,
                records=records,
                now=parts.store.now(),
            ),
        )
        for row in able
    ]
    tick = parts.store.tick()
    uses = Uses()

    def verb(run: Run) -> list[e.Event]:
        now = parts.store.now()
        draft = Draft(run)
        requests: list[verbs.HoldRequest] = []
        uses.clear()
        if not live.is_so(seen):
            return []  # What was looked at has come to nothing: they are checked once more.
        for row, check in checked:
            if run.call(row.ref) != row or run.ending:
                continue  # It has moved on since it was checked.
            if check.broken:
                return settling.cancel(run, by=SAYSO, now=now, error=check.broken)
            if check.outcome is not None:
                draft.add(*verbs.decline(draft.run, row.ref, check.outcome))
            elif check.request is not None:
                ruling = parts.bound(run, row.ref, check.request.ruling)
                requests.append(msgspec.structs.replace(check.request, ruling=ruling))
            elif check.found is None or uses.take(check.found):
                start = start_of(driver, row, worker=worker, tick=tick)
                draft.add(*verbs.start_calls(draft.run, [allowed_by(start, check)]))
        draft.add(*verbs.open_holds(draft.run, requests, now=now))
        for request in requests:
            draft.add(*verbs.halt(draft.run, request.ref))
        return draft.events

    # Whoever proposes this is told of all of them that they are not being started any more.
    args = {row.ref: b"" for row in rows} | {row.ref: check.args for row, check in checked}
    return Proposal(verb, args=args, tick=tick, items=uses.items)


def tools_of(driver: Driver, scene: Scene, row: CallRow) -> Mapping[str, Tool]:
    """Give the tools that a call can be of: for a command, what can be invoked where it was."""
    command = scene.transcript.commands.get(row.ref)
    # What could be invoked when it was asked for may not be there any more when it is allowed.
    return driver.tools if command is None else driver.commands_of(scene, command[1])


async def propose_continue(parts: Parts, run_id: str, row: CallRow, worker: str) -> Proposal:
    """Propose to let a body go on whose asks are settled; not where it could not read an answer, or
    does not trust one, because it would fail for good there.
    """
    live, transcript = await parts.ledger.both(run_id)
    run = live.run
    driver = parts.drivers[run.agent]
    tool = driver.tools.get(row.tool)
    ruling = None
    if tool is not None:
        ruling = await parts.gate.rule(run, tool, transcript.args[row.ref], parts.checks(run))
    tick = parts.store.tick()
    if tool is None:
        outcome = Failed(error="UnknownTool", message=f"no tool {row.tool!r} now")
        return Proposal(partial(_give_up, row, outcome), args={}, tick=tick)
    if isinstance(ruling, Forbid):
        # What it has done is done; it does no more.
        outcome = Failed(error="Forbidden", message=ruling.why)
        return Proposal(partial(_give_up, row, outcome), args={}, tick=tick)
    if not _usable(parts, run, transcript, row):
        await parts.vault.rest(parts.bounds.look_s)
        return Proposal(lambda _: [], args={}, tick=tick)
    trust = parts.gate.trust
    needs = ruling.quorum if isinstance(ruling, Require) else 0
    if trust is not None and needs and not trust.allows(run, row, transcript, needs):
        # It should not have begun, or did so before anybody, or so many, had to be asked.
        found = await doubt_ruling(parts, run_id, row.ref)
        ruling = msgspec.structs.replace(found, title=f"Go on with {row.tool}?", why=UNSIGNED)
        verb = partial(_doubt_body, parts, row, ruling)
        return Proposal(verb, args={}, tick=tick)
    start = start_of(driver, row, worker=worker, tick=tick)
    return Proposal(lambda run: bodies.continue_call(run, start), args={}, tick=tick)


def _doubt_body(parts: Parts, row: CallRow, ruling: Require, run: Run) -> list[e.Event]:
    if run.call(row.ref) != row or run.ending:
        return []
    why = "no desk that this worker trusts has signed that it may start"
    return bodies.doubt_body(
        run, row.ref, attempt=row.attempt, why=why, ruling=ruling, now=parts.store.now()
    )


def _give_up(row: CallRow, outcome: Failed, run: Run) -> list[e.Event]:
    if run.call(row.ref) != row:
        return []
    return [e.CallFinished(call=row.ref, attempt=row.attempt, outcome=outcome)]


async def run_body(
    parts: Parts, run_id: str, event: e.CallStarted, args: bytes, tick: int
) -> Result | None:
    """Call the tool whose start has just been committed, unless that took too long. None if its
    body has asked something and waits.
    """
    run = (await parts.ledger.live(run_id)).run
    call = run.call(event.call)
    tool = None if call is None else parts.drivers[run.agent].tools[call.tool]
    tokens = await _tokens(parts, run, tool)
    try:
        transcript = await parts.ledger.transcript(run_id)
    except StoreError as error:
        # Raised from here it would leave a call in doubt that was never sent.
        return _not_sent(call, f"its run could not be read: {error}")
    # After the tokens and the transcript, because getting them may take its time.
    late_ms = parts.store.tick() - tick
    if late_ms > parts.bounds.start_grace_ms or call is None or tool is None:
        return _not_sent(call, f"{late_ms} ms had passed when its start was committed")
    if tool.sign_in is not None and tool.sign_in.provider not in tokens:
        return _not_sent(call, f"{run.by} is not signed in at {tool.sign_in.provider!r} now")
    if tool.durable or call.step:
        return await _run_durable(parts, run, call, tool, args, tokens=tokens)
    veil = Veil()
    try:
        bare = _open(parts, run, tool, args, veil)
    except BadKeys as error:
        return _not_sent(call, f"its arguments cannot be read here: {error}")
    ctx = context_of(parts, run, event.call, event.attempt, transcript, tokens=tokens)
    return await run_attempt(tool, ctx, bare, veil, parts.going)


async def continue_body(
    parts: Parts, run_id: str, event: e.CallContinued, tick: int
) -> Result | None:
    """Let a body go on, in memory if it is still there, through the journal if it is not."""
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    call = run.call(event.call)
    tool = None if call is None else parts.drivers[run.agent].tools[call.tool]
    # Without one the body goes on, too: it has begun, and only it knows what it still needs.
    tokens = await _tokens(parts, run, tool)
    late_ms = parts.store.tick() - tick
    if late_ms > parts.bounds.start_grace_ms or call is None or tool is None:
        return Parked(why=f"{late_ms} ms had passed when it was to go on")
    body = parts.hot.take(run_id, call.ref, event.attempt - 1)
    answers = _answers(transcript.places.get(call.ref, ()))
    if body is not None and body.resume(event.attempt, answers, tokens):
        return await _leg(parts, run_id, body, tool)
    return await _run_durable(parts, run, call, tool, transcript.args[call.ref], tokens=tokens)


async def _run_durable(
    parts: Parts, run: Run, call: CallRow, tool: Tool, args: bytes, *, tokens: Tokens
) -> Result | None:
    if not tool.durable:
        return Doubt(why=f"its code has changed: {tool.name!r} is not durable any more")
    transcript = await parts.ledger.transcript(run.id)
    places = transcript.places.get(call.ref, ())
    veil = Veil()
    try:
        bare = _open(parts, run, tool, args, veil)
    except BadKeys as error:
        return _not_sent(call, f"its arguments cannot be read here: {error}")
    body = DurableBody(
        parts, run, call.ref, attempt=call.attempt, places=places, worker=call.worker, veil=veil
    )
    ctx = context_of(parts, run, call.ref, call.attempt, transcript, body=body, tokens=tokens)
    body.tokens = tokens
    body.moves = ctx.moves
    body.start(tool.call(ctx, bare))
    return await _leg(parts, run.id, body, tool)


async def _leg(parts: Parts, run_id: str, body: DurableBody, tool: Tool) -> Result | None:
    result = await run_leg(body, tool)
    if result is None and not body.gone:
        run = (await parts.ledger.live(run_id)).run
        if run.ending or run.final:
            body.park()  # It came to an end while the body was asking.
        else:
            parts.hot.keep(run_id, body)
    return result


def _open(parts: Parts, run: Run, tool: Tool, args: bytes, veil: Veil) -> bytes:
    """Give the arguments that a body is called with: the one place where secrets are opened for a
    tool. Raise `BadKeys` if they cannot be.
    """
    if not is_sealed(args):
        return args
    bare = parts.vault.open_args(run.id, tool.name, args)
    for value in opened(bare):
        veil.add(value)
    return bare


def _usable(parts: Parts, run: Run, transcript: Transcript, row: CallRow) -> bool:
    """Tell whether all that the body of a call was answered counts here, and can be read."""
    trust = parts.gate.trust
    if trust is not None and not trust.answers(run, row, transcript):
        return False
    if not parts.vault.opens_args(transcript.run_id, row.tool, transcript.args[row.ref]):
        return False
    verdicts = [
        decision.verdict
        for place in transcript.places.get(row.ref, ())
        for decision in place.decisions.values()
    ]
    steps = [place.outcome for place in transcript.places.get(row.ref, ())]
    kept = [bytes(one.value) for one in steps if isinstance(one, Returned)]
    if not all(parts.vault.opens_step(transcript.run_id, row.ref, one) for one in kept):
        return False
    sealed = [one.sealed for one in verdicts if isinstance(one, Answered) and one.sealed]
    return all(parts.vault.opens(transcript.run_id, one) for one in sealed)


def _not_sent(call: CallRow | None, why: str) -> Result:
    # A body that has come to something goes on from there; everything else starts again.
    begun = call is not None and call.step > 0
    return Parked(why=f"not sent: {why}") if begun else Void(why=f"not sent: {why}")


def _answers(places: Sequence[Place]) -> list[Decision]:
    """Give what a body is told that waits at its last place, if it does."""
    return [place.decisions[n] for place in places[-1:] for n in sorted(place.asks)]


async def look_after(parts: Parts, run_id: str, row: CallRow, *, own: bool) -> Result:
    """Find out what became of a call that a worker started and did not finish. This worker's `own`
    is not probed, because it may still be under way: what is not there yet may still come.
    """
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    tool = parts.drivers[run.agent].tools.get(row.tool)
    why = f"the worker {row.worker} was gone before it said how it ended"
    may_live = await _may_live(parts, run_id, row, own=own)
    if tool is not None and tool.durable:
        cut_off = "its body was cut off" if own else why
        places = transcript.places.get(row.ref, ())
        return look_into_body(places, cut_off, may_live=may_live)
    if own and tool is not None and tool.effect is Effect.ONCE:
        return Doubt(why="its worker lost sight of it", may_live=may_live)
    tokens = await _tokens(parts, run, tool)
    ctx = context_of(parts, run, row.ref, row.attempt, transcript, tokens=tokens)
    veil = Veil()
    try:
        args = transcript.args[row.ref]
        bare = args if tool is None else _open(parts, run, tool, args, veil)
    except BadKeys as error:
        return Doubt(why=why, probe=f"could not be asked: {error}", may_live=may_live)
    result = await look_into(tool, ctx, bare, why=why, veil=veil)
    return (
        msgspec.structs.replace(result, may_live=may_live) if isinstance(result, Doubt) else result
    )


async def _may_live(parts: Parts, run_id: str, row: CallRow, *, own: bool) -> bool:
    """Tell whether an attempt may still be under way. A worker that nobody knows of any more has
    left in good order, with nothing under way, or was dead and is forgotten.
    """
    if own:
        return not await parts.going.ends_at_once(call_id(run_id, row.ref))
    sight = await parts.store.sight(row.worker)
    return sight is not None and sight.alive != "dead"


async def _tokens(parts: Parts, run: Run, tool: Tool | None) -> Tokens:
    """Get what a tool acts for a person with; nothing if there is nothing to be had now."""
    needed = None if tool is None else tool.sign_in
    if needed is None or parts.gate.sign_ins is None:
        return Tokens()
    try:
        token = await parts.gate.sign_ins.token(run, needed)
    except SaysoError:
        # Raised from here it would leave a call in doubt that was never sent.
        token = None
    return Tokens() if token is None else Tokens({needed.provider: token})


def context_of(
    parts: Parts,
    run: Run,
    ref: str,
    attempt: int,
    transcript: Transcript | None = None,
    *,
    body: DurableBody | None = None,
    tokens: Tokens | None = None,
) -> Context:
    """Gather what a tool is told of its call."""
    strand = strand_of(run, transcript, ref)
    command = None if transcript is None else transcript.commands.get(ref)
    data, files = None, None
    if transcript is not None:
        tool = parts.drivers[run.agent].tools.get(transcript.calls[ref].tool)
        if tool is not None:
            pins = transcript.operands.get(ref, ())
            files = partial(read_pinned, tool, transcript.args[ref], pins)
        data = parts.drivers[run.agent].data_of(Scene(run, transcript), strand)
        if body is not None:
            data = transcript.began.get(ref, data)
    return Context(
        run_id=run.id,
        call_id=call_id(run.id, ref),
        key=call_id(run.id, ref),
        attempt=attempt,
        by=run.by if command is None else command[0],
        agent=run.agent,
        project=run.project,
        thread=run.thread,
        deps=parts.deps,
        strand=strand,
        body=body,
        moves=[],
        data=data,
        tokens=Tokens() if tokens is None else tokens,
        files=files,
    )
