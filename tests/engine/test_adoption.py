"""Whole runs out of one store and into another: nothing is lost, and nothing starts by itself that
a person had allowed elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso import (
    Agent,
    Bounds,
    Context,
    Notice,
    Policy,
    Principal,
    Rule,
    RunHandle,
    Sayso,
    answer,
    approve,
    reject,
    spawn,
    tool,
    user,
)
from sayso.domain.hold import HoldStatus
from sayso.domain.run import FOLD, FOLD_LIKE
from sayso.engine import adopt as adoption
from sayso.errors import (
    BadExport,
    BrokenChain,
    CommitUnknown,
    KeyReused,
    NotAllowed,
    NotUnderstood,
    RunExists,
    StaleRun,
    ThreadBusy,
    UnknownAgent,
    UnknownRun,
    WorkerMayLive,
)
from sayso.store import chain, export
from sayso.store.audit import verify
from sayso.store.base import Appended, RunRow, Write
from sayso.store.journal import read_journal, recorded
from sayso.store.keyring import VARIABLE, KeyRing, new_key
from sayso.testing import ScriptedModel, call, say

from .judge import judge
from .kit import (
    Delegate,
    Place,
    World,
    agent,
    completed,
    entries,
    held,
    suspended,
    tags,
    types,
    until,
)

SCRIPT = [call("pay", {"amount": 12400.0}), say("Paid.")]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> str:
    """Both stores have the same keys."""
    key = new_key()
    monkeypatch.setenv(VARIABLE, key)
    return key


@pytest.fixture
def home(tmp_path: Path) -> Place:
    return Place("sqlite", tmp_path / "home")


@pytest.fixture(params=["memory", "sqlite"])
def away(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "away")


def teller(world: World, script: Any = None, **options: Any) -> Agent:
    @tool(approval=True, effect="once")
    def pay(ctx: Context, amount: float) -> str:
        """Pay."""
        world.act(ctx, {"amount": amount})
        return f"paid {amount}"

    return agent(script or SCRIPT, pay, **options)


async def sent(app: Sayso, run: RunHandle | str, by: str = "mira") -> dict[str, Any]:
    """Export a run, and send it as JSON."""
    return json.loads(json.dumps(await app.export(run, by=by)))


async def suspended_at(home: Place, **options: Any) -> dict[str, Any]:
    """A run that waits at home for leave to pay, exported."""
    async with home.app(teller(home.world, **options)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        return await sent(app, run)


async def approved_at(home: Place, **options: Any) -> dict[str, Any]:
    """A run that has leave to pay at home, and nobody there to do it, exported."""
    data = await suspended_at(home, **options)
    async with home.app(teller(home.world), work=False) as app:
        (hold,) = await app.holds(by="mira")
        await app.decide(hold, approve(), by="mira")
        return await sent(app, data["run"])


async def payloads(app: Sayso, run_id: str) -> list[bytes]:
    return [entry.payload for entry in await read_journal(app.store, run_id)]


async def test_a_suspended_run_goes_on_elsewhere(home: Place, away: Place) -> None:
    async with home.app(teller(home.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        before = await suspended(run)
        data = await sent(app, run)
        said = await payloads(app, run.id)

    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")
        view = await suspended(run)

        assert run.id == before.id
        assert view.messages == before.messages
        assert view.holds == before.holds
        assert (await payloads(app, run.id))[: len(said)] == said
        assert (await app.holds(by="mira")).items == before.holds
        await app.decide(view.holds[0], approve(), by="mira")
        assert (await completed(run)).output == "Paid."
        assert away.world.effects() == [f"{run.id}.1.0"]
        await judge(app.store, away.world, gated=("pay",))


async def test_a_run_may_work_elsewhere_for_as_long_as_it_has_left(
    home: Place, away: Place
) -> None:
    data = await approved_at(home, timeout="10m")
    home.clock.advance("1d")
    away.clock.advance("2d")
    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")
        await app.decide(await held(run), approve(), by="mira")

        assert (await completed(run)).output == "Paid."


async def test_an_adopted_run_says_where_it_came_from(home: Place, away: Place) -> None:
    data = await suspended_at(home)
    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")

        journal = await read_journal(app.store, run.id)
        told = recorded(journal[len(data["runs"][0]["entries"])]).event
        assert (told.by.id, told.head) == ("mira", data["runs"][0]["head"])
        assert told.source.startswith(f"{home.path} at 20")
        assert list(told.times) == [entry["at"] for entry in data["runs"][0]["entries"]]


async def test_a_run_can_come_back_as_it_was_but_for_its_travels(home: Place, away: Place) -> None:
    data = await suspended_at(home)
    async with away.app(teller(away.world)) as app:
        await app.adopt(data, by="mira")
        again = await sent(app, data["run"])

    (there,), (here,) = data["runs"], again["runs"]
    more = len(there["entries"])
    for name in ("seq", "type", "payload"):
        kept = [entry[name] for entry in there["entries"]]
        assert [entry[name] for entry in here["entries"]][:more] == kept
    assert [entry["type"] for entry in here["entries"]][more:] == ["run.adopted"]
    third = Place("memory", home.path.parent / "third")
    async with third.app(teller(third.world)) as app:
        run = await app.adopt(again, by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await completed(run)
        await judge(app.store, third.world, gated=("pay",))


async def test_what_was_approved_elsewhere_is_asked_again(home: Place, away: Place) -> None:
    data = await approved_at(home)
    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)

        assert hold.why == "Asked again: it was approved elsewhere before the run was adopted here."
        assert (hold.kind, hold.args) == ("approval", {"amount": 12400.0})
        assert away.world.effects() == []
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        assert away.world.effects() == [f"{run.id}.1.0"]
        await judge(app.store, away.world, gated=("pay",))


async def test_a_decision_that_did_not_count_yet_is_dropped(home: Place, away: Place) -> None:
    async with home.app(teller(home.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await app.decide(await held(run), approve(), by="mira", undo="10s")
        data = await sent(app, run)
    away.clock.advance("1h")

    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")
        await app.sweep()
        hold = await held(run)

        assert (hold.status, hold.decision) == (HoldStatus.OPEN, None)
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        await judge(app.store, away.world, gated=("pay",))


async def test_a_call_under_way_is_in_doubt(home: Place, away: Place) -> None:
    leave, inside = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def pay(ctx: Context, amount: float) -> str:
        inside.set()
        await leave.wait()
        home.world.act(ctx, {"amount": amount})
        return "paid"

    async with home.app(agent(SCRIPT, pay)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await inside.wait()
        data = await sent(app, run)
        leave.set()
        await completed(run)

    async with away.app(agent(SCRIPT, pay)) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)

        assert (hold.kind, hold.title) == ("in_doubt", "Did pay happen?")
        assert hold.doubt == "it was under way elsewhere when the run was adopted here"
        assert (await app.doubt(hold)).life.state == "elsewhere"
        with pytest.raises(WorkerMayLive, match="another store"):
            await app.decide(hold, approve(), by="mira")
        await app.decide(hold, answer("it was paid"), by="mira")
        assert (await completed(run)).output == "Paid."
        assert home.world.effects() == [f"{run.id}.1.0"]
        await judge(app.store)


async def test_a_doubt_from_elsewhere_may_be_alive_there(home: Place, away: Place) -> None:
    end = threading.Event()

    @tool(effect="once", timeout="50ms")
    def pay(amount: float) -> str:
        end.wait()
        return "paid"

    async with home.app(agent(SCRIPT, pay)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        assert (await app.doubt(await held(run))).life.state == "alive"
        data = await sent(app, run)

    async with away.app(agent(SCRIPT, pay), work=False) as app:
        hold = await held(await app.adopt(data, by="mira"))
        view = await app.doubt(hold)

        assert (view.life.state, view.may_live) == ("elsewhere", True)
        with pytest.raises(WorkerMayLive, match="another store"):
            await app.decide(hold, approve(), by="mira")
        await app.decide(hold, approve(), by="mira", even_if_alive=True)
    end.set()


async def test_whoever_is_asked_here_is_told_of_what_was_asked_elsewhere(
    home: Place, away: Place
) -> None:
    hourly = Policy(Rule("pay", remind_every="1h"))
    async with home.app(teller(home.world), policy=hourly) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        data = await sent(app, run)

    told: list[Notice] = []
    away.clock.advance("90m")
    still = Bounds(look_s=60.0)
    async with away.app(teller(away.world), notify=told.append, bounds=still) as app:
        hold = await held(await app.adopt(data, by="mira"))
        await app.sweep()
        assert [(one.kind, one.hold.id) for one in told] == [("asked", hold.id)]
        opened = int(hold.opened_at.timestamp() * 1000)
        assert await app.store.outbox.next_due() == opened + 2 * 3_600_000

        await app.decide(hold, reject("no"), by="mira")
        assert await app.store.outbox.next_due() is None


async def test_those_whom_the_rules_here_name_are_asked_about_a_call_in_doubt(
    home: Place, away: Place
) -> None:
    inside = asyncio.Event()

    @tool(effect="once")
    async def pay(amount: float) -> str:
        inside.set()
        return await asyncio.Event().wait() and "never"

    async with home.app(agent(SCRIPT, pay), drain_s=0.0) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await inside.wait()
        data = await sent(app, run)

    rules = Policy(Rule("pay", approvers=[user("boss")]))
    async with away.app(agent(SCRIPT, pay), policy=rules) as app:
        hold = await held(await app.adopt(data, by="mira"))
        assert hold.approvers == ("user:boss",)


async def test_a_body_before_its_first_step_begins_again_once_a_person_lets_it(
    home: Place, away: Place
) -> None:
    leave, inside = asyncio.Event(), asyncio.Event()

    @tool(durable=True)
    async def book() -> str:
        inside.set()
        await leave.wait()
        return "booked"

    script = [call("book", {}), say("Booked.")]
    async with home.app(agent(script, book)) as app:
        run = await app.start("teller", "Book", by="mira")
        await inside.wait()
        data = await sent(app, run)
        leave.set()

    async with away.app(agent(script, book)) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title) == ("in_doubt", "Go on with book here?")
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        await judge(app.store)


@pytest.mark.parametrize("effect", ["once", "none"])
async def test_a_body_at_a_step_is_in_doubt_or_takes_it_again(
    home: Place, away: Place, effect: str
) -> None:
    leave, inside, taken = asyncio.Event(), asyncio.Event(), list[str]()

    async def reserve() -> str:
        taken.append("reserve")
        inside.set()
        await leave.wait()
        return "room 7"

    @tool(durable=True)
    async def book(ctx: Context) -> str:
        return await ctx.step("reserve", reserve, effect=effect)

    script = [call("book", {}), say("Booked.")]
    async with home.app(agent(script, book)) as app:
        run = await app.start("teller", "Book", by="mira")
        await inside.wait()
        data = await sent(app, run)
        leave.set()

    async with away.app(agent(script, book)) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)
        assert (hold.kind, len(taken)) == ("in_doubt", 1)
        await app.decide(hold, answer("room 8") if effect == "once" else approve(), by="mira")
        await completed(run)
        assert len(taken) == (1 if effect == "once" else 2)
        await judge(app.store)


async def test_a_body_that_was_answered_goes_on_with_its_sealed_answer(
    home: Place, away: Place
) -> None:
    @tool(durable=True)
    async def unlock(ctx: Context) -> str:
        code = await ctx.ask("The code?", sensitive=True)
        return f"{len(code)} digits, and {code == '123456'}"

    script = [call("unlock", {}), say("Open.")]
    async with home.app(agent(script, unlock)) as app:
        run = await app.start("teller", "Unlock", by="mira")
        await held(run)
    async with home.app(agent(script, unlock), work=False) as app:
        (hold,) = await app.holds(by="mira")
        await app.decide(hold, answer("123456"), by="mira")
        data = await sent(app, run.id)
    assert "123456" not in json.dumps(data)

    async with away.app(agent(script, unlock)) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title) == ("in_doubt", "Go on with unlock here?")
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        assert view.messages[-2].outcome.result() == "6 digits, and True"
        await judge(app.store)


@pytest.mark.parametrize("exported", ["answered", "between two steps"])
async def test_one_yes_inside_a_body_pays_once_in_both_stores(
    home: Place, away: Place, exported: str
) -> None:
    paid, leave, inside = list[str](), asyncio.Event(), asyncio.Event()

    @tool(durable=True)
    async def settle(ctx: Context) -> str:
        if not await ctx.approval("Pay?"):
            return "not paid"
        await ctx.step("look", lambda: None)
        inside.set()
        await leave.wait()
        await ctx.step("pay", lambda: paid.append("here"))
        return "paid"

    script = [call("settle", {}), say("Paid.")]
    async with home.app(agent(script, settle)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        if exported == "between two steps":
            await app.decide(hold, approve(), by="mira")
            await inside.wait()
            data = await sent(app, run)
            leave.set()
            await completed(run)
    if exported == "answered":
        async with home.app(agent(script, settle), work=False) as app:
            await app.decide(hold, approve(), by="mira")
            data = await sent(app, run.id)
        leave.set()
        async with home.app(agent(script, settle)) as app:
            await completed(app.run(run.id))
    assert paid == ["here"]

    async with away.app(agent(script, settle)) as app:
        moved = await app.adopt(data, by="mira")
        hold = await held(moved)
        assert (hold.kind, paid) == ("in_doubt", ["here"])
        await app.decide(hold, reject("it is paid"), by="mira")
        await completed(moved)
        assert paid == ["here"]
        await judge(app.store)


async def test_silence_approves_nothing_that_was_asked_elsewhere(home: Place, away: Place) -> None:
    def silent(world: World) -> Agent:
        @tool(approval=True, within="1h", on_silence="approve")
        def pay(ctx: Context, amount: float) -> str:
            world.act(ctx, {"amount": amount})
            return "paid"

        return agent(SCRIPT, pay)

    async with home.app(silent(home.world)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        data = await sent(app, run)

    async with away.app(silent(away.world)) as app:
        run = await app.adopt(data, by="mira")
        before = await held(run)
        away.clock.advance("61m")
        view = await completed(run)

        assert away.world.effects() == []
        assert "nobody decided in time" in repr(view.messages[-2].outcome)
        assert before.deadline is not None


def tree(world: World) -> list[Agent]:
    def boss(name: str, below: str) -> Agent:
        script = [call("spawn", {"agent": below, "input": "go"}), say(f"{name} done")]
        return Agent(name, model=ScriptedModel(script), tools=[spawn(below)])

    return [boss("top", "mid"), boss("mid", "teller"), teller(world)]


async def test_a_run_takes_the_runs_below_it_along(home: Place, away: Place) -> None:
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        before = await suspended(run)
        data = await sent(app, run)
    assert [one["agent"] for one in data["runs"]] == ["top", "mid", "teller"]

    appends: list[tuple[Write, ...]] = []

    class Watching(Delegate):
        def append(self, *writes: Write) -> Any:
            appends.append(writes)
            return self.inner.append(*writes)

    async with away.app(*tree(away.world), wrap=Watching) as app:
        run = await app.adopt(data, by="mira")
        assert [write.run for write in appends[0]] == [one["id"] for one in data["runs"]]
        assert all("run.adopted" in tags([write]) for write in appends[0])
        view = await suspended(run)
        assert view.holds == before.holds
        await app.decide(view.holds[0], approve(), by="mira")
        assert (await completed(run)).output == "top done"
        assert len(away.world.effects()) == 1
        assert (await verify(app.store)).faults == []


async def test_a_run_goes_with_those_it_waited_for_and_not_without_the_one_above(
    home: Place, away: Place
) -> None:
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        (hold,) = (await suspended(run)).holds
        with pytest.raises(BadExport, match=f"part of '{run.id}'") as refused:
            await app.export(hold.run_id, by="mira")
        assert refused.value.reason == "part"
        await app.decide(hold, approve(), by="mira")
        before = await completed(run)
        data = await sent(app, run)

    async with away.app() as app:
        run = await app.adopt(data, by="mira")

        assert replace(await run.view(), seq=before.seq) == before
        assert [one["status"] for one in data["runs"]] == ["completed"] * 3
        assert (await verify(app.store)).faults == []


async def test_what_was_erased_stays_erased(home: Place, away: Place) -> None:
    async with home.app(teller(home.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await app.decide(await held(run), approve(), by="mira")
        await completed(run)
        await app.redact(run, 1, by="mira")
        before = await run.view()
        data = await sent(app, run)
    assert "Jiro" not in json.dumps(data)
    assert len(data["runs"][0]["entries"][0]["erased"]) == 64

    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")

        assert replace(await run.view(), seq=before.seq) == before
        assert (await app.hold(hold)).decision == hold.decision
        report = await verify(app.store)
        assert (report.faults, report.redacted) == ([], 1)
        assert (await read_journal(app.store, run.id))[0].redacted
        again = await sent(app, run)
        assert again["runs"][0]["entries"][0]["type"] == "redacted"


async def test_a_retried_start_finds_the_run_that_was_adopted(home: Place, away: Place) -> None:
    how = {"by": "mira", "key": "k1", "metadata": {"a": 1.0}}
    async with home.app(teller(home.world)) as app:
        data = await sent(app, await app.start("teller", "Pay Jiro", **how))

    async with away.app(teller(away.world)) as app:
        run = await app.adopt(data, by="mira")

        assert (await app.start("teller", "Pay Jiro", **how)).id == run.id
        with pytest.raises(KeyReused):
            await app.start("teller", "Pay Ann", **how)


async def test_a_conversation_is_adopted_from_its_beginning(home: Place, away: Place) -> None:
    async with home.app(agent([say("Hello."), say("Again.")])) as app:
        first = await app.start("teller", "Hi", by="mira", thread="t")
        await completed(first)
        second = await app.say(first, "And?", by="mira")
        await completed(second)
        data = [await sent(app, run) for run in (first, second)]

    async with away.app(agent([say("Hello."), say("Again."), say("Third.")])) as app:
        with pytest.raises(UnknownRun, match=f"{first.id}.*first"):
            await app.adopt(data[1], by="mira")
        for one in data:
            await app.adopt(one, by="mira")
        third = await app.say(second.id, "Well?", by="mira")
        await completed(third)
        heard = await app._parts.ledger.transcript(third.id)
        texts = [message.text for message in heard.messages()]
        assert texts == ["Hi", "Hello.", "And?", "Again.", "Well?", "Third."]


async def test_a_busy_thread_takes_in_no_second_run(home: Place, away: Place) -> None:
    async with home.app(teller(home.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira", thread="t")
        await suspended(run)
        data = await sent(app, run)

    async with away.app(teller(away.world)) as app:
        await suspended(await app.start("teller", "Pay Ann", by="mira", thread="t"))
        with pytest.raises(ThreadBusy):
            await app.adopt(data, by="mira")
        assert await app.store.load(run.id) is None


@asynccontextmanager
async def refusing(away: Place, *agents: Agent) -> AsyncIterator[Sayso]:
    """An app that takes nothing in."""
    async with away.app(*agents) as app:
        yield app
        assert await entries(app.store) == []


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every leaf of some JSON is."""
    if not isinstance(data, dict | list):
        return [path]
    inside = data.items() if isinstance(data, dict) else enumerate(data)
    return [found for key, value in inside for found in leaves(value, (*path, key))]


