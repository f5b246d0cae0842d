"""Six ways to lose an answer that a queue of approvals in memory has, and a durable await has not.

Such a queue keeps waiters and results by id. Submitted before anybody waits, an answer is lost;
for an unknown id, or too late, it is kept for ever; a second answer overwrites the first; of two
waiters one is told; one that goes away leaves its request behind. Here each of them is tried on a
body that waits, from the same process and from another one.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sayso import Context, HoldView, Returned, Sayso, answer, approve, reject
from sayso.errors import AlreadyDecided, HoldExpired, UnknownHold
from sayso.store.base import Appended, Store, Write

from .kit import Delegate, Place, completed, entries, finished, held, tags, types, until
from .stage import Stage, check, outcome


@pytest.fixture(params=["hot", "parked"])
def stage(request: pytest.FixtureRequest, place: Place) -> Stage:
    return Stage(place, request.param)


async def work(ctx: Context) -> Any:
    said = await ctx.approval("Pay?", within="1h")
    return [bool(said), said.reason]


async def ask(ctx: Context) -> Any:
    return await ctx.ask("Name?")


@asynccontextmanager
async def two_sides(stage: Stage, side: str, body: Any, **how: Any) -> AsyncIterator[Any]:
    """Open an app that works, and the one that answers: the same, or one that shares the store."""
    async with stage.app(body, **how) as app:
        if side == "same":
            yield app, app
            return
        async with stage.app(body, work=False) as desk:
            yield app, desk


SIDES = pytest.mark.parametrize("side", ["same", "other"])


class Eager(Delegate):
    """A store that tells somebody of a hold before it tells whoever asked."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.tell: Any = None

    def append(self, *writes: Write) -> Any:
        answer = self.inner.append(*writes)
        if "hold.opened" not in tags(writes):
            return answer
        return asyncio.ensure_future(self._first_tell(answer, writes[0].run))

    async def _first_tell(self, answer: Any, run_id: str) -> Appended:
        found = await answer
        await self.tell(run_id)
        return found


@SIDES
async def test_an_answer_that_comes_before_the_wait_is_not_lost(stage: Stage, side: str) -> None:
    eager: list[Eager] = []

    def wrap(store: Store) -> Any:
        eager.append(Eager(store))
        return eager[0]

    async with two_sides(stage, side, ask, wrap=wrap) as (app, desk):

        async def decide_at_once(run_id: str) -> None:
            (hold,) = await desk.holds(by="mira")
            assert hold.run_id == run_id
            await desk.decide(hold, answer("early"), by="mira")

        eager[0].tell = decide_at_once
        run = await app.start("worker", "Go", by="mira")
        found = outcome(await completed(run))
        names = await types(app, run)
        await check(app.store)

    assert isinstance(found, Returned)
    assert found.result() == "early"
    assert names.count("hold.opened") == 1


@SIDES
@pytest.mark.parametrize("name", ["hold_run_nobody.1", "hold_{run}.2", "hold_{run}.999999", "x"])
async def test_an_answer_to_nothing_is_refused_and_not_kept(
    stage: Stage, side: str, name: str
) -> None:
    async with two_sides(stage, side, ask) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        before = len(await entries(app.store))

        with pytest.raises(UnknownHold):
            await desk.decide(name.format(run=run.id), answer("x"), by="mira")

        assert len(await entries(app.store)) == before
        # Nor does it wait for a question that comes later: this is still the only answer.
        await desk.decide(hold, answer("right"), by="mira")
        assert outcome(await completed(run)).result() == "right"


@SIDES
@pytest.mark.parametrize("late", ["expired", "cancelled", "finished"])
async def test_an_answer_that_comes_too_late_is_told_so_and_not_kept(
    stage: Stage, side: str, late: str
) -> None:
    async with two_sides(stage, side, work) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        match late:
            case "expired":
                stage.place.clock.advance("2h")
                error: Any = HoldExpired
            case "cancelled":
                await app.cancel(run, by="mira")
                error = AlreadyDecided
            case _:
                await app.decide(hold, approve(), by="mira")
                await completed(run)
                error = AlreadyDecided

        with pytest.raises(error) as refused:
            await desk.decide(hold, approve(), by="mira")

        view = await finished(run)
        before = len(await entries(app.store))
        with pytest.raises(error):
            await desk.decide(hold, approve(), by="mira")
        assert len(await entries(app.store)) == before
        await check(app.store)
    word = {"expired": "expired", "cancelled": "withdrawn", "finished": "approved"}[late]
    assert refused.value.decision.word == word
    if late == "expired":
        assert outcome(view).result() == [False, "expired"]


