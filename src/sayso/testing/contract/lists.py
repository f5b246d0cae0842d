"""What reading promises: single things, pages, the tail."""

# ruff: noqa: S311 - the same chance every time.

from __future__ import annotations

import asyncio
import random
from typing import Any

from sayso.errors import BadValue
from sayso.store.base import PAGE_MAX, Entry, HoldFound, Store
from sayso.store.query import Asked, HoldQuery, RunQuery
from sayso.testing.contract.case import StoreCase, hold_row, refused, write


class ListContract(StoreCase):
    """Everything that is read is read as of the last commit, in order, in pages."""

    async def test_what_is_not_there_is_not_found(self) -> None:
        async with self.opened() as store:
            assert await store.load("run_1") is None
            assert await store.journal("run_1") == []
            assert await store.entries("run_1", [1]) == []
            assert await store.tail() == []
            assert await store.runs(RunQuery()) == []
            assert await store.holds(HoldQuery(who=("anyone",))) == []
            assert await store.hold("run_1", 1) is None
            assert await store.thread("p", "t") is None
            assert await store.due() == []
            assert await store.lost() == []

    async def test_a_journal_is_read_by_pages(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=PAGE_MAX + 3))

            page = await store.journal("run_1", limit=2)
            rest = await store.journal("run_1", after=2, limit=PAGE_MAX * 9)

            assert [entry.seq for entry in page] == [1, 2]
            assert [entry.seq for entry in rest] == list(range(3, PAGE_MAX + 3))
            assert await store.journal("run_1", after=PAGE_MAX + 3) == []

    async def test_single_entries_are_read_in_order(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=5))

            found = await store.entries("run_1", [4, 9, 2, 4])

            assert found == [e for e in await store.journal("run_1") if e.seq in (2, 4)]
            assert await store.entries("run_1", []) == []

    async def test_the_tail_has_every_entry_in_commit_order(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1"), write("run_2", count=2))
            await store.append(write("run_1", after=1))

            tail = await store.tail()

            places = [(entry.run_id, entry.seq) for entry in tail]
            assert places == [("run_1", 1), ("run_2", 1), ("run_2", 2), ("run_1", 2)]
            positions = [entry.position for entry in tail]
            assert positions == sorted(set(positions))
            assert await store.tail(after=positions[1], limit=1) == tail[2:3]
            assert await store.tail(after=positions[-1]) == []

    async def test_the_tail_skips_nothing_while_others_append(self) -> None:
        async with self.opened_twice() as (one, two):
            seen: list[Entry] = []
            appends = [
                asyncio.gather(*(self._append_some(s, f"run_{n}{i}") for i in range(4)))
                for n, s in enumerate((one, two))
            ]
            writing = asyncio.gather(*appends)
            while not writing.done() or await two.tail(after=_last(seen), limit=1):
                seen += await two.tail(after=_last(seen), limit=7)
                await asyncio.sleep(0)
            await writing

            places = {(entry.run_id, entry.seq) for entry in seen}
            assert len(places) == len(seen) == 2 * 4 * 15
            assert seen == await one.tail()

    async def _append_some(self, store: Store, run: str) -> None:
        for after in range(15):
            await store.append(write(run, after=after))

    async def test_runs_are_listed_newest_first_by_pages(self) -> None:
        async with self.opened() as store:
            for n in range(9):
                await store.append(write(f"run_{n}", project="pq"[n % 2], agent="ab"[n // 5]))
            await store.append(write("run_3", after=1, status="suspended", project="q"))

            async def ids(**query: object) -> list[str]:
                return [row.id for row in await store.runs(RunQuery(**query))]  # pyright: ignore[reportArgumentType]

            assert await ids() == [f"run_{n}" for n in range(8, -1, -1)]
            assert await ids(limit=2) == ["run_8", "run_7"]
            assert await ids(limit=2, before="run_7") == ["run_6", "run_5"]
            assert await ids(before="run_0") == []
            assert await ids(before="nobody") == []
            assert await ids(project="q", before="run_5") == ["run_3", "run_1"]
            assert await ids(agent="b", project="p") == ["run_8", "run_6"]
            assert await ids(status="suspended") == ["run_3"]
            assert await ids(status="running", project="q") == ["run_7", "run_5", "run_1"]

    async def test_the_runs_of_a_thread_are_found(self) -> None:
        async with self.opened() as store:
            for n in range(3):
                await store.append(write(f"run_{n}", thread="t", status="completed"))
            await store.append(write("run_3", thread="u"), write("run_4"))
            await store.append(write("run_5", thread="t", project="other"))

            latest = await store.thread("p", "t")
            listed = await store.runs(RunQuery(project="p", thread="t"))

            assert latest == await store.load("run_2")
            assert [row.id for row in listed] == ["run_2", "run_1", "run_0"]

    async def test_a_hold_is_found_with_what_a_view_of_it_needs(self) -> None:
        async with self.opened() as store:
            row = hold_row(entry=3, args_entry=2, deadline=99, digest="not a hash", tool="päy")
            await store.append(write(count=3, holds=(row,)))
            journal = await store.journal("run_1")

            opened = await store.hold("run_1", 1)
            revised = hold_row(
                entry=3, args_entry=4, revised=4, version=2, status="settled", decision=b"{}"
            )
            await store.append(write(after=3, holds=(revised,)))
            settled = await store.hold("run_1", 1)

            assert opened is not None
            assert settled is not None
            assert opened == HoldFound(
                row=row,
                project="p",
                agent="teller",
                opened=journal[2],
                revision=None,
                args=journal[1],
                key=opened.key,
            )
            assert settled.row == revised
            assert settled.revision == settled.args == (await store.journal("run_1"))[3]
            assert settled.key == opened.key
            assert await store.hold("run_1", 2) is None

    async def test_a_hold_is_listed_as_open_until_it_is_settled(self) -> None:
        async with self.opened() as store:
            rows = [hold_row(n=n, entry=n) for n in (1, 2, 3)]
            await store.append(write(count=3, holds=tuple(rows)))
            decided = hold_row(n=1, entry=1, status="decided", decision=b"{}")
            settled = hold_row(n=2, entry=2, status="settled", decision=b"{}")
            await store.append(write(after=3, holds=(decided, settled)))

            for who in (None, ("user:mira",)):
                assert await _numbers(store, HoldQuery(who=who)) == [1, 3]
                assert await _numbers(store, HoldQuery(who=who, status="settled")) == [2]
                assert await _numbers(store, HoldQuery(who=who, status="any")) == [1, 2, 3]
            reopened = hold_row(n=2, entry=2)
            await store.append(write(after=4, holds=(reopened,)))
            assert await _numbers(store, HoldQuery(who=("user:mira",))) == [1, 2, 3]

    async def test_holds_are_listed_for_those_who_may_decide(self) -> None:
        async with self.opened() as store:
            named = [("user:ann",), ("user:ann", "anyone"), ("role:x", "user:bob"), ("anyone",)]
            rows = [hold_row(n=n, entry=n, who=who) for n, who in enumerate(named, start=1)]
            await store.append(write(count=4, holds=tuple(rows)))
            other = hold_row("run_2", who=("anyone",))
            await store.append(write("run_2", project="q", holds=(other,)))

            async def numbers(*who: str, project: str | None = "p") -> list[int]:
                return await _numbers(store, HoldQuery(who=who, project=project))

            assert await numbers("user:ann") == [1, 2]
            assert await numbers("user:ann", "anyone") == [1, 2, 4]
            assert await numbers("user:ann", "anyone", project=None) == [1, 2, 4, 1]
            assert await numbers("role:x", "user:bob") == [3]
            assert await numbers("user:cleo") == []
            assert await numbers() == []
            moved = hold_row(n=1, entry=1, who=("user:cleo",), version=2)
            await store.append(write(after=4, holds=(moved,)))
            assert await numbers("user:ann") == [2]
            assert await numbers("user:cleo") == [1]

    async def test_everyone_who_is_asked_is_listed_hold_by_hold(self) -> None:
        async with self.opened() as store:
            named = [("user:ann",), ("user:ann", "anyone", "anyone"), ("role:x",), ("user:bob",)]
            rows = [hold_row(n=n, entry=n, who=who) for n, who in enumerate(named, start=1)]
            await store.append(write(count=4, holds=tuple(rows)))
            other = hold_row("run_2", who=("anyone",))
            await store.append(write("run_2", project="q", holds=(other,)))
            moved = hold_row(n=1, entry=1, who=("user:cleo",), version=2)
            settled = hold_row(n=3, entry=3, who=("role:x",), status="settled", decision=b"{}")
            decided = hold_row(n=4, entry=4, who=("user:bob",), status="decided", decision=b"{}")
            await store.append(write(after=4, holds=(moved, settled, decided)))

            found = list[Asked]()
            while page := await store.asked(after=found[-1].place if found else _FIRST, limit=2):
                found += page
                assert len(page) in (1, 2)
            assert all(one.fits for one in found)
            assert sorted((one.run_id, one.n, one.who) for one in found) == [
                ("run_1", 1, "user:cleo"),
                ("run_1", 2, "anyone"),
                ("run_1", 2, "user:ann"),
                ("run_1", 4, "user:bob"),
                ("run_2", 1, "anyone"),
            ]

    async def test_the_holds_of_a_run_or_a_suspension_are_listed(self) -> None:
        async with self.opened() as store:
            rows = [hold_row(n=n, entry=n, suspension=1 + n // 3) for n in (1, 2, 3)]
            await store.append(write(count=3, holds=tuple(rows)))
            await store.append(write("run_2", holds=(hold_row("run_2"),)))

            assert await _numbers(store, HoldQuery(run_id="run_1")) == [1, 2, 3]
            assert await _numbers(store, HoldQuery(run_id="run_1", suspension=1)) == [1, 2]
            assert await _numbers(store, HoldQuery(run_id="run_1", project="q")) == []
            assert await _numbers(store, HoldQuery(run_id="run_1", who=("anyone",))) == []
            assert await _numbers(store, HoldQuery(run_id="run_1", limit=2)) == [1, 2]
            assert await _numbers(store, HoldQuery(run_id="run_1", status="settled")) == []

    async def test_holds_are_listed_from_the_newest_on(self) -> None:
        async with self.opened() as store:
            rows = [hold_row(n=n, entry=n) for n in range(1, 6)]
            await store.append(write(count=5, holds=tuple(rows)))
            settled = [hold_row(n=n, entry=n, status="settled", decision=b"{}") for n in (2, 4)]
            await store.append(write(after=5, holds=tuple(settled)))

            async def numbers(**fields: Any) -> list[int]:
                return await _numbers(store, HoldQuery(newest=True, **fields))

            for who in (None, ("user:mira",)):
                assert await numbers(who=who) == [5, 3, 1]
                assert await numbers(who=who, status="settled") == [4, 2]
                assert await numbers(who=who, status="any") == [5, 4, 3, 2, 1]
                assert await numbers(who=who, run_id="run_1", limit=2) == [5, 3]
                for status in ("open", "any"):
                    first = await store.holds(
                        HoldQuery(newest=True, who=who, status=status, limit=2)
                    )
                    rest = await numbers(who=who, status=status, after=first[-1].key)
                    seen = [one.row.n for one in first] + rest
                    assert seen == sorted(seen, reverse=True)
                    assert len(seen) == (3 if status == "open" else 5)

    async def test_pages_of_holds_go_on_where_the_last_one_ended(self) -> None:
        async with self.opened() as store:
            chance = random.Random(1)
            for n in range(40):
                who = tuple(chance.sample(["anyone", "user:ann", "role:x"], k=1 + n % 2))
                status = chance.choice(["open", "open", "decided", "settled"])
                held = hold_row(f"run_{n}", entry=1, who=who, status=status)
                more = hold_row(f"run_{n}", 2, entry=2, who=who, status=status)
                await store.append(
                    write(f"run_{n}", count=2, project="pq"[n % 2], holds=(held, more))
                )
            for query in (
                HoldQuery(),
                HoldQuery(who=("anyone", "user:ann")),
                HoldQuery(who=("role:x",), project="q"),
                HoldQuery(status="any", project="p"),
                HoldQuery(status="settled", who=("user:ann",)),
            ):
                await self._check_pages(store, query)

    async def _check_pages(self, store: Store, query: HoldQuery) -> None:
        fields = {name: getattr(query, name) for name in ("project", "status", "who")}
        whole = await store.holds(HoldQuery(**fields, limit=PAGE_MAX))
        paged: list[HoldFound] = []
        while page := await store.holds(
            HoldQuery(**fields, limit=7, after=paged[-1].key if paged else None)
        ):
            paged += page
        assert whole
        assert paged == whole
        assert [h.opened.position for h in whole] == sorted(h.opened.position for h in whole)

    async def test_a_key_that_no_page_ended_with_is_refused(self) -> None:
        async with self.opened() as store:
            for key in (5, "", "x", "1", "1.x", "-1.2", "1.2.3", "9" * 40 + ".1", "\u0663.\u0661"):
                await refused(BadValue, store.holds(HoldQuery(after=key)))  # pyright: ignore[reportArgumentType]

    async def test_a_list_of_holds_that_cannot_be_is_refused(self) -> None:
        async with self.opened() as store:
            await store.append(write(holds=(hold_row(),)))
            bad: tuple[dict[str, object], ...] = (
                {"status": "typo"},
                {"status": "decided"},
                {"status": None},
                {"limit": 0},
                {"limit": -1},
                {"limit": True},
                {"limit": "2"},
            )
            for query in bad:
                for more in ({}, {"run_id": "run_1"}, {"who": ("user:mira",)}):
                    asked = HoldQuery(**{**more, **query})  # pyright: ignore[reportArgumentType]
                    await refused(BadValue, store.holds(asked))
            told = await refused(BadValue, store.holds(HoldQuery(status="typo")))  # pyright: ignore[reportArgumentType]
            assert "'open', 'settled', 'any'" in str(told)

    async def test_runs_are_due_by_store_time_most_urgent_first(self) -> None:
        async with self.opened() as store:
            now = self.clock.now()
            for n, due_at in enumerate((now, now + 1, now - 5, None)):
                await store.append(write(f"run_{n}", due_at=due_at))

            assert await store.due() == ["run_2", "run_0"]
            assert await store.due(limit=1) == ["run_2"]
            assert await store.due(skip=1) == ["run_0"]
            assert await store.due(skip=2) == []
            self.clock.advance(1)
            assert await store.due() == ["run_2", "run_0", "run_1"]
            await store.append(write("run_2", after=1, due_at=None))
            assert await store.due() == ["run_0", "run_1"]

    async def test_a_page_is_never_longer_than_the_longest(self) -> None:
        async with self.opened() as store:
            count = PAGE_MAX + 1
            await store.append(*(write(f"run_{n}", due_at=1) for n in range(count)))

            assert len(await store.tail(limit=count)) == PAGE_MAX
            assert len(await store.runs(RunQuery(limit=count))) == PAGE_MAX
            assert len(await store.due(limit=count)) == PAGE_MAX
            assert len(await store.due(skip=PAGE_MAX, limit=count)) == 1


_FIRST = (0, 0, 0)


def _last(entries: list[Entry]) -> int:
    return entries[-1].position if entries else 0


async def _numbers(store: Store, query: HoldQuery) -> list[int]:
    return [found.row.n for found in await store.holds(query)]