def flip(value: Any, how: int) -> Any:
    """Another leaf in place of this one."""
    if isinstance(value, str):
        at = how % (len(value) + 1)
        return value[:at] + ("x" if value[at : at + 1] != "x" else "y") + value[at + 1 :]
    return [value + 1, -value - 1, float(value), bool(value), None, str(value)][how % 6]


async def test_whatever_was_edited_is_refused(home: Place, away: Place) -> None:
    data = await approved_at(home)
    async with refusing(away, teller(away.world)) as app:
        loop = asyncio.get_running_loop()

        def adopt(edited: Any) -> None:
            asyncio.run_coroutine_threadsafe(app.adopt(edited, by="mira"), loop).result()

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(where=st.sampled_from(leaves(data)), how=st.integers(0, 500))
        def edit(where: tuple[Any, ...], how: int) -> None:
            edited = json.loads(json.dumps(data))
            holder = edited
            for key in where[:-1]:
                holder = holder[key]
            holder[where[-1]] = flip(holder[where[-1]], how)
            with pytest.raises(BadExport):
                adopt(edited)

        await asyncio.to_thread(edit)


def cut_entry(data: Any) -> None:
    data["runs"][0]["entries"].pop()


def add_field(data: Any) -> None:
    data["runs"][0]["more"] = 1


