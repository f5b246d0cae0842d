"""What an append promises."""

# ruff: noqa: PLR2004 - tests assert on plain numbers.

from __future__ import annotations

import asyncio
import gc
from typing import Any

from sayso.domain.guard import Before, Since
from sayso.errors import (
    ConditionFailed,
    KeyReused,
    StaleRun,
    StoreClosed,
    StoreError,
    ThreadBusy,
)
from sayso.store import chain
from sayso.store.base import Key, KeyRow, RunRow
from sayso.testing.contract.case import StoreCase, hold_row, refused, write


class AppendContract(StoreCase):
    """The guard, the conditions, the keys, the chain."""

    async def test_an_append_creates_a_run(self) -> None:
        async with self.opened() as store:
            first = write(count=2, thread="t", due_at=7, owner="w1", state=b"state", fold=3)

            appended = await store.append(first)

            journal = await store.journal("run_1")
            assert await store.load("run_1") == RunRow(
                id="run_1",
                project="p",
                agent="teller",
                thread="t",
                status="running",
                seq=2,
                hash=journal[-1].hash,
                last=first.entries[-1].id,
                fold=3,
                state=b"state",
                due_at=7,
                owner="w1",
            )
            assert [entry.seq for entry in journal] == [1, 2]
            assert [entry.id for entry in journal] == [new.id for new in first.entries]
            assert [entry.payload for entry in journal] == [new.payload for new in first.entries]
            assert appended.position == journal[-1].position
            assert appended.at == journal[-1].at == self.clock.now()

    async def test_entries_are_chained_with_store_time_over_their_stored_bytes(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=2))
            self.clock.advance(1000)
            await store.append(write(after=2, count=3))

            journal, row = await store.journal("run_1"), await store.load("run_1")

            assert row is not None
            assert chain.verify("run_1", journal, seq=row.seq, head=row.hash) == 0
            assert [e.at - journal[0].at for e in journal] == [0, 0, 1000, 1000, 1000]
            assert len({entry.salt for entry in journal}) == len(journal)
            assert all(len(entry.salt) == chain.SALT_BYTES for entry in journal)

    async def test_an_append_after_anything_but_the_last_entry_is_stale(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=2))
            before = await store.load("run_1")

            for after in (0, 1, 3):
                await refused(StaleRun, store.append(write(after=after)))
            await refused(StaleRun, store.append(write("run_2", after=1)))

            assert await store.load("run_1") == before
            assert await store.load("run_2") is None
            assert len(await store.tail()) == 2

    async def test_an_append_after_somebody_elses_entry_of_the_same_number_is_stale(self) -> None:
        async with self.opened() as store:
            first, mine = write(), write(after=1)
            await store.append(first)
            await store.append(write(after=1))

            mine_was_refused = store.append(mine)
            builds_on_mine = store.append(write(after=2, after_id=mine.entries[-1].id))

            await refused(StaleRun, mine_was_refused)
            await refused(StaleRun, builds_on_mine)
            row = await store.load("run_1")
            assert row is not None
            await store.append(write(after=2, after_id=row.last))
            await refused(StaleRun, store.append(write(after=3, after_id=first.entries[0].id)))

    async def test_a_run_that_is_not_there_has_no_last_entry(self) -> None:
        async with self.opened() as store:
            await refused(StaleRun, store.append(write(after_id=b"12345678")))
            await store.append(write(after_id=b""))

            await refused(StaleRun, store.append(write(after=1, after_id=b"")))

    async def test_appends_are_committed_in_the_order_of_the_calls(self) -> None:
        async with self.opened() as store:
            answers = [store.append(write(after=n)) for n in range(20)]

            done = await asyncio.gather(*answers)

            positions = [appended.position for appended in done]
            assert positions == sorted(positions)
            assert [entry.seq for entry in await store.journal("run_1")] == list(range(1, 21))

    async def test_an_append_to_several_runs_happens_to_all_of_them_or_to_none(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1"), write("run_2", count=2))
            stale = store.append(write("run_1", after=1), write("run_3"), write("run_2", after=1))

            await refused(StaleRun, stale)

            assert [row and row.seq for row in await self._rows(store)] == [1, 2, None]
            assert len(await store.tail()) == 3
            await store.append(write("run_1", after=1), write("run_2", after=2), write("run_3"))
            assert [row and row.seq for row in await self._rows(store)] == [2, 3, 1]

    async def _rows(self, store: Any) -> list[RunRow | None]:
        return [await store.load(f"run_{n}") for n in (1, 2, 3)]

    async def test_a_refused_append_leaves_the_others_alone(self) -> None:
        async with self.opened() as store:
            answers = [
                store.append(write("run_1")),
                store.append(write("run_1")),
                store.append(write("run_2", only_if=(Before(at=1),))),
                store.append(write("run_3", holds=(hold_row("run_3", entry=9),))),
                store.append(write("run_1", after=1)),
                store.append(write("run_2")),
            ]

            told = await asyncio.gather(*answers, return_exceptions=True)

            kinds = [type(error) if isinstance(error, Exception) else None for error in told]
            assert kinds == [None, StaleRun, ConditionFailed, StoreError, None, None]
            assert [row and row.seq for row in await self._rows(store)] == [2, 1, None]

    async def test_conditions_are_held_against_store_time_to_the_millisecond(self) -> None:
        async with self.opened() as store:
            now = self.clock.now()
            fails = [Before(at=now), Before(at=now - 1), Since(at=now + 1)]

            for condition in fails:
                both = (Since(at=0), condition)
                error = await refused(ConditionFailed, store.append(write(only_if=both)))
                assert error.condition == condition

            assert await store.load("run_1") is None
            await store.append(write(only_if=(Before(at=now + 1), Since(at=now))))

    async def test_time_in_a_run_never_goes_back(self) -> None:
        async with self.opened() as store:
            first = await store.append(write())
            self.clock.step_wall(-60_000)
            other = await store.append(write("run_2"))
            second = await store.append(write(after=1))
            both = await store.append(write(after=2), write("run_2", after=1))
            deadline = Before(at=first.at)

            await refused(ConditionFailed, store.append(write(after=3, only_if=(deadline,))))

            assert first.at == second.at == both.at == other.at + 60_000
            assert {entry.at for entry in await store.journal("run_1")} == {first.at}

    async def test_a_key_is_taken_once_whatever_its_digest(self) -> None:
        async with self.opened() as store:
            key = Key(project="p", key="k", digest="d")
            await store.append(write(count=2))
            await store.append(write(after=2, count=2, key=key))
            other = Key(project="p", key="k", digest="other")

            await refused(KeyReused, store.append(write(after=4, key=key)))
            await refused(KeyReused, store.append(write("run_2", key=other)))

            assert await store.key("p", "k") == KeyRow(digest="d", run_id="run_1", seq=3)
            assert await store.key("p", "other") is None
            assert await store.key("q", "k") is None
            assert await store.load("run_2") is None
            await store.append(write("run_2", key=Key(project="q", key="k", digest="d")))

    async def test_a_thread_has_one_unfinished_run(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1", thread="t"))

            await refused(ThreadBusy, store.append(write("run_2", thread="t")))
            await store.append(write("run_1", after=1, thread="t", status="suspended"))
            await refused(ThreadBusy, store.append(write("run_2", thread="t")))

            assert await store.load("run_2") is None
            await store.append(write("run_3", thread="t", project="other"))
            await store.append(write("run_4"), write("run_5"))
            await store.append(write("run_1", after=2, thread="t", status="completed"))
            await store.append(write("run_2", thread="t"))

    async def test_one_append_may_end_a_run_and_start_the_next_of_its_thread(self) -> None:
        async with self.opened() as store:
            await store.append(write("run_1", thread="t"))

            await store.append(
                write("run_1", after=1, thread="t", status="failed"), write("run_2", thread="t")
            )

            latest = await store.thread("p", "t")
            assert latest is not None
            assert latest.id == "run_2"

    async def test_an_owner_stays_until_an_append_says_otherwise(self) -> None:
        async with self.opened() as store:
            await store.append(write(owner="w1"))

            await refused(StaleRun, store.append(write(after=1, owner_was="")))
            await refused(StaleRun, store.append(write(after=1, owner_was="w2", owner="w2")))
            await store.append(write(after=1, owner_was="w1"))
            kept = await store.load("run_1")
            await store.append(write(after=2, owner=""))
            left = await store.load("run_1")
            await store.append(write(after=3, owner_was="", owner="w2"))
            taken = await store.load("run_1")

            assert [row and row.owner for row in (kept, left, taken)] == ["w1", "", "w2"]

    async def test_a_run_that_is_not_running_cannot_have_an_owner(self) -> None:
        async with self.opened() as store:
            await store.append(write(owner="w1"))

            await refused(StoreError, store.append(write(after=1, status="suspended")))

            await store.append(write(after=1, status="suspended", owner=""))

    async def test_what_a_run_belongs_to_is_settled_when_it_is_created(self) -> None:
        async with self.opened() as store:
            await store.append(write(thread="t"))
            await store.append(write(after=1, thread="t", status="suspended", due_at=9, fold=2))

            row = await store.load("run_1")

            assert row is not None
            assert (row.project, row.agent, row.thread) == ("p", "teller", "t")
            assert (row.status, row.due_at, row.fold, row.seq) == ("suspended", 9, 2, 2)
            assert row.state == b"run_1 after 2"

    async def test_a_redacted_entry_is_gone_and_the_chain_still_holds(self) -> None:
        async with self.opened() as store:
            await store.append(write(count=3))
            before = await store.journal("run_1")

            await store.append(write(after=3, status="completed", redacts=(1, 2)))
            await store.append(write(after=4, status="completed", redacts=(2,)))

            journal, row = await store.journal("run_1"), await store.load("run_1")
            assert row is not None
            assert [entry.redacted for entry in journal] == [True, True, False, False, False]
            assert chain.verify("run_1", journal, seq=5, head=row.hash) == 2
            assert journal[1].salt == b""
            assert journal[1].payload == chain.leaf(before[1].salt, before[1].payload)
            assert [entry.hash for entry in journal[:3]] == [entry.hash for entry in before]
            assert (await store.tail())[0] == journal[0]

    async def test_a_redaction_of_nothing_is_refused(self) -> None:
        async with self.opened() as store:
            await store.append(write())

            await refused(StoreError, store.append(write(after=1, redacts=(7,))))

            assert len(await store.journal("run_1")) == 1

    async def test_an_append_whose_awaiter_is_cancelled_is_carried_out(self) -> None:
        async with self.opened() as store:

            async def wait() -> None:
                await store.append(write())

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await store.append(write("run_2"))

            assert await store.load("run_1") is not None

    async def test_an_append_that_nobody_awaits_is_carried_out_in_silence(self) -> None:
        complaints: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        async with self.opened() as store:
            store.append(write())
            store.append(write())
            await store.append(write(after=1))
            gc.collect()

            assert len(await store.journal("run_1")) == 2
        assert complaints == []

    async def test_closing_finishes_what_was_handed_over_and_refuses_the_rest(self) -> None:
        async with self.opened() as store:
            answers = [store.append(write(after=n)) for n in range(3)]

            await store.close()

            assert [(await answer).at for answer in answers] == [self.clock.now()] * 3
            await refused(StoreClosed, store.append(write(after=3)))
            await refused(StoreClosed, store.load("run_1"))
            await refused(StoreClosed, store.beat("w1"))
            await refused(StoreClosed, store.claim("w1"))
            await store.close()
