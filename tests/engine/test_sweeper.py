"""What the sweeper cannot deal with must not hide what it can: not even whole pages of it.

Method: more than a page of runs that nobody here can read or drive come first on the list; then a
real one. The sweeper is called by hand, and only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from sayso import Agent, Bounds, Context, RunHandle, Sayso, approve, tool
from sayso.engine.sweeper import AT_ONCE
from sayso.errors import StoreBusy
from sayso.store.base import PAGE_MAX, Appended, Lost, Store, Write
from sayso.testing import call, say
from sayso.testing.contract.case import write

from .kit import PATIENCE_S, Delegate, Place, agent, completed, held, tags, until

BY_HAND = Bounds(look_s=600.0)
GONE = "worker_gone"


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Store]:
    store = await place.store()
    try:
        yield store
    finally:
        if place.kind == "sqlite":
            await store.close()


async def fill(place: Place, **fields: Any) -> None:
    """Keep more than a page of runs whose state is no state."""
    async with opened(place) as store:
        await store.append(*(write(f"run_{n}", **fields) for n in range(PAGE_MAX + 1)))


class Counted(Delegate):
    """A store that counts what it is asked."""

    loads = 0
    lists = 0

    async def load(self, run_id: str) -> Any:
        self.loads += 1
        return await self.inner.load(run_id)

    async def due(self, **how: Any) -> Any:
        self.lists += 1
        return await self.inner.due(**how)


async def test_runs_that_cannot_be_read_hide_none_that_is_due(place: Place) -> None:
    @tool(approval=True, within="1h")
    async def pay() -> str:
        return "paid"

    await fill(place, status="suspended", due_at=1)
    async with place.app(agent([call("pay"), say("x")], pay), bounds=BY_HAND) as app:
        run = await app.start("teller", "x", by="mira")
        await held(run)
        place.clock.advance("1h")

        await app.sweep()

        await completed(run)


async def test_a_sweep_comes_to_an_end_though_nothing_can_be_dealt_with(place: Place) -> None:
    made: list[Counted] = []

    def wrap(store: Store) -> Counted:
        made.append(Counted(store))
        return made[-1]

    await fill(place, status="suspended", due_at=1)
    async with place.app(agent([say("x")]), wrap=wrap, bounds=BY_HAND, work=False) as app:
        assert await app.sweep() == 0

        assert made[0].lists == 2


@pytest.mark.parametrize("others", ["stranger", "teller"], ids=["of others", "unreadable"])
async def test_runs_that_cannot_be_rescued_hide_none_that_can(place: Place, others: str) -> None:
    await fill(place, agent=others, owner=GONE)
    async with place.app(agent([say("x")]), bounds=BY_HAND, work=False) as app:
        run = await app.start("teller", "x", by="mira")
    async with opened(place) as store:
        assert await store.claim(GONE, agents=["teller"]) == [run.id]

    async with place.app(agent([say("x")]), bounds=BY_HAND) as app:
        await app.sweep()

        await completed(app.run(run.id))


async def test_runs_of_agents_that_are_not_known_here_are_not_even_read(place: Place) -> None:
    made: list[Counted] = []

    def wrap(store: Store) -> Counted:
        made.append(Counted(store))
        return made[-1]

    await fill(place, agent="stranger", owner=GONE)
    async with place.app(agent([say("x")]), wrap=wrap, bounds=BY_HAND) as app:
        await app.sweep()

        assert made[0].loads == 0


class Crowded(Delegate):
    """A store that sees how many appends are under way, and may refuse one of them."""

    under_way = 0
    most = 0
    refuses = 0

    async def append(self, *writes: Write) -> Appended:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.refuses -= 1
        try:
            if not self.refuses:
                raise StoreBusy
            return await self.inner.append(*writes)
        finally:
            self.under_way -= 1


@tool(approval=True, within="1h")
async def pay() -> str:
    return "paid"


@tool(approval=True, within="1d")
async def wait() -> str:
    return "waited"


@asynccontextmanager
async def crowd(place: Place, count: int) -> AsyncIterator[tuple[Sayso, Crowded, list[RunHandle]]]:
    """Park runs with one deadline, and let it come."""
    made: list[Crowded] = []

    def wrap(store: Store) -> Crowded:
        made.append(Crowded(store))
        return made[-1]

    async with place.app(agent([call("pay"), say("x")], pay), bounds=BY_HAND) as app:
        runs = [await app.start("teller", "x", by="mira") for _ in range(count)]
        for run in runs:
            await held(run)
    place.clock.advance("1h")
    async with place.app(agent([say("x")], pay), wrap=wrap, bounds=BY_HAND, work=False) as app:
        yield app, made[0], [app.run(run.id) for run in runs]


async def test_runs_with_one_deadline_expire_beside_each_other(place: Place) -> None:
    async with crowd(place, 3 * AT_ONCE + 1) as (app, store, runs):
        assert await app.sweep() == len(runs)

        assert 1 < store.most <= AT_ONCE
        assert {(await run.view()).status for run in runs} == {"running"}
        assert await app.sweep() == 0


async def test_what_the_store_cannot_do_ends_a_sweep_and_the_next_goes_on(place: Place) -> None:
    async with crowd(place, 3 * AT_ONCE) as (app, store, runs):
        # The first, before any other is through and its place is taken by the next.
        store.refuses = 1

        with pytest.raises(StoreBusy):
            await app.sweep()

        # Nothing is left behind that would go on by itself, and nothing was begun after it failed.
        assert store.under_way == 0
        left = [run for run in runs if (await run.view()).holds]
        assert len(left) == 2 * AT_ONCE + 1
        assert await app.sweep() == len(left)
        assert not [run for run in runs if (await run.view()).holds]


async def test_people_decide_while_many_expire(place: Place) -> None:
    async with place.app(agent([call("wait"), say("x")], wait, name="other")) as app:
        later = await held(await app.start("other", "x", by="mira"))
    async with crowd(place, 12 * AT_ONCE) as (app, _, runs):
        sweeping = asyncio.create_task(app.sweep())
        await asyncio.sleep(0)

        await app.decide(later, approve(), by="mira")

        assert not sweeping.done()
        assert await sweeping == len(runs)


class Rescuing(Delegate):
    """A store that notes in what order runs are taken over, and how many at a time."""

    def __init__(self, inner: Store, made: list[Rescuing], all_see: asyncio.Event) -> None:
        super().__init__(inner)
        self.order: list[str] = []
        self.under_way = 0
        self.most = 0
        self._made, self._all_see = made, all_see
        self._sees = False

    async def lost(self, **how: Any) -> list[Lost]:
        """Nobody begins before all of them see what is lost."""
        found = await self.inner.lost(**how)
        if found:
            self._sees = True
            if all(store._sees for store in self._made):
                self._all_see.set()
            await asyncio.wait_for(self._all_see.wait(), PATIENCE_S)
        return found

    async def append(self, *writes: Write) -> Appended:  # pyright: ignore[reportIncompatibleMethodOverride]
        if "run.taken_over" not in tags(writes):
            return await self.inner.append(*writes)
        self.order.append(writes[0].run)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self.inner.append(*writes)
        finally:
            self.under_way -= 1


async def test_what_a_dead_worker_has_left_is_taken_over_from_several_sides(
    place: Place,
) -> None:
    """Or hundreds of runs would wait in line, and every sweeper stand at the same end of it."""
    made: list[Rescuing] = []
    all_see = asyncio.Event()

    def wrap(store: Store) -> Rescuing:
        made.append(Rescuing(store, made, all_see))
        return made[-1]

    count = 6 * AT_ONCE
    async with place.app(agent([say("x")]), bounds=BY_HAND, work=False) as app:
        runs = [await app.start("teller", "x", by="mira") for _ in range(count)]
    async with opened(place) as store:
        await store.beat(GONE)
        assert len(await store.claim(GONE, limit=count)) == count
    async with AsyncExitStack() as stack:
        apps = [
            await stack.enter_async_context(place.app(agent([say("x")]), wrap=wrap, bounds=BY_HAND))
            for _ in range(3)
        ]
        place.clock.advance("1m")
        for app in apps:
            assert app._worker is not None
            await app.store.beat(app._worker.id)
        await asyncio.gather(*(app.sweep() for app in apps))

        for run in runs:
            await completed(apps[0].run(run.id))
    assert max(store.most for store in made) >= AT_ONCE
    assert len({store.order[0] for store in made if store.order}) > 1


async def test_no_more_is_taken_over_at_once_than_there_is_room_for(place: Place) -> None:
    gate, inside = asyncio.Event(), list[str]()

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        inside.append(ctx.run_id)
        await gate.wait()
        return "seen"

    def teller() -> Agent:
        return agent(lambda messages: call("look") if len(messages) == 1 else say("x"), look)

    async with place.app(teller(), bounds=BY_HAND, work=False) as app:
        runs = [await app.start("teller", "x", by="mira") for _ in range(20)]
    async with opened(place) as store:
        await store.beat(GONE)
        assert len(await store.claim(GONE, limit=20)) == 20
    place.clock.advance("1m")
    async with place.app(teller(), bounds=Bounds(look_s=600.0, runs_max=2)) as app:
        await app.sweep()
        await until(lambda: len(inside) >= 2)
        await app.sweep()
        rows = [await app.store.load(run.id) for run in runs]
        assert sum(row is not None and row.owner != GONE for row in rows) == 2

        gate.set()
        while len(inside) < len(runs):
            await app.sweep()
            await asyncio.sleep(0.01)
        for run in runs:
            await completed(app.run(run.id))
