"""Running a call again whose attempt before may still be under way.

Method: every way into a doubt, with real processes where a process is the point: stopped past its
lease, then killed; killed at once; a function in a thread that nothing can stop; a body that
ignores its cancellation. Whether the attempt is over is known to the
test, and no answer of ours counts.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from sayso import (
    Bounds,
    Context,
    HoldView,
    Principal,
    Sayso,
    answer,
    approve,
    fail,
    reject,
    tool,
)
from sayso.domain.hold import InDoubt
from sayso.domain.people import unrecorded
from sayso.engine.voters import Standing, check_over
from sayso.errors import AlreadyDecided, BadValue, KeyReused, WorkerMayLive, WrongVerdict
from sayso.store.base import Store
from sayso.store.sqlite import SqliteStore
from sayso.testing import call, say

from . import child
from .judge import judge
from .kit import QUICK, Child, Delegate, Place, agent, completed, held, journal, until
from .test_races import HASTE, LEASE, is_stopped

SLOW = Bounds(look_s=0.02, stay_hot_s=0)


async def decision_of(app: Sayso, hold: HoldView) -> Any:
    return (await app.hold(hold.id)).decision


async def test_a_silent_worker_may_be_alive_and_a_dead_one_is_not(file_place: Place) -> None:
    place = file_place
    store = await SqliteStore.open(place.path, **LEASE)
    with Child(
        place, do="serve", stop="before", timeout="200ms", store=LEASE, bounds=HASTE
    ) as first:
        await first.said("ready")
        async with Sayso(store, agents=[child.teller(place.world, {})], work=False) as desk:
            hold = await _start(desk)
            await desk.decide(hold, approve(), by="mira")
            await first.said("before")
            await until(lambda: is_stopped(first), "the stop")

        heir = child.teller(place.world, {"name": "heir"})
        async with Sayso(store, agents=[heir], bounds=Bounds(look_s=0.05, **HASTE)) as app:
            handle = app.run(hold.run_id)
            doubt = await held(handle)
            view = await app.doubt(doubt)
            assert (view.life.state, view.may_live, view.proof) == ("silent", True, "lease")

            with pytest.raises(WorkerMayLive, match="last heard of") as refused:
                await app.decide(doubt, approve(), by="mira")
            assert refused.value.worker == view.worker
            assert "even_if_alive=True" in str(refused.value)
            assert (await app.hold(doubt.id)).status == "open"

            first.signal(signal.SIGKILL)
            await first.gone()
            assert (await app.doubt(doubt)).may_live is False
            await app.decide(doubt, approve(), by="mira")
            await completed(handle)

            assert len(place.world.effects()) == 1
            assert (await decision_of(app, doubt)).even_if_alive is False
            await judge(store, place.world, ("pay",))
    await store.close()


async def test_a_worker_that_was_killed_at_once_is_dead(file_place: Place) -> None:
    place = file_place
    async with Sayso(place.path, agents=[child.teller(place.world, {})], work=False) as desk:
        with Child(place, do="serve", stay="before") as process:
            await process.said("ready")
            hold = await _start(desk)
            await desk.decide(hold, approve(), by="mira")
            await process.said("before")
            process.signal(signal.SIGKILL)
            await process.gone()

    heir = child.teller(place.world, {"name": "heir"})
    async with Sayso(place.path, agents=[heir], bounds=QUICK) as app:
        handle = app.run(hold.run_id)
        doubt = await held(handle)
        view = await app.doubt(doubt)
        assert (view.proof, view.may_live) == ("dead", False)
        assert view.life.over
        assert isinstance(doubt.ask, InDoubt)
        assert not doubt.ask.may_live

        await app.decide(doubt, approve(), by="mira")

        await completed(handle)
        await judge(app.store, place.world, ("pay",))


async def test_whoever_runs_it_again_all_the_same_is_on_record(place: Place) -> None:
    async with silent(place) as (app, doubt, _):
        with pytest.raises(WorkerMayLive):
            await app.decide(doubt, approve(), by="mira")

        await app.decide(doubt, approve(), by="mira", even_if_alive=True, note="pulled the plug")

        await completed(app.run(doubt.run_id))
        assert (await decision_of(app, doubt)).even_if_alive


@pytest.mark.parametrize("verdict", [answer("it did"), reject("leave it"), fail("who knows")])
async def test_every_other_verdict_is_taken_while_it_may_be_alive(
    place: Place, verdict: Any
) -> None:
    async with silent(place) as (app, doubt, _):
        await app.decide(doubt, verdict, by="mira")

        await completed(app.run(doubt.run_id))


async def test_a_late_result_shows_that_the_attempt_is_over(place: Place) -> None:
    async with silent(place) as (app, doubt, go_on):
        go_on.set()
        await until(lambda: _late(app, doubt.run_id), "the late result")

        view = await app.doubt(doubt)
        assert [type(one.outcome).__name__ for one in view.late] == ["Returned"]
        assert not view.may_live
        await app.decide(doubt, approve(), by="mira")
        await completed(app.run(doubt.run_id))


async def test_a_key_is_of_one_word_on_it(place: Place) -> None:
    async with silent(place) as (app, doubt, _):
        said = {"by": "mira", "key": "k", "even_if_alive": True}
        await app.decide(doubt, approve(), **said)
        await app.decide(doubt, approve(), **said)

        with pytest.raises((KeyReused, AlreadyDecided)):
            await app.decide(doubt, approve(), by="mira", key="k")


async def test_a_doubt_that_nobody_has_looked_into_is_taken_for_alive(place: Place) -> None:
    async with silent(place) as (app, doubt, _):
        run = await app._open_parts.ledger.load(doubt.run_id)
        nobody = Standing(
            who=unrecorded(Principal(id="mira")), lapsed={}, basis={}, living={}, votes={}
        )

        with pytest.raises(WorkerMayLive, match="only just now"):
            check_over(run, 1, nobody)
        await app.decide(doubt, reject("leave it"), by="mira")


@pytest.mark.parametrize("word", ["yes", 1, None])
async def test_it_is_said_by_true_and_by_nothing_like_it(place: Place, word: Any) -> None:
    async with silent(place) as (app, doubt, _):
        with pytest.raises(BadValue, match="even_if_alive"):
            await app.decide(doubt, approve(), by="mira", even_if_alive=word)

        assert (await app.hold(doubt.id)).status == "open"
        await app.decide(doubt, reject("leave it"), by="mira")


async def test_it_is_said_of_nothing_else(place: Place) -> None:
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")

        with pytest.raises(WrongVerdict, match="even_if_alive"):
            await app.decide(await held(run), approve(), by="mira", even_if_alive=True)


async def test_a_body_that_ended_by_its_timeout_is_over(place: Place) -> None:
    async with timed_out(place, asyncio.sleep) as (app, doubt):
        assert (await app.doubt(doubt)).life.state == "alive"
        assert not (await app.doubt(doubt)).may_live
        await app.decide(doubt, approve(), by="mira")
        await until(lambda: _started(app, doubt.run_id, 2), "the second attempt")


async def test_a_body_that_ignores_its_timeout_may_be_alive(place: Place) -> None:
    end = asyncio.Event()

    async def stubborn(_: float) -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    try:
        async with timed_out(place, stubborn) as (app, doubt):
            with pytest.raises(WorkerMayLive, match="is alive"):
                await app.decide(doubt, approve(), by="mira")
    finally:
        end.set()


async def test_a_function_that_did_not_end_by_its_timeout_may_be_alive(place: Place) -> None:
    end = threading.Event()

    async with timed_out(place, lambda _: end.wait()) as (app, doubt):
        with pytest.raises(WorkerMayLive, match="is alive"):
            await app.decide(doubt, approve(), by="mira")
        assert (await app.doubt(doubt)).may_live

        await app.decide(doubt, reject("not now"), by="mira")
        end.set()


async def test_a_function_that_raised_is_over(place: Place) -> None:
    def fails(_: float) -> None:
        raise ConnectionResetError("the line went dead")

    async with timed_out(place, fails) as (app, doubt):
        assert not (await app.doubt(doubt)).may_live
        await app.decide(doubt, approve(), by="mira")
        await until(lambda: _started(app, doubt.run_id, 2), "the second attempt")


@pytest.mark.parametrize("steps", [lambda _: threading.Event().wait(0.5), asyncio.sleep])
async def test_a_step_that_goes_on_in_a_thread_may_be_alive(place: Place, steps: Any) -> None:
    pay = _durable(steps)
    async with place.app(agent([call("pay"), say("x")], pay), bounds=SLOW) as app:
        run = await app.start("teller", "Pay", by="mira")
        doubt = await held(run)

        view = await app.doubt(doubt)
        assert view.step == "transfer"
        assert view.may_live is (steps is not asyncio.sleep)
        if view.may_live:
            with pytest.raises(WorkerMayLive):
                await app.decide(doubt, approve(), by="mira")
        await app.decide(doubt, reject("leave it"), by="mira")


async def test_a_worker_whose_function_goes_on_does_not_sign_off(place: Place) -> None:
    end = threading.Event()
    async with timed_out(place, lambda _: end.wait()) as (app, doubt):
        worker = (await app.doubt(doubt)).worker

    async with place.app(work=False) as desk:
        # Its process is this one, and lives: only its end would be the proof.
        assert (await desk.doubt(doubt.id)).life.state == "alive"
        with pytest.raises(WorkerMayLive):
            await desk.decide(doubt.id, approve(), by="mira")
        place.kill(worker)
        if place.kind == "memory":
            await desk.decide(doubt.id, approve(), by="mira")
    end.set()


async def test_a_worker_that_signed_off_has_nothing_under_way(place: Place) -> None:
    end = threading.Event()
    async with timed_out(place, lambda _: end.wait()) as (_, doubt):
        end.set()
        await asyncio.sleep(0.1)

    async with place.app(work=False) as desk:
        view = await desk.doubt(doubt.id)
        assert (view.life.state, view.may_live) == ("gone", False)
        await desk.decide(doubt.id, approve(), by="mira")


# What the tests share.


async def _start(app: Sayso) -> HoldView:
    return await held(await app.start("teller", "Pay", by="mira"))


class Silent(Delegate):
    """The store of a process that stands still: it says no more, and nothing that it does lands."""

    def __init__(self, inner: Store, go_on: asyncio.Event) -> None:
        super().__init__(inner)
        self.go_on = go_on
        self.still = asyncio.Event()

    async def beat(self, worker: str) -> None:
        if not self.still.is_set():
            await self.inner.beat(worker)


class silent:  # noqa: N801 - used like a function.
    """Two apps on one place; the first is silent in its tool, the second has taken its run over."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._go_on = asyncio.Event()
        self._stack: list[Any] = []

    async def __aenter__(self) -> tuple[Sayso, HoldView, asyncio.Event]:
        inside = asyncio.Event()
        stores: list[Silent] = []

        def wrap(store: Store) -> Silent:
            stores.append(Silent(store, self._go_on))
            return stores[0]

        @tool(effect="once", timeout="1s")
        async def pay(ctx: Context) -> str:
            if ctx.deps == "one":
                inside.set()
                await self._go_on.wait()
            return f"paid by {ctx.deps}"

        teller = agent([call("pay"), say("x")], pay)
        first = self._place.app(teller, wrap=wrap, deps="one", drain_s=0.0)
        app = await first.__aenter__()
        self._stack.append(first)
        run = await app.start("teller", "Pay", by="mira")
        await inside.wait()
        stores[0].still.set()
        # By the lease clock: its timeout is of the event loop, and has not come.
        self._place.clock.advance("1m")
        second = self._place.app(agent([call("pay"), say("x")], pay), deps="two")
        self._stack.append(second)
        other = await second.__aenter__()
        doubt = await held(other.run(run.id))
        return other, doubt, self._go_on

    async def __aexit__(self, *error: object) -> None:
        self._go_on.set()
        for one in reversed(self._stack):
            await one.__aexit__(None, None, None)


