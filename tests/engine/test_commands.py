"""Commands: what a person tells a run to do, through the same gate as every call.

Method: commands on runs that work, wait and are over; what is wrong with a command is its outcome,
and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import (
    Bounds,
    Context,
    Declined,
    Failed,
    NotAnswered,
    Policy,
    Principal,
    Returned,
    Rule,
    answer,
    approve,
    fail,
    question,
    reject,
    tool,
    user,
)
from sayso.errors import (
    AlreadyDecided,
    BadAgent,
    BadAnswer,
    BadValue,
    KeyReused,
    NotAllowed,
    RunFinished,
    UnknownRun,
)
from sayso.testing import call, say

from .judge import judge
from .kit import QUICK, Place, agent, completed, finished, held, journal, suspended, types, until

COLD = Bounds(look_s=0.02, backoff_s=0.01, backoff_max_s=0.05, stay_hot_s=0)


class Desk:
    """An agent that waits for an approval, or works until it is told to stop, and its commands."""

    def __init__(self, *, waits: bool = True, **options: Any) -> None:
        self.notes: list[str] = []
        self.stop = asyncio.Event()

        @tool(approval=True)
        async def pay() -> str:
            return "paid"

        @tool
        async def work() -> str:
            await self.stop.wait()
            return "worked"

        @tool
        async def note(ctx: Context, text: str, times: int = 1) -> str:
            self.notes.append(text * times)
            return f"{ctx.by} noted {text * times}"

        @tool(approval=True)
        async def wipe(ctx: Context) -> str:
            self.notes.clear()
            return f"wiped by {ctx.by}"

        @tool(blocking=True, asks=question("How many?", kind="number", number_min=0))
        async def count() -> None:
            self.notes.append("counting")

        @tool(durable=True)
        async def talk(ctx: Context) -> str:
            try:
                name = await ctx.ask("Name?")
            except NotAnswered as error:
                self.notes.append(f"no answer: {error.decision.word}")
                raise
            await ctx.step("greet", self.notes.append, f"hello {name}")
            return name

        @tool
        async def burn() -> None:
            raise ValueError("no matches")

        first = call("pay") if waits else call("work")
        self.agent = agent(
            [first, say("Done.")],
            pay,
            work,
            commands=[note, wipe, count, talk, burn],
            **options,
        )


async def test_a_command_on_a_suspended_run_leaves_it_suspended(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        done = await app.command(run, "note", {"text": "hi", "times": 2}, by="mira")

        assert done.status == "done"
        assert isinstance(done.outcome, Returned)
        assert done.outcome.result() == "mira noted hihi"
        assert desk.notes == ["hihi"]
        view = await suspended(run)
        assert [one.id for one in view.holds] == [hold.id]
        assert not [m for m in view.messages if "noted" in repr(m)]
        await app.decide(hold, approve(), by="mira")
        await completed(run)


async def test_a_command_on_a_running_run_does_not_disturb_it(place: Place) -> None:
    desk = Desk(waits=False)
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        done = await app.command(run, "note", {"text": "hi"}, by="mira", timeout=20)
        assert (done.status, desk.notes) == ("done", ["hi"])
        assert await run.status() == "running"
        desk.stop.set()

        assert (await completed(run)).output == "Done."


async def test_a_command_by_a_process_that_does_not_work_is_done_by_one_that_does(
    place: Place,
) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        async with place.app(desk.agent, work=False) as front:
            done = await front.command(run.id, "note", {"text": "x"}, by="mira", timeout=20)

        assert (done.status, desk.notes) == ("done", ["x"])


@pytest.mark.parametrize(
    "name, args, error",
    [
        ("note", {}, "BadArguments"),
        ("note", {"text": 3}, "BadArguments"),
        ("note", {"text": "x", "more": 1}, "BadArguments"),
        ("nope", {}, "UnknownTool"),
        ("pay", {}, "UnknownTool"),
        ("burn", {}, "ValueError"),
    ],
)
async def test_what_is_wrong_with_a_command_is_its_outcome(
    place: Place, name: str, args: dict[str, Any], error: str
) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        done = await app.command(run, name, args, by="mira")

        assert (done.status, done.holds) == ("done", ())
        assert isinstance(done.outcome, Failed)
        assert done.outcome.error == error
        assert desk.notes == []
        view = await suspended(run)
        assert [one.id for one in view.holds] == [hold.id]
        await app.decide(hold, approve(), by="mira")
        await completed(run)


async def test_arguments_that_cannot_be_kept_are_refused(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        before = await types(app, run)
        for bad in ({"text": {1}}, {"text": float("nan")}):
            with pytest.raises(BadValue):
                await app.command(run, "note", bad, by="mira")
        with pytest.raises(BadValue):
            await app.command(run, "n" * 1000, {}, by="mira")

        assert await types(app, run) == before


async def test_a_strand_that_is_not_there_is_refused(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        with pytest.raises(UnknownRun):
            await app.command(run, "note", {"text": "x"}, by="mira", strand="main.7")

        assert desk.notes == []


@pytest.mark.parametrize("verdict", [approve(), reject("keep them")])
async def test_a_gated_command_asks_first(place: Place, verdict: Any) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        own = await held(run)
        desk.notes.append("old")
        asked = await app.command(run, "wipe", by="mira")
        assert (asked.status, asked.outcome, len(asked.holds)) == ("held", None, 1)
        assert desk.notes == ["old"]
        hold = await app.hold(asked.holds[0])
        assert (hold.tool, hold.kind) == ("wipe", "approval")
        assert {one.id for one in (await suspended(run)).holds} == {own.id, hold.id}
        await app.decide(hold, verdict, by="mira")
        done = await run.command(asked.call_id.removeprefix(f"{run.id}."), timeout=20)

        if verdict == approve():
            assert (desk.notes, done.outcome.result()) == ([], "wiped by mira")  # type: ignore[union-attr]
        else:
            assert (desk.notes, done.outcome) == (["old"], Declined(reason="keep them", by="mira"))
        assert [one.id for one in (await suspended(run)).holds] == [own.id]


async def test_rules_hold_commands_like_any_call(place: Place) -> None:
    desk = Desk()
    policy = Policy(
        Rule("note", when=lambda facts: len(facts.args["text"]) > 3, approvers=[user("bob")])
    )
    async with place.app(desk.agent, policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        assert (await app.command(run, "note", {"text": "abc"}, by="mira")).status == "done"
        asked = await app.command(run, "note", {"text": "abcd"}, by="mira")
        with pytest.raises(NotAllowed):
            await app.decide(asked.holds[0], approve(), by="mira")
        await app.decide(asked.holds[0], approve(), by="bob")

        await until(lambda: desk.notes == ["abc", "abcd"])


async def test_a_blocking_command_is_answered_without_a_turn_of_the_model(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        asked = await app.command(run, "count", by="mira")
        assert (asked.status, desk.notes) == ("held", ["counting"])
        with pytest.raises(BadAnswer):
            await app.decide(asked.holds[0], answer(-1), by="mira")
        await app.decide(asked.holds[0], answer(4), by="mira")
        done = await run.command("c1", timeout=20)

        assert (done.outcome.result(), desk.notes) == (4, ["counting"])  # type: ignore[union-attr]
        assert (await types(app, run)).count("turn.taken") == 1


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_command_may_ask_inside_its_body(place: Place, bounds: Bounds) -> None:
    desk = Desk()
    async with place.app(desk.agent, bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        asked = await app.command(run, "talk", by="mira")
        await app.decide(asked.holds[0], answer("ann"), by="mira")
        done = await run.command("c1", timeout=20)

        assert done.outcome is not None
        assert (done.outcome.result(), desk.notes) == ("ann", ["hello ann"])  # type: ignore[union-attr]


async def test_a_command_that_came_to_nothing(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        asked = await app.command(run, "count", by="mira")
        await app.decide(asked.holds[0], fail("nobody counts"), by="mira")

        done = await run.command("c1", timeout=20)
        assert done.outcome == Failed(error="Errored", message="nobody counts")


async def test_a_retried_command_with_its_key_is_the_same_command(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        one = await app.command(run, "note", {"text": "x"}, by="mira", key="k")
        two = await app.command(run, "note", {"text": "x"}, by="mira", key="k")

        assert (one, desk.notes) == (two, ["x"])
        with pytest.raises(KeyReused):
            await app.command(run, "note", {"text": "y"}, by="mira", key="k")
        asked = await app.command(run, "wipe", by="mira", key="w")
        assert await app.command(run, "wipe", by="mira", key="w") == asked


async def test_many_retries_at_once_are_one_command(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        found = await asyncio.gather(
            *[app.command(run, "note", {"text": "x"}, by="mira", key="k") for _ in range(8)],
        )

        assert (len({one.call_id for one in found}), desk.notes) == (1, ["x"])


@pytest.mark.parametrize(
    "by", ["bob", Principal(kind="service", id="mira"), Principal(kind="agent", id="teller")]
)
async def test_only_whoever_started_the_run_commands_it(place: Place, by: Any) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        before = await types(app, run)
        with pytest.raises(NotAllowed):
            await app.command(run, "note", {"text": "x"}, by=by)

        assert (desk.notes, await types(app, run)) == ([], before)


async def test_nothing_is_told_to_a_run_that_is_over(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await completed(run)
        with pytest.raises(RunFinished):
            await app.command(run, "note", {"text": "x"}, by="mira")
        with pytest.raises(UnknownRun):
            await app.command("run_01kdvdna009fznp6ds4q8afwec", "note", {}, by="mira")

        assert desk.notes == []


async def test_a_run_is_complete_only_after_the_commands_it_has_started(place: Place) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await go.wait()
        return "slow"

    desk = Desk(waits=False)
    teller = agent([call("work"), say("Done.")], *desk.agent.tools.values(), commands=[slow])
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        command = asyncio.ensure_future(app.command(run, "slow", by="mira", timeout=20))
        await asyncio.wait_for(started.wait(), 20)
        desk.stop.set()
        await until(lambda: _finished_calls(app, run, 1))
        assert await run.status() == "running"
        go.set()
        done = await command
        view = await completed(run)

        assert (done.status, view.output) == ("done", "Done.")
        names = await types(app, run)
        assert names.index("run.completed") == len(names) - 1


async def _finished_calls(app: Any, run: Any, count: int) -> bool:
    return (await types(app, run)).count("call.finished") >= count


@pytest.mark.parametrize("name", ["wipe", "count"])
async def test_what_commands_still_ask_is_withdrawn_when_the_run_is_complete(
    place: Place, name: str
) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        own = await held(run)
        asked = await app.command(run, name, by="mira")
        await app.decide(own, approve(), by="mira")
        await completed(run)

        done = await run.command("c1", timeout=20)
        assert (done.status, type(done.outcome)) == ("done", Declined)
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(asked.holds[0], approve(), by="mira")
        assert refused.value.decision.word == "withdrawn"
        assert not list(await app.holds())


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_body_of_a_command_is_told_that_the_run_is_complete(
    place: Place, bounds: Bounds
) -> None:
    desk = Desk()
    async with place.app(desk.agent, bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        own = await held(run)
        await app.command(run, "talk", by="mira")
        await app.decide(own, approve(), by="mira")
        await completed(run)

        done = await run.command("c1", timeout=20)
        assert isinstance(done.outcome, Failed)
        assert (done.outcome.error, desk.notes[-1]) == ("NotAnswered", "no answer: withdrawn")


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_body_of_a_command_that_keeps_asking_does_not_keep_the_run(
    place: Place, bounds: Bounds
) -> None:
    asked: list[str] = []

    @tool(durable=True)
    async def nag(ctx: Context) -> str:
        while True:
            try:
                return await ctx.ask("What note?")
            except NotAnswered as error:
                asked.append(error.decision.word)

    desk = Desk()
    teller = agent([call("pay"), say("Done.")], desk.agent.tools["pay"], commands=[nag])
    async with place.app(teller, bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        own = await held(run)
        await app.command(run, "nag", by="mira")
        await app.decide(own, approve(), by="mira")
        await completed(run)

        done = await run.command("c1", timeout=20)
        assert isinstance(done.outcome, Failed)
        assert done.outcome.error == "Cancelled"
        assert asked == ["withdrawn"]
        assert (await types(app, run)).count("hold.opened") == 3


async def test_cancelling_a_run_ends_its_commands(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        await app.command(run, "wipe", by="mira")
        await app.command(run, "talk", by="mira")
        await app.cancel(run, by="mira")
        view = await finished(run)

        assert view.status == "cancelled"
        assert not list(await app.holds())
        assert [type((await run.command(ref)).outcome) for ref in ("c1", "c2")] == [
            Declined,
            Failed,
        ]


async def test_commands_of_two_do_not_get_lost(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        await asyncio.gather(
            *[app.command(run, "note", {"text": str(n)}, by="mira") for n in range(12)]
        )

        assert sorted(desk.notes, key=int) == [str(n) for n in range(12)]
        received = [
            one for one in await journal(app.store, run.id) if one.type == "command.received"
        ]
        assert [one.event.call.ref for one in received] == [f"c{n}" for n in range(1, 13)]


def test_a_tool_and_a_command_of_one_name_are_one_thing_or_refused() -> None:
    @tool(name="x")
    async def one() -> None: ...

    @tool(name="x")
    async def two() -> None: ...

    assert agent([], one, commands=[one]).commands["x"] is one
    with pytest.raises(BadAgent):
        agent([], one, commands=[two])


async def test_the_journal_of_a_run_with_commands_keeps_every_promise(place: Place) -> None:
    desk = Desk()
    async with place.app(desk.agent) as app:
        run = await app.start("teller", "go", by="mira")
        own = await held(run)
        await app.command(run, "note", {"text": "x"}, by="mira")
        asked = await app.command(run, "wipe", by="mira")
        await app.decide(asked.holds[0], approve(), by="mira")
        await run.command("c2", timeout=20)
        await app.decide(own, approve(), by="mira")
        await completed(run)

        await judge(app.store, place.world, ("pay", "wipe"))
