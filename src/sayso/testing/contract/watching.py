"""What a watch promises."""

from __future__ import annotations

import asyncio

from sayso.testing.contract.case import StoreCase, write

_SOON_S = 5.0
"""Longer than anything here takes, so that only a fault gets there."""


class WatchContract(StoreCase):
    """No append is missed between looking and waiting."""

    async def test_a_watch_remembers_an_append_before_the_wait(self) -> None:
        async with self.opened() as store:
            watch = store.watch("run_1")
            await store.append(write())
            await store.append(write(after=1))

            assert await watch.wait(_SOON_S)
            watch.close()

    async def test_a_watch_wakes_whoever_waits(self) -> None:
        async with self.opened() as store:
            await store.append(write())
            for watch in (store.watch("run_1"), store.watch()):
                row = await store.load("run_1")
                assert row is not None
                while await watch.wait(0):
                    pass
                waiting = asyncio.create_task(watch.wait(_SOON_S))
                await asyncio.sleep(0)

                await store.append(write(after=row.seq))

                assert await waiting
                watch.close()

    async def test_a_wait_without_an_append_ends_in_time(self) -> None:
        async with self.opened() as store:
            watch = store.watch("run_1")

            for _ in range(10):
                if not await watch.wait(0.01):
                    break
            else:
                raise AssertionError("the watch rang for nothing, again and again")
            watch.close()

    async def test_an_append_of_another_process_wakes_a_watch(self) -> None:
        async with self.opened_twice() as (one, two):
            await one.append(write())
            for watch in (two.watch("run_1"), two.watch()):
                row = await two.load("run_1")
                assert row is not None

                await one.append(write(after=row.seq))
                while True:
                    assert await watch.wait(_SOON_S)
                    now = await two.load("run_1")
                    assert now is not None
                    if now.seq > row.seq:
                        break
                watch.close()

    async def test_a_watch_can_be_rung_by_hand(self) -> None:
        async with self.opened() as store:
            watch = store.watch("run_1")
            watch.ring()

            assert await watch.wait(_SOON_S)
            waiting = asyncio.create_task(watch.wait(_SOON_S))
            await asyncio.sleep(0)
            watch.ring()
            assert await waiting
            watch.close()

    async def test_a_watch_on_what_others_do_hears_of_another_process(self) -> None:
        async with self.opened_twice() as (one, two):
            if one is two:
                return  # There are no others.
            watch = two.watch(own=False)

            await one.append(write())

            while await two.load("run_1") is None or not await watch.wait(_SOON_S):
                pass
            watch.close()

    async def test_a_watch_hears_of_runs_that_a_worker_leaves(self) -> None:
        async with self.opened_twice() as (one, two):
            await one.beat("w1")
            await one.append(write(owner="w1"))
            watch = two.watch()
            while await watch.wait(0.3):
                pass

            await one.retire("w1")

            assert await watch.wait(_SOON_S)
            watch.close()

    async def test_a_watch_gives_what_this_store_has_written_last(self) -> None:
        async with self.opened() as store:
            watch, wide = store.watch("run_1"), store.watch()
            first, last = write(), write(after=1)
            await store.append(first, write("run_2"))
            await store.append(last)

            assert await watch.wait(_SOON_S)
            assert watch.news() == last
            assert watch.news() is None
            assert wide.news() is None
            watch.ring()
            await store.append(write(after=2))
            assert watch.news() is None
            watch.close()
            wide.close()

    async def test_what_others_have_written_is_no_news(self) -> None:
        async with self.opened_twice() as (one, two):
            if one is two:
                return  # There are no others.
            watch = one.watch("run_1")
            await one.append(write())
            await two.append(write(after=1))

            while (news := watch.news()) is not None or not await watch.wait(_SOON_S):
                assert news is None or news.after == 0
            # Whoever looks now sees what the others have written.
            row = await one.load("run_1")
            assert row is not None
            assert (news, row.seq) == (None, 2)
            watch.close()

    async def test_closing_a_watch_ends_its_wait(self) -> None:
        async with self.opened() as store:
            watch = store.watch("run_1")
            waiting = asyncio.create_task(watch.wait())
            await asyncio.sleep(0)

            watch.close()

            assert await waiting is False
            assert await watch.wait() is False

    async def test_closing_the_store_ends_every_wait(self) -> None:
        async with self.opened() as store:
            waiting = asyncio.create_task(store.watch().wait())
            await asyncio.sleep(0)

            await store.close()

            assert await waiting is False

    async def test_a_cancelled_wait_swallows_nothing(self) -> None:
        async with self.opened() as store:
            watch = store.watch("run_1")
            waiting = asyncio.create_task(watch.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])

            await store.append(write())

            assert await watch.wait(_SOON_S)
            watch.close()
