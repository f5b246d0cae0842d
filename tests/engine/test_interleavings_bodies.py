"""Hold up any operation of bodies that wait and of runs that wait for runs: nothing is lost.

The method is that of `test_interleavings.py`: the real engine in virtual time, two workers with
their sweepers, a person at a desk in a third process, and every single operation on the store (in
the soak, every pair) held up: for a moment, or with its whole process past every lease and timeout.

At the end nobody may be running with nobody at work, suspended with nothing open below, or waiting
for a run that has ended; no step was taken twice without a decision to do so, and what was answered
has arrived. The same search finds such faults as soon as the guards against them are taken out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sayso import (
    Agent,
    Bounds,
    Context,
    HoldView,
    Sayso,
    ToolMessage,
    answer,
    approve,
    reject,
    spawn,
    tool,
)
from sayso.domain import codec
from sayso.errors import AlreadyDecided, Refused, RunFinished, WrongVerdict
from sayso.store.journal import replay
from sayso.store.memory import MemoryStore
from sayso.store.query import RunQuery
from sayso.testing import ScriptedModel, call, say
from tests.engine.simulation import Plan, VirtualClock, delayed, end_of_day, run_virtual
from tests.engine.test_interleavings import Lawless

MOMENT_S, STOPPED_S = 0.5, 90.0
RUN = "run_tale"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What is told."""

    children: int = 0
    """How many runs below it are asked; none: it asks itself."""
    stay_hot_s: float = 30.0
    decides_after_s: float = 0.0
    """How long people take to answer."""
    cancels_after_s: float | None = None
    slow_s: float = 0.0
    """How long a step takes."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is left at the end of the day."""

    operations: list[str]
    statuses: dict[str, str]
    fault: str


