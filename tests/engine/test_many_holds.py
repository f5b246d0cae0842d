"""Runs that ask a great many things: they can be looked at, decided, and have a bound.

Method: more holds than fit on one page of the store, and one thing more than may be asked.
"""

from __future__ import annotations

import pytest

from sayso import Context, Returned, answer, approve, tool
from sayso.engine.context import ASKS_MAX
from sayso.engine.desk import COMMANDS_MAX
from sayso.errors import BadValue, TooManyCommands
from sayso.store.base import PAGE_MAX
from sayso.testing import call, say

from .kit import Place, agent, completed, held, outcomes, suspended, types

BODIES = PAGE_MAX // ASKS_MAX + 1


@tool(durable=True)
async def survey(ctx: Context, n: int) -> int:
    return len(await ctx.ask_all([f"Question {n}.{index}?" for index in range(ASKS_MAX)]))


async def test_a_run_with_more_holds_than_a_page_can_be_looked_at(place: Place) -> None:
    calls = [call("survey", {"n": n}) for n in range(BODIES)]
    async with place.app(agent([calls, say("Done.")], survey)) as app:
        run = await app.start("teller", "go", by="mira")

        view = await suspended(run)

        assert len(view.holds) == BODIES * ASKS_MAX > PAGE_MAX
        assert len({hold.id for hold in view.holds}) == len(view.holds)
        settled = await app.resume(view.holds[0].request_id, answer("x"), by="mira")
        assert len(settled) == ASKS_MAX


async def test_a_request_of_more_holds_than_a_page_is_decided_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sayso.engine.context.ASKS_MAX", PAGE_MAX + 1)

    @tool(durable=True)
    async def poll(ctx: Context) -> int:
        return len(await ctx.ask_all([f"{index}?" for index in range(PAGE_MAX + 1)]))

    async with place.app(agent([call("poll"), say("Done.")], poll)) as app:
        run = await app.start("teller", "go", by="mira")
        view = await suspended(run)
        settled = await app.resume(view.holds[0].request_id, answer("x"), by="mira")

        assert len(settled) == PAGE_MAX + 1
        view = await completed(run)
        (outcome,) = [m.outcome for m in view.messages if hasattr(m, "outcome")]
        assert isinstance(outcome, Returned)
        assert outcome.result() == PAGE_MAX + 1


async def test_a_body_does_not_ask_more_than_it_may_at_once(place: Place) -> None:
    refused: list[str] = []

    @tool(durable=True)
    async def poll(ctx: Context) -> None:
        try:
            await ctx.ask_all([f"{index}?" for index in range(ASKS_MAX + 1)])
        except BadValue as error:
            refused.append(str(error))

    async with place.app(agent([call("poll"), say("Done.")], poll)) as app:
        run = await app.start("teller", "go", by="mira")

        assert outcomes(await completed(run)) == ["Returned"]
        assert refused == [f"ask_all asks at most {ASKS_MAX} questions, not {ASKS_MAX + 1}"]
        assert "hold.opened" not in await types(app, run)


async def test_a_run_takes_no_more_commands_than_it_may_have_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMMANDS_MAX == 128
    monkeypatch.setattr("sayso.engine.desk.COMMANDS_MAX", 3)

    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    @tool(approval=True)
    async def wipe(n: int) -> int:
        return n

    teller = agent([call("pay"), say("Done.")], pay, commands=[wipe])
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        given = [await app.command(run, "wipe", {"n": n}, by="mira") for n in range(3)]
        before = await types(app, run)
        with pytest.raises(TooManyCommands, match="3 open commands"):
            await app.command(run, "wipe", {"n": 3}, by="mira")

        assert await types(app, run) == before
        await app.decide(given[0].holds[0], approve(), by="mira")
        await run.command("c1", timeout=20)
        assert (await app.command(run, "wipe", {"n": 3}, by="mira")).status == "held"
