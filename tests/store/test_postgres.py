"""PostgreSQL: what the contract cannot say of it. Order across machines, lost answers, servers that
go away, leases by the database's own time.
"""

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager

import pytest

from sayso.domain.guard import Since
from sayso.errors import (
    BadValue,
    CommitUnknown,
    StaleRun,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreForked,
)
from sayso.store import chain, postgres_pen
from sayso.store import postgres_link as link
from sayso.store.base import LEASE_MS, Key, Lost
from sayso.store.postgres import PostgresStore
from sayso.testing import FakeClock
from sayso.testing.contract import hold_row, refused, write
from tests.postgres import Cluster, cluster

from .child import forked
from .wire import Wire


@pytest.fixture
def schema(postgres: Cluster):
    name = postgres.schema()
    yield name
    postgres.drop(name)


@pytest.fixture
def own(postgres_home):
    """A server that a test may stop."""
    root, bins = postgres_home
    with cluster(root, bins, f"own-{os.getpid()}-{time.monotonic_ns()}") as found:
        yield found


@asynccontextmanager
async def opened(where: Cluster, schema: str = "sayso", **options):
    store = await PostgresStore.open(where.url("postgres"), schema=schema, **options)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def through(wire: Wire, schema: str, **options):
    url = f"postgresql:///postgres?host={wire.directory}&user=postgres"
    store = await PostgresStore.open(url, schema=schema, listen=False, **options)
    try:
        yield store
    finally:
        wire.how = "pass"
        await store.close()


async def conn_to(where: Cluster, schema: str):
    import psycopg

    conn = await psycopg.AsyncConnection.connect(where.url("postgres"), autocommit=True)
    await conn.execute(f"set search_path = {schema}")
    await conn.execute("set sayso.knows = '1000000'")
    return conn


async def test_an_append_waits_for_one_that_is_not_committed_yet(postgres, schema):
    """Or a reader would take the second for the last, and never look before it again."""
    async with (
        opened(postgres, schema, pool_max=1) as store,
        opened(postgres, schema) as other,
    ):
        # The first append of a connection looks more closely, and waits for its turn there, too.
        await store.append(write("run_0"))
        async with await conn_to(postgres, schema) as conn:
            await conn.execute("begin")
            await conn.execute("select take_turn()")
            waits = store.append(write("run_1"))
            done, _ = await asyncio.wait([waits], timeout=0.5)
            assert not done
            assert len(await other.tail()) == 1

            await conn.execute("commit")

            assert (await waits).position == 2


async def test_nothing_is_skipped_while_many_append_and_one_follows(postgres, schema):
    async with opened(postgres, schema) as one, opened(postgres, schema) as two:

        async def some(store, name):
            for after in range(25):
                await store.append(write(name, after=after))

        writing = asyncio.gather(*(some(s, f"run_{n}") for n, s in enumerate([one, two] * 3)))
        seen = []
        while not writing.done() or await two.tail(after=len(seen)):
            seen += await two.tail(after=seen[-1].position if seen else 0, limit=9)
        await writing

        assert [entry.position for entry in seen] == list(range(1, 151))


async def test_an_append_is_prepared_before_it_is_needed(postgres, schema, tmp_path):
    """Whatever is in it, and whatever time it is."""
    clock = FakeClock()
    options = {"clock": clock, "pool_max": 1}
    async with Wire(postgres.data, tmp_path) as wire, through(wire, schema, **options) as store:
        await store._ear.close()
        for after, time_ms in enumerate((0, 1 << 20, 1 << 40)):
            clock.advance(time_ms)
            before = wire.questions

            await store.append(write(after=after, due_at=time_ms or None))

            assert wire.questions - before == 1


async def test_what_is_refused_leaves_no_gap_between_positions(postgres, schema):
    async with opened(postgres, schema) as store:
        appends = (write("run_1"), write("run_1", after=7, count=3), write("run_2"))
        told = await asyncio.gather(*map(store.append, appends), return_exceptions=True)
        alone = store.append(write("run_3", after=7))
        await refused(StaleRun, alone)

        last = await store.append(write("run_3"))

        assert isinstance(told[1], StaleRun)
        assert [told[0].position, told[2].position, last.position] == [1, 2, 3]


