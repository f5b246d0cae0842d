"""The cycle one after another and 64 at once, against the floors; eight calls with four held."""

from __future__ import annotations

from pathlib import Path

from bench import floors, teller
from bench.disk import CountingDisk
from bench.measure import Series, at_once, rounds
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso
from sayso.store.sqlite import SqliteStore

AT_ONCE = 64


async def measure(report: Report, folder: Path, size: Size) -> None:
    async with (
        floors.opened(floors.AioFloor.open(folder / "aio.db")) as aio,
        floors.opened(floors.GroupFloor.open(folder / "group.db")) as group,
        Sayso(folder / "sayso.db", agents=[teller.make_teller()]) as app,
    ):
        await _one_after_another(report, size, aio, group, app)
        counted = await count(folder, size, at_a_time=1)
        # Rounded: the worker's heartbeat is a commit, too.
        report.below("one after another: syncs a cycle", round(counted["syncs"], 1), "", 5)
        report.plain(
            "one after another: written a cycle",
            f"{counted['bytes'] / 1000:.0f} KB, {counted['writes']:.0f} writes",
        )
        report.plain("one after another: syncs of checkpoints", f"{counted['checkpoints']:.2f}")
        await _eight(report, size, app)
        await _many_at_once(report, size, aio, group, app)
        counted = await count(folder, size, at_a_time=AT_ONCE)
        report.below("64 at once: syncs a cycle", counted["syncs"], "", 0.12)


async def _one_after_another(
    report: Report, size: Size, aio: floors.Floor, group: floors.Floor, app: Sayso
) -> None:
    report.head("One after another")
    found = await rounds(
        {
            "aio": floors.cycles_of(aio),
            "group": floors.cycles_of(group),
            "sayso": teller.cycles_of(app),
        },
        times=size.rounds,
        cycles=size.cycles,
    )
    report.plain("floor: aiosqlite, three commits", _ms(found["aio"]))
    report.plain("floor: one writer thread, group commit", _ms(found["group"]))
    ours = found["sayso"]
    report.ratio("one after another", _ms(ours), ours.to(found["aio"]), "aiosqlite", most=1.8)
    ratio = ours.to(found["group"])
    report.ratio("one after another, to the other floor", _ms(ours), ratio, "group commit")
    cpu = f"{number(ours.cpu_ms)} ms CPU"
    report.ratio("one after another: CPU", cpu, ours.cpu_to(found["aio"]), "aiosqlite's CPU")


async def _many_at_once(
    report: Report, size: Size, aio: floors.Floor, group: floors.Floor, app: Sayso
) -> None:
    report.head("64 at once")
    found = await rounds(
        {
            "aio": lambda count: at_once(AT_ONCE, count, lambda: floors.cycle(aio)),
            "group": lambda count: at_once(AT_ONCE, count, lambda: floors.cycle(group)),
            "sayso": lambda count: at_once(AT_ONCE, count, lambda: teller.cycle(app)),
        },
        times=size.rounds,
        cycles=size.cycles_at_once,
    )
    ours = found["sayso"]
    report.plain("floor: aiosqlite, 64 at once", _per_s(found["aio"]))
    report.plain("floor: group commit, 64 at once", _per_s(found["group"]))
    report.ratio("64 at once", _per_s(ours), 1 / ours.to(found["aio"]), "aiosqlite", least=2)
    report.below("64 at once: CPU a cycle", ours.cpu_ms, "ms", 0.35)
    cpu = f"{number(ours.cpu_ms)} ms CPU"
    report.ratio("64 at once: CPU, to the floor", cpu, ours.cpu_to(found["aio"]), "aiosqlite's CPU")


async def _eight(report: Report, size: Size, app: Sayso) -> None:
    report.head("Eight calls, four held")
    found = await rounds(
        {
            "one": teller.cycles_of(app),
            "eight": teller.cycles_of(app, teller.cycle_of_eight),
            "apart": teller.cycles_of(app, teller.cycle_of_eight_apart),
        },
        times=size.rounds,
        cycles=max(size.cycles // 2, 1),
    )
    one = found["one"]
    ratio = found["eight"].to(one)
    report.ratio("8 calls, 4 held", _ms(found["eight"]), ratio, "our one call", most=2.3)
    ratio = found["apart"].to(one)
    report.ratio("8 calls, 4 held, decided apart", _ms(found["apart"]), ratio, "our one call")


async def count(folder: Path, size: Size, *, at_a_time: int) -> dict[str, float]:
    """Count what the disk is told in a cycle, in a pass that is not timed."""
    disk = CountingDisk()
    path = folder / f"counted-{at_a_time}.db"
    store = await SqliteStore.open(path, vfs=disk.name)
    try:
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            await teller.cycle(app)
            cycles = size.cycles if at_a_time == 1 else size.cycles_at_once
            disk.reset()
            await at_once(at_a_time, cycles, lambda: teller.cycle(app))
            found = {
                # A checkpoint syncs the log and the file; the rest are commits.
                "syncs": (disk.syncs - 2 * disk.checkpoints) / cycles,
                "checkpoints": 2 * disk.checkpoints / cycles,
                "writes": disk.writes / cycles,
                "bytes": disk.bytes / cycles,
            }
    finally:
        await store.close()
    return found


def _ms(series: Series) -> str:
    return f"{number(series.wall_ms)} ms"


def _per_s(series: Series) -> str:
    return f"{number(series.per_s)} cycles/s"
