"""What is SQLite's own: how much a commit costs, what stays behind, what a thread may do."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from sayso.errors import BadSetup, CommitUnknown, StoreClosed, StoreError
from sayso.store import sqlite_file
from sayso.store.lease import Leases
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import hold_row, refused, write
from tests.store.disk import faulty


async def test_appends_of_one_tick_share_a_commit(tmp_path):
    with faulty(("sync",)) as disk:
        store = await SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name)
        await store.append(write("run_first"))
        disk.count = 0

        await asyncio.gather(*(store.append(write(f"run_{n}")) for n in range(64)))

        assert disk.count == 1
        await store.append(write("run_last"))
        assert disk.count == 2
        await store.close()


async def test_what_arrives_during_a_commit_shares_the_next(tmp_path):
    with faulty(("sync",)) as disk:
        store = await SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name)

        async def chain_of(run):
            for after in range(10):
                await store.append(write(run, after=after))

        await store.append(write("run_first"))
        disk.count = 0
        await asyncio.gather(*(chain_of(f"run_{n}") for n in range(64)))

        assert 10 <= disk.count <= 20
        await store.close()


async def test_reading_and_refusing_cost_no_sync(tmp_path):
    with faulty(("sync",)) as disk:
        store = await SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name)
        await store.append(write(status="suspended", holds=(hold_row(),)))
        disk.count = 0

        await refused(StoreError, store.append(write()))
        await store.claim("w1")
        await store.holds(HoldQuery())
        await store.runs(RunQuery())
        await store.tail()

        assert disk.count == 0
        await store.close()


async def test_what_is_redacted_is_in_no_file_any_more(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    secret = b"4111-1111-" + os.urandom(8).hex().encode()
    for n, size in enumerate((1, 500)):
        one = write(f"run_{n}", count=2)
        content = secret * size
        entries = (one.entries[0], type(one.entries[1])(id=os.urandom(8), payload=content))
        changed = {name: getattr(one, name) for name in one.__struct_fields__}
        await store.append(type(one)(**{**changed, "entries": entries}))
        await store.append(write(f"other_{n}"))
    files = [path, tmp_path / "sayso.db-wal"]
    assert any(secret in file.read_bytes() for file in files)

    for n in range(2):
        await store.append(write(f"run_{n}", after=2, status="completed", redacts=(2,)))
    await store.beat("w1")

    assert not any(secret in file.read_bytes() for file in files)
    await store.close()


async def test_a_closed_store_leaves_one_clean_file(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write())
    await store.beat("w1")
    await store.retire("w1")

    await store.close()

    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["sayso.db", "sayso.db.bell", "sayso.db.mark", "sayso.db.workers"]
    assert list((tmp_path / "sayso.db.bell").iterdir()) == []
    assert list((tmp_path / "sayso.db.workers").iterdir()) == []
    assert not [t for t in threading.enumerate() if t.name.startswith("sayso")]


def test_a_loop_that_is_closed_without_the_store_leaves_no_thread(tmp_path):
    async def forget():
        store = await SqliteStore.open(tmp_path / "sayso.db")
        await store.append(write())
        store.append(write(after=1))

    asyncio.run(forget())

    until = time.monotonic() + 10
    while [t for t in threading.enumerate() if t.name.startswith("sayso")]:
        assert time.monotonic() < until
        time.sleep(0.01)
    gc.collect()


async def test_opening_that_is_cancelled_leaves_no_thread(tmp_path):
    for ticks in range(6):
        opening = asyncio.create_task(SqliteStore.open(tmp_path / f"{ticks}.db"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():  # It was faster.
            await opening.result().close()

    until = time.monotonic() + 10
    while [t for t in threading.enumerate() if t.name.startswith("sayso")]:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def test_a_process_that_ends_without_closing_ends(tmp_path):
    program = """
import asyncio, sys
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import write

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await store.append(write())
    store.append(write(after=1))

