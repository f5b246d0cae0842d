"""What was decided, a line each, for whoever has to show it.

Rule 1: never a value: no arguments, no answers. What was asked is named by its digest.
Rule 2: the order of the lines is the order of the commits, and the order of the fields never
changes.
Rule 3: a cell of a spreadsheet is text: it starts no formula, and what cannot be seen is written as
its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime

import msgspec

from sayso.domain import events as e
from sayso.domain.call import call_id
from sayso.domain.glyph import inline
from sayso.domain.hold import (
    SIGN_INS,
    Answered,
    Approved,
    Decision,
    Errored,
    Expired,
    Rejected,
    Withdrawn,
    hold_id,
)
from sayso.domain.value import CLOCK, Principal
from sayso.engine.people import Records
from sayso.errors import UnknownRun
from sayso.store.base import PAGE_MAX, Entry, HoldFound, Store
from sayso.store.journal import decode

FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the beginning of a formula; a tab and a carriage return as well, but
those are written as their numbers.
"""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody decided, or that time did."""

    at: str
    """When it was committed, by store time: ISO 8601, in UTC."""
    project: str
    run: str
    hold: str = ""
    call: str = ""
    tool: str = ""
    what: str
    """In a word: approved, rejected, answered, errored, expired, withdrawn, voted, edited, undone,
    escalated, reassigned, granted, redacted or erased.
    """
    meaning: str
    """In a sentence."""
    by: str
    """Who; `clock:clock` is nobody."""
    name: str = ""
    """What they are called, if that is known."""
    right: str = ""
    """By which of the approvers' names they were meant, if not by their own."""
    of: str = ""
    """Whom they stood in for."""
    channel: str = ""
    assurance: str = ""
    """How they were known to be that person."""
    key: str = ""
    note: str = ""
    args_digest: str = ""
    """The digest of the arguments that were on offer."""
    shown_digest: str = ""
    """The digest that the decision carries: of what was shown to whoever decided."""
    version: int = 0
    """Of the hold: every edit raises it."""
    policy_version: str = ""
    """The version of the policy that the hold was opened under."""
    effective_at: str = ""
    """From when it counts."""
    entry: int
    hash: str
    """Of the entry, as it is in the chain."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are wanted."""

    since: int | None = None
    """Store time in milliseconds, inclusive."""
    until: int | None = None
    """And exclusive."""
    run: str | None = None
    project: str | None = None


OnHold = (
    e.HoldSettled
    | e.HoldRevised
    | e.DecisionUndone
    | e.VoteCast
    | e.VoteUndone
    | e.HoldEscalated
    | e.HoldReassigned
    | e.GrantGiven
)
"""What happens to a hold and is somebody's doing, or time's."""
FIELDS = Line.__struct_fields__


async def lines(
    store: Store,
    asked: Asked,
    names: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
    records: Records | None = None,
) -> AsyncIterator[Line]:
    """Give the lines that are asked for, in the order of the commits; `progress` hears after every
    page which position was come to. What people are called is read from the `records`.
    """
    if asked.run is not None and await store.load(asked.run) is None:
        # No line would look as if nobody had decided anything.
        raise UnknownRun(f"there is no run {asked.run!r}")
    after, projects = 0, dict[str, str]()
    while True:
        if asked.run is None:
            page = await store.tail(after=after, limit=PAGE_MAX)
        else:
            page = await store.journal(asked.run, after=after, limit=PAGE_MAX)
        for entry in page:
            if _in_time(asked, entry):
                line = await _line(store, entry, projects, names or {})
                if line is not None and not line.name and records is not None:
                    line = await _called(records, line)
                if line is not None and asked.project in (None, line.project):
                    yield line
        if not page:
            return
        after = page[-1].position if asked.run is None else page[-1].seq
        projects.clear()
        if progress is not None:
            progress(page[-1].position)
        # Reading blocks the loop, which others share.
        await asyncio.sleep(0)


async def _called(records: Records, line: Line) -> Line:
    """Add what a person is called now, as the project's records say."""
    # The names of services, agents and the clock have a kind before them, and no record.
    found = await records.look_up(line.project, line.by)
    return line if found is None else msgspec.structs.replace(line, name=found[0].name)


def cells(line: Line) -> list[str]:
    """Give the fields of a line as cells that no spreadsheet takes for anything but text."""
    return [cell(str(value)) for value in msgspec.structs.astuple(line)]


def cell(text: str) -> str:
    """Make text safe in a cell."""
    safe = inline(text)
    return f"'{safe}" if safe.lstrip().startswith(FORMULA) else safe


