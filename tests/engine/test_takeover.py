"""Two workers on one run, step by step: one stands still at a chosen append, the other goes on.

Method: two apps on one place. The store of the first holds one append back, as a process that was
stopped would, and lets it go once the second has taken the run over. The tool's probe answers that
nothing has happened, the worst it can say: whatever starts a second time is a second effect.
"""

import asyncio
from typing import Any

import pytest

from sayso import Agent, Context, NotHappened, Sayso, approve, tool
from sayso.store.base import Appended, Store, Write
from sayso.testing import ScriptedModel, call, say

from .judge import judge
from .kit import Delegate, Place, World, completed, held, tags, types, until


class Stopped(Delegate):
    """A store whose process stands still when it is first about to append something."""

    def __init__(self, inner: Store, at: str) -> None:
        super().__init__(inner)
        self.at = at
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    def append(self, *writes: Write) -> Any:
        if self.at in tags(writes) and not self.reached.is_set():
            self.reached.set()
            return asyncio.ensure_future(self._later(writes))
        return self.inner.append(*writes)

    async def _later(self, writes: tuple[Write, ...]) -> Appended:
        await self.go_on.wait()
        return await self.inner.append(*writes)

    async def beat(self, worker: str) -> None:
        if not self.reached.is_set():
            await self.inner.beat(worker)


class Bank:
    """A payment that takes as long as the test says."""

    def __init__(self, world: World, *, approval: bool) -> None:
        self.inside = asyncio.Event()
        self.end = asyncio.Event()
        self.paid_by: list[str] = []

        async def probe(ctx: Context) -> NotHappened:
            return NotHappened()

        @tool(approval=approval, effect="once", probe=probe, timeout="10s")
        async def pay(ctx: Context) -> str:
            world.act(ctx, {})
            self.paid_by.append(ctx.deps)
            self.inside.set()
            await self.end.wait()
            return f"paid by {ctx.deps}"

        self.tool = pay


def model(*, after: asyncio.Event | None = None) -> ScriptedModel:
    async def script(messages: Any) -> Any:
        if after is not None:
            await after.wait()
        return call("pay") if len(messages) == 1 else say("done")

    return ScriptedModel(script)


async def test_a_worker_that_was_taken_over_in_its_turn_starts_nothing(place: Place) -> None:
    bank = Bank(place.world, approval=False)
    answer_two = asyncio.Event()
    one, two = (
        Agent("teller", model=model(after=after), tools=[bank.tool]) for after in (None, answer_two)
    )
    stopped: list[Stopped] = []

    def stop(store: Store) -> Stopped:
        stopped.append(Stopped(store, "turn.taken"))
        return stopped[0]

    async with place.app(one, wrap=stop, deps="one") as first:
        run = await first.start("teller", "Pay", by="mira")
        await stopped[0].reached.wait()
        place.clock.advance("1m")
        async with place.app(two, deps="two") as second:
            await until(lambda: _taken_over(second, run.id), "the take-over")

            stopped[0].go_on.set()
            await asyncio.sleep(0.1)
            answer_two.set()
            await bank.inside.wait()
            await asyncio.sleep(0.1)
            bank.end.set()
            await completed(second.run(run.id))

            assert bank.paid_by == ["two"]
            await judge(second.store, place.world)


@pytest.mark.parametrize("at", ["call.started", "call.finished"])
async def test_a_worker_that_was_taken_over_around_a_call_does_not_act_twice(
    place: Place, at: str
) -> None:
    bank = Bank(place.world, approval=True)
    bank.end.set()
    one, two = (Agent("teller", model=model(), tools=[bank.tool]) for _ in range(2))
    stopped: list[Stopped] = []

    def stop(store: Store) -> Stopped:
        stopped.append(Stopped(store, at))
        return stopped[0]

    async with place.app(one, wrap=stop, deps="one") as first:
        run = await first.start("teller", "Pay", by="mira")
        await first.decide(await held(run), approve(), by="mira")
        await stopped[0].reached.wait()
        place.clock.advance("1m")
        async with place.app(two, deps="two") as second:
            await until(lambda: _taken_over(second, run.id), "the take-over")
            await completed(second.run(run.id))

            stopped[0].go_on.set()
            if at == "call.finished":
                await until(lambda: _late(second, run.id), "the late result")

            # The probe's word is that the first had not happened, so the second was right to pay.
            paid = {"call.started": ["two"], "call.finished": ["one", "two"]}
            assert bank.paid_by == paid[at]
    async with place.app(one) as app:
        kinds = await types(app, run.id)
        assert kinds.count("late.result") == (1 if at == "call.finished" else 0)
        if at == "call.started":
            await judge(app.store, place.world, ("pay",))


async def test_a_model_that_fails_in_a_worker_that_was_taken_over_does_not_fail_the_run(
    place: Place,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def failing(messages: Any) -> Any:
        asked.set()
        await go.wait()
        raise ValueError("this process is of no use")

    class Silent(Delegate):
        silent = False

        async def beat(self, worker: str) -> None:
            if not self.silent:
                await self.inner.beat(worker)

    async with place.app(Agent("teller", model=ScriptedModel(failing)), wrap=Silent) as first:
        run = await first.start("teller", "x", by="mira")
        await asked.wait()
        Silent.silent = True
        done = asyncio.Event()

        async def slow(messages: Any) -> Any:
            await done.wait()
            return say("done")

        two = Agent("teller", model=ScriptedModel(slow))
        place.clock.advance("1m")
        async with place.app(two) as second:
            await until(lambda: _taken_over(second, run.id), "the take-over")

            go.set()
            await asyncio.sleep(0.1)
            done.set()

            assert (await completed(second.run(run.id))).output == "done"


async def _taken_over(app: Sayso, run_id: str) -> bool:
    return "run.taken_over" in await types(app, run_id)


async def _late(app: Sayso, run_id: str) -> bool:
    return "late.result" in await types(app, run_id)