class Tale:
    """What happens, and in which processes."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.took: Counter[str] = Counter()

    def agents(self) -> list[Agent]:
        async def take(name: str) -> str:
            await asyncio.sleep(self.shape.slow_s)
            self.took[name] += 1
            return name

        @tool(durable=True, timeout="30s")
        async def work(ctx: Context) -> list[Any]:
            first = await ctx.step("first", take, f"{ctx.run_id} first")
            name = await ctx.ask("Name?")
            return [first, name, await ctx.step("last", take, f"{ctx.run_id} last")]

        worker = Agent("worker", model=ScriptedModel([call("work"), say("Done.")]), tools=[work])
        tasks = [{"agent": "worker", "input": str(n)} for n in range(self.shape.children)]
        root = Agent(
            "root",
            model=ScriptedModel([call("spawn", {"tasks": tasks}), say("Done.")]),
            tools=[spawn(worker)],
        )
        return [worker, root]

    def open(self, store: Any, **options: Any) -> Sayso:
        bounds = Bounds(look_s=10.0, stay_hot_s=self.shape.stay_hot_s)
        return Sayso(store, agents=self.agents(), bounds=bounds, drain_s=0, **options)

    async def start_and_decide(self, desk: Sayso) -> None:
        """Be the person: answer, all that is asked at once, and look into what is in doubt."""
        root = "root" if self.shape.children else "worker"
        await desk.start(root, "Go", by="mira", id=RUN)
        run = desk.run(RUN)
        while not (view := await run.wait(held=True)).final:
            await asyncio.sleep(self.shape.decides_after_s)
            await asyncio.gather(*(self._decide(desk, hold) for hold in view.holds))
            await asyncio.sleep(0.1)

    async def _decide(self, desk: Sayso, hold: HoldView) -> None:
        verdict: Any = answer("Ann")
        if hold.kind == "in_doubt":
            # Nobody is asked before the worker was certainly over its step.
            done = [step for step in ("first", "last") if f"'{step}'" in hold.doubt]
            name = f"{hold.run_id} {done[0]}" if done else ""
            verdict = answer(name) if self.took[name] else approve()
        try:
            alive = hold.kind == "in_doubt" and verdict == approve()
            await desk.decide(hold, verdict, by="mira", even_if_alive=alive)
        except WrongVerdict:
            # Not again in a run that is being cancelled.
            await desk.decide(hold, reject("it was not done"), by="mira")
        except Refused as refused:
            assert isinstance(refused, AlreadyDecided | RunFinished), refused

    async def cancel(self, desk: Sayso) -> None:
        if self.shape.cancels_after_s is None:
            return
        await asyncio.sleep(self.shape.cancels_after_s)
        try:
            await desk.cancel(RUN, by="mira")
        except Refused:
            return


async def happen(tale: Tale, plan: Plan) -> Found:
    store = MemoryStore(clock=VirtualClock())
    apps = [tale.open(delayed(store, plan, name)) for name in ("A", "B")]
    desk = tale.open(delayed(store, plan, "desk"), work=False)
    for app in (*apps, desk):
        await app.open()
    people = [
        asyncio.ensure_future(tale.start_and_decide(desk)),
        asyncio.ensure_future(tale.cancel(desk)),
    ]
    await end_of_day(store, plan)
    for task in people:
        task.cancel()
    await asyncio.gather(*people, return_exceptions=True)
    failed = [task.exception() for task in people if not task.cancelled()]
    assert not any(failed), failed
    return await look_at(store, tale, plan, desk)


async def look_at(store: MemoryStore, tale: Tale, plan: Plan, desk: Sayso) -> Found:
    rows = {row.id: row for row in await store.runs(RunQuery())}
    faults = [await _fault(store, tale, row) for row in rows.values()]
    ended = rows[RUN].status not in ("running", "suspended")
    if ended and any(row.status in ("running", "suspended") for row in rows.values()):
        faults.append("a run outlived the one that it works for")
    if rows[RUN].status == "completed":
        view = await desk.run(RUN).view()
        (outcome,) = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
        said = repr(outcome)
        wanted = ["Ann"] if not tale.shape.children else []
        if any(word not in said for word in wanted) or "error" in said:
            faults.append(f"the wrong result: {said}")
    return Found(
        operations=plan.operations,
        statuses={row.id: row.status for row in rows.values()},
        fault="; ".join(filter(None, faults)),
    )


async def _fault(store: MemoryStore, tale: Tale, row: Any) -> str:
    state = codec.decode_run(row.state)
    if row.status == "running":
        return f"{row.id} is running with nobody to work on it"
    if row.status == "suspended":
        return f"{row.id} is suspended, and everything was answered: {state.holds}"
    if tale.shape.cancels_after_s is None and row.status != "completed":
        return f"{row.id} is {row.status}"
    for step in ("first", "last"):
        name = f"{row.id} {step}"
        # Nobody says that it may be taken again once it was.
        if tale.took[name] > 1:
            return f"{name} was taken {tale.took[name]} times"
    if await replay(store, row.id) != state:
        return "its row is not what its journal says"
    return ""


def tell(delays: dict[int, tuple[float, bool]], shape: Shape) -> Found:
    return run_virtual(happen(Tale(shape), Plan(delays)))


def search(shape: Shape, *, pairs: bool) -> Iterator[Found]:
    """Tell the tale undisturbed, then with each operation, and each pair, held up."""
    whole = tell({}, shape)
    yield whole
    delays = ((MOMENT_S, False), (STOPPED_S, True))
    places = range(1, len(whole.operations) + 1)
    for place, delay in itertools.product(places, delays):
        yield tell({place: delay}, shape)
    if pairs:
        for first, second in itertools.combinations(places, 2):
            for one, two in itertools.product(delays, delays):
                yield tell({first: one, second: two}, shape)


SHAPES: dict[str, Shape] = {
    "hot": Shape(),
    "parked": Shape(stay_hot_s=0),
    "parked as it is answered": Shape(stay_hot_s=2, decides_after_s=2),
    "slow steps": Shape(slow_s=5),
    "cancelled as it is answered": Shape(decides_after_s=1, cancels_after_s=1),
    "two below end at once": Shape(children=2),
    "one below ends as all is cancelled": Shape(
        children=1, decides_after_s=1, cancels_after_s=1.0, slow_s=0.01
    ),
    "two below, cancelled while one works": Shape(
        children=2, decides_after_s=1, cancels_after_s=3, slow_s=1
    ),
}


def check(name: str, *, pairs: bool) -> None:
    count = 0
    for found in search(SHAPES[name], pairs=pairs):
        assert not found.fault, (found.fault, found)
        count += 1
    # A search that never reached the dangerous places has tested nothing.
    assert count > (500 if pairs else 40)


@pytest.mark.parametrize("name", SHAPES)
def test_no_operation_held_up_loses_or_repeats_anything(name: str) -> None:
    check(name, pairs=False)


@pytest.mark.soak
@pytest.mark.parametrize("name", SHAPES)
def test_no_two_operations_held_up_lose_or_repeat_anything(name: str) -> None:
    check(name, pairs=True)


def test_without_law_9_the_search_finds_runs_that_nobody_works_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sayso, "ledger_class", Lawless)

    for name in ("parked", "two below end at once"):
        faults = (found.fault for found in search(SHAPES[name], pairs=False))

        assert any("is running with nobody to work on it" in fault for fault in faults)