def iso(ms: int) -> str:
    """Write store time for people and programs alike."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _in_time(asked: Asked, entry: Entry) -> bool:
    if asked.since is not None and entry.at < asked.since:
        return False
    return asked.until is None or entry.at < asked.until


async def _line(
    store: Store, entry: Entry, projects: dict[str, str], names: Mapping[str, str]
) -> Line | None:
    event = decode(entry)
    match event:
        case (
            e.HoldSettled()
            | e.HoldRevised()
            | e.DecisionUndone()
            | e.VoteCast()
            | e.VoteUndone()
            | e.HoldEscalated()
            | e.HoldReassigned()
            | e.GrantGiven()
        ):
            found = await store.hold(entry.run_id, event.hold)
            # What another run settles, nobody has decided.
            return None if found is None else _of_hold(entry, event, found, names)
        case e.EntryRedacted() | e.RunErased():
            if entry.run_id not in projects:
                row = await store.load(entry.run_id)
                projects[entry.run_id] = "" if row is None else row.project
            return _of_erasing(entry, event, projects[entry.run_id], names)
        case _:
            return None


def _of_hold(
    entry: Entry,
    event: OnHold,
    found: HoldFound,
    names: Mapping[str, str],
) -> Line:
    row = found.row
    opened = decode(found.opened)
    version: int = getattr(event, "version", row.version)
    asked = row.digest if version == row.version else ""
    if isinstance(opened, e.HoldOpened) and version == opened.version:
        asked = opened.digest
    line = Line(
        at=iso(entry.at),
        project=found.project,
        run=entry.run_id,
        hold=hold_id(row.run_id, row.n),
        call=call_id(row.run_id, row.call),
        tool=row.tool,
        what="",
        meaning="",
        by="",
        args_digest=asked,
        version=version,
        policy_version=opened.policy_version if isinstance(opened, e.HoldOpened) else "",
        entry=entry.seq,
        hash=entry.hash.hex(),
    )
    match event:
        case e.HoldSettled(decision=decision) | e.VoteCast(decision=decision):
            vote = isinstance(event, e.VoteCast)
            said = _meaning(decision, row.kind, row.tool)
            return msgspec.structs.replace(
                line,
                what="voted" if vote else decision.word,
                meaning=f"{said}, as one of several" if vote else said,
                right=decision.right,
                of=decision.of,
                channel=decision.channel,
                assurance=decision.assurance,
                key=decision.key,
                note=decision.note,
                shown_digest=decision.digest,
                effective_at=iso(decision.effective_at),
                by=str(decision.by),
                name=_name(decision.by, names),
            )
        case e.HoldRevised(by=by, digest=digest):
            said = f"edited the arguments of {row.tool}; what is asked is version {version} now"
            what = "edited"
            line = msgspec.structs.replace(line, args_digest=digest)
        case e.DecisionUndone(by=by):
            said = f"took back the decision on {row.tool}"
            what = "undone"
        case e.VoteUndone(by=by, person=person, why=why):
            said = f"the vote of {person} on {row.tool} counts no more{_because(why)}"
            what = "undone"
        case e.HoldEscalated(to=to):
            said, by = f"{', '.join(to)} are asked about {row.tool} as well", CLOCK
            what = "escalated"
        case e.HoldReassigned(by=by, to=to, instead_of=instead_of, note=note):
            said = f"handed {row.tool} over to {to} in place of {instead_of}{_because(note)}"
            what = "reassigned"
        case e.GrantGiven(grant=grant):
            said = f"allows calls like that of {row.tool} until {iso(grant.until)}: {grant.id}"
            what, by = "granted", grant.by
    if isinstance(event, e.HoldRevised | e.HoldReassigned):
        line = msgspec.structs.replace(line, right=event.right, of=event.of)
    return msgspec.structs.replace(line, what=what, meaning=said, by=str(by), name=_name(by, names))


def _of_erasing(entry: Entry, event: e.Erasing, project: str, names: Mapping[str, str]) -> Line:
    if isinstance(event, e.RunErased):
        what, said = "erased", f"erased what entries 1 to {event.through} said"
    else:
        what, said = "redacted", f"erased what entry {event.entry} said"
    return Line(
        at=iso(entry.at),
        project=project,
        run=entry.run_id,
        what=what,
        meaning=said + _because(event.reason),
        entry=entry.seq,
        hash=entry.hash.hex(),
        by=str(event.by),
        name=_name(event.by, names),
    )


def _meaning(decision: Decision, kind: str, tool: str) -> str:
    match decision.verdict:
        case Approved() if kind in SIGN_INS:
            return f"signed in for {tool}"
        case Approved() if kind == "in_doubt":
            return f"let {tool} be started again, whose outcome nobody knew"
        case Approved():
            return f"approved {tool}"
        case Rejected(reason=reason):
            return f"rejected {tool}{_because(reason)}"
        case Answered() if kind == "in_doubt":
            return f"said what became of {tool}"
        case Answered():
            return f"answered {tool}"
        case Errored(message=message):
            return f"gave no answer to {tool}{_because(message)}"
        case Expired(silence=silence):
            return f"nobody decided on {tool} in time, which means: {silence}"
        case Withdrawn(reason=reason):
            return f"{tool} no longer asks{_because(reason)}"


def _name(by: Principal, names: Mapping[str, str]) -> str:
    return names.get(by.id, "") if by.kind == "person" else ""


def _because(why: str) -> str:
    return f": {why}" if why else ""
