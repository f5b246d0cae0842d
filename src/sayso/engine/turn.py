"""Taking a turn: ask the model, put its calls through the gate, propose one append for it all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Sequence

import msgspec

from sayso.domain import events as e
from sayso.domain import verbs
from sayso.domain.call import Call, CallState
from sayso.domain.digest import decode_value
from sayso.domain.ruling import duration_text
from sayso.domain.run import CallRow, Run, Strand
from sayso.domain.secret import Veil, opened
from sayso.domain.settling import Draft
from sayso.domain.standing import concludes, startable, strand_due, turn_due
from sayso.domain.value import SAYSO
from sayso.engine.feed import Delta, Voice
from sayso.engine.gate import Admitted, clean_text
from sayso.engine.ledger import Verb
from sayso.engine.live import Live
from sayso.engine.parts import Parts
from sayso.engine.ports import Answer, AskedCall, Change, Driver, Prompt, Reading, Scene, Tool
from sayso.engine.proposal import Proposal, start_of
from sayso.errors import BadValue, CannotGoOn, ModelFailed, contained

log = logging.getLogger("sayso")


async def propose_turn(parts: Parts, run_id: str, name: str, worker: str) -> Proposal | None:
    """Take the turn that a strand is due; None if it is not. Raise `ModelFailed` for no answer, and
    `CannotGoOn` if the run has used up its turns or its time.
    """
    live, transcript = await parts.ledger.both(run_id)
    run = live.run
    strand = run.strand(name)
    if strand is None or not turn_due(run, strand):
        return None
    driver = parts.drivers[run.agent]
    scene = Scene(run, transcript)
    with contained(f"the agent {run.agent!r}"):
        prompt = _ending(driver, scene) if concludes(run) else driver.next(scene, name)
    tick = parts.store.tick()
    if not isinstance(prompt, Prompt):
        return Proposal(_changing(parts, strand, prompt), args={}, tick=tick)
    _check_turns(run, driver)
    seen, data = transcript.seq, transcript.strands[name].data
    first = Delta(run_id=run_id, turn=run.turns + 1, strand=name, seen=seen, text="")
    answer = await _ask_in_time(parts, live, first, driver, prompt)
    answer = msgspec.structs.replace(answer, text=clean_text(answer.text))
    tools = {tool.name: tool for tool in prompt.tools}
    admitted = await _admit(parts, scene, answer.calls, tools)
    answer = _discreet(parts, run.id, answer, admitted, tools)
    turn = _Turn(parts, driver, strand, answer, admitted, live=live, seen=seen, worker=worker)
    turn.data = data
    with contained(f"the agent {run.agent!r}"):
        turn.reading = None if admitted else driver.read(scene, name, answer)
    return turn


class _Turn(Proposal):
    """An answer that is ready to be recorded, whatever number its turn will have.

    It is the proposal, rather than to know it and be known by it: such a circle, with the run and
    its conversation inside, is in memory until somebody looks for circles.
    """

    def __init__(
        self,
        parts: Parts,
        driver: Driver,
        strand: Strand,
        answer: Answer,
        admitted: Sequence[Admitted],
        *,
        live: Live,
        seen: int,
        worker: str,
    ) -> None:
        super().__init__(args={}, tick=parts.store.tick())
        self._parts = parts
        self._driver = driver
        self._before = strand
        self._answer = answer
        self._admitted = admitted
        self._live = live
        self._seen = seen
        self._worker = worker
        self._batch = _batch(driver, admitted)
        self._told: dict[str, int] = {}
        """Commands that were told that the run is complete, and at which attempt: kept as they are
        when this is run again for an append that was stale.
        """
        self.reading: Reading | None = None
        self.data: bytes | None = None
        """What the agent kept of the strand when the model was asked."""

    def verb(self, run: Run) -> list[e.Event]:
        """Record the turn, and what follows from it at once."""
        # What it waited for may be what has made it void.
        self.waits = False
        strand = run.strand(self._before.name)
        if strand is None or strand.turn != self._before.turn or not strand_due(run, strand):
            return []  # The run has moved on without it.
        if not self._live.is_so(self._seen):
            # An append that the model was shown has come to nothing, or to another number: what it
            # has seen cannot be told from what others have written there.
            return []
        if self.data is not None and self._data_now(run) != self.data:
            return []  # The model was asked about something that is not so any more.
        # Other strands may have taken the last ones while this one waited for its model.
        _check_turns(run, self._driver)
        number = run.turns + 1
        calls = [
            msgspec.structs.replace(one.call, ref=f"{number}.{index}")
            for index, one in enumerate(self._admitted)
        ]
        resolve, siblings = self._batch
        draft = Draft(run)
        draft.add(
            e.TurnTaken(
                turn=number,
                seen=self._seen,
                strand=strand.name,
                text=self._answer.text,
                calls=tuple(calls),
                raw=None if self._answer.raw is None else msgspec.Raw(self._answer.raw),
                model=self._driver.model.name,
                usage=self._answer.usage,
                resolve=resolve,
                siblings=siblings,
            )
        )
        if self.reading is not None:
            return self._conclude(draft, self.reading, run)
        self._settle_calls(draft, calls)
        return draft.events

    def _data_now(self, run: Run) -> bytes | None:
        log = self._parts.ledger.fold(run).strands.get(self._before.name)
        return None if log is None else log.data

    def _settle_calls(self, draft: Draft, calls: Sequence[Call]) -> None:
        """Let each call start, ask for it, or give it its outcome."""
        self.args = {}
        resolve, siblings = self._batch
        requests: list[verbs.HoldRequest] = []
        for call, one in zip(calls, self._admitted, strict=True):
            if one.outcome is not None:
                draft.add(*verbs.decline(draft.run, call.ref, one.outcome))
            elif one.request is not None:
                ruling = self._parts.bound(draft.run, call.ref, one.request.ruling)
                request = msgspec.structs.replace(one.request, ref=call.ref, ruling=ruling)
                requests.append(request)
        if siblings == "halt":
            # Those after it are not executed, so nobody is asked about them.
            requests = requests[:1]
        if siblings == "in_order":
            # Those after it are asked about when their turn has come.
            first = next((c for c in startable(draft.run)), None)
            requests = [r for r in requests if first is not None and r.ref == first.ref]
        draft.add(
            *verbs.open_holds(draft.run, requests, now=self._parts.store.now(), resolve=resolve)
        )
        for request in requests:
            draft.add(*verbs.halt(draft.run, request.ref))
        free = {call.ref for call, one in zip(calls, self._admitted, strict=True) if _free(one)}
        if not free:
            return
        starts = self._starts(draft.run, free)
        draft.add(*verbs.start_calls(draft.run, starts))
        begun = {start.ref for start in starts}
        self.args = {c.ref: bytes(c.args) for c in calls if c.ref in begun}

    def _starts(self, run: Run, free: Container[str]) -> list[verbs.Start]:
        tick = self.tick
        return [
            start_of(self._driver, row, worker=self._worker, tick=tick)
            for row in startable(run)
            if row.ref in free and _is_fresh(row)
        ]

    def _conclude(self, draft: Draft, reading: Reading, before: Run) -> list[e.Event]:
        """Add what an answer without calls leads to."""
        if reading.change is not None:
            now = self._parts.store.now()
            scene = Scene(draft.run, self._parts.ledger.fold(before), now)
            with contained(f"the agent {before.agent!r}"):
                draft.add(*reading.change(scene))
        elif reading.output is None:
            said = e.MessageReceived(by=SAYSO, text=reading.complaint, strand=self._before.name)
            draft.add(said)
        elif not draft.run.strands[1:]:
            # With other strands there it rests until one of them has something to say to it.
            now = self._parts.store.now()
            draft.add(*verbs.drop_commands(draft.run, now=now, told=self._told))
            left = draft.run.commands
            # People may take weeks over what is in doubt: the answer is recorded, and no worker
            # kept. Whoever goes on after them concludes.
            self.waits = any(row.state is not CallState.DOUBTED for row in left)
            if self.waits:
                # What its commands ask is withdrawn already, so that they come to an end.
                found = verbs.drop_commands(before, now=now, told=self._told)
                for row in before.commands:
                    if row.state is CallState.WAITING:
                        self._told.setdefault(row.ref, row.attempt)
                return found
            if not left:
                draft.add(*verbs.complete(draft.run, reading.output))
        return draft.events


def _check_turns(run: Run, driver: Driver) -> None:
    turns_max = run.turns_max or driver.turns_max
    if run.turns + run.spent >= turns_max:
        raise CannotGoOn(f"the run took {turns_max} turns without coming to an end")


def _time_left_s(parts: Parts, run: Run) -> float | None:
    """Give how long a run may still work; None: as long as it takes. Raise if it may not at all."""
    time = run.work_time
    if time is None:
        return None
    left_ms = time.left_ms(parts.store.now())
    if not left_ms:
        raise _overtime(run)
    return left_ms / 1000


def _overtime(run: Run) -> CannotGoOn:
    assert run.work_time is not None, "only a bound can be reached"
    allowed = duration_text(run.work_time.timeout_ms)
    return CannotGoOn(f"the run worked for {allowed}, as long as it may, without coming to an end")


def _ending(driver: Driver, scene: Scene) -> Change:
    """Make the run's result of its last answer, which is on record already."""
    last = scene.transcript.strands[e.MAIN].turns[-1]
    reading = driver.read(scene, e.MAIN, Answer(text=last.text))

    def change(now: Scene) -> Sequence[e.Event]:
        if reading.output is None:  # The agent is another by now, and wants another answer.
            return [e.MessageReceived(by=SAYSO, text=reading.complaint or "Go on.")]
        return verbs.complete(now.run, reading.output)

    return change


