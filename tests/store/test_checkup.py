"""Looking a store over: a real file, set up wrongly in each way that is looked for."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from sayso.errors import StoreDamaged
from sayso.store import sqlite_checkup
from sayso.store.checkup import WorkerFact, look_at_workers, look_for_keys
from sayso.store.keyring import VARIABLE, KeyRing, new_key
from sayso.store.memory import MemoryStore
from sayso.store.sqlite import SqliteStore
from sayso.store.sqlite_checkup import (
    look_at_file,
    look_at_file_system,
    look_at_pages,
    look_at_settings,
    look_at_space,
    look_at_version,
)
from sayso.testing import FakeClock
from sayso.testing.contract import write


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def path(tmp_path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "sayso.db"


async def looked(path: Path, **options) -> dict[str, tuple[str, str]]:
    store = await SqliteStore.open(path, **options)
    try:
        return {one.name: (one.level, one.text) for one in await store.checkup()}
    finally:
        await store.close()


async def test_a_store_as_we_make_it_has_no_problem(path):
    found = await looked(path)

    # What file system the tests are on, and how full it is, is not for the store to say.
    levels = {name: level for name, (level, _) in found.items()}
    assert {levels.pop("file_system"), levels.pop("space")} <= {"ok", "note", "warning"}
    assert levels.pop("keys") == "note"
    assert set(levels.values()) == {"ok"}
    assert not path.with_name("sayso.db.keys").exists()


async def test_less_durability_is_found(path):
    level, text = (await looked(path, synchronous="NORMAL"))["synchronous"]

    assert level == "problem"
    assert "power cut" in text


async def test_references_that_are_not_enforced_are_found(path):
    store = await SqliteStore.open(path)
    # It belongs to the connection that writes, and cannot be set inside a transaction.
    await store._submit(lambda pen: pen._conn.execute("rollback; pragma foreign_keys = 0; begin"))

    found = {one.name: one.level for one in await store.checkup()}

    assert found["foreign_keys"] == "problem"
    await store.close()


@pytest.mark.parametrize(
    "setting, value",
    [("journal_mode", "delete"), ("synchronous", 1), ("foreign_keys", 0), ("user_version", 99)],
)
def test_a_setting_that_is_not_ours_is_a_problem(setting, value):
    good = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    good["user_version"] = len(sqlite_checkup.released())
    name = "schema" if setting == "user_version" else setting

    before = {one.name: one.level for one in look_at_settings(good)}
    after = {one.name: one.level for one in look_at_settings({**good, setting: value})}

    assert set(before.values()) == {"ok"}
    assert after == {**before, name: "problem"}


@pytest.mark.parametrize("have, level", [("3.51.2", "problem"), ("3.51.3", "ok"), ("4.0", "ok")])
def test_a_sqlite_that_can_corrupt_its_log_is_found(have, level):
    assert look_at_version(have).level == level


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", ".keys"])
async def test_a_file_that_others_may_read_is_found(path, suffix):
    KeyRing.load(path)
    store = await SqliteStore.open(path)
    await store.append(write())
    Path(f"{path}{suffix}").chmod(0o640)

    found = {one.name: one for one in await store.checkup()}

    assert found["mode"].level == "problem"
    assert found["mode"].text.endswith(f"chmod 600 {path}{suffix}")
    await store.close()


async def test_a_directory_that_others_may_write_to_is_found(path):
    path.parent.chmod(0o770)
    assert (await looked(path))["directory"][0] == "warning"

    path.parent.chmod(0o1777)
    assert (await looked(path))["directory"][0] == "ok"


async def test_somebody_elses_file_is_found(path):
    await looked(path)
    mine = path.stat().st_uid

    found = {
        euid: {one.name: one.level for one in look_at_file(str(path), euid=euid)}["owner"]
        for euid in (mine, mine + 1)
    }

    # A file of root's is as good as one's own: root can read everything.
    assert found == {mine: "ok", mine + 1: "ok" if mine == 0 else "warning"}


@pytest.mark.parametrize(
    "kind, level",
    [
        ("ext4", "ok"),
        ("", "note"),
        ("overlay", "note"),
        ("tmpfs", "warning"),
        ("9p", "warning"),
        ("fuse.s3fs", "warning"),
        ("nfs4", "problem"),
    ],
)
def test_a_file_system_is_judged_by_its_kind(kind, level):
    assert look_at_file_system("/x/pay.db", kind).level == level


async def test_a_store_in_memory_that_looks_like_a_disk_is_found():
    folder = Path("/dev/shm") / f"sayso-{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    try:
        assert (await looked(folder / "sayso.db"))["file_system"][0] == "warning"
    finally:
        shutil.rmtree(folder)


def test_a_disk_that_is_nearly_full_is_found(tmp_path, monkeypatch):
    assert look_at_space(str(tmp_path)).level in ("ok", "warning")

    monkeypatch.setattr(sqlite_checkup, "SPACE_LOW", 1 << 80)
    assert look_at_space(str(tmp_path)).level == "warning"
    monkeypatch.setattr(sqlite_checkup, "SPACE_MIN", 1 << 80)
    assert look_at_space(str(tmp_path)).level == "problem"


async def test_a_damaged_page_is_found(path):
    store = await SqliteStore.open(path)
    for n in range(40):
        await store.append(write(f"run_{n}", state=bytes(3000)))
    await store.close()
    conn = apsw.Connection(str(path))
    page = conn.execute("select rootpage from sqlite_schema where name = 'journal_run'").get
    conn.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + 8)
        file.write(b"\xff" * 2000)

    level, text = (await looked(path))["quick_check"]

    assert level == "problem"
    assert "restore a backup" in text


async def test_looking_at_pages_can_be_given_up(path):
    store = await SqliteStore.open(path)

    looking = asyncio.ensure_future(look_at_pages(str(path), None))
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)

    assert looking.cancelled()
    assert await store.checkup()
    await store.close()


async def test_a_file_that_is_gone_is_an_error_and_not_well(path):
    store = await SqliteStore.open(path)
    path.unlink()

    with pytest.raises(StoreDamaged):
        await store.checkup()
    await store.close()


async def test_a_dead_worker_is_told_from_a_silent_one(path):
    program = """
