"""Real processes that share a PostgreSQL: they divide the work, and outlive one another."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from sayso import Sayso, approve
from sayso.store.audit import verify

from .postgres_child import teller

_CHILD = Path(__file__).with_name("postgres_child.py")
_RUNS = 12
_PATIENCE_S = 60


async def test_two_processes_carry_on_for_one_another(postgres, tmp_path):
    url = postgres.database()
    async with Sayso(url, agents=[teller(tmp_path, "nobody")], work=False) as desk:
        workers = {
            name: subprocess.Popen([sys.executable, _CHILD, url, tmp_path, name])
            for name in ("a", "b")
        }
        try:
            killed = await _carry_on(desk, workers, tmp_path)
            left = workers["b" if killed == "a" else "a"]
            left.terminate()
            assert left.wait(_PATIENCE_S) == 0
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()
        report = await verify(desk.store)
        assert report.ok, report.faults
        assert report.runs == _RUNS
    paid = list(tmp_path.glob("*.paid"))
    assert len(paid) == _RUNS
    # Only what the one that was killed had under way may have been begun again.
    assert sum(len(one.read_text().splitlines()) for one in paid) <= 2 * _RUNS


async def _carry_on(desk: Sayso, workers: dict[str, subprocess.Popen], world: Path) -> str:
    """Let all runs end, and kill the first worker that is seen at work meanwhile; say which."""
    killed = ""
    runs = []
    for n in range(_RUNS):
        runs.append(await desk.start("teller", f"Pay {n}", by="mira"))
    views = [await run.wait(timeout=_PATIENCE_S) for run in runs]
    for n, view in enumerate(views):
        (hold,) = view.holds
        await desk.decide(hold, approve(), by="mira")
        if n == _RUNS // 2:
            end = time.monotonic() + _PATIENCE_S
            while not (busy := list(world.glob("*.busy"))):
                assert time.monotonic() < end
                await asyncio.sleep(0.01)
            killed = busy[0].stem
            workers[killed].kill()
    for run in runs:
        assert (await run.wait(final=True, timeout=_PATIENCE_S)).status == "completed"
    return killed
