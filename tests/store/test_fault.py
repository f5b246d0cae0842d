"""Disks that fail at the n-th call, for every n, until the script gets through.

Whatever happens: an acknowledged append is there, a refused one is not, one whose answer was
`CommitUnknown` is there or not, chains hold, and after a fault whose extent is unknown nothing
more is accepted.
"""

import asyncio
import resource
import signal

import apsw
import pytest

from sayso.errors import (
    CommitUnknown,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from sayso.store import chain
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import hold_row, refused, write
from tests.store.child import forked
from tests.store.disk import faulty

STOPPED = (StoreClosed, StoreDamaged)


async def script(path, disk):
    """Append in groups until something fails; give what was acknowledged and what is unknown."""
    acked, unknown, refusals = {}, set(), []
    store = await SqliteStore.open(path, vfs=disk.name, bell=False)
    try:
        for n in range(6):
            runs = [f"run_{n}_{i}" for i in range(3)]
            held = [hold_row(run, entry=2) for run in runs]
            answers = [
                store.append(write(run, count=2, state=b"s" * 3000, holds=(row,)))
                for run, row in zip(runs, held, strict=True)
            ]
            told = await asyncio.gather(*answers, return_exceptions=True)
            for run, answer in zip(runs, told, strict=True):
                if isinstance(answer, CommitUnknown):
                    unknown.add(run)
                elif isinstance(answer, StoreError):
                    refusals.append(answer)
                else:
                    acked[run] = answer
            if n == 3:
                await store.load("run_0_0")
    except StoreError as error:
        refusals.append(error)
    finally:
        if disk.failed and disk.error is apsw.IOError:
            answer = await refused(StoreError, store.append(write("run_late")))
            assert isinstance(answer, STOPPED), answer
            assert "restart" in str(answer)
            await refused(StoreError, store.load("run_0_0"))
        await store.close()
    return acked, unknown, refusals


async def check(path, acked, unknown):
    store = await SqliteStore.open(path, bell=False)
    found = {entry.run_id for entry in await store.tail()}
    for run in found:
        row = await store.load(run)
        chain.verify(run, await store.journal(run), seq=row.seq, head=row.hash)
        assert (await store.hold(run, 1)) is not None
    assert set(acked) <= found
    assert found <= set(acked) | unknown
    await store.append(write("run_after"))
    await store.close()


@pytest.mark.parametrize("kind", ["write", "sync", "truncate", "read"])
async def test_an_io_error_stops_the_store_and_loses_nothing(shm_path, kind):
    outcomes = set()
    with faulty((kind,)) as disk:
        for n in range(1, 500):
            disk.count, disk.fail_at, disk.failed = 0, n, False
            path = shm_path / f"{n}.db"
            try:
                acked, unknown, _ = await script(path, disk)
                outcomes |= {"acked"} if acked else set()
                outcomes |= {"unknown"} if unknown else set()
            except StoreError:  # It could not even be opened.
                acked, unknown = {}, set()
                outcomes.add("not opened")
            disk.fail_at = 0

            await check(path, acked, unknown)
            if disk.count < n and not disk.failed:
                break
        else:
            pytest.fail("the script never got through")
    assert "acked" in outcomes
    # The log is truncated only when all is done.
    assert ("not opened" in outcomes) == (kind != "truncate")
    assert ("unknown" in outcomes) == (kind in ("write", "sync"))


@pytest.mark.parametrize("keeps_failing", [False, True])
async def test_a_full_disk_refuses_cleanly_and_recovers(shm_path, keeps_failing):
    full = 0
    with faulty(("write",), apsw.FullError) as disk:
        disk.keeps_failing = keeps_failing
        for n in range(1, 500):
            disk.fail_at = 0
            path = shm_path / f"{n}.db"
            store = await SqliteStore.open(path, vfs=disk.name, bell=False)
            disk.count, disk.fail_at, disk.failed = 0, n, False

            answers = [store.append(write(f"run_{i}", count=2)) for i in range(3)]
            told = await asyncio.gather(*answers, return_exceptions=True)

            if disk.failed:
                full += 1
                assert [type(answer) for answer in told] == [StoreFull] * 3
                assert await store.tail() == []
                disk.fail_at = 0
                for i in range(3):
                    await store.append(write(f"run_{i}", count=2))
            assert len(await store.tail()) == 6
            disk.fail_at = 0
            await store.close()
            await check_only(path, 6)
            if not disk.failed:
                break
    assert full > 3


async def check_only(path, entries):
    store = await SqliteStore.open(path, bell=False)
    assert len(await store.tail()) == entries
    await store.close()


def test_a_file_that_may_not_grow_loses_nothing_that_was_acknowledged(tmp_path):
    path, told = tmp_path / "sayso.db", tmp_path / "told"

    async def grow():
        assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        store = await SqliteStore.open(path)
        with told.open("w") as log:
            for n in range(500):
                try:
                    await store.append(write(f"run_{n}", state=b"s" * 2000))
                except (CommitUnknown, StoreFull, *STOPPED):
                    break  # Linux says EFBIG here, and SQLite that this is an I/O error.
                log.write(f"run_{n}\n")
            else:
                raise AssertionError("it grew after all")
        await refused(StoreError, store.append(write("run_more", state=b"s" * 9000)))

    assert forked(grow) == 0

    acked = set(told.read_text().split())
    assert len(acked) > 10
    asyncio.run(_check_acked(path, acked))


async def _check_acked(path, acked):
    store = await SqliteStore.open(path)
    found = {entry.run_id for entry in await store.tail()}
    assert acked <= found
    assert len(found - acked) <= 1
    await store.close()


async def test_a_store_that_another_keeps_locked_is_busy_and_recovers(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db", busy_s=0.05)
    other = apsw.Connection(str(tmp_path / "sayso.db"))
    other.execute("begin immediate")

    told = [store.append(write("run_1")), store.append(write("run_2"))]
    for answer in told:
        await refused(StoreBusy, answer)
    assert await store.load("run_1") is None
    waiting = store.append(write("run_3"))
    await asyncio.sleep(0)
    other.execute("rollback")

    await waiting
    await store.append(write("run_1"))
    other.close()
    await store.close()


async def test_a_locked_store_does_not_hold_up_the_loop(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write())
    other = apsw.Connection(str(tmp_path / "sayso.db"))
    other.execute("begin immediate")
    waiting = store.append(write(after=1))

    for _ in range(100):
        await asyncio.sleep(0)
        assert (await store.load("run_1")).seq == 1
    assert not waiting.done()
    other.execute("rollback")

    await waiting
    other.close()
    await store.close()
