"""Stop the process at every point of a durable body, and of runs that wait for runs below them.

Whatever the point: no step is repeated without a new decision of a person, no answer is lost, and
nobody is left behind: no run is running with nobody, none suspended with nothing open below it,
none waits for a run that has ended. What must come of each tale is written down here by hand.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sayso.store.memory import MemoryStore
from sayso.testing import FakeClock
from sayso.testing.fuse import Fuse
from tests.crash.fork_tale import inspect
from tests.crash.story import World
from tests.crash.tale import NESTED, tell

BODY = ("body-hot", "body-parked")
CUT_SHORT = "Failed(message='the run was to end: ', error='Cancelled')"
ENDS: dict[str, list[Any]] = {
    "body": ["completed", "root is done.", [["find done", "to Name?", "book done", True]]],
    "child": ["completed", "root is done.", ["below is done."]],
    "nested": ["completed", "root is done.", ["middle is done.", "to a"]],
    "cancel": ["cancelled", None, [CUT_SHORT]],
}
"""How the root ends, with the outcomes of its calls."""
RUNS: dict[str, dict[str, dict[str, int]]] = {
    "body": {"root": {"turn": 2, "hold": 2, "step": 2, "call": 1}},
    "child": {
        "root": {"turn": 2, "hold": 1, "step": 0, "call": 1},
        "below": {"turn": 2, "hold": 1, "step": 0, "call": 1},
    },
    "nested": {
        "root": {"turn": 2, "hold": 2, "step": 0, "call": 2},
        "middle": {"turn": 2, "hold": 2, "step": 0, "call": 2},
        "leaf": {"turn": 2, "hold": 1, "step": 1, "call": 1},
    },
    "cancel": {
        "root": {"turn": 1, "hold": 1, "step": 0, "call": 1},
        "below": {"turn": 1, "hold": 1, "step": 0, "call": 1},
    },
}
"""The runs there must be, and how many turns, settled holds, finished steps and outcomes each has,
doubts left out.
"""
EFFECTS: dict[str, dict[str, int]] = {
    "body": {"find": 1, "book": 1, "pay": 0, "note": 0},
    "child": {"find": 0, "book": 0, "pay": 1, "note": 0},
    "nested": {"find": 0, "book": 0, "pay": 1, "note": 1},
    "cancel": {"find": 0, "book": 0, "pay": 0, "note": 0},
}
ONCE: dict[str, tuple[str, str, str, str]] = {
    # after this point     what starts     acts    and is recorded
    "body": ("at find", "step.started", "find", "step.finished"),
    "child": ("before call.started", "call.started", "pay", "call.finished"),
    "nested": ("at pay", "step.started", "pay", "step.finished"),
    "cancel": ("before call.started", "call.started", "pay", "call.finished"),
}
"""What acts once in each tale. Everything else may be repeated, and does nothing twice."""
# Where a life ended, seen from what acts once, and what that comes to for a person:
#   quiet     not started, or recorded: nobody is asked
#   starting  its start was on its way to the disk when something else was the end: either
#   going     started, and not recorded: a person is asked
#   ending    its record was on its way to the disk: either
DOUBTS = {"quiet": (0, 0), "starting": (0, 1), "going": (1, 1), "ending": (0, 1)}


def phase(tale: str, points: list[str]) -> str:
    """Say where a life ended, from the points it passed."""
    marker, start, act, record = ONCE[tale]
    if marker not in points:
        return "quiet"
    seen = points[points.index(marker) :]
    if tale == "body" and "at book" in seen:
        seen = seen[: seen.index("at book")]
    if f"before {start}" not in seen or seen[-1] == f"before {start}":
        return "quiet"
    if f"after {start}" not in seen:
        return "starting"
    acted = seen[seen.index(f"after {act}") :] if f"after {act}" in seen else []
    if f"after {record}" in acted:
        return "quiet"
    if f"before {record}" not in acted or acted[-1] == f"before {record}":
        return "going"
    return "ending"


def judge(name: str, found: dict[str, Any], *, in_memory: bool = False) -> list[str]:
    """Hold what happened against what must happen; give where its lives ended."""
    tale = name.partition("-")[0]
    died = [phase(tale, points) for points in found["points"][: len(found["crashes"])]]
    if in_memory:
        # A store in memory outlives its user: what was on its way has arrived.
        died = [{"starting": "going", "ending": "quiet"}.get(one, one) for one in died]
    ends = [points[-1] for points in found["points"][: len(found["crashes"])]]
    case = f"{name} died at {ends}, {died}: {found}"
    doubts = len(set(found["doubts"]))
    least = sum(DOUBTS[one][0] for one in died)
    most = sum(DOUBTS[one][1] for one in died)

    assert found["ended"], case
    assert all(ended == ENDS[tale] for ended in found["ended"]), case
    assert least <= doubts <= most, case
    assert {one: len(lines) for one, lines in found["effects"].items()} == EFFECTS[tale], case
    assert found["runs"].keys() == RUNS[tale].keys(), case
    asked = settled = 0
    for agent, run in found["runs"].items():
        wanted, types = RUNS[tale][agent], Counter(run["types"])
        assert (run["status"], run["owner"], run["holds"]) == (ENDS[tale][0], "", 0), case
        assert run["replays"], case
        assert types[f"run.{ENDS[tale][0]}.1"] == types["run.started.1"] == 1, case
        assert types["turn.taken.1"] == wanted["turn"], case
        assert types["call.finished.1"] == wanted["call"], case
        assert types["step.finished.1"] == wanted["step"], case
        assert types["hold.opened.1"] == types["hold.settled.1"], case
        asked += wanted["hold"]
        settled += types["hold.settled.1"]
    assert settled == asked + doubts, case
    acknowledged = {line for line in found["acknowledged"] if line.startswith("decide")}
    assert len(acknowledged) <= settled, case
    return died


def run_forks(name: str, folder: Path, *options: str) -> list[dict[str, Any]]:
    made = subprocess.run(
        [sys.executable, "-m", "tests.crash.fork_tale", name, str(folder), *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return [json.loads(line) for line in made.stdout.splitlines()]


def check_forks(name: str, folder: Path, *options: str) -> None:
    cases = run_forks(name, folder, *options)
    reached: Counter[str] = Counter()
    for found in cases:
        killed = found["deaths"][: len(found["crashes"])]
        assert killed == ["SIGKILL"] * len(found["crashes"]), found
        assert found["deaths"][-1] == "exit 0", found
        reached.update(judge(name, found))
    if not {"--at", "--step"} & {*options}:
        assert sum(len(found["crashes"]) == 1 for found in cases) == len(cases[0]["points"][0])
        # A search that never came to the dangerous places has tested nothing.
        assert set(reached) >= ({"quiet"} if name == "cancel" else {"quiet", "going"})


@pytest.mark.parametrize("name", [*BODY, "child", "cancel", "nested-cab"])
def test_killed_anywhere_nothing_is_repeated_lost_or_left_behind(name: str, shm_path: Path) -> None:
    check_forks(name, shm_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", [*BODY, "child", "cancel", "nested-bca"])
def test_killed_anywhere_twice_it_is_the_same(name: str, shm_path: Path) -> None:
    check_forks(name, shm_path, "--pairs")


@pytest.mark.parametrize("name", NESTED)
def test_three_levels_answered_in_any_order_and_killed_between_end_once(
    name: str, shm_path: Path
) -> None:
    # Between any two answers, between every two, and twice in a row.
    check_forks(name, shm_path, "--at", "answered", "--pairs", "--every")


async def live_in_memory(
    store: MemoryStore, clock: FakeClock, world: World, name: str, at: int
) -> list[str]:
    """Tell the tale until its fuse blows; then nothing of that life goes on."""
    fuse = Fuse(at)
    others = asyncio.all_tasks()
    told = asyncio.ensure_future(tell(store, world, fuse, name))
    blown = asyncio.ensure_future(fuse.blown.wait())
    await asyncio.wait({told, blown}, return_when=asyncio.FIRST_COMPLETED)
    if fuse.blown.is_set():
        # One more round, so that whoever was at that very point sees it blow.
        await asyncio.sleep(0)
    while left := asyncio.all_tasks() - others:
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    if not fuse.blown.is_set():
        told.result()
    # Longer than any lease, timeout and grace: whoever is silent now is taken for gone.
    clock.advance("1h")
    return fuse.names


@pytest.mark.parametrize("name", [*BODY, "child", "cancel", "nested-abc"])
async def test_a_blown_fuse_in_memory_comes_to_the_same(name: str, tmp_path: Path) -> None:
    async def case(*crashes: int) -> dict[str, Any]:
        folder = tmp_path / "-".join(map(str, ("case", *crashes)))
        folder.mkdir()
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        world = World(folder)
        lives = [await live_in_memory(store, clock, world, name, at) for at in [*crashes, 0]]
        found = {**await inspect(store, world), "crashes": list(crashes), "points": lives}
        judge(name, found, in_memory=True)
        return found

    total = len((await case())["points"][0])
    for first in range(1, total + 1):
        await case(first)