@SIDES
@pytest.mark.parametrize("first", ["yes", "no"])
async def test_of_two_answers_before_the_waiter_wakes_the_first_stands(
    stage: Stage, side: str, first: str
) -> None:
    verdicts = [approve(), reject("no")]
    if first == "no":
        verdicts.reverse()
    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        if side == "same":
            # The waiter has had no chance to run between the two.
            one, two = await asyncio.gather(
                app.decide(hold, verdicts[0], by="mira"),
                app.decide(hold, verdicts[1], by="mira"),
                return_exceptions=True,
            )
            if stage.place.kind == "postgres" and isinstance(two, HoldView):
                # Which of two is the first is for the server to say.
                first, one, two = "no" if first == "yes" else "yes", two, one
            assert isinstance(one, HoldView)
            assert isinstance(two, AlreadyDecided)
            assert two.decision == one.decision
            found = outcome(await completed(run))
    if side == "other":
        # Nobody is there who could wake.
        async with stage.app(work, work=False) as desk:
            await desk.decide(hold, verdicts[0], by="mira")
            with pytest.raises(AlreadyDecided):
                await desk.decide(hold, verdicts[1], by="mira")
        async with stage.app(work) as app:
            found = outcome(await completed(app.run(run.id)))

    assert found.result() == ([True, "approved"] if first == "yes" else [False, "no"])


@SIDES
async def test_everybody_who_waits_is_told(stage: Stage, side: str) -> None:
    async with two_sides(stage, side, ask) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        waiters = [
            asyncio.ensure_future(one.run(run.id).wait(final=True, timeout=20))
            for one in (app, app, desk, desk)
        ]
        await asyncio.sleep(0)
        await desk.decide(hold, answer("a"), by="mira")
        views = await asyncio.gather(*waiters)

    assert [outcome(view).result() for view in views] == ["a"] * 4


async def test_of_two_workers_that_have_the_body_one_goes_on(stage: Stage) -> None:
    took: list[str] = []

    async def both(ctx: Context) -> Any:
        await ctx.ask("A?")
        await ctx.step("one", lambda: took.append(ctx.deps))
        return await ctx.ask("B?")

    async with stage.app(both, deps="first") as first, stage.app(both, deps="second") as second:
        run = await first.start("worker", "Go", by="mira")
        await second.decide(await held(run), answer("a"), by="mira")
        await until(lambda: _asks(second, run.id, "B?"), "the second question")
        (hold,) = (await second.run(run.id).view()).holds
        await first.decide(hold, answer("b"), by="mira")
        views = [await completed(app.run(run.id)) for app in (first, second)]
        await check(first.store)

    assert [outcome(view).result() for view in views] == ["b", "b"]
    assert len(took) == 1


async def _asks(app: Sayso, run_id: str, title: str) -> bool:
    view = await app.run(run_id).view()
    return [hold.title for hold in view.holds] == [title]


@SIDES
async def test_a_waiter_that_goes_away_leaves_the_question_to_others(
    stage: Stage, side: str
) -> None:
    async with two_sides(stage, side, ask) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        waiter = asyncio.ensure_future(run.wait(final=True))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)

        assert len(await desk.holds(by="mira")) == 1
        await desk.decide(hold, answer("a"), by="mira")
        assert outcome(await completed(run)).result() == "a"
        assert len(await desk.holds(by="mira")) == 0


@SIDES
async def test_a_body_that_is_cut_off_leaves_nothing_pending(stage: Stage, side: str) -> None:
    passes: list[int] = []

    async def cut_off(ctx: Context) -> Any:
        passes.append(1)
        try:
            async with asyncio.timeout(0.01 if len(passes) == 1 else None):
                return await ctx.ask("Name?")
        except BaseException:
            return "nobody"

    async with two_sides(stage, side, cut_off) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        await asyncio.sleep(0.03)
        await desk.decide(hold, answer("a"), by="mira")

        assert outcome(await completed(run)).result() == "a"
        assert len(await desk.holds(by="mira")) == 0
        assert (await types(app, run)).count("hold.opened") == 1


@SIDES
async def test_a_run_that_is_cancelled_leaves_nothing_pending(stage: Stage, side: str) -> None:
    async with two_sides(stage, side, ask) as (app, desk):
        run = await app.start("worker", "Go", by="mira")
        await held(run)
        await desk.cancel(run.id, by="mira")

        assert (await finished(run)).status == "cancelled"
        assert len(await desk.holds(by="mira")) == 0


DESK = """
import asyncio, json, sys
from sayso import Sayso, answer, reject
from sayso.errors import SaysoError
db, holds = sys.argv[1], json.loads(sys.argv[2])
async def main():
    async with Sayso(db, work=False) as desk:
        for hold in holds:
            for verdict in (answer("theirs"), reject("no")):
                try:
                    await desk.decide(hold, verdict, by="mira")
                    print("took")
                except SaysoError as error:
                    print(type(error).__name__)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["hot", "parked"])
async def test_a_process_of_its_own_answers_once(file_place: Place, how: str) -> None:
    stage = Stage(file_place, how)
    async with stage.app(ask) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        said = await asyncio.to_thread(
            subprocess.run,
            [
                sys.executable,
                "-c",
                DESK,
                str(file_place.path),
                json.dumps([hold.id, f"{hold.id}0"]),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        found = outcome(await completed(run))

    assert said.stdout.split() == ["took", "AlreadyDecided", "UnknownHold", "UnknownHold"]
    assert found.result() == "theirs"
