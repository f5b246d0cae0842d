"""A store that was restored or copied is read only until somebody has said so; one that was only
moved, opened by many or cut off is not.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from pathlib import Path

import apsw
import psycopg
import pytest

from sayso.errors import StoreRestored
from sayso.store import sqlite_origin
from sayso.store.origin import Mark
from sayso.store.postgres import PostgresStore
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import refused, write
from tests.postgres import cluster
from tests.store.child import forked


async def use(path, count=1, **options):
    """Append to a store, as one who works there."""
    store = await SqliteStore.open(path, **options)
    try:
        for _ in range(count):
            await store.append(write(f"run_{os.urandom(4).hex()}"))
    finally:
        await store.close()


async def fault_of(path):
    """Open a store; nothing can be written if it has a fault, and all can be read."""
    store = await SqliteStore.open(path)
    try:
        fault = (await store.origin()).fault
        if fault:
            error = await refused(StoreRestored, store.append(write("run_x")))
            assert fault in str(error)
            assert "sayso restored" in str(error)
            await refused(StoreRestored, store.beat("w1"))
            await refused(StoreRestored, store.shelf.put("p", "person", "ann", b"", rev=0))
            assert await store.tail() != []
        return fault
    finally:
        await store.close()


def back_up(path, to):
    """As the manual says it: by SQLite itself."""
    conn = apsw.Connection(str(path))
    conn.execute("vacuum into ?", (str(to),))
    conn.close()


def put_back(backup, path):
    """Write over the file that is there, as `cp` does."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    Path(path).write_bytes(Path(backup).read_bytes())


async def test_a_backup_that_is_put_back_in_place_is_found(tmp_path):
    path, backup = tmp_path / "pay.db", tmp_path / "backup.db"
    await use(path)
    back_up(path, backup)
    await use(path, 2)

    put_back(backup, path)

    assert "had come to position 3, and is back at 1" in await fault_of(path)


async def test_a_backup_after_which_nothing_happened_is_taken_as_it_is(tmp_path):
    path, backup = tmp_path / "pay.db", tmp_path / "backup.db"
    await use(path, 3)
    back_up(path, backup)

    put_back(backup, path)

    assert await fault_of(path) == ""


@pytest.mark.parametrize("how", ["vacuum", "backup", "cp", "folder"])
async def test_a_copy_beside_the_original_is_found(tmp_path, how):
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    await use(home / "pay.db")
    if how == "folder":
        shutil.copytree(home, away)
    else:
        away.mkdir()
    match how:
        case "vacuum":
            back_up(home / "pay.db", away / "pay.db")
        case "cp":
            shutil.copy(home / "pay.db", away / "pay.db")
        case "backup":
            source = apsw.Connection(str(home / "pay.db"))
            target = apsw.Connection(str(away / "pay.db"))
            with target.backup("main", source, "main") as copying:
                copying.step()
            source.close()
            target.close()
        case _:
            pass

    assert await fault_of(away / "pay.db") != ""
    assert await fault_of(home / "pay.db") == ""


async def test_a_folder_that_takes_the_place_of_the_old_one_is_found(tmp_path):
    home, saved = tmp_path / "home", tmp_path / "saved"
    home.mkdir()
    await use(home / "pay.db")
    shutil.copytree(home, saved)
    await use(home / "pay.db")

    # The numbers of the files that are gone may be given to those that come.
    shutil.rmtree(home)
    shutil.copytree(saved, home)

    assert "a copy" in await fault_of(home / "pay.db")


async def test_a_mark_that_is_written_again_is_another_even_with_its_old_number(tmp_path):
    mark = tmp_path / "pay.db.mark"
    await use(tmp_path / "pay.db")
    saved = mark.read_bytes()

    # A file system gives the number of a file that is gone to one of the next ones.
    number = mark.stat().st_ino
    mark.unlink()
    for n in range(500):
        file = tmp_path / f"next-{n}"
        file.write_bytes(saved)
        if file.stat().st_ino == number:
            break
    else:
        pytest.skip("this file system does not")
    file.rename(mark)

    assert "a copy" in await fault_of(tmp_path / "pay.db")


