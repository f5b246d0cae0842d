"""Several calls in one turn: each runs once, whatever the order of decisions, and none waits for a
sibling that it does not need.

Method: tools that wait for an event of the test and write to a ledger outside; a model that writes
every turn it is asked for to a ledger of its own.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sayso import Agent, Bounds, Context, Sayso, approve, reject, tool
from sayso.testing import ScriptedModel, call, say

from .judge import judge
from .kit import (
    PATIENCE_S,
    Delegate,
    Place,
    agent,
    completed,
    finished,
    journal,
    outcomes,
    suspended,
    tags,
    types,
    until,
)


class Hands:
    """Tools that a test holds back and lets go one by one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.inside: dict[str, asyncio.Event] = {}
        self.go: dict[str, asyncio.Event] = {}
        self.turns: list[int] = []

        @tool(approval=True, effect="once")
        async def risky(ctx: Context, n: str) -> str:
            return await self._act(ctx, n)

        @tool(effect="once")
        async def free(ctx: Context, n: str) -> str:
            return await self._act(ctx, n)

        self.tools = (risky, free)

    async def _act(self, ctx: Context, n: str) -> str:
        self.place.world.act(ctx, {"n": n})
        self.event(self.inside, n).set()
        if n in self.go:
            await self.go[n].wait()
        return n

    def event(self, events: dict[str, asyncio.Event], n: str) -> asyncio.Event:
        return events.setdefault(n, asyncio.Event())

    async def reached(self, n: str) -> None:
        await asyncio.wait_for(self.event(self.inside, n).wait(), PATIENCE_S)

    def agent(self, *turns: Any) -> Agent:
        def script(messages: Any) -> Any:
            at = sum(type(m).__name__ == "AssistantMessage" for m in messages)
            self.turns.append(at)
            self.place.world.write("turns", str(at))
            return turns[at]

        return Agent("teller", model=ScriptedModel(script), tools=self.tools)


def risky(*ns: str) -> list[Any]:
    return [call("risky", {"n": n}) for n in ns]


def free(*ns: str) -> list[Any]:
    return [call("free", {"n": n}) for n in ns]


@pytest.fixture
def hands(place: Place) -> Hands:
    return Hands(place)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=st.permutations(range(4)), verdicts=st.lists(st.booleans(), min_size=4, max_size=4))
def test_decisions_in_any_order_run_each_approved_call_once(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], verdicts: list[bool]
) -> None:
    async def story(kind: str) -> None:
        place = Place(kind, tmp_path_factory.mktemp("parallel"))
        hands = Hands(place)
        teller = hands.agent([*risky(*"abcd"), *free("e", "f")], say("done"))
        async with place.app(teller) as app:
            run = await app.start("teller", "x", by="mira")
            view = await run.wait(held=True, timeout=PATIENCE_S)
            holds = view.holds
            assert len(holds) == 4

            for index in order:
                await app.decide(
                    holds[index], approve() if verdicts[index] else reject("no"), by="mira"
                )
            view = await completed(run)

            expected = ["Returned" if yes else "Declined" for yes in verdicts]
            assert outcomes(view) == [*expected, "Returned", "Returned"]
            counts = Counter(place.world.effects())
            assert set(counts.values()) <= {1}
            assert len(counts) == sum(verdicts) + 2
            assert hands.turns == [0, 1]
            await judge(app.store, place.world, ("risky",))

    for kind in ("memory", "sqlite"):
        asyncio.run(story(kind))


