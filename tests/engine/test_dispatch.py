"""Who works on what: fair shares, bounds over all processes, and queues that fail.

Nothing here may rest on a wake-up: where one is taken away, the same comes about a little later.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sayso import Bounds, Context, Sayso, approve, tool
from sayso.store import postgres_jobs
from sayso.store.memory import MemoryStore
from sayso.testing import call, say
from sayso.testing.contract import write
from tests.postgres import Cluster

from .conftest import KEYS
from .dispatch_child import clerk, most
from .kit import Place, agent, completed, held, until

_CHILD = Path(__file__).with_name("dispatch_child.py")
SELDOM = Bounds(look_s=600.0)
"""What nobody is told of is not found."""


@contextmanager
def process(url: str, world: Path, name: str, how: str):
    child = subprocess.Popen([sys.executable, _CHILD, url, world, name, how])
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.fixture
def shared(postgres: Cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SAYSO_KEYS", KEYS)
    yield Place("postgres", tmp_path, postgres)
    postgres.lender.take_back()


def slow(gate: asyncio.Event, seen: list[str]):
    """An agent whose tool notes its run, and waits for a gate."""

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        seen.append(ctx.run_id)
        await gate.wait()
        return "seen"

    return agent(lambda messages: call("look") if len(messages) == 1 else say("Done."), look)


async def test_a_flood_of_one_project_keeps_no_other_waiting(place: Place):
    gate, seen = asyncio.Event(), list[str]()
    async with place.app(slow(gate, seen), work=False) as desk:
        await asyncio.gather(
            *(desk.start("teller", "Look", by="mira", project="flood") for _ in range(500))
        )
        one = await desk.start("teller", "Look", by="ann", project="quiet")
        bounds = Bounds(runs_max=10)
        async with place.app(slow(gate, seen), bounds=bounds, drain_s=0.0):
            await until(lambda: len(seen) == 10)

            assert one.id in seen[:10]


async def test_a_bound_on_a_project_holds_in_the_process_that_starts_its_runs(place: Place):
    gate, seen = asyncio.Event(), list[str]()
    bounds = Bounds(project_runs_max=2, look_s=600.0)
    async with place.app(slow(gate, seen), bounds=bounds) as app:
        runs = [await app.start("teller", "Look", by="mira", project="a") for _ in range(5)]
        other = await app.start("teller", "Look", by="mira", project="b")
        await until(lambda: len(seen) == 3)
        owned = Counter(
            [row.project for row in [await app.store.load(r.id) for r in runs] if row and row.owner]
        )
        assert (owned["a"], other.id in seen) == (2, True)

        gate.set()
        for run in [*runs, other]:
            await completed(run)


async def test_a_worker_takes_no_more_than_its_bound_of_what_its_own_process_starts(place: Place):
    """All at once: each start sees those that are on their way, and so does a claim."""
    gate, seen = asyncio.Event(), list[str]()
    async with (
        place.app(slow(gate, seen), bounds=Bounds(runs_max=3, look_s=600.0)) as app,
        place.app(slow(gate, seen), work=False) as desk,
    ):
        starts = [one.start("teller", "Look", by="mira") for one in (app, desk) * 20]
        runs = await asyncio.gather(*starts)
        rows = [await app.store.load(run.id) for run in runs]
        owned = [row.id for row in rows if row is not None and row.owner]

        assert 0 < len(owned) <= 3
        await until(lambda: len(seen) == 3)
        gate.set()
        for run in runs:
            await completed(run)


async def test_what_is_started_while_a_claim_is_under_way_leaves_room_for_what_it_brings():
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def claim(self, worker: str, **how: Any) -> list[str]:
            asked.set()
            await answer.wait()
            return await super().claim(worker, **how)

    store, gate, seen = Slow(), asyncio.Event(), list[str]()
    looks = slow(gate, seen)
    async with (
        Sayso(store, agents=[looks], work=False) as desk,
        Sayso(store, agents=[looks], bounds=Bounds(runs_max=1, look_s=600.0)) as app,
    ):
        await asked.wait()
        runs = [await one.start("teller", "Look", by="mira") for one in (desk, app)]
        answer.set()
        await until(lambda: seen)

        assert [(await store.load(run.id)).owner > "" for run in runs] == [True, False]
        gate.set()
        for run in runs:
            await completed(run)


async def test_what_its_own_process_decides_does_not_pass_the_bound_of_a_worker(place: Place):
    gate, inside, most = asyncio.Event(), list[str](), 0

    @tool(approval=True, effect="none")
    async def look(ctx: Context) -> str:
        nonlocal most
        inside.append(ctx.run_id)
        most = max(most, len(inside))
        await gate.wait()
        inside.remove(ctx.run_id)
        return "seen"

    asks = agent(lambda messages: call("look") if len(messages) == 1 else say("Done."), look)
    async with place.app(asks, bounds=Bounds(runs_max=3, look_s=600.0)) as app:
        runs = [await app.start("teller", "Look", by="mira") for _ in range(12)]
        holds = [(await run.wait(timeout=60)).holds[0] for run in runs]
        await asyncio.gather(*(app.decide(hold, approve(), by="mira") for hold in holds))
        await until(lambda: len(inside) == 3)
        gate.set()
        for run in runs:
            await completed(run)

        assert most == 3


async def test_room_that_becomes_free_is_filled_at_once(place: Place):
    gate, seen = asyncio.Event(), list[str]()
    gate.set()
    async with place.app(slow(gate, seen), work=False) as desk:
        runs = [await desk.start("teller", "Look", by="mira") for _ in range(5)]
        async with place.app(slow(gate, seen), bounds=Bounds(runs_max=1, look_s=600.0)):
            for run in runs:
                await completed(run)


async def test_room_that_starts_have_taken_becomes_free_again(place: Place):
    gate, seen = asyncio.Event(), list[str]()
    gate.set()
    async with place.app(slow(gate, seen), bounds=Bounds(runs_max=4, look_s=600.0)) as app:
        for _ in range(3):
            await completed(await app.start("teller", "Look", by="mira"))

        await until(lambda: app._worker.room() == 4)


async def test_two_processes_keep_to_the_bound_of_a_project(postgres: Cluster, tmp_path):
    url = postgres.database()
    async with Sayso(url, agents=[clerk(tmp_path, "desk")], work=False) as desk:
        with process(url, tmp_path, "a", "work"), process(url, tmp_path, "b", "work"):
            lines = tmp_path / "lines"
            await until(lambda: lines.exists() and lines.read_text().count("up") == 2)
            runs = await asyncio.gather(
                *(desk.start("clerk", "Look", by="mira", project=p) for p in "xy" * 10)
            )
            for run in runs:
                assert (await run.wait(final=True, timeout=60)).status == "completed"
    assert most(tmp_path) == (4, {"a", "b"}), "two of each project"


async def test_a_job_of_a_process_that_was_killed_before_it_claimed_is_picked_again(
    postgres: Cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(postgres_jobs, "SILENT_S", 1.0)
    monkeypatch.setattr(postgres_jobs, "POLL_S", 0.2)
    url = postgres.database()
    gate, seen = asyncio.Event(), list[str]()
    gate.set()
    async with Sayso(url, agents=[slow(gate, seen)], work=False) as desk:
        with process(url, tmp_path, "a", "die") as dying:
            run = await desk.start("teller", "Look", by="mira")
            await until(lambda: dying.poll() is not None)
        name = url.partition("?")[0].rpartition("/")[2]
        picked = "select status::text from sayso.work"
        assert postgres.execute(picked, name) == [("picked",)]

        async with Sayso(url, agents=[slow(gate, seen)], bounds=SELDOM):
            await until(lambda: postgres.execute(picked, name) == [])
            await completed(run)


async def work_goes_on(postgres: Cluster, place: Place, *spoil: str) -> None:
    """Decide on runs in one process while another works, and whatever is done to the queue."""
    calls = list[str]()

    @tool(approval=True)
    async def pay(ctx: Context) -> str:
        calls.append(ctx.run_id)
        return "paid"

    def teller():
        return agent(lambda m: call("pay") if len(m) == 1 else say("Done."), pay)

    def harm() -> None:
        for statement in spoil:
            postgres.execute(f"set search_path = {place._schema}; {statement}")

    async with place.app(teller(), work=False) as desk:
        harm()
        async with place.app(teller(), bounds=Bounds(look_s=0.1)):
            runs = [await desk.start("teller", "Pay", by="mira") for _ in range(5)]
            harm()
            for run in runs:
                hold = await held(run)
                await desk.decide(hold, approve(), by="mira")
                harm()
            for run in runs:
                await completed(run)
    assert sorted(calls) == sorted(run.id for run in runs)


async def test_a_queue_that_is_emptied_by_hand_costs_only_time(postgres, shared):
    await work_goes_on(postgres, shared, "truncate work")


async def test_work_goes_on_when_nothing_is_ever_called_out(postgres, shared):
    await work_goes_on(
        postgres,
        shared,
        "drop trigger if exists work_changed on work",
        "create or replace function tell(channel text, sender text, first bigint, seen bigint, "
        "moved jsonb) returns void language plpgsql as $$ begin end $$",
    )


async def test_work_goes_on_without_the_tables_of_the_queue(postgres, shared):
    await work_goes_on(postgres, shared, "drop table if exists work")


async def test_a_worker_that_drains_leaves_jobs_to_others(postgres, shared):
    gate, seen = asyncio.Event(), list[str]()
    async with shared.app(slow(gate, seen), work=False) as desk:
        first = await desk.start("teller", "Look", by="mira")
        closing: asyncio.Task[None]
        async with shared.app(slow(gate, seen)) as app:
            await until(lambda: seen == [first.id])
            closing = asyncio.create_task(app.close())
            await until(lambda: app._worker._draining)
            second = await desk.start("teller", "Look", by="mira")
            third = await desk.start("teller", "Look", by="mira")
            gate.set()
            await closing
        await completed(first)
        assert seen == [first.id]

        async with shared.app(slow(gate, seen)):
            await completed(second)
            await completed(third)


async def test_a_claim_that_comes_back_while_draining_is_left_to_others(shared):
    gate, seen = asyncio.Event(), list[str]()
    gate.set()
    async with shared.app(slow(gate, seen), work=False) as desk:
        stop = asyncio.Event()

        class Late:
            def __init__(self, store):
                self.store, self.claims = store, 0

            def __getattr__(self, name):
                return getattr(self.store, name)

            async def claim(self, *args, **how):
                found = await self.store.claim(*args, **how)
                if found:
                    self.claims += 1
                    await stop.wait()
                return found

        stores: list[Late] = []

        def wrap(store):
            stores.append(Late(store))
            return stores[0]

        async with shared.app(slow(gate, seen), wrap=wrap) as app:
            run = await desk.start("teller", "Look", by="mira")
            await until(lambda: stores[0].claims)
            closing = asyncio.create_task(app.close())
            await until(lambda: app._worker._draining)
            stop.set()
            await closing
        row = await desk.store.load(run.id)
        assert row is not None
        assert (row.owner, seen) == ("", [])


async def test_a_store_that_only_one_process_has_offers_nothing():
    from sayso.store.memory import MemoryStore

    store = MemoryStore()
    await store.append(write())
    assert store.queue is None
