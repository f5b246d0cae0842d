"""The outbox: parcels come with their appends, one at a time to one taker, until they are done."""

# ruff: noqa: PLR2004 - tests assert on plain numbers.

from __future__ import annotations

import asyncio
from typing import Any

from sayso.domain.guard import Before
from sayso.errors import BadValue, ConditionFailed, StaleRun, StoreClosed, StoreError
from sayso.store.base import PAGE_MAX, ItemPut, NewParcel, Store
from sayso.store.outbox import ERROR_CHARS_MAX, PARCEL_LEASE_MS_MAX, Parcel
from sayso.store.shelf import DATA_BYTES_MAX, NAME_BYTES_MAX
from sayso.testing.contract.case import StoreCase, hold_row, refused, write

_BAD_NAMES: list[Any] = ["", "a" * (NAME_BYTES_MAX + 1), "half \ud800", "a\x00b", None, 7]
_BAD_TIMES: list[Any] = [-1, 1 << 63, True, None, "1", 1.0]
_LEASE_MS = 1000


class OutboxContract(StoreCase):
    """A parcel is delivered at least once, and nobody delivers what another one has."""

    async def test_a_parcel_is_taken_as_it_was_written(self) -> None:
        async with self.opened() as store:
            for data in (b"", b"\x00\xff not text", b"x" * DATA_BYTES_MAX):
                run = f"run_{len(data)}"
                await store.append(write(run, parcels=(self._parcel("a", data=data),)))

                (parcel,) = await _take(store)

                assert parcel == Parcel(
                    project="p",
                    id="a",
                    kind="reminder",
                    run_id=run,
                    due_at=self.clock.now(),
                    data=data,
                    tries=1,
                    taken=parcel.taken,
                )
                assert parcel.taken > 0
                await store.outbox.done(parcel)

    async def test_a_parcel_comes_when_it_is_due_and_not_before(self) -> None:
        async with self.opened() as store:
            due = self.clock.now() + 500
            await store.append(write(parcels=(self._parcel("a", due_at=due),)))

            assert await store.outbox.next_due() == due
            self.clock.advance(499)
            assert await _take(store) == []
            self.clock.advance(1)
            assert await _ids(store) == ["a"]

    async def test_parcels_come_oldest_due_first_and_no_more_than_asked_for(self) -> None:
        async with self.opened() as store:
            now = self.clock.now()
            dues = {"a": now - 1, "b": now - 9, "c": now + 1, "d": now - 5, "e": 0}
            parcels = tuple(self._parcel(name, due_at=at) for name, at in dues.items())
            await store.append(write(parcels=parcels))

            assert await _ids(store, limit=2) == ["e", "b"]
            assert await _ids(store, limit=9) == ["d", "a"]
            assert await _ids(store, limit=9) == []

    async def test_nobody_is_given_what_another_one_has(self) -> None:
        async with self.opened_twice() as (one, two):
            names = [f"{n:03}" for n in range(60)]
            await one.append(write(parcels=tuple(self._parcel(name) for name in names)))

            async def take(store: Store) -> list[str]:
                taken: list[str] = []
                while len(taken) < 100 and (got := await _ids(store, limit=3)):
                    taken += got
                return taken

            taken = await asyncio.gather(take(one), take(two), take(one), take(two))

            assert sorted(name for some in taken for name in some) == names

    async def test_what_was_taken_comes_again_when_the_time_is_over(self) -> None:
        async with self.opened_twice() as (one, two):
            await one.append(write(parcels=(self._parcel("a"),)))
            (first,) = await _take(one)

            self.clock.advance(_LEASE_MS - 1)
            assert await _take(two) == []
            assert await two.outbox.next_due() == self.clock.now() + 1
            self.clock.advance(1)
            (second,) = await _take(two)

            assert (second.tries, second.due_at) == (2, first.due_at)
            assert second.taken != first.taken
            assert await _take(one) == []

    async def test_done_is_of_one_taking_only(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"), self._parcel("b"))))
            a, b = await _take(store, limit=2)
            self.clock.advance(_LEASE_MS)
            # Late, and nobody else has taken it.
            await store.outbox.done(b)
            (again,) = await _take(store, limit=2)
            assert again.id == "a"

            await store.outbox.done(a)
            await store.outbox.again(a, 0)
            await store.outbox.again(a, 0, error="late")
            await store.outbox.dead(a, "late")

            assert await _take(store) == []
            assert await store.outbox.dead_ones("p") == []
            self.clock.advance(_LEASE_MS)
            (third,) = await _take(store)
            assert (third.id, third.tries, third.error) == ("a", 3, "")
            await store.outbox.done(third)
            assert await store.outbox.next_due() is None
            for late in (a, again, third):
                await store.outbox.done(late)

    async def test_a_parcel_is_put_back_for_later(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            later = self.clock.now() + 5000

            (first,) = await _take(store)
            await store.outbox.again(first, later, error="refused")
            assert await store.outbox.next_due() == later
            self.clock.advance(4999)
            assert await _take(store) == []
            self.clock.advance(1)
            (second,) = await _take(store)
            assert (second.tries, second.due_at, second.error) == (2, later, "refused")
            assert (second.data, second.run_id) == (first.data, "run_1")
            # Given back unopened: this was no try.
            await store.outbox.again(second, 0)
            (third,) = await _take(store)
            assert (third.tries, third.due_at, third.error) == (2, 0, "refused")
            await store.outbox.again(second, 0, error="not mine any more")
            assert await _take(store) == []

    async def test_a_parcel_that_is_to_come_once_more_was_never_tried(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (first,) = await _take(store)
            await store.outbox.again(first, 0, error="refused")
            (second,) = await _take(store)
            later = self.clock.now() + 5000

            await store.outbox.again(second, later, afresh=True)

            assert await _take(store) == []
            self.clock.advance(5000)
            (third,) = await _take(store)
            assert (third.tries, third.due_at, third.error) == (1, later, "")

    async def test_what_was_put_back_is_no_longer_in_that_taking(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (first,) = await _take(store)
            await store.outbox.again(first, self.clock.now())

            await store.outbox.done(first)
            await store.outbox.dead(first, "late")

            assert await _ids(store) == ["a"]

    async def test_a_dead_parcel_is_never_due(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (parcel,) = await _take(store)

            await store.outbox.dead(parcel, "no such address")

            (dead,) = await store.outbox.dead_ones("p")
            assert (dead.id, dead.data, dead.run_id) == ("a", parcel.data, "run_1")
            assert (dead.tries, dead.taken, dead.error) == (1, 0, "no such address")
            assert await store.outbox.next_due() is None
            self.clock.advance("30d")
            assert await _take(store) == []
            for late in (parcel, dead):
                await store.outbox.done(late)
                await store.outbox.again(late, 0)
                await store.outbox.dead(late, "twice")
            assert await store.outbox.dead_ones("p") == [dead]

    async def test_a_revived_parcel_is_due_at_once(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (parcel,) = await _take(store)
            assert not await store.outbox.revive("p", "a")
            await store.outbox.dead(parcel, "no such address")
            self.clock.advance(7)
            watch = store.watch()

            assert not await store.outbox.revive("q", "a")
            assert not await store.outbox.revive("p", "b")
            assert await store.outbox.revive("p", "a")

            assert await watch.wait(5)
            assert not await store.outbox.revive("p", "a")
            assert await store.outbox.dead_ones("p") == []
            (again,) = await _take(store)
            assert (again.tries, again.due_at) == (1, self.clock.now())
            await store.outbox.done(parcel)
            self.clock.advance(_LEASE_MS)
            assert await _ids(store) == ["a"]

    async def test_the_dead_are_listed_by_id_within_a_project(self) -> None:
        names = ["A", "a", "a b", "aa", "b", "\u00e9", "\U0001f4b8"]
        async with self.opened() as store:
            parcels = tuple(self._parcel(name) for name in reversed(names))
            await store.append(write(parcels=parcels))
            await store.append(write("run_2", project="q", parcels=(self._parcel("other"),)))
            for parcel in await _take(store, limit=PAGE_MAX):
                await store.outbox.dead(parcel, parcel.id)
            await store.append(write("run_3", parcels=(self._parcel("ab"),)))

            pages: list[Parcel] = []
            after: str | None = None
            while page := await store.outbox.dead_ones("p", limit=3, after=after):
                assert len(page) <= 3
                pages += page
                after = page[-1].id

            assert [parcel.id for parcel in pages] == names
            assert await store.outbox.dead_ones("p", limit=10**6) == pages
            assert [parcel.id for parcel in await store.outbox.dead_ones("q")] == ["other"]
            assert await store.outbox.dead_ones("nobody") == []

    async def test_those_that_wait_are_listed_by_id_within_a_project(self) -> None:
        async with self.opened() as store:
            box, dues = store.outbox, {"c": 1, "a": self.clock.now() + 1, "b": 0}
            parcels = tuple(self._parcel(name, due_at=at) for name, at in dues.items())
            await store.append(write(parcels=parcels))
            await store.append(write("run_q", project="q", parcels=(self._parcel("a1"),)))
            await box.dead((await _take(store, limit=2))[0], "x")

            assert [one.id for one in await box.waiting("p")] == ["a", "c"]
            assert [one.id for one in await box.waiting("p", limit=1)] == ["a"]
            assert [one.id for one in await box.waiting("p", after="a")] == ["c"]

    async def test_a_parcel_is_put_without_an_append(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1", parcels=(self._parcel("a"),)))
            new = self._parcel("a", due_at=self.clock.now() + 500, data=b"new")

            assert await store.outbox.put("p", "run_1", new)
            assert await store.outbox.put("p", "run_1", self._parcel("b"))
            assert not await store.outbox.put("q", "run_1", new)
            assert not await store.outbox.put("p", "run_0", new)
            (taken,) = await _take(store, limit=9)
            assert (taken.id, taken.run_id, taken.data) == ("b", "run_1", b"data")
            self.clock.advance(500)
            (taken,) = await _take(store, limit=9)
            assert (taken.id, taken.data, taken.tries) == ("a", b"new", 1)

    async def test_a_refused_append_leaves_no_parcels(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("kept"),)))
            new = (self._parcel("new"), self._parcel("kept", data=b"other"))
            what: dict[str, Any] = {"parcels": new, "unparcels": ("kept",)}

            await refused(StaleRun, store.append(write(after=7, **what)))
            late = write(after=1, only_if=(Before(at=1),), **what)
            await refused(ConditionFailed, store.append(late))
            stale = (ItemPut(kind="grant", id="g", rev=7, data=b""),)
            await refused(ConditionFailed, store.append(write(after=1, items=stale, **what)))
            nowhere = (hold_row(entry=9),)
            await refused(StoreError, store.append(write(after=1, holds=nowhere, **what)))
            second = store.append(write(after=1, **what), write("run_2", after=7))
            await refused(StaleRun, second)

            (parcel,) = await _take(store, limit=9)
            assert (parcel.id, parcel.data) == ("kept", b"data")

    async def test_a_parcel_of_the_same_id_takes_the_place_of_the_one_before(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"), self._parcel("b"))))
            a, b = await _take(store, limit=2)
            await store.outbox.again(b, 0, error="refused")
            due = self.clock.now() + 9
            new = NewParcel(id="a", kind="notice", due_at=due, data=b"new")

            await store.append(write("run_2", parcels=(new, self._parcel("b"), self._parcel("c"))))

            # Nobody has the new one, and whoever had the old one cannot end it.
            for late in (a, b):
                await store.outbox.done(late)
                await store.outbox.again(late, 0, error="late")
                await store.outbox.dead(late, "late")
            self.clock.advance(9)
            found = {parcel.id: parcel for parcel in await _take(store, limit=9)}
            assert sorted(found) == ["a", "b", "c"]
            assert found["a"] == Parcel(
                project="p",
                id="a",
                kind="notice",
                run_id="run_2",
                due_at=due,
                data=b"new",
                tries=1,
                taken=found["a"].taken,
            )
            assert (found["b"].tries, found["b"].error) == (1, "")
            await store.outbox.done(a)
            self.clock.advance(_LEASE_MS)
            assert len(await _take(store, limit=9)) == 3

    async def test_of_one_append_the_last_parcel_of_an_id_stays(self) -> None:
        async with self.opened() as store:
            one, two, three = (self._parcel("a", data=data) for data in (b"1", b"2", b"3"))

            await store.append(
                write("run_1", parcels=(one, two)),
                write("run_2", parcels=(three,), unparcels=("a",)),
            )

            (parcel,) = await _take(store, limit=9)
            assert (parcel.data, parcel.run_id) == (b"3", "run_2")

    async def test_projects_have_parcels_of_the_same_id(self) -> None:
        async with self.opened() as store:
            for n, project in enumerate("pq"):
                mine = self._parcel("a", data=project.encode(), due_at=n)
                await store.append(write(f"run_{n}", project=project, parcels=(mine,)))

            p, q = await _take(store, limit=9)
            assert [(one.project, one.data) for one in (p, q)] == [("p", b"p"), ("q", b"q")]
            await store.append(write("run_3", unparcels=("a",)))
            self.clock.advance(_LEASE_MS)
            assert [one.project for one in await _take(store, limit=9)] == ["q"]

    async def test_an_append_removes_parcels_whatever_became_of_them(self) -> None:
        async with self.opened() as store:
            parcels = tuple(self._parcel(name, due_at=n) for n, name in enumerate("abcd"))
            await store.append(write(parcels=parcels))
            taken, dead = await _take(store, limit=2)
            await store.outbox.dead(dead, "no such address")

            await store.append(write(after=1, unparcels=("a", "b", "c", "never there")))

            await store.outbox.done(taken)
            await store.outbox.again(taken, 0, error="late")
            await store.outbox.dead(taken, "late")
            assert not await store.outbox.revive("p", "b")
            assert await store.outbox.dead_ones("p") == []
            self.clock.advance(_LEASE_MS)
            assert await _ids(store, limit=9) == ["d"]
            assert len(await store.journal("run_1")) == 2

    async def test_a_parcel_made_anew_is_in_another_taking(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (old,) = await _take(store)
            await store.append(write(after=1, unparcels=("a",)))
            await store.append(write(after=2, parcels=(self._parcel("a"),)))
            (new,) = await _take(store)

            await store.outbox.done(old)

            self.clock.advance(_LEASE_MS)
            assert old.taken != new.taken
            assert await _ids(store) == ["a"]

    async def test_the_next_due_is_the_earliest_of_all(self) -> None:
        async with self.opened() as store:
            assert await store.outbox.next_due() is None
            now = self.clock.now()
            await store.append(
                write(parcels=(self._parcel("a"), self._parcel("b", due_at=now + 9)))
            )

            assert await store.outbox.next_due() == now
            await _take(store)
            assert await store.outbox.next_due() == now + 9
            await store.append(write(after=1, unparcels=("b",)))
            assert await store.outbox.next_due() == now + _LEASE_MS

    async def test_a_watch_on_all_runs_hears_of_new_parcels(self) -> None:
        async with self.opened_twice() as (one, two):
            watch = two.watch()

            await one.append(write(parcels=(self._parcel("a"),)))

            assert await watch.wait(5)
            assert await _ids(two) == ["a"]

    async def test_what_cannot_be_a_parcel_refuses_its_append(self) -> None:
        async with self.opened() as store:
            bad: list[dict[str, Any]] = [{"due_at": at} for at in _BAD_TIMES]
            for name in _BAD_NAMES:
                bad += [{"id": name}, {"kind": name}]
            bad += [{"data": data} for data in (b"x" * (DATA_BYTES_MAX + 1), "x", None)]
            for changes in bad:
                fields: dict[str, Any] = {"id": "a", "kind": "k", "due_at": 0, "data": b""}
                parcel = NewParcel(**{**fields, **changes})
                fine = self._parcel("fine")
                await refused(BadValue, store.append(write(parcels=(fine, parcel))))
            for name in _BAD_NAMES:
                await refused(BadValue, store.append(write(unparcels=(name,))))
            nowhere = write(project="", parcels=(self._parcel("a"),))
            await refused(BadValue, store.append(nowhere))

            assert await store.tail() == []
            assert await store.outbox.next_due() is None
            name = "n" * NAME_BYTES_MAX
            largest = NewParcel(id=name, kind=name, due_at=(1 << 63) - 1, data=b"")
            await store.append(write(parcels=(largest,), unparcels=(name,)))
            assert await store.outbox.next_due() == (1 << 63) - 1

    async def test_a_bad_request_changes_nothing(self) -> None:
        async with self.opened() as store:
            box = store.outbox
            await store.append(write(parcels=(self._parcel("a"),)))
            limits: list[Any] = [0, -1, True, None, "9"]
            for limit in limits:
                await refused(BadValue, box.take(limit=limit, lease_ms=1))
                await refused(BadValue, box.dead_ones("p", limit=limit))
                await refused(BadValue, box.waiting("p", limit=limit))
            leases: list[Any] = [*limits, PARCEL_LEASE_MS_MAX + 1, 1.0]
            for lease_ms in leases:
                await refused(BadValue, box.take(limit=1, lease_ms=lease_ms))
            (parcel,) = await box.take(limit=1, lease_ms=PARCEL_LEASE_MS_MAX)
            for at in _BAD_TIMES:
                await refused(BadValue, box.again(parcel, at))
            errors: list[Any] = [None, b"error", ValueError()]
            for error in errors:
                await refused(BadValue, box.again(parcel, 0, error=error))
                await refused(BadValue, box.dead(parcel, error))
            for name in _BAD_NAMES:
                await refused(BadValue, box.revive("p", name))
                await refused(BadValue, box.revive(name, "a"))
                await refused(BadValue, box.dead_ones(name))
                await refused(BadValue, box.waiting(name))
                await refused(BadValue, box.put(name, "run_1", self._parcel("b")))
                await refused(BadValue, box.put("p", "run_1", self._parcel(name)))
                if name is not None:
                    await refused(BadValue, box.dead_ones("p", after=name))

            assert await box.dead_ones("p") == []
            assert await box.next_due() == self.clock.now() + PARCEL_LEASE_MS_MAX

    async def test_of_an_error_the_beginning_is_kept(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (parcel,) = await _take(store)

            await store.outbox.again(parcel, 0, error="half \ud800\x00" + "x" * 10**6)
            (parcel,) = await _take(store)
            assert parcel.error == ("half ?\x00" + "x" * 10**6)[:ERROR_CHARS_MAX]
            await store.outbox.dead(parcel, "y" * 10**6)

            (dead,) = await store.outbox.dead_ones("p")
            assert dead.error == "y" * ERROR_CHARS_MAX

    async def test_pages_of_parcels_are_bounded(self) -> None:
        async with self.opened() as store:
            names = [f"{n:04}" for n in range(PAGE_MAX + 1)]
            await store.append(write(parcels=tuple(self._parcel(name) for name in names)))

            taken = await _take(store, limit=PAGE_MAX * 10)
            assert len(taken) == PAGE_MAX
            taken += await _take(store)
            await asyncio.gather(*(store.outbox.dead(parcel, "x") for parcel in taken))
            assert len(await store.outbox.dead_ones("p", limit=PAGE_MAX * 10)) == PAGE_MAX
            assert len(await store.outbox.dead_ones("p")) == 50

    async def test_a_closed_store_has_a_closed_outbox(self) -> None:
        async with self.opened() as store:
            await store.append(write(parcels=(self._parcel("a"),)))
            (parcel,) = await _take(store)
            await store.close()

            box = store.outbox
            await refused(StoreClosed, _take(store))
            await refused(StoreClosed, box.done(parcel))
            await refused(StoreClosed, box.again(parcel, 0))
            await refused(StoreClosed, box.dead(parcel, "x"))
            await refused(StoreClosed, box.dead_ones("p"))
            await refused(StoreClosed, box.waiting("p"))
            await refused(StoreClosed, box.put("p", "run_1", self._parcel("b")))
            await refused(StoreClosed, box.revive("p", "a"))
            await refused(StoreClosed, box.next_due())

    def _parcel(self, name: str, *, due_at: int | None = None, data: bytes = b"data") -> NewParcel:
        due_at = self.clock.now() if due_at is None else due_at
        return NewParcel(id=name, kind="reminder", due_at=due_at, data=data)


async def _take(store: Store, limit: int = 1) -> list[Parcel]:
    return await store.outbox.take(limit=limit, lease_ms=_LEASE_MS)


async def _ids(store: Store, limit: int = 1) -> list[str]:
    return [parcel.id for parcel in await _take(store, limit)]
