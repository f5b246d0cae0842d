"""Several real processes on one file."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sayso.errors import StoreError
from sayso.store import chain
from sayso.store.base import LEASE_MS, Lost, Sight
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock
from sayso.testing.contract import refused, write

PROGRAM = """
import asyncio, sys
from sayso.errors import StaleRun
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import write

async def main(path, verb, name):
    store = await SqliteStore.open(path)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if verb == "many":
        async def one(n):
            for after in range(20):
                await store.append(write(f"run_{name}_{n}", after=after))
        await asyncio.gather(*(one(n) for n in range(16)))
    if verb == "same":
        for _ in range(60):
            row = await store.load("run_same")
            while True:
                try:
                    await store.append(write("run_same", after=row.seq if row else 0))
                    break
                except StaleRun:
                    row = await store.load("run_same")
    if verb == "work":
        await store.beat(name)
        await store.append(write("run_work", owner=name))
        print("working", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    if verb == "wait":
        watch = store.watch("run_1")
        seen = (await store.load("run_1")).seq
        print("waiting", flush=True)
        while True:
            await watch.wait()
            row = await store.load("run_1")
            if row.seq > seen:
                seen = row.seq
                print(seen, flush=True)
            if row.status == "completed":
                break
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def bells_of(path):
    return list(Path(f"{path}.bell").iterdir())


class Other:
    """A process that does one thing when it is told to."""

    def __init__(self, path, verb, name="other"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), verb, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().strip()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        code = self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.end()


async def test_two_processes_append_at_once_and_nothing_is_lost(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    with Other(path, "many", "a") as one, Other(path, "many", "b") as two:
        for other in (one, two):
            other.go()
        for after in range(40):
            await store.append(write("run_mine", after=after))

        assert [await asyncio.to_thread(other.end) for other in (one, two)] == [0, 0]
    rows = [await store.load(f"run_{name}_{n}") for name in "ab" for n in range(16)]
    assert [row.seq for row in rows] == [20] * 32
    for row in rows:
        chain.verify(row.id, await store.journal(row.id), seq=row.seq, head=row.hash)
    await store.close()


async def test_processes_that_write_to_one_run_take_turns(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    with Other(path, "same") as one, Other(path, "same") as two:
        for other in (one, two):
            other.go()

        assert [await asyncio.to_thread(other.end) for other in (one, two)] == [0, 0]
    row = await store.load("run_same")
    assert row.seq == 120
    assert chain.verify("run_same", await store.journal("run_same"), seq=120, head=row.hash) == 0
    await store.close()


async def test_a_watch_in_another_process_wakes_up(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.append(write())
    with Other(path, "wait") as other:
        other.go()
        assert await asyncio.to_thread(other.line) == "waiting"
        for after in range(1, 20):
            await store.append(write(after=after))
            if after == 1:
                assert int(await asyncio.to_thread(other.line)) > 1
        await store.append(write(after=20, status="completed"))

        assert await asyncio.to_thread(other.end) == 0
    await store.close()


async def test_a_killed_worker_is_dead_at_once(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    with Other(path, "work", "w1") as other:
        other.go()
        assert other.line() == "working"
        assert await store.lost() == []
        alive = await store.sight("w1")
        other.process.kill()
        other.process.wait()

        assert await store.lost() == [Lost(run_id="run_work", worker="w1", proof="dead")]
        dead = await store.sight("w1")
        assert (alive.alive, dead.alive) == ("alive", "dead")
        assert alive.host == dead.host == os.uname().nodename
        assert 0 <= alive.seen_ms_ago <= dead.seen_ms_ago < LEASE_MS
    await store.close()


async def test_a_stopped_worker_is_not_dead_however_late_it_is(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    with Other(path, "work", "w1") as other:
        other.go()
        assert other.line() == "working"
        other.process.send_signal(signal.SIGSTOP)
        later = FakeClock(tick=store.tick() + LEASE_MS, boot_id=store._clock.boot_id())
        late = await SqliteStore.open(path, clock=later)

        assert await store.lost() == []
        assert await late.lost() == [Lost(run_id="run_work", worker="w1", proof="lease")]
        assert (await store.sight("w1")).alive == "alive"
        assert (await late.sight("w1")).alive == "silent"
        await refused(StoreError, late.beat("w1"))
        await late.close()
    await store.close()


async def test_a_worker_of_before_a_restart_of_the_machine_is_dead(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path, clock=FakeClock(boot_id="one"))
    await store.beat("w1")
    await store.append(write(owner="w1"))
    after = await SqliteStore.open(path, clock=FakeClock(tick=5, boot_id="two"))

    assert await after.lost() == [Lost(run_id="run_1", worker="w1", proof="dead")]
    assert await after.sight("w1") == Sight(
        worker="w1", alive="dead", seen_ms_ago=None, host=os.uname().nodename
    )
    for each in (store, after):
        await each.close()


async def test_a_copy_without_the_lock_files_takes_nobody_for_dead(tmp_path):
    clock = FakeClock()
    store = await SqliteStore.open(tmp_path / "sayso.db", clock=clock)
    await store.beat("w1")
    await store.append(write(owner="w1"))
    for file in (tmp_path / "sayso.db.workers").iterdir():
        file.unlink()
    other = await SqliteStore.open(tmp_path / "sayso.db", clock=clock)

    assert await other.lost() == []
    clock.advance(LEASE_MS)
    assert [found.proof for found in await other.lost()] == ["lease"]
    for each in (store, other):
        await each.close()


async def test_the_dead_who_own_nothing_are_forgotten(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    for name in ("w1", "w2"):
        with Other(path, "work", name) as other:
            other.go()
            if name == "w1":
                assert other.line() == "working"
            other.process.kill()
            other.process.wait()
    await store.append(write("run_work", after=1, owner=""))

    await store.beat("me")

    assert len(list((tmp_path / "sayso.db.workers").iterdir())) <= 2
    assert await store.sight("w1") is None
    await store.append(write("run_x", owner="w1"))
    assert [found.proof for found in await store.lost()] == ["lease"]
    await store.close()


async def test_a_worker_that_shares_its_process_with_the_store_is_not_dead(tmp_path):
    one = await SqliteStore.open(tmp_path / "sayso.db")
    two = await SqliteStore.open(tmp_path / "sayso.db")
    await one.beat("w1")
    await one.append(write(owner="w1"))

    for store in (one, two):
        assert await store.lost() == []
    await one.close()
    # What it was cut off in may still be under way in a thread.
    assert await two.lost() == []
    await two.close()


@pytest.mark.parametrize("length", [20, 200])
async def test_the_bell_is_heard_however_long_the_path(tmp_path, length):
    folder = tmp_path / ("f" * length)
    folder.mkdir()
    path = folder / "sayso.db"
    one = await SqliteStore.open(path)
    two = await SqliteStore.open(path)
    bells = len(bells_of(path))
    watch = two.watch("run_1")
    waiting = asyncio.create_task(watch.wait(10))
    await asyncio.sleep(0)

    started = time.monotonic()
    await one.append(write())

    assert await waiting
    assert time.monotonic() - started < 5
    assert bells == 2
    for store in (one, two):
        await store.close()
    assert bells_of(path) == []


async def test_the_bell_of_a_dead_process_is_taken_down(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    with Other(path, "wait") as other:
        other.process.kill()
        other.process.wait()
        assert len(bells_of(path)) == 2

    await store.append(write())
    await store.append(write(after=1))

    assert len(bells_of(path)) == 1
    await store.close()


async def test_two_links_to_one_file_are_one_store(tmp_path):
    (tmp_path / "link.db").symlink_to("sayso.db")
    one = await SqliteStore.open(tmp_path / "sayso.db")
    two = await SqliteStore.open(tmp_path / "link.db")
    await one.beat("w1")
    await one.append(write(owner="w1"))

    assert await two.lost() == []
    assert {Path(store.name).name for store in (one, two)} == {"sayso.db"}
    for store in (one, two):
        await store.close()
