"""Many appends at once, held against a model too simple to be wrong."""

# ruff: noqa: PLR2004, S311 - tests assert on plain numbers and repeat their chance.

from __future__ import annotations

import asyncio
import random

from sayso.domain.guard import Before, ItemAt, Since
from sayso.errors import ConditionFailed, KeyReused, SaysoError, StaleRun, ThreadBusy
from sayso.store import chain
from sayso.store.base import PAGE_MAX, Appended, ItemPut, Key, NewParcel, Store, Write
from sayso.testing.contract.case import StoreCase, write

_RUNS = 6
_APPENDS = 200
_FINAL = ("completed", "failed")


class Model:
    """What a store is, when one thing happens after another."""

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.keys: set[str] = set()
        self.busy: dict[str, str] = {}
        self.items: dict[str, bytes | None] = {}
        self.parcels: dict[str, str] = {}

    def append(self, writes: tuple[Write, ...], now: int) -> type[SaysoError] | None:
        """Carry it out, or say what is wrong with the first write that cannot be."""
        seqs, keys, busy = dict(self.seqs), set(self.keys), dict(self.busy)
        items, parcels = dict(self.items), dict(self.parcels)
        for one in writes:
            if seqs.get(one.run, 0) != one.after:
                return StaleRun
            for condition in one.only_if:
                if isinstance(condition, ItemAt):
                    if condition.id in items:
                        return ConditionFailed
                elif (now < condition.at) is not isinstance(condition, Before):
                    return ConditionFailed
            if one.key is not None and one.key.key in keys:
                return KeyReused
            if one.thread and one.status not in _FINAL:
                if busy.setdefault(one.thread, one.run) != one.run:
                    return ThreadBusy
            elif busy.get(one.thread) == one.run:
                del busy[one.thread]
            seqs[one.run] = one.after + len(one.entries)
            keys |= {one.key.key} if one.key is not None else set()
            for item in one.items:
                if item.id in items:
                    return ConditionFailed
                items[item.id] = item.data
            for name in one.unparcels:
                parcels.pop(name, None)
            parcels |= {parcel.id: one.run for parcel in one.parcels}
        self.seqs, self.keys, self.busy = seqs, keys, busy
        self.items, self.parcels = items, parcels
        return None


class RaceContract(StoreCase):
    """Whatever is handed over in whatever order, the answers are those of one after another."""

    async def test_200_random_appends_at_once_end_as_one_after_another_would(self) -> None:
        for seed in range(5):
            async with self.opened() as store:
                await self._race(store, random.Random(seed), f"run_{seed}_")

    async def _race(self, store: Store, chance: random.Random, prefix: str) -> None:
        model, now = Model(), self.clock.now()
        expected: list[type[SaysoError] | None] = []
        answers: list[asyncio.Future[Appended]] = []
        for _ in range(_APPENDS):
            writes = self._writes(model, chance, prefix, now)
            expected.append(model.append(writes, now))
            answers.append(asyncio.ensure_future(store.append(*writes)))
            if chance.random() < 0.2:
                await asyncio.sleep(0)
        told = await asyncio.gather(*answers, return_exceptions=True)

        got = [type(answer) if isinstance(answer, Exception) else None for answer in told]
        assert got == expected
        assert set(got) == {None, StaleRun, ConditionFailed, KeyReused, ThreadBusy}
        for run, seq in model.seqs.items():
            row = await store.load(run)
            assert row is not None
            assert row.seq == seq
            chain.verify(run, await store.journal(run), seq=seq, head=row.hash)
        items = await store.shelf.list("p", prefix)
        assert {item.id: item.data for item in items} == model.items
        assert len({item.rev for item in items}) == len(items) > 0
        parcels = await store.outbox.take(limit=PAGE_MAX, lease_ms=1000)
        assert {parcel.id: parcel.run_id for parcel in parcels} == model.parcels != {}
        for parcel in parcels:
            await store.outbox.done(parcel)

    def _writes(
        self, model: Model, chance: random.Random, prefix: str, now: int
    ) -> tuple[Write, ...]:
        writes: list[Write] = []
        for n in chance.sample(range(_RUNS), k=chance.choice([1, 1, 1, 2, 3])):
            run = f"{prefix}{n}"
            after = max(0, model.seqs.get(run, 0) + chance.choice([0, 0, 0, 0, 0, -1, 1]))
            key = Key(project="p", key=f"{prefix}{chance.randrange(60)}", digest="d")
            none = ItemAt(kind=prefix, id=f"{chance.randrange(60)}", rev=0)
            put = ItemPut(kind=prefix, id=f"{chance.randrange(60)}", rev=0, data=run.encode())
            parcel = NewParcel(id=f"{chance.randrange(20)}", kind="k", due_at=now, data=b"")
            condition = chance.choice([Before(at=now), Before(at=now + 1), Since(at=now), none])
            writes.append(
                write(
                    run,
                    after=after,
                    count=chance.randint(1, 3),
                    thread=f"{prefix}{n % 4}",
                    status=chance.choice(["running", "running", "suspended", *_FINAL]),
                    key=key if chance.random() < 0.3 else None,
                    only_if=(condition,) if chance.random() < 0.3 else (),
                    items=(put,) if chance.random() < 0.3 else (),
                    parcels=(parcel,) if chance.random() < 0.3 else (),
                    unparcels=(f"{chance.randrange(20)}",) if chance.random() < 0.3 else (),
                )
            )
        return tuple(writes)

    async def test_of_two_who_append_after_the_same_entry_one_is_stale(self) -> None:
        async with self.opened_twice() as (one, two):
            await one.append(write())
            for after in range(1, 30):
                answers = [store.append(write(after=after)) for store in (one, two)]
                told = await asyncio.gather(*answers, return_exceptions=True)

                assert sorted(isinstance(answer, StaleRun) for answer in told) == [False, True]
            for store in (one, two):
                row = await store.load("run_1")
                assert row is not None
                journal = await store.journal("run_1")
                assert chain.verify("run_1", journal, seq=30, head=row.hash) == 0