@pytest.mark.parametrize("count", [1, 2, 16, 100])
async def test_of_n_approved_calls_n_run_each_once(place: Place, hands: Hands, count: int) -> None:
    ns = [str(n) for n in range(count)]
    async with place.app(hands.agent(risky(*ns), say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        holds = (await suspended(run)).holds

        await asyncio.gather(*(app.decide(hold, approve(), by="mira") for hold in holds))
        await completed(run)

        assert Counter(place.world.effects()) == {hold.call_id: 1 for hold in holds}
        assert hands.turns == [0, 1]
        await judge(app.store, place.world, ("risky",))


async def test_equal_calls_of_one_turn_are_told_apart(place: Place, hands: Hands) -> None:
    async with place.app(hands.agent(risky(*"aaaa"), say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        holds = (await suspended(run)).holds
        assert len({hold.id for hold in holds}) == 4

        for hold, verdict in zip(
            holds, [approve(), reject("no"), approve(), reject("no")], strict=True
        ):
            await app.decide(hold, verdict, by="mira")
        view = await completed(run)

        assert outcomes(view) == ["Returned", "Declined", "Returned", "Declined"]
        assert sorted(place.world.effects()) == [holds[0].call_id, holds[2].call_id]
        await judge(app.store, place.world, ("risky",))


async def test_siblings_that_need_nobody_run_while_others_wait(place: Place, hands: Hands) -> None:
    async with place.app(hands.agent([*risky("a"), *free("b")], say("done"))) as app:
        run = await app.start("teller", "x", by="mira")

        view = await suspended(run)

        assert len(place.world.effects()) == 1
        assert outcomes(view) == ["Returned"]
        assert [hold.args["n"] for hold in view.holds] == ["a"]


async def test_a_held_call_can_be_decided_while_a_sibling_runs_and_starts_at_once(
    place: Place, hands: Hands
) -> None:
    hands.event(hands.go, "slow")
    async with place.app(hands.agent([*free("slow"), *risky("a", "b")], say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        view = await run.wait(held=True, timeout=PATIENCE_S)
        await hands.reached("slow")
        assert view.status == "running"

        await app.decide(view.holds[0], approve(), by="mira")
        await hands.reached("a")
        await app.decide(view.holds[1], approve(), by="mira")
        await hands.reached("b")

        assert (await run.view()).status == "running"
        assert hands.turns == [0]
        hands.go["slow"].set()
        await completed(run)
        assert hands.turns == [0, 1]
        await judge(app.store, place.world, ("risky",))


async def test_a_decision_of_another_process_starts_a_call_while_a_sibling_runs(
    place: Place, hands: Hands
) -> None:
    hands.event(hands.go, "slow")
    async with place.app(hands.agent([*free("slow"), *risky("a")], say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        await hands.reached("slow")
        async with place.app(work=False) as desk:
            (hold,) = await desk.holds(by="mira")
            await desk.decide(hold, approve(), by="mira")

            await hands.reached("a")

        hands.go["slow"].set()
        await completed(run)


async def test_the_next_turn_waits_for_every_outcome_and_sees_all_of_them_in_order(
    place: Place, hands: Hands
) -> None:
    for n in "ab":
        hands.event(hands.go, n)
    async with place.app(hands.agent([*free("a", "b"), *risky("c")], say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        view = await run.wait(held=True, timeout=PATIENCE_S)
        await hands.reached("b")
        hands.go["b"].set()
        await app.decide(view.holds[0], approve(), by="mira")
        await hands.reached("c")
        await until(lambda: _finished(app, run.id, 2), "two outcomes")

        assert hands.turns == [0]
        hands.go["a"].set()
        view = await completed(run)

        told = [m.outcome.result() for m in view.messages if hasattr(m, "outcome")]
        assert told == ["a", "b", "c"]
        assert hands.turns == [0, 1]


async def _finished(app: Sayso, run_id: str, count: int) -> bool:
    return (await types(app, run_id)).count("call.finished") >= count


async def test_finished_siblings_and_turns_never_run_again_after_a_restart(
    place: Place, hands: Hands
) -> None:
    turns = (
        free("zero"),
        [*free("one", "two"), *risky("a", "b", "c")],
        say("done"),
    )
    async with place.app(hands.agent(*turns)) as app:
        run = await app.start("teller", "x", by="mira")
        holds = (await suspended(run)).holds
    for hold, verdict in zip(holds, [approve(), reject("no"), approve()], strict=True):
        async with place.app(hands.agent(*turns)) as app:
            await app.decide(hold.id, verdict, by="mira")
            view = await app.run(run.id).wait(timeout=PATIENCE_S)
    assert view.status == "completed"

    counts = Counter(place.world.effects())
    assert len(counts) == 5
    assert set(counts.values()) == {1}
    assert place.world.read("turns") == ["0", "1", "2"]
    async with place.app(hands.agent(*turns)) as app:
        await judge(app.store, place.world, ("risky",))


async def test_holds_decided_while_nobody_works_are_all_carried_out_later(
    place: Place, hands: Hands
) -> None:
    turns = ([*risky(*"abcd"), *free("e")], say("done"))
    async with place.app(hands.agent(*turns)) as app:
        run = await app.start("teller", "x", by="mira")
        holds = (await suspended(run)).holds
    async with place.app(work=False) as desk:
        for hold in reversed(holds):
            await desk.decide(hold.id, approve(), by="mira")
        assert (await desk.run(run.id).view()).status == "running"

    async with place.app(hands.agent(*turns)) as app:
        await completed(app.run(run.id))

        assert Counter(Counter(place.world.effects()).values()) == {1: 5}
        assert place.world.read("turns") == ["0", "1"]
        await judge(app.store, place.world, ("risky",))


async def test_cancelling_waits_for_a_sibling_that_runs_and_starts_nothing_more(
    place: Place, hands: Hands
) -> None:
    hands.event(hands.go, "slow")
    async with place.app(hands.agent([*free("slow"), *risky("a", "b")], say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        view = await run.wait(held=True, timeout=PATIENCE_S)
        await hands.reached("slow")

        await app.cancel(run, by="mira", reason="enough")
        between = await run.view()
        hands.go["slow"].set()
        view = await finished(run)

        assert (between.status, between.cancelling) == ("running", True)
        assert between.holds == ()
        assert view.status == "cancelled"
        assert outcomes(view) == ["Returned", "Declined", "Declined"]
        assert len(place.world.effects()) == 1
        assert hands.turns == [0]
        await judge(app.store, place.world, ("risky",))


async def test_a_rejection_that_cancels_waits_for_a_sibling_that_runs(
    place: Place, hands: Hands
) -> None:
    @tool(name="fatal", approval=True, effect="once", on_reject="cancel")
    async def fatal(ctx: Context) -> None:
        place.world.act(ctx, {})

    hands.event(hands.go, "slow")
    hands.tools = (*hands.tools, fatal)
    teller = hands.agent([*free("slow"), *risky("a"), call("fatal")], say("done"))
    async with place.app(teller) as app:
        run = await app.start("teller", "x", by="mira")
        view = await run.wait(held=True, timeout=PATIENCE_S)
        await hands.reached("slow")

        await app.decide(view.holds[1], reject("stop it all"), by="mira")
        between = await run.view()
        hands.go["slow"].set()
        view = await finished(run)

        assert (between.status, between.cancelling) == ("running", True)
        assert outcomes(view) == ["Returned", "Declined", "Declined"]
        assert view.status == "cancelled"
        await judge(app.store, place.world, ("risky", "fatal"))


async def test_a_run_ends_only_after_the_last_of_many_siblings(place: Place, hands: Hands) -> None:
    ns = [str(n) for n in range(20)]
    for n in ns:
        hands.event(hands.go, n)
    async with place.app(hands.agent(free(*ns), say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        for n in ns:
            await hands.reached(n)
        await app.cancel(run, by="mira")
        for n in ns[:-1]:
            hands.go[n].set()
        await until(lambda: _finished(app, run.id, 19), "19 outcomes")

        assert (await run.view()).status == "running"
        hands.go[ns[-1]].set()
        assert (await finished(run)).status == "cancelled"
        await judge(app.store, place.world)


async def test_one_worker_advances_more_runs_than_it_may_hold_at_a_time(
    place: Place, hands: Hands
) -> None:
    bounds = Bounds(runs_max=3, look_s=0.02)
    async with place.app(hands.agent([*risky("a"), *free("b")], say("done")), bounds=bounds) as app:
        runs = [await app.start("teller", "x", by="mira") for _ in range(20)]
        for run in runs:
            for hold in (await suspended(run)).holds:
                await app.decide(hold, approve(), by="mira")
        for run in runs:
            await completed(run)

        assert Counter(Counter(place.world.effects()).values()) == {1: 40}
        await judge(app.store, place.world, ("risky",))


async def test_two_apps_on_one_place_share_the_work_and_repeat_none(place: Place) -> None:
    hands = Hands(place)
    turns = ([*risky("a"), *free("b")], free("c"), say("done"))
    async with place.app(hands.agent(*turns)) as one, place.app(hands.agent(*turns)) as two:
        runs = [
            await (one, two)[n % 2].start("teller", "x", by="mira", id=f"run_{n}")
            for n in range(30)
        ]
        for n, run in enumerate(runs):
            (hold,) = (await suspended(run)).holds
            await (two, one)[n % 2].decide(hold, approve(), by="mira")
        for run in runs:
            await completed(run)

        assert Counter(Counter(place.world.effects()).values()) == {1: 90}
        assert Counter(place.world.read("turns")) == {"0": 30, "1": 30, "2": 30}
        await judge(one.store, place.world, ("risky",))


async def test_what_a_model_asks_for_too_often_in_one_turn_fails_the_run(place: Place) -> None:
    @tool(effect="none")
    async def look() -> str:
        place.world.write("looks", "x")
        return "x"

    async with place.app(agent([[call("look")] * 129, say("x")], look)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await finished(run)

        assert view.status == "failed"
        assert "129 calls" in (view.error or "")
        assert place.world.read("looks") == []


async def test_the_journal_names_every_call_by_its_turn_and_place(
    place: Place, hands: Hands
) -> None:
    async with place.app(hands.agent(free("a", "b"), free("c"), say("done"))) as app:
        run = await app.start("teller", "x", by="mira")
        await completed(run)

        started = [
            e.event.call for e in await journal(app.store, run.id) if e.type == "call.started"
        ]

        assert started == ["1.0", "1.1", "2.0"]
        assert sorted(place.world.effects()) == [f"{run.id}.{ref}" for ref in started]


class Lagging(Delegate):
    """A store whose answers to appends of one kind take a while."""

    what = ""

    def append(self, *writes: Any) -> Any:
        answer = self.inner.append(*writes)
        if self.what not in tags(writes):
            return answer
        return asyncio.ensure_future(self._later(answer))

    async def _later(self, answer: Any) -> Any:
        found = await answer
        await asyncio.sleep(0.05)
        return found


async def test_a_start_whose_run_is_cancelled_before_the_answer_comes_leaves_no_doubt(
    place: Place, hands: Hands
) -> None:
    class LaggingTurns(Lagging):
        what = "turn.taken"

    async with place.app(hands.agent(free("a"), say("done")), wrap=LaggingTurns) as app:
        run = await app.start("teller", "x", by="mira")
        await until(lambda: _asked(app, run.id), "the turn")

        await app.cancel(run, by="mira")
        view = await finished(run)

        assert (view.status, outcomes(view)) == ("cancelled", ["Returned"])
        assert "call.doubted" not in await types(app, run)
        await judge(app.store, place.world)


async def _asked(app: Sayso, run_id: str) -> bool:
    return "turn.taken" in await types(app, run_id)


async def test_a_turn_is_not_taken_again_because_its_own_end_is_on_its_way(
    place: Place, hands: Hands
) -> None:
    class LaggingEnds(Lagging):
        what = "run.completed"

    async with place.app(hands.agent(free("a"), say("done")), wrap=LaggingEnds) as app:
        run = await app.start("teller", "x", by="mira")

        await completed(run)

        assert hands.turns == [0, 1]
        await judge(app.store, place.world)
