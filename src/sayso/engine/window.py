"""What somebody may look at, in one project.

Rule 1: what is of another project is answered exactly as what does not exist.
Rule 2: a run is seen by its owner and by operators. Whoever a hold asks, or who has decided it,
sees the hold: the request, and not the conversation it came of.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.digest import suspension_digest
from sayso.domain.hold import read_id
from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.domain.ruling import OPERATOR
from sayso.domain.run import Run
from sayso.domain.value import Principal
from sayso.engine.feed import Delta
from sayso.engine.handle import RunHandle
from sayso.engine.ids import is_run_id
from sayso.engine.parts import Parts
from sayso.engine.people import owns
from sayso.engine.voters import asked
from sayso.errors import NotAllowed, RunArchived, UnknownHold, UnknownRun
from sayso.store.base import HoldFound, RunRow
from sayso.store.journal import decode, read_holds, read_journal, recorded
from sayso.store.query import HoldQuery, RunQuery
from sayso.store.views import HoldView, RunView, hold_view

if TYPE_CHECKING:
    from sayso.domain.hint import Schema


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list: its row, without what was said in it."""

    id: str
    agent: str
    by: Principal
    status: str
    seq: int
    started_at: int
    thread: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """All that one suspension asks."""

    id: str
    run_id: str
    holds: tuple[HoldView, ...]
    digest: str
    """What a decision about all of it must carry."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody sees around a hold."""

    by: Principal
    """Who started the run that asks."""
    agents: tuple[str, ...]
    """The agents above the one that asks, the root's first."""
    asks: bool
    """Whether it asks them: they may decide it while it is open."""
    owns: bool
    """Whether they see the run as well."""


