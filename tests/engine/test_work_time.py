"""How long a run may work: no turn begins after it, waiting costs none of it, and a yes is refused
that there is no time left for. Time passes only in tools and models that say so.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from sayso import Context, Sayso, answer, approve, fail, reject, spawn, tool
from sayso.domain import events as e
from sayso.domain.codec import decode_run
from sayso.domain.hold import Delegation
from sayso.domain.run import FOLD_LIKE, WorkTime
from sayso.engine import write as write_module
from sayso.engine.children import child_of
from sayso.errors import BudgetSpent, ModelFailed
from sayso.testing import call, say

from .kit import (
    Place,
    agent,
    completed,
    finished,
    held,
    journal,
    outcomes,
    suspended,
    types,
)

MINUTE = 60_000
OVER = "the run worked for 10m, as long as it may, without coming to an end"


def paying(paid: list[int], **options: Any) -> Any:
    @tool(approval=True, **options)
    async def pay(n: int) -> int:
        paid.append(n)
        return n

    return pay


def pay(n: int) -> Any:
    return call("pay", {"n": n})


def working(place: Place) -> Any:
    """A tool that takes some time, and nobody's leave."""

    @tool(effect="none")
    async def work(lasts: str) -> str:
        place.clock.advance(lasts)
        return f"worked for {lasts}"

    return work


def work(lasts: str) -> Any:
    return call("work", {"lasts": lasts})


async def time_of(app: Sayso, run_id: str) -> WorkTime | None:
    row = await app.store.load(run_id)
    assert row is not None
    return decode_run(row.state).work_time


async def test_a_run_says_from_the_start_how_long_it_may_work(place: Place) -> None:
    async with place.app(agent([say("Done.")], timeout="7m")) as app:
        run = await app.start("teller", "go", by="mira")
        await completed(run)

        assert (await journal(app.store, run.id))[0].event.timeout_ms == 7 * MINUTE


async def test_a_run_without_a_bound_keeps_no_time(place: Place) -> None:
    async with place.app(agent([pay(1), say("Done.")], paying([]))) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        row = await app.store.load(run.id)
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        said = [one.event for one in await journal(app.store, run.id)]

    assert row.state.endswith(b",0,[]]")
    assert [one for one in said if isinstance(one, e.RunSuspended | e.RunResumed)] == [
        e.RunSuspended(),
        e.RunResumed(),
    ]


async def test_a_bound_that_changes_while_a_run_waits_is_not_that_runs(place: Place) -> None:
    paid: list[int] = []
    script, tools = [[work("5m"), pay(1)], say("Done.")], [working(place), paying(paid)]
    async with place.app(agent(script, *tools, timeout="10m")) as app:
        run_id = (await app.start("teller", "go", by="mira")).id
        await held(app.run(run_id))
    async with place.app(agent(script, *tools, timeout="1m")) as app:
        await app.decide(await held(app.run(run_id)), approve(), by="mira")

        assert ((await completed(app.run(run_id))).output, paid) == ("Done.", [1])


