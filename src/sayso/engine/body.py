"""A durable body: a tool's own code, which takes steps, asks, and goes on from the journal.

Rule 1: code outside a step may run again; a step with an outcome never does, nor is anything asked
twice. Going through the journal again is checked place by place, and a body that comes to something
else is not trusted.
Rule 2: it waits from its own task, one thing at a time. Anything else is an error before anybody is
asked, and spoils the call: what catches that error must not go on without its answer.
Rule 3: a body that was parked, or whose waiting was cut off, does not count any more. No exception
is relied on for that: whatever it does or returns is ignored.
Rule 4: a step begins only if its start was committed a moment ago: whoever stood still for longer
may have been taken for dead, and the step may be another's by now.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from sayso.domain import bodies, codec
from sayso.domain import events as e
from sayso.domain.call import Effect, Failed, Outcome, Returned, call_id
from sayso.domain.digest import ask_digest, decode_value, encode_value, request_digest
from sayso.domain.hold import Answered, Ask, Decision, Delegation
from sayso.domain.question import Question
from sayso.domain.ruling import HIGH, Require, at_risk
from sayso.domain.run import Run
from sayso.domain.secret import OPEN, Secret, Veil, is_sealed
from sayso.domain.signing import SPEAKING
from sayso.domain.transcript import Place
from sayso.domain.verbs import HoldRequest
from sayso.engine.attempt import read_error
from sayso.engine.children import check_spawn, child_of
from sayso.engine.context import Suspend, Tokens, Wanted, discreet
from sayso.engine.going import Begun
from sayso.engine.ids import child_id
from sayso.engine.insist import insist
from sayso.engine.ledger import Written
from sayso.engine.parts import Parts
from sayso.engine.result import keep_result
from sayso.engine.thread import in_thread
from sayso.errors import (
    BadAwait,
    BadKeys,
    BadPolicy,
    BadTool,
    BodyGone,
    SaysoError,
    StepFailed,
    StoreError,
)

NAME_MAX = 200
REFUSALS_MAX, PACE_S = 3, 1.0
"""A body that catches everything and tries again is slowed down after this many refusals: it would
keep everybody else in the process waiting.
"""


class Diverged(BaseException):
    """The body came to something else than its journal says."""


class DurableBody:
    """One body in memory. Made by a worker for a call that it has just started or continued."""

    def __init__(
        self,
        parts: Parts,
        run: Run,
        ref: str,
        *,
        attempt: int,
        places: Sequence[Place],
        worker: str,
        veil: Veil | None = None,
    ) -> None:
        self.ref = ref
        self.attempt = attempt
        self.gone = False
        """Whether it does not count any more."""
        self.doubt = ""
        """Why its step is in doubt, if it is."""
        self.diverged = ""
        self.late = ""
        """Why what it came to last was not begun, if it was not."""
        self.beginning = False
        """Whether what it came to last is on its way to the journal: it has not begun."""
        self.spoiled: SaysoError | None = None
        """Why nothing that it returns can be its outcome, if so."""
        self.moves: list[Any] = []
        """What it changes in its run, if it returns."""
        self.tokens = Tokens()
        """What its context has of them; replaced by newer ones when it goes on."""
        self.veil = veil or Veil()
        """What it was told that nobody else may read."""
        self._parts = parts
        self._run = run
        self._worker = worker
        self.places = list(places)
        """What its journal has of it."""
        self._at = 0
        self._begun: Begun[bytes] | None = None
        self._task: asyncio.Task[bytes] | None = None
        self._inside = ""
        self._refusals = 0
        self._waiting: asyncio.Future[list[Decision]] | None = None
        self._asked = asyncio.Event()

    def start(self, work: Awaitable[bytes | Suspend]) -> None:
        """Let the body run in a task of its own."""
        self._begun = Begun(_as_coroutine(work))
        self._parts.going.add(call_id(self._run.id, self.ref), self._begun)
        self._task = self._begun.task
        self._task.add_done_callback(_forget)

    async def leg(self, timeout_s: float) -> asyncio.Task[bytes] | None:
        """Wait until the body is over, and give its task; None if it has asked, or is gone.

        Raise `TimeoutError` if it does neither in time.
        """
        task = self._task
        assert task is not None, "a body is started before it is waited for"
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            done, _ = await asyncio.wait(
                {task, asked}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            asked.cancel()
        if self._asked.is_set():
            return None
        if not done:
            raise TimeoutError
        return task

    def resume(self, attempt: int, decisions: Sequence[Decision], tokens: Tokens) -> bool:
        """Give a waiting body its answers, and the tokens of now; False if it cannot take them any
        more.
        """
        waiting = self._waiting
        if self.gone or waiting is None or waiting.done():
            return False
        self.attempt = attempt
        self.tokens.clear()
        self.tokens.update(tokens)
        self._asked.clear()
        waiting.set_result(list(decisions))
        return True

    def park(self) -> None:
        """Let go of the body. It goes on from the journal, if at all."""
        self.gone = True
        self._asked.set()
        if self._task is not None:
            self._task.cancel()

    async def ends_at_once(self) -> bool:
        """Tell whether nothing of a body that was parked goes on any more."""
        return self._begun is None or await self._begun.ends_at_once()

    @property
    def unread(self) -> int:
        """How many places of the journal the body has not come to."""
        return len(self.places) - self._at

    async def take_step(
        self, name: str, fn: Callable[..., Any], args: Sequence[Any], effect: str
    ) -> Any:
        """Take a step once and for all, or give what it gave before."""
        async with _Entry(self, f"the step {name!r}"):
            name, kind = self._check_step(name, fn, effect)
            digest = self._step_digest(name, encode_value([self._open(one) for one in args]))
            place = self._next(name=name, digest=digest)
            if place is None:
                place = Place(name, digest, kind.value)
                start = partial(bodies.start_step, name=name, digest=digest, effect=kind.value)
                tick = self._parts.store.tick()
                await self._write(start)
                self._check_late(name, self._parts.store.tick() - tick)
                self._come_to(place)
                place.outcome = await self._attempt(name, fn, args, kind)
            assert place.outcome is not None, "a step that may run again was taken out"
            return self._value(name, place.outcome)

    async def put(self, wanted: Sequence[Wanted]) -> list[Decision]:
        """Ask, all in one suspension, and wait for every answer."""
        async with _Entry(self, "what it asks"):
            step = self._at + 1
            wanted = [discreet(one, self.veil) for one in wanted]
            asks = [self._named(one.ask, step, index) for index, one in enumerate(wanted)]
            if any(isinstance(ask, Question) and ask.sensitive for ask in asks):
                self._parts.vault.check()  # An answer that cannot be sealed must not be asked for.
            place = self._next(asks=asks)
            if place is None:
                agents = [ask.agent for ask in asks if isinstance(ask, Delegation)]
                run = (await self._parts.ledger.live(self._run.id)).run
                check_spawn(self._parts, run, agents)
                requests = [
                    HoldRequest(
                        ref=self.ref,
                        ruling=self._bound(one.ruling),
                        ask=ask,
                        then="continue",
                        step=step,
                        digest=self._digest(ask, step),
                        policy_version=self._parts.gate.policy.version,
                    )
                    for one, ask in zip(wanted, asks, strict=True)
                ]
                now = self._parts.store.now()
                written = await self._write(partial(bodies.ask, requests=requests, now=now))
                self._come_to(_asked_at(written, asks))
                return await self._wait()
            return [place.decisions[n] for n in sorted(place.asks)]

    def reveal(self, verdict: Answered) -> Any:
        """Give what was answered, also if it is sealed."""
        if verdict.sealed:
            value = decode_value(self._parts.vault.unseal(self._run.id, verdict.sealed))
            self.veil.add(value)
            return value
        return verdict.result()

    async def enter(self, what: str) -> None:
        """Refuse to wait where a body cannot."""
        wrong = ""
        if asyncio.current_task() is not self._task:
            wrong = "is awaited from another task, such as one of gather() or wait_for()"
        elif self._inside:
            wrong = f"is awaited while {self._inside} is under way"
        if wrong and not self.gone and self.spoiled is None:
            self._spoil(
                BadAwait(f"{what} {wrong}: await it in the body itself, one at a time"),
            )
        if self.spoiled is None and not self.gone:
            self._inside = what
            return
        self._refusals += 1
        await asyncio.sleep(0 if self._refusals <= REFUSALS_MAX else PACE_S)
        raise BodyGone if self.spoiled is None else self.spoiled

    def leave(self, error: BaseException | None) -> None:
        """Let the body wait for something else."""
        self._inside = ""
        if isinstance(error, asyncio.CancelledError):
            # Whoever cut the wait off, the answer is still to come: only a body that goes through
            # the journal again can be given it.
            self.park()
        elif self.spoiled is not None:
            self._asked.set()

    def _spoil(self, error: SaysoError) -> None:
        self.spoiled = error
        if not self._inside:
            # At once, unless a step has begun: that has an outcome first.
            self._asked.set()

    def _check_late(self, name: str, late_ms: int) -> None:
        if late_ms > self._parts.bounds.start_grace_ms:
            self.late = f"{late_ms} ms had passed when its step {name!r} was to begin"
            self.park()
            raise BodyGone

    def _check_step(self, name: Any, fn: Any, effect: str) -> tuple[str, Effect]:
        if not isinstance(name, str) or not name or len(name) > NAME_MAX:
            raise BadTool(f"{name!r} cannot name a step: use a short text")
        if not callable(fn):
            raise BadTool(f"the step {name!r} is given a function and its arguments, not {fn!r}")
        try:
            return name, Effect(effect)
        except ValueError:
            raise BadTool(
                f"{effect!r} is no effect of the step {name!r}: use 'none', 'keyed' or 'once'"
            ) from None

    def _next(self, *, name: str = "", digest: str = "", asks: Sequence[Ask] = ()) -> Place | None:
        """Give what the journal has for the place that the body comes to now, if anything."""
        if self._at >= len(self.places):
            return None
        place = self.places[self._at]
        same = (place.name, place.digest) == (name, digest)
        if not same or [place.asks[n] for n in sorted(place.asks)] != list(asks):
            came = f"the step {name!r}" if name else "a question"
            had = f"the step {place.name!r}" if place.name else "a question"
            other = "" if (came != had) else ", with other content"
            self.diverged = (
                f"its code has changed: at place {self._at + 1} the journal has {had}, "
                f"and it came to {came}{other}"
            )
            self.park()
            raise Diverged(self.diverged)
        self._at += 1
        return place

    def _come_to(self, place: Place) -> None:
        self.places.append(place)
        self._at += 1

    async def _write(
        self,
        verb: Callable[..., list[e.Event]],
    ) -> Written:
        """Append what the body does. If it no longer counts, nothing is, and it stops here."""

        def mine(run: Run) -> list[e.Event]:
            return verb(run, self.ref, attempt=self.attempt)

        self.beginning = True
        try:
            written = await self._parts.ledger.post(
                self._run.id, mine, owned_by=self._worker, begins=self._children, quiet=True
            )
        except asyncio.CancelledError:
            self.late = "its wait was cut off before it had begun"
            raise
        except StoreError as error:
            # Not for the body to make anything of: it would go on without its answer.
            self.park()
            raise BodyGone from error
        finally:
            self.beginning = False
        if not written.events:
            if written.run.ending:
                self._spoil(BodyGone(f"the run is to end: {written.run.ending_why}"))
            self.park()
            raise self.spoiled or BodyGone
        return written

    async def _attempt(
        self, name: str, fn: Callable[..., Any], args: Sequence[Any], effect: Effect
    ) -> Outcome:
        try:
            result = await _call(fn, args, name)
            kept = self._seal(keep_result(result))
            outcome: Outcome = Returned(value=msgspec.Raw(kept))
        except asyncio.CancelledError:
            # Parked, stopped or timed out in the middle of a step: whoever looks after the call
            # finds it without an outcome.
            raise
        except BaseException as error:
            lost, outcome = read_error(error, self.veil)
            if lost and effect is Effect.ONCE:
                self.doubt = lost
                self.park()
                raise BodyGone from error
        verb = partial(_finish, self.ref, self.attempt, outcome)
        first = self._parts.ledger.post(self._run.id, verb, owned_by=self._worker, quiet=True)
        try:
            written = await insist(self._parts, self._run.id, verb, first, owned_by=self._worker)
        except StoreError as error:
            self.park()
            raise BodyGone from error
        if not written.events:
            self.park()
            raise BodyGone
        return outcome

    async def _wait(self) -> list[Decision]:
        self._waiting = asyncio.get_running_loop().create_future()
        self._asked.set()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def _bound(self, ruling: Require) -> Require:
        """Make what is asked inside as strict as the tool and the agent are."""
        row = self._run.call(self.ref)
        tool = self._parts.drivers[self._run.agent].tools.get(row.tool if row else "")
        if tool is None:
            return ruling
        if ruling.on_silence == "approve" and tool.risk in HIGH:
            raise BadPolicy(f"silence must not approve anything in a tool of {tool.risk} risk")
        if ruling.on_silence in SPEAKING and self._parts.gate.trust is not None:
            raise BadPolicy(f"silence cannot {ruling.on_silence} here: only what is signed counts")
        return self._parts.bound(self._run, self.ref, at_risk(ruling, tool.risk))

    def _step_digest(self, name: str, args: bytes) -> str:
        """Name a step's arguments. Those of a body that was told a secret are named by a key: a
        short secret could be found out by trying values against a plain digest.
        """
        vault = self._parts.vault
        there = self.places[self._at].digest if self.unread > 0 else ""
        if vault.names(there, name, args):
            return there
        return vault.name(name, args) if self.veil.lifted else request_digest(name, args)

    def _seal(self, result: bytes) -> bytes:
        """Give what is kept of a step. What has a secret in it is sealed rather than masked: the
        body goes on with it.
        """
        if not self.veil.covers(result) and not is_sealed(result):
            return result
        try:
            return self._parts.vault.seal_step(self._run.id, self.ref, result)
        except BadKeys:
            return self.veil.value(result)  # The step is taken: it has a result, come what may.

    def _value(self, name: str, outcome: Outcome) -> Any:
        match outcome:
            case Returned(value=value):
                kept = self._parts.vault.open_step(self._run.id, self.ref, bytes(value))
                return decode_value(kept, bytes_max=len(kept))
            case Failed(error=kind, message=message):
                raise StepFailed(f"the step {name!r} failed with {kind}: {message}", kind=kind)
            case other:
                kind = type(other).__name__
                raise StepFailed(f"the step {name!r} is {kind}: {other.reason}", kind=kind)

    def _open(self, value: Any) -> Any:
        """Give what names an argument of a step. A secret is named by its value, under a key."""
        # That of pydantic by its name, because pydantic may not be there.
        reveal = getattr(value, "reveal" if isinstance(value, Secret) else "get_secret_value", None)
        if not callable(reveal):
            return value
        self.veil.add(plain := reveal())
        return {OPEN: plain}

    def _named(self, ask: Ask, step: int, index: int) -> Ask:
        if not isinstance(ask, Delegation):
            return ask
        run = child_id(self._run.id, self.ref, step, index)
        return msgspec.structs.replace(ask, run=run)

    def _children(self, run: Run, events: Sequence[e.Event]) -> list[e.RunStarted]:
        opened = [event for event in events if isinstance(event, e.HoldOpened)]
        begun = [event for event in opened if _delegates(event)]
        return [child_of(self._parts, run, event, len(begun)) for event in begun]

    def _digest(self, ask: Ask, step: int) -> str:
        return ask_digest(
            project=self._run.project,
            run=self._run.id,
            call=self.ref,
            step=step,
            ask=codec.encode_ask(ask),
        )


class _Entry:
    """Marks that the body waits for something, for as long as it does."""

    def __init__(self, body: DurableBody, what: str) -> None:
        self._body = body
        self._what = what

    async def __aenter__(self) -> None:
        await self._body.enter(self._what)

    async def __aexit__(self, _: object, error: BaseException | None, *more: object) -> None:
        self._body.leave(error)


def _delegates(event: e.HoldOpened) -> bool:
    return isinstance(event.ask, Delegation)


def _asked_at(written: Written, asks: Sequence[Ask]) -> Place:
    place = Place()
    opened = [event for event in written.events if isinstance(event, e.HoldOpened)]
    place.asks = {event.hold: ask for event, ask in zip(opened, asks, strict=True)}
    return place


def _finish(ref: str, attempt: int, outcome: Outcome, run: Run) -> list[e.Event]:
    return bodies.finish_step(run, ref, attempt=attempt, outcome=outcome)


async def _call(fn: Callable[..., Any], args: Sequence[Any], name: str) -> Any:
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
        return await fn(*args)
    result = await in_thread(partial(fn, *args), {}, name)
    return await result if inspect.isawaitable(result) else result


async def _as_coroutine(work: Awaitable[bytes | Suspend]) -> bytes:
    result = await work
    if isinstance(result, Suspend):
        raise BadAwait("a durable body asks with `await ctx.ask(...)`, not by what it returns")
    return result


def _forget(task: asyncio.Task[bytes]) -> None:
    if not task.cancelled():
        task.exception()  # Whoever wants to know looks at the task.
