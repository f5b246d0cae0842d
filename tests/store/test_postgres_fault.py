"""A server that dies in the middle, and a network that loses, delays and breaks: what was said to
be kept is kept, nobody is told of it in a driver's words, and everything recovers by itself.
"""

import asyncio
import os
import random
import signal
import time
from contextlib import asynccontextmanager, suppress

import pytest

from sayso.errors import CommitUnknown, KeyReused, SaysoError, StaleRun, StoreError
from sayso.store import chain
from sayso.store import postgres_link as link
from sayso.store.base import Key, Store
from sayso.store.journal import read_journal
from sayso.store.postgres import PostgresStore
from sayso.testing.contract import write
from tests.chaos.proxy import Proxy
from tests.postgres import Cluster, cluster

RECOVERS_S = 10.0
"""How long a store may take to be well again after whatever was wrong is over."""
WRITERS = 8


@pytest.fixture
def own(postgres_home):
    """A server that a test may stop."""
    root, bins = postgres_home
    with cluster(root, bins, f"fault-{os.getpid()}-{time.monotonic_ns()}") as found:
        yield found


@pytest.fixture
def schema(postgres: Cluster):
    name = postgres.schema()
    yield name
    postgres.drop(name)


@asynccontextmanager
async def opened(url: str, **options):
    store = await PostgresStore.open(url, **options)
    try:
        yield store
    finally:
        await store.close()


