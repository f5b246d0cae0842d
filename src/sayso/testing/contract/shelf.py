"""The shelf: compare-and-set, pages, and what is refused."""

# ruff: noqa: PLR2004 - tests assert on plain numbers.

from __future__ import annotations

import asyncio
from typing import Any

from sayso.errors import BadValue, StaleItem, StoreClosed
from sayso.store.base import PAGE_MAX
from sayso.store.shelf import DATA_BYTES_MAX, NAME_BYTES_MAX, Item
from sayso.testing.contract.case import StoreCase, refused, write

_BAD_NAMES: list[Any] = [
    "",
    "a" * (NAME_BYTES_MAX + 1),
    "\N{GREEK SMALL LETTER ALPHA}" * (NAME_BYTES_MAX // 2 + 1),
    "half \ud800",
    "a\x00b",
    "a\nb",
    None,
    7,
    b"ann",
]
_BAD_REVS: list[Any] = [-1, 1 << 63, True, None, "1", 1.0]


class ShelfContract(StoreCase):
    """Items are kept as they were put, and nobody overwrites what they have not seen."""

    async def test_an_item_is_kept_as_it_was_put(self) -> None:
        async with self.opened() as store:
            for data in (b"", b"\x00\xff not text", b"x" * DATA_BYTES_MAX):
                name = f"item {len(data)}"
                put = await store.shelf.put("p", "person", name, data, rev=0)

                assert put == Item(project="p", kind="person", id=name, rev=put.rev, data=data)
                assert await store.shelf.get("p", "person", name) == put

    async def test_an_item_is_found_by_its_whole_name_only(self) -> None:
        async with self.opened() as store:
            await store.shelf.put("p", "person", "ann", b"1", rev=0)

            for name in (("q", "person", "ann"), ("p", "token", "ann"), ("p", "person", "an")):
                assert await store.shelf.get(*name) is None
                await store.shelf.put(*name, b"2", rev=0)
            found = await store.shelf.get("p", "person", "ann")
            assert found is not None
            assert found.data == b"1"

    async def test_a_put_replaces_the_rev_that_it_names_and_no_other(self) -> None:
        async with self.opened() as store:
            first = await store.shelf.put("p", "person", "ann", b"1", rev=0)
            second = await store.shelf.put("p", "person", "ann", b"2", rev=first.rev)

            assert second.rev > first.rev > 0
            for rev in (0, first.rev, second.rev + 1):
                put = store.shelf.put("p", "person", "ann", b"3", rev=rev)
                assert (await refused(StaleItem, put)).rev == second.rev
                if rev:
                    drop = store.shelf.drop("p", "person", "ann", rev=rev)
                    assert (await refused(StaleItem, drop)).rev == second.rev
            assert await store.shelf.get("p", "person", "ann") == second

    async def test_what_is_not_there_is_neither_replaced_nor_dropped(self) -> None:
        async with self.opened() as store:
            put = store.shelf.put("p", "person", "ann", b"1", rev=1)
            drop = store.shelf.drop("p", "person", "ann", rev=1)

            assert (await refused(StaleItem, put)).rev == 0
            assert (await refused(StaleItem, drop)).rev == 0
            await store.shelf.drop("p", "person", "ann")
            assert await store.shelf.get("p", "person", "ann") is None

    async def test_a_dropped_item_is_gone(self) -> None:
        async with self.opened() as store:
            for given in (True, False):
                item = await store.shelf.put("p", "person", "ann", b"1", rev=0)
                await store.shelf.put("p", "person", "bob", b"1", rev=0)
                await store.shelf.drop("p", "person", "ann", rev=item.rev if given else None)

                assert await store.shelf.get("p", "person", "ann") is None
                assert [i.id for i in await store.shelf.list("p", "person")] == ["bob"]
                await store.shelf.drop("p", "person", "bob")

    async def test_an_item_made_anew_is_not_taken_for_the_one_before(self) -> None:
        async with self.opened() as store:
            old = await store.shelf.put("p", "session", "s", b"ann", rev=0)
            await store.shelf.drop("p", "session", "s", rev=old.rev)
            new = await store.shelf.put("p", "session", "s", b"bob", rev=0)

            await refused(StaleItem, store.shelf.put("p", "session", "s", b"ann", rev=old.rev))
            await refused(StaleItem, store.shelf.drop("p", "session", "s", rev=old.rev))
            assert await store.shelf.get("p", "session", "s") == new

    async def test_a_list_pages_by_id_within_a_kind(self) -> None:
        names = ["A", "a", "a b", "aa", "b", "\u00e9", "\uffe6", "\U0001f4b8"]
        async with self.opened() as store:
            for name in reversed(names):
                await store.shelf.put("p", "person", name, name.encode(), rev=0)
            for project, kind in (("p", "token"), ("q", "person"), ("p", "persona")):
                await store.shelf.put(project, kind, "other", b"", rev=0)

            pages: list[Item] = []
            after: str | None = None
            while page := await store.shelf.list("p", "person", after=after, limit=3):
                assert len(page) <= 3
                pages += page
                after = page[-1].id

            assert [item.id for item in pages] == names
            assert [item.data for item in pages] == [name.encode() for name in names]
            assert await store.shelf.list("p", "person", limit=1000) == pages
            assert await store.shelf.list("nobody", "person") == []
            between = await store.shelf.list("p", "person", after="ab", limit=1)
            assert [item.id for item in between] == ["b"]

    async def test_a_page_is_bounded(self) -> None:
        async with self.opened() as store:
            await asyncio.gather(
                *(store.shelf.put("p", "note", f"{n:04}", b"", rev=0) for n in range(PAGE_MAX + 1))
            )

            assert len(await store.shelf.list("p", "note", limit=PAGE_MAX * 10)) == PAGE_MAX
            assert len(await store.shelf.list("p", "note")) == 50

    async def test_what_cannot_be_kept_is_refused_and_changes_nothing(self) -> None:
        async with self.opened() as store:
            shelf = store.shelf
            kept = await shelf.put("p", "person", "ann", b"1", rev=0)
            for bad in _BAD_NAMES:
                for name in ((bad, "person", "ann"), ("p", bad, "ann"), ("p", "person", bad)):
                    await refused(BadValue, shelf.get(*name))
                    await refused(BadValue, shelf.put(*name, b"2", rev=0))
                    await refused(BadValue, shelf.drop(*name))
                await refused(BadValue, shelf.list(bad, "person"))
                await refused(BadValue, shelf.list("p", bad))
                if bad is not None:
                    await refused(BadValue, shelf.list("p", "person", after=bad))
            data: list[Any] = [b"x" * (DATA_BYTES_MAX + 1), "text", bytearray(b"x"), None]
            for one in data:
                await refused(BadValue, shelf.put("p", "person", "ann", one, rev=kept.rev))
            for rev in _BAD_REVS:
                await refused(BadValue, shelf.put("p", "person", "ann", b"2", rev=rev))
                if rev is not None:
                    await refused(BadValue, shelf.drop("p", "person", "ann", rev=rev))
            await refused(BadValue, shelf.drop("p", "person", "ann", rev=0))
            limits: list[Any] = [0, -1, True, None, "9"]
            for limit in limits:
                await refused(BadValue, shelf.list("p", "person", limit=limit))

            assert await shelf.list("p", "person") == [kept]

    async def test_names_up_to_the_limit_are_fine(self) -> None:
        async with self.opened() as store:
            name = "n" * NAME_BYTES_MAX
            put = await store.shelf.put(name, name, name, b"", rev=0)

            assert await store.shelf.list(name, name) == [put]

    async def test_of_many_who_replace_one_rev_one_wins(self) -> None:
        async with self.opened_twice() as (one, two):
            item = await one.shelf.put("p", "person", "ann", b"", rev=0)
            for n in range(20):
                puts = [
                    store.shelf.put("p", "person", "ann", f"{n} {k}".encode(), rev=item.rev)
                    for k, store in enumerate((one, two, one, two))
                ]
                told = await asyncio.gather(*puts, return_exceptions=True)

                won = [answer for answer in told if isinstance(answer, Item)]
                assert len(won) == 1
                assert sum(isinstance(answer, StaleItem) for answer in told) == 3
                item = won[0]
                for store in (one, two):
                    assert await store.shelf.get("p", "person", "ann") == item

    async def test_a_refused_put_leaves_appends_beside_it_alone(self) -> None:
        async with self.opened() as store:
            stale = store.shelf.put("p", "person", "ann", b"", rev=7)
            told = await asyncio.gather(stale, store.append(write("run_1")), return_exceptions=True)

            assert isinstance(told[0], StaleItem)
            assert await store.load("run_1") is not None

    async def test_a_closed_store_has_a_closed_shelf(self) -> None:
        async with self.opened() as store:
            await store.close()

            await refused(StoreClosed, store.shelf.get("p", "person", "ann"))
            await refused(StoreClosed, store.shelf.put("p", "person", "ann", b"", rev=0))
            await refused(StoreClosed, store.shelf.list("p", "person"))
            await refused(StoreClosed, store.shelf.drop("p", "person", "ann"))
