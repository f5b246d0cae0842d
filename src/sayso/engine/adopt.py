"""Whole runs out of one store and into another: `export` and `adopt`.

Rule 1: a run leaves with every run below it, all as of one moment, or not at all.
Rule 2: it is taken in by one append that ends with its quarantine: no worker ever sees it before.
Rule 3: whatever is wrong with the data is found before anything is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.adopting import Lore, adopt
from sayso.domain.call import CallState
from sayso.domain.hold import Delegation
from sayso.domain.lifecycle import epilogue
from sayso.domain.ruling import Require
from sayso.domain.run import FOLD, FOLD_LIKE, Run
from sayso.domain.transcript import Transcript
from sayso.domain.value import Principal
from sayso.engine.door import guarded
from sayso.engine.ids import entry_ids, look_up
from sayso.engine.keys import start_key
from sayso.engine.parts import Parts
from sayso.engine.write import make_write
from sayso.errors import (
    BadExport,
    IllegalEvent,
    NotUnderstood,
    RunExists,
    StaleRun,
    UnknownAgent,
    UnknownRun,
)
from sayso.store.base import PAGE_MAX, Entry, HoldRow, Key, NewEntry, RunRow, Store, Write
from sayso.store.export import (
    FORMAT,
    VERSION,
    Export,
    ExportedRun,
    export_row,
    read_entries,
    read_export,
    sign_export,
)
from sayso.store.journal import decode, read_journal
from sayso.store.keyring import KeyRing
from sayso.store.query import HoldQuery
from sayso.store.rows import take_steps
from sayso.store.views import moment

LOOKS_MAX = 100
"""How often to look at runs that move meanwhile."""
RUNS_MAX = 1000
"""No export has more runs."""


class _Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A run as of one moment."""

    row: RunRow
    journal: list[Entry]
    holds: list[HoldRow]


