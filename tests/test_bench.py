"""The benchmark runs, and says everything that it promises; its figures are not judged here."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
ROWS = """
one after another
one after another: CPU
one after another: syncs a cycle
one after another: written a cycle
8 calls, 4 held
8 calls, 4 held, decided apart
64 at once
64 at once: CPU a cycle
64 at once: syncs a cycle
200 earlier messages
1,000 earlier messages
200 earlier messages, as 100 runs
200 earlier messages: written
1,000 earlier messages: written
a parked run on disk
parking them: memory of the process
a page of 50, of a person's inbox
a page from the middle
decide and resume one of them
cold start
cold start, a parameter needs pydantic
idle worker: CPU
wake-up with the bell, p50
wake-up with the bell, p99
wake-up without the bell, p99
two processes: the polite one, p95
two processes: the polite one, most
a busy loop, as `sayso serve` runs it
asking in a body that stays in memory
asking in a body that is parked
agents 3 deep, the lowest held
a plan of 20 items
a body parked
""".strip().splitlines()


def test_a_quick_run_prints_every_row(tmp_path: Path) -> None:
    found = tmp_path / "found.json"

    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--dir", str(tmp_path), "--json", str(found)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(found.read_text(encoding="utf-8"))["rows"]}
    assert not set(ROWS) - rows.keys()
    assert all(f"  {name} " in done.stdout for name in rows)
    assert [path for path in tmp_path.iterdir() if path != found] == []
