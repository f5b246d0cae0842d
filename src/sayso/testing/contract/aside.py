"""What is said of a run in passing."""

from __future__ import annotations

import asyncio
import time

from sayso.testing.contract.case import StoreCase, write

_PATIENCE_S = 10.0


class AsideContract(StoreCase):
    """What one process mentions another may overhear; nothing is kept, and nothing fails."""

    is_deaf = False
    """Whether nothing is ever overheard, as by a store that was told not to listen."""

    async def test_what_is_mentioned_is_overheard_elsewhere_and_not_here(self) -> None:
        async with self.opened_twice() as (store, other):
            here, there, elsewhere = list[str](), list[str](), list[str]()
            store.overhear("run_1", here.append)
            other.overhear("run_2", elsewhere.append)
            close = other.overhear("run_1", there.append)
            end = time.monotonic() + _PATIENCE_S
            while not (self.is_deaf or store is other or there):
                # Who listens may be known a moment later.
                store.mention("run_1", 'He said: "né\n\x00"')
                await asyncio.sleep(0.01)
                assert time.monotonic() < end, "nobody heard it"

            assert set(there) <= {'He said: "né\n\x00"'}
            assert here == elsewhere == []
            close()
            close()
            assert await store.tail() == []

    async def test_nobody_hears_of_it_who_has_closed(self) -> None:
        async with self.opened_twice() as (store, other):
            heard, still = list[str](), list[str]()
            other.overhear("run_1", heard.append)()
            other.overhear("run_1", still.append)
            end = time.monotonic() + _PATIENCE_S
            while not (self.is_deaf or store is other or still):
                store.mention("run_1", "a")
                await asyncio.sleep(0.01)
                assert time.monotonic() < end, "nobody heard it"

            assert heard == []

    async def test_too_much_of_it_stands_in_nobodys_way(self) -> None:
        async with self.opened_twice() as (store, other):
            heard = list[str]()
            other.overhear("run_1", heard.append)
            before = time.monotonic()
            for n in range(2000):
                store.mention("run_1", f"{n} " + "x" * 500)
            store.mention("run_1", "x" * 1_000_000)
            store.mention("run_1", "half \ud800 of one")

            await store.append(write("run_1"))

            assert time.monotonic() - before < _PATIENCE_S
            assert len(set(heard)) == len(heard)
            assert (await other.load("run_1")) is not None

    async def test_a_closed_store_says_nothing_and_does_not_complain(self) -> None:
        async with self.opened() as store:
            await store.close()

            store.mention("run_1", "a")
