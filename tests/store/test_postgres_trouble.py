"""A server in trouble, and what is said of it: nothing that was acknowledged is lost, and work goes
on once the trouble is over.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from msgspec.structs import replace

from sayso.errors import StoreBusy, StoreError, StoreFull
from sayso.store import chain
from sayso.store.base import NewEntry
from sayso.store.journal import read_journal
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_link import Settings, check_settings
from sayso.testing.contract import refused, write
from tests.postgres import Cluster, cluster

MANY_BYTES = 200_000
PATIENCE_S = 60


@pytest.fixture
def small_disk(postgres: Cluster) -> Iterator[str]:
    """A database on a disk of its own, with little room; gives where that is mounted."""
    name = postgres.schema()
    where = postgres.data.with_name(f"{postgres.data.name}-{name}")
    where.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", where], check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        where.rmdir()
        pytest.skip("only root may mount a small disk")
    try:
        (where / "data").mkdir()
        os.chown(where / "data", postgres.data.stat().st_uid, postgres.data.stat().st_gid)
        postgres.execute(f"create tablespace {name} location '{where / 'data'}'")
        postgres.execute(f"create database {name} tablespace {name} {postgres.quickly}")
        yield str(where)
        postgres.execute(f"drop database {name} with (force)")
        postgres.execute(f"drop tablespace {name}")
    finally:
        subprocess.run(["umount", "--lazy", where], check=True, timeout=10)
        where.rmdir()


async def test_a_full_disk_loses_nothing_and_is_over_once_there_is_room(postgres, small_disk):
    name = small_disk.rpartition("-")[2]
    store = await PostgresStore.open(postgres.url(name))
    kept = 0

    async def fill() -> None:
        nonlocal kept
        while kept < 1000:
            big = (NewEntry(id=os.urandom(8), payload=os.urandom(MANY_BYTES)),)
            await store.append(replace(write(after=kept), entries=big))
            kept += 1

    error = await refused(StoreFull, fill())

    assert "full" in str(error)
    assert (await store.load("run_1")).seq == kept > 0
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True, timeout=10)
    await store.append(write(after=kept))
    row, journal = await store.load("run_1"), await read_journal(store, "run_1")
    assert len(journal) == kept + 1
    chain.verify("run_1", journal, seq=row.seq, head=row.hash)
    await store.close()


@pytest.fixture
def small_log(postgres_home) -> Iterator[tuple[Cluster, str]]:
    """A server whose log is on a disk of its own, with little room; and where that is mounted."""
    with cluster(*postgres_home, f"log-{os.getpid()}") as server:
        server.stop(signal.SIGINT)
        log = server.data / "pg_wal"
        try:
            log.rename(log.with_name("kept"))
            log.mkdir()
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=50m,mode=0777", "tmpfs", log],
                check=True,
                timeout=10,
            )
        except (OSError, subprocess.SubprocessError):
            pytest.skip("only root may mount a small disk")
        try:
            subprocess.run(["cp", "-a", f"{log.with_name('kept')}/.", log], check=True, timeout=10)
            server.start()
            yield server, str(log)
            server.stop()
        finally:
            subprocess.run(["umount", "--lazy", log], check=True, timeout=10)


async def test_a_log_that_is_full_loses_nothing_that_was_acknowledged(small_log):
    """The server gives up then, and is started again by whoever has made room."""
    server, where = small_log
    store = await PostgresStore.open(server.url("postgres"))
    kept = 0

    async def fill() -> None:
        nonlocal kept
        while kept < 1000:
            big = (NewEntry(id=os.urandom(8), payload=os.urandom(MANY_BYTES)),)
            await store.append(replace(write(after=kept), entries=big))
            kept += 1

    await refused(StoreError, fill())

    assert kept > 0
    subprocess.run(["mount", "-o", "remount,size=200m", where], check=True, timeout=10)
    if server.process.poll() is not None:
        server.start()
    row = await until(lambda: store.load("run_1"))
    # The one whose answer was lost may be there, and nothing else.
    assert row.seq in (kept, kept + 1)
    await until(lambda: store.append(write(after=row.seq)))
    journal = await read_journal(store, "run_1")
    row = await store.load("run_1")
    assert len(journal) == row.seq
    chain.verify("run_1", journal, seq=row.seq, head=row.hash)
    await store.close()


async def until(what):
    """Ask until the server answers again."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await what()
        except StoreError:
            assert time.monotonic() < end, "the server does not come back"
            await asyncio.sleep(0.05)


async def test_a_pool_that_is_used_up_says_so_and_recovers(postgres, monkeypatch):
    monkeypatch.setattr("sayso.store.postgres_link.LOCK_S", 0.5)
    url = postgres.database()
    store = await PostgresStore.open(url, pool_max=1, listen=False)
    await store.append(write())
    keeping = asyncio.ensure_future(store._link.write("select pg_sleep(30)"))
    await asyncio.sleep(0)

    error = await refused(StoreBusy, store.append(write(after=1)))

    assert "all 1 connections" in str(error)
    assert "nothing was written" in str(error)
    postgres.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(30)'"
    )
    await asyncio.wait([keeping])
    keeping.exception()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            await store.append(write(after=1))
            break
        except StoreError:
            await asyncio.sleep(0.05)
    assert (await store.load("run_1")).seq == 2
    await store.close()


async def _fill_up(url: str, others: ExitStack) -> None:
    for _ in range(20):
        others.enter_context(psycopg.connect(url))


async def test_a_server_with_no_connection_left_says_so_and_who_is_in_goes_on(postgres_home):
    root, bins = postgres_home
    with (
        cluster(root, bins, f"few-{os.getpid()}", max_connections="8") as few,
        ExitStack() as others,
    ):
        few.execute("create role ann login; create schema sayso authorization ann")
        url = few.url("postgres", user="ann")
        store = await PostgresStore.open(url)
        await store.append(write())
        await refused(psycopg.OperationalError, _fill_up(url, others))

        error = await refused(StoreBusy, PostgresStore.open(url))
        assert "as many connections as it allows" in str(error)
        await store.append(write(after=1))

        others.close()
        await (await PostgresStore.open(url)).close()
        await store.close()


def test_a_server_that_is_too_old_is_refused():
    found = Settings("on", "on", "on", False, False, "UTF8", 130_012)

    with pytest.raises(StoreError, match=r"PostgreSQL 13.*14 or newer"):
        check_settings("postgresql:///pay", found)
    check_settings("postgresql:///pay", found._replace(version=140_000))
