"""Check a whole store: every chain, that every row says what its journal says, and every seal.

Rule: it never stops at the first fault, and one bad run hides no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.run import FOLD, FOLD_LIKE, Run
from sayso.domain.standing import status_of
from sayso.errors import BrokenChain, SaysoError, StoreError
from sayso.store import chain
from sayso.store.admit import hold_key, read_hold_key
from sayso.store.archived import check_left
from sayso.store.base import PAGE_MAX, Entry, HoldFound, HoldRow, RunRow, Store
from sayso.store.journal import decode, read_journal
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.rows import hold_rows, take_steps
from sayso.store.sealed import SealWalk

_ODD = (AttributeError, OverflowError, TypeError, ValueError)
"""What comes of a column that holds another kind of value than was ever put there."""
_LOOKS_MAX = 5
"""How often to look at a run that others write to meanwhile."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it was written."""

    run_id: str
    what: str
    seq: int = 0
    """The entry, if it is about one."""


class Report(msgspec.Struct, kw_only=True):
    """What was checked, and what was found."""

    runs: int = 0
    entries: int = 0
    holds: int = 0
    redacted: int = 0
    replayed: int = 0
    """Runs whose row was compared with their journal; a redacted one cannot be."""
    seals: int = 0
    sealed: int = 0
    """Entries that a seal covers, and that are as they were sealed."""
    refused: int = 0
    """Entries of the door log."""
    archives: int = 0
    """Files that runs have left for."""
    archived: int = 0
    """Runs in them, which are as they were when they left."""
    faults: list[Fault] = []

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults


async def verify(
    store: Store,
    progress: Callable[[Report], None] | None = None,
    *,
    trusted: Iterable[str] | None = None,
    copies: Iterable[bytes] = (),
    archives: Path | None = None,
) -> Report:
    """Check every run of a store, its seals, and the archives that runs have left for; `progress`
    hears of it after every page.

    `trusted` are the public keys that seals may be signed with; None: who signed them is not looked
    at. `copies` are seals that were kept outside, a line of JSON each. `archives` is the
    directory that the archives are in by now, if they are not where they were made.
    """
    report = Report()
    try:
        await _check_order(store, report)
        await _check_lists(store, report)
        await _check_seals(store, report, trusted, copies)
        await check_archives(store, report, archives)
        before: str | None = None
        while page := await store.runs(RunQuery(before=before, limit=PAGE_MAX)):
            for row in page:
                await _check_run(store, row, report)
                # Reading blocks the loop: whoever works on it in the same process has a lease.
                await asyncio.sleep(0)
            before = page[-1].id
            if progress is not None:
                progress(report)
    except StoreError as error:
        # Nothing more can be read; what was found until here still counts.
        report.faults.append(Fault(run_id="", what=str(error)))
    return report


async def _check_order(store: Store, report: Report) -> None:
    """Look for entries that belong to no run, or are out of order."""
    after = 0
    while page := await store.tail(after=after):
        for entry in page:
            if not entry.run_id:
                what = f"the entry at position {entry.position} belongs to no run"
                report.faults.append(Fault(run_id="", what=what))
        after = page[-1].position
        await asyncio.sleep(0)


async def _check_lists(store: Store, report: Report) -> None:
    """Look for people who are told of holds that are not theirs, or that are not open."""
    after = (0, 0, 0)
    while page := await store.asked(after=after):
        for one in page:
            if not one.fits:
                what = f"lists say that {one.who or 'nobody'} may decide hold {one.n}: not so"
                report.faults.append(Fault(run_id=one.run_id, what=what))
        after = page[-1].place
        await asyncio.sleep(0)


async def _check_seals(
    store: Store, report: Report, trusted: Iterable[str] | None, copies: Iterable[bytes]
) -> None:
    def tell(what: str) -> None:
        report.faults.append(Fault(run_id="", what=what))

    walk = SealWalk(store, tell, trusted=trusted, copies=copies)
    report.refused = await walk.check()
    report.seals, report.sealed = walk.seals, walk.sealed


async def check_archives(store: Store, report: Report, directory: Path | None) -> None:
    """Compare every archive with what the store knows of it."""

    def tell(what: str) -> None:
        report.faults.append(Fault(run_id="", what=what))

    after = 0
    while page := await store.archives.list(after=after, limit=PAGE_MAX):
        for one in page:
            path = Path(one.file) if directory is None else directory / Path(one.file).name
            report.archives += 1
            report.archived += await check_left(store, one, path, tell)
        after = page[-1].n


