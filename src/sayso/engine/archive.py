"""Archival: finished runs leave the store for files, in which they still verify.

Rule 1: nothing is cut before its file is written, synced and read back.
Rule 2: a thread leaves as a whole, so that whoever would go on with it is told where it is, and
never starts without its history. A run that others began leaves after its root, or with it.
Rule 3: whoever is killed leaves a file that no store names, or runs that have left: never a run
that is in neither place.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from sayso.domain.lifecycle import FINAL
from sayso.engine.parts import Parts
from sayso.engine.retain import finished_runs
from sayso.errors import BadSetup, RunArchived, SaysoError, StaleRun, StoreReadOnly
from sayso.store.archive import Archive, NewArchive, UsedKey
from sayso.store.archive_file import FORMAT, VERSION, Head, WholeRun, leaving, write_archive
from sayso.store.base import PAGE_MAX, RunRow
from sayso.store.journal import read_holds, read_journal
from sayso.store.query import HoldQuery, RunQuery

RUNS_MAX = 500
"""How many runs a file has in it, unless a thread has more."""
LOOKED_AT_MAX = 100_000
"""How many runs are chosen before the first of them leaves."""


class Archived(msgspec.Struct, kw_only=True):
    """What has left, or would."""

    looked_at: int = 0
    """Finished runs."""
    runs: int = 0
    entries: int = 0
    files: list[str] = []
    left: list[str] = []
    """Runs that are old enough, and could not leave: something was written to them meanwhile, a
    notice of theirs is on its way or was given up, or they have the last entry of all.
    """


Progress = Callable[[Archived], None]


async def archive(
    parts: Parts,
    *,
    before: int,
    to: Path,
    project: str | None = None,
    dry_run: bool = False,
    progress: Progress = lambda _: None,
) -> Archived:
    """Have every run that was finished before this time leave for files in a directory."""
    if not await asyncio.to_thread(to.is_dir):
        raise BadSetup(f"{str(to)!r} is no directory: make it first")
    if not dry_run:
        await parts.store.archives.check_keeper()
    done = Archived()
    batch: list[RunRow] = []
    for unit in [one async for one in _units(parts, before, project, done)]:
        if dry_run:
            done.runs += len(unit)
            done.entries += sum(row.seq for row in unit)
            continue
        if batch and len(batch) + len(unit) > RUNS_MAX:
            await _leave(parts, batch, to, done)
            batch = []
            progress(done)
        batch += unit
    if batch:
        await _leave(parts, batch, to, done)
    progress(done)
    return done


async def _units(
    parts: Parts, before: int, project: str | None, done: Archived
) -> AsyncIterator[list[RunRow]]:
    """Choose what leaves together: a run, or all runs of a thread."""
    threads: set[tuple[str, str]] = set()
    given_up: dict[str, set[str]] = {}
    async for row in finished_runs(parts, project):
        done.looked_at += 1
        place = (row.project, row.thread)
        if place in threads or done.looked_at > LOOKED_AT_MAX:
            continue
        if row.thread:
            threads.add(place)
        unit = [row] if not row.thread else await _thread(parts, *place)
        if all([await _may_leave(parts, one, before) for one in unit]):
            if row.project not in given_up:
                given_up[row.project] = await _given_up(parts, row.project)
            if stuck := given_up[row.project] & {one.id for one in unit}:
                # No store lets them go. Tried, each would have a whole file written for nothing.
                done.left += sorted(stuck)
            else:
                yield unit
        # Reading blocks the loop, which others share.
        await asyncio.sleep(0)


async def _given_up(parts: Parts, project: str) -> set[str]:
    """Find the runs of which somebody could not be told: after an outage of a chat, thousands."""
    found: set[str] = set()
    after: str | None = None
    while page := await parts.store.outbox.dead_ones(project, limit=PAGE_MAX, after=after):
        found |= {parcel.run_id for parcel in page}
        after = page[-1].id
    return found


async def _thread(parts: Parts, project: str, thread: str) -> list[RunRow]:
    found: list[RunRow] = []
    before: str | None = None
    while page := await parts.store.runs(
        RunQuery(project=project, thread=thread, before=before, limit=PAGE_MAX)
    ):
        found += page
        before = page[-1].id
    return found


async def _may_leave(parts: Parts, row: RunRow, before: int) -> bool:
    """Tell whether a run was finished before then, and its root as well."""
    if not await _is_old(parts, row, before):
        return False
    run = await parts.ledger.read(row)
    if not run.parent:
        return True
    try:
        root = await parts.store.load(run.root)
    except RunArchived:
        return True
    return root is not None and await _is_old(parts, root, before)


async def _is_old(parts: Parts, row: RunRow, before: int) -> bool:
    if row.status not in FINAL:
        return False
    last = await parts.store.entries(row.id, [row.seq])
    return bool(last) and last[0].at < before


async def _leave(parts: Parts, rows: list[RunRow], to: Path, done: Archived) -> None:
    """Write a file, and let what is in it go. If somebody wrote to one of the runs meanwhile, those
    that leave together with none such are tried once more.
    """
    try:
        made = await _leave_once(parts, rows, to)
    except StaleRun as error:
        stuck = {row.id for row in rows if row.id == error.__dict__["run_id"]}
        thread = {(row.project, row.thread) for row in rows if row.id in stuck and row.thread}
        stuck |= {row.id for row in rows if (row.project, row.thread) in thread}
        done.left += sorted(stuck)
        rest = [row for row in rows if row.id not in stuck]
        if rest and stuck:
            await _leave(parts, rest, to, done)
        return
    done.runs += made.runs
    done.entries += made.entries
    done.files.append(made.file)


async def _leave_once(parts: Parts, rows: list[RunRow], to: Path) -> Archive:
    store = parts.store
    used: dict[str, list[UsedKey]] = {}
    for one in await store.archives.keys([row.id for row in rows]):
        used.setdefault(one.row.run_id, []).append(one)
    runs: list[WholeRun] = []
    for row in rows:
        found = await read_holds(store, HoldQuery(run_id=row.id, status="any"))
        runs.append(
            WholeRun(
                row=row,
                holds=tuple(one.row for one in found),
                keys=tuple(used.get(row.id, ())),
                journal=tuple(await read_journal(store, row.id)),
            )
        )
    now = store.now()
    day = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%d")
    path = await asyncio.to_thread((to / f"sayso-{day}-{os.urandom(4).hex()}.jsonl.gz").resolve)
    head = Head(format=FORMAT, version=VERSION, store=store.name, at=now)
    written = await asyncio.to_thread(write_archive, path, head, runs)
    new = NewArchive(
        file=str(path), sha256=written.sha256, runs=tuple(leaving(run) for run in runs)
    )
    try:
        return await store.archives.take(new)
    except (StaleRun, StoreReadOnly):
        # Nothing has left for it, and nothing ever names it.
        await asyncio.to_thread(path.unlink)
        raise
    except SaysoError as error:
        error.add_note(f"{str(path)!r} may have been left for nothing")
        raise