class _Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A run at the end of its journal, before anything here has happened to it."""

    data: ExportedRun
    run: Run
    journal: list[Entry]
    events: list[e.Event]
    """Those that are not redacted."""
    erased: tuple[int, ...]


@guarded("export")
async def export_run(parts: Parts, run_id: str, *, by: Principal | None) -> dict[str, Any]:
    """Give a run, and those below it, as signed data. Only its owner may; `by` None: whoever may
    read the file.
    """
    run = await parts.ledger.load(run_id)
    if by is not None:
        await parts.records.owning(run, by)
    if run.parent:
        raise BadExport(f"{run_id!r} is a part of {run.root!r}: export that", reason="part")
    found = await _read_tree(parts.store, run_id)
    exported_at = parts.store.now()

    def sign() -> dict[str, Any]:
        export = Export(
            format=FORMAT,
            version=VERSION,
            run=run_id,
            project=run.project,
            exported_at=exported_at,
            exported_from=parts.store.name,
            runs=tuple(export_row(one.row, one.journal, one.holds) for one in found),
        )
        return sign_export(parts.vault.keys(), export)

    return await asyncio.to_thread(sign)


@guarded("adopt")
async def adopt_run(parts: Parts, data: object, *, by: Principal, operator: bool = False) -> str:
    """Take in a run that was exported elsewhere, with those below it; give its id.

    `BadExport`, `RunExists`, `UnknownAgent`, `UnknownRun`, `NotUnderstood`, `NotAllowed`; nothing
    is written then. An `operator` takes in runs of others, and ones that no agent here goes on
    with.
    """
    ring = parts.vault.keys()
    export, arrivals = await asyncio.to_thread(partial(_read, ring, data))
    first = arrivals[0].run
    if not operator:
        by = await parts.records.owning(first, by)
    for one in arrivals:
        if await parts.store.load(one.run.id) is not None:
            raise RunExists(f"the run {one.run.id!r} exists already")
        if not (one.run.final or operator or one.run.agent in parts.drivers):
            raise UnknownAgent(f"the agent {one.run.agent!r} of {one.run.id!r} is not known here")
        await _check_thread(parts, one.run)
    source = f"{export.exported_from} at {moment(export.exported_at).isoformat()}"
    now = parts.store.now()
    taken = [_take_in(parts, one, by=by, source=source, now=now) for one in arrivals]
    await parts.ledger.adopt(*taken)
    return export.run


async def _check_thread(parts: Parts, run: Run) -> None:
    """Refuse a run whose conversation began in one that is not here."""
    if not run.previous:
        return
    row = await parts.store.load(run.previous)
    before = None if row is None else await parts.ledger.read(row)
    if before is None or (before.project, before.by) != (run.project, run.by):
        raise UnknownRun(
            f"{run.id!r} goes on with the conversation of {run.previous!r}: adopt that first"
        )


async def _read_tree(store: Store, run_id: str) -> list[_Whole]:
    """Read a run and all below it as of one moment: a run's end and what it does to the one above
    are one append, and must not be torn apart.
    """
    for _ in range(LOOKS_MAX):
        found = await _read_once(store, run_id)
        rows = [await store.load(one.row.id) for one in found]
        if [row and row.last for row in rows] == [one.row.last for one in found]:
            return found
    raise StaleRun(f"{run_id!r} moves too fast to be exported: try again when it waits")


async def _read_once(store: Store, run_id: str) -> list[_Whole]:
    waiting, found = [look_up(run_id)], dict[str, _Whole]()
    while waiting:
        one = waiting.pop(0)
        row = await store.load(one)
        if row is None:
            raise UnknownRun(f"there is no run {one!r}")
        journal = await read_journal(store, one)
        erased = any(entry.redacted for entry in journal)
        holds = await _read_holds(store, one) if erased else []
        found[one] = _Whole(row=row, journal=journal, holds=holds)
        waiting += [child for child in _children(map(decode, journal)) if child not in found]
        if len(found) + len(waiting) > RUNS_MAX:
            raise BadExport(f"{run_id!r} has more than {RUNS_MAX:,} runs below it", reason="size")
    return list(found.values())


async def _read_holds(store: Store, run_id: str) -> list[HoldRow]:
    rows: list[HoldRow] = []
    after: str | None = None
    while page := await store.holds(
        HoldQuery(run_id=run_id, status="any", after=after, limit=PAGE_MAX)
    ):
        rows += [one.row for one in page]
        after = page[-1].key
    return rows


def _children(events: Iterable[e.Event | None]) -> list[str]:
    opened = [event for event in events if isinstance(event, e.HoldOpened)]
    return [one.ask.run for one in opened if isinstance(one.ask, Delegation)]


def _read(ring: KeyRing, data: object) -> tuple[Export, list[_Arrival]]:
    export = read_export(ring, data)
    arrivals = [_arrive(one) for one in export.runs]
    runs = {one.run.id: one.run for one in arrivals}
    first = next(iter(runs.values()), None)
    if first is None or first.id != export.run or first.parent or len(runs) != len(arrivals):
        raise BadExport("this is not a whole run", reason="part")
    for run in runs.values():
        # A run that waits for one which is not there, or is over, would wait for ever.
        waits_for = [runs.get(hold.child) for hold in run.holds if hold.child]
        if any(child is None or child.final for child in waits_for):
            raise BadExport("a run that it waits for is missing", reason="part")
        if run is not first and run.parent not in runs:
            raise BadExport("a run in it belongs to another one", reason="part")
    return export, arrivals


def _arrive(data: ExportedRun) -> _Arrival:
    """Replay a journal to its end. `NotUnderstood` if it cannot be."""
    journal = read_entries(data)
    erased = tuple(entry.seq for entry in journal if entry.redacted)
    events = [event for entry in journal if (event := decode(entry)) is not None]
    if not erased:
        try:
            run = take_steps(None, events)[-1].after
        except (IllegalEvent, LookupError) as error:
            raise NotUnderstood(f"the journal of {data.id!r} does not replay: {error}") from None
    elif FOLD_LIKE <= data.fold <= FOLD:
        run = codec.decode_run(data.state.encode())
    else:
        raise NotUnderstood(f"the state of {data.id!r} is of another version of Sayso")
    if (run.id, run.agent, run.seq) != (data.id, data.agent, len(journal)):
        raise NotUnderstood(f"the journal of {data.id!r} is not of that run")
    if erased and not run.final:
        raise NotUnderstood(f"{data.id!r} is not finished, and something of it was erased")
    return _Arrival(data=data, run=run, journal=journal, events=list(events), erased=erased)


def _take_in(
    parts: Parts, one: _Arrival, *, by: Principal, source: str, now: int
) -> tuple[Run, Write]:
    """Make the write that creates a run: its journal as it was, then its quarantine."""
    adopted = e.RunAdopted(
        by=by,
        at=now,
        source=source,
        head=one.data.head,
        times=tuple(entry.at for entry in one.journal),
    )
    durable, doubts = look_into(parts, one.run, one.journal)
    events = adopt(one.run, Lore(one.events), adopted, durable=durable, doubts=doubts)
    steps = take_steps(one.run, events)
    steps += take_steps(steps[-1].after, epilogue(steps[-1].after, now))
    before = [] if one.erased else take_steps(None, one.events)
    # What was asked elsewhere and still is, is news to whoever is asked here.
    write = make_write(b"", [*before, *steps], owner="", notices=parts.ledger.notices)
    news = write.entries[len(before) :]
    ids = entry_ids(len(one.journal))
    # The very bytes that were decided on. Of what was erased, the hash stands in and goes as well.
    kept = [NewEntry(id=n, payload=old.payload) for n, old in zip(ids, one.journal, strict=True)]
    write = replace(
        write,
        after=0,
        entries=(*kept, *news),
        holds=one.data.holds if one.erased else write.holds,
        redacts=one.erased,
        key=_start_key(one.events),
        only_if=(),
    )
    return steps[-1].after, write


def _start_key(events: Iterable[e.Event]) -> Key | None:
    """Give the key that the run was started with: a retry of that start finds the run here."""
    event = next(iter(events), None)
    if not isinstance(event, e.RunStarted) or not event.key:
        return None
    return start_key(
        event.project,
        event.key,
        agent=event.agent,
        input=event.input,
        by=event.by,
        thread=event.thread,
        metadata=None if event.metadata is None else bytes(event.metadata),
    )


def look_into(
    parts: Parts,
    run: Run,
    journal: Iterable[Entry],
    *states: CallState,
) -> tuple[set[str], Mapping[str, Require]]:
    """Say which calls under way have bodies that can go on from the journal, and whom to ask about
    all of them, as far as their tools are known here; or the same of calls in other states.
    """
    driver = parts.drivers.get(run.agent)
    rows = run.calls(*(states or (CallState.STARTED, CallState.ANSWERED)))
    if driver is None or not rows:
        return set(), {}
    transcript = Transcript(run.id)
    for entry in journal:
        transcript.add(entry.seq, decode(entry))
    tools = {row.ref: driver.tools.get(row.tool) for row in rows}
    doubts = {
        row.ref: parts.gate.doubt_ruling(
            run,
            tools[row.ref],
            row.tool,
            transcript.args[row.ref],
            asked=transcript.approvers.get(row.ref, ()),
        )
        for row in rows
    }
    return {ref for ref, tool in tools.items() if tool is not None and tool.durable}, doubts