async def test_waiting_costs_no_time(place: Place) -> None:
    paid: list[int] = []
    script = [[work("4m"), pay(1)], [work("5m"), pay(2)], say("Done.")]
    async with place.app(agent(script, working(place), paying(paid), timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        for worked in (4, 9):
            hold = await held(run)
            place.clock.advance("30d")
            await app.sweep()
            assert await time_of(app, run.id) == WorkTime(
                timeout_ms=10 * MINUTE, worked_ms=worked * MINUTE
            )
            await app.decide(hold, approve(), by="mira")

        assert ((await completed(run)).output, paid) == ("Done.", [1, 2])


async def test_no_turn_begins_when_the_time_is_over_and_no_tool_is_cut_off(place: Place) -> None:
    asked: list[int] = []

    def script(messages: Any) -> Any:
        asked.append(len(messages))
        return work("1h")

    async with place.app(agent(script, working(place), timeout="10m")) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

    assert (view.status, view.error) == ("failed", OVER)
    assert (asked, outcomes(view)) == ([1], ["Returned"])


async def test_a_model_is_waited_for_no_longer_than_the_run_may_work(place: Place) -> None:
    asked: list[str] = []

    async def script(messages: Any) -> Any:
        asked.append(messages[-1].text)
        await asyncio.sleep(2)
        return say("Done.")

    async with place.app(agent(script, timeout="50ms")) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

    assert (view.status, asked) == ("failed", ["go"])
    assert view.error == OVER.replace("10m", "50ms")


@pytest.mark.parametrize("how", ["fails", "answers"])
async def test_a_model_that_does_not_mind_to_be_cut_off_gains_nothing(
    place: Place, how: str
) -> None:
    asked: list[str] = []
    paid: list[int] = []

    async def script(messages: Any) -> Any:
        asked.append(messages[-1].text)
        try:
            await asyncio.sleep(2)
        except asyncio.CancelledError:
            if how == "fails":
                failed = ModelFailed("the connection was closed")
                failed.retryable = True
                raise failed from None
        return call("give", {"n": 1})

    @tool(effect="once")
    async def give(n: int) -> None:
        paid.append(n)

    async with place.app(agent(script, give, timeout="50ms")) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

    assert (view.status, asked, paid) == ("failed", ["go"], [])
    assert view.error == OVER.replace("10m", "50ms")


async def test_an_answer_that_comes_too_late_is_none(place: Place) -> None:
    def script(messages: Any) -> Any:
        place.clock.advance("10m")
        return work("1m")

    async with place.app(agent(script, working(place), timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        view = await finished(run)

        assert (view.status, view.error) == ("failed", OVER)
        assert "turn.taken" not in await types(app, run)


async def test_what_a_model_says_of_its_own_time_is_not_taken_for_ours(place: Place) -> None:
    async with place.app(agent([TimeoutError("read")], timeout="10m")) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

    assert (view.status, view.error) == ("failed", "TimeoutError: read")


async def test_a_clock_that_is_set_back_gives_no_time_back(place: Place) -> None:
    paid: list[int] = []

    @tool(effect="none")
    async def set_back() -> None:
        place.clock.step_wall(-60 * MINUTE)

    script = [[call("set_back"), pay(1)], work("9m"), work("2m"), say("Done.")]
    tools = [set_back, paying(paid, effect="none"), working(place)]
    async with place.app(agent(script, *tools, timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert await time_of(app, run.id) == WorkTime(timeout_ms=10 * MINUTE)
        await app.decide(hold, approve(), by="mira")
        view = await finished(run)

        assert (view.status, view.error, paid) == ("failed", OVER, [1])
        assert outcomes(view) == ["Returned"] * 4


async def test_a_yes_that_the_run_has_no_time_left_for_is_refused(place: Place) -> None:
    paid: list[int] = []
    script = [[work("10m"), pay(1)], say("Done.")]
    async with place.app(agent(script, working(place), paying(paid), timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        before = (await run.view()).seq
        for verdict in (approve(), approve(args={"n": 9})):
            with pytest.raises(BudgetSpent, match="10m"):
                await app.decide(hold, verdict, by="mira")
        with pytest.raises(BudgetSpent):
            await app.resume(hold.request_id, approve(), by="mira")

        assert ((await run.view()).seq, paid) == (before, [])
        assert (await app.hold(hold)).status == "open"


@pytest.mark.parametrize("how", ["reject", "cancel"])
async def test_a_no_is_possible_when_the_time_is_spent(place: Place, how: str) -> None:
    paid: list[int] = []
    script = [[work("10m"), pay(1)], say("Done.")]
    async with place.app(agent(script, working(place), paying(paid), timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        if how == "reject":
            await app.decide(hold, reject("no"), by="mira")
        else:
            await app.cancel(run, by="mira")
        view = await finished(run)

    assert (view.status, paid) == ("failed" if how == "reject" else "cancelled", [])
    if how == "reject":
        assert view.error == OVER


async def test_an_answer_that_the_run_has_no_time_left_for_is_refused(place: Place) -> None:
    @tool(blocking=True)
    async def wait() -> None: ...

    @tool(durable=True)
    async def talk(ctx: Context) -> str:
        place.clock.advance("10m")
        return await ctx.ask("Name?")

    script = [[call("wait"), call("talk")], say("Done.")]
    async with place.app(agent(script, wait, talk, timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        for hold in (await suspended(run)).holds:
            with pytest.raises(BudgetSpent):
                await app.decide(hold, answer("x"), by="mira")
            await app.decide(hold, fail("no use"), by="mira")

        assert (await finished(run)).status == "failed"


async def test_what_happened_can_be_said_when_the_time_is_spent(place: Place) -> None:
    @tool(effect="once")
    async def charge() -> None:
        place.clock.advance("10m")
        raise TimeoutError

    async with place.app(agent([call("charge"), say("Done.")], charge, timeout="10m")) as app:
        run = await app.start("teller", "go", by="mira")
        doubt = await held(run)
        with pytest.raises(BudgetSpent):
            await app.decide(doubt, approve(), by="mira")
        await app.decide(doubt, answer("it went through"), by="mira")

        assert (await finished(run)).status == "failed"


def family(
    place: Place, *script: Any, tasks: int = 1, childs: str | None = None, timeout: str | None
) -> list[Any]:
    """A parent that works for four minutes before it lets others work, and then goes on."""
    task = {"agent": "child", "input": "x"}
    child = agent([*script, say("ok")], working(place), paying([]), name="child", timeout=childs)
    parent = agent(
        [work("4m"), call("spawn", {"tasks": [task] * tasks}), pay(3), say("Done.")],
        working(place),
        spawn("child"),
        paying([]),
        name="parent",
        timeout=timeout,
    )
    return [child, parent]


@pytest.mark.parametrize(
    "options, minutes",
    [
        ({"timeout": "10m"}, [6]),
        ({"timeout": "10m", "tasks": 3}, [2, 2, 2]),
        ({"timeout": "10m", "childs": "1m"}, [1]),
        ({"timeout": "10m", "childs": "7m"}, [6]),
        ({"timeout": None, "childs": "7m"}, [7]),
        ({"timeout": None}, [0]),
    ],
)
async def test_a_child_has_what_its_parent_has_left_at_most(
    place: Place, options: Any, minutes: list[int]
) -> None:
    async with place.app(*family(place, **options)) as app:
        run = await app.start("parent", "go", by="mira")
        await held(run)
        said = [one.event for one in await journal(app.store, run.id)]
        asks = [event.ask for event in said if isinstance(event, e.HoldOpened)]
        children = [ask.run for ask in asks if isinstance(ask, Delegation)]
        begun = [(await journal(app.store, child))[0].event for child in children]

    assert [event.timeout_ms for event in begun] == [n * MINUTE for n in minutes]


@pytest.mark.parametrize("lasts, left", [("5m", 1), ("6m", 0)])
async def test_what_a_child_works_is_its_parents_time(place: Place, lasts: str, left: int) -> None:
    # Its last turn is the parent's to take away, or to see.
    async with place.app(*family(place, work(lasts), timeout="10m", childs="1h")) as app:
        run = await app.start("parent", "go", by="mira")
        if not left:
            view = await finished(run)
            assert (view.status, view.error) == ("failed", OVER)
            assert "worked for 6m, as long as it may" in repr(view.messages[-1])
            return
        hold = await held(run)
        assert await time_of(app, run.id) == WorkTime(timeout_ms=10 * MINUTE, worked_ms=9 * MINUTE)
        await app.decide(hold, approve(), by="mira")

        assert (await completed(run)).output == "Done."


async def test_what_a_child_waits_is_nobodys_time(place: Place) -> None:
    async with place.app(*family(place, pay(1), timeout="10m")) as app:
        run = await app.start("parent", "go", by="mira")
        for _ in range(2):
            hold = await held(run)
            place.clock.advance("30d")
            await app.decide(hold, approve(), by="mira")

        assert (await completed(run)).output == "Done."


async def test_a_parent_without_a_bound_keeps_no_time_of_its_child(place: Place) -> None:
    async with place.app(*family(place, work("5m"), timeout=None, childs="7m")) as app:
        run = await app.start("parent", "go", by="mira")
        await held(run)
        said = [one.event for one in await journal(app.store, run.id)]

        assert await time_of(app, run.id) is None
        assert [one.worked_ms for one in said if isinstance(one, e.HoldSettled)] == [0]


async def test_no_run_begins_agents_that_there_is_no_time_for(place: Place) -> None:
    @tool(durable=True)
    async def delegate(ctx: Context) -> str:
        place.clock.advance("10m")
        return await ctx.spawn("child", "x")

    parent = agent([call("delegate"), say("Done.")], delegate, name="parent", timeout="10m")
    async with place.app(parent, agent([say("ok")], name="child")) as app:
        run = await app.start("parent", "go", by="mira")
        view = await finished(run)

        assert (view.status, view.error) == ("failed", OVER)
        assert "no time left" in repr(view.messages[-1])
        assert "hold.opened" not in await types(app, run)


async def test_a_child_of_a_run_that_has_no_time_left_is_not_one_without_a_bound(
    place: Place,
) -> None:
    """The time may be over between the check and the append, and no time is no bound."""
    async with place.app(*family(place, pay(1), timeout="10m")) as app:
        run_id = (await app.start("parent", "go", by="mira")).id
        await held(app.run(run_id))
        said = [one.event for one in await journal(app.store, run_id)]
        (opened,) = [event for event in said if isinstance(event, e.HoldOpened)]
        run = await app._parts.ledger.load(run_id)
        spent = replace(run.work_time, worked_ms=10 * MINUTE)

        begun = child_of(app._parts, replace(run, work_time=spent), opened)

    assert begun.timeout_ms == 1


async def test_a_row_of_the_fold_before_is_read_even_if_its_journal_is_erased(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.app(agent([say("Done.")])) as app:
        monkeypatch.setattr(write_module, "FOLD", FOLD_LIKE)
        run = await app.start("teller", "go", by="mira")
        await completed(run)
        if place.kind == "postgres":
            return  # This role may not erase anything.
        await app.redact(run, 1, by="mira", reason="asked to")
        monkeypatch.undo()

        assert (await app.store.load(run.id)).fold == FOLD_LIKE
        assert (await run.view()).status == "completed"
        await app.redact(run, 2, by="mira", reason="asked to")
        assert (await app.store.load(run.id)).fold > FOLD_LIKE
