"""Stop a real process at every point and every pair of points, and let fresh ones carry on.

    python -m tests.crash.fork KIND FOLDER [--pairs N] [--siblings] [--plan] [--in URL] [--step N]

One process with everything imported forks a child for each life; the child tells the story and
kills itself with SIGKILL at its point. The next life finds only what is on disk, or with `--in`
in a database of that address. `--step` keeps to every so many points, from the one of `--from` on,
and `--pairs` to every so many second ones, beginning elsewhere after each first one, so that all of
them have their turn.
Prints one JSON line a case: the points of each life, how it died, and what the world looks like at
the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from sayso.domain import codec
from sayso.store import chain
from sayso.store.base import Store
from sayso.store.journal import read_journal, replay
from sayso.store.sqlite import SqliteStore
from sayso.testing.fuse import Fuse, kill_me
from tests.crash.story import RUN, Kind, World, make_agent, tell

LIVES_MAX = 4


class Shelter:
    """Where the store of each case is: a file of its own, or a schema of its own in a database."""

    def __init__(self, root: Path, argv: list[str]) -> None:
        self._template = root / "template.db"
        self._address = argv[argv.index("--in") + 1] if "--in" in argv else ""
        self._cases = 0

    def make(self, folder: Path) -> None:
        """Make it ready for a case."""
        self._cases += 1
        if not self._address:
            if not self._template.exists():
                asyncio.run(_make(self._template))
            shutil.copy(self._template, folder / "story.db")

    async def open(self, folder: Path) -> Store:
        """Open the store of the case that it was made ready for."""
        if not self._address:
            return await SqliteStore.open(folder / "story.db")
        from sayso.store.postgres import PostgresStore

        return await PostgresStore.open(
            self._address, schema=f"case_{self._cases}", listen=False, proof_dir=str(folder)
        )


async def _make(template: Path) -> None:
    await (await SqliteStore.open(template)).close()


def live(shelter: Shelter, world: World, kind: Kind, at: int, **shape: bool) -> int:
    """Fork one life that dies at a point (0: never); give its wait status."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 70
    try:
        asyncio.run(_life(shelter, world, kind, at, **shape))
        code = 0
    finally:
        os._exit(code)


async def _life(shelter: Shelter, world: World, kind: Kind, at: int, **shape: bool) -> None:
    fuse = Fuse(at, blow=lambda: _die(world, fuse))
    store = await shelter.open(world.root)
    await tell(store, world, fuse, kind, **shape)
    await store.close()
    world.write("points", json.dumps(fuse.names))


def _die(world: World, fuse: Fuse) -> None:
    world.write("points", json.dumps(fuse.names))
    kill_me()


async def inspect(shelter: Shelter, folder: Path) -> dict[str, Any]:
    """Look at what the store says once everything is over."""
    store = await shelter.open(folder)
    try:
        row = await store.load(RUN)
        if row is None:
            return {"status": "missing"}
        entries = await read_journal(store, RUN)
        chain.verify(RUN, entries, seq=row.seq, head=row.hash)
        types = [codec.event_tag(codec.decode_event(entry.payload)) for entry in entries]
        return {
            "status": row.status,
            "replays": await replay(store, RUN) == codec.decode_run(row.state),
            "types": types,
        }
    finally:
        await store.close()


def run_case(root: Path, shelter: Shelter, kind: Kind, crashes: list[int], **shape: bool) -> Any:
    folder = root / f"{kind}-{'-'.join(map(str, crashes))}"
    folder.mkdir()
    shelter.make(folder)
    world = World(folder)
    deaths: list[str] = []
    for at in [*crashes, *([0] * (LIVES_MAX - len(crashes)))]:
        status = live(shelter, world, kind, at, **shape)
        if os.WIFSIGNALED(status):
            deaths.append(signal.Signals(os.WTERMSIG(status)).name)
            continue
        deaths.append(f"exit {os.WEXITSTATUS(status)}")
        break
    found = asyncio.run(inspect(shelter, folder))
    found |= {
        "kind": kind,
        "crashes": crashes,
        "deaths": deaths,
        "points": [json.loads(line) for line in world.read("points")],
        "payments": world.payments(),
        "doubts": world.read("doubts"),
        "again": world.read("again"),
        "looks": world.read("looks"),
        "acknowledged": world.read("acknowledged"),
    }
    shutil.rmtree(folder)
    return found


def _number(option: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else default


def main() -> None:
    kind: Any = sys.argv[1]
    root = Path(sys.argv[2])
    shape = {name: f"--{name}" in sys.argv for name in ("siblings", "plan")}
    step, pairs = _number("--step", 1), _number("--pairs", 0)
    shelter = Shelter(root, sys.argv)
    # Everything a life needs is imported, and every schema made, before the first fork.
    warm_up = Fuse()
    for tool in make_agent(kind, World(root), warm_up).tools.values():
        tool.spec()

    def case(*crashes: int) -> Any:
        found = run_case(root, shelter, kind, list(crashes), **shape)
        print(json.dumps(found), flush=True)
        return found

    whole = case()
    total = len(whole["points"][0])
    for first in range(_number("--from", 1), total + 1, step):
        single = case(first)
        if pairs:
            for second in range(1 + first % pairs, len(single["points"][-1]) + 1, pairs):
                case(first, second)


if __name__ == "__main__":
    main()
