"""A store that was opened before a fork is its parent's alone."""

import asyncio
import os

from sayso.errors import StoreForked
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import refused, write

TIRED_S = 20


def in_child(loop, what):
    """Go on in a child of the process, on the loop it was forked with."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 70
    try:
        # The parent's loop is still under way here; a new one would not have its tasks either.
        asyncio.events._set_running_loop(None)
        asyncio.run(asyncio.wait_for(what(), TIRED_S))
        code = 0
    finally:
        os._exit(code)


async def test_every_method_is_refused_in_a_forked_child(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write())

    async def use():
        attempts = [
            store.append(write(after=1)),
            store.load("run_1"),
            store.journal("run_1"),
            store.entries("run_1", [1]),
            store.tail(),
            store.runs(RunQuery()),
            store.holds(HoldQuery()),
            store.hold("run_1", 1),
            store.key("p", "k"),
            store.thread("p", "t"),
            store.beat("w1"),
            store.retire("w1"),
            store.claim("w1"),
            store.lost(),
            store.sight("w1"),
            store.outbox.take(lease_ms=1),
            store.outbox.next_due(),
            store.shelf.get("p", "person", "ann"),
            store.due(),
            store.close(),
        ]
        for attempt in attempts:
            await refused(StoreForked, attempt)
        try:
            store.watch()
        except StoreForked:
            return
        raise AssertionError("a child may watch")

    assert in_child(asyncio.get_running_loop(), use) == 0
    await store.append(write(after=1))
    await store.close()


async def test_a_forked_child_may_open_the_file_anew(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write())

    async def use():
        own = await SqliteStore.open(tmp_path / "sayso.db")
        await own.append(write(after=1))
        await own.close()

    assert in_child(asyncio.get_running_loop(), use) == 0
    assert (await store.load("run_1")).seq == 2
    await store.append(write(after=2))
    await store.close()


async def test_a_child_that_lives_on_does_not_keep_its_parent_alive(tmp_path):
    path = tmp_path / "sayso.db"
    go_on, stop = os.pipe(), os.pipe()
    parent = os.fork()
    if not parent:
        asyncio.events._set_running_loop(None)
        asyncio.run(_parent(path, go_on, stop))
        os._exit(0)
    assert os.read(go_on[0], 1) == b"!"
    await asyncio.to_thread(os.waitpid, parent, 0)

    store = await SqliteStore.open(path)
    lost = await store.lost()

    os.write(stop[1], b"!")
    assert [(found.worker, found.proof) for found in lost] == [("w1", "dead")]
    await store.close()


async def _parent(path, go_on, stop):
    store = await SqliteStore.open(path)
    await store.beat("w1")
    await store.append(write(owner="w1"))
    if os.fork() == 0:
        os.write(go_on[1], b"!")
        os.read(stop[0], 1)
    os._exit(0)
