"""Cut the power at any moment: nothing that was acknowledged is lost, and nothing is half there.

A session of two stores on one file, with checkpoints, redactions and restarts, runs on a disk that
notes what it was told (`powerloss.py`). Then images of what could be left at random points are
opened with plain SQLite and held against what had been acknowledged by then. The same session with
`synchronous=NORMAL` has to lose something, or the harness could not see a loss at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from sayso.errors import BrokenChain
from sayso.store import chain
from sayso.store.base import Entry, Key
from sayso.store.migrate import released
from sayso.store.sqlite import SqliteStore
from sayso.testing.contract import hold_row, write
from tests.crash.powerloss import Disk, replay

SEEDS, SEEDS_OF_A_CHANGE = 10, 4
IMAGES = 1000
"""For each seed; four thousand at every change, and ten in the soak."""
ROUNDS = 40
CHECKPOINTS = (
    apsw.SQLITE_CHECKPOINT_PASSIVE,
    apsw.SQLITE_CHECKPOINT_RESTART,
    apsw.SQLITE_CHECKPOINT_TRUNCATE,
)


class Session:
    """Two stores on one file, used at random, perhaps on what an earlier session has left."""

    def __init__(
        self, path: Path, disk: Disk, chance: random.Random, synchronous: str = "FULL"
    ) -> None:
        self.path = path
        self.disk = disk
        self.chance = chance
        self.synchronous = synchronous
        self.seqs: dict[str, int] = {}
        self.pairs: list[tuple[tuple[str, int], tuple[str, int]]] = []

    async def run(self, rounds: int) -> None:
        stores = [await self.open(), await self.open()]
        for n in range(rounds):
            await asyncio.gather(*(self.append(stores, f"run_{index}") for index in range(4)))
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
            recovers=True,  # An image is a copy, and its mark is on no disk that is noted.
        )
        self.disk.note("open")
        return store

    def checkpoint(self) -> None:
        """Do what any process that has the file open may do at any time."""
        conn = apsw.Connection(str(self.path), vfs=self.disk.name)
        with contextlib.suppress(apsw.BusyError):
            conn.wal_checkpoint(mode=self.chance.choice(CHECKPOINTS))
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

    async def append(self, stores: list[SqliteStore], run: str) -> None:
        if self.chance.random() < 0.3:
            run = f"run_{self.chance.randrange(10**9)}"
        one = self.make(run)
        await self.chance.choice(stores).append(one)
        self.disk.note("ack", run, one.after + len(one.entries))

    async def append_pair(self, store: SqliteStore) -> None:
        one, two = self.make("run_one"), self.make("run_two")
        places = [(each.run, each.after + len(each.entries)) for each in (one, two)]
        self.pairs.append((places[0], places[1]))
        await store.append(one, two)
        for place in places:
            self.disk.note("ack", *place)


def find_faults(notes: list[Any], path: Path, pairs: list[Any], *, deep: bool) -> list[str]:
    """Open what is left as SQLite would, and say what is wrong with it."""
    if not path.exists():
        return ["the file is gone"] if ("open",) in notes else []
    conn = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if conn.pragma("user_version") != len(released()):
            return ["the schema is gone"] if ("open",) in notes else []
        heads = verify_chains(conn)
        lost = [f"{run} ends before {seq}" for run, seq in acked(notes) if heads.get(run, 0) < seq]
        half = [
            f"{pair} is half there"
            for pair in pairs
            if len({heads.get(run, 0) >= seq for run, seq in pair}) == 2
        ]
        if deep and conn.pragma("integrity_check") != "ok":
            half.append("SQLite finds it damaged")
        return lost + half
    except (apsw.Error, BrokenChain) as error:
        return [f"it cannot be read: {error!r}"]
    finally:
        conn.close()


def acked(notes: list[Any]) -> list[tuple[str, int]]:
    return [(note[1], note[2]) for note in notes if note[0] == "ack"]


def verify_chains(conn: apsw.Connection) -> dict[str, int]:
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


class PowerCut:
    """Sessions on one disk, and what could be left of them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.seed = seed
        self.chance = random.Random(seed)
        self.looked = 0
        self.faults: list[str] = []
        self.pairs: list[Any] = []

    def live(self, disk: Disk, rounds: int, synchronous: str = "FULL") -> None:
        """Run a session on the disk, on top of what is on it."""
        path = lay_out(self.root / "live", disk.image)
        session = Session(path, disk, self.chance, synchronous)
        if path.exists():
            conn = apsw.Connection(str(path))
            session.seqs = verify_chains(conn) if conn.pragma("user_version") else {}
            conn.close()
            lay_out(self.root / "live", disk.image)
        # A pair that was in flight when the power went, and is not there, will never be.
        found = dict(session.seqs)
        self.pairs = [pair for pair in self.pairs if found.get(pair[0][0], 0) >= pair[0][1]]
        asyncio.run(session.run(rounds))
        self.pairs += session.pairs

    def look(self, disk: Disk, images: int, before: Sequence[Any] = ()) -> Any:
        """Look at images of random points; give one of them, and what was acknowledged by then."""
        points = sorted(self.chance.choices(range(len(disk.log)), k=images))
        chosen = self.chance.randrange(images)
        left: Any = None
        for index, platter in enumerate(replay(disk)):
            while points and points[0] == index:
                points.pop(0)
                self.looked += 1
                image = platter.image(self.chance)
                path = lay_out(self.root / "image", image)
                notes = [*before, *platter.notes]
                found = find_faults(notes, path, self.pairs, deep=self.looked % 10 == 0)
                self.faults += [f"seed {self.seed}, point {index}: {fault}" for fault in found]
                if images - len(points) - 1 == chosen:
                    left = image, notes
        return left


def lay_out(folder: Path, image: dict[str, bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)
    return folder / "sayso.db"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.soak] if seed >= SEEDS_OF_A_CHANGE else [])
        for seed in range(SEEDS)
    ],
)
def test_no_acknowledged_append_is_lost_to_a_power_cut(seed: int, shm_path: Path) -> None:
    cut = PowerCut(shm_path, seed)
    first = Disk(f"first-{seed}", strict=seed % 2 == 0)

    cut.live(first, ROUNDS)
    image, notes = cut.look(first, IMAGES // 2)
    second = Disk(f"second-{seed}", strict=seed % 2 == 0, image=image)
    cut.live(second, ROUNDS // 2)
    cut.look(second, IMAGES // 2, before=notes)

    assert cut.faults == []
    assert cut.looked == IMAGES


def test_the_harness_sees_what_less_durability_loses(shm_path: Path) -> None:
    cut = PowerCut(shm_path, 1)
    disk = Disk("normal")

    cut.live(disk, ROUNDS, "NORMAL")
    cut.look(disk, 500)

    assert sum("ends before" in fault for fault in cut.faults) > 100
    assert not any("half there" in fault or "cannot" in fault for fault in cut.faults)


def test_the_harness_sees_what_a_folder_without_a_sync_loses(shm_path: Path) -> None:
    cut = PowerCut(shm_path, 2)
    disk = Disk("forgetful", strict=True)
    disk.sync_dir = lambda path: None

    cut.live(disk, 5)
    cut.look(disk, 500)

    assert any("is gone" in fault for fault in cut.faults)
