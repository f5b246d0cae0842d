"""A cycle on an event loop that somebody else keeps busy, two milliseconds at a time."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from pathlib import Path

from bench import teller
from bench.measure import timed_ms
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso

SLICE_S = 0.002
SWITCH_S = 0.0005
"""What `sayso serve` sets, so that a busy loop does not starve the writer thread."""


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head("A busy event loop")
    before = sys.getswitchinterval()
    async with Sayso(folder / "sayso.db", agents=[teller.make_teller()]) as app:
        await teller.cycle(app)
        burner = asyncio.create_task(_burn())
        try:
            sys.setswitchinterval(SWITCH_S)
            took = [await timed_ms(lambda: teller.cycle(app)) for _ in range(size.busy_cycles)]
            sys.setswitchinterval(before)
            as_it_is = await timed_ms(lambda: _for_a_while(app, size.patience_s))
        finally:
            sys.setswitchinterval(before)
            burner.cancel()
    report.below("a busy loop, as `sayso serve` runs it", statistics.median(took), "ms", 60)
    over = "over " if as_it_is >= size.patience_s * 1000 else ""
    report.plain("a busy loop, as Python comes", f"{over}{number(as_it_is)} ms")


async def _for_a_while(app: Sayso, patience_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await teller.cycle(app)


async def _burn() -> None:
    while True:
        until = time.perf_counter() + SLICE_S
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0)
