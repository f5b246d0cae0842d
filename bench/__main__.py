"""Runs every measurement, and prints a table of ratios."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import apsw

from bench import (
    busy,
    cold,
    cycle,
    history,
    http,
    inbox,
    pair,
    parked,
    pending,
    pg_cycle,
    pg_parked,
    pg_wake,
    ways,
)
from bench.measure import file_system
from bench.report import Report
from bench.size import LARGE, NORMAL, QUICK, Size

PARTS = {
    "cycle": cycle.measure,
    "history": history.measure,
    "parked": parked.measure,
    "pending": pending.measure,
    "cold": cold.measure,
    "pair": pair.measure,
    "busy": busy.measure,
    "ways": ways.measure,
    "http": http.measure,
    "inbox": inbox.measure,
    "postgres-cycle": pg_cycle.measure,
    "postgres-wake": pg_wake.measure,
    "postgres-parked": pg_parked.measure,
}
POSTGRES = [name for name in PARTS if name.startswith("postgres")]


def main() -> None:
    options = _options()
    logging.basicConfig(level=logging.ERROR)
    size = QUICK if options.quick else LARGE if options.large else NORMAL
    report = Report()
    before = time.monotonic()
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as name:
        folder = Path(name)
        _say_where(report, folder)
        for part in _chosen(options.only):
            (folder / part).mkdir()
            asyncio.run(_measure(part, report, folder / part, size))
    report.end()
    print(f"{time.monotonic() - before:.0f} seconds.")
    if options.json is not None:
        report.write(options.json)


def _chosen(only: list[str] | None) -> list[str]:
    names = only or list(PARTS)
    return [one for name in names for one in (POSTGRES if name == "postgres" else [name])]


async def _measure(part: str, report: Report, folder: Path, size: Size) -> None:
    await PARTS[part](report, folder, size)


def _say_where(report: Report, folder: Path) -> None:
    where = file_system(folder)
    report.note(f"files in {folder.parent} ({where}); SQLite WAL, synchronous=FULL")
    if "tmpfs" in where or "ramfs" in where:
        report.note("THIS IS MEMORY, NOT A DISK: a sync costs nothing here, use --dir")
    report.note(
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        "a ratio is the median over rounds in which the contenders alternate"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: the figures are noise")
    parser.add_argument(
        "--large",
        action="store_true",
        help="park 100,000 runs, not 10,000, in a file, and load none; a million in a database",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    parser.add_argument(
        "--only", action="append", choices=[*PARTS, "postgres"], help="only this part; repeatable"
    )
    parser.add_argument("--dir", type=Path, default=Path("build"), help="on the disk to measure")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
