"""The benchmark runs, and says everything that it promises; its figures are not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench import load, teller
from sayso import Sayso
from sayso.store import audit
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock
from tests.browser.chromium import NONE

KEYS = "inbox: J"
"""What takes a browser."""
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
list a person's first page
list a page from the middle
search, a common word
search, a rare word
search, no hit
decide
decide, p99
sweep 980 at one deadline
sweep, each
decide while it sweeps, p99
decide while it sweeps, longest
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
HTTP: a bare handler
HTTP: start a run
HTTP: list 50 holds
HTTP: decide
HTTP: decision to tool, p50
HTTP: decision to tool, p99
HTTP: a reader: memory
HTTP: news to all of them
inbox: first page
inbox: next page
inbox: search
inbox: search, one hit
inbox: J at 80 ms latency, p50
inbox: J at 80 ms latency, p95
PostgreSQL: one after another
PostgreSQL: one after another: CPU
PostgreSQL: round trips a cycle
PostgreSQL: commits a cycle
PostgreSQL: 64 at once
PostgreSQL: 64 at once: commits a cycle
PostgreSQL: wake-up since before the decision, p50
PostgreSQL: wake-up since before the decision, p99
PostgreSQL: wake-up since its acknowledgement, p50
PostgreSQL: wake-up since its acknowledgement, p99
PostgreSQL: workers: 1
PostgreSQL: workers: 4
PostgreSQL: a parked run on disk
PostgreSQL: log a decision
PostgreSQL: list a person's first page
PostgreSQL: list a page from the middle
PostgreSQL: decide
PostgreSQL: decide, p99
PostgreSQL: sweep 380 at one deadline
PostgreSQL: decide while it sweeps, p99
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
    expected = {name for name in ROWS if not (NONE and name.startswith(KEYS))}
    assert not expected - rows.keys()
    assert all(f"  {name} " in done.stdout for name in rows)
    assert [path for path in tmp_path.iterdir() if path != found] == []


@pytest.mark.soak
def test_a_million_runs_parked_in_a_database_cost_what_a_thousand_do(tmp_path: Path) -> None:
    found = tmp_path / "found.json"

    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "--large", "--only", "postgres-parked"),
            *("--dir", str(tmp_path), "--json", str(found)),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(found.read_text(encoding="utf-8"))["rows"]}
    for name in ("list a person's first page", "list a page from the middle", "decide"):
        assert rows[f"PostgreSQL: {name}"]["met"], done.stdout


async def test_runs_that_are_loaded_are_as_real_ones_are(tmp_path: Path) -> None:
    clock = FakeClock()
    real = await SqliteStore.open(tmp_path / "real.db", clock=clock)
    loaded = await SqliteStore.open(tmp_path / "loaded.db", clock=clock)
    async with Sayso(real, agents=[teller.make_teller()]) as app:
        ids = [teller.run_of(await teller.ask(app)) for _ in range(3)]
    pattern = await load.read_pattern(real, ids[0])

    await load.prove(real, loaded, pattern, ids)
    await load.load(loaded, pattern, 7)

    report = await audit.verify(loaded)
    assert (report.ok, report.runs, report.holds) == (True, 10, 10)
    await real.close()
    await loaded.close()


async def test_runs_that_are_loaded_otherwise_are_noticed(tmp_path: Path) -> None:
    clock = FakeClock()
    real = await SqliteStore.open(tmp_path / "real.db", clock=clock)
    async with Sayso(real, agents=[teller.make_teller()]) as app:
        ids = [teller.run_of(await teller.ask(app))]
    started, taken, opened, suspended = await load.read_pattern(real, ids[0])
    loaded = await SqliteStore.open(tmp_path / "loaded.db", clock=clock)
    other = msgspec.structs.replace(opened, deadline=7)

    with pytest.raises(AssertionError, match="not like real ones"):
        await load.prove(real, loaded, [started, taken, other, suspended], ids)

    await real.close()
    await loaded.close()