def _changing(parts: Parts, before: Strand, change: Change) -> Verb:
    def verb(run: Run) -> Sequence[e.Event]:
        strand = run.strand(before.name)
        if strand is None or strand.turn != before.turn or not turn_due(run, strand):
            return []
        with contained(f"the agent {run.agent!r}"):
            return change(Scene(run, parts.ledger.fold(run), parts.store.now()))

    return verb


def _batch(driver: Driver, admitted: Sequence[Admitted]) -> tuple[str, str]:
    """Say how the calls of a turn are decided: as the rules that hold one say, or the agent."""
    for one in admitted:
        ruling = None if one.request is None else one.request.ruling
        if ruling is not None and (ruling.resolve or ruling.siblings):
            return ruling.resolve or "each", ruling.siblings or "run"
    return driver.batch


def _free(one: Admitted) -> bool:
    return one.request is None and one.outcome is None and not one.granted


def _is_fresh(row: CallRow) -> bool:
    return not row.attempt


async def _ask_in_time(
    parts: Parts, live: Live, first: Delta, driver: Driver, prompt: Prompt
) -> Answer:
    """Ask the model, and wait for it no longer than the run may work."""
    left_s = _time_left_s(parts, live.run)
    if left_s is None:
        return await _ask(parts, first, driver, prompt)
    bound = asyncio.timeout(left_s)
    try:
        async with bound:
            answer = await _ask(parts, first, driver, prompt, bound)
    except (TimeoutError, ModelFailed) as error:
        if bound.expired():
            raise _overtime(live.run) from error
        raise
    # An answer that came too late is none, whichever clock says so.
    if bound.expired():
        raise _overtime(live.run)
    _time_left_s(parts, live.run)
    return answer


