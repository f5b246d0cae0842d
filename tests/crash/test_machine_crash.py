"""Stop a machine at every append and around every effect, and between any two answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sayso import RunView
from sayso.domain import codec
from sayso.store.journal import replay
from sayso.store.memory import MemoryStore
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock
from sayso.testing.fuse import Fuse

from .fair import RUN, read, tell

ROOT = Path(__file__).parents[2]


def judge(view: RunView, folder: Path) -> None:
    """Nothing is lost, nothing is repeated, nobody is left behind."""
    assert view.status == "completed", view.error
    assert view.output == '"A" "B"'
    assert sorted(line.split()[1] for line in read(folder, "payments")) == ["A", "B"]
    marks = {one.id: one.state for one in view.tree}
    assert marks == {"main": {"open": True}, "clerk.2": {"marks": 1}, "clerk.3": {"marks": 1}}
    assert {one.status for one in view.tree} == {"closed"}
    # Acknowledged once each: two payments, two checks.
    assert len(set(read(folder, "acknowledged"))) <= 4


async def live(store: Any, clock: FakeClock, folder: Path, at: int) -> list[str]:
    """Tell the story until its fuse blows; then nothing of that life goes on."""
    fuse = Fuse(at)
    others = asyncio.all_tasks()
    story = asyncio.ensure_future(tell(store, folder, fuse))
    blown = asyncio.ensure_future(fuse.blown.wait())
    await asyncio.wait({story, blown}, return_when=asyncio.FIRST_COMPLETED)
    if fuse.blown.is_set():
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    ended = await asyncio.gather(story, blown, return_exceptions=True)
    await asyncio.gather(*(asyncio.all_tasks() - others), return_exceptions=True)
    if not fuse.blown.is_set():
        if isinstance(ended[0], BaseException):
            raise ended[0]
        judge(ended[0], folder)
    # Longer than any lease, timeout and grace: whoever is silent now is taken for gone.
    clock.advance("1h")
    return fuse.names


# Whoever is cut off between two lines may leave something behind that nobody awaits.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
async def test_a_machine_that_dies_anywhere_comes_to_the_same(tmp_path: Path) -> None:
    async def case(*crashes: int) -> list[list[str]]:
        folder = tmp_path / "-".join(map(str, ("case", *crashes)))
        folder.mkdir()
        clock = FakeClock()
        store = MemoryStore(clock=clock)
        lives = [await live(store, clock, folder, at) for at in [*crashes, 0]]
        row = await store.load(RUN)
        assert row is not None
        assert row.status == "completed"
        assert await replay(store, RUN) == codec.decode_run(row.state)
        return lives

    total = len((await case())[0])
    assert total > 40
    for first in range(1, total + 1):
        lives = await case(first)
        # Some second deaths, other ones after each first one.
        for second in range(1 + first % 23, len(lives[-1]) + 1, 23):
            await case(first, second)


@pytest.mark.parametrize("many", [1, 2, 3])
async def test_a_process_killed_between_two_answers_loses_none(many: int, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    program = [sys.executable, "-m", "tests.crash.fair", str(tmp_path), str(many)]
    ended = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, timeout=60)
    assert ended.returncode == -9, ended.stderr.decode()
    answered = read(tmp_path, "acknowledged")
    assert len(answered) == many

    store = await SqliteStore.open(tmp_path / "fair.db")
    try:
        judge(await tell(store, tmp_path, Fuse()), tmp_path)
    finally:
        await store.close()
    assert len(read(tmp_path, "acknowledged")) == 4
    assert read(tmp_path, "acknowledged")[:many] == answered