def swap(data: Any) -> None:
    data["runs"][0]["entries"].reverse()


def unsigned(data: Any) -> None:
    del data["signature"]


def newer(data: Any) -> None:
    data["version"] += 1


def circle(data: Any) -> None:
    data["runs"].append(data)


def deep(data: Any) -> None:
    inner: Any = []
    for _ in range(100_000):
        inner = [inner]
    data["runs"] = inner


def nothing(data: Any) -> None:
    data.clear()


def not_a_number(data: Any) -> None:
    data["exported_at"] = float("nan")


def not_json(data: Any) -> None:
    data["project"] = b"default"


def huge(data: Any) -> None:
    data["runs"] = ["x" * 1_000_000] * 70


EDITS: list[tuple[Callable[[Any], None], str]] = [
    (cut_entry, "signature"),
    (add_field, "signature"),
    (swap, "signature"),
    (unsigned, "signature"),
    (newer, "version"),
    (circle, "format"),
    (deep, "format"),
    (nothing, "format"),
    (not_a_number, "format"),
    (not_json, "format"),
    (huge, "size"),
]


@pytest.mark.parametrize("edit, reason", EDITS, ids=lambda one: getattr(one, "__name__", one))
async def test_it_is_said_which_check_data_did_not_pass(
    home: Place, away: Place, edit: Callable[[Any], None], reason: str
) -> None:
    data = await suspended_at(home)
    edit(data)

    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(data, by="mira")
        assert refused.value.reason == reason


