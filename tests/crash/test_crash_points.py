"""Stop the process at every append and around every effect, once and twice over.

What must come of it is written down here by hand, for each effect a tool can have, and not
computed by the code under test. On SQLite real processes are killed with SIGKILL (`fork.py`), and
in `test_crash_postgres.py` on PostgreSQL; in memory a fuse stands for the process, and a clock that
jumps stands for its lease.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sayso.domain import codec
from sayso.store.journal import replay
from sayso.store.memory import MemoryStore
from sayso.testing import FakeClock
from sayso.testing.fuse import Fuse
from tests.crash.story import KINDS, RUN, Kind, World, tell

# Where the process died, seen from the payment:
#   quiet    it was not started, or its result was committed
#   started  its start was committed, and the payment was not made
#   paid     the payment was made, and its result was not committed
# What that comes to: payments made by one such death, and whether a person is asked about it.
EXPECTED: dict[Kind, dict[str, tuple[int, int]]] = {
    #        quiet            started            paid
    "none": {"quiet": (0, 0), "started": (0, 0), "paid": (1, 0)},
    "keyed": {"quiet": (0, 0), "started": (0, 0), "paid": (0, 0)},
    "once": {"quiet": (0, 0), "started": (0, 1), "paid": (0, 1)},
    "probe": {"quiet": (0, 0), "started": (0, 0), "paid": (0, 0)},
}
"""Extra payments beyond the one that was asked for, and questions to a person, for each death."""

STARTED = {"after call.started", "before the payment"}
PAID = {"after the payment", "before call.finished"}


def phases(points: list[str], store: str = "sqlite") -> tuple[str, ...]:
    """Say where a life ended, from the points it passed; all of them if nobody can tell."""
    last = points[-1]
    if last in STARTED:
        return ("started",)
    if last in PAID:
        return ("paid",)
    # The next turn is handed over in the same breath as the result, and neither is committed yet.
    # A store in memory outlives its user, so that there the result is as good as committed; in a
    # database it is if it has left the process by then.
    unsaid = "before call.finished" in points and "after call.finished" not in points
    if unsaid and last == "before turn.taken + run.completed":
        where = {"memory": ("quiet",), "sqlite": ("paid",), "postgres": ("quiet", "paid")}
        return where[store]
    # So is the start of what may start, behind the decision that allows it, or behind the take-over
    # of its run: in the same commit or in the next. In memory both are as good as committed.
    unsaid = points.count("before call.started") > points.count("after call.started")
    if unsaid and last.startswith(("after hold.settled", "after run.taken_over")):
        return ("started",) if store == "memory" else ("quiet", "started")
    return ("quiet",)


def judge(kind: Kind, found: dict[str, Any], store: str = "sqlite") -> None:
    """Hold what happened against what must happen."""
    lives: list[list[str]] = found["points"]
    died = [phases(points, store) for points in lives[: len(found["crashes"])]]
    ways = [[EXPECTED[kind][one] for one in where] for where in died]
    came_to = (len(found["payments"]) - 1, len(set(found["doubts"])))
    may_come_to = {
        (sum(one[0] for one in way), sum(one[1] for one in way)) for way in product(*ways)
    }
    case = f"{kind} died at {[points[-1] for points in lives[: len(found['crashes'])]]}: {found}"

    assert found["status"] == "completed", case
    assert came_to in may_come_to, case
    assert found["replays"], case
    decided = {line for line in found["acknowledged"] if line.startswith("decide")}
    assert found["types"].count("hold.settled.1") >= len(decided), case


def run_forks(kind: Kind, folder: Path, *options: str) -> list[dict[str, Any]]:
    made = subprocess.run(
        [sys.executable, "-m", "tests.crash.fork", kind, str(folder), *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return [json.loads(line) for line in made.stdout.splitlines()]


# Every pair is tried in memory, at every change; what a file adds to it shows at each single point.
@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.soak), 3])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_anywhere_once_or_twice_it_pays_once(kind: Kind, each: int, shm_path: Path) -> None:
    cases = run_forks(kind, shm_path, "--pairs", str(each))

    whole = cases[0]
    assert whole["deaths"] == ["exit 0"]
    points = whole["points"][0]
    assert {"before the payment", "after the payment"} <= set(points)
    assert sum(len(found["crashes"]) == 1 for found in cases) == len(points)
    assert sum(len(found["crashes"]) == 2 for found in cases) > 10 * len(points) // each
    for found in cases:
        killed = found["deaths"][: len(found["crashes"])]
        assert killed == ["SIGKILL"] * len(found["crashes"]), found
        assert found["deaths"][-1] == "exit 0", found
        judge(kind, found)
    # A run that never came to the dangerous places has tested nothing.
    reached = {where for found in cases if found["crashes"] for where in phases(found["points"][0])}
    assert reached == {"quiet", "started", "paid"}


def test_killed_among_siblings_every_call_has_one_outcome(shm_path: Path) -> None:
    for found in run_forks("once", shm_path, "--siblings"):
        assert found["deaths"][-1] == "exit 0", found
        assert found["status"] == "completed", found
        assert len(found["payments"]) == 1, found
        assert found["types"].count("call.finished.1") == 3, found
        assert found["types"].count("turn.taken.1") == 2, found
        # A look that was under way may be repeated, one that was finished never.
        assert len(found["looks"]) <= 2 + len(found["crashes"]) * 2, found


def judge_plan(found: dict[str, Any]) -> None:
    """Hold a planner's run against what must come of it wherever it died: nothing twice."""
    types = Counter(found["types"])

    assert found["status"] == "completed", found
    assert len(found["payments"]) == len(set(found["payments"])) == 2, found
    assert found["replays"], found
    assert types["strand.opened.1"] == types["strand.closed.1"] == 4, found
    # The plan, two for each item with a call, one for the sum, and the result.
    assert types["turn.taken.1"] == 9, found
    assert types["call.finished.1"] == 3, found
    decided = {line for line in found["acknowledged"] if line.startswith("decide")}
    assert types["hold.settled.1"] >= len(decided), found


