"""A handle on a run: look at it, wait for it, follow it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from sayso.domain.call import Declined, Failed, Outcome, call_id
from sayso.domain.hold import hold_id, read_id
from sayso.domain.run import Run, Status
from sayso.domain.standing import ASKS, status_of
from sayso.domain.transcript import Transcript
from sayso.engine.ids import look_up
from sayso.engine.live import Live
from sayso.engine.parts import Parts
from sayso.errors import StaleRun, UnknownHold, UnknownRun, WaitTimeout
from sayso.store.base import RunRow, Write
from sayso.store.journal import decode, read_holds, read_journal
from sayso.store.rows import run_row
from sayso.store.views import (
    CommandView,
    HoldView,
    RunView,
    hold_view,
    run_view,
    written_holds,
)

_UNFINISHED = ("running", "suspended")
LOOKS_MAX = 100
SOON_S = 0.05
"""How long whoever waits for a run that is worked on here waits for news before reading it."""


class RunHandle:
    """One run of one agent."""

    def __init__(self, parts: Parts, run_id: str) -> None:
        self.id = run_id
        self._parts = parts

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def view(self) -> RunView:
        """Look at the run as it was last committed."""
        for _ in range(LOOKS_MAX):
            view = await self._look(await self._see())
            if view is not None:
                return view
        raise StaleRun(f"{self.id!r} moves too fast to be looked at")

    async def status(self) -> str:
        """Look at the run's status alone."""
        return (await self._row()).status

    async def hold(self, hold: str | HoldView) -> HoldView:
        """Look at one of its holds, open or settled."""
        look_up(self.id)
        hold_id = hold.id if isinstance(hold, HoldView) else hold
        if not isinstance(hold_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnknownHold(f"{type(hold_id).__name__} is no id: one looks like 'hold_….1'")
        place = read_id("hold", hold_id)
        found = None
        if place is not None and place[0] == self.id:
            found = await self._parts.store.hold(self.id, place[1])
        if found is None:
            raise UnknownHold(f"there is no hold {hold_id!r}")
        return hold_view(found)

    async def wait(
        self,
        *,
        final: bool = False,
        held: bool = False,
        timeout: float | None = None,
    ) -> RunView:
        """Wait until the run is suspended or finished; with `final`, until it is finished; with
        `held`, also as soon as anything waits for a person while the rest goes on.
        """

        async def there(row: RunRow) -> bool:
            if final or row.status == "running":
                return row.status not in _UNFINISHED
            return await self._rests(row)

        while True:
            seen = await self._until(there, timeout, held=held)
            seen = seen if seen.owned else await self._see()
            view, row = await self._look(seen), seen.row
            if view is not None and (view.holds or (await there(row) and await self._stays(row))):
                return view

    async def outcome(
        self,
        ref: str,
        *,
        timeout: float | None = None,
    ) -> Outcome:
        """Wait until the run is finished; give the outcome of one of its calls."""
        row = (await self._until(_is_over, timeout)).row
        transcript = await self._transcript(row.seq)
        if ref in transcript.outcomes:
            return transcript.outcomes[ref]
        # It ended before the call was even asked for.
        if row.status == "failed":
            return Failed(error="RunFailed", message=transcript.error)
        return Declined(reason=f"the run is {row.status}, and the call was not asked for")

    async def command(self, ref: str, *, timeout: float | None = None) -> CommandView:
        """Wait until one of the run's commands has its outcome, or asks somebody."""

        async def there(row: RunRow) -> bool:
            run = await self._parts.ledger.read(row)
            call = run.call(ref)
            return call is None or call.state in ASKS

        row = (await self._until(there, timeout)).row
        run = await self._parts.ledger.read(row)
        transcript = await self._transcript(row.seq)
        call = run.call(ref)
        return CommandView(
            call_id=call_id(self.id, ref),
            status="done" if call is None else "held",
            outcome=transcript.outcomes.get(ref),
            holds=tuple(hold_id(self.id, hold.n) for hold in run.holds_of(ref)),
        )

    async def _until(
        self,
        there: Callable[[RunRow], Awaitable[bool]],
        timeout_s: float | None,
        *,
        held: bool = False,
    ) -> _Seen:
        """Wait until the run's row is as wanted, or, with `held`, has an open hold."""
        watch, wide, at = self._parts.store.watch(look_up(self.id)), False, 0
        clock = asyncio.get_running_loop().time
        until = None if timeout_s is None else clock() + timeout_s
        try:
            if self._is_at_work():
                # It is about to move, and what this process commits need not be read.
                await watch.wait(SOON_S if timeout_s is None else min(SOON_S, timeout_s))
            while True:
                news = watch.news()
                # The answer to a write of ours may come after others' of later.
                late = news is not None and news.after + len(news.entries) < at
                seen = await self._see(None if late else news)
                row, at = seen.row, seen.row.seq
                if await there(row) or (held and await self._asks(row)):
                    return seen
                if not wide and row.status == "suspended" and await self._children(row):
                    # The runs below it move while it does not.
                    watch.close()
                    watch, wide = self._parts.store.watch(), True
                    continue
                left_s = None if until is None else until - clock()
                if left_s is not None and left_s <= 0:
                    raise WaitTimeout(f"{self.id!r} is still {row.status}")
                await watch.wait(left_s)
        finally:
            watch.close()

    async def _look(self, seen: _Seen) -> RunView | None:
        """Make a view of the run as its row says; None if its holds have moved on meanwhile."""
        row, live = seen.row, seen.live
        live = live if live is not None and live.is_at(row.last) else None
        run = await self._parts.ledger.read(row) if live is None else live.run
        holds = await self._holds(run, write=seen.write) if run.holds else ()
        if holds is None:
            return None
        # After the holds: what is in memory goes on while they are read.
        transcript = None if live is None or run.previous else live.transcript
        if transcript is None or transcript.seq != row.seq:
            transcript = await self._transcript(row.seq)
        return run_view(row, run, transcript, holds)

    async def _holds(
        self, run: Run, lineage: tuple[str, ...] = (), write: Write | None = None
    ) -> tuple[HoldView, ...] | None:
        """List what people can settle, of a run and of those below it; None if it has moved on."""
        own = [
            (hold_id(run.id, one.n), one.version, one.status) for one in run.holds if not one.child
        ]
        views = None if write is None else written_holds(write)
        if own and (views is None or _names(views) != own):
            from sayso.store.query import HoldQuery

            found = await read_holds(self._parts.store, HoldQuery(run_id=run.id))
            views = tuple([hold_view(one, lineage) for one in found])
            if _names(views) != own:
                return None
        views = views if own and views else ()
        for hold in run.holds:
            if hold.child:
                child = await self._parts.ledger.load(hold.child)
                below = await self._holds(child, (*lineage, run.id))
                if below is None:
                    return None
                views += below
        return views

    async def _rests(self, row: RunRow) -> bool:
        """Tell whether nothing goes on in a run, nor in those below it, without a person."""
        if row.status == "running":
            return False
        for child in await self._children(row):
            if not await self._rests(child):
                return False
        return True

    async def _stays(self, row: RunRow) -> bool:
        """Tell whether a run is still as its row says. The end of one below it wakes it, and they
        are not read in the same moment.
        """
        return row.status not in _UNFINISHED or (await self._row()).seq == row.seq

    async def _asks(self, row: RunRow) -> bool:
        run = await self._parts.ledger.read(row)
        if any(not hold.child for hold in run.holds):
            return True
        for child in await self._children(row):
            if await self._asks(child):
                return True
        return False

    async def _children(self, row: RunRow) -> list[RunRow]:
        if row.status not in _UNFINISHED:
            return []
        run = await self._run(row)
        found = [await self._parts.store.load(hold.child) for hold in run.holds if hold.child]
        return [child for child in found if child is not None]

    async def _run(self, row: RunRow) -> Run:
        live = self._parts.ledger.at_hand(row.id)
        if live is not None and live.is_at(row.last):
            return live.run
        return await self._parts.ledger.read(row)

    async def _transcript(self, seq: int) -> Transcript:
        transcript = Transcript(self.id)
        for entry in await read_journal(self._parts.store, self.id):
            if entry.seq <= seq:
                transcript.add(entry.seq, decode(entry))
        return transcript

    def _is_at_work(self) -> bool:
        """Tell whether this process works on the run, or writes to it, as far as it knows."""
        live = self._parts.ledger.at_hand(self.id)
        return live is not None and not live.stale and status_of(live.run) is Status.RUNNING

    async def _see(self, write: Write | None = None) -> _Seen:
        """Read the run's row, unless it was just written by this process; give the run in memory as
        well, if it is there: whoever works on it may let it go while the row is read, and then its
        journal would have to be read, too.
        """
        live = self._parts.ledger.at_hand(self.id)
        row = await self._row() if write is None else run_row(write)
        return _Seen(row, live, write)

    async def _row(self) -> RunRow:
        row = await self._parts.store.load(look_up(self.id))
        if row is None:
            raise UnknownRun(f"there is no run {self.id!r}")
        return row


class _Seen(NamedTuple):
    """A run as it was committed: as it was read, or as this process has just written it."""

    row: RunRow
    live: Live | None
    write: Write | None = None

    @property
    def owned(self) -> bool:
        """Tell whether the row says who owns the run."""
        return self.write is None or self.write.owner is not None


def _names(views: Iterable[HoldView]) -> list[tuple[str, int, str]]:
    return [(view.id, view.version, view.status) for view in views]


async def _is_over(row: RunRow) -> bool:
    return row.status not in _UNFINISHED