async def _ask(
    parts: Parts,
    first: Delta,
    driver: Driver,
    prompt: Prompt,
    bound: asyncio.Timeout | None = None,
) -> Answer:
    """Ask the model; what it says on the way goes to whoever follows, after the `first` of it."""
    run_id, tried = first.run_id, 0
    # Which of its words are secret is known by its calls, and those come last: what might be a
    # secret is not passed on before, and the turn has all that may be said.
    discreet = any(tool.takes_secrets for tool in prompt.tools)
    while True:
        tried += 1
        voice = Voice(parts.feed, first)
        try:
            with contained("the model"):
                return await driver.model.answer(prompt, _unheard if discreet else voice.emit)
        except ModelFailed as error:
            # A model that was cut off may say that it failed, and is not asked again.
            cut_off = bound is not None and bound.expired()
            if cut_off or not error.retryable or tried >= driver.model_tries_max:
                raise
            # What a provider says may quote what it was given.
            why, ids = type(error.__cause__ or error).__name__, {"run_id": run_id}
            log.warning("%s: the model failed (%s) and is asked again", run_id, why, extra=ids)
            backoff_s = parts.bounds.backoff_s * 2 ** (tried - 1)
            # Whoever asks sooner than the provider says is only put off again, or for longer.
            wait_s = max(backoff_s, (error.retry_after_ms or 0) / 1000)
            await asyncio.sleep(min(wait_s, parts.bounds.backoff_max_s))


def _unheard(text: str) -> None:
    """Pass nothing on."""


def _discreet(
    parts: Parts,
    run_id: str,
    answer: Answer,
    admitted: Sequence[Admitted],
    tools: dict[str, Tool],
) -> Answer:
    """Give an answer that may be kept: the provider's own copy has secrets of its calls inside, and
    the text beside them may.
    """
    veil = Veil()
    for asked, one in zip(answer.calls, admitted, strict=True):
        tool = tools.get(one.call.tool)
        if tool is None or not tool.takes_secrets:
            continue
        if one.call.digest:
            args = parts.vault.open_args(run_id, tool.name, bytes(one.call.args))
            veil.add(opened(args))
        else:
            veil.add(_guess(asked.args))
    if not veil.lifted:
        return answer
    return msgspec.structs.replace(answer, text=veil.text(answer.text), raw=None)


def _guess(args: str) -> object:
    # Which of them are secret cannot be told of arguments that do not fit.
    try:
        return decode_value(args)
    except BadValue:
        return None


async def _admit(
    parts: Parts, scene: Scene, calls: Sequence[AskedCall], tools: dict[str, Tool]
) -> list[Admitted]:
    calls_max = parts.bounds.calls_max
    if len(calls) > calls_max:
        raise ModelFailed(f"the model asked for {len(calls)} calls at once, over {calls_max}")
    run = scene.run
    checks = parts.checks(run)
    return [
        await parts.gate.admit(
            run,
            asked,
            ref=f"{run.turns + 1}.{index}",
            tools=tools,
            transcript=scene.transcript,
            checks=checks,
        )
        for index, asked in enumerate(calls)
    ]
