"""A run read together with what else is wanted of it."""

from __future__ import annotations

from sayso.errors import BadValue
from sayso.store.base import PAGE_MAX
from sayso.store.look import NOTHING, Look, Want, Wish
from sayso.testing.contract.case import StoreCase, refused, write

_WANTS = (Want("person"), Want("person", "bob"), Want("person", "zoe"), Want("token"))


class LookContract(StoreCase):
    """What is read together is what each would be by itself."""

    async def test_a_run_is_read_together_with_what_is_wished_for(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=3))
            await store.append(write("run_2", project="q"))
            for project, name in (("p", "bob"), ("p", "ann"), ("q", "aaa")):
                await store.shelf.put(project, "person", name, name.encode(), rev=0)

            found = await store.look("run_1", Wish(items=_WANTS, journal_max=3))
            there = await store.look("run_2", Wish(items=_WANTS, journal_max=3))

            row, journal = await store.load("run_1"), await store.journal("run_1")
            ann, bob = [await store.shelf.get("p", "person", name) for name in ("ann", "bob")]
            assert row is not None
            assert found == Look(row=row, items=(ann, bob, None, None), journal=tuple(journal))
            assert there is not None
            assert [one and one.id for one in there.items] == ["aaa", None, None, None]

    async def test_a_longer_journal_is_not_read_with_its_run(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=3))

            for most, entries in ((2, 0), (3, 3), (PAGE_MAX, 3)):
                found = await store.look("run_1", Wish(journal_max=most))
                assert found is not None
                assert len(found.journal) == entries
            row = await store.load("run_1")
            assert row is not None
            assert await store.look("run_1", NOTHING) == Look(row=row)

    async def test_nothing_is_read_with_a_run_that_is_not_there(self) -> None:
        async with self.opened() as store:
            assert await store.look("run_1", Wish(items=_WANTS, journal_max=3)) is None

    async def test_what_could_be_no_item_is_not_looked_for(self) -> None:
        async with self.opened() as store:
            await store.append(write())

            for want in (Want("person", "a\x00b"), Want("", "ann"), Want("person", "half \ud800")):
                await refused(BadValue, store.look("run_1", Wish(items=(want,))))
