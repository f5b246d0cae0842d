"""Taking time, CPU time and memory, in rounds that alternate between the contenders.

Rule: the machine is shared and its disk has moods, so no figure is compared with one of another
minute. A ratio is the median of the ratios of neighbours.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

Work = Callable[[int], Awaitable[None]]
"""Do so many cycles."""


class Sample(msgspec.Struct, frozen=True):
    """What a cycle of one round took."""

    wall_ms: float
    cpu_ms: float


class Series:
    """All rounds of one contender."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = samples

    @property
    def wall_ms(self) -> float:
        return statistics.median(sample.wall_ms for sample in self.samples)

    @property
    def cpu_ms(self) -> float:
        return statistics.median(sample.cpu_ms for sample in self.samples)

    @property
    def per_s(self) -> float:
        return 1000 / self.wall_ms

    def to(self, other: Series) -> float:
        """How many times the other's wall time."""
        return _paired([(a.wall_ms, b.wall_ms) for a, b in self._with(other)])

    def cpu_to(self, other: Series) -> float:
        """How many times the other's CPU time."""
        return _paired([(a.cpu_ms, b.cpu_ms) for a, b in self._with(other)])

    def _with(self, other: Series) -> list[tuple[Sample, Sample]]:
        return list(zip(self.samples, other.samples, strict=True))


def _paired(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(a / max(b, 1e-6) for a, b in pairs)


async def rounds(works: dict[str, Work], *, times: int, cycles: int) -> dict[str, Series]:
    """Let the contenders take turns, after a first round that does not count."""
    found: dict[str, list[Sample]] = {name: [] for name in works}
    for turn in range(times + 1):
        # Not always the same one after the same other.
        names = list(works) if turn % 2 else list(reversed(works))
        for name in names:
            sample = await _take(works[name], cycles if turn else max(cycles // 5, 1))
            if turn:
                found[name].append(sample)
    return {name: Series(samples) for name, samples in found.items()}


async def _take(work: Work, cycles: int) -> Sample:
    gc.collect()
    await asyncio.sleep(0.01)  # Whatever the one before left to do is not ours.
    cpu, wall = time.process_time(), time.perf_counter()
    await work(cycles)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Sample(wall_ms=wall * 1000 / cycles, cpu_ms=cpu * 1000 / cycles)


async def at_once(count: int, cycles: int, cycle: Callable[[], Awaitable[None]]) -> None:
    """Do so many cycles, so many at a time."""
    left = iter(range(cycles))

    async def hand() -> None:
        for _ in left:
            await cycle()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(hand())


async def timed_ms(work: Callable[[], Awaitable[object]]) -> float:
    before = time.perf_counter()
    await work()
    return (time.perf_counter() - before) * 1000


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]


def rss_bytes(pid: int | str = "self") -> int:
    """How much memory a process has; 0 where /proc does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def file_system(path: Path) -> str:
    """Name the file system that a folder is on, as far as Linux says."""
    best, name = "", "unknown"
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return name
    for line in lines:
        device, mount, kind, *_ = line.split()
        if path.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, name = mount, f"{kind} on {device}"
    return name
