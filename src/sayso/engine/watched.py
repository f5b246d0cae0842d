"""The parts of the engine that somebody watches: each does what it does anyway, and tells of it.

Rule 1: they are used only where telemetry is asked for; everywhere else nothing of this is even
imported.
Rule 2: what is set off by a start or a decision is below its span, also in another process: entries
keep where they were made. Whatever waited in between is linked, because a trace ends within hours,
and people may take weeks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.hold import Decision, hold_id, read_id
from sayso.domain.run import CallRow
from sayso.engine.attempt import Asked, Done, Doubt, Parked, Result, StepDoubt, Void
from sayso.engine.courier import Courier, Notice
from sayso.engine.decide import Decided
from sayso.engine.desk import Desk, Start
from sayso.engine.dispatch import Dispatch
from sayso.engine.gauge import Gauges, risk_of
from sayso.engine.ids import is_run_id
from sayso.engine.ledger import Ledger
from sayso.engine.live import Live
from sayso.engine.loop import RunLoop, Work
from sayso.engine.parts import Parts
from sayso.engine.request import Decide
from sayso.engine.sent import Order, Part, Sent
from sayso.engine.sweeper import Sweeper
from sayso.engine.telemetry import Attributes, Span, Telemetry
from sayso.engine.worker import Worker
from sayso.errors import SaysoError
from sayso.store.base import Appended, HoldFound, Key, Store
from sayso.store.journal import decode, read_holds
from sayso.store.query import HoldQuery

log = logging.getLogger("sayso")

_STATUSES: dict[type[e.Event], str] = {
    e.RunStarted: "started",
    e.RunSuspended: "suspended",
    e.RunResumed: "resumed",
    e.RunTakenOver: "taken_over",
    e.RunCompleted: "completed",
    e.RunFailed: "failed",
    e.RunCancelled: "cancelled",
}
_RESULTS: dict[type[object], str] = {
    Void: "not_done",
    Doubt: "in_doubt",
    StepDoubt: "in_doubt",
    Parked: "parked",
    Asked: "asked",
    type(None): "asked",
}


class WatchedLedger(Ledger):
    """Keeps with entries where they were made, and counts them once they are committed."""

    def __init__(
        self, store: Store, dispatch: Dispatch | None = None, *, telemetry: Telemetry
    ) -> None:
        super().__init__(store, dispatch)
        self._telemetry = telemetry

    def _first_part(self, event: e.RunStarted, worker: str = "", key: Key | None = None) -> Part:
        return super()._first_part(replace(event, trace=self._telemetry.trace()), worker, key)

    def _part(self, live: Live, events: Sequence[e.Event], order: Order) -> Part:
        trace = self._telemetry.trace()
        if trace:
            events = [
                replace(one, trace=trace) if isinstance(one, e.HoldOpened | e.HoldSettled) else one
                for one in events
            ]
        return super()._part(live, events, order)

    def _answered(self, sent: Sent, answer: asyncio.Future[Appended]) -> None:
        super()._answered(sent, answer)
        if answer.cancelled() or answer.exception() is not None:
            return
        for part in sent.parts:
            agent = part.run.agent
            self._telemetry.count("sayso.appends", {"sayso.agent": agent})
            for event in part.events:
                if status := _STATUSES.get(type(event)):
                    about = {"sayso.agent": agent, "sayso.status": status}
                    self._telemetry.count("sayso.runs", about)
                elif isinstance(event, e.CallDoubted):
                    self._telemetry.count("sayso.calls.doubted", {"sayso.agent": agent})


class WatchedLoop(RunLoop):
    """Tells of turns and calls, below what has set them off."""

    def __init__(self, parts: Parts, run_id: str, worker: str) -> None:
        super().__init__(parts, run_id, worker)
        self._telemetry = telemetry_of(parts)
        self._lost: set[str] = set()
        """Calls whose worker is gone."""

    async def drive(self) -> None:
        # The task was made by whoever came first, whose span is none of this run's business.
        seen = await self._see()
        with self._telemetry.within(seen.trace):
            await super().drive()

    async def _turn(self, name: str) -> Work | None:
        seen = await self._see()
        with self._telemetry.span("sayso.turn", seen.about, parent=seen.trace):
            return await super()._turn(name)

    async def _look_after(self, row: CallRow) -> Work | None:
        self._lost.add(row.ref)
        try:
            return await super()._look_after(row)
        finally:
            self._lost.discard(row.ref)

    async def _conclude(
        self, ref: str, attempt: int, result: Awaitable[Result | None]
    ) -> Work | None:
        return await super()._conclude(ref, attempt, self._told(ref, attempt, result))

    async def _told(
        self, ref: str, attempt: int, result: Awaitable[Result | None]
    ) -> Result | None:
        seen = await self._see(ref)
        name = "sayso.look_into" if ref in self._lost else "sayso.call"
        about = {**seen.about, "sayso.attempt": attempt}
        with self._telemetry.span(name, about, parent=seen.trace, links=seen.links) as span:
            found = await result
            span.note({"sayso.outcome": _word(found)})
            return found

    async def _see(self, ref: str = "") -> _Seen:
        """Look at the run, and at one of its calls. Never raises: the work must not fail by it."""
        about: dict[str, str | int] = {"sayso.run.id": self.run_id}
        try:
            live, transcript = await self._ledger.both(self.run_id)
        except SaysoError:
            return _Seen("", (), about)
        about["sayso.agent"] = live.run.agent
        row = live.run.call(ref) if ref else None
        if row is not None:
            about["sayso.tool"] = row.tool
            tool = self._parts.drivers[live.run.agent].tools.get(row.tool)
            if tool is not None:
                about["sayso.risk"] = tool.risk
        return _Seen(transcript.trace, transcript.traces_of(ref), about)


class _Seen(NamedTuple):
    trace: str
    links: Sequence[str]
    about: Attributes


class WatchedWorker(Worker):
    """Has its loops watched."""

    loop_class = WatchedLoop


class WatchedDesk(Desk):
    """Tells of starts and decisions, and how long these took to come."""

    @property
    def _telemetry(self) -> Telemetry:
        return telemetry_of(self._parts)

    async def start(self, request: Start) -> str:
        """Start a run; give its id."""
        with self._telemetry.span("sayso.start") as span:
            run_id = await super().start(request)
            # Only now is it known that both are what they are said to be.
            span.note({"sayso.run.id": run_id, "sayso.agent": request.agent})
            return run_id

    async def decide(self, hold: str, request: Decide) -> Decided:
        """Decide a hold."""
        with self._telemetry.span("sayso.decide") as span:
            found = await read_hold(self._parts.store, hold)
            if found is not None:
                _describe(span, found)
            decided = await super().decide(hold, request)
            if found is not None and decided.decision is not None:
                self._tell(span, found, decided.decision)
            return decided

    async def resume(self, request_id: str, request: Decide) -> list[HoldFound]:
        """Decide everything that a suspension still asks, all or nothing."""
        with self._telemetry.span("sayso.decide") as span:
            asked = await _read_asked(self._parts.store, request_id)
            for one in asked:
                _describe(span, one)
            if asked:
                span.note({"sayso.request.id": request_id})
            after = await super().resume(request_id, request)
            said = {one.row.n: one.row.decision for one in after}
            for one in asked:
                if (made := said.get(one.row.n)) is not None and one.row.status == "open":
                    self._tell(span, one, codec.decode_decision(made))
            return after

    def _tell(self, span: Span, found: HoldFound, decision: Decision) -> None:
        about = {**_about(found), "sayso.verdict": decision.word}
        span.note({"sayso.verdict": decision.word})
        took_ms = max(0, decision.at - found.row.opened_at)
        self._telemetry.measure("sayso.decision.time", took_ms / 1000, about)


class WatchedSweeper(Sweeper):
    """Looks at what waits, now and then, for whoever asks how much that is."""

    def __init__(self, parts: Parts, worker: Worker | None = None) -> None:
        super().__init__(parts, worker)
        self._gauges = Gauges(parts.store, telemetry_of(parts))

    async def sweep(self) -> int:
        """Do everything that is due now; say how many runs were touched."""
        touched = await super().sweep()
        try:
            await self._gauges.read_if_due()
        except SaysoError as error:
            # What was due is done: whoever asked for that is not to be told that it failed.
            log.warning("how much waits cannot be read: %s", type(error).__name__)
        return touched


class WatchedCourier(Courier):
    """Tells of what people are told."""

    async def _tell(self, notice: Notice) -> str:
        telemetry = telemetry_of(self._parts)
        # Reminders come for as long as nobody decides: none is below what has asked.
        with telemetry.span("sayso.deliver", parent="") as span:
            found = await read_hold(self._parts.store, notice.hold.id)
            if found is not None:
                _describe(span, found)
            error = await super()._tell(notice)
            outcome = "failed" if error else "told"
            about = {"sayso.kind": notice.kind, "sayso.outcome": outcome}
            span.note(about)
            if error:
                span.fail("NotTold")
            telemetry.count("sayso.deliveries", about)
            return error


def telemetry_of(parts: Parts) -> Telemetry:
    """Give what is told."""
    assert parts.telemetry is not None, "nobody watches"
    return parts.telemetry


async def read_hold(store: Store, name: object) -> HoldFound | None:
    """Look at a hold; None if there is none of that name, or it cannot be read now."""
    place = _place("hold", name)
    try:
        return None if place is None else await store.hold(*place)
    except SaysoError:
        return None


async def _read_asked(store: Store, name: object) -> list[HoldFound]:
    place = _place("req", name)
    if place is None:
        return []
    try:
        return await read_holds(store, HoldQuery(run_id=place[0], suspension=place[1]))
    except SaysoError:
        return []


def _place(prefix: str, name: object) -> tuple[str, int] | None:
    # What somebody made up is refused by what it is given to, in its own words.
    place = read_id(prefix, name) if isinstance(name, str) else None
    return place if place is not None and is_run_id(place[0]) else None


def _describe(span: Span, found: HoldFound) -> None:
    row = found.row
    span.note(
        {
            "sayso.run.id": row.run_id,
            "sayso.hold.id": hold_id(row.run_id, row.n),
            "sayso.agent": found.agent,
            "sayso.tool": row.tool,
            **_about(found),
        }
    )
    opened = decode(found.opened)
    if isinstance(opened, e.HoldOpened):
        span.link(opened.trace)


def _about(found: HoldFound) -> Attributes:
    return {"sayso.kind": found.row.kind, "sayso.risk": risk_of(found)}


def _word(result: Result | None) -> str:
    if isinstance(result, Done):
        return type(result.outcome).__name__.lower()
    return _RESULTS[type(result)]
