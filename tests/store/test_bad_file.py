"""Files that are no store, or no longer one: refused by name, and left alone."""

import asyncio
import os
import random
import shutil
import stat
import tempfile
from pathlib import Path

import apsw
import pytest

from sayso.errors import (
    NotOurStore,
    SaysoError,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from sayso.store import audit
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import hold_row, refused, write
from tests.store.child import forked
from tests.store.disk import faulty


async def fill(path, runs=30):
    store = await SqliteStore.open(path, bell=False)
    for n in range(runs):
        held = hold_row(f"run_{n}", entry=2)
        await store.append(write(f"run_{n}", count=3, state=b"s" * 300, holds=(held,)))
    await store.close()


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_not_ours(tmp_path, content):
    path = tmp_path / "sayso.db"
    path.write_bytes(content)

    await refused(NotOurStore, SqliteStore.open(path))

    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["sayso.db"]


@pytest.mark.parametrize("foreign", ["create table t (a)", "pragma application_id = 7"])
async def test_a_database_of_another_program_is_not_ours(tmp_path, foreign):
    path = tmp_path / "sayso.db"
    conn = apsw.Connection(str(path))
    conn.execute(foreign)
    conn.close()
    before = path.read_bytes()

    await refused(NotOurStore, SqliteStore.open(path))

    assert path.read_bytes() == before


async def test_a_folder_is_no_store(tmp_path):
    await refused(StoreError, SqliteStore.open(tmp_path))


async def test_a_folder_that_is_not_there_is_named(tmp_path):
    error = await refused(StoreError, SqliteStore.open(tmp_path / "nowhere" / "sayso.db"))

    assert "nowhere" in str(error)


async def test_a_truncated_store_is_damaged(tmp_path):
    path = tmp_path / "sayso.db"
    await fill(path)
    size = path.stat().st_size
    for kept in {size - 1, size - 4096, size // 2, 8192, 4096, 4095, 600}:
        cut = tmp_path / f"{kept}.db"
        shutil.copy(path, cut)
        os.truncate(cut, kept)

        error = await refused(StoreError, SqliteStore.open(cut))

        assert isinstance(error, StoreDamaged | NotOurStore)


async def test_an_emptied_store_with_its_log_beside_it_is_damaged(tmp_path):
    path = tmp_path / "sayso.db"
    store = await SqliteStore.open(path)
    await store.append(write())
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", tmp_path / f"copy.db{suffix}")
    os.truncate(tmp_path / "copy.db", 0)

    await refused(StoreDamaged, SqliteStore.open(tmp_path / "copy.db"))

    assert (tmp_path / "copy.db-wal").stat().st_size > 0
    await store.close()


async def test_whatever_is_flipped_in_a_file_is_an_error_of_ours_or_none(shm_path):
    path = shm_path / "sayso.db"
    await fill(path)
    content = path.read_bytes()
    chance = random.Random(1)
    told = 0
    for n in range(150):
        flipped = bytearray(content)
        for _ in range(chance.choice((1, 1, 20))):
            flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        bad = shm_path / f"{n}.db"
        bad.write_bytes(flipped)
        try:
            store = await SqliteStore.open(bad, bell=False)
        except SaysoError:
            told += 1
            continue
        told += await _use(store)
        bad.unlink()
    assert told > 50


async def _use(store):
    try:
        report = await audit.verify(store)
        await store.holds(HoldQuery(who=("user:mira",)))
        row = await store.load("run_3")
        await store.append(write("run_3", after=row.seq if row else 0))
        await store.runs(RunQuery())
        return not report.ok
    except SaysoError:
        return True
    finally:
        await store.close()


@pytest.fixture
def open_path():
    """A folder that everybody may use: the one of pytest is its owner's alone."""
    path = Path(tempfile.mkdtemp(prefix="sayso-"))
    path.chmod(0o777)
    yield path
    path.chmod(0o777)
    shutil.rmtree(path)


def test_a_file_that_may_only_be_read_is_read_only(open_path):
    path = open_path / "sayso.db"
    asyncio.run(fill(path))
    path.chmod(0o444)

    assert forked(lambda: _refused_as(StoreReadOnly, path), as_nobody=True) == 0


def test_a_folder_that_may_only_be_read_is_read_only(open_path):
    path = open_path / "sayso.db"
    asyncio.run(fill(path))
    path.chmod(0o666)
    shutil.rmtree(f"{path}.workers", ignore_errors=True)
    open_path.chmod(0o555)

    assert forked(lambda: _refused_as(StoreReadOnly, path), as_nobody=True) == 0
    assert forked(lambda: _refused_as(StoreReadOnly, open_path / "new.db"), as_nobody=True) == 0


def test_a_file_that_may_not_be_read_is_an_error_of_ours(open_path):
    path = open_path / "sayso.db"
    asyncio.run(fill(path))
    path.chmod(0)

    assert forked(lambda: _refused_as(StoreError, path), as_nobody=True) == 0


async def _refused_as(kind, path):
    await refused(kind, SqliteStore.open(path))


async def test_a_disk_that_became_read_only_is_told_and_recovers(tmp_path):
    with faulty(("write",), apsw.ReadOnlyError) as disk:
        store = await SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name)
        await store.append(write())
        disk.read_only = True

        await refused(StoreReadOnly, SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name))

        await store.append(write(after=1))
        await store.close()


async def test_a_new_file_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        store = await SqliteStore.open(tmp_path / "sayso.db")
        await store.append(write())
        await store.beat("w1")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
        lock = next((tmp_path / "sayso.db.workers").iterdir())
    finally:
        os.umask(before)

    assert modes == {
        "sayso.db": 0o600,
        "sayso.db-wal": 0o600,
        "sayso.db-shm": 0o600,
        "sayso.db.mark": 0o600,
        "sayso.db.bell": 0o700,
        "sayso.db.workers": 0o700,
    }
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    await store.close()


async def test_a_symlink_to_nothing_is_not_followed_into_a_new_file(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "target.db")

    store = await SqliteStore.open(tmp_path / "link.db")
    await store.append(write())
    await store.close()

    assert stat.S_IMODE((tmp_path / "target.db").stat().st_mode) == 0o600


async def test_a_file_that_is_moved_away_stops_the_store(tmp_path):
    for name in ("sayso.db", "sayso.db-wal"):
        path = tmp_path / "sayso.db"
        store = await SqliteStore.open(path)
        await store.append(write(f"run_{name}"))
        (tmp_path / name).rename(tmp_path / f"moved-{name}")

        error = await refused(StoreDamaged, store.append(write("run_lost")))

        assert "moved" in str(error)
        await refused(StoreDamaged, store.load("run_lost"))
        await store.close()
        (tmp_path / f"moved-{name}").rename(tmp_path / name)


async def test_no_space_for_a_new_file_is_full(tmp_path):
    with faulty(("write",), apsw.FullError) as disk:
        disk.fail_at, disk.keeps_failing = 1, True
        await refused(StoreFull, SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name))
        disk.fail_at = 0

        store = await SqliteStore.open(tmp_path / "sayso.db", vfs=disk.name)
        await store.append(write())
        await store.close()