async def test_an_append_is_one_round_trip(postgres, schema, tmp_path):
    async with Wire(postgres.data, tmp_path) as wire, through(wire, schema) as store:
        await store._ear.close()
        for after in range(60):  # Until there are as many connections as will be.
            await store.append(write(after=after))
        before = wire.questions

        for after in range(60, 80):
            await store.append(write(after=after, holds=(hold_row(n=after, entry=after + 1),)))

        assert wire.questions - before == 20


async def test_appends_that_come_at_once_share_their_commits(postgres, schema, tmp_path):
    async with Wire(postgres.data, tmp_path) as wire, through(wire, schema) as store:
        await store._ear.close()
        await store.append(write("first"))
        before = wire.questions

        await asyncio.gather(*(store.append(write(f"run_{n}")) for n in range(80)))

        assert wire.questions - before < 10


@pytest.mark.parametrize("how, is_there", [("lose the answer", True), ("lose the question", False)])
async def test_a_lost_answer_is_neither_a_yes_nor_a_no(postgres, schema, tmp_path, how, is_there):
    async with (
        opened(postgres, schema) as beside,
        Wire(postgres.data, tmp_path) as wire,
        through(wire, schema) as store,
    ):
        await store.append(write())

        wire.how = how
        unknown = await refused(CommitUnknown, store.append(write(after=1)))
        wire.how = "pass"

        assert "did not say" in str(unknown)
        await asyncio.sleep(0.1)
        row = await beside.load("run_1")
        assert row is not None
        assert row.seq == 1 + is_there
        # And it goes on by itself.
        await store.append(write(after=row.seq))


async def test_a_server_that_keeps_silent_is_not_waited_for_for_ever(postgres, schema, tmp_path):
    async with (
        Wire(postgres.data, tmp_path) as wire,
        through(wire, schema, patience_s=0.5) as store,
    ):
        await store.append(write())

        wire.how = "keep silent"
        await refused(CommitUnknown, store.append(write(after=1)))
        wire.how = "pass"
        wire.cut()

        assert (await store.load("run_1")).seq == 1
        await store.append(write(after=1))


async def test_an_append_that_does_not_get_its_turn_is_refused(postgres, schema, monkeypatch):
    monkeypatch.setattr(link, "LOCK_S", 0.3)
    async with opened(postgres, schema) as store:
        conn = await conn_to(postgres, schema)
        await conn.execute("begin")
        await conn.execute("select take_turn()")

        busy = await refused(StoreBusy, store.append(write()))
        await refused(StoreBusy, store.shelf.put("p", "k", "i", b"", rev=0))
        await conn.close()

        assert "nothing was written" in str(busy)
        assert await store.load("run_1") is None
        await store.append(write())


async def test_connections_that_the_server_has_ended_are_replaced_unnoticed(postgres, schema):
    async with opened(postgres, schema) as store:
        await asyncio.gather(*(store.load("run_1") for _ in range(8)))
        for after in range(5):
            mine = f"application_name = 'sayso' and query not like '%{schema}_not%'"
            postgres.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {mine}")
            await asyncio.sleep(0.05)

            await store.append(write(after=after))
            assert (await store.load("run_1")).seq == after + 1


async def test_a_store_outlives_a_crash_of_its_server(own, monkeypatch):
    monkeypatch.setattr(link, "LOCK_S", 1.0)
    async with opened(own) as store:
        for after in range(3):
            await store.append(write(after=after))
        watch = store.watch("run_1")
        while await watch.wait(0):
            pass
        own.stop(signal.SIGQUIT)
        await refused(StoreError, asyncio.wait_for(store.append(write(after=3)), 30))
        own.start()

        end = time.monotonic() + 10
        while True:
            try:
                row = await store.load("run_1")
                break
            except StoreError:
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
        assert row is not None
        await store.append(write(after=row.seq))
        async with opened(own) as other:
            while await watch.wait(0):
                pass
            await other.append(write(after=row.seq + 1))
            assert await watch.wait(5)
        journal = await store.journal("run_1")
        head = (await store.load("run_1")).hash
        chain.verify("run_1", journal, seq=row.seq + 2, head=head)


