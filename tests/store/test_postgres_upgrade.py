"""Two versions of the code on one database: migrations that older code survives, and those that it
does not. A newer version is this one with more migrations.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from sayso.errors import StoreBusy, StoreError, StoreNewer, StoreOlder
from sayso.store import postgres_migrate
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_migrate import released
from sayso.store.postgres_upkeep import bring_up, versions
from sayso.store.step import read_step
from sayso.testing.contract import refused, write
from tests.postgres import Cluster

NOW = len(released())
ADDS = f"-- sayso: compatible from {NOW}\nalter table runs add column colour text"
BREAKS = "alter table runs rename column agent to actor"
ONLINE = f"""
-- sayso: compatible from {NOW}
-- sayso: online
create index concurrently if not exists runs_colour on runs (agent, project);
create index concurrently if not exists runs_shade on runs (project, agent);
"""
_CHILD = Path(__file__).with_name("upgrade_child.py")
_PATIENCE_S = 60


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.database()


def _name(url: str) -> str:
    return url.partition("///")[2].partition("?")[0]


def test_a_migration_says_whom_it_ends():
    assert read_step(BREAKS, 9).since == 9
    assert read_step(ADDS, 9)[2:] == (NOW, False)
    assert read_step(ONLINE, 9)[2:] == (NOW, True)
    with pytest.raises(AssertionError):
        read_step("-- sayso: compatible from 10", 9)


async def test_an_older_process_works_on_while_a_newer_one_adds(postgres, url):
    await bring_up(url)
    with subprocess.Popen(
        [sys.executable, _CHILD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as old:
        try:
            assert old.stdout.readline() == "1\n"
            await bring_up(url, steps=(*released(), ADDS, ONLINE))
            new = await PostgresStore.open(url, steps=(*released(), ADDS, ONLINE))
            seen = (await new.load("run_1")).seq
            while (await new.load("run_1")).seq < seen + 5:
                await asyncio.sleep(0.01)
            late = await PostgresStore.open(url)
            await late.append(write("run_2"))
            old.stdin.write("enough\n")
            old.stdin.flush()
            assert old.wait(_PATIENCE_S) == 0
        finally:
            old.kill()
        assert old.stdout.read().split()[-1].isdigit()
    assert await versions(url) == (NOW + 2, NOW)
    await new.close()
    await late.close()


async def test_an_older_process_stops_when_a_newer_one_breaks(postgres, url):
    await bring_up(url)
    with subprocess.Popen(
        [sys.executable, _CHILD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as old:
        try:
            assert old.stdout.readline() == "1\n"
            await bring_up(url, steps=(*released(), BREAKS))
            said = old.communicate(timeout=_PATIENCE_S)[0]
        finally:
            old.kill()
    assert said.split()[-1] == "StoreNewer"
    error = await refused(StoreNewer, PostgresStore.open(url))
    assert "upgrade" in str(error)


@pytest.mark.parametrize("use", ["append", "load", "shelf", "look"])
async def test_an_open_store_finds_out_at_its_next_use(url, use):
    # On one connection, or another one would look more closely, being new.
    store = await PostgresStore.open(url, listen=False, pool_max=1)
    await store.append(write())
    await bring_up(url, steps=(*released(), BREAKS))

    match use:
        case "append":
            await refused(StoreNewer, store.append(write(after=1)))
        case "load":  # By what it no longer finds.
            await refused(StoreNewer, store.load("run_1"))
        case "shelf":
            await refused(StoreNewer, store.shelf.put("p", "k", "i", b"x", rev=0))
        case _:  # By looking, even if it never finds anything missing.
            end = time.monotonic() + _PATIENCE_S
            while not store._link._newer:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)

    await refused(StoreNewer, store.key("p", "k"))
    await store.close()


async def test_a_store_as_of_before_is_brought_up_by_whoever_opens_it(url):
    await (await PostgresStore.open(url)).close()
    steps = (*released(), ADDS, BREAKS, ONLINE.replace("agent", "actor"))

    await refused(StoreOlder, PostgresStore.open(url, steps=steps, make=False))
    assert await versions(url, steps) == (NOW, NOW + 3)
    store = await PostgresStore.open(url, steps=steps)
    await store.close()

    assert await versions(url, steps) == (NOW + 3, NOW + 3)


class _Cut(Exception):
    """The process that migrates has died."""


@pytest.mark.parametrize("online", [False, True])
async def test_whoever_dies_before_any_statement_leaves_what_can_be_gone_on_with(
    postgres, url, monkeypatch, online
):
    steps = (
        *released(),
        ONLINE if online else ADDS,
        BREAKS.replace("runs", "keys").replace("agent", "digest"),
    )
    execute = psycopg.AsyncConnection.execute
    left = 0

    async def dying(conn, *args, **options):
        nonlocal left
        left -= 1
        if left == 0:
            conn.pgconn.finish()  # As the server sees it: a client that is gone.
            raise _Cut
        return await execute(conn, *args, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", dying)
    point, done = 0, False
    while not done:
        point += 1
        left = point
        try:
            await bring_up(url, steps=steps)
            done = True
        except (_Cut, StoreError):
            left = 0
            have, _ = await versions(url, steps)
            assert have <= len(steps)
    monkeypatch.undo()

    # Every try went on from where the one before had died.
    assert point > len(steps)
    assert await versions(url, steps) == (len(steps), len(steps))
    fresh = postgres.database()
    await bring_up(fresh, steps=steps)
    assert _shape(postgres, url) == _shape(postgres, fresh)


def _shape(postgres: Cluster, url: str) -> list:
    columns = """
    select table_name, column_name, data_type from information_schema.columns
    where table_schema = 'sayso' union all
    select c.relname, i.indisvalid::text, '' from pg_index i join pg_class c on c.oid = i.indexrelid
    join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'sayso' order by 1, 2, 3
    """
    return postgres.execute(columns, _name(url))


async def test_an_index_that_was_half_built_is_built_again(postgres, url):
    await bring_up(url)
    steps = (*released(), ONLINE)
    with psycopg.connect(postgres.url(_name(url))) as other:
        other.execute("lock table sayso.runs in row exclusive mode")
        building = asyncio.create_task(bring_up(url, steps=steps))
        end = time.monotonic() + _PATIENCE_S
        while not _invalid(postgres, url):
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        postgres.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            f"where datname = '{_name(url)}' and query ~ 'create index' and pid <> pg_backend_pid()"
        )
        await refused(StoreError, building)
    assert _invalid(postgres, url)

    await bring_up(url, steps=steps)

    assert not _invalid(postgres, url)
    found = postgres.execute(
        "select indexname from pg_indexes where schemaname = 'sayso'", _name(url)
    )
    assert {("runs_colour",), ("runs_shade",)} <= set(found)


def _invalid(postgres: Cluster, url: str) -> list:
    return postgres.execute("select 1 from pg_index where not indisvalid", _name(url))


async def test_whoever_is_killed_in_a_long_statement_keeps_nobody_out(postgres, url):
    await bring_up(url)
    slow = f"{ADDS}; select pg_sleep(100)"
    child = """