asyncio.run(main())
"""

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "sayso.db")],
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, b"")


async def test_a_value_that_cannot_be_kept_harms_nobody_else(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    bad = [
        write("run_1", state=object()),
        write("run_2", due_at=2**70),
        write("run_3", agent="\ud800"),
        write("run_4", status="dreaming"),
        write("run_5", holds=(hold_row("run_5", status="dreaming"),)),
    ]

    answers = [store.append(one) for one in bad] + [store.append(write("run_good"))]

    for answer in answers[:-1]:
        assert type(await refused(StoreError, answer)) is StoreError
    await answers[-1]
    assert [row.id for row in await store.runs(RunQuery())] == ["run_good"]
    await store.close()


async def test_a_fault_of_the_writer_itself_leaves_nobody_waiting(tmp_path, capsys):
    def boom():
        raise ZeroDivisionError

    seen = []
    before, threading.excepthook = threading.excepthook, seen.append
    try:
        store = await SqliteStore.open(tmp_path / "sayso.db")
        answers = [store._submit(lambda pen: boom()), store.append(write())]

        for answer in answers:
            await refused(CommitUnknown, answer)
        await refused(StoreClosed, store.append(write()))
        await refused(StoreClosed, store.load("run_1"))
        await store.close()
    finally:
        threading.excepthook = before
    assert [args.exc_type for args in seen] == [ZeroDivisionError]


async def test_an_old_sqlite_is_refused(tmp_path, request):
    have = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))

    assert have >= sqlite_file.SQLITE_MIN == (3, 51, 3)
    with pytest.raises(BadSetup, match="too old"):
        sqlite_file.check_version("3.51.2")
    sqlite_file.check_version("3.51.3")
    sqlite_file.check_version("4.0")


def test_a_network_file_system_is_refused():
    mounts = [
        "36 35 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw",
        "40 36 0:50 / /mnt\\040x rw - nfs4 server:/x rw",
    ]

    assert sqlite_file.file_system(mounts, os.makedev(0, 50)) == "nfs4"
    assert sqlite_file.file_system(mounts, os.makedev(98, 0)) == "ext4"
    assert sqlite_file.file_system(mounts, os.makedev(1, 1)) == ""


async def test_a_store_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    kind = sqlite_file.file_system(mounts, tmp_path.stat().st_dev)
    monkeypatch.setattr(sqlite_file, "NETWORK", frozenset({kind}))

    with pytest.raises(BadSetup, match="network file system"):
        await SqliteStore.open(tmp_path / "sayso.db")


async def test_the_pragmas_that_durability_rests_on_are_set(tmp_path):
    path = str(tmp_path / "sayso.db")
    sqlite_file.create(path)
    conn = sqlite_file.open_writer(path, vfs=None, synchronous="FULL", busy_s=1)

    found = {
        name: conn.pragma(name)
        for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "secure_delete")
    }

    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 0,
        "secure_delete": 1,
    }
    tables = conn.execute("select name, strict from pragma_table_list where schema = 'main'")
    assert all(strict for name, strict in tables.fetchall() if not name.startswith("sqlite_"))
    conn.close()


async def test_every_list_is_served_by_an_index(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    plans = []
    conn = store._reader._conn
    statements = []
    conn.exec_trace = lambda cursor, sql, bindings: statements.append((sql, bindings)) or True
    await store.holds(HoldQuery())
    await store.holds(HoldQuery(status="settled", project="p"))
    await store.append(write(holds=(hold_row(who=("a", "b")),)))
    await store.holds(HoldQuery(who=("a", "b"), project="p", after="1.1"))
    for query in (RunQuery(status="suspended"), RunQuery(project="p", thread="t")):
        await store.runs(query)
    await store.due()
    await store.tail()
    await store.claim("w1")
    conn.exec_trace = None
    for sql, bindings in statements:
        plan = conn.execute(f"explain query plan {sql}", bindings).fetchall()
        plans.append((sql, [row[3] for row in plan]))
    await store.close()

    for sql, plan in plans:
        whole = {"SCAN r", "SCAN h", "SCAN o", "SCAN a", "SCAN v", "SCAN runs", "SCAN waiting"}
        assert whole.isdisjoint(plan), (sql, plan)
        # Those of several audiences are merged, a page of each.
        assert "union" in sql or not any("ORDER BY" in step for step in plan), (sql, plan)
    assert len(plans) >= 8


def test_a_lock_is_never_seen_free_while_it_is_made(tmp_path):
    stop = threading.Event()
    seen = []
    watcher = Leases(str(tmp_path / "workers"))

    def look():
        while not stop.is_set():
            seen.append(watcher.is_dead("w1"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(200):
            leases = Leases(str(tmp_path / "workers"))
            leases.hold("w1")
            leases.release("w1")
    finally:
        stop.set()
        thread.join()

    assert seen
    assert not any(seen)