import asyncio, os, sys
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import write

async def main():
    store = await SqliteStore.open(sys.argv[1])
    await store.beat("w_gone")
    await store.append(write("run_1", owner="w_gone"))
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    alive = await looked(path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()

    dead = await looked(path)

    assert alive["workers"] == ("ok", "1 worker at work, all heard of.")
    assert dead["workers"][0] == "warning"
    assert "nobody works here, and 1 run could go on" in dead["workers"][1]


def worker(state: str, runs: int = 0, id: str = "w1") -> WorkerFact:
    return WorkerFact(id=id, state=state, runs=runs)


@pytest.mark.parametrize(
    "workers, free, level, said",
    [
        ([], 0, "ok", "0 workers"),
        ([worker("alive")], 3, "ok", "1 worker"),
        ([worker("dead")], 0, "ok", "0 workers"),
        ([worker("dead", 2), worker("alive")], 0, "note", "died with runs: w1"),
        ([worker("dead", 2)], 1, "warning", "3 runs could go on"),
        ([worker("silent", 2), worker("alive")], 0, "warning", "w1, with 2 runs"),
        ([worker("silent", 0, f"w{n}") for n in range(7)], 0, "warning", "w4 and 2 more"),
    ],
)
def test_workers_are_judged(workers, free, level, said):
    found = look_at_workers(workers, free)

    assert found.level == level
    assert said in found.text


def test_keys_are_looked_for_and_never_made(path):
    nothing = look_for_keys(str(path), {})
    assert nothing.level == "note"
    assert list(path.parent.iterdir()) == []

    KeyRing.load(path, {})
    assert look_for_keys(str(path), {}).level == "ok"
    path.with_name("sayso.db.keys").chmod(0o644)
    assert look_for_keys(str(path), {}).level == "problem"
    assert look_for_keys(str(path), {VARIABLE: new_key()}).level == "ok"
    assert look_for_keys(str(path), {VARIABLE: "nonsense"}).level == "problem"


def test_a_key_file_that_leads_nowhere_is_a_problem(path):
    path.with_name("sayso.db.keys").symlink_to(path.parent / "nowhere")

    assert look_for_keys(str(path), {}).level == "problem"
    assert not (path.parent / "nowhere").exists()


async def test_a_store_in_memory_says_that_it_is(monkeypatch):
    store = MemoryStore(FakeClock())
    await store.append(write("run_1", owner="w1"))
    store.kill("w1")

    found = {one.name: one.level for one in await store.checkup()}
    monkeypatch.setenv(VARIABLE, "nonsense")
    worse = {one.name: one.level for one in await store.checkup()}

    levels = {"store": "note", "clock": "ok", "keys": "note", "workers": "warning", "origin": "ok"}
    assert found == levels
    assert worse["keys"] == "problem"