class timed_out:  # noqa: N801 - used like a function.
    """An app with a call in doubt: its tool waits like this, and has 50 ms."""

    def __init__(self, place: Place, wait: Any) -> None:
        if asyncio.iscoroutinefunction(wait):

            @tool(effect="once", timeout="50ms")
            async def pay() -> str:
                await wait(30)
                return "paid"
        else:

            @tool(effect="once", timeout="50ms")
            def pay() -> str:
                wait(30)
                return "paid"

        self._app = place.app(agent([call("pay"), say("x")], pay))

    async def __aenter__(self) -> tuple[Sayso, HoldView]:
        app = await self._app.__aenter__()
        return app, await _start(app)

    async def __aexit__(self, *error: object) -> None:
        await self._app.__aexit__(None, None, None)


def _durable(step: Any) -> Any:
    @tool(durable=True, timeout="50ms")
    async def pay(ctx: Context) -> str:
        await ctx.step("transfer", step, 30)
        return "paid"

    return pay


async def _late(app: Sayso, run_id: str) -> bool:
    return "late.result" in [one.type for one in await journal(app.store, run_id)]


async def _started(app: Sayso, run_id: str, attempt: int) -> bool:
    events = [one.event for one in await journal(app.store, run_id) if one.type == "call.started"]
    return any(event.attempt == attempt for event in events)