class Diary:
    """Appends to a run for ever, and remembers what was acknowledged."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store, self.run_id = store, run_id
        self.kept = 0
        self.unknown = 0

    async def write(self) -> None:
        after = await self._length()
        while True:
            try:
                await self.store.append(write(self.run_id, after=after))
            except StaleRun:
                after = await self._length()  # The last one was kept after all.
                continue
            except StoreError as error:
                self.unknown += isinstance(error, CommitUnknown)
                after = await self._length()
                continue
            after += 1
            # One that was kept and is gone would be written again, and nobody would miss it.
            assert after > self.kept, f"{self.run_id}: number {after} was acknowledged twice"
            self.kept = after

    async def _length(self) -> int:
        while True:
            try:
                row = await self.store.load(self.run_id)
                return 0 if row is None else row.seq
            except StoreError:
                await asyncio.sleep(0.02)


async def check(store: Store, diary: Diary, *, whole: bool = True) -> None:
    kept = diary.kept  # Before the look: it goes on being written meanwhile.
    row = await store.load(diary.run_id)
    seq = 0 if row is None else row.seq
    assert seq >= kept, f"{diary.run_id}: {kept} were acknowledged, {seq} are there"
    if row is not None and whole:
        journal = await read_journal(store, diary.run_id)
        chain.verify(diary.run_id, journal[:seq], seq=seq, head=row.hash)


async def recovered(store: Store) -> float:
    """Wait until a store can be written to again; give how long that took."""
    began = time.monotonic()
    while True:
        try:
            await store.beat("somebody")
        except StoreError:
            assert time.monotonic() < began + RECOVERS_S, "it does not recover by itself"
            await asyncio.sleep(0.02)
        else:
            return time.monotonic() - began


async def keep_diaries(own: Cluster, times: int, break_it) -> list[Diary]:
    """Let many write while a server is broken again and again; look after every time how many
    entries are there, and in the end at all of them: they grow longer and longer.
    """
    chance = random.Random(times)
    async with opened(own.url("postgres")) as store, opened(own.url("postgres")) as other:
        diaries = [Diary((store, other)[n % 2], f"run_{n}") for n in range(WRITERS)]
        writing = [asyncio.create_task(diary.write()) for diary in diaries]
        try:
            for _ in range(times):
                await asyncio.sleep(0.1 + 0.2 * chance.random())
                await asyncio.to_thread(break_it)
                await recovered(store)
                for diary in diaries:
                    await check(other, diary, whole=False)
            assert not [task for task in writing if task.done()]
        finally:
            for task in writing:
                task.cancel()
            ended = await asyncio.gather(*writing, return_exceptions=True)
        for diary in diaries:
            await check(other, diary)
        assert {type(one) for one in ended} == {asyncio.CancelledError}
    return diaries


@pytest.mark.parametrize("times", [5, pytest.param(300, marks=pytest.mark.soak)])
async def test_what_was_acknowledged_outlives_a_server_killed_in_the_middle(own, times):
    def kill():
        own.crash()
        own.start()

    diaries = await keep_diaries(own, times, kill)

    assert sum(diary.kept for diary in diaries) > times
    # If nobody was ever left without an answer, nothing was killed in the middle of anything.
    assert sum(diary.unknown for diary in diaries) > 0


@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.soak)])
async def test_what_was_acknowledged_outlives_restarts_and_ended_connections(own, times):
    ways = 0

    def restart():
        nonlocal ways
        ways += 1
        if ways % 4 == 0:
            own.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'sayso'"
            )
            return
        own.stop(signal.SIGINT if ways % 2 else signal.SIGQUIT)
        own.start()

    diaries = await keep_diaries(own, times, restart)

    assert sum(diary.kept for diary in diaries) > times


async def test_a_store_recovers_soon_after_a_long_outage(own, monkeypatch):
    """However long it was away: nobody waits as long once more."""
    monkeypatch.setattr(link, "LOCK_S", 30.0)
    async with opened(own.url("postgres")) as store:
        await store.append(write())
        own.stop(signal.SIGINT)
        waiting = [asyncio.create_task(store.load("run_1")) for _ in range(4)]
        done, _ = await asyncio.wait(waiting, timeout=8.0)
        assert not done
        own.start()

        began = time.monotonic()
        assert [(await one).seq for one in waiting] == [1] * 4
        assert time.monotonic() - began < 4.5


async def fill_pool(store: PostgresStore) -> set[int]:
    """Let a store have as many connections as it may; say which processes serve them."""
    held = [store._link.read("select pg_backend_pid(), pg_sleep(0.3)") for _ in range(20)]
    pids = {pid for ((pid, _),) in await asyncio.gather(*held)}
    assert len(pids) == link.POOL_MAX
    return pids


async def test_nobody_waits_for_each_of_the_connections_that_a_restart_has_ended(
    postgres, schema, monkeypatch
):
    """A pool that looks for itself rests after each that is dead, twice as long every time."""
    async with opened(postgres.url("postgres"), schema=schema) as store:
        await store.append(write())
        pids = await fill_pool(store)
        postgres.execute(
            f"select pg_terminate_backend(pid, 5000) from unnest(array{sorted(pids)}) pid"
        )

        monkeypatch.setattr(link, "LOCK_S", 5.0)
        # A write: one on a dead connection is not tried again, as nobody could tell whether it was.
        await store.append(write(after=1))


async def test_whoever_reads_may_lose_every_connection_that_there_is(postgres, schema):
    """As while a server shuts down, which ends them one after another."""
    async with (
        Proxy(postgres.data) as proxy,
        opened(proxy.url(), schema=schema, listen=False) as store,
    ):
        await store._ear.close()
        await store.append(write())
        await fill_pool(store)
        proxy.line = "lose question"
        reading = asyncio.create_task(store.load("run_1"))
        while proxy.lost < link.POOL_MAX:
            await asyncio.sleep(0.01)
        proxy.line = "whole"

        assert (await reading).seq == 1


@pytest.mark.parametrize("times", [100, pytest.param(5000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("lost", ["lose answer", "lose question"])
async def test_a_retry_with_the_same_key_says_what_became_of_it(postgres, schema, times, lost):
    direct = postgres.url("postgres")
    async with (
        opened(direct, schema=schema) as beside,
        Proxy(postgres.data) as proxy,
        opened(proxy.url(), schema=schema, listen=False) as store,
    ):
        await store._ear.close()  # Whose looks would have their answers lost as well.
        kept = 0
        for n in range(times):
            one = write(f"run_{n}", key=Key(project="p", key=f"key {n}", digest="d"))
            proxy.line = lost
            with pytest.raises(CommitUnknown):
                await store.append(one)
            proxy.line = "whole"

            if await beside.load(f"run_{n}") is not None:
                kept += 1
                with pytest.raises((KeyReused, StaleRun)):
                    await store.append(one)
            else:
                await store.append(one)

            row, key = await store.load(f"run_{n}"), await store.key("p", f"key {n}")
            assert row is not None
            assert key is not None
            assert (row.seq, key.run_id, key.seq) == (1, row.id, 1)
        # What was lost may have been the answer to preparing the statement.
        assert kept == 0 if lost == "lose question" else kept > 0.8 * times
    ((rows, keys),) = postgres.execute(
        f"select (select count(*) from {schema}.journal), (select count(*) from {schema}.keys)"
    )
    assert (rows, keys) == (times, times)


@pytest.mark.parametrize(
    "line",
    ["cut", "rst", "blackhole", "half there", "half back", "delay", "trickle"],
)
async def test_no_network_is_told_of_in_a_drivers_words_and_all_of_it_is_got_over(
    postgres, schema, line
):
    async with (
        opened(postgres.url("postgres"), schema=schema) as beside,
        Proxy(postgres.data) as proxy,
        opened(proxy.url(connect_timeout="2"), schema=schema, patience_s=1.0) as store,
    ):
        diary = Diary(store, "run_1")
        writing = asyncio.create_task(diary.write())
        while not diary.kept:
            await asyncio.sleep(0.01)
        watch = store.watch("run_2")

        async def read() -> None:
            while True:
                with suppress(SaysoError):
                    await store.load("run_1")
                await asyncio.sleep(0.02)

        reading = asyncio.create_task(read())
        proxy.line = line
        await asyncio.wait([reading], timeout=1.5)
        proxy.line = "whole"

        before = diary.kept
        took = await recovered(store)
        end = time.monotonic() + RECOVERS_S
        while diary.kept == before:
            assert time.monotonic() < end, f"the writer does not recover; the store did in {took}"
            assert not writing.done(), writing
            await asyncio.sleep(0.02)
        while await watch.wait(0):
            pass
        await beside.append(write("run_2"))
        assert await watch.wait(RECOVERS_S), "what others commit is not heard of any more"
        assert not reading.done(), reading
        for task in (reading, writing):
            task.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)
        await check(beside, diary)
