"""Budgets: how many turns a run may take, and what happens to a yes when there is none left."""

from __future__ import annotations

from typing import Any

import pytest

from sayso import Context, answer, approve, fail, reject, spawn, tool
from sayso.errors import BudgetSpent
from sayso.testing import call, say

from .kit import Place, agent, completed, finished, held, journal, suspended


def paying(paid: list[int]) -> Any:
    @tool(approval=True)
    async def pay(n: int) -> int:
        paid.append(n)
        return n

    return pay


def pay(n: int) -> Any:
    return call("pay", {"n": n})


async def test_a_run_says_from_the_start_how_many_turns_it_may_take(place: Place) -> None:
    async with place.app(agent([say("Done.")], turns_max=7)) as app:
        run = await app.start("teller", "go", by="mira")
        await completed(run)

        assert (await journal(app.store, run.id))[0].event.turns_max == 7


async def test_a_bound_that_changes_while_a_run_waits_is_not_that_runs(place: Place) -> None:
    paid: list[int] = []
    script = [pay(1), pay(2), say("Done.")]
    async with place.app(agent(script, paying(paid), turns_max=3)) as app:
        run_id = (await app.start("teller", "go", by="mira")).id
        await held(app.run(run_id))
    async with place.app(agent(script, paying(paid), turns_max=1)) as app:
        run = app.run(run_id)
        for _ in range(2):
            await app.decide(await held(run), approve(), by="mira")

        assert ((await completed(run)).output, paid) == ("Done.", [1, 2])


async def test_a_yes_that_the_run_has_no_turn_left_for_is_refused(place: Place) -> None:
    paid: list[int] = []
    async with place.app(agent([pay(1), pay(2), say("Done.")], paying(paid), turns_max=2)) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        second = await held(run)
        before = (await run.view()).seq
        for verdict in (approve(), approve(args={"n": 9})):
            with pytest.raises(BudgetSpent):
                await app.decide(second, verdict, by="mira")
        with pytest.raises(BudgetSpent):
            await app.resume(second.request_id, approve(), by="mira")

        assert ((await run.view()).seq, paid) == (before, [1])
        assert (await app.hold(second)).status == "open"


@pytest.mark.parametrize("how", ["reject", "cancel"])
async def test_a_no_is_possible_when_the_budget_is_spent(place: Place, how: str) -> None:
    paid: list[int] = []
    async with place.app(agent([pay(1), say("Done.")], paying(paid), turns_max=1)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        if how == "reject":
            await app.decide(hold, reject("no"), by="mira")
        else:
            await app.cancel(run, by="mira")
        view = await finished(run)

        assert (view.status, paid) == ("failed" if how == "reject" else "cancelled", [])
        if how == "reject":
            assert "1 turns" in (view.error or "")


async def test_an_answer_that_the_run_has_no_turn_left_for_is_refused(place: Place) -> None:
    @tool(blocking=True)
    async def wait() -> None: ...

    @tool(durable=True)
    async def talk(ctx: Context) -> str:
        return await ctx.ask("Name?")

    async with place.app(
        agent([[call("wait"), call("talk")], say("Done.")], wait, talk, turns_max=1)
    ) as app:
        run = await app.start("teller", "go", by="mira")
        for hold in (await suspended(run)).holds:
            with pytest.raises(BudgetSpent):
                await app.decide(hold, answer("x"), by="mira")
            await app.decide(hold, fail("no use"), by="mira")

        assert (await finished(run)).status == "failed"


async def test_what_happened_can_be_said_when_the_budget_is_spent(place: Place) -> None:
    @tool(effect="once")
    async def charge() -> None:
        raise TimeoutError

    async with place.app(agent([call("charge"), say("Done.")], charge, turns_max=1)) as app:
        run = await app.start("teller", "go", by="mira")
        doubt = await held(run)
        with pytest.raises(BudgetSpent):
            await app.decide(doubt, approve(), by="mira")
        await app.decide(doubt, answer("it went through"), by="mira")

        assert (await finished(run)).status == "failed"


async def test_waiting_costs_nothing(place: Place) -> None:
    paid: list[int] = []
    script = [pay(1), pay(2), say("Done.")]
    async with place.app(agent(script, paying(paid), turns_max=3)) as app:
        run = await app.start("teller", "go", by="mira")
        for _ in range(2):
            hold = await held(run)
            place.clock.advance("30d")
            await app.sweep()
            await app.decide(hold, approve(), by="mira")

        assert ((await completed(run)).output, paid) == ("Done.", [1, 2])


def family(paid: list[int], *, left: int) -> list[Any]:
    """A parent whose child takes three turns; `left` is what it may take after that itself."""
    child = agent([pay(1), pay(2), say("child done")], paying(paid), name="child")
    task = call("spawn", {"agent": "child", "input": "x"})
    parent = agent(
        [task, pay(3), say("Done.")],
        spawn("child"),
        paying(paid),
        name="parent",
        turns_max=1 + 3 + left,
    )
    return [child, parent]


async def test_the_turns_of_a_child_are_its_parents(place: Place) -> None:
    paid: list[int] = []
    async with place.app(*family(paid, left=1)) as app:
        run = await app.start("parent", "go", by="mira")
        for _ in range(2):
            await app.decide(await held(run), approve(), by="mira")
        last = await held(run)
        assert last.args == {"n": 3}
        with pytest.raises(BudgetSpent):
            await app.decide(last, approve(), by="mira")

        assert paid == [1, 2]


async def test_a_parent_goes_on_with_what_its_child_has_left(place: Place) -> None:
    paid: list[int] = []
    async with place.app(*family(paid, left=2)) as app:
        run = await app.start("parent", "go", by="mira")
        for _ in range(3):
            await app.decide(await held(run), approve(), by="mira")

        assert ((await completed(run)).output, paid) == ("Done.", [1, 2, 3])


async def test_a_child_cannot_take_more_than_its_parent_has_left(place: Place) -> None:
    paid: list[int] = []
    child, parent = family(paid, left=-1)  # One turn short of what the child would need.
    async with place.app(child, parent) as app:
        run = await app.start("parent", "go", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        second = await held(run)
        assert second.args == {"n": 2}
        with pytest.raises(BudgetSpent):
            await app.decide(second, approve(), by="mira")
        await app.decide(second, reject("no"), by="mira")
        view = await finished(run)

        assert (view.status, paid) == ("failed", [1])
