"""A hundred thousand holds with one deadline: decide, list, search and sweep them."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bench import load, teller
from bench.measure import at_once, quantile, timed_ms
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso, approve
from sayso.store.query import HoldQuery
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock

PAGE = 50
PROOF = 20
"""So many loaded runs are compared with real ones."""
PAUSE_S = 0.01
"""Between two decisions while the sweeper sweeps."""
DAY_MS = 24 * 3600 * 1000


class Place(msgspec.Struct, kw_only=True):
    """A store full of what waits."""

    app: Sayso
    name: str
    count: int
    """How many have the one deadline."""
    later: list[str]
    """Runs whose deadline is a day later: to decide while the others expire."""


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head(f"{size.pending:,} pending holds with one deadline, against {size.pending_few:,}")
    clock = FakeClock()
    async with (
        _place(folder / "few.db", clock, size, size.pending_few) as few,
        _place(folder / "many.db", clock, size, size.pending) as many,
    ):
        await _list(report, size, few, many)
        await _search(report, size, few, many)
        await _decide(report, size, few, many)
        clock.advance("4h")
        await _sweep(report, few, many)


@asynccontextmanager
async def _place(path: Path, clock: FakeClock, size: Size, count: int) -> AsyncGenerator[Place]:
    """Fill a store; nobody works there, so that nothing but people and the sweeper is measured."""
    store = await SqliteStore.open(path, clock=clock)
    try:
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            real = count if size.pending_real else min(count, PROOF)
            await at_once(64, real, lambda: _ask(app))
        page = await store.holds(HoldQuery(limit=PROOF))
        pattern = await load.read_pattern(store, page[0].row.run_id)
        proof = await SqliteStore.open(path.with_suffix(".proof"), clock=clock)
        try:
            await load.prove(store, proof, pattern, [one.row.run_id for one in page])
        finally:
            await proof.close()
        await load.load(store, pattern, count - real)
        later = await load.load(store, pattern, size.decisions * 4, later_ms=DAY_MS)
        async with Sayso(store, agents=[teller.make_teller()], work=False) as app:
            yield Place(app=app, name=f"of {count:,}", count=count, later=later)
    finally:
        await store.close()


async def _ask(app: Sayso) -> None:
    await teller.ask(app)


async def _list(report: Report, size: Size, few: Place, many: Place) -> None:
    middle = {"few": await _middle(few), "many": await _middle(many)}
    took: dict[str, list[float]] = {}
    for _ in range(size.looks):
        for name, place in (("few", few), ("many", many)):
            await _time(took, name, lambda p=place: p.app.holds(by=teller.BY, limit=PAGE))
            after = middle[name]
            await _time(
                took,
                f"{name} middle",
                lambda p=place, a=after: p.app.holds(by=teller.BY, limit=PAGE, after=a),
            )
    _ratio(report, "list a person's first page", took["few"], took["many"], few, most=1.3)
    deep = took["few middle"], took["many middle"]
    _ratio(report, "list a page from the middle", *deep, few, most=1.3)


async def _middle(place: Place) -> str | None:
    after = None
    for _ in range(max(place.count // 2 // 500, 1)):
        after = (await place.app.holds(by=teller.BY, limit=500, after=after)).next
    return after


async def _search(report: Report, size: Size, few: Place, many: Place) -> None:
    rare = {place.count: place.later[-1] for place in (few, many)}
    words = {
        "a common word": dict.fromkeys(rare, "payment"),
        "a rare word": rare,
        "no hit": dict.fromkeys(rare, "nobody"),
    }
    for name, word in words.items():
        took: dict[str, list[float]] = {}
        stood = 0.0
        for _ in range(max(size.looks // 10, 2)):
            await _time(took, "few", lambda w=word[few.count]: _found(few, w))
            async with _pulse() as gaps:
                await _time(took, "many", lambda w=word[many.count]: _found(many, w))
            stood = max(stood, *gaps)
        report.below(f"search, {name}", statistics.median(took["many"]), "ms", 250)
        report.plain(f"search, {name}: the loop stood still", f"{number(stood)} ms")


async def _found(place: Place, word: str) -> None:
    page = await place.app.holds(by=teller.BY, search=word, limit=PAGE)
    assert len(page) == {"payment": PAGE, "nobody": 0}.get(word, 1), (word, len(page))


@asynccontextmanager
async def _pulse() -> AsyncGenerator[list[float]]:
    """Feel the pulse of the event loop; give how long it stood still, each time."""
    gaps = [0.0]

    async def beat() -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            gaps.append((now - before) * 1000 - 1)
            before = now

    task = asyncio.create_task(beat())
    await asyncio.sleep(0.005)
    gaps[:] = [0.0]
    try:
        yield gaps
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _decide(report: Report, size: Size, few: Place, many: Place) -> None:
    took: dict[str, list[float]] = {}
    count = min(size.decisions, few.count // 2)
    pages = [
        await place.app.holds(by=teller.BY, limit=count, after=await _middle_of(place))
        for place in (few, many)
    ]
    for holds in zip(*pages, strict=True):
        for name, place, hold in zip(("few", "many"), (few, many), holds, strict=True):
            await _time(took, name, lambda p=place, h=hold.id: _approve(p, h))
    for place in (few, many):
        place.count -= len(pages[0])
    _ratio(report, "decide", took["few"], took["many"], few, most=2)
    _ratio(report, "decide, p99", took["few"], took["many"], few, most=2, part=0.99)


async def _middle_of(place: Place) -> str | None:
    """Where the second quarter begins: as deep in both stores, by their size."""
    page = await place.app.holds(by=teller.BY, limit=min(place.count // 4, 500))
    return page.next


async def _approve(place: Place, hold_id: str) -> None:
    await place.app.decide(hold_id, approve(), by=teller.BY)


async def _sweep(report: Report, few: Place, many: Place, *, most_ms: float = 50) -> None:
    (few_s, few_took), (many_s, many_took) = await _swept(few), await _swept(many)
    report.plain(f"sweep {many.count:,} at one deadline", f"{number(many_s)} s")
    each = many_s * 1000 / many.count
    ratio = each / (few_s * 1000 / few.count)
    report.ratio("sweep, each", f"{number(each)} ms", ratio, few.name, most=2)
    report.plain("decide while it sweeps", f"{number(statistics.median(many_took))} ms")
    report.below("decide while it sweeps, p99", quantile(many_took, 0.99), "ms", most_ms)
    report.plain("decide while it sweeps, longest", f"{number(max(many_took))} ms")
    report.note(f"{len(many_took):,} decisions while it swept, {len(few_took):,} {few.name}")


async def _swept(place: Place) -> tuple[float, list[float]]:
    """Sweep until nothing is due, with somebody deciding all the while what is not."""
    took: dict[str, list[float]] = {"": []}
    over = asyncio.Event()

    async def decide() -> None:
        for run_id in place.later:
            if over.is_set():
                return
            hold = f"hold_{run_id.removeprefix('run_')}.1"
            await _time(took, "", lambda h=hold: _approve(place, h))
            await asyncio.sleep(PAUSE_S)

    deciding = asyncio.create_task(decide())
    swept, before = 0, time.perf_counter()
    while touched := await place.app.sweep():
        swept += touched
    seconds = time.perf_counter() - before
    over.set()
    await deciding
    assert swept == place.count, (swept, place.count)
    return seconds, took[""]


async def _time(
    took: dict[str, list[float]], name: str, work: Callable[[], Awaitable[object]]
) -> None:
    took.setdefault(name, []).append(await timed_ms(work))
    await asyncio.sleep(0)


def _ratio(
    report: Report,
    name: str,
    few: list[float],
    many: list[float],
    place: Place,
    *,
    most: float,
    part: float = 0.5,
) -> None:
    one, other = quantile(few, part), quantile(many, part)
    report.ratio(name, f"{number(other)} ms", other / one, place.name, most=most)
