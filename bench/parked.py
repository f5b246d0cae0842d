"""Thousands of runs that wait for a person: on disk, in memory, in a list, and one resumed."""

from __future__ import annotations

import asyncio
import gc
import statistics
from pathlib import Path

from bench import teller
from bench.measure import at_once, quantile, rss_bytes, timed_ms
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso, approve

PAGE = 50


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head(f"{size.many:,} parked runs")
    few, many = folder / "few.db", folder / "many.db"
    await _park(few, size.few)
    grown = await _park(many, size.many)
    report.below("a parked run on disk", _bytes(many) / size.many, "B", 1_600)
    report.below("parking them: memory of the process", grown / 1e6, "MB", 10)
    async with (
        Sayso(few, agents=[teller.make_teller()]) as one,
        Sayso(many, agents=[teller.make_teller()]) as other,
    ):
        await _look(report, size, one, other)
        await _resume(report, size, one, other)


async def _park(path: Path, count: int) -> int:
    """Park runs; give how much the process has grown, from a first few on."""
    async with Sayso(path, agents=[teller.make_teller()]) as app:
        first = min(count, 500)
        await at_once(64, first, lambda: _ask(app))
        gc.collect()
        before = rss_bytes()
        await at_once(64, count - first, lambda: _ask(app))
        gc.collect()
        return max(rss_bytes() - before, 0)


async def _ask(app: Sayso) -> None:
    await teller.ask(app)


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*") if each.is_file())


async def _look(report: Report, size: Size, few: Sayso, many: Sayso) -> None:
    took: dict[str, list[float]] = {"few": [], "many": [], "deep": [], "all": []}
    middle = await _middle(many, size.many // 2)
    for _ in range(size.looks):
        took["few"].append(await timed_ms(lambda: few.holds(by=teller.BY, limit=PAGE)))
        took["many"].append(await timed_ms(lambda: many.holds(by=teller.BY, limit=PAGE)))
        took["deep"].append(
            await timed_ms(lambda: many.holds(by=teller.BY, limit=PAGE, after=middle))
        )
        took["all"].append(await timed_ms(lambda: many.holds(limit=PAGE)))
        await asyncio.sleep(0)
    median = {name: statistics.median(values) for name, values in took.items()}
    to = f"of {size.few:,}"
    report.below("a page of 50, of a person's inbox", median["many"], "ms", 1)
    name = f"a page of 50, of {size.many:,}"
    figure = f"{number(median['many'])} ms"
    report.ratio(name, figure, median["many"] / median["few"], to, most=1.3)
    figure = f"{number(median['deep'])} ms"
    report.ratio("a page from the middle", figure, median["deep"] / median["few"], to, most=1.3)
    report.plain("a page of 50, of everybody's", f"{number(median['all'])} ms")


async def _middle(app: Sayso, skip: int) -> str | None:
    after = None
    for _ in range(skip // 500):
        after = (await app.holds(by=teller.BY, limit=500, after=after)).next
    return after


async def _resume(report: Report, size: Size, few: Sayso, many: Sayso) -> None:
    count = min(size.looks, size.few)
    took: dict[str, list[float]] = {"few": [], "many": []}
    holds = {
        "few": [hold.id for hold in await few.holds(by=teller.BY, limit=count)],
        "many": [hold.id for hold in await many.holds(by=teller.BY, limit=count)],
    }
    for pair in zip(holds["few"], holds["many"], strict=True):
        for name, app, hold in zip(took, (few, many), pair, strict=True):
            took[name].append(await timed_ms(lambda app=app, hold=hold: _finish(app, hold)))
            await asyncio.sleep(0.002)
    ratio = statistics.median(took["many"]) / statistics.median(took["few"])
    figure = f"{number(statistics.median(took['many']))} ms"
    to = f"of {size.few:,}"
    report.ratio("decide and resume one of them", figure, ratio, to, most=1.3)
    report.plain("decide and resume one, p99", f"{number(quantile(took['many'], 0.99))} ms")


async def _finish(app: Sayso, hold_id: str) -> None:
    await app.decide(hold_id, approve(), by=teller.BY)
    await teller.finish(app, teller.run_of(hold_id))