class Window:
    """Looks into one project with somebody's eyes: `app.window(by=...)`."""

    def __init__(self, parts: Parts, project: str, by: Principal) -> None:
        self._parts = parts
        self.project = project
        self.by = by

    async def run(self, run_id: str) -> RunView:
        """Look at a run. For its owner and operators."""
        await self.check_run(run_id)
        return await RunHandle(self._parts, run_id).view()

    async def hold(self, hold: str) -> HoldView:
        """Look at a hold. For whoever it asks, who decided, the run's owner and operators."""
        return hold_view(await self._found(hold))

    async def around(self, hold: HoldView) -> Around:
        """Say what is around a hold that they see."""
        found, who = await self._found(hold.id), await self._who()
        run = await self._parts.ledger.load(hold.run_id)
        return Around(
            by=run.by,
            agents=run.lineage,
            asks=who.active and await asked(self._parts, found, who) is not None,
            owns=owns(who, run),
        )

    async def first(self, hold: HoldView) -> HoldView:
        """Look at a hold as it was asked at first, before anybody edited it."""
        found = await self._found(hold.id)
        if not found.row.revised:
            return hold_view(found)
        # A call is asked for before anybody is asked about it.
        for entry in await read_journal(self._parts.store, hold.run_id, until=found.row.entry):
            event = decode(entry)
            calls = event.calls if isinstance(event, e.TurnTaken) else ()
            if isinstance(event, e.CommandReceived):
                calls = (event.call,)
            if any(call.ref == found.row.call for call in calls):
                return hold_view(replace(found, args=entry, revision=None))
        return hold_view(found)

    def schema(self, hold: HoldView) -> Schema | None:
        """Give the JSON Schema of what a hold's tool takes; None if this process does not know the
        tool, as one that only decides may not.
        """
        driver = self._parts.drivers.get(hold.agent)
        tool = None if driver is None else driver.tools.get(hold.tool)
        return None if tool is None else tool.spec().parameters

    async def request(self, request_id: str) -> Request:
        """Look at all that a suspension asks; for whoever may see each of it."""
        found = await self._members(request_id)
        for one in found:
            await self._check_hold(one)
        members = [one.row.digest for one in found]
        return Request(
            id=request_id,
            run_id=found[0].row.run_id,
            holds=tuple(hold_view(one) for one in found),
            digest=suspension_digest(request_id=request_id, members=members),
        )

    async def runs(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        thread: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> tuple[list[Brief], str | None]:
        """List runs, newest first: one's own, or all for operators. The second is where the next
        page goes on; a page may be short, and the list go on all the same.
        """
        if before is not None:
            await self._row(before)
        query = RunQuery(
            project=self.project,
            status=status,
            agent=agent,
            thread=thread,
            before=before,
            limit=limit,
        )
        rows = await self._parts.store.runs(query)
        who = await self._who()
        seen = [await self._parts.ledger.read(row) for row in rows]
        mine = [_brief(row, run) for row, run in zip(rows, seen, strict=True) if owns(who, run)]
        return mine, rows[-1].id if len(rows) >= limit else None

    async def entries(self, run_id: str, *, after: int = 0) -> list[Recorded]:
        """Read a page of a run's journal. For its owner and operators."""
        await self.check_run(run_id)
        page = await self._parts.store.journal(run_id, after=after)
        return [recorded(entry) for entry in page]

    async def settled(self, run_id: str) -> list[HoldView]:
        """List what was settled in a run, oldest first. For its owner and operators."""
        await self.check_run(run_id)
        query = HoldQuery(run_id=run_id, status="settled")
        return [hold_view(one) for one in await read_holds(self._parts.store, query)]

    async def follow(
        self, run_id: str, *, after: int = 0, deltas: bool = False
    ) -> AsyncIterator[Recorded | Delta]:
        """Follow a run, as `app.events` does. For its owner and operators."""
        await self.check_run(run_id)
        feed = self._parts.feed
        return feed.follow_all(run_id, after=after) if deltas else feed.follow(run_id, after=after)

    async def is_operator(self) -> bool:
        """Tell whether they see everything in the project."""
        who = await self._who()
        return who.active and who.right([OPERATOR]) is not None

    async def stands(self, run_id: str) -> tuple[int, str]:
        """Say where a run is: its last entry's number, and its status."""
        row = await self._row(run_id)
        return row.seq, row.status

    async def check_run(self, run_id: str) -> Run:
        """Raise `UnknownRun` unless there is such a run here, `NotAllowed` unless it is theirs."""
        run = await self._parts.ledger.read(await self._row(run_id))
        await self._parts.records.owning(run, self.by)
        return run

    async def reach(self, name: str) -> None:
        """Raise `UnknownRun` or `UnknownHold` unless a run, hold or request is of this project.
        Whether they may do anything to it is for whatever does it.
        """
        if is_run_id(name):
            await self._row(name)
        elif name.startswith("req_"):
            await self._members(name)
        else:
            await self._hold(name)

    async def _row(self, run_id: str) -> RunRow:
        row = None
        # One that was archived is not here any more, whoever asks; nobody could say whose it was.
        with suppress(RunArchived):
            row = await self._parts.store.load(run_id) if is_run_id(run_id) else None
        if row is None or row.project != self.project:
            raise UnknownRun(f"there is no run {run_id!r}")
        return row

    async def _hold(self, name: str) -> HoldFound:
        place = read_id("hold", name)
        found = None
        with suppress(RunArchived):
            if place is not None and is_run_id(place[0]):
                found = await self._parts.store.hold(*place)
        if found is None or found.project != self.project:
            raise UnknownHold(f"there is no hold {name!r}")
        return found

    async def _members(self, name: str) -> list[HoldFound]:
        place = read_id("req", name)
        found: list[HoldFound] = []
        if place is not None and is_run_id(place[0]):
            query = HoldQuery(run_id=place[0], suspension=place[1], status="any")
            found = await read_holds(self._parts.store, query)
        if not found or found[0].project != self.project:
            raise UnknownHold(f"there is no request {name!r}")
        return found

    async def _found(self, name: str) -> HoldFound:
        found = await self._hold(name)
        await self._check_hold(found)
        return found

    async def _check_hold(self, found: HoldFound) -> None:
        who = await self._who()
        if who.active and await asked(self._parts, found, who) is not None:
            return
        view = hold_view(found)
        said = [*view.votes, *([view.decision] if view.decision is not None else [])]
        if who.active and any(who.is_one_of(one.persons) for one in said):
            return
        run = await self._parts.ledger.load(found.row.run_id)
        if not owns(who, run):
            raise NotAllowed(f"{view.id!r} does not ask {self.by}")

    async def _who(self) -> Authority:
        return await self._parts.records.authority(self.project, self.by)


def _brief(row: RunRow, run: Run) -> Brief:
    return Brief(
        id=row.id,
        agent=run.agent,
        by=run.by,
        status=row.status,
        seq=row.seq,
        started_at=run.started_at,
        thread=run.thread or None,
    )
