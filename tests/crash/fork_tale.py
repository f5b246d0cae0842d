"""Stop a real process at every point of a tale, and let fresh ones carry on.

    python -m tests.crash.fork_tale TALE FOLDER [--pairs] [--at NAME] [--in ADDRESS] [--step N]

Like `fork.py`, for the tales of `tale.py`, which have several runs. `--at` keeps to points whose
name begins so, and `--step` to every so many of them. With `--every`, one more case dies at every
such point, one a life.
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
from sayso.store.query import RunQuery
from sayso.testing.fuse import Fuse, kill_me
from tests.crash.fork import Shelter
from tests.crash.story import World
from tests.crash.tale import EFFECTS, make_cast, tell

LIVES_MAX = 12


def live(shelter: Shelter, world: World, tale: str, at: int) -> int:
    """Fork one life that dies at a point (0: never); give its wait status."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 70
    try:
        asyncio.run(_life(shelter, world, tale, at))
        code = 0
    finally:
        os._exit(code)


async def _life(shelter: Shelter, world: World, tale: str, at: int) -> None:
    fuse = Fuse(at, blow=lambda: _die(world, fuse))
    store = await shelter.open(world.root)
    await tell(store, world, fuse, tale)
    await store.close()
    world.write("points", json.dumps(fuse.names))


def _die(world: World, fuse: Fuse) -> None:
    world.write("points", json.dumps(fuse.names))
    kill_me()


async def inspect(store: Store, world: World) -> dict[str, Any]:
    """Look at what the store and the world say once everything is over."""
    runs: dict[str, Any] = {}
    for row in await store.runs(RunQuery()):
        assert row.agent not in runs, "an agent was started twice"
        entries = await read_journal(store, row.id)
        chain.verify(row.id, entries, seq=row.seq, head=row.hash)
        state = codec.decode_run(row.state)
        runs[row.agent] = {
            "status": row.status,
            "owner": row.owner,
            "holds": len(state.holds),
            "replays": await replay(store, row.id) == state,
            "types": [codec.event_tag(codec.decode_event(entry.payload)) for entry in entries],
        }
    return {
        "runs": runs,
        "effects": {name: world.read(name) for name in EFFECTS},
        "doubts": world.read("doubts"),
        "again": world.read("again"),
        "acknowledged": world.read("acknowledged"),
        "ended": [json.loads(line) for line in world.read("ended")],
    }


async def _inspect(shelter: Shelter, world: World) -> dict[str, Any]:
    store = await shelter.open(world.root)
    try:
        return await inspect(store, world)
    finally:
        await store.close()


def run_case(root: Path, shelter: Shelter, tale: str, crashes: list[int]) -> Any:
    folder = root / f"{tale}-{'-'.join(map(str, crashes))}"
    folder.mkdir()
    shelter.make(folder)
    world = World(folder)
    deaths: list[str] = []
    for at in [*crashes, *([0] * (LIVES_MAX - len(crashes)))]:
        status = live(shelter, world, tale, at)
        if os.WIFSIGNALED(status):
            deaths.append(signal.Signals(os.WTERMSIG(status)).name)
            continue
        deaths.append(f"exit {os.WEXITSTATUS(status)}")
        break
    found = asyncio.run(_inspect(shelter, world))
    points = [json.loads(line) for line in world.read("points")]
    found |= {"tale": tale, "crashes": crashes, "deaths": deaths, "points": points}
    shutil.rmtree(folder)
    return found


def main() -> None:
    tale, root = sys.argv[1], Path(sys.argv[2])
    at = sys.argv[sys.argv.index("--at") + 1] if "--at" in sys.argv else ""
    step = int(sys.argv[sys.argv.index("--step") + 1]) if "--step" in sys.argv else 1
    shelter = Shelter(root, sys.argv)
    # Everything a life needs is imported, and every schema made, before the first fork.
    for agent in make_cast(tale, World(root), Fuse()):
        for tool in agent.tools.values():
            tool.spec()

    def case(*crashes: int) -> Any:
        found = run_case(root, shelter, tale, list(crashes))
        print(json.dumps(found), flush=True)
        return found

    def places(found: Any) -> list[int]:
        return [n for n, name in enumerate(found["points"][-1], 1) if name.startswith(at)]

    whole = case()
    for first in places(whole)[::step]:
        single = case(first)
        if "--pairs" in sys.argv:
            for second in places(single):
                case(first, second)
    if "--every" in sys.argv:
        crashes: list[int] = []
        found = whole
        while left := places(found):
            crashes.append(left[0])
            found = case(*crashes)


if __name__ == "__main__":
    main()
