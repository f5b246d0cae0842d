"""What looking a store over finds."""

from __future__ import annotations

from sayso.errors import StoreClosed
from sayso.store.base import LEASE_MS, Store
from sayso.store.checkup import BEHIND_MAX_MS, LEVELS, Finding
from sayso.testing.contract.case import StoreCase, refused, write


class CheckupContract(StoreCase):
    """What is wrong is found, and looking changes nothing."""

    async def test_a_store_is_looked_over_without_being_changed(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write("run_1", owner="w1"), write("run_2", status="suspended"))
            before = [await store.load("run_1"), await store.tail()]

            found = await store.checkup()

            names = [one.name for one in found]
            assert len(set(names)) == len(names)
            assert {"clock", "keys", "origin", "workers"} <= set(names)
            assert all(one.level in LEVELS and one.text and not one.run_id for one in found)
            assert [one for one in found if one.level == "problem"] == []
            assert [await store.load("run_1"), await store.tail()] == before

    async def test_a_clock_behind_the_last_entry_is_found(self) -> None:
        async with self.opened() as store:
            assert (await _look(store, "clock")).level == "ok"
            await store.append(write("run_1"))

            self.clock.step_wall(-BEHIND_MAX_MS)
            assert (await _look(store, "clock")).level == "ok"
            self.clock.step_wall(-60_000)
            assert (await _look(store, "clock")).level == "problem"

    async def test_workers_are_told_apart_by_whether_they_were_heard_of(self) -> None:
        async with self.opened() as store:
            assert (await _look(store, "workers")).level == "ok"
            await store.append(write("run_1"))
            nobody = await _look(store, "workers")
            await store.beat("w1")
            await store.claim("w1")
            alive = await _look(store, "workers")
            self.clock.advance(LEASE_MS)
            silent = await _look(store, "workers")
            await store.beat("w1")
            heard_of = await _look(store, "workers")

            assert nobody.level == "warning"
            assert "1 run could go on" in nobody.text
            assert alive.level == heard_of.level == "ok"
            assert silent.level == "warning"
            assert "w1" in silent.text

    async def test_a_closed_store_is_not_looked_over(self) -> None:
        async with self.opened() as store:
            await store.close()

            await refused(StoreClosed, store.checkup())


async def _look(store: Store, name: str) -> Finding:
    (found,) = [one for one in await store.checkup() if one.name == name]
    return found
