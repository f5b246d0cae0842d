"""What `Sayso` itself promises: what it takes, what it refuses, and in which words."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sayso import Agent, Policy, Returned, Rule, Sayso, answer, anyone, approve, tool, user
from sayso.engine.ports import Answer, Prompt
from sayso.errors import (
    BadAgent,
    BadPolicy,
    BadSetup,
    BadTool,
    BadValue,
    NotAllowed,
    RunWaiting,
    StoreError,
    UnknownAgent,
    UnknownHold,
    UnknownRun,
    WrongVerdict,
)
from sayso.testing import ScriptedModel, call, say

WAIT_S = 20.0
SCRIPT = [call("pay", {"amount": 200}), say("Paid.")]


def plain(amount: float) -> str:
    """Pay."""
    return f"paid {amount}"


pay = tool(approval=True)(plain)


def teller(*tools: Any, **options: Any) -> Agent:
    options.setdefault("model", ScriptedModel(SCRIPT))
    return Agent("teller", tools=tools or (tool(approval=True, name="pay")(plain),), **options)


# What it is made of.


@pytest.mark.parametrize("things", [[plain], [plain, pay], ["pay"], pay, "pay", None, 5])
def test_what_is_no_list_of_tools_is_refused(things: Any) -> None:
    with pytest.raises(BadTool, match="tool"):
        Sayso("memory:", tools=things)


async def test_a_plain_function_does_not_pass_the_gate() -> None:
    async with Sayso("memory:") as app:
        with pytest.raises(BadTool, match=r"'plain' is a plain function.*@tool"):
            await app.gate(plain, {"amount": 1}, by="mira")  # type: ignore[arg-type]

        assert len(await app.holds(status="any")) == 0


@pytest.mark.parametrize("things", [teller(), "teller", ["teller"], [pay], None, 5])
def test_what_is_no_list_of_agents_is_refused(things: Any) -> None:
    with pytest.raises(BadAgent, match="agent"):
        Sayso("memory:", agents=things)


@pytest.mark.parametrize("policy", [Rule("pay"), [Rule("pay")], "strict"])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(BadPolicy, match=r"Policy\(Rule"):
        Sayso("memory:", policy=policy)


def test_a_check_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(BadSetup, match="check_for_intervention"):
        Sayso("memory:", check_for_intervention=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("store", [None, 5, object()])
async def test_what_is_no_store_is_refused(store: Any) -> None:
    with pytest.raises(BadSetup, match="not a store"):
        await Sayso(store).open()


async def test_a_store_in_a_directory_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="its directory is not there; make it first"):
        await Sayso(tmp_path / "no" / "pay.db").open()

    assert list(tmp_path.iterdir()) == []


async def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a directory: name a file"):
        await Sayso(tmp_path).open()

    assert list(tmp_path.iterdir()) == []


async def test_one_approver_need_not_be_in_a_list() -> None:
    policy = Policy(Rule("pay", approvers=user("ann")))
    async with Sayso("memory:", agents=[teller()], policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds

        assert hold.approvers == ("user:ann",)


async def test_approvers_of_a_rule_come_in_place_of_the_owner() -> None:
    policy = Policy(Rule("pay", approvers=[anyone]))
    async with Sayso("memory:", agents=[teller()], policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds
        await app.decide(hold, approve(), by="somebody else")

        assert (await run.wait(final=True, timeout=WAIT_S)).output == "Paid."


# Models.


async def test_a_model_without_its_extra_stops_the_program_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    app = Sayso(tmp_path / "pay.db", agents=[teller(model="openai:gpt-5")])

    with pytest.raises(BadSetup, match=r'pip install "sayso\[models\]"'):
        await app.open()

    assert list(tmp_path.iterdir()) == []


async def test_whoever_only_decides_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)

    async with Sayso("memory:", agents=[teller(model="openai:gpt-5")], work=False) as app:
        assert len(await app.holds()) == 0


class Line:
    """A model that can be hung up on."""

    name = "line"

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.closed = 0

    async def answer(self, prompt: Prompt, emit: Any) -> Answer:
        assert not self.closed
        return Answer(text="hello")

    async def aclose(self) -> None:
        self.closed += 1
        if self.trouble is not None:
            raise self.trouble


async def test_closing_closes_the_models() -> None:
    line = Line()
    async with Sayso("memory:", agents=[Agent("teller", model=line)]) as app:
        run = await app.start("teller", "x", by="mira")
        assert (await run.wait(final=True, timeout=WAIT_S)).output == "hello"
        assert line.closed == 0

    assert line.closed == 1


async def test_a_model_that_does_not_close_leaves_nothing_else_open(tmp_path: Path) -> None:
    lines = [Line(), Line(OSError("stuck")), Line()]
    agents = [Agent(f"a{n}", model=line) for n, line in enumerate(lines)]
    app = Sayso(tmp_path / "pay.db", agents=agents)
    await app.open()
    store = app.store

    with pytest.raises(OSError, match="stuck"):
        await app.close()

    assert [line.closed for line in lines] == [1, 1, 1]
    with pytest.raises(StoreError):
        await store.load("run_1")


def test_serving_outside_the_main_thread_is_refused() -> None:
    told: list[BaseException] = []

    def serve() -> None:
        try:
            asyncio.run(Sayso("memory:").serve())
        except BadSetup as error:
            told.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join(WAIT_S)

    assert "main thread" in str(told[0])


# Handles and views in place of ids.


async def test_a_handle_does_where_an_id_does() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds
        assert await app.hold(hold) == await run.hold(hold) == hold
        await app.decide(hold, approve(), by="mira")

        seen = [entry.type async for entry in app.events(run)]

        assert seen[-1] == "run.completed"
        view = await app.run(run).view()
        assert await app.run(view).view() == view


async def test_what_is_no_run_is_told_without_a_dump() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold: Any = (await run.wait(timeout=WAIT_S)).holds[0]

        for door in (
            lambda: app.say(hold, "x", by="mira"),
            lambda: app.cancel(hold, by="mira"),
            lambda: app.redact(hold, 1, by="mira"),
            lambda: app.run(hold).view(),
        ):
            with pytest.raises(UnknownRun, match="HoldView is no run"):
                await door()
        with pytest.raises(BadValue, match="'x'"):
            app.events(run, after="x")  # type: ignore[arg-type]


async def test_the_view_of_a_run_is_told_from_a_hold_by_name() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        view: Any = await run.wait(timeout=WAIT_S)

        for door in (
            lambda: app.decide(view, approve(), by="mira"),
            lambda: app.undo(view, by="mira"),
            lambda: app.hold(view),
        ):
            with pytest.raises(UnknownHold, match=f"'{view.holds[0].id}'") as told:
                await door()
            assert len(str(told.value)) < 200
        for other in (
            lambda: app.resume(view, approve(), by="mira"),
            lambda: app.decide(object(), approve(), by="mira"),  # type: ignore[arg-type]
            lambda: run.hold(view),
        ):
            with pytest.raises(UnknownHold) as told:
                await other()
            assert len(str(told.value)) < 200


# Words.


async def test_the_wrong_person_learns_whom_a_hold_asks() -> None:
    policy = Policy(Rule("pay", approvers=[user("ann"), user("bob")]))
    async with Sayso("memory:", agents=[teller()], policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds
        said = f"mira may not decide '{hold.id}': it asks ann or bob"

        with pytest.raises(NotAllowed, match=said):
            await app.decide(hold, approve(), by="mira")
        await app.decide(hold, approve(), by="ann")
        await run.wait(final=True, timeout=WAIT_S)
        with pytest.raises(NotAllowed, match=said):
            await app.decide(hold, approve(), by="mira")


async def test_a_verdict_that_does_not_fit_names_those_that_do() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds

        with pytest.raises(WrongVerdict) as told:
            await app.decide(hold, answer(1), by="mira")
        assert "answer(value) does not answer" in str(told.value)
        assert "use approve(), reject('why')" in str(told.value)
        with pytest.raises(WrongVerdict, match=r"reject\('why'\)"):
            await app.decide(hold, "yes", by="mira")  # type: ignore[arg-type]


async def test_an_unknown_agent_is_told_from_those_there_are() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        with pytest.raises(UnknownAgent, match=r"the agents are: teller$"):
            await app.start("tailor", "x", by="mira")
    async with Sayso("memory:") as app:
        with pytest.raises(UnknownAgent, match=r"Sayso\(agents=\[\.\.\.\]\)"):
            await app.start("tailor", "x", by="mira")


async def test_a_run_that_waits_says_how_to_speak_to_it_all_the_same() -> None:
    async with Sayso("memory:", agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        await run.wait(timeout=WAIT_S)

        with pytest.raises(RunWaiting, match=r"say\(\.\.\., supersede=True\)"):
            await app.say(run, "Wait", by="mira")


async def test_an_edit_where_the_agent_is_not_known_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "pay.db"
    async with Sayso(path, agents=[teller()]) as app:
        run = await app.start("teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=WAIT_S)).holds
    async with Sayso(path, work=False) as app:
        with pytest.raises(WrongVerdict, match=r"agent 'teller' is not known.*agents=\[\.\.\.\]"):
            await app.decide(hold, approve(args={"amount": 1}), by="mira")

        assert (await app.hold(hold)).status == "open"


async def test_an_outcome_shows_what_was_returned() -> None:
    free = tool(name="pay")(plain)
    async with Sayso("memory:", tools=[free]) as app:
        outcome = await app.gate("pay", {"amount": 2}, by="mira")

    assert isinstance(outcome, Returned)
    assert repr(outcome) == 'Returned(value="paid 2.0")'
