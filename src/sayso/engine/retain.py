"""Retention: what finished runs say is erased once they are old; that they were there remains.

Rule 1: one run is one append, so that whoever is interrupted leaves nothing half done, and can do
it again.
Rule 2: it erases what entries say and what rows have of it, and no row, hash or position: chains
and seals still verify.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from sayso.domain import events as e
from sayso.domain.lifecycle import FINAL
from sayso.domain.value import Principal
from sayso.engine.parts import Parts
from sayso.errors import NotAllowed, NotUnderstood, StaleRun
from sayso.store.base import PAGE_MAX, RunRow
from sayso.store.journal import decode, read_holds
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.rows import erased_row


class Retained(msgspec.Struct, kw_only=True):
    """What retention has erased, or would."""

    looked_at: int = 0
    """Finished runs."""
    runs: int = 0
    """Those that were erased."""
    entries: int = 0
    left: list[str] = []
    """Those that are old enough, and could not be erased: somebody wrote to them meanwhile, or this
    version cannot read them.
    """


async def retain(
    parts: Parts,
    *,
    before: int,
    by: Principal,
    reason: str,
    project: str | None = None,
    dry_run: bool = False,
    progress: Callable[[Retained], None] | None = None,
) -> Retained:
    """Erase what is said in every run that was finished before this time."""
    if by.kind == "agent":
        raise NotAllowed(f"{by} may not erase anything: that is for people and services")
    done = Retained()
    async for row in finished_runs(parts, project):
        done.looked_at += 1
        if await _is_old(parts, row, before):
            try:
                if not dry_run:
                    await _erase(parts, row, by=by, reason=reason)
                done.runs += 1
                done.entries += row.seq
            except (StaleRun, NotUnderstood):
                done.left.append(row.id)
        if progress is not None:
            progress(done)
        # Reading blocks the loop, which others share.
        await asyncio.sleep(0)
    return done


async def finished_runs(parts: Parts, project: str | None) -> AsyncIterator[RunRow]:
    """Give every run that is finished, of one project or of all."""
    for status in sorted(FINAL):
        before: str | None = None
        while page := await parts.store.runs(
            RunQuery(project=project, status=status.value, before=before, limit=PAGE_MAX)
        ):
            for row in page:
                yield row
            before = page[-1].id


async def _is_old(parts: Parts, row: RunRow, before: int) -> bool:
    """Tell whether nothing was written to a run since then, and it is not erased already."""
    last = await parts.store.entries(row.id, [row.seq])
    return bool(last) and last[0].at < before and not isinstance(decode(last[0]), e.RunErased)


async def _erase(parts: Parts, row: RunRow, *, by: Principal, reason: str) -> None:
    found = await read_holds(parts.store, HoldQuery(run_id=row.id, status="any"))
    event = e.RunErased(by=by, at=parts.store.now(), through=row.seq, reason=reason)
    await parts.ledger.redact(row.id, event, [erased_row(one.row) for one in found])