async def test_a_store_that_is_moved_with_its_mark_is_the_same(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    await use(home / "pay.db")

    home.rename(tmp_path / "moved")
    (tmp_path / "moved" / "pay.db").rename(tmp_path / "other.db")
    without = await fault_of(tmp_path / "other.db")
    (tmp_path / "moved" / "pay.db.mark").rename(tmp_path / "other.db.mark")

    assert "move that as well" in without
    assert await fault_of(tmp_path / "other.db") == ""


async def test_a_mark_that_cannot_be_read_is_not_believed(tmp_path):
    path = tmp_path / "pay.db"
    await use(path)

    (tmp_path / "pay.db.mark").write_bytes(b"\0" * 64)

    assert "of another store" in await fault_of(path)


async def test_a_file_system_that_renumbers_files_raises_no_alarm(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_origin, "kind_of", lambda _: "fuse.grpcfuse")
    path, mark = tmp_path / "pay.db", tmp_path / "pay.db.mark"
    await use(path)

    shutil.copy(mark, tmp_path / "new")
    (tmp_path / "new").replace(mark)

    assert await fault_of(path) == ""


async def test_a_store_that_was_deleted_can_be_begun_anew(tmp_path):
    path = tmp_path / "pay.db"
    await use(path, 3)

    path.unlink()

    await use(path)
    assert await fault_of(path) == ""


async def test_many_who_make_a_store_at_once_agree_on_its_mark(tmp_path):
    path = tmp_path / "pay.db"

    await asyncio.gather(*(use(path) for _ in range(6)))

    assert await fault_of(path) == ""
    assert Mark(f"{path}.mark").read().position == 6


def test_a_process_that_is_killed_leaves_a_mark_of_all_that_was_answered(tmp_path):
    path = tmp_path / "pay.db"

    async def die():
        store = await SqliteStore.open(path)
        for n in range(5):
            await store.append(write(f"run_{n}"))
        os.kill(os.getpid(), 9)

    assert forked(die) == 9

    assert Mark(f"{path}.mark").read().position == 5
    assert asyncio.run(fault_of(path)) == ""


async def test_a_store_that_is_put_back_under_a_worker_is_not_written_to(tmp_path):
    path, backup = tmp_path / "pay.db", tmp_path / "backup.db"
    store = await SqliteStore.open(path)
    await store.append(write("run_1"))
    back_up(path, backup)
    await store.append(write("run_2"))

    source, target = apsw.Connection(str(backup)), apsw.Connection(str(path))
    with target.backup("main", source, "main") as copying:
        copying.step()
    source.close()
    target.close()

    await refused(StoreRestored, store.append(write("run_3")))
    await refused(StoreRestored, store.append(write("run_4")))
    await store.close()
    assert "is back at 1" in await fault_of(path)


async def test_whoever_recovers_it_may_write_and_only_accepting_ends_it(tmp_path):
    path, backup = tmp_path / "pay.db", tmp_path / "backup.db"
    await use(path)
    back_up(path, backup)
    await use(path, 5)
    put_back(backup, path)

    await use(path, recovers=True)
    still = await fault_of(path)
    store = await SqliteStore.open(path, recovers=True)
    assert await store.accept_origin() == 2
    await store.close()

    assert "is back at 2" in still
    assert await fault_of(path) == ""


def drop(postgres, url):
    """Make room for what is restored: what is in parts cannot be restored over."""
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute("set client_min_messages = warning; drop schema sayso cascade", name)


class TestInPostgres:
    """The same in a database, where a dump is restored or the server is another one."""

    async def fill(self, url, count=1):
        store = await PostgresStore.open(url)
        for _ in range(count):
            await store.append(write(f"run_{os.urandom(4).hex()}"))
        await store.close()

    async def fault(self, url):
        store = await PostgresStore.open(url)
        fault = (await store.origin()).fault
        if fault:
            await refused(StoreRestored, store.append(write("run_x")))
            await refused(StoreRestored, store.beat(os.urandom(4).hex()))
            await refused(StoreRestored, store.shelf.put("p", "person", "ann", b"", rev=0))
            await refused(StoreRestored, store.outbox.take(lease_ms=1))
            assert await store.tail() != []
        await store.close()
        return fault

    async def test_a_dump_is_found_wherever_it_is_restored(self, postgres, tmp_path):
        url, other = postgres.database(), postgres.database()
        await self.fill(url, 2)
        dump = tmp_path / "dump"
        run = {"check": True, "timeout": 60, "capture_output": True}
        subprocess.run([postgres.bins / "pg_dump", "-Fc", "-f", dump, url], **run)

        subprocess.run([postgres.bins / "pg_restore", "-d", other, dump], **run)
        copied = await self.fault(other)
        assert await self.fault(url) == ""
        drop(postgres, url)
        subprocess.run([postgres.bins / "pg_restore", "-d", url, dump], **run)
        restored = await self.fault(url)

        assert "last worked on elsewhere" in copied
        assert "last worked on elsewhere" in restored

    async def test_another_cluster_is_found(self, postgres):
        url = postgres.database()
        name = url.partition("?")[0].rpartition("/")[2]
        await self.fill(url)

        # Two clusters of one make are too slow a thing for this; the imprint names them first.
        postgres.execute("update sayso.store set imprint = '9' || imprint", name)

        assert "last worked on elsewhere" in await self.fault(url)

    async def test_a_recovery_to_a_point_in_time_is_found(self, postgres_home):
        with cluster(*postgres_home, f"recovered-{os.getpid()}") as server:
            url = server.database()
            await self.fill(url)
            server.stop(signal.SIGINT)
            (server.data / "recovery.signal").touch()
            server.start(restore_command="false")
            async with asyncio.timeout(20):
                while server.execute("select pg_is_in_recovery()") != [(False,)]:
                    await asyncio.sleep(0.02)

            found = await self.fault(url)
            store = await PostgresStore.open(url, recovers=True)
            assert await store.accept_origin() == 2
            await store.close()

            assert "last worked on elsewhere" in found
            assert await self.fault(url) == ""

    async def test_one_that_is_doubted_while_others_wait_is_not_written_to(self, postgres):
        url = postgres.database()
        name = url.partition("?")[0].rpartition("/")[2]
        await self.fill(url)
        waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted"
        store = await PostgresStore.open(url)
        with psycopg.connect(url) as other:
            other.execute("set search_path = sayso; set sayso.knows = '99'; select take_turn()")
            late = asyncio.create_task(store.shelf.put("p", "person", "ann", b"", rev=0))
            async with asyncio.timeout(20):
                while not await asyncio.to_thread(postgres.execute, waiting, name):
                    await asyncio.sleep(0.02)
            postgres.execute("update sayso.store set fault = 'a seal says so'", name)

        error = await refused(StoreRestored, late)
        await store.close()

        assert "a seal says so; stop whoever" in str(error)

    async def test_a_restart_is_no_restore(self, postgres_home):
        with cluster(*postgres_home, f"again-{os.getpid()}") as server:
            url = server.database()
            await self.fill(url)
            server.stop(signal.SIGQUIT)
            server.start()

            assert await self.fault(url) == ""

    async def test_one_that_is_put_back_under_a_worker_is_not_written_to(self, postgres, tmp_path):
        url = postgres.database()
        store = await PostgresStore.open(url)
        await store.append(write("run_1"))
        dump = tmp_path / "dump"
        run = {"check": True, "timeout": 60, "capture_output": True}
        subprocess.run([postgres.bins / "pg_dump", "-Fc", "-f", dump, url], **run)
        await store.append(write("run_2"))
        drop(postgres, url)
        subprocess.run([postgres.bins / "pg_restore", "-d", url, dump], **run)
        name = url.partition("?")[0].rpartition("/")[2]
        # Even where the schema says of itself that it is the one of here.
        postgres.execute("set search_path = sayso; update store set imprint = imprint()", name)

        async with asyncio.timeout(20):
            while not (await store.origin()).fault:
                await asyncio.sleep(0.02)

        assert "put back to 1" in (await store.origin()).fault
        await refused(StoreRestored, store.append(write("run_3")))
        await store.close()
