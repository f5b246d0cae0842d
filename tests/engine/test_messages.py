"""Messages to runs: to one that waits for a person, one that works, one that waits for another
run, and one that is over.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import (
    AssistantMessage,
    Bounds,
    Context,
    Declined,
    Principal,
    ToolMessage,
    UserMessage,
    answer,
    approve,
    ask_user,
    spawn,
    tool,
)
from sayso.errors import (
    AlreadyDecided,
    KeyReused,
    NotAllowed,
    RunFinished,
    RunWaiting,
    ThreadBusy,
)
from sayso.testing import call, say

from .judge import judge
from .kit import (
    QUICK,
    Place,
    agent,
    completed,
    finished,
    held,
    suspended,
    types,
    until,
)

COLD = Bounds(look_s=0.02, backoff_s=0.01, backoff_max_s=0.05, stay_hot_s=0)


def said(view: Any) -> list[str]:
    return [m.text for m in view.messages if isinstance(m, UserMessage)]


def outcomes(view: Any) -> list[Any]:
    return [m.outcome for m in view.messages if isinstance(m, ToolMessage)]


@tool(approval=True)
async def pay(n: int = 1) -> int:
    return n


ASKS = {
    "approval": (call("pay"), pay),
    "question": (call("ask_user", {"question": "Who?"}), ask_user()),
}


@pytest.mark.parametrize("kind", list(ASKS))
async def test_a_run_that_waits_for_a_person_refuses(place: Place, kind: str) -> None:
    asks, uses = ASKS[kind]
    async with place.app(agent([asks, say("Done.")], uses)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        before = await types(app, run)
        with pytest.raises(RunWaiting, match=hold.id) as refused:
            await app.say(run, "hurry up", by="mira")

        assert refused.value.holds == [hold.id]  # type: ignore[attr-defined]
        assert await types(app, run) == before
        assert (await app.hold(hold)).status == "open"


@pytest.mark.parametrize("kind", list(ASKS))
async def test_a_message_may_take_the_place_of_what_is_asked(place: Place, kind: str) -> None:
    asks, uses = ASKS[kind]
    async with place.app(agent([asks, say("Done.")], uses)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        again = await app.say(run, "never mind", by="mira", supersede=True)
        view = await completed(run)

        assert again.id == run.id
        assert said(view) == ["go", "never mind"]
        (found,) = outcomes(view)
        assert isinstance(found, Declined)
        assert "superseded by a new message" in found.reason
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve() if kind == "approval" else answer("x"), by="mira")
        assert [type(m) for m in view.messages] == [
            UserMessage,
            AssistantMessage,
            ToolMessage,
            UserMessage,
            AssistantMessage,
        ]
        await judge(app.store, place.world, ("pay",))


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_body_is_told_that_its_question_was_superseded(place: Place, bounds: Any) -> None:
    @tool(durable=True)
    async def find(ctx: Context) -> str:
        return await ctx.ask("Who?")

    async with place.app(agent([call("find"), say("Done.")], find), bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        await app.say(run, "never mind", by="mira", supersede=True)
        view = await completed(run)

        assert "withdrawn" in outcomes(view)[0].message
        assert said(view) == ["go", "never mind"]


async def test_a_message_to_a_working_run_is_taken_up_after_the_open_turn(place: Place) -> None:
    stop = asyncio.Event()

    @tool
    async def work() -> str:
        await stop.wait()
        return "worked"

    def script(messages: Any) -> Any:
        if not any(isinstance(m, AssistantMessage) for m in messages):
            return call("work")
        return say(f"I was told: {' / '.join(m.text for m in messages if hasattr(m, 'by'))}")

    async with place.app(agent(script, work)) as app:
        run = await app.start("teller", "go", by="mira")
        await until(lambda: _has(app, run, "call.started"))
        await app.say(run, "and be quick", by="mira")
        await app.say(run, "please", by="mira")
        stop.set()
        view = await completed(run)

        assert view.output == "I was told: go / and be quick / please"
        assert [type(m).__name__ for m in view.messages][:3] == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
        ]


async def _has(app: Any, run: Any, name: str) -> bool:
    return name in await types(app, run)


async def test_a_message_during_the_last_turn_is_not_lost(place: Place) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def script(messages: Any) -> Any:
        told = [m.text for m in messages if isinstance(m, UserMessage)]
        if len(told) == 1:
            asked.set()
            await go.wait()
        return say(f"heard {len(told)}")

    async with place.app(agent(script)) as app:
        run = await app.start("teller", "go", by="mira")
        await asyncio.wait_for(asked.wait(), 20)
        await app.say(run, "one more thing", by="mira")
        go.set()

        assert (await completed(run)).output == "heard 2"


async def test_a_run_that_waits_only_for_another_one_takes_a_message(place: Place) -> None:
    child = agent([call("pay"), say("child done")], pay, name="child")
    task = call("spawn", {"agent": "child", "input": "x"})
    parent = agent([task, say("Done.")], spawn("child"), name="parent")
    async with place.app(child, parent) as app:
        run = await app.start("parent", "go", by="mira")
        hold = await held(run)
        await app.say(run, "by the way", by="mira")
        assert [one.id for one in (await suspended(run)).holds] == [hold.id]
        with pytest.raises(RunWaiting):
            await app.say(hold.run_id, "you there", by="mira")
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        assert said(view) == ["go", "by the way"]
        assert view.output == "Done."


async def test_superseding_does_not_take_back_what_another_run_works_on(place: Place) -> None:
    child = agent([call("pay"), say("child done")], pay, name="child")
    task = call("spawn", {"agent": "child", "input": "x"})
    parent = agent([[task, call("pay")], say("Done.")], spawn("child"), pay, name="parent")
    async with place.app(child, parent) as app:
        run = await app.start("parent", "go", by="mira")
        holds = {one.agent: one for one in (await suspended(run)).holds}
        assert set(holds) == {"child", "parent"}
        await app.say(run, "leave that", by="mira", supersede=True)
        assert [one.id for one in (await suspended(run)).holds] == [holds["child"].id]
        await app.decide(holds["child"], approve(), by="mira")
        view = await completed(run)

        assert [type(one).__name__ for one in outcomes(view)] == ["Returned", "Declined"]


async def test_a_message_to_a_run_that_is_over_starts_the_next_of_its_thread(place: Place) -> None:
    def script(messages: Any) -> Any:
        return say(f"turn {sum(isinstance(m, AssistantMessage) for m in messages) + 1}")

    async with place.app(agent(script)) as app:
        first = await app.start("teller", "one", by="mira", thread="t")
        await completed(first)
        second = await app.say(first, "two", by="mira")
        view = await completed(second)
        third = await app.say(second, "three", by="mira")

        assert second.id not in (first.id, third.id)
        assert (view.thread, view.output) == ("t", "turn 2")
        assert (await completed(third)).output == "turn 3"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_so_does_one_to_a_run_that_came_to_no_good_end(place: Place, end: str) -> None:
    def script(messages: Any) -> Any:
        if sum(isinstance(m, UserMessage) for m in messages) > 1:
            return say("better now")
        if end == "failed":
            raise ValueError("no idea")
        return call("pay")

    async with place.app(agent(script, pay)) as app:
        first = await app.start("teller", "one", by="mira")
        if end == "cancelled":
            await held(first)
            await app.cancel(first, by="mira")
        assert (await finished(first)).status == end
        second = await app.say(first, "two", by="mira")

        assert (await completed(second)).output == "better now"


async def test_a_thread_has_one_run_at_a_time(place: Place) -> None:
    async with place.app(agent([call("pay"), say("x"), say("y")], pay)) as app:
        first = await app.start("teller", "one", by="mira", thread="t")
        hold = await held(first)
        with pytest.raises(ThreadBusy):
            await app.start("teller", "two", by="mira", thread="t")
        await app.decide(hold, approve(), by="mira")
        await completed(first)
        found = await asyncio.gather(
            *[app.say(first, f"m{n}", by="mira") for n in range(4)], return_exceptions=True
        )

        started = [one for one in found if not isinstance(one, BaseException)]
        assert len(started) == 1
        assert {type(one) for one in found if isinstance(one, BaseException)} == {ThreadBusy}


@pytest.mark.parametrize("by", ["bob", Principal(kind="agent", id="mira")])
async def test_only_whoever_started_the_run_talks_to_it(place: Place, by: Any) -> None:
    async with place.app(agent([call("pay"), say("Done.")], pay)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        for supersede in (False, True):
            with pytest.raises(NotAllowed):
                await app.say(run, "hello", by=by, supersede=supersede)
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        with pytest.raises(NotAllowed):
            await app.say(run, "hello", by=by)


async def test_a_run_that_is_being_cancelled_takes_no_message(place: Place) -> None:
    stop = asyncio.Event()

    @tool
    async def work() -> None:
        await stop.wait()

    async with place.app(agent([call("work"), say("Done.")], work)) as app:
        run = await app.start("teller", "go", by="mira")
        await until(lambda: _has(app, run, "call.started"))
        await app.cancel(run, by="mira")
        for supersede in (False, True):
            with pytest.raises(RunFinished):
                await app.say(run, "wait", by="mira", supersede=supersede)
        stop.set()
        await finished(run)


async def test_a_retried_message_with_its_key_is_said_once(place: Place) -> None:
    async with place.app(agent(lambda _: say("Well."), pay)) as app:
        run = await app.start("teller", "go", by="mira")
        await completed(run)

        nexts = await asyncio.gather(
            *[app.say(run, "And?", by="mira", key="k") for _ in range(6)],
        )
        last = await app.say(run, "And?", by="mira", key="k")
        await completed(last)
        again = await app.say(run, "And?", by="mira", key="k")

        # The run that it was said to, whatever has become of the thread since.
        assert {one.id for one in (*nexts, last, again)} == {last.id}
        assert last.id != run.id
        assert said(await last.view())[-1:] == ["And?"]
        with pytest.raises(KeyReused):
            await app.say(run, "Or?", by="mira", key="k")
        with pytest.raises(KeyReused):
            await app.say(last, "And?", by="mira", key="k")


async def test_a_retried_message_to_a_run_at_work_is_said_once(place: Place) -> None:
    async with place.app(agent([call("pay"), say("Never."), say("Done.")], pay)) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        for _ in range(2):
            with pytest.raises(RunWaiting):
                await app.say(run, "Stop.", by="mira", key="k")

        # What was refused has used no key up.
        for _ in range(3):
            told = await app.say(run, "Stop.", by="mira", supersede=True, key="k")
            assert told.id == run.id
        await completed(run)
        after = await app.say(run, "Stop.", by="mira", supersede=True, key="k")

        assert after.id == run.id
        assert said(await run.view()) == ["go", "Stop."]
        assert (await types(app, run)).count("message.received") == 1
        with pytest.raises(KeyReused):
            await app.say(run, "Stop.", by="mira", key="k")


async def test_messages_of_the_same_words_without_a_key_are_two(place: Place) -> None:
    async with place.app(agent(lambda _: say("Well."))) as app:
        run = await app.start("teller", "go", by="mira")
        await completed(run)

        first = await app.say(run, "And?", by="mira")
        await completed(first)
        second = await app.say(run, "And?", by="mira", key="k")

        assert first.id != second.id
