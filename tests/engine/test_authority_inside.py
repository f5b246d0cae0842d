"""Whose word counts, and how far it carries: below a run, and inside a body."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sayso import (
    CallFacts,
    Context,
    Message,
    Policy,
    Require,
    Rule,
    ToolMessage,
    answer,
    approve,
    reject,
    spawn,
    tool,
    user,
)
from sayso.errors import NotAllowed
from sayso.testing import call, say

from .kit import Place, agent, completed, finished, held


def script(*turns: Any) -> Any:
    """Take one turn after another, told by the conversation: many runs may share the model."""

    def model(messages: tuple[Message, ...]) -> Any:
        return turns[min(len(messages) // 2, len(turns) - 1)]

    return model


def payer() -> tuple[Any, list[int]]:
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    return pay, paid


def family(pay: Any, **of_boss: Any) -> tuple[Any, Any]:
    boss = agent(
        script(call("spawn", {"agent": "kid", "input": "pay"}), say("ok")),
        spawn("kid"),
        name="boss",
        **of_boss,
    )
    return boss, agent(script(call("pay", {"amount": 5}), say("done")), pay, name="kid")


async def test_a_check_of_an_agent_above_holds_a_call_below(place: Place) -> None:
    pay, paid = payer()
    boss, kid = family(pay, check_for_intervention=lambda facts: facts.tool == "pay")
    async with place.app(boss, kid) as app:
        run = await app.start("boss", "go", by="mira")
        hold = await held(run)
        assert (hold.tool, paid) == ("pay", [])
        await app.decide(hold, approve(), by="mira")
        await completed(run)

    assert paid == [5]


async def test_where_an_agent_above_is_not_known_a_person_is_asked(place: Place) -> None:
    pay, _ = payer()
    _, kid = family(pay)
    async with place.app(kid) as app:
        parts = app._open_parts
        run = await parts.ledger.load((await app.start("kid", "go", by="mira")).id)
        below = msgspec.structs.replace(run, lineage=("boss",))

        ruling = await parts.gate.rule(below, pay, b'{"amount":5}', parts.checks(below))

    assert isinstance(ruling, Require)
    assert "'boss' above it is not known here" in ruling.why


async def test_a_rule_may_look_at_the_agents_above(place: Place) -> None:
    pay, paid = payer()
    seen: list[tuple[str, ...]] = []

    def below_boss(facts: CallFacts) -> bool:
        seen.append(facts.lineage)
        return facts.tool == "pay" and "boss" in facts.lineage

    policy = Policy(Rule("pay", when=below_boss, forbid="not for the boss"))
    async with place.app(*family(pay), policy=policy) as app:
        await completed(await app.start("boss", "go", by="mira"))

    assert (paid, seen) == ([], [("boss",)])


async def test_a_step_in_doubt_asks_whom_its_call_asked(place: Place) -> None:
    wires: list[int] = []

    def send() -> None:
        wires.append(1)
        if len(wires) == 1:
            raise ConnectionResetError

    @tool(durable=True, effect="once", risk="high", approval=True, approvers=[user("cfo")])
    async def wire(ctx: Context) -> str:
        await ctx.approval("Is the number still right?")
        await ctx.step("wire", send)
        return "done"

    async with place.app(agent([call("wire"), say("ok")], wire)) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), approve(), by="cfo")
        await app.decide(await held(run), approve(), by="mira")
        doubt = await held(run)
        assert (doubt.kind, doubt.approvers) == ("in_doubt", ("user:cfo",))
        with pytest.raises(NotAllowed):
            await app.decide(doubt, approve(), by="mira")
        assert wires == [1]
        await app.decide(doubt, approve(), by="cfo")
        await completed(run)

    assert wires == [1, 1]


async def test_a_step_in_doubt_of_a_call_that_asked_nobody_asks_whom_its_body_asked(
    place: Place,
) -> None:
    @tool(durable=True, effect="once")
    async def wire(ctx: Context) -> str:
        await ctx.approval("Really?", approvers=[user("cfo")])
        await ctx.step("wire", _lose_the_line)
        return "done"

    async with place.app(agent([call("wire"), say("ok")], wire)) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), approve(), by="cfo")

        assert (await held(run)).approvers == ("user:cfo",)


def _lose_the_line() -> None:
    raise ConnectionResetError


async def test_silence_approves_nothing_inside_a_tool_of_high_risk(place: Place) -> None:
    @tool(durable=True, effect="once", risk="critical")
    async def wire(ctx: Context) -> str:
        return "yes" if await ctx.approval("Wire?", within="1h", on_silence="approve") else "no"

    async with place.app(agent([call("wire"), say("ok")], wire)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    (message,) = [one for one in view.messages if isinstance(one, ToolMessage)]
    assert "silence must not approve" in repr(message.outcome)


async def test_what_a_body_asks_is_of_its_tools_risk_and_as_strict_as_its_agent(
    place: Place,
) -> None:
    @tool(durable=True, effect="once", risk="critical")
    async def wire(ctx: Context) -> str:
        await ctx.approval("Wire?")
        return "done"

    async with place.app(agent([call("wire"), say("ok")], wire, on_reject="cancel")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert hold.risk == "critical"
        await app.decide(hold, reject("no"), by="mira")

        assert (await finished(run)).status == "cancelled"


async def test_agents_that_spawn_themselves_come_to_an_end(place: Place) -> None:
    turns: list[int] = []

    def model(messages: tuple[Message, ...]) -> Any:
        turns.append(len(messages))
        return (
            call("spawn", {"agent": "teller", "input": "again"}) if len(messages) < 2 else say("ok")
        )

    async with place.app(agent(model, spawn("teller"), turns_max=6)) as app:
        await finished(await app.start("teller", "go", by="mira"))

    assert len(turns) <= 6


async def test_no_run_begins_more_agents_than_it_has_turns_for(place: Place) -> None:
    begun: list[str] = []

    def worker(messages: tuple[Message, ...]) -> Any:
        begun.append("one")
        return say("done")

    tasks = [{"agent": "worker", "input": str(n)} for n in range(9)]
    boss = agent(script(call("spawn", {"tasks": tasks}), say("ok")), spawn("worker"), turns_max=5)
    async with place.app(boss, agent(worker, name="worker")) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    (message,) = [one for one in view.messages if isinstance(one, ToolMessage)]
    assert "not enough turns" in repr(message.outcome)
    assert begun == []


async def test_a_body_that_is_forbidden_by_now_does_no_more(place: Place) -> None:
    paid: list[int] = []

    @tool(durable=True)
    async def pay(ctx: Context) -> str:
        await ctx.ask("Which account?")
        await ctx.step("pay", paid.append, 1)
        return "paid"

    teller = agent(script(call("pay"), say("ok")), pay)
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    policy = Policy(Rule("pay", forbid="no payments any more"))
    async with place.app(teller, policy=policy) as app:
        await app.decide(hold, answer("main"), by="mira")
        view = await completed(app.run(run.id))

    (message,) = [one for one in view.messages if isinstance(one, ToolMessage)]
    assert "no payments any more" in repr(message.outcome)
    assert paid == []
