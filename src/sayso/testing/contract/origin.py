"""Where a store comes from."""

from __future__ import annotations

from sayso.errors import StoreClosed
from sayso.testing.contract.case import StoreCase, refused, write


class OriginContract(StoreCase):
    """A store knows whether it is the one that was last worked on."""

    async def test_a_store_that_was_only_worked_on_has_no_fault(self) -> None:
        async with self.opened_twice() as (store, other):
            await store.append(write("run_1"))
            await other.append(write("run_2"))

            assert (await store.origin()).fault == (await other.origin()).fault == ""
            assert (await other.origin()).epoch == 1

    async def test_accepting_it_begins_an_epoch_without_workers(self) -> None:
        async with self.opened() as store:
            await store.beat("w1")
            await store.append(write("run_1"))
            before = await store.origin()

            epoch = await store.accept_origin()
            again = await self.open_store(self.clock)

            assert (await store.origin()).token != before.token
            assert (await store.origin()).token == (await again.origin()).token
            assert (epoch, (await store.origin()).epoch, (await again.origin()).epoch) == (2, 2, 2)
            assert await store.sight("w1") is None
            await again.append(write("run_1", after=1))
            assert (await again.origin()).fault == ""
            await again.close()

    async def test_doubting_it_is_known_to_whoever_opens_it_next(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1"))

            await store.doubt_origin("a seal says so")
            again = await self.open_store(self.clock)

            assert (await again.origin()).fault == "a seal says so"
            assert (await again.origin()).token == (await store.origin()).token
            assert await again.load("run_1") is not None
            (found,) = [one for one in await again.checkup() if one.name == "origin"]
            assert found.level == "warning"
            await again.close()

    async def test_a_closed_store_says_nothing_of_it(self) -> None:
        async with self.opened() as store:
            await store.close()

            await refused(StoreClosed, store.origin())
            await refused(StoreClosed, store.accept_origin())
            await refused(StoreClosed, store.doubt_origin("why"))
