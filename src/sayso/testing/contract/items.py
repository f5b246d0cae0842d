"""Items inside an append: conditions on them, and puts that share its commit."""

# ruff: noqa: PLR2004 - tests assert on plain numbers.

from __future__ import annotations

import asyncio
from typing import Any

from sayso.domain.guard import Before, ItemAt
from sayso.errors import BadValue, ConditionFailed, KeyReused, StaleItem, StaleRun
from sayso.store.base import Appended, ItemPut, Key, Store
from sayso.store.shelf import DATA_BYTES_MAX, NAME_BYTES_MAX, Item
from sayso.testing.contract.case import StoreCase, hold_row, refused, write

_BAD_NAMES: list[Any] = ["", "a" * (NAME_BYTES_MAX + 1), "half \ud800", "a\x00b", None, 7]
_BAD_REVS: list[Any] = [-1, 1 << 63, True, None, "1"]
_BAD_DATA: list[Any] = [b"x" * (DATA_BYTES_MAX + 1), "text", bytearray(b"x")]


class ItemContract(StoreCase):
    """What an append rests on is looked at in the very commit that rests on it."""

    async def test_an_append_goes_through_while_the_item_is_at_its_rev(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            holds = (_at(mira), ItemAt(kind="person", id="nobody", rev=0))

            await store.append(write(only_if=holds))
            await store.append(write(after=1, only_if=holds))

            assert len(await store.journal("run_1")) == 2
            assert await store.shelf.get("p", "person", "mira") == mira

    async def test_an_append_is_refused_when_the_item_has_moved(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            await _put(store, "mira", rev=mira.rev)
            await store.append(write())
            before = await store.load("run_1")

            wrong = [_at(mira), ItemAt(kind="person", id="mira", rev=0)]
            wrong += [ItemAt(kind="person", id="nobody", rev=mira.rev)]
            wrong += [ItemAt(kind="token", id="mira", rev=mira.rev + 1)]
            for condition in wrong:
                append = store.append(write(after=1, only_if=(condition,)))
                assert (await refused(ConditionFailed, append)).condition == condition

            assert await store.load("run_1") == before

    async def test_an_append_is_refused_when_the_item_is_gone(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            await store.shelf.drop("p", "person", "mira")

            error = await refused(ConditionFailed, store.append(write(only_if=(_at(mira),))))

            assert error.condition == _at(mira)
            assert await store.load("run_1") is None

    async def test_an_item_made_anew_is_not_the_one_that_was_seen(self) -> None:
        async with self.opened() as store:
            old = await _put(store, "mira")
            await store.shelf.drop("p", "person", "mira")
            new = await _put(store, "mira", old.data)

            await refused(ConditionFailed, store.append(write(only_if=(_at(old),))))
            put = ItemPut(kind="person", id="mira", rev=old.rev, data=b"")
            await refused(ConditionFailed, store.append(write(items=(put,))))

            assert await store.shelf.get("p", "person", "mira") == new
            await store.append(write(only_if=(_at(new),)))

    async def test_an_item_that_an_append_made_anew_is_another_one_too(self) -> None:
        async with self.opened() as store:
            old = await _put(store, "mira")
            drop = ItemPut(kind="person", id="mira", rev=old.rev, data=None)
            again = ItemPut(kind="person", id="mira", rev=0, data=old.data)

            await store.append(write(items=(drop, again)))

            await refused(ConditionFailed, store.append(write(after=1, only_if=(_at(old),))))
            stale = store.shelf.put("p", "person", "mira", b"", rev=old.rev)
            await refused(StaleItem, stale)

    async def test_items_are_those_of_the_writes_own_project(self) -> None:
        async with self.opened() as store:
            mine = await _put(store, "mira")
            await store.shelf.put("q", "person", "bob", b"theirs", rev=0)
            put = ItemPut(kind="person", id="bob", rev=0, data=b"ours")

            await store.append(write(only_if=(_at(mine),), items=(put,)))
            there = write("run_2", project="q", only_if=(_at(mine),))
            await refused(ConditionFailed, store.append(there))

            theirs = await store.shelf.get("q", "person", "bob")
            ours = await store.shelf.get("p", "person", "bob")
            assert [item and item.data for item in (theirs, ours)] == [b"theirs", b"ours"]

    async def test_a_condition_that_fails_for_one_write_undoes_the_others(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            first = write("run_1", items=(ItemPut(kind="grant", id="g", rev=0, data=b"1"),))
            nobody = ItemAt(kind="person", id="mira", rev=0)

            both = store.append(first, write("run_2", only_if=(nobody,)))
            assert (await refused(ConditionFailed, both)).condition == nobody

            assert await store.tail() == []
            assert await store.load("run_1") is None
            assert await store.shelf.list("p", "grant") == []
            await store.append(first, write("run_2", only_if=(_at(mira),)))

    async def test_an_append_puts_and_drops_items_with_its_entries(self) -> None:
        async with self.opened() as store:
            old = await _put(store, "old")
            used = await _put(store, "used", b"1")
            puts = (
                ItemPut(kind="person", id="used", rev=used.rev, data=b"2"),
                ItemPut(kind="person", id="new", rev=0, data=b""),
                ItemPut(kind="person", id="old", rev=old.rev, data=None),
            )

            await store.append(write(items=puts))

            new, used_now = await store.shelf.list("p", "person")
            assert (new.id, new.data) == ("new", b"")
            assert (used_now.id, used_now.data) == ("used", b"2")
            assert len({old.rev, used.rev, new.rev, used_now.rev}) == 4
            assert used_now.rev > used.rev
            assert len(await store.journal("run_1")) == 1
            await store.shelf.put("p", "person", "used", b"3", rev=used_now.rev)

    async def test_a_stale_item_refuses_its_append(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            fine = ItemPut(kind="person", id="bob", rev=0, data=b"")
            for rev, data in ((0, b""), (mira.rev + 1, b""), (mira.rev + 1, None)):
                stale = ItemPut(kind="person", id="mira", rev=rev, data=data)
                append = store.append(write(items=(fine, stale)))

                error = await refused(ConditionFailed, append)

                assert error.condition == ItemAt(kind="person", id="mira", rev=rev)
            gone = ItemPut(kind="person", id="gone", rev=mira.rev, data=None)
            await refused(ConditionFailed, store.append(write(items=(gone,))))
            assert await store.load("run_1") is None
            assert await store.shelf.list("p", "person") == [mira]

    async def test_what_refuses_an_append_refuses_its_items(self) -> None:
        async with self.opened() as store:
            key = Key(project="p", key="k", digest="d")
            await store.append(write(key=key))
            put = (ItemPut(kind="grant", id="g", rev=0, data=b"1"),)

            await refused(StaleRun, store.append(write(after=7, items=put)))
            late = write(after=1, only_if=(Before(at=1),), items=put)
            await refused(ConditionFailed, store.append(late))
            await refused(KeyReused, store.append(write(after=1, key=key, items=put)))
            await refused(StaleRun, store.append(write("run_2", items=put), write("run_1")))

            assert await store.shelf.list("p", "grant") == []

    async def test_a_write_sees_what_those_before_it_have_put(self) -> None:
        async with self.opened() as store:
            seen = await _put(store, "g", b"1")
            use = ItemPut(kind="person", id="g", rev=seen.rev, data=b"0")

            twice = store.append(write("run_1", items=(use,)), write("run_2", items=(use,)))
            await refused(ConditionFailed, twice)
            rests_on_it = write("run_2", only_if=(_at(seen),))
            await refused(ConditionFailed, store.append(write("run_1", items=(use,)), rests_on_it))
            assert await store.shelf.get("p", "person", "g") == seen
            # Its own puts come after its own conditions.
            await store.append(rests_on_it, write("run_1", only_if=(_at(seen),), items=(use,)))
            assert await store.shelf.get("p", "person", "g") != seen

    async def test_of_many_appends_that_replace_one_rev_one_wins(self) -> None:
        async with self.opened_twice() as (one, two):
            item = await _put(one, "g", b"")
            for n in range(20):
                answers = [
                    store.append(
                        write(
                            f"run_{n}_{k}",
                            items=(
                                ItemPut(kind="person", id="g", rev=item.rev, data=f"{k}".encode()),
                            ),
                        )
                    )
                    for k, store in enumerate((one, two, one, two))
                ]
                told = await asyncio.gather(*answers, return_exceptions=True)

                won = [k for k, answer in enumerate(told) if isinstance(answer, Appended)]
                assert len(won) == 1
                assert sum(isinstance(answer, ConditionFailed) for answer in told) == 3
                rows = [await one.load(f"run_{n}_{k}") for k in range(4)]
                assert [k for k, row in enumerate(rows) if row is not None] == won
                for store in (one, two):
                    found = await store.shelf.get("p", "person", "g")
                    assert found is not None
                    assert found.data == f"{won[0]}".encode()
                    item = found

    async def test_an_append_and_a_put_that_race_for_one_rev_do_not_both_win(self) -> None:
        async with self.opened_twice() as (one, two):
            for n in range(20):
                item = await _put(one, f"g{n}", b"")
                put = ItemPut(kind="person", id=f"g{n}", rev=item.rev, data=b"append")
                by_hand = two.shelf.put("p", "person", f"g{n}", b"hand", rev=item.rev)
                append = one.append(write(f"run_{n}", items=(put,)))
                told = await asyncio.gather(by_hand, append, return_exceptions=True)

                assert sorted(isinstance(answer, Exception) for answer in told) == [False, True]
                found, row = await one.shelf.get("p", "person", f"g{n}"), await one.load(f"run_{n}")
                assert found is not None
                assert (found.data == b"append") is (row is not None)

    async def test_a_refused_item_leaves_appends_beside_it_alone(self) -> None:
        async with self.opened() as store:
            put = ItemPut(kind="grant", id="g", rev=0, data=b"1")
            stale = ItemPut(kind="grant", id="g", rev=77, data=b"2")
            bad = ItemPut(kind="", id="g", rev=0, data=b"3")
            answers = [
                store.append(write("run_1", items=(put,))),
                store.append(write("run_2", items=(stale,))),
                store.append(write("run_3", items=(bad,))),
                store.append(write("run_4", only_if=(ItemAt(kind="grant", id="g", rev=0),))),
                store.append(write("run_5", items=(put,), holds=(hold_row("run_5"),))),
                store.append(write("run_6")),
            ]

            told = await asyncio.gather(*answers, return_exceptions=True)

            kinds = [type(error) if isinstance(error, Exception) else None for error in told]
            failed = ConditionFailed
            assert kinds == [None, failed, BadValue, failed, failed, None]
            assert [entry.run_id for entry in await store.tail()] == ["run_1", "run_6"]
            assert [item.data for item in await store.shelf.list("p", "grant")] == [b"1"]

    async def test_what_a_shelf_cannot_keep_refuses_its_append(self) -> None:
        async with self.opened() as store:
            mira = await _put(store, "mira")
            bad: list[dict[str, Any]] = []
            for name in _BAD_NAMES:
                bad += [{"kind": name}, {"id": name}, {"id": name, "data": None}]
            bad += [{"rev": rev} for rev in _BAD_REVS]
            bad += [{"rev": rev, "data": None} for rev in [0, *_BAD_REVS]]
            bad += [{"data": data} for data in _BAD_DATA]
            for changes in bad:
                fields: dict[str, Any] = {"kind": "person", "id": "x", "rev": 0, "data": b""}
                put = ItemPut(**{**fields, **changes})
                await refused(BadValue, store.append(write(items=(put,))))
            for changes in [c for c in bad if "data" not in c]:
                fields = {"kind": "person", "id": "mira", "rev": mira.rev}
                condition = ItemAt(**{**fields, **changes})
                await refused(BadValue, store.append(write(only_if=(condition,))))

            assert await store.tail() == []
            assert await store.shelf.list("p", "person") == [mira]
            name, data = "n" * NAME_BYTES_MAX, b"x" * DATA_BYTES_MAX
            await store.append(write(items=(ItemPut(kind=name, id=name, rev=0, data=data),)))


def _at(item: Item) -> ItemAt:
    return ItemAt(kind=item.kind, id=item.id, rev=item.rev)


async def _put(store: Store, name: str, data: bytes = b"roles", *, rev: int = 0) -> Item:
    return await store.shelf.put("p", "person", name, data, rev=rev)
