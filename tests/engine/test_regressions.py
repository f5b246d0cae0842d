"""What a hostile reading of the code found, each as a story of its own.

Method: the public API on a store in memory; what must not happen is counted outside.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from sayso import Agent, Policy, Principal, Rule, Sayso, approve, fail, reject, tool, user
from sayso.errors import BadSetup, NotWhatWasShown
from sayso.testing import ScriptedModel, call, say

BOOK = {"bob": "bob"}
"""Who is called what; it changes while a call waits."""


def app_of(script: list[Any], *tools: Any, **how: Any) -> Sayso:
    return Sayso("memory:", agents=[Agent("a", model=ScriptedModel(script), tools=tools)], **how)


@pytest.mark.parametrize("verdict", [reject("leave it"), fail("nobody knows")])
async def test_a_call_that_was_in_doubt_is_never_repeated_unasked(verdict: Any) -> None:
    ran: list[int] = []

    @tool(effect="once")
    async def pay(amount: int) -> str:
        ran.append(amount)
        raise TimeoutError

    async with app_of(
        [call("pay", {"amount": 1}), call("pay", {"amount": 1}), say("x")], pay
    ) as app:
        run = await app.start("a", "go", by="mira")
        doubt = (await run.wait(timeout=10)).holds[0]
        await app.decide(doubt, verdict, by="mira")
        repeat = (await run.wait(timeout=10)).holds[0]

        assert (repeat.kind, repeat.duplicate_of, ran) == ("approval", doubt.call_id, [1])


async def test_a_call_that_was_edited_and_in_doubt_is_never_repeated_unasked() -> None:
    ran: list[int] = []

    @tool(effect="once")
    async def pay(amount: int) -> str:
        ran.append(amount)
        raise TimeoutError

    policy = Policy(Rule("pay", when=lambda facts: facts.args["amount"] > 10))
    script = [call("pay", {"amount": 20}), call("pay", {"amount": 2}), say("x")]
    async with app_of(script, pay, policy=policy) as app:
        run = await app.start("a", "go", by="mira")
        hold = (await run.wait(timeout=10)).holds[0]
        await app.decide(hold, approve(args={"amount": 2}), by="mira")
        doubt = (await run.wait(timeout=10)).holds[0]
        await app.decide(doubt, fail("nobody knows"), by="mira")
        repeat = (await run.wait(timeout=10)).holds[0]

        assert (repeat.duplicate_of, ran) == (doubt.call_id, [2])


async def test_resuming_all_without_a_digest_does_not_decide_what_was_edited() -> None:
    ran: list[int] = []

    @tool(approval=True, approvers=[user("ann"), user("bob")])
    async def pay(amount: int) -> None:
        ran.append(amount)

    policy = Policy(Rule("pay", when=lambda f: f.args["amount"] > 10, approvers=[user("bob")]))
    async with app_of([call("pay", {"amount": 2}), say("x")], pay, policy=policy) as app:
        run = await app.start("a", "go", by="mira")
        hold = (await run.wait(timeout=10)).holds[0]
        edited = await app.decide(hold, approve(args={"amount": 90_000}), by="ann")

        assert (edited.status, edited.version) == ("open", 2)
        with pytest.raises(NotWhatWasShown):
            await app.resume(hold.request_id, approve(), by="bob")
        assert ran == []


async def test_a_validator_that_reads_otherwise_later_does_not_run_the_tool() -> None:
    ran: list[str] = []

    @tool(approval=True)
    async def pay(to: Annotated[str, AfterValidator(lambda name: BOOK.get(name, name))]) -> None:
        ran.append(to)

    async with app_of([call("pay", {"to": "bob"}), say("x")], pay) as app:
        run = await app.start("a", "go", by="mira")
        hold = (await run.wait(timeout=10)).holds[0]
        BOOK["bob"] = "eve"
        await app.decide(hold, approve(), by="mira")
        await run.wait(final=True, timeout=10)

        assert ran == []


async def test_a_parameter_added_while_a_call_waits_is_not_filled_in_unseen() -> None:
    ran: list[str] = []

    @tool(approval=True, name="pay")
    async def before(amount: int) -> None:
        ran.append("before")

    @tool(approval=True, name="pay")
    async def after(amount: int, to: str = "mallory") -> None:
        ran.append(to)

    script = ScriptedModel([call("pay", {"amount": 1}), say("x")])
    app = Sayso("memory:", agents=[Agent("a", model=script, tools=[before])])
    async with app:
        run = await app.start("a", "go", by="mira")
        hold = (await run.wait(timeout=10)).holds[0]
        later = Sayso(app.store, agents=[Agent("a", model=script, tools=[after])], work=True)
        await app._worker.drain(1)
        async with later:
            await later.decide(hold, approve(), by="mira")
            await later.run(run.id).wait(final=True, timeout=10)

        assert ran == []


async def test_a_condition_that_changes_arguments_does_not_fool_the_next() -> None:
    ran: list[int] = []

    def hide(facts: Any) -> bool:
        facts.args["amount"] = 0
        return False

    @tool(effect="none")
    async def pay(amount: int) -> None:
        ran.append(amount)

    policy = Policy(Rule("pay", when=hide), Rule("pay", when=lambda f: f.args["amount"] > 10))
    async with app_of([call("pay", {"amount": 99}), say("x")], pay, policy=policy) as app:
        view = await (await app.start("a", "go", by="mira")).wait(timeout=10)

        assert (view.status, ran) == ("suspended", [])


class Panic(BaseException):
    def __str__(self) -> str:
        raise self


async def test_whatever_a_condition_raises_calls_beside_it_go_on() -> None:
    paid = asyncio.Event()
    go = asyncio.Event()
    broken = False

    @tool(effect="once")
    async def slow() -> None:
        await go.wait()
        paid.set()

    @tool(approval=True)
    async def other() -> None:
        return None

    def when(facts: Any) -> bool:
        if broken and facts.tool == "other":
            raise Panic
        return False

    script = [[call("slow"), call("other")], say("x")]
    async with app_of(script, slow, other, policy=Policy(Rule(when=when))) as app:
        run = await app.start("a", "go", by="mira")
        hold = (await run.wait(held=True, timeout=10)).holds[0]
        broken = True
        await app.decide(hold, approve(), by="mira")
        go.set()
        view = await run.wait(final=True, timeout=10)

        assert (view.status, paid.is_set()) == ("completed", True)


async def test_a_person_of_the_same_name_as_a_service_does_not_decide_for_it() -> None:
    @tool(approval=True)
    async def pay() -> None:
        return None

    async with app_of([call("pay"), say("x")], pay) as app:
        run = await app.start("a", "go", by=Principal(kind="service", id="ops"))
        view = await run.wait(timeout=10)

        assert view.holds[0].approvers == ("service:ops",)
        assert list(await app.holds(by="ops")) == []


def test_what_only_looks_like_memory_is_refused() -> None:
    async def open_it() -> None:
        async with Sayso(":memory:"):
            pass

    with pytest.raises(BadSetup, match="memory:"):
        asyncio.run(open_it())
