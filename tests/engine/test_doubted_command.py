"""A command in doubt when the model has nothing more to say: the run waits for a person, with its
answer on record, and is complete once somebody has said what happened.

Method: the model of whoever goes on afterwards would say something else.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from sayso import (
    Agent,
    CommandView,
    Machine,
    Message,
    Node,
    RunHandle,
    RunView,
    Sayso,
    Unknown,
    Verdict,
    answer,
    approve,
    fail,
    reject,
    tool,
)
from sayso.errors import RunWaiting
from sayso.testing import ScriptedModel, call, say

from .judge import judge
from .kit import (
    Child,
    Place,
    completed,
    finished,
    held,
    suspended,
    types,
    until,
)

ANSWER = "worked, and no more to say"


class Press:
    """An agent that works until it may stop, and a printer that does not always say what it did."""

    def __init__(self, *, faults: int = 1, says: str = ANSWER) -> None:
        self.stop, self.done = asyncio.Event(), asyncio.Event()
        self.asked: list[int] = []
        self.printed = 0

        @tool(effect="once")
        async def work() -> str:
            await self.stop.wait()
            return "worked"

        @tool(effect="once")
        async def issue() -> str:
            self.printed += 1
            if self.printed <= faults:
                raise TimeoutError("the printer did not answer")
            return "printed"

        @tool(effect="once")
        async def wait() -> str:
            await self.done.wait()
            return "waited"

        @tool(approval=True, effect="once")
        async def burn() -> str:
            return "burnt"

        def turn(messages: tuple[Message, ...]) -> Any:
            self.asked.append(len(messages))
            return call("work") if len(messages) == 1 else say(says)

        self.model = ScriptedModel(turn)
        self.tools = [work]
        self.commands = [issue, wait, burn]

    def agent(self, **options: Any) -> Agent:
        return Agent("press", model=self.model, tools=self.tools, commands=self.commands, **options)

    def machine(self) -> Machine:
        node = Node("root", tools=self.tools, commands=self.commands)
        return Machine("press", model=self.model, nodes=[node], root="root")


async def doubted(app: Sayso, press: Press) -> tuple[RunHandle, CommandView, RunView]:
    """Let a command be in doubt, and then the model come to its end."""
    run = await app.start("press", "go", by="mira")
    asked = await app.command(run, "issue", by="mira", timeout=20)
    assert await run.status() == "running"
    press.stop.set()
    return run, asked, await suspended(run)


@pytest.mark.parametrize("kind", [Press.agent, Press.machine], ids=["agent", "machine"])
async def test_a_run_that_waits_only_for_word_on_a_command_costs_no_worker(
    place: Place, kind: Callable[[Press], Agent | Machine]
) -> None:
    press, other = Press(), Press(says="something else")
    async with place.app(kind(press)) as app:
        run, asked, view = await doubted(app, press)
        row = await app.store.load(run.id)

        assert row is not None
        assert (row.owner, view.output) == ("", None)
        assert [(one.id, one.kind) for one in view.holds] == [(asked.holds[0], "in_doubt")]
        assert view.messages[-1].text == ANSWER  # type: ignore[union-attr]
    async with place.app(kind(other), work=False) as desk:
        await desk.decide(asked.holds[0], answer("printed"), by="mira")
    async with place.app(kind(other)) as app:
        view = await completed(app.run(run.id))
        done = await app.run(run.id).command("c1")

        assert (view.output, other.asked) == (ANSWER, [])
        assert done.outcome is not None
        assert done.outcome.result() == "printed"  # type: ignore[union-attr]
        assert (await types(app, run.id))[-5:] == [
            "run.suspended",
            "hold.settled",
            "call.finished",
            "run.resumed",
            "run.completed",
        ]
        await judge(app.store, place.world, ("burn",))


async def test_it_outlives_a_process_that_is_killed(file_place: Place) -> None:
    place, press = file_place, Press(says="something else")
    teller = Agent("teller", model=press.model, commands=press.commands)
    with Child(place, do="serve", doubted=True) as worker:
        await worker.said("ready")
        async with place.app(teller, work=False) as desk:
            run = await desk.start("teller", "Pay", by="mira")
            pay = await held(run)
            asked = await desk.command(run, "issue", by="mira", timeout=20)
            await desk.decide(pay, approve(), by="mira")
            await until(lambda: "second" in worker.words)
            view = await suspended(run)
            worker.signal(signal.SIGKILL)
            await worker.gone()

            assert [one.id for one in view.holds] == list(asked.holds)
            await desk.decide(asked.holds[0], fail("nobody can tell"), by="mira")
    async with place.app(teller) as app:
        view = await completed(app.run(run.id))

        assert (view.output, press.asked) == ("done", [])
        assert "run.taken_over" not in await types(app, run.id)


@pytest.mark.parametrize(
    "verdict",
    [approve(), answer("printed"), reject("it did not"), fail("who knows")],
    ids=["approve", "answer", "reject", "fail"],
)
async def test_whatever_people_say_of_it_the_run_is_complete_after_that(
    place: Place, verdict: Verdict
) -> None:
    press = Press()
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
        await app.decide(asked.holds[0], verdict, by="mira")
        view = await completed(run)

    assert (view.output, press.asked) == (ANSWER, [1, 3])
    assert press.printed == (2 if verdict == approve() else 1)


async def test_a_doubt_about_a_second_attempt_is_waited_for_as_well(place: Place) -> None:
    press = Press(faults=2)
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
        await app.decide(asked.holds[0], approve(), by="mira")
        await until(lambda: press.printed == 2)
        hold = await held(run)

        assert (hold.kind, hold.id in asked.holds) == ("in_doubt", False)
        await app.decide(hold, answer("printed"), by="mira")
        assert (await completed(run)).output == ANSWER


async def test_what_is_commanded_meanwhile_is_waited_for(place: Place) -> None:
    press = Press()
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
        waiting = asyncio.ensure_future(app.command(run, "wait", by="mira", timeout=20))
        burn = await app.command(run, "burn", by="mira", timeout=20)
        await app.decide(asked.holds[0], answer("printed"), by="mira")
        press.done.set()
        done = await waiting

        assert done.status == "done"
        assert [one.id for one in (await suspended(run)).holds] == list(burn.holds)
        await app.decide(burn.holds[0], approve(), by="mira")
        view = await completed(run)

    assert (view.output, press.asked) == (ANSWER, [1, 3])


async def test_a_run_is_not_complete_while_a_command_is_under_way(place: Place) -> None:
    press = Press()
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
        waiting = asyncio.ensure_future(app.command(run, "wait", by="mira", timeout=20))
        await until(lambda: _count(app, run, "command.received", 2))
        await app.decide(asked.holds[0], answer("printed"), by="mira")
        await until(lambda: _count(app, run, "call.finished", 2))

        assert await run.status() == "running"
        press.done.set()
        assert (await waiting).status == "done"
        assert (await completed(run)).output == ANSWER


async def _count(app: Sayso, run: RunHandle, kind: str, count: int) -> bool:
    return (await types(app, run)).count(kind) == count


async def test_what_is_said_before_it_is_complete_is_answered_first(place: Place) -> None:
    press = Press()
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
    async with place.app(press.agent(), work=False) as desk:
        with pytest.raises(RunWaiting):
            await desk.say(run.id, "Hurry.", by="mira")
        await desk.decide(asked.holds[0], answer("printed"), by="mira")
        await desk.say(run.id, "Thanks.", by="mira")
    async with place.app(press.agent()) as app:
        view = await completed(app.run(run.id))

    assert (view.output, press.asked) == (ANSWER, [1, 3, 5])


async def test_an_agent_that_wants_another_answer_by_now_says_so(place: Place) -> None:
    press, other = Press(), Press(says="7")
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
    async with place.app(other.agent(output=int)) as app:
        await app.decide(asked.holds[0], answer("printed"), by="mira")
        view = await completed(app.run(run.id))

    assert (view.output, other.asked) == (7, [5])
    assert "cannot be used" in view.messages[-2].text  # type: ignore[union-attr]


async def test_it_can_be_cancelled(place: Place) -> None:
    press = Press()
    async with place.app(press.agent()) as app:
        run, asked, _ = await doubted(app, press)
        await app.cancel(run, by="mira")
        await app.decide(asked.holds[0], fail("who knows"), by="mira")
        view = await finished(run)
        done = await run.command("c1")

    assert (view.status, press.asked) == ("cancelled", [1, 3])
    assert isinstance(done.outcome, Unknown)
