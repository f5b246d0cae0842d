"""What searching the holds promises: every word, everywhere it may be, and nowhere else."""

# ruff: noqa: S311 - the same chance every time.

from __future__ import annotations

import random

from msgspec.structs import replace

from sayso.errors import BadValue
from sayso.store.base import PAGE_MAX, HoldFound, Store
from sayso.store.query import HoldQuery
from sayso.store.words import has_words, join_words
from sayso.testing.contract.case import StoreCase, hold_row, refused, write


class SearchContract(StoreCase):
    """A search narrows a list, and changes nothing else about it."""

    async def test_a_hold_is_found_by_its_words_and_ids(self) -> None:
        async with self.opened() as store:
            said = "Pay  Jiro \u00c9t\u00e9", "process_payment", "Teller", "service:Mira"
            words = join_words(*said)
            row = hold_row("run_Ab-7", 3, suspension=5, words=words)
            await store.append(write("run_Ab-7", holds=(row,)))
            await store.append(write("run_2", holds=(hold_row("run_2"),)))

            for found in (
                *("pay jiro", "\u00e9t\u00e9", "jir", "process_payment", "ess_pay"),
                *("\u00e9t\u00e9 teller", "service:mira", "service", "jiro teller ab-7", "\u00e9"),
                *("run_ab-7", "hold_ab-7.3", "req_ab-7.5", "ab-7", "ab-7.3", "d_ab", "7.5"),
            ):
                assert await _ids(store, *found.split()) == ["run_Ab-7"], found
            assert await _ids(store, "hold_") == ["run_Ab-7", "run_2"]
            assert await _ids(store) == ["run_Ab-7", "run_2"]
            for missed in (
                *("jiropay", "tellerservice", "hold_ab-7.5", "req_ab-7.3", "run_ab-7.3", "ete"),
                *("jiro hanako", "jiro run_2", "ab-7.3run", "user"),
            ):
                assert await _ids(store, *missed.split()) == [], missed

    async def test_every_part_of_an_id_finds_the_same_holds(self) -> None:
        async with self.opened() as store:
            rows = [hold_row("run_hB-1", n, entry=n, suspension=30 - n) for n in (1, 2, 13)]
            rows += [hold_row("run_9_r", 21, entry=1, suspension=1, words="")]
            await store.append(write("run_hB-1", count=13, holds=tuple(rows[:3])))
            await store.append(write("run_9_r", holds=tuple(rows[3:])))
            ids = ("run_hb-1", "hold_hb-1.13", "req_hb-1.28", "hold_9_r.21", "req_9_r.1")
            parts = {i[a:b] for i in ids for a in range(len(i)) for b in range(a + 1, len(i) + 1)}

            for part in sorted(parts):
                found = await store.holds(HoldQuery(search=(part,)))

                expected = [row.n for row in rows if has_words((part,), row)]
                assert [one.row.n for one in found] == expected, part

    async def test_every_character_of_a_search_stands_for_itself(self) -> None:
        async with self.opened() as store:
            titles = ("100% sure", "100 sure", "a_b", "axb", "it's", 'a "b" c', "a\\b", "a\0b", "*")
            for n, title in enumerate(titles, start=1):
                words = join_words(title, "tool", "agent", "who")
                row = hold_row(f"run_{n}", words=words)
                await store.append(write(f"run_{n}", holds=(row,)))

            for word, number in (
                *(("100%", 1), ("%", 1), ("a_b", 3), ("it's", 5), ('"b"', 6), ("a\\b", 7)),
                *(("a\0b", 8), ("*", 9), ("\0", 8)),
            ):
                assert await _ids(store, word) == [f"run_{number}"], word
            assert await _ids(store, "a%b") == await _ids(store, "s%e") == []

    async def test_a_search_narrows_every_list_and_keeps_its_pages(self) -> None:
        async with self.opened() as store:
            await self._fill(store)
            found = 0
            for search in (("pay",), ("jiro", "pay"), ("hauptstrasse",), ("run_1",), ("nobody",)):
                for who in (None, ("anyone", "user:ann"), ("role:x",), ("user:cleo",)):
                    for project in (None, "p", "q"):
                        query = HoldQuery(search=search, who=who, project=project)
                        found += await self._check_search(store, query)
            assert found

    async def _fill(self, store: Store) -> None:
        chance = random.Random(1)
        for n in range(60):
            run = f"run_{n}"
            title = chance.choice(["Pay Jiro", "Pay Hanako", "", "Ask in Hauptstra\u00dfe"])
            rows = [
                hold_row(
                    run,
                    number,
                    entry=number,
                    who=tuple(chance.sample(["anyone", "user:ann", "role:x"], k=1 + n % 2)),
                    status=chance.choice(["open", "open", "decided", "settled"]),
                    words=join_words(title, "tool", "agent", chance.choice(["jiro", "mira"])),
                )
                for number in (1, 2)
            ]
            await store.append(write(run, count=2, project="pq"[n % 2], holds=tuple(rows)))

    async def _check_search(self, store: Store, query: HoldQuery) -> int:
        count = 0
        for status in ("open", "settled", "any"):
            asked = replace(query, status=status, limit=PAGE_MAX)
            listed = await store.holds(replace(asked, search=()))
            expected = [one for one in listed if has_words(query.search, one.row)]
            paged: list[HoldFound] = []
            while page := await store.holds(
                replace(asked, limit=3, after=paged[-1].key if paged else None)
            ):
                paged += page
            assert await store.holds(asked) == paged == expected
            assert {one.project for one in paged} <= {query.project or "p", query.project or "q"}
            count += len(paged)
        return count

    async def test_the_holds_of_a_run_can_be_searched(self) -> None:
        async with self.opened() as store:
            rows = [hold_row(n=n, entry=n, words=f"title {n}\npay") for n in (1, 2)]
            await store.append(write(count=2, holds=tuple(rows)))

            found = await store.holds(HoldQuery(run_id="run_1", search=("2",)))

            assert [one.row.n for one in found] == [2]

    async def test_words_stay_until_others_are_given(self) -> None:
        async with self.opened() as store:
            await store.append(write(holds=(hold_row(words="pay jiro\npay"),)))
            await store.append(write(after=1, holds=(hold_row(words=None, status="decided"),)))
            assert await _ids(store, "jiro") == ["run_1"]

            await store.append(write(after=2, holds=(hold_row(words="pay ann\npay", version=2),)))

            assert await _ids(store, "jiro") == []
            assert await _ids(store, "ann") == ["run_1"]
            await store.append(write("run_2", holds=(hold_row("run_2", words=None),)))
            found = await store.hold("run_2", 1)
            assert found is not None
            assert found.row.words == ""

    async def test_a_title_is_found_no_more_once_its_entry_is_redacted(self) -> None:
        async with self.opened() as store:
            rows = (
                hold_row(n=1, entry=1, words="secret\npay"),
                hold_row(n=2, entry=2, words="secret"),
                hold_row(n=3, entry=3, revised=5, words="secret\npay"),
                hold_row(n=4, entry=4, words="open\npay"),
            )
            await store.append(write(count=5, holds=rows))
            other = hold_row("run_2", words="secret\nx")
            await store.append(write("run_2", holds=(other,)))

            await store.append(write(after=5, status="completed", redacts=(1, 2)))
            await store.append(write(after=6, status="completed", redacts=(5,)))

            assert await _ids(store, "secret") == ["run_2"]
            found = await store.holds(HoldQuery(run_id="run_1"))
            assert [one.row.words for one in found] == ["\npay", "", "\npay", "open\npay"]

    async def test_a_search_that_cannot_be_is_refused(self) -> None:
        async with self.opened() as store:
            await store.append(write(holds=(hold_row(),)))
            bad = [("",), (" ",), ("a b",), ("Pay",), ("e\u0301",), ("x" * 201,), ("\ud800",)]
            bad += [tuple("abcdefghijk"), ("x" * 100, "y" * 101)]
            for search in bad:
                for query in ({}, {"who": ("user:mira",)}, {"run_id": "run_1"}):
                    asked = HoldQuery(search=search, **query)  # pyright: ignore[reportArgumentType]
                    await refused(BadValue, store.holds(asked))
            assert await store.holds(HoldQuery(search=tuple("abcdefghij"))) == []


async def _ids(store: Store, *search: str) -> list[str]:
    """Search every list that the holds may be on; all must agree."""
    found = [
        [one.row.run_id for one in await store.holds(HoldQuery(search=search, who=who))]
        for who in (None, ("user:mira",))
    ]
    assert found[0] == found[1], search
    return found[0]