import asyncio, sys
from sayso.store.postgres_migrate import released
from sayso.store.postgres_upkeep import bring_up
asyncio.run(bring_up(sys.argv[1], steps=(*released(), sys.argv[2])))
"""
    under_way = f"""
    select 1 from pg_stat_activity
    where datname = '{_name(url)}' and query ~ 'pg_sleep' and state = 'active'
        and pid <> pg_backend_pid()
    """
    with subprocess.Popen([sys.executable, "-c", child, url, slow]) as migrating:
        end = time.monotonic() + _PATIENCE_S
        while not postgres.execute(under_way):
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        migrating.kill()

    await bring_up(url, steps=(*released(), ADDS))

    assert await versions(url, (*released(), ADDS)) == (NOW + 1, NOW + 1)


async def test_two_who_migrate_at_once_do_it_once(url):
    steps = (*released(), ADDS, ONLINE, BREAKS)

    await asyncio.gather(*(bring_up(url, steps=steps) for _ in range(3)))

    assert await versions(url, steps) == (len(steps), len(steps))


async def test_a_migration_does_not_keep_everybody_waiting(postgres, url, monkeypatch):
    monkeypatch.setattr(postgres_migrate, "LOCK_MS", 100)
    monkeypatch.setattr(postgres_migrate, "WAIT_S", 0.5)
    store = await PostgresStore.open(url)
    with psycopg.connect(postgres.url(_name(url))) as reader:
        reader.execute("select * from sayso.runs")

        async with asyncio.timeout(20):
            error = await refused(StoreBusy, bring_up(url, steps=(*released(), ADDS)))
        assert "nothing was written" in str(error)
        await store.append(write())

    assert await versions(url, (*released(), ADDS)) == (NOW, NOW + 1)
    await store.close()
