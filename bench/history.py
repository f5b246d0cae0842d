"""The cycle after a long conversation that is in the journal already."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench import teller
from bench.disk import CountingDisk
from bench.measure import at_once, rounds
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso
from sayso.store.sqlite import SqliteStore

LENGTHS = {"none": 0, "200": 200, "1,000": 1_000}
RUNS = 100
"""How many earlier runs of two messages make 200 messages."""


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head("Earlier messages, already in the journal")
    async with Sayso(folder / "sayso.db", agents=[teller.make_teller()]) as app:
        wanted = size.history_cycles * (size.rounds + 1)
        works = {}
        for name, length in LENGTHS.items():
            works[name] = teller.cycles_in(app, await _seeds(app, length, wanted))
        threads = await asyncio.gather(*(teller.seed_runs(app, RUNS) for _ in range(wanted)))
        works["runs"] = teller.cycles_in(app, threads)
        found = await rounds(works, times=size.rounds, cycles=size.history_cycles)
    none = found["none"]
    for name, most in (("200", 1.5), ("1,000", 3)):
        figure = f"{number(found[name].wall_ms)} ms"
        report.ratio(
            f"{name} earlier messages", figure, found[name].to(none), "ours without", most=most
        )
    figure = f"{number(found['runs'].wall_ms)} ms"
    ratio = found["runs"].to(none)
    report.ratio("200 earlier messages, as 100 runs", figure, ratio, "ours without")
    await _bytes(report, folder, size)


async def _seeds(app: Sayso, messages: int, count: int) -> list[str]:
    found: list[str] = []
    await at_once(8, count, lambda: _seed(app, messages, found))
    return found


async def _seed(app: Sayso, messages: int, found: list[str]) -> None:
    found.append(await teller.seed(app, messages))


async def _bytes(report: Report, folder: Path, size: Size) -> None:
    disk = CountingDisk()
    store = await SqliteStore.open(folder / "counted.db", vfs=disk.name)
    try:
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            written = {}
            for name, length in LENGTHS.items():
                threads = await _seeds(app, length, size.history_cycles)
                disk.reset()
                for thread in threads:
                    await teller.cycle(app, thread=thread)
                written[name] = disk.wal_bytes / size.history_cycles
    finally:
        await store.close()
    for name in ("200", "1,000"):
        figure = f"{written[name] / 1000:.0f} KB"
        ratio = written[name] / written["none"]
        report.ratio(f"{name} earlier messages: written", figure, ratio, "ours without", most=1.1)
