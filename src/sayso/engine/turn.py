"""Taking a turn: ask the model, put its calls through the gate, propose one append for it all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from sayso.domain import events as e
from sayso.domain import verbs
from sayso.domain.lifecycle import apply_all
from sayso.domain.run import Run
from sayso.domain.standing import strand_due
from sayso.domain.transcript import Transcript
from sayso.domain.value import SAYSO
from sayso.engine.feed import Delta
from sayso.engine.gate import Admitted, clean_text
from sayso.engine.parts import Parts
from sayso.engine.ports import Answer, AskedCall, Driver, Prompt, Reading
from sayso.engine.proposal import Proposal, start_of
from sayso.errors import ModelFailed

log = logging.getLogger("sayso")


async def propose_turn(parts: Parts, run_id: str, name: str, worker: str) -> Proposal | None:
    """Take the turn that a strand is due; None if it is not. Raise `ModelFailed` for no answer."""
    transcript = await parts.ledger.transcript(run_id)
    run = (await parts.ledger.live(run_id)).run
    strand = run.strand(name)
    if strand is None or not strand_due(run, strand):
        return None
    driver = parts.drivers[run.agent]
    if run.turns >= driver.turns_max:
        raise ModelFailed(f"the run took {driver.turns_max} turns without coming to an end")
    seen, turn = transcript.seq, run.turns + 1
    answer = await _ask(parts, run_id, driver, driver.prompt(transcript.messages()), turn)
    answer = msgspec.structs.replace(answer, text=clean_text(answer.text))
    admitted = await _admit(parts, run, driver, answer.calls, transcript=transcript)
    taken = e.TurnTaken(
        turn=turn,
        seen=seen,
        strand=name,
        text=answer.text,
        calls=tuple(one.call for one in admitted),
        raw=None if answer.raw is None else msgspec.Raw(answer.raw),
        model=driver.model.name,
        usage=answer.usage,
    )
    free = [one.call for one in admitted if one.request is None and one.outcome is None]
    tick = parts.store.tick()
    starts = [start_of(driver, c, worker=worker, tick=tick) for c in free]
    reading = None if admitted else driver.read(answer)

    def verb(run: Run) -> list[e.Event]:
        found = verbs.take_turn(run, taken)
        if not found:
            return []
        after = apply_all(run, found)
        if reading is not None:
            return [*found, *_conclusion(after, reading)]
        for one in admitted:
            if one.outcome is not None:
                found += verbs.decline(after, one.call.ref, one.outcome)
        requests = [one.request for one in admitted if one.request is not None]
        found += verbs.open_holds(after, requests, now=parts.store.now())
        return found + verbs.start_calls(after, starts)

    return Proposal(verb=verb, args={c.ref: bytes(c.args) for c in free}, tick=tick)


def _conclusion(run: Run, reading: Reading) -> list[e.Event]:
    if reading.output is not None:
        return verbs.complete(run, reading.output)
    return [e.MessageReceived(by=SAYSO, text=reading.complaint)]


async def _ask(parts: Parts, run_id: str, driver: Driver, prompt: Prompt, turn: int) -> Answer:
    def emit(text: str) -> None:
        parts.feed.emit(Delta(run_id=run_id, turn=turn, text=text))

    tried = 0
    while True:
        tried += 1
        try:
            return await driver.model.answer(prompt, emit)
        except ModelFailed as error:
            if not error.retryable or tried >= driver.model_tries_max:
                raise
            log.warning("%s: the model failed (%s) and is asked again", run_id, error)
            backoff_s = parts.bounds.backoff_s * 2 ** (tried - 1)
            # Whoever asks sooner than the provider says is only put off again, or for longer.
            wait_s = max(backoff_s, (error.retry_after_ms or 0) / 1000)
            await asyncio.sleep(min(wait_s, parts.bounds.backoff_max_s))


async def _admit(
    parts: Parts, run: Run, driver: Driver, calls: Sequence[AskedCall], *, transcript: Transcript
) -> list[Admitted]:
    calls_max = parts.bounds.calls_max
    if len(calls) > calls_max:
        raise ModelFailed(f"the model asked for {len(calls)} calls at once, over {calls_max}")
    return [
        await parts.gate.admit(
            run,
            asked,
            ref=f"{run.turns + 1}.{index}",
            tools=driver.tools,
            transcript=transcript,
            check=driver.check_for_intervention,
        )
        for index, asked in enumerate(calls)
    ]
