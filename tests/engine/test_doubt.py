"""Who is asked about a call in doubt, what they are shown, and what else is held because of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sayso import Policy, Require, Rule, Sayso, answer, approve, fail, reject, tool, user
from sayso.errors import NotAllowed, UnknownHold, WrongVerdict
from sayso.store.lease import this_host
from sayso.store.views import moment
from sayso.testing import call, say

from .judge import judge
from .kit import KEEPER, Place, agent, completed, held, journal

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


@tool(approval=True, effect="once", timeout="7s")
async def wire(amount: int, to: str) -> str:
    raise ConnectionResetError("the line went dead")


async def test_a_doubt_shows_all_that_is_known_of_it(place: Place) -> None:
    teller = agent([call("wire", {"amount": 200, "to": "Jiro"}), say("x")], wire)
    two = Policy(Rule("wire", approvers=[user("ann"), user("bob")], quorum=2))
    async with place.app(teller, policy=two) as app:
        run = await app.start("teller", "Pay", by="mira")
        first = await held(run)
        await app.decide(first, approve(), by="ann", note="as agreed")
        place.clock.advance("5s")
        await app.decide(first, approve(), by="bob")
        doubt = await held(run)

        view = await app.doubt(doubt)

        assert view.hold == doubt
        assert (doubt.args, doubt.digest) == (first.args, first.digest)
        assert [(one.word, one.by.id, one.note) for one in view.decisions] == [
            ("approved", "ann", "as agreed"),
            ("approved", "bob", ""),
        ]
        (started,) = [one for one in await journal(app.store, run.id) if one.type == "call.started"]
        assert view.started_at == moment(started.at)
        assert (view.worker, view.attempt) == (started.event.worker, 1)
        assert view.timeout == timedelta(seconds=7)
        assert (view.life.state, view.life.host) == ("alive", this_host())
        assert view.life.seen_at is not None
        assert view.key == f"{run.id}.1.0"
        assert "ConnectionResetError" in view.why
        assert (view.probe, view.step, view.proof, view.late) == ("", "", "", ())
        assert [one.say for one in view.choices] == [
            "answer(value)",
            "approve()",
            "reject('why')",
            "fail('why')",
        ]
        assert [one.refused for one in view.choices] == [""] * 4


async def test_what_the_probe_answered_is_shown(place: Place) -> None:
    async def probe() -> None:
        return None

    inside = asyncio.Event()

    @tool(effect="once", probe=probe)
    async def pay_slowly() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "paid"

    teller = agent([call("pay_slowly"), say("x")], pay_slowly)
    async with place.app(teller, drain_s=0.0) as app:
        run = await app.start("teller", "Pay", by="mira")
        await inside.wait()
        worker = (await run.view()).worker
    assert worker is not None
    place.kill(worker)
    place.clock.advance("1h")
    async with place.app(teller) as app:
        doubt = await held(app.run(run.id))

        assert (await app.doubt(doubt)).probe == "does not know"


async def test_only_a_doubt_is_looked_at_as_one(place: Place) -> None:
    async with place.app(agent([call("wire", {"amount": 1, "to": "x"}), say("x")], wire)) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))

        with pytest.raises(WrongVerdict, match="approval"):
            await app.doubt(hold)
        for name in ("hold_nope.1", "nope", hold.id + "7"):
            with pytest.raises(UnknownHold):
                await app.doubt(name)


async def test_to_have_happened_takes_a_result_or_a_note(place: Place) -> None:
    async with place.app(agent(script, pay)) as app:
        run = await app.start("teller", "pay", by="mira")
        doubt = await held(run)

        with pytest.raises(WrongVerdict, match="note="):
            await app.decide(doubt, answer(None), by="mira")
        assert (await app.hold(doubt.id)).status == "open"
        await app.decide(doubt, answer(None), by="mira", note="it is on the statement")
        await completed(run)


async def test_what_was_erased_of_a_doubt_says_so(place: Place) -> None:
    place.role = KEEPER
    async with place.app(agent(script, pay)) as app:
        run = await app.start("teller", "pay", by="mira")
        doubt = await held(run)
        await app.decide(doubt, fail("who knows"), by="mira")
        await completed(run)
        for one in await journal(app.store, run.id):
            if one.type in ("hold.opened", "call.started", "turn.taken"):
                await app.redact(run, one.seq, by="mira")

        view = await app.doubt(doubt.id)

        assert (view.started_at, view.worker, view.may_live) == (None, "", False)
        assert view.why == "what the entry says was erased"
