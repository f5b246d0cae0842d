"""The outbox of a SQLite file, where the contract cannot reach: processes, older files, cost."""

import asyncio
import sys
from asyncio.subprocess import PIPE

import apsw

from sayso.domain.guard import ItemAt, Since
from sayso.errors import StoreDamaged, StoreError
from sayso.store import sqlite_file
from sayso.store.base import ItemPut, NewParcel
from sayso.store.clock import SystemClock
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock
from sayso.testing.contract import hold_row, refused, write
from tests.store.child import up_to

PARCELS = 120
LEASE_MS = 600_000
PROGRAM = """
import asyncio, sys
from sayso.store.sqlite import SqliteStore

async def main(path, lease_ms, verb):
    store = await SqliteStore.open(path)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    taken = []
    while len(taken) < 200 and (got := await store.outbox.take(limit=2, lease_ms=int(lease_ms))):
        taken += got
        if verb == "deliver":
            for parcel in got:
                await store.outbox.done(parcel)
    print(" ".join(parcel.id for parcel in taken), flush=True)
    if verb == "hang":
        await asyncio.to_thread(sys.stdin.readline)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def parcel(name, due_at=0):
    return NewParcel(id=name, kind="reminder", due_at=due_at, data=b"data")


async def other(path, verb):
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(path), str(LEASE_MS), verb, stdin=PIPE, stdout=PIPE
    )
    assert await child.stdout.readline() == b"ready\n"
    return child


async def test_parcels_are_there_after_reopening(tmp_path):
    path = tmp_path / "sayso.db"
    clock = FakeClock()
    store = await SqliteStore.open(path, clock=clock)
    await store.append(write(parcels=(parcel("a"), parcel("b", 1), parcel("c", 2))))
    a, b = await store.outbox.take(limit=2, lease_ms=1000)
    await store.outbox.dead(a, "no such address")
    await store.close()

    store = await SqliteStore.open(path, clock=clock)

    assert [one.id for one in await store.outbox.dead_ones("p")] == ["a"]
    assert [one.id for one in await store.outbox.take(limit=9, lease_ms=1000)] == ["c"]
    await store.outbox.done(b)
    clock.advance(1000)
    assert [one.id for one in await store.outbox.take(limit=9, lease_ms=1000)] == ["c"]
    await store.close()


async def test_processes_that_deliver_side_by_side_deliver_each_parcel_once(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    names = {f"{n:03}" for n in range(PARCELS)}
    await store.append(write(parcels=tuple(parcel(name) for name in names)))
    others = [await other(path, "deliver") for _ in range(2)]

    said = await asyncio.gather(*(child.communicate(b"go\n") for child in others))

    assert [child.returncode for child in others] == [0, 0]
    delivered = [out.decode().split() for out, _ in said]
    assert sorted(delivered[0] + delivered[1]) == sorted(names)
    assert await store.outbox.next_due() is None
    await store.close()


async def test_the_parcels_of_a_killed_taker_come_again(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.append(write(parcels=(parcel("a"), parcel("b", 1))))
    child = await other(path, "hang")
    child.stdin.write(b"go\n")
    assert await child.stdout.readline() == b"a b\n"
    child.kill()
    await child.communicate()
    later = SystemClock().now() + LEASE_MS
    late = await SqliteStore.open(path, clock=FakeClock(later))

    assert await store.outbox.take(limit=9, lease_ms=1) == []
    taken = await late.outbox.take(limit=9, lease_ms=1)

    assert [(one.id, one.tries) for one in taken] == [("a", 2), ("b", 2)]
    for each in (store, late):
        await each.close()


async def test_a_store_from_before_the_outbox_is_brought_up_with_its_workers(tmp_path, monkeypatch):
    path = tmp_path / "sayso.db"
    clock = FakeClock()
    with monkeypatch.context() as before:
        before.setattr(sqlite_file, "released", lambda: up_to(2))
        store = await SqliteStore.open(path, clock=clock)
        await store.append(write(owner="w1"))
        row = await store.load("run_1")
        await store.close()
    conn = apsw.Connection(str(path))
    assert conn.pragma("user_version") == 2
    conn.execute("drop table origin; drop table mark")
    until = clock.tick() + 5
    conn.execute("insert into workers values ('w1', ?, ?)", (clock.boot_id(), until))
    conn.close()

    store = await SqliteStore.open(path, clock=clock)

    assert await store.load("run_1") == row
    seen = await store.sight("w1")
    assert (seen.alive, seen.seen_ms_ago, seen.host) == ("alive", None, "")
    assert await store.outbox.next_due() is None
    await store.append(write(after=1, parcels=(parcel("a"),)))
    assert len(await store.outbox.take(lease_ms=1)) == 1
    await store.beat("w1")
    assert (await store.sight("w1")).seen_ms_ago == 0
    await store.close()


async def test_every_look_into_the_outbox_is_served_by_an_index(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    statements = []

    def note(cursor, sql, bindings):
        statements.append((sql, bindings))
        return True

    apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", note))
    try:
        traced = await SqliteStore.open(tmp_path / "sayso.db")
    finally:
        apsw.connection_hooks.pop()
    parcels = (parcel("a"), parcel("b", 1), parcel("c", 2))
    await traced.append(write(parcels=parcels, unparcels=("d",)))
    a, b, c = await traced.outbox.take(limit=3, lease_ms=1000)
    await traced.outbox.done(a)
    await traced.outbox.again(b, 0)
    await traced.outbox.dead(c, "x")
    await traced.outbox.dead_ones("p")
    await traced.outbox.revive("p", "c")
    await traced.close()

    conn = store._reader._conn
    looked = [(sql, bindings) for sql, bindings in statements if "parcels" in sql]
    plans = [
        (sql, [row[3] for row in conn.execute(f"explain query plan {sql}", bindings).fetchall()])
        for sql, bindings in looked
        if "create" not in sql
    ]
    await store.close()
    assert len({sql for sql, _ in plans}) == 10
    for sql, plan in plans:
        # The least of an index is at its end: SQLite calls looking there a search.
        assert not any(step.startswith("SCAN") or "ORDER BY" in step for step in plan), (sql, plan)


async def test_a_write_without_items_and_parcels_costs_nothing_for_them(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db", bell=False)
    statements = []

    def note(cursor, sql, bindings):
        statements.extend([sql] if "shelf" in sql or "parcels" in sql else [])
        return True

    def trace(pen):
        pen._conn.exec_trace = note

    await store._submit(trace)

    async def cost(**changes):
        row = await store.load("run_1")
        statements.clear()
        await store.append(write(after=row.seq if row else 0, **changes))
        return len(statements)

    assert await cost() == 0
    assert await cost(holds=(hold_row(),), only_if=(Since(at=0),)) == 0
    assert await cost(only_if=(ItemAt(kind="person", id="ann", rev=0),)) == 1
    put = ItemPut(kind="person", id="ann", rev=0, data=b"")
    assert await cost(items=(put,)) == 3
    assert await cost(parcels=(parcel("a"),), unparcels=("b",)) == 2
    assert await store.outbox.take(lease_ms=LEASE_MS) != []
    statements.clear()
    assert await store.outbox.take(lease_ms=LEASE_MS) == []
    assert statements == []
    await store.close()


async def test_a_damaged_parcel_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.append(write(parcels=(parcel("a"), parcel("b"))))
    (a,) = await store.outbox.take(lease_ms=1000)
    await store.outbox.dead(a, "x")
    await store.close()
    conn = apsw.Connection(str(path))
    conn.execute("update parcels set kind = cast(x'ff61' as text)")
    conn.close()

    store = await SqliteStore.open(path)

    await refused(StoreDamaged, store.outbox.dead_ones("p"))
    await refused(StoreError, store.outbox.take(lease_ms=1000))
    await store.append(write(after=1))
    await store.close()