async def _check_run(store: Store, row: RunRow, report: Report) -> None:
    report.runs += 1
    try:
        row, journal, holds, unlisted = await _read_still(store, row)
        report.entries += len(journal)
        report.holds += len(holds)
        report.redacted += chain.verify(row.id, journal, seq=row.seq, head=row.hash)
        faults = [*_order_faults(row, journal), *_redaction_faults(journal), *unlisted]
        faults += _place_faults(journal, holds)
        if not any(entry.redacted for entry in journal):
            report.replayed += 1
            rows = {n: hold.row for n, hold in holds.items()}
            faults += _replay_faults(row, journal, rows)
        report.faults += [Fault(run_id=row.id, what=what) for what in faults]
    except BrokenChain as error:
        report.faults.append(Fault(run_id=row.id, what=str(error), seq=error.__dict__["seq"]))
    except (SaysoError, *_ODD) as error:
        report.faults.append(Fault(run_id=row.id, what=str(error)))


async def _read_still(
    store: Store, row: RunRow
) -> tuple[RunRow, list[Entry], dict[int, HoldFound], list[str]]:
    """Read a run with its journal, its holds, and faults of lists, all as of one moment."""
    looks = 0
    while True:
        journal = await read_journal(store, row.id)
        holds = await _read_holds(store, row.id)
        unlisted = [
            f"{who} may decide hold {hold.row.n}, and no list says so"
            for hold in holds.values()
            for who in hold.row.who
            if not await _is_listed(store, hold, who)
        ]
        now, looks = await store.load(row.id), looks + 1
        if now is None or now.seq == row.seq or looks == _LOOKS_MAX:
            return row, journal, holds, unlisted
        row = now


async def _is_listed(store: Store, hold: HoldFound, who: str) -> bool:
    """Tell whether somebody who may decide a hold is told that it waits, as long as it does."""
    if hold.row.status == "settled":
        return True
    opened, n = read_hold_key(hold.key)
    before = hold_key(opened, n - 1)
    query = HoldQuery(project=hold.project, who=(who,), after=before, limit=1)
    return [(one.row.run_id, one.key) for one in await store.holds(query)] == [
        (hold.row.run_id, hold.key)
    ]


async def _read_holds(store: Store, run_id: str) -> dict[int, HoldFound]:
    rows: dict[int, HoldFound] = {}
    after: str | None = None
    while page := await store.holds(
        HoldQuery(run_id=run_id, status="any", after=after, limit=PAGE_MAX)
    ):
        rows.update({found.row.n: found for found in page})
        after = page[-1].key
    return rows


def _order_faults(row: RunRow, journal: list[Entry]) -> list[str]:
    positions = [entry.position for entry in journal]
    # Those before 1 are in no tail, and under no seal.
    in_order = positions == sorted(set(positions)) and min(positions, default=1) > 0
    faults = [] if in_order else ["its entries are out of order"]
    if journal and journal[-1].id != row.last:
        faults.append("its row names another entry as the last")
    return faults


def _place_faults(journal: list[Entry], holds: dict[int, HoldFound]) -> list[str]:
    """Find holds that lists have out of order: it is that of the entries that opened them."""
    positions = {entry.seq: entry.position for entry in journal}
    return [
        f"lists have hold {n} in another place than its entry"
        for n, hold in holds.items()
        if hold.key != hold_key(positions.get(hold.row.entry, 0), n)
    ]


def _redaction_faults(journal: list[Entry]) -> list[str]:
    """Whoever erases says so: an erased entry that nobody speaks of was not erased by us."""
    events = [decode(entry) for entry in journal]
    told = {seq for event in events if isinstance(event, e.Erasing) for seq in event.erases}
    erased = {entry.seq for entry in journal if entry.redacted}
    return [f"entry {seq} was erased, and nothing says by whom" for seq in sorted(erased - told)]


def _replay_faults(row: RunRow, journal: list[Entry], holds: dict[int, HoldRow]) -> list[str]:
    """Compare a run's row and holds with what its journal makes of them."""
    if not journal:
        return ["it has no entries"]
    steps = take_steps(None, [event for entry in journal if (event := decode(entry)) is not None])
    expected, run = hold_rows(steps), steps[-1].after
    faults = _row_faults(row, run)
    for n in sorted(expected.keys() | holds.keys()):
        if expected.get(n) != holds.get(n):
            faults.append(f"the row of hold {n} is not what the journal says")
    return faults


def _row_faults(row: RunRow, run: Run) -> list[str]:
    due_at = None if run.final else run.due_at
    said = (run.id, run.project, run.agent, run.thread, status_of(run).value, run.seq, due_at)
    kept = (row.id, row.project, row.agent, row.thread, row.status, row.seq, row.due_at)
    names = ("id", "project", "agent", "thread", "status", "seq", "due_at")
    faults = [
        f"its row has {name} {there!r}, its journal says {here!r}"
        for name, here, there in zip(names, said, kept, strict=True)
        if here != there
    ]
    if FOLD_LIKE <= row.fold <= FOLD and _state(row) != codec.encode_run(run):
        faults.append("the state in its row is not what its journal makes of it")
    return faults


def _state(row: RunRow) -> bytes:
    # There and back again: what does not change the meaning of the bytes is no fault.
    return codec.encode_run(codec.decode_run(row.state))