async def test_the_time_in_which_a_server_was_away_ends_no_lease(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.beat("w1")
        await store.append(write(owner="w1"))
        # Nobody could put the clock on, or somebody has set the wall clock: it looks the same.
        postgres.execute(f"update {schema}.pulse set at = at - 3600 * 1000")

        assert await store.lost() == []
        await asyncio.sleep(1.2)
        assert await store.lost() == []
        postgres.execute(f"update {schema}.pulse set tick = tick + {LEASE_MS}")
        assert await store.lost() == [Lost(run_id="run_1", worker="w1", proof="lease")]
        await store.beat("w1")
        assert await store.lost() == []


async def test_the_lease_clock_goes_on_by_itself(postgres, schema):
    async with opened(postgres, schema) as store:
        first = postgres.execute(f"select tick, at from {schema}.pulse")[0]
        started, tick = time.monotonic(), store.tick()
        while postgres.execute(f"select at from {schema}.pulse")[0][0] == first[1]:
            assert time.monotonic() - started < 10
            await asyncio.sleep(0.1)
        passed = (time.monotonic() - started) * 1000

        assert 0 < postgres.execute(f"select tick from {schema}.pulse")[0][0] - first[0] <= 3000
        assert abs(store.tick() - tick - passed) < 3500


async def test_all_who_share_a_store_agree_on_its_clocks(postgres, schema):
    """Also one that was cut off for a minute, while the lease clock stood still."""
    async with opened(postgres, schema) as store, opened(postgres, schema) as other:
        there = store._clocks
        there.set(store.now() - 60_000, store.tick() + 60_000, *[time.monotonic()] * 2)
        assert store.tick() - other.tick() > 50_000
        watch = store.watch("nothing")
        for _ in range(30):
            await watch.wait(0.1)

        assert abs(store.tick() - other.tick()) < 1000
        assert abs(store.now() - other.now()) < 1000


async def test_a_dead_process_of_this_machine_is_known_to_be_dead(postgres, schema, tmp_path):
    options = {"schema": schema, "proof_dir": str(tmp_path)}
    url = postgres.url("postgres")

    async def work() -> None:
        store = await PostgresStore.open(url, **options)
        await store.beat("w1")
        await store.append(write(owner="w1"))
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(work) == signal.SIGKILL
    store = await PostgresStore.open(url, **options)
    assert await store.lost() == [Lost(run_id="run_1", worker="w1", proof="dead")]
    seen = await store.sight("w1")
    assert seen is not None
    assert seen.alive == "dead"
    # One of another machine is not, whatever became of its connection.
    postgres.execute(f"update {schema}.workers set boot = 'elsewhere'")
    assert await store.lost() == []
    postgres.execute(f"update {schema}.pulse set tick = tick + {LEASE_MS}")
    assert [one.proof for one in await store.lost()] == ["lease"]
    await store.close()


async def test_a_worker_that_lost_its_connection_is_not_dead(postgres, schema, tmp_path):
    options = {"proof_dir": str(tmp_path)}
    async with (
        opened(postgres, schema, **options) as store,
        opened(postgres, schema, **options) as other,
    ):
        await store.beat("w1")
        await store.append(write(owner="w1"))
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'sayso'"
        )

        assert await other.lost() == []


async def test_time_is_the_databases_own(postgres, schema):
    async with opened(postgres, schema) as store:
        before = postgres.execute("select extract(epoch from clock_timestamp()) * 1000")[0][0]
        appended = await store.append(write())
        after = postgres.execute("select extract(epoch from clock_timestamp()) * 1000")[0][0]

        assert int(before) <= appended.at <= after
        assert abs(store.now() - float(after)) < 1000


async def test_what_no_text_can_hold_is_refused_and_leaves_others_alone(postgres, schema):
    async with opened(postgres, schema) as store:
        key = Key(project="p", key="a\x00b", digest="d")
        answers = [
            store.append(write("run_1")),
            store.append(write("run_2", key=key)),
            store.append(write("run_2", thread="half \ud800")),
            store.append(write("run_3", due_at=1 << 70)),
            store.append(write("run_1", after=1)),
        ]
        told = await asyncio.gather(*answers, return_exceptions=True)

        kinds = [type(one) for one in told]
        assert kinds[1:4] == [BadValue, BadValue, StoreError]
        assert (await store.load("run_1")).seq == 2
        for bad in ("a\x00b", "half \ud800"):
            await refused(BadValue, store.load(bad))
            await refused(BadValue, store.key("p", bad))


