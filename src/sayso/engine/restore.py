"""Letting a store that was restored or copied work again: what may have gone on since its backup is
put under quarantine, as if its runs came from elsewhere.

Rule 1: no worker sees any run before all of them were looked at: until then the store takes writes
of nobody else.
Rule 2: what was done is in the journals themselves, so that whoever is killed on the way begins
again where it was, and a run is asked about once.
Rule 3: a run that only waits for people is left alone, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from sayso.domain import events as e
from sayso.domain.adopting import RESTORED, Lore, adopt
from sayso.domain.call import CallState, Effect
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import status_of, strand_due
from sayso.domain.value import Principal
from sayso.engine.adopt import look_into
from sayso.engine.parts import Parts
from sayso.engine.ports import Tool
from sayso.errors import StaleRun
from sayso.store.base import PAGE_MAX, Entry, RunRow
from sayso.store.journal import decode, read_journal
from sayso.store.query import RunQuery
from sayso.store.transfer import check_work

SAID_SO = "somebody has said that it was restored"
NAMED_MAX = 100
"""How many runs are named; the others are counted."""
LOOKS_MAX = 100
_COULD_GO_ON = (CallState.READY, CallState.APPROVED, CallState.STARTED, CallState.ANSWERED)


class Restored(msgspec.Struct, kw_only=True):
    """What became of a store's unfinished runs."""

    runs: int = 0
    """How many were looked at."""
    quarantined: int = 0
    """Those in which something could have gone on since the backup."""
    asked: int = 0
    """How many questions to people that were."""
    due: int = 0
    """Those that go on by themselves: their model is asked next, and may want again what it wanted
    since the backup.
    """
    due_runs: list[str] = []
    """Some of them."""
    epoch: int = 0
    """The store's, once it is let work; 0 before."""


Progress = Callable[[Restored], None]


async def recover(parts: Parts, *, by: Principal, progress: Progress | None = None) -> Restored:
    """Put every run that could have gone on since the backup under quarantine, then take the store
    for the one to work on. Being interrupted, and run again, is fine; so is running twice at once.
    `StoreMoved` if it was moved elsewhere.
    """
    # What goes on elsewhere does not begin to go on here as well.
    check_work(parts.store.name, parts.store.moved_to)
    found = Restored()
    origin = await parts.store.origin()
    # Before anything else is written, which could hide that the store was behind.
    await parts.store.doubt_origin(origin.fault or SAID_SO)
    # However often it has to begin again, it is the same until it has come to its end. The epoch
    # alone could be one that these journals were under before the store was moved.
    source = f"a backup of this store ({origin.epoch + 1}, {origin.token})"
    event = e.RunAdopted(by=by, at=parts.store.now(), source=source)
    # In this order none is seen twice: a quarantine suspends, and wakes nobody.
    for status in (Status.SUSPENDED, Status.RUNNING):
        before: str | None = None
        while page := await parts.store.runs(
            RunQuery(status=status.value, before=before, limit=PAGE_MAX)
        ):
            before = page[-1].id
            for row in page:
                found.runs += 1
                await _look_at(parts, row, event, found)
                if progress is not None:
                    progress(found)
    found.epoch = await parts.store.accept_origin()
    return found


async def _look_at(parts: Parts, row: RunRow, event: e.RunAdopted, found: Restored) -> None:
    run = await parts.ledger.read(row)
    if not _could_go_on(run):
        return
    for _ in range(LOOKS_MAX):
        journal = await read_journal(parts.store, row.id)
        events = [one for entry in journal if (one := decode(entry)) is not None]
        if any(isinstance(one, e.RunAdopted) and one.source == event.source for one in events):
            _count_due(found, run)
            return
        verb = partial(_quarantine, parts, event, journal, Lore(events))
        try:
            written = await parts.ledger.write(row.id, verb)
        except StaleRun:
            continue  # Somebody else does the same.
        found.quarantined += 1
        found.asked += sum(isinstance(one, e.HoldOpened) for one in written.events)
        _count_due(found, written.run)
        return
    raise StaleRun(f"{row.id!r} is written to by others: stop whoever works on the store")


def _could_go_on(run: Run) -> bool:
    """Tell whether a run could have gone on, after its backup, by what had been said before it."""
    if status_of(run) is Status.RUNNING or run.calls(*_COULD_GO_ON):
        return True
    return any(
        # By a no of silence, and by its answer, a body goes on as well.
        one.decision or one.votes or one.on_silence == "approve" or (one.resumes and one.deadline)
        for one in run.holds
    )


def _quarantine(
    parts: Parts, event: e.RunAdopted, journal: list[Entry], lore: Lore, run: Run
) -> list[e.Event]:
    if run.seq != len(journal) or run.final:
        raise StaleRun
    durable, doubts = look_into(parts, run, journal)
    return adopt(
        run,
        lore,
        msgspec.structs.replace(event, head=journal[-1].hash.hex()),
        durable=durable,
        doubts=doubts,
        unasked=_unasked(parts, run, journal),
        words=RESTORED,
    )


def _unasked(parts: Parts, run: Run, journal: list[Entry]) -> Mapping[str, Require]:
    """Name the calls that need nobody and must not be made twice: all whose tool is not known."""
    driver = parts.drivers.get(run.agent)
    tools: Mapping[str, Tool] = {} if driver is None else driver.tools
    rows = [
        row
        for row in run.calls(CallState.READY)
        if row.tool not in tools or tools[row.tool].effect is Effect.ONCE
    ]
    _, rulings = look_into(parts, run, journal, CallState.READY)
    return {
        row.ref: msgspec.structs.replace(rulings.get(row.ref, Require()), title=f"Make {row.tool}?")
        for row in rows
    }


def _count_due(found: Restored, run: Run) -> None:
    if any(strand_due(run, strand) for strand in run.strands):
        found.due += 1
        if len(found.due_runs) < NAMED_MAX:
            found.due_runs.append(run.id)
