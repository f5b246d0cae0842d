"""What user code can do wrong around a durable await.

It is an early typed error, or the right result all the same: never a body that goes on without its
answer, never a second hold for one question. No exception class is safe here, so none is relied on.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from sayso import Context, Failed, Returned, StepFailed, ToolMessage, answer
from sayso.errors import BadAwait, BodyGone

from .kit import Place, completed, held, types, until
from .stage import Stage, check, durable, outcome, play_on


@pytest.fixture(params=["hot", "parked"])
def stage(request: pytest.FixtureRequest, place: Place) -> Stage:
    return Stage(place, request.param)


async def play(stage: Stage, body: Any, **options: Any) -> tuple[Any, list[str]]:
    """Play a body to its end; give its outcome and what its run went through."""
    async with stage.app(durable(body, **options)) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run)
        await check(app.store)
        return outcome(view), await types(app, run)


def is_bad(found: Any, names: list[str], holds: int = 0) -> None:
    assert isinstance(found, Failed), found
    assert found.error == "BadAwait", found
    assert "await it in the body itself" in found.message
    assert names.count("hold.opened") == holds


async def gathered(ctx: Context) -> Any:
    return await asyncio.gather(ctx.ask("A?"), ctx.ask("B?"))


async def gathered_quietly(ctx: Context) -> Any:
    await asyncio.gather(ctx.ask("A?"), ctx.ask("B?"), return_exceptions=True)
    return "went on without"


async def grouped(ctx: Context) -> Any:
    async with asyncio.TaskGroup() as group:
        one, two = group.create_task(ctx.ask("A?")), group.create_task(ctx.ask("B?"))
    return [one.result(), two.result()]


async def grouped_quietly(ctx: Context) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.ask("A?"))
    except BaseException:
        return "went on without"


async def in_a_task(ctx: Context) -> Any:
    task = asyncio.ensure_future(ctx.step("one", lambda: 1))
    await asyncio.wait({task})
    return "went on without"


async def in_a_task_for_ever(ctx: Context) -> Any:
    with contextlib.suppress(BaseException):
        await asyncio.ensure_future(ctx.ask("A?"))
    await asyncio.Event().wait()


async def again_and_again(ctx: Context) -> Any:
    for _ in range(4):
        with contextlib.suppress(BaseException):
            return await asyncio.gather(ctx.ask("A?"))
    return None


@pytest.mark.parametrize(
    "body",
    [
        gathered,
        gathered_quietly,
        grouped,
        grouped_quietly,
        in_a_task,
        in_a_task_for_ever,
        again_and_again,
    ],
)
async def test_waiting_in_another_task_is_refused_before_anybody_is_asked(
    stage: Stage, body: Any
) -> None:
    found, names = await play(stage, body)

    is_bad(found, names)
    assert "step.started" not in names


@pytest.mark.parametrize("how", ["coroutine", "task", "thread", "loop"])
async def test_waiting_inside_a_step_is_refused(stage: Stage, how: str) -> None:
    went_on: list[str] = []

    async def work(ctx: Context) -> Any:
        loop = asyncio.get_running_loop()

        async def inside() -> Any:
            if how == "task":
                return await asyncio.ensure_future(ctx.ask("A?"))
            return await ctx.ask("A?")

        def in_thread() -> Any:
            if how == "loop":
                return asyncio.run(ctx.ask("A?"))
            return asyncio.run_coroutine_threadsafe(ctx.ask("A?"), loop).result()

        try:
            await ctx.step("one", in_thread if how in ("thread", "loop") else inside)
        except StepFailed as error:
            went_on.append(error.kind)
            await ctx.step("two", went_on.append, "two")
        return "went on without"

    found, names = await play(stage, work)

    is_bad(found, names)
    # The step had begun, so it has its outcome; nothing begins after it.
    assert names.count("step.started") == names.count("step.finished") == 1
    assert "two" not in went_on


async def test_a_wait_beside_a_step_spoils_the_call_after_the_step(stage: Stage) -> None:
    took: list[str] = []

    async def work(ctx: Context) -> Any:
        async def slow() -> str:
            beside = asyncio.ensure_future(ctx.ask("A?"))
            await asyncio.wait({beside})
            assert isinstance(beside.exception(), BadAwait)
            took.append("slow")
            return "slow"

        return await ctx.step("slow", slow)

    found, names = await play(stage, work)

    is_bad(found, names)
    assert took == ["slow"]
    assert names.count("step.finished") == 1


async def test_a_call_that_is_spoiled_does_not_wait_for_its_body_to_end(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        async def spoil() -> None:
            await asyncio.wait({asyncio.ensure_future(ctx.ask("A?"))})

        await ctx.step("spoil", spoil)
        await asyncio.Event().wait()

    found, names = await play(stage, work)

    is_bad(found, names)
    assert names.count("step.finished") == 1


async def test_a_wait_with_a_time_limit_is_refused_or_answered(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        try:
            return await asyncio.wait_for(ctx.ask("A?"), 0.01)
        except TimeoutError:
            return "went on without"

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await run.wait(timeout=20)
        if not view.final:
            # From Python 3.12 on, wait_for waits in the body's own task.
            await asyncio.sleep(0.05)
            view = await play_on(app, run)
        found, names = outcome(view), await types(app, run)

    if isinstance(found, Returned):
        assert found.result() == "to A?"
        assert names.count("hold.opened") == 1
    else:
        is_bad(found, names)


@pytest.mark.parametrize("limit_s", [0.0, 0.01])
@pytest.mark.parametrize("quietly", [False, True])
async def test_a_wait_that_is_cut_off_in_its_own_task_is_still_answered(
    stage: Stage, limit_s: float, quietly: bool
) -> None:
    limits: list[str] = []

    async def work(ctx: Context) -> Any:
        # Only the first time: a body that always cuts off its own wait gets nowhere, and says so.
        limit = limit_s if not limits else None
        try:
            async with asyncio.timeout(limit):
                return await ctx.ask("A?")
        except TimeoutError:
            limits.append("timed out")
        except BaseException:
            limits.append("cancelled")
            if not quietly:
                raise
        return "went on without"

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        if stage.hot:
            await until(lambda: limits, "the limit")
        else:
            limits.append("parked")
        await app.decide(hold, answer("a"), by="mira")
        view = await completed(run)
        names = await types(app, run)
        await check(app.store)

    found = outcome(view)
    assert isinstance(found, Returned)
    assert found.result() == "a"
    assert names.count("hold.opened") == 1
    assert not view.late


async def test_a_step_that_is_cut_off_before_it_has_begun_is_not_asked_about(stage: Stage) -> None:
    took: list[str] = []
    passes: list[int] = []

    async def work(ctx: Context) -> Any:
        passes.append(1)
        try:
            async with asyncio.timeout(0 if len(passes) == 1 else None):
                await ctx.step("one", took.append, "one")
                return "taken"
        except BaseException:
            return "went on without"

    found, names = await play(stage, work)

    assert isinstance(found, Returned)
    assert found.result() == "taken"
    assert took == ["one"]
    assert "hold.opened" not in names


async def test_a_step_that_is_cut_off_by_its_body_is_in_doubt(stage: Stage) -> None:
    begun: list[int] = []
    limits: list[asyncio.Timeout] = []

    async def slow() -> None:
        begun.append(1)
        limits[-1].reschedule(0)
        await asyncio.Event().wait()

    async def work(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                await ctx.step("slow", slow)
        except BaseException:
            return "went on without"

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        doubt = await held(run)
        assert doubt.kind == "in_doubt"
        assert "its body was cut off, at its step 'slow'" in doubt.doubt
        await app.decide(doubt, answer("done by hand"), by="mira")
        found = outcome(await completed(run))

    assert isinstance(found, Returned)
    # Given to the body by the journal, which then has all the time it needs.
    assert found.result() is None
    assert len(begun) == 1


async def test_whatever_is_caught_around_a_wait_changes_nothing(stage: Stage) -> None:
    passes: list[str] = []

    async def work(ctx: Context) -> Any:
        passes.append("in")
        try:
            return await ctx.ask("A?")
        except BaseException:
            passes.append("caught")
            try:
                return await ctx.ask("B?")
            except BaseException:
                return "went on without"

    found, names = await play(stage, work)

    assert isinstance(found, Returned)
    assert found.result() == "to A?"
    assert names.count("hold.opened") == 1
    assert passes.count("in") == (1 if stage.hot else 2)


async def test_a_body_that_catches_everything_for_ever_keeps_nobody_waiting(place: Place) -> None:
    stage = Stage(place, "parked")
    ended: list[str] = []
    stop = False

    async def work(ctx: Context) -> Any:
        while not stop:
            try:
                return await ctx.ask("A?")
            except BaseException as error:
                ended.append(type(error).__name__)
        return None

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        found = outcome(await play_on(app, run))

    assert isinstance(found, Returned)
    assert found.result() == "to A?"
    assert len(ended) < 10
    stop = True


async def test_what_comes_after_a_wait_that_was_let_go_is_not_done(stage: Stage) -> None:
    took: list[str] = []

    async def work(ctx: Context) -> Any:
        try:
            a = await ctx.ask("A?")
        finally:
            await ctx.step("after", took.append, "after")
        return a

    found, names = await play(stage, work)

    assert isinstance(found, Returned)
    assert found.result() == "to A?"
    assert took == ["after"]
    assert names.count("step.started") == 1


async def test_a_context_is_no_use_after_its_body(stage: Stage) -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> Any:
        kept.append(ctx)
        return await ctx.ask("A?")

    found, names = await play(stage, work)
    assert isinstance(found, Returned)

    for ctx in kept:
        with pytest.raises((BadAwait, BodyGone)):
            await ctx.ask("B?")
        with pytest.raises((BadAwait, BodyGone)):
            await ctx.step("late", lambda: 1)
    assert names.count("hold.opened") == 1


async def test_a_task_that_outlives_its_body_cannot_ask(stage: Stage) -> None:
    over = asyncio.Event()
    errors: list[str] = []

    async def later(ctx: Context) -> None:
        await over.wait()
        try:
            await ctx.ask("B?")
        except Exception as error:
            errors.append(type(error).__name__)

    tasks: list[Any] = []

    async def work(ctx: Context) -> Any:
        tasks.append(asyncio.ensure_future(later(ctx)))
        return await ctx.ask("A?")

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run)
        over.set()
        await asyncio.gather(*tasks)
        assert (await types(app, run)).count("hold.opened") == 1

    assert isinstance(outcome(view), Returned)
    assert set(errors) <= {"BadAwait", "BodyGone"}


async def test_the_context_of_another_call_is_refused(stage: Stage) -> None:
    shared: dict[str, Context] = {}

    async def one(ctx: Context) -> Any:
        shared["one"] = ctx
        return await ctx.ask("A?")

    async def two(ctx: Context) -> Any:
        await until(lambda: shared, "the other's context")
        return await shared["one"].ask("B?")

    async with stage.app(one, two) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run)
        names = await types(app, run)
        await check(app.store)

    first, second = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
    assert isinstance(second, Failed)
    assert second.error in ("BadAwait", "BodyGone")
    # The one whose context was misused fails, or has its own answer.
    assert isinstance(first, Failed) or first.result() == "to A?"
    assert names.count("hold.opened") <= 1


async def test_a_plain_tool_cannot_wait(stage: Stage) -> None:
    from sayso import tool

    @tool
    async def plain(ctx: Context) -> Any:
        return await ctx.ask("A?")

    async with stage.app(plain) as app:
        run = await app.start("worker", "Go", by="mira")
        found = outcome(await completed(run))

    assert isinstance(found, Failed)
    assert found.error == "BadAwait"
    assert "durable=True" in found.message


async def test_a_durable_body_does_not_ask_by_what_it_returns(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        return ctx.suspend("A?")

    found, names = await play(stage, work)

    assert isinstance(found, Failed)
    assert found.error == "BadAwait"
    assert "hold.opened" not in names
