"""Cut the power at any moment: nothing that was acknowledged is lost, and nothing is half there.

A session of two stores on one file, with checkpoints, redactions and restarts, runs on a disk that
notes what it was told (`powerloss.py`). Then images of what could be left at random points are
opened with plain SQLite and held against what had been acknowledged by then. The same session with
`synchronous=NORMAL` has to lose something, or the harness could not see a loss at all.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from sayso.errors import StaleRun
from sayso.store import audit, chain
from sayso.store.base import Entry, Key
from sayso.store.migrate import released
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import hold_row, write
from tests.crash.powerloss import Disk, Platter, replay

SEEDS = 10
IMAGES = 1000
"""For each seed; ten thousand in all."""
ROUNDS = 40
CHECKPOINTS = (
    apsw.SQLITE_CHECKPOINT_PASSIVE,
    apsw.SQLITE_CHECKPOINT_RESTART,
    apsw.SQLITE_CHECKPOINT_TRUNCATE,
)


class Session:
    """Two stores on one file, used at random."""

    def __init__(self, path: Path, disk: Disk, synchronous: str, chance: random.Random) -> None:
        self.path = path
        self.disk = disk
        self.synchronous = synchronous
        self.chance = chance
        self.seqs: dict[str, int] = {}
        self.pairs: list[tuple[tuple[str, int], tuple[str, int]]] = []

    async def run(self) -> None:
        stores = [await self.open(), await self.open()]
        for n in range(ROUNDS):
            await asyncio.gather(*(self.append(self.chance.choice(stores)) for _ in range(4)))
            await self.append_pair(self.chance.choice(stores))
            if n % 5 == 0:
                self.checkpoint()
            if n % 13 == 12:
                for store in stores[: self.chance.choice((1, 2))]:
                    await store.close()
                    stores.remove(store)
                stores += [await self.open() for _ in range(2 - len(stores))]
        for store in stores:
            await store.close()

    async def open(self) -> SqliteStore:
        store = await SqliteStore.open(
            self.path,
            vfs=self.disk.name,
            sync_dir=self.disk.sync_dir,
            synchronous=self.synchronous,
            bell=False,
        )
        self.disk.note("open")
        return store

    def checkpoint(self) -> None:
        conn = apsw.Connection(str(self.path), vfs=self.disk.name)
        try:
            conn.wal_checkpoint(mode=self.chance.choice(CHECKPOINTS))
        except apsw.BusyError:
            pass
        conn.close()

    def make(self, run: str) -> Any:
        after = self.seqs.get(run, 0)
        count = self.chance.randint(1, 3)
        seq = self.seqs[run] = after + count
        big = self.chance.choice((10, 300, 300, 3000, 9000))
        status = self.chance.choice(("open", "decided", "settled"))
        return write(
            run,
            after=after,
            count=count,
            state=self.chance.randbytes(big),
            holds=(hold_row(run, self.chance.randint(1, 3), entry=seq, status=status),),
            key=Key(project="p", key=f"{run}.{seq}", digest="d"),
            redacts=(1,) if after and self.chance.random() < 0.1 else (),
            due_at=self.chance.choice((None, 1, 2)),
        )

    async def append(self, store: SqliteStore) -> None:
        # Any that is not in use: two stores at once on one run would only be stale.
        run = f"run_{self.chance.randrange(10**9) if self.chance.random() < 0.3 else id(store) % 7}"
        try:
            one = self.make(run)
            await store.append(one)
        except StaleRun:
            row = await store.load(run)
            self.seqs[run] = row.seq if row else 0
            return
        self.disk.note("ack", run, one.after + len(one.entries))

    async def append_pair(self, store: SqliteStore) -> None:
        one, two = self.make("run_one"), self.make("run_two")
        places = [(each.run, each.after + len(each.entries)) for each in (one, two)]
        self.pairs.append((places[0], places[1]))
        await store.append(one, two)
        for place in places:
            self.disk.note("ack", *place)


def find_faults(platter: Platter, folder: Path, session: Session, *, deep: bool) -> list[str]:
    """Open what is left as SQLite would, and say what is wrong with it."""
    acked: dict[str, int] = {}
    for kind, *rest in platter.notes:
        if kind == "ack":
            acked[rest[0]] = max(rest[1], acked.get(rest[0], 0))
    path = folder / session.path.name
    if not path.exists():
        return ["the file is gone"] if ("open",) in platter.notes else []
    conn = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if conn.pragma("user_version") != len(released()):
            return ["the schema is gone"] if ("open",) in platter.notes else []
        heads = _verify(conn)
        lost = [f"{run} ends before {seq}" for run, seq in acked.items() if heads.get(run, 0) < seq]
        half = [
            f"{pair} is half there"
            for pair in session.pairs
            if len({heads.get(run, 0) >= seq for run, seq in pair}) == 2
        ]
        if deep and conn.pragma("integrity_check") != "ok":
            half.append("SQLite finds it damaged")
        return lost + half
    except (apsw.Error, SystemError) as error:
        return [f"it cannot be read: {error!r}"]
    finally:
        conn.close()


def _verify(conn: apsw.Connection) -> dict[str, int]:
    """Check every chain; give the last entry of each run."""
    heads: dict[str, int] = {}
    runs = conn.execute("select k, id, seq, hash from runs").fetchall()
    for k, run, seq, head in runs:
        rows = conn.execute(
            "select seq, position, id, at, salt, payload, hash from journal where run = ?"
            " order by seq",
            (k,),
        ).fetchall()
        entries = [
            Entry(
                run_id=run,
                seq=row[0],
                position=row[1],
                id=row[2],
                at=row[3],
                salt=row[4] or b"",
                payload=row[5],
                hash=row[6],
                redacted=row[4] is None,
            )
            for row in rows
        ]
        chain.verify(run, entries, seq=seq, head=head)
        heads[run] = seq
    return heads


def cut_power(root: Path, seed: int, synchronous: str, images: int) -> tuple[int, list[str]]:
    """Run one session and look at so many images; give how many were opened, and all faults."""
    chance = random.Random(seed)
    disk = Disk(f"disk-{synchronous}-{seed}")
    session = Session(root / "sayso.db", disk, synchronous, chance)
    asyncio.run(session.run())
    points = sorted(chance.choices(range(len(disk.log)), k=images))
    folder = root / "image"
    faults: list[str] = []
    looked = 0
    for index, platter in enumerate(replay(disk.log)):
        while points and points[0] == index:
            points.pop(0)
            looked += 1
            _lay_out(folder, platter.image(chance))
            deep = looked % 10 == 0
            found = find_faults(platter, folder, session, deep=deep)
            faults += [f"seed {seed}, point {index}: {fault}" for fault in found]
    disk.unregister()
    return looked, faults


def _lay_out(folder: Path, image: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_acknowledged_append_is_lost_to_a_power_cut(seed: int, shm_path: Path) -> None:
    looked, faults = cut_power(shm_path, seed, "FULL", IMAGES)

    assert faults == []
    assert looked == IMAGES


def test_the_harness_sees_what_less_durability_loses(shm_path: Path) -> None:
    _, faults = cut_power(shm_path, 1, "NORMAL", 300)

    assert sum("ends before" in fault for fault in faults) > 0
    assert not any("half there" in fault or "cannot" in fault for fault in faults)
