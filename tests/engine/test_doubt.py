"""Who is asked about a call in doubt, and what else of its thread is held because of it."""

from __future__ import annotations

from typing import Any

import pytest

from sayso import Require, Sayso, answer, approve, fail, reject, tool, user
from sayso.errors import NotAllowed
from sayso.testing import call, say

from .judge import judge
from .kit import Place, agent, completed, held

BOSS = (user("boss"),)


def ask_the_boss(facts: Any) -> Any:
    return Require(approvers=BOSS) if facts.args.get("amount", 99) > 10 else False


@tool(effect="once")
async def pay(amount: int) -> str:
    raise TimeoutError


@pytest.mark.parametrize("whose", ["the app's", "the agent's"])
async def test_whoever_a_check_named_is_asked_whether_it_happened(place: Place, whose: str) -> None:
    how: dict[str, Any] = {"check_for_intervention": ask_the_boss}
    of_agent, of_app = (how, {}) if whose == "the agent's" else ({}, how)
    teller = agent([call("pay", {"amount": 20}), say("x")], pay, **of_agent)
    async with place.app(teller, **of_app) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="boss")
        doubt = await held(run)

        assert (doubt.kind, doubt.approvers) == ("in_doubt", BOSS)
        with pytest.raises(NotAllowed):
            await app.decide(doubt, answer("it did"), by="mira")
        await app.decide(doubt, answer("it did"), by="boss")
        await completed(run)
        await judge(app.store)


async def test_whoever_was_named_for_an_edit_is_asked_whether_it_happened(place: Place) -> None:
    def check(facts: Any) -> Any:
        return Require(approvers=BOSS if facts.args["amount"] > 10 else (user("mira"), *BOSS))

    teller = agent([call("pay", {"amount": 1}), say("x")], pay)
    async with place.app(teller, check_for_intervention=check) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(args={"amount": 20}), by="boss")

        assert (await held(run)).approvers == BOSS


async def test_a_doubt_about_a_second_attempt_asks_the_same_people(place: Place) -> None:
    teller = agent([call("pay", {"amount": 20}), say("x")], pay)
    async with place.app(teller, check_for_intervention=ask_the_boss) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="boss")
        await app.decide(await held(run), approve(), by="boss")

        assert (await held(run)).approvers == BOSS


async def test_a_call_that_asked_nobody_asks_the_owner_whether_it_happened(place: Place) -> None:
    teller = agent([call("pay", {"amount": 1}), say("x")], pay)
    async with place.app(teller, check_for_intervention=ask_the_boss) as app:
        run = await app.start("teller", "Pay", by="mira")

        assert (await held(run)).approvers == (user("mira"),)


def script(messages: Any) -> Any:
    """Pay once for each message of the user's, and end the run after that."""
    return say("x") if type(messages[-1]).__name__ == "ToolMessage" else PAY[messages[-1].text]


PAY = {
    "pay": call("pay", {"amount": 1}),
    "pay more": call("pay", {"amount": 2}),
    "nothing": say("x"),
}


async def doubted(app: Sayso, verdict: Any) -> tuple[str, str]:
    """Leave a thread whose first run has a call in doubt; give the run and the call."""
    run = await app.start("teller", "pay", by="mira")
    doubt = await held(run)
    assert doubt.kind == "in_doubt"
    await app.decide(doubt, verdict, by="mira")
    await completed(run)
    return run.id, doubt.call_id


@pytest.mark.parametrize("verdict", [reject("leave it"), fail("nobody knows")])
@pytest.mark.parametrize("between", [0, 1])
async def test_a_later_run_of_the_thread_repeats_no_call_in_doubt_unasked(
    place: Place, verdict: Any, between: int
) -> None:
    async with place.app(agent(script, pay)) as app:
        first, doubt = await doubted(app, verdict)
        for _ in range(between):
            await completed(await app.start("teller", "nothing", by="mira", thread=first))

        run = await app.start("teller", "pay", by="mira", thread=first)
        hold = await held(run)

        assert (hold.kind, hold.duplicate_of) == ("approval", doubt)
        assert "nobody knows" in hold.why
        await judge(app.store)


async def test_a_later_run_is_held_back_by_no_other_call(place: Place) -> None:
    async with place.app(agent(script, pay)) as app:
        first, _ = await doubted(app, fail("nobody knows"))

        run = await app.start("teller", "pay more", by="mira", thread=first)

        assert ((await held(run)).kind, (await held(run)).duplicate_of) == ("in_doubt", None)


async def test_a_call_whose_doubt_was_cleared_may_be_repeated(place: Place) -> None:
    async with place.app(agent(script, pay)) as app:
        first, _ = await doubted(app, answer("paid"))

        run = await app.start("teller", "pay", by="mira", thread=first)

        assert (await held(run)).kind == "in_doubt"


async def test_another_thread_knows_nothing_of_a_doubt(place: Place) -> None:
    async with place.app(agent(script, pay)) as app:
        await doubted(app, fail("nobody knows"))

        run = await app.start("teller", "pay", by="mira")

        assert (await held(run)).kind == "in_doubt"


async def test_a_repeat_of_a_later_run_is_known_to_another_process(file_place: Place) -> None:
    async with file_place.app(agent(script, pay)) as app:
        first, doubt = await doubted(app, fail("nobody knows"))
    async with file_place.app(agent(script, pay)) as app:
        run = await app.start("teller", "pay", by="mira", thread=first)

        assert (await held(run)).duplicate_of == doubt
