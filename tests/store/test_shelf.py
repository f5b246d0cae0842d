"""The shelf of a SQLite file, where the contract cannot reach: other processes, older files."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import apsw

from sayso.errors import StaleItem, StoreDamaged
from sayso.store import sqlite_file
from sayso.store.base import ItemPut
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import refused, write
from tests.store.child import up_to

ROUNDS = 60
PROGRAM = """
import asyncio, sys
from sayso.errors import StaleItem
from sayso.store.sqlite import SqliteStore

async def main(path, rounds):
    store = await SqliteStore.open(path)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    refused = 0
    for _ in range(int(rounds)):
        while True:
            item = await store.shelf.get("p", "count", "n")
            try:
                data = str(int(item.data) + 1).encode()
                await store.shelf.put("p", "count", "n", data, rev=item.rev)
                break
            except StaleItem:
                refused += 1
    await store.close()
    print(refused)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_items_are_there_after_reopening(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    put = await store.shelf.put("p", "person", "ann", b"roles", rev=0)
    dropped = await store.shelf.put("p", "person", "bob", b"", rev=0)
    await store.shelf.drop("p", "person", "bob")
    await store.close()

    store = await SqliteStore.open(path)

    assert await store.shelf.list("p", "person") == [put]
    again = await store.shelf.put("p", "person", "bob", b"", rev=0)
    assert again.rev > dropped.rev
    await store.close()


async def test_two_processes_that_count_in_one_item_lose_nothing(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.shelf.put("p", "count", "n", b"0", rev=0)
    others = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(path), str(ROUNDS), stdin=PIPE, stdout=PIPE
        )
        for _ in range(2)
    ]
    for other in others:
        assert await other.stdout.readline() == b"ready\n"

    said = await asyncio.gather(*(other.communicate(b"go\n") for other in others))

    assert [other.returncode for other in others] == [0, 0]
    item = await store.shelf.get("p", "count", "n")
    assert item.data == str(2 * ROUNDS).encode()
    # They did meet: somebody was refused and looked again.
    assert sum(int(out) for out, _ in said) > 0
    await store.close()


async def test_a_store_from_before_the_shelf_is_brought_up_with_its_runs(tmp_path, monkeypatch):
    path = tmp_path / "sayso.db"
    with monkeypatch.context() as before:
        before.setattr(sqlite_file, "released", lambda: up_to(1))
        store = await SqliteStore.open(path)
        for after in range(3):
            await store.append(write("run_1", after=after))
        row, journal = await store.load("run_1"), await store.journal("run_1")
        await store.close()
    conn = apsw.Connection(str(path))
    assert conn.pragma("user_version") == 1
    conn.execute("drop table origin; drop table mark")
    conn.close()

    store = await SqliteStore.open(path)

    assert await store.load("run_1") == row
    assert await store.journal("run_1") == journal
    assert await store.shelf.list("p", "person") == []
    await store.shelf.put("p", "person", "ann", b"", rev=0)
    await store.append(write("run_1", after=3))
    await store.close()


async def test_what_was_dropped_cannot_be_read_from_the_files(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    for n in range(20):
        await store.shelf.put("p", "person", f"ann{n}", b"4111-1111" * 50, rev=0)

    for n in range(20):
        await store.shelf.drop("p", "person", f"ann{n}")

    # By the time of the next commit it is gone from the log, too; closing would clear that anyway.
    await store.beat("worker_1")
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    assert tmp_path / "sayso.db-wal" in files
    assert [file for file in files if b"4111-1111" in file.read_bytes()] == []
    await store.close()


async def test_what_an_append_dropped_cannot_be_read_from_the_files(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    item = await store.shelf.put("p", "person", "ann", b"4111-1111" * 50, rev=0)

    drop = ItemPut(kind="person", id="ann", rev=item.rev, data=None)
    await store.append(write("run_1", items=(drop,)))

    await store.beat("worker_1")
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    assert [file for file in files if b"4111-1111" in file.read_bytes()] == []
    await store.close()


async def test_the_row_that_counts_is_no_item(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.shelf.put("p", "person", "ann", b"", rev=0)
    conn = apsw.Connection(str(tmp_path / "sayso.db"))

    assert conn.execute("select id, rev from shelf order by id").fetchall() == [("", 1), ("ann", 1)]
    conn.close()
    await refused(StaleItem, store.shelf.put("p", "person", "ann", b"", rev=2))
    await store.close()


async def test_a_damaged_row_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.shelf.put("p", "person", "ann", b"", rev=0)
    await store.close()
    conn = apsw.Connection(str(path))
    conn.execute("update shelf set id = cast(x'ff61' as text) where id = 'ann'")
    conn.close()

    store = await SqliteStore.open(path)

    await refused(StoreDamaged, store.shelf.list("p", "person"))
    await store.close()