@pytest.mark.parametrize("kind", ["keyed", "once"])
def test_killed_among_items_nothing_of_a_plan_is_repeated(kind: Kind, shm_path: Path) -> None:
    cases = run_forks(kind, shm_path, "--plan")

    for found in cases:
        assert found["deaths"][-1] == "exit 0", found
        judge_plan(found)
        # A look that was under way may be repeated, one that was finished never.
        assert len(found["looks"]) <= 1 + len(found["crashes"]), found
    killed = [points for found in cases for points in found["points"][: len(found["crashes"])]]
    reached = {where for points in killed for where in phases(points)}
    assert reached == {"quiet", "started", "paid"}


async def test_a_plan_in_memory_comes_to_the_same_after_two_deaths(tmp_path: Path) -> None:
    async def case(*crashes: int) -> dict[str, Any]:
        folder = tmp_path / "-".join(map(str, ("case", *crashes)))
        folder.mkdir()
        found = await tell_in_memory("once", World(folder), list(crashes), plan=True)
        judge_plan(found)
        return found

    total = len((await case())["points"][0])
    for first in range(1, total + 1):
        single = await case(first)
        # Each third one, and each of them after some first one.
        for second in range(1 + first % 3, len(single["points"][-1]) + 1, 3):
            await case(first, second)


async def live_in_memory(
    store: MemoryStore, clock: FakeClock, world: World, kind: Kind, at: int, *, plan: bool
) -> list[str]:
    """Tell the story until its fuse blows; then nothing of that life goes on."""
    fuse = Fuse(at)
    others = asyncio.all_tasks()
    story = asyncio.ensure_future(tell(store, world, fuse, kind, plan=plan))
    blown = asyncio.ensure_future(fuse.blown.wait())
    await asyncio.wait({story, blown}, return_when=asyncio.FIRST_COMPLETED)
    if fuse.blown.is_set():
        # One more round, so that whoever was at that very point sees it blow.
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    ended = await asyncio.gather(story, blown, return_exceptions=True)
    await asyncio.gather(*(asyncio.all_tasks() - others), return_exceptions=True)
    if not fuse.blown.is_set() and isinstance(ended[0], BaseException):
        raise ended[0]
    # Longer than any lease, timeout and grace: whoever is silent now is taken for gone.
    clock.advance("1h")
    return fuse.names


async def tell_in_memory(
    kind: Kind, world: World, crashes: list[int], *, plan: bool = False
) -> dict[str, Any]:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    lives = [await live_in_memory(store, clock, world, kind, at, plan=plan) for at in [*crashes, 0]]
    row = await store.load(RUN)
    assert row is not None
    entries = await store.journal(RUN)
    return {
        "crashes": crashes,
        "points": lives,
        "status": row.status,
        "replays": await replay(store, RUN) == codec.decode_run(row.state),
        "types": [codec.event_tag(codec.decode_event(entry.payload)) for entry in entries],
        "payments": world.payments(),
        "doubts": world.read("doubts"),
        "acknowledged": world.read("acknowledged"),
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_a_blown_fuse_in_memory_comes_to_the_same(kind: Kind, tmp_path: Path) -> None:
    async def case(*crashes: int) -> dict[str, Any]:
        folder = tmp_path / "-".join(map(str, ("case", *crashes)))
        folder.mkdir()
        found = await tell_in_memory(kind, World(folder), list(crashes))
        judge(kind, found, "memory")
        return found

    total = len((await case())["points"][0])
    for first in range(1, total + 1):
        single = await case(first)
        for second in range(1, len(single["points"][-1]) + 1):
            await case(first, second)
