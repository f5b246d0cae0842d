"""Making a store and bringing an old one up, killed on the way, once and twice."""

import asyncio
import os
import random
import signal
from contextlib import contextmanager

import apsw
import pytest

from sayso.errors import StoreError, StoreNewer
from sayso.store.migrate import APPLICATION_ID, migrate, released, since_of
from sayso.store.sqlite import SqliteStore
from sayso.store.sqlite_checkup import look_at_versions
from sayso.testing.contract import refused, write
from tests.store.child import forked


def schema_of(path):
    conn = apsw.Connection(str(path))
    rows = conn.execute("select type, name, sql from sqlite_schema order by name").fetchall()
    conn.close()
    return rows


async def use(path):
    store = await SqliteStore.open(path, bell=False)
    await store.append(write(f"run_{os.getpid()}_{random.random()}"))
    await store.close()


def killed_at(path, statement):
    """Open a store in a child that dies before its n-th statement; tell whether it came to that."""

    async def opening():
        count = 0

        def trace(*_):
            nonlocal count
            count += 1
            if count == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", trace))
        await use(path)

    return os.WIFSIGNALED(forked(opening))


def test_a_store_is_made_whole_wherever_its_maker_is_killed(shm_path):
    asyncio.run(use(shm_path / "reference.db"))
    expected = schema_of(shm_path / "reference.db")
    chance = random.Random(1)
    points = 0
    while killed_at(shm_path / f"{points}.db", points + 1):
        points += 1
        path = shm_path / f"{points - 1}.db"
        killed_at(path, chance.randrange(1, points + 2))

        asyncio.run(use(path))

        assert schema_of(path) == expected
    assert points > 20


def test_a_step_that_is_killed_halfway_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "sayso.db"
    asyncio.run(use(path))
    steps = (*released(), "create table more (a) strict; insert into more values (1);")
    bad = (*released(), "create table half (a any) strict; create table half (a any) strict;")
    before = schema_of(path)
    conn = apsw.Connection(str(path))

    for broken in (bad, steps):
        with pytest.raises(apsw.SQLError):
            migrate(conn, str(path), broken)
        assert not conn.in_transaction
        assert conn.pragma("user_version") == len(released())

    conn.close()
    assert schema_of(path) == before


def test_an_older_store_is_brought_up_and_then_refused_by_older_code(tmp_path):
    path = tmp_path / "sayso.db"
    asyncio.run(use(path))
    conn = apsw.Connection(str(path))
    steps = (*released(), "create table more (a any) strict", "create table most (a any) strict")

    migrate(conn, str(path), steps)
    migrate(conn, str(path), steps)

    assert conn.pragma("user_version") == len(steps)
    assert conn.pragma("application_id") == APPLICATION_ID
    with pytest.raises(StoreNewer, match="upgrade"):
        migrate(conn, str(path), released())
    conn.close()


ADDS = f"-- sayso: compatible from {len(released())}\ncreate table more (a any) strict"
BREAKS = "alter table keys add column more text"


@contextmanager
def bring_up(path, *more):
    """A newer Sayso that brings the file up while others have it open."""
    conn = apsw.Connection(str(path))
    migrate(conn, str(path), (*released(), *more))
    yield conn
    conn.close()


async def test_older_code_goes_on_beside_a_migration_that_allows_it(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path, bell=False)
    await store.append(write())

    with bring_up(path, ADDS) as conn:
        await store.append(write(after=1))
        other = await SqliteStore.open(path, bell=False)
        await other.append(write(after=2))

        assert conn.pragma("user_version") == len(released()) + 1
        found = next(one for one in await other.checkup() if one.name == "schema")
        assert (found.level, f"knows {len(released())}" in found.text) == ("ok", True)
    assert look_at_versions(str(path)) == (len(released()) + 1, len(released()))
    await other.close()
    await store.close()


@pytest.mark.parametrize("more", [(BREAKS,), (ADDS, BREAKS), (BREAKS, ADDS)], ids=len)
async def test_older_code_is_ended_by_a_migration_that_says_nothing(tmp_path, more):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path, bell=False)
    await store.append(write())

    with bring_up(path, *more) as conn:
        error = await refused(StoreNewer, store.append(write(after=1)))

        assert "upgrade" in str(error)
        assert conn.execute("select count(*) from journal").fetchall() == [(1,)]
    assert (await store.load("run_1")).seq == 1
    await refused(StoreNewer, SqliteStore.open(path))
    await store.close()


def test_every_migration_that_says_nothing_ends_the_code_before_it(tmp_path):
    path, first = tmp_path / "sayso.db", len(released())
    again = [f"create table more_{n} (a any) strict" for n in range(3)]

    for count in range(1, 4):
        with bring_up(path, ADDS, *again[:count]) as conn:
            assert since_of(conn) == first + 1 + count


async def test_a_step_that_allows_older_code_is_made_with_its_note_or_not_at_all(tmp_path):
    path = tmp_path / "sayso.db"
    await use(path)
    before = schema_of(path)

    with pytest.raises(apsw.SQLError), bring_up(path, ADDS + "; create table more (a any) strict"):
        pass

    assert schema_of(path) == before


async def test_a_newer_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "sayso.db"
    await use(path)
    conn = apsw.Connection(str(path))
    conn.pragma("user_version", len(released()) + 1)
    conn.close()
    before = path.read_bytes()

    error = await refused(StoreNewer, SqliteStore.open(path))

    assert "upgrade" in str(error)
    assert path.read_bytes() == before


async def test_several_may_make_a_store_at_once(shm_path):
    for n in range(60):
        stores = await asyncio.gather(
            *(SqliteStore.open(shm_path / f"{n}.db", bell=False) for _ in range(6))
        )
        await asyncio.gather(*(s.append(write(f"run_{i}")) for i, s in enumerate(stores)))

        assert len(await stores[0].tail()) == 6
        for store in stores:
            await store.close()


async def test_making_a_store_waits_for_whoever_has_the_lock(tmp_path):
    path = tmp_path / "sayso.db"
    conn = apsw.Connection(str(path))
    conn.execute("begin exclusive")

    await refused(StoreError, SqliteStore.open(path, busy_s=0.05))
    conn.execute("rollback")
    conn.close()

    await use(path)