async def test_the_journal_is_only_added_to(postgres, schema):
    import psycopg

    async with opened(postgres, schema) as store:
        await store.append(write(count=2))
        await store.door.note("p", b"x")
        for statement in (
            f"delete from {schema}.journal",
            f"truncate {schema}.journal cascade",
            f"update {schema}.journal set payload = ''",
            f"update {schema}.journal set salt = null, payload = sha256(payload), at = 7",
            f"delete from {schema}.door",
            f"update {schema}.door set at = 7",
            f"truncate {schema}.door",
        ):
            with pytest.raises(psycopg.errors.RestrictViolation):
                postgres.execute(statement)
        assert len(await store.journal("run_1")) == 2


async def test_a_forged_hint_hides_nothing(postgres, schema):
    async with opened(postgres, schema) as store, opened(postgres, schema) as other:
        watch = other.watch("run_1")
        # The last of them is a hint like any other; it listens a moment after it is opened.
        while not await watch.wait(0.1):
            for said in ("nonsense", '["x", 0, 99999, []]', "[]", '["x", 0, 1, ["run_1"]]'):
                postgres.execute(f"notify sayso_{schema}, '{said}'")
        while await watch.wait(0.3):
            pass
        # Now it hears nothing any more, and has to find out by looking.
        other._ear._tasks[1].cancel()

        await store.append(write("run_1"))

        assert await watch.wait(5)


async def test_an_answer_that_is_not_understood_leaves_nobody_waiting(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.append(write("run_0"))
        postgres.execute(
            f"""
            create function {schema}.puzzle() returns trigger language plpgsql as $$
            begin raise exception 'stale' using errcode = 'SY001', detail = 'who knows'; end $$;
            create trigger puzzle before insert on {schema}.runs for each row
                when (new.id = 'run_2') execute function {schema}.puzzle();
            """
        )
        sent = [asyncio.ensure_future(store.append(write(f"run_{n}"))) for n in (1, 2, 3)]
        await asyncio.wait(sent, timeout=10)

        # The first and the last are there: whoever is told that nobody knows looks for them.
        told = [type(one.exception()) if one.done() else None for one in sent]
        there = [await store.load(f"run_{n}") is not None for n in (1, 2, 3)]
        await store.append(write("run_0", after=1))

    assert told == [CommitUnknown] * 3
    assert there == [True, False, True]


async def test_a_condition_that_the_server_does_not_know_is_not_taken_for_met(
    postgres, schema, monkeypatch
):
    monkeypatch.setattr(postgres_pen, "_condition", lambda _: ("someday", 1))
    async with opened(postgres, schema) as store:
        await refused(StoreError, store.append(write(only_if=(Since(at=0),))))

        assert await store.load("run_1") is None


async def test_a_store_is_not_used_after_a_fork(postgres, schema):
    async with opened(postgres, schema) as store:
        pid = os.fork()
        if not pid:
            code = 1
            try:
                with pytest.raises(StoreForked):
                    store.watch()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        await store.append(write())


async def test_whoever_is_cancelled_stops_waiting_and_the_write_goes_on(postgres, schema):
    async with opened(postgres, schema) as store:
        for n in range(30):
            put = asyncio.create_task(store.shelf.put("p", "k", f"{n:02}", b"", rev=0))
            for _ in range(n % 7):
                await asyncio.sleep(0)
            put.cancel()
            await asyncio.wait([put])
            assert put.cancelled() or put.done()
        await asyncio.sleep(0.3)
        there = len(await store.shelf.list("p", "k"))
        assert there >= 25  # The few that were cancelled before they began are not there.
    with pytest.raises(StoreClosed):
        store.watch()


async def test_two_stores_of_one_database_do_not_see_each_other(postgres, schema):
    second = postgres.schema()
    async with opened(postgres, schema) as one, opened(postgres, second) as two:
        await one.append(write())
        assert await two.load("run_1") is None
        await two.append(write())
        await refused(StaleRun, two.append(write()))
    postgres.drop(second)
