"""Seals and the door log: what is added stays, in order, and is found again."""

# ruff: noqa: PLR2004 - tests assert on plain numbers.

from __future__ import annotations

import asyncio
from typing import Any

from sayso.errors import BadValue, StaleItem, StoreClosed
from sayso.store import door
from sayso.store.base import PAGE_MAX
from sayso.store.seal import Leaf, Seal, read_seal
from sayso.testing.contract.case import StoreCase, refused, write

_BAD_PAGES: list[dict[str, Any]] = [
    {"after": -1},
    {"after": True},
    {"after": "1"},
    {"after": 1 << 63},
    {"limit": 0},
    {"limit": None},
]


def a_seal(n: int) -> Seal:
    """Make a seal that nobody has signed."""
    half, whole = "ab" * 16, "cd" * 32
    return Seal(
        n=n,
        first=n,
        last=n,
        count=1,
        root=whole,
        before=whole,
        refused=0,
        door=whole,
        at=7,
        key=whole,
        signature=half,
    )


class AuditContract(StoreCase):
    """Seals and refusals are only ever added to, and one after another."""

    async def test_seals_are_kept_as_they_were_put(self) -> None:
        async with self.opened() as store:
            assert await store.seals.last() is None
            assert await store.seals.list() == []

            for n in (1, 2, 3):
                await store.seals.put(a_seal(n))

            assert await store.seals.last() == a_seal(3)
            page = await store.seals.list(after=1)
            assert [(kept.n, read_seal(kept.data)) for kept in page] == [
                (2, a_seal(2)),
                (3, a_seal(3)),
            ]
            assert [kept.n for kept in await store.seals.list(limit=2)] == [1, 2]

    async def test_only_the_next_seal_is_taken(self) -> None:
        async with self.opened_twice() as (one, two):
            await one.seals.put(a_seal(1))

            for n in (1, 3):
                assert (await refused(StaleItem, two.seals.put(a_seal(n)))).rev == 1
            await refused(BadValue, one.seals.put(a_seal(0)))
            said = await asyncio.gather(
                *(each.seals.put(a_seal(2)) for each in (one, two, one, two)),
                return_exceptions=True,
            )

            assert sorted(type(answer).__name__ for answer in said) == [
                "NoneType",
                "StaleItem",
                "StaleItem",
                "StaleItem",
            ]
            assert len(await two.seals.list()) == 2

    async def test_leaves_are_the_hashes_of_all_entries_in_commit_order(self) -> None:
        async with self.opened() as store:
            for n in range(3):
                await store.append(write(f"run_{n}", count=2))
            tail = await store.tail()

            assert await store.seals.leaves() == [Leaf(e.position, e.hash) for e in tail]
            some = await store.seals.leaves(after=tail[1].position, limit=2)
            assert [leaf.position for leaf in some] == [e.position for e in tail[2:4]]
            assert await store.seals.leaves(after=tail[-1].position) == []

    async def test_a_store_of_its_own_was_not_moved_and_nothing_has_left(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1"))

            assert store.moved_to == ""
            assert await store.archives.list() == []
            assert await store.archives.keys(["run_1"]) == []
            assert await store.archives.leaves([1]) == []

    async def test_the_door_log_is_one_chain_over_all_projects(self) -> None:
        async with self.opened_twice() as (one, two):
            assert await one.door.head() == door.Head()
            self.clock.advance(5)
            made = [await one.door.note("p", b"1"), await two.door.note("q", b"2")]
            made.append(await one.door.note("p", b"3"))

            prev = door.GENESIS
            for n, entry in enumerate(made, start=1):
                assert (entry.n, entry.at) == (n, self.clock.now())
                prev = door.link(
                    prev,
                    project=entry.project,
                    n=n,
                    at=entry.at,
                    salt=entry.salt,
                    payload=entry.payload,
                )
                assert entry.hash == prev
            assert await two.door.list() == made
            assert await two.door.list("p") == [made[0], made[2]]
            assert await two.door.list("p", after=1) == [made[2]]
            assert await two.door.list(limit=1) == made[:1]
            assert await two.door.list("nobody") == []
            assert await one.door.head() == door.Head(n=3, hash=prev)
            assert len({entry.salt for entry in made}) == 3

    async def test_notes_that_come_at_once_are_all_kept(self) -> None:
        async with self.opened_twice() as (one, two):
            notes = [each.door.note("p", b"x") for _ in range(20) for each in (one, two)]
            await asyncio.gather(*notes)

            assert [entry.n for entry in await one.door.list()] == list(range(1, 41))

    async def test_the_time_of_the_door_log_never_goes_back(self) -> None:
        async with self.opened() as store:
            first = await store.door.note("p", b"1")
            self.clock.step_wall(-60_000)

            assert (await store.door.note("p", b"2")).at == first.at

    async def test_what_no_door_log_takes_is_refused(self) -> None:
        async with self.opened() as store:
            bad: list[tuple[Any, Any]] = [
                ("p", b"x" * (door.PAYLOAD_BYTES_MAX + 1)),
                ("p", "text"),
                (None, b""),
                ("half \ud800", b""),
                ("p" * (door.PROJECT_BYTES_MAX + 1), b""),
            ]
            for project, payload in bad:
                await refused(BadValue, store.door.note(project, payload))
            for page in _BAD_PAGES:
                await refused(BadValue, store.door.list(**page))
                await refused(BadValue, store.seals.list(**page))
                await refused(BadValue, store.seals.leaves(**page))
            assert await store.door.head() == door.Head()

    async def test_no_page_of_it_is_longer_than_any_other(self) -> None:
        async with self.opened() as store:
            await asyncio.gather(*(store.door.note("p", b"") for _ in range(PAGE_MAX + 1)))

            assert len(await store.door.list(limit=PAGE_MAX * 2)) == PAGE_MAX

    async def test_a_closed_store_keeps_and_tells_nothing(self) -> None:
        async with self.opened() as store:
            await store.close()

            for work in (
                store.seals.put(a_seal(1)),
                store.seals.last(),
                store.seals.list(),
                store.seals.leaves(),
                store.door.note("p", b""),
                store.door.list(),
                store.door.head(),
            ):
                await refused(StoreClosed, work)