@pytest.mark.parametrize("data", [None, [], "{}", 7, {}, {"format": "sayso.export", "version": 0}])
async def test_what_is_no_export_is_refused(away: Place, data: Any) -> None:
    async with refusing(away) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(data, by="mira")
        assert refused.value.reason == "format"


async def test_data_of_a_store_with_other_keys_is_refused(
    home: Place, away: Place, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = await suspended_at(home)
    monkeypatch.setenv(VARIABLE, new_key())
    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(data, by="mira")
        assert refused.value.reason == "signature"

    monkeypatch.setenv(VARIABLE, f"{new_key()},{keys}")
    async with away.app(teller(away.world)) as app:
        await app.adopt(data, by="mira")


async def test_a_signature_for_something_else_does_not_do(home: Place, away: Place) -> None:
    data = await suspended_at(home)
    signature = data.pop("signature")
    signed = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    assert KeyRing.load().verify("export", signed, signature)
    data["signature"] = KeyRing.load().sign("answer", signed)

    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(BadExport):
            await app.adopt(data, by="mira")


def forged(data: dict[str, Any], edit: Callable[[Any], None], *, chained: bool = True) -> Any:
    """What somebody with the keys, or older code of ours, might sign."""
    edit(data)
    for run in data["runs"] if chained else ():
        prev = chain.GENESIS
        for seq, one in enumerate(run["entries"], start=1):
            content = chain.leaf(bytes.fromhex(one["salt"]), one["payload"].encode())
            place = {"run_id": run["id"], "seq": seq, "at": one["at"], "content": content}
            prev = chain.link(prev, entry_id=bytes.fromhex(one["id"]), **place)
            one.update(seq=seq, hash=prev.hex())
        run["head"] = prev.hex()
    data.pop("signature")
    signed = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return {**data, "signature": KeyRing.load().sign("export", signed)}


def twice(data: Any) -> None:
    data["runs"][0]["entries"].insert(1, dict(data["runs"][0]["entries"][0]))


def odd_tag(data: Any) -> None:
    one = data["runs"][0]["entries"][-1]
    one["payload"] = one["payload"].replace("suspended.1", "suspended.9")


def no_entries(data: Any) -> None:
    data["runs"][0]["entries"].clear()


def other_run(data: Any) -> None:
    data["runs"][0]["id"] = data["run"] = "run_other"


def half(data: Any) -> None:
    del data["runs"][-1]


def headless(data: Any) -> None:
    del data["runs"][0]


def other_first(data: Any) -> None:
    data["run"] = data["runs"][1]["id"]


def no_runs(data: Any) -> None:
    data["runs"].clear()


def doubled(data: Any) -> None:
    data["runs"].append(data["runs"][-1])


def only_child(data: Any) -> None:
    del data["runs"][:-1]
    data["run"] = data["runs"][0]["id"]


@pytest.mark.parametrize("edit", [twice, odd_tag, no_entries, other_run])
async def test_events_that_do_not_replay_are_refused(
    home: Place, away: Place, edit: Callable[[Any], None]
) -> None:
    data = forged(await suspended_at(home), edit)

    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(NotUnderstood):
            await app.adopt(data, by="mira")


@pytest.mark.parametrize("edit", [half, headless, other_first, no_runs, doubled, only_child])
async def test_half_a_run_is_refused(home: Place, away: Place, edit: Callable[[Any], None]) -> None:
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        await suspended(run)
        data = forged(await sent(app, run), edit)

    async with refusing(away, *tree(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(data, by="mira")
        assert refused.value.reason == "part"


async def test_a_run_that_waits_for_one_that_is_over_is_refused(home: Place, away: Place) -> None:
    """Nothing would ever wake it: the end of the one below is told in the same append."""
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        view = await suspended(run)
        data = await sent(app, run)
        await app.decide(view.holds[0], approve(), by="mira")
        await completed(run)
        later = await sent(app, run)

    def tear(torn: Any) -> None:
        torn["runs"][1:] = later["runs"][1:]

    async with refusing(away, *tree(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(forged(data, tear), by="mira")
        assert refused.value.reason == "part"


async def test_a_run_of_another_tree_is_refused(home: Place, away: Place) -> None:
    async with home.app(*tree(home.world)) as app:
        runs = [await app.start(name, "Pay Jiro", by="mira") for name in ("top", "teller")]
        trees = [await sent(app, one) for one in runs if await suspended(one)]

    def stray(data: Any) -> None:
        data["runs"].append(trees[0]["runs"][-1])

    async with refusing(away, *tree(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(forged(trees[1], stray), by="mira")
        assert refused.value.reason == "part"


@pytest.mark.parametrize(
    "finished, fold",
    [(False, FOLD), (True, FOLD + 1), (True, FOLD), (True, FOLD_LIKE), (True, FOLD_LIKE - 1)],
)
async def test_a_state_is_taken_on_trust_only_where_nothing_can_follow_from_it(
    home: Place, away: Place, finished: bool, fold: int
) -> None:
    async with home.app(teller(home.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        if finished:
            await app.cancel(run, by="mira")
        data = await sent(app, run)
        row = await app.store.load(run.id)

    def erase(data: Any) -> None:
        found = data["runs"][0]
        first = found["entries"][0]
        erased = chain.leaf(bytes.fromhex(first.pop("salt")), first.pop("payload").encode())
        first["erased"] = erased.hex()
        found.update(fold=fold, state=row.state.decode())

    data = forged(data, erase, chained=False)
    if finished and FOLD_LIKE <= fold <= FOLD:
        async with away.app(teller(away.world)) as app:
            await app.adopt(data, by="mira")
        return
    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(NotUnderstood):
            await app.adopt(data, by="mira")


async def test_a_chain_that_does_not_hold_is_refused_whoever_signed_it(
    home: Place, away: Place
) -> None:
    data = forged(await suspended_at(home), cut_entry, chained=False)

    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(BadExport) as refused:
            await app.adopt(data, by="mira")
        assert refused.value.reason == "chain"


async def test_a_journal_that_was_changed_is_not_exported(tmp_path: Path) -> None:
    place = Place("memory", tmp_path)
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        journals = app.store._kept.journals
        first, *rest = journals[run.id]
        changed = first.payload.replace(b"Jiro", b"Mira")
        journals[run.id] = (replace(first, payload=changed), *rest)

        with pytest.raises(BrokenChain):
            await app.export(run, by="mira")


async def test_a_run_that_is_here_already_is_refused(home: Place, away: Place) -> None:
    data = await suspended_at(home)
    async with home.app(teller(home.world)) as app:
        with pytest.raises(RunExists):
            await app.adopt(data, by="mira")
    async with away.app(teller(away.world)) as app:
        await app.adopt(data, by="mira")
        before = await entries(app.store)
        with pytest.raises(RunExists):
            await app.adopt(data, by="mira")
        assert await entries(app.store) == before


async def test_of_two_who_adopt_at_once_one_wins(home: Place, tmp_path: Path) -> None:
    data = await suspended_at(home)
    away = Place("sqlite", tmp_path / "away")
    async with away.app(teller(away.world)) as one, away.app(teller(away.world)) as other:
        found = await asyncio.gather(
            *[app.adopt(data, by="mira") for app in (one, other) for _ in range(4)],
            return_exceptions=True,
        )

        assert sorted(type(each).__name__ for each in found) == ["RunExists"] * 7 + ["RunHandle"]
        assert len(await entries(one.store)) == len(data["runs"][0]["entries"]) + 1
        await judge(one.store)


async def test_a_run_below_that_is_here_already_leaves_all_as_it_was(
    home: Place, away: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        await suspended(run)
        data = await sent(app, run)

    class Blind(Delegate):
        """Whoever looks too early sees nothing: the guard of the append has to do."""

        looks = 0

        async def load(self, run_id: str) -> RunRow | None:
            self.looks += 1
            return None if self.looks <= 3 else await self.inner.load(run_id)

    below = data["runs"][-1]["id"]
    async with away.app(teller(away.world)) as app:
        await suspended(await app.start("teller", "Mine", by="mira", id=below))
        before = await entries(app.store)
    async with away.app(*tree(away.world), wrap=Blind, work=False) as app:
        with pytest.raises(RunExists, match=below):
            await app.adopt(data, by="mira")
        assert await entries(app.store) == before


async def test_an_agent_that_is_not_known_here_is_refused(home: Place, away: Place) -> None:
    data = await suspended_at(home)
    async with refusing(away, agent(SCRIPT, name="other")) as app:
        with pytest.raises(UnknownAgent, match="'teller'"):
            await app.adopt(data, by="mira")


@pytest.mark.parametrize("by", ["ann", Principal(kind="service", id="mira")])
async def test_only_the_owner_exports_and_adopts(home: Place, away: Place, by: Any) -> None:
    data = await suspended_at(home)
    async with home.app(teller(home.world)) as app:
        with pytest.raises(NotAllowed):
            await app.export(data["run"], by=by)
        with pytest.raises(UnknownRun):
            await app.export("run_none", by=by)
    async with refusing(away, teller(away.world)) as app:
        with pytest.raises(NotAllowed):
            await app.adopt(data, by=by)


async def test_an_answer_that_was_lost_is_looked_for(home: Place, away: Place) -> None:
    data = await suspended_at(home)

    class Forgetful(Delegate):
        async def append(self, *writes: Write) -> Appended:
            await self.inner.append(*writes)
            raise CommitUnknown

    class Failing(Delegate):
        async def append(self, *writes: Write) -> Appended:
            raise CommitUnknown

    async with away.app(teller(away.world), wrap=Failing, work=False) as app:
        with pytest.raises(CommitUnknown):
            await app.adopt(data, by="mira")
    async with away.app(teller(away.world), wrap=Forgetful, work=False) as app:
        await suspended(await app.adopt(data, by="mira"))


async def test_a_run_is_exported_as_of_one_moment(home: Place) -> None:
    """The end of a run below and what it does to the one above are never torn apart."""

    class Moving(Delegate):
        """Shows rows that have moved on when they are looked at again."""

        moves = 5

        async def load(self, run_id: str) -> RunRow | None:
            row = await self.inner.load(run_id)
            self.moves -= 1
            return replace(row, last=bytes([self.moves] * 8)) if self.moves > 0 else row

    stores: list[Moving] = []

    def wrap(store: Any) -> Moving:
        stores.append(Moving(store))
        return stores[0]

    data = await suspended_at(home)
    async with home.app(teller(home.world), wrap=wrap, work=False) as app:
        stores[0].moves = 5
        again = await sent(app, data["run"])
        assert again["runs"] == data["runs"]
        stores[0].moves = 255
        with pytest.raises(StaleRun):
            await app.export(data["run"], by="mira")


async def test_an_export_has_bounds(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with home.app(*tree(home.world)) as app:
        run = await app.start("top", "Pay Jiro", by="mira")
        await suspended(run)
        monkeypatch.setattr(adoption, "RUNS_MAX", 2)
        with pytest.raises(BadExport) as runs:
            await app.export(run, by="mira")
        monkeypatch.setattr(adoption, "RUNS_MAX", 3)
        monkeypatch.setattr(export, "BYTES_MAX", 1000)
        with pytest.raises(BadExport) as size:
            await app.export(run, by="mira")
        assert runs.value.reason == size.value.reason == "size"


async def test_an_adopted_run_that_can_go_on_is_taken_up(home: Place, away: Place) -> None:
    asked = asyncio.Event()

    class Slow:
        name = "slow"

        async def answer(self, prompt: Any, emit: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async with home.app(Agent("teller", model=Slow()), drain_s=0.0) as app:
        run = await app.start("teller", "Hi", by="mira")
        await asked.wait()
        data = await sent(app, run)

    async with away.app(agent([say("Hello.")])) as app:
        run = await app.adopt(data, by="mira")
        assert (await completed(run)).output == "Hello."
        assert await types(app, run) == [
            "run.started",
            "run.adopted",
            "turn.taken",
            "run.completed",
        ]
    await until(lambda: True)
