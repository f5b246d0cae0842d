"""The person who decides as told, on real runs in memory."""

import asyncio
from typing import Any

import pytest

from sayso import Agent, Context, HoldView, Policy, Rule, Sayso, answer, approve, reject, tool, user
from sayso.errors import NotAllowed, WaitTimeout
from sayso.testing import FakeHuman, ScriptedModel, call, say

done: list[int] = []


@tool(approval=True, effect="once")
async def act(ctx: Context, n: int) -> int:
    done.append(n)
    return n


@tool(effect="once")
async def lost(ctx: Context) -> None:
    raise TimeoutError


TURNS = [[call("act", {"n": 1}), call("act", {"n": 2})], call("act", {"n": 3}), say("done")]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


def agent(turns: Any = TURNS) -> Agent:
    return Agent("teller", model=ScriptedModel(turns), tools=[act, lost])


async def test_somebody_who_says_yes_to_everything_brings_a_run_to_its_end() -> None:
    async with Sayso("memory:", agents=[agent()]) as app:
        run = await app.start("teller", "x", by="mira")
        human = FakeHuman(app, by="mira", decide=approve())

        view = await human.settle(run)

        assert view.status == "completed"
        assert sorted(done) == [1, 2, 3]
        assert [hold.args["n"] for hold in human.decided] == [1, 2, 3]
        assert {hold.status for hold in human.decided} == {"settled"}


async def test_somebody_who_says_no_to_everything_lets_nothing_run() -> None:
    async with Sayso("memory:", agents=[agent()]) as app:
        run = await app.start("teller", "x", by="mira")

        view = await FakeHuman(app, by="mira", decide=reject("no")).settle(run)

        assert view.status == "completed"
        assert done == []


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_decides_hold_by_hold(kind: str) -> None:
    def choose(hold: HoldView) -> Any:
        return approve() if hold.args["n"] % 2 else reject("even")

    async def choose_slowly(hold: HoldView) -> Any:
        await asyncio.sleep(0)
        return choose(hold)

    async with Sayso("memory:", agents=[agent()]) as app:
        run = await app.start("teller", "x", by="mira")
        human = FakeHuman(app, by="mira", decide=choose if kind == "sync" else choose_slowly)

        await human.settle(run)

        assert sorted(done) == [1, 3]


async def test_somebody_in_the_background_answers_whatever_comes() -> None:
    async with Sayso("memory:", agents=[agent()]) as app:
        async with FakeHuman(app, by="mira", decide=approve()) as human:
            runs = [await app.start("teller", "x", by="mira") for _ in range(20)]
            theirs = await app.start("teller", "x", by="noor")
            for run in runs:
                assert (await run.wait(final=True, timeout=10)).status == "completed"

        assert len(human.decided) == 60
        assert (await theirs.wait(timeout=10)).status == "suspended"


async def test_a_hold_that_is_left_is_somebody_elses() -> None:
    asked: list[str] = []

    def choose(hold: HoldView) -> Any:
        asked.append(hold.id)
        return approve() if hold.args["n"] != 2 else None

    async with Sayso("memory:", agents=[agent()]) as app:
        run = await app.start("teller", "x", by="mira")
        human = FakeHuman(app, by="mira", decide=choose)
        with pytest.raises(WaitTimeout):
            await human.settle(run, timeout=0.1)
        (left,) = (await run.view()).holds

        def take(hold: HoldView) -> Any:
            return reject("me, then") if hold.args["n"] == 2 else None

        async with FakeHuman(app, by="mira", decide=take):
            await human.settle(run, timeout=10)

        assert left.args["n"] == 2
        assert len(asked) == len(set(asked)), "nobody is asked twice about the same thing"
        assert sorted(done) == [1, 3]


async def test_a_verdict_alone_says_nothing_about_a_call_in_doubt() -> None:
    async with Sayso("memory:", agents=[agent([call("lost"), say("done")])]) as app:
        run = await app.start("teller", "x", by="mira")
        with pytest.raises(WaitTimeout):
            await FakeHuman(app, by="mira", decide=approve()).settle(run, timeout=0.1)

        view = await FakeHuman(app, by="mira", decide=lambda hold: answer("it did")).settle(run)

        assert view.status == "completed"


async def test_whoever_may_not_decide_is_told_so() -> None:
    policy = Policy(Rule("act", approvers=[user("boss")]))
    async with Sayso("memory:", agents=[agent()], policy=policy) as app:
        run = await app.start("teller", "x", by="mira")

        with pytest.raises(NotAllowed):
            await FakeHuman(app, by="mira", decide=approve()).settle(run)


async def test_a_mistake_in_the_function_reaches_the_test() -> None:
    async with Sayso("memory:", agents=[agent()]) as app:
        human = FakeHuman(app, by="mira", decide=lambda hold: hold.no_such_thing)
        await human.__aenter__()
        run = await app.start("teller", "x", by="mira")
        await run.wait(timeout=10)
        assert human._task is not None
        await asyncio.wait({human._task})

        with pytest.raises(AttributeError):
            await human.__aexit__(None, None, None)
