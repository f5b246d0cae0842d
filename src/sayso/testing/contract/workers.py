"""What workers are promised: leases, claims, and who is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from sayso.store.base import LEASE_MS, Lost, Sight, Store
from sayso.testing.contract.case import StoreCase, write


class WorkerContract(StoreCase):
    """No run is given to two, and no run is left to nobody."""

    async def test_a_claim_takes_what_is_running_and_free_oldest_first(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write("run_1"), write("run_2"), write("run_3", agent="clerk"))
            await store.append(write("run_4", status="suspended"))
            await store.append(write("run_5", owner="w2"), write("run_6", status="completed"))

            assert await store.claim("w1", agents=["clerk", "nobody"]) == ["run_3"]
            assert await store.claim("w1", agents=[]) == []
            assert await store.claim("w1") == ["run_1"]
            assert await store.claim("w1", limit=9) == ["run_2"]
            assert await store.claim("w1", limit=9) == []

            owners = [row and row.owner for row in [await store.load("run_1")]]
            assert owners == ["w1"]

    async def test_a_claim_changes_nothing_but_the_owner(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write())
            before = await store.load("run_1")

            await store.claim("w1")

            after = await store.load("run_1")
            assert before is not None
            assert after is not None
            assert (after.seq, after.hash, after.state) == (before.seq, before.hash, before.state)
            await store.append(write(after=1, owner_was="w1"))

    async def test_no_run_is_given_to_two(self) -> None:
        async with self.opened_twice() as (one, two):
            await asyncio.gather(one.beat("w1"), two.beat("w2"))
            await one.append(*(write(f"run_{n}") for n in range(40)))

            async def take(store: Store, worker: str) -> list[str]:
                taken: list[str] = []
                while got := await store.claim(worker, limit=3):
                    taken += got
                return taken

            taken = await asyncio.gather(take(one, "w1"), take(two, "w2"), take(one, "w1"))

            runs = [run for some in taken for run in some]
            assert sorted(runs) == sorted(f"run_{n}" for n in range(40))

    async def test_a_worker_is_lost_when_its_lease_has_passed(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write("run_1", owner="w1"), write("run_2"))
            await store.append(write("run_3", status="suspended"))

            self.clock.advance(LEASE_MS - 1)
            assert await store.lost() == []
            self.clock.advance(1)
            assert await store.lost() == [Lost(run_id="run_1", worker="w1", proof="lease")]
            await store.beat("w1")
            assert await store.lost() == []

    async def test_what_is_lost_is_listed_by_agent_and_page_by_page(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            for n in range(6):
                await store.append(write(f"run_{n}", owner="w1", agent="ab"[n % 2]))
            self.clock.advance(LEASE_MS)

            async def runs(**how: Any) -> list[str]:
                return [found.run_id for found in await store.lost(**how)]

            whole, some = await runs(), await runs(agents=["b", "c"])
            assert sorted(whole) == [f"run_{n}" for n in range(6)]
            assert await runs(skip=2, limit=3) == whole[2:5]
            assert await runs(skip=6) == []
            assert sorted(some) == ["run_1", "run_3", "run_5"]
            assert await runs(agents=["b"], skip=1) == some[1:]
            assert await runs(agents=[]) == []

    async def test_a_stepped_wall_clock_kills_nobody(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write(owner="w1"))

            for step in (10**12, -2 * 10**12):
                self.clock.step_wall(step)
                assert await store.lost() == []

    async def test_a_retired_worker_leaves_its_runs_to_others(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.beat("w2")
            await store.append(write("run_1", owner="w1"), write("run_2", owner="w2"))

            await store.retire("w1")

            assert await store.lost() == []
            assert await store.claim("w2", limit=9) == ["run_1"]
            await store.retire("w1")
            await store.retire("nobody")

    async def test_a_retired_worker_may_come_back(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.retire("w1")
            await store.beat("w1")
            await store.append(write(owner="w1"))

            assert await store.lost() == []

    async def test_a_worker_is_in_sight_from_its_first_beat_until_it_retires(self) -> None:
        async with self.opened_twice() as (one, two):
            assert await one.sight("w1") is None
            await one.beat("w1")
            await one.append(write(owner="w2"))

            for store in (one, two):
                seen = await store.sight("w1")
                assert seen is not None
                assert seen == Sight(worker="w1", alive="alive", seen_ms_ago=0, host=seen.host)
                assert await store.sight("w2") is None
            await one.retire("w1")
            assert await one.sight("w1") is None
            assert await two.sight("w1") is None

    async def test_a_worker_is_silent_when_its_lease_has_passed(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")

            async def seen() -> tuple[str, int | None]:
                sight = await store.sight("w1")
                assert sight is not None
                return sight.alive, sight.seen_ms_ago

            self.clock.advance(LEASE_MS - 1)
            assert await seen() == ("alive", LEASE_MS - 1)
            self.clock.advance(1)
            assert await seen() == ("silent", LEASE_MS)
            self.clock.advance("2h")
            assert await seen() == ("silent", LEASE_MS + 7_200_000)
            self.clock.step_wall(-(10**9))
            await store.beat("w1")
            self.clock.step_wall(10**12)
            assert await seen() == ("alive", 0)

    async def test_the_lease_clock_is_not_the_wall_clock(self) -> None:
        async with self.opened() as store:
            now, tick = store.now(), store.tick()

            self.clock.step_wall(5)

            assert (store.now(), store.tick()) == (now + 5, tick)

    async def test_a_store_has_a_name(self) -> None:
        async with self.opened() as store:
            assert store.name
