"""Checking a whole store, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sayso.app import Sayso
from sayso.cli.opened import Place, opened
from sayso.cli.plain import plain
from sayso.store.audit import Fault, Report
from sayso.store.base import PAGE_MAX, Store
from sayso.store.query import RunQuery

FAULTS_SHOWN = 20


async def verify(
    place: Place,
    seals: Path | None = None,
    keys: tuple[str, ...] = (),
    archives: Path | None = None,
) -> Report:
    """Check all of a store, with a bar where somebody can see it."""
    async with opened(place) as store, Sayso(store, work=False) as app:
        if not sys.stderr.isatty():
            return await app.audit.verify(seals=seals, keys=keys, archives=archives)
        runs = await _count(store)
        with click.progressbar(length=runs, label="Checking runs", file=sys.stderr) as bar:
            return await app.audit.verify(
                seals=seals,
                keys=keys,
                archives=archives,
                progress=lambda report: bar.update(report.runs - bar.pos),
            )


async def _count(store: Store) -> int:
    count, before = 0, None
    while page := await store.runs(RunQuery(before=before, limit=PAGE_MAX)):
        count += len(page)
        before = page[-1].id
    return count


def told(place: Place, report: Report) -> Iterator[str]:
    """Say what was found, in lines."""
    name = plain(place)
    checked = f"{_many(report.entries, 'entry', 'entries')} in {_many(report.runs, 'run', 'runs')}"
    erased = f"; {_many(report.redacted, 'was', 'were')} erased" if report.redacted else ""
    if report.ok:
        sealed = (
            f"; {_many(report.seals, 'seal covers', 'seals cover')} {report.sealed:,} of them"
            if report.seals
            else ""
        )
        left = (
            f"; {_many(report.archived, 'run', 'runs')} in "
            f"{_many(report.archives, 'archive', 'archives')}"
            if report.archives
            else ""
        )
        yield f"{name}: {checked}, all as written{erased}{sealed}{left}."
        return
    faults = _many(len(report.faults), "fault", "faults")
    yield click.style(f"{name}: {faults} in {checked}{erased}.", fg="red")
    for fault in report.faults[:FAULTS_SHOWN]:
        yield f"  {_line(fault)}"
    more = len(report.faults) - FAULTS_SHOWN
    if more > 0:
        yield f"  and {more:,} more; --json prints them all"


def _line(fault: Fault) -> str:
    where = plain(fault.run_id) if fault.run_id else "the store"
    entry = f", entry {fault.seq}" if fault.seq else ""
    return f"{where}{entry}: {plain(fault.what)}"


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
