"""What the sweeper cannot deal with must not hide what it can: not even whole pages of it.

Method: more than a page of runs that nobody here can read or drive come first on the list; then a
real one. The sweeper is called by hand, and only once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sayso import Bounds, tool
from sayso.store.base import PAGE_MAX, Store
from sayso.testing import call, say
from sayso.testing.contract.case import write

from .kit import Delegate, Place, agent, completed, held

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
