"""Delivers notices: who is asked, who is asked as well by now, who is to be reminded, and what
became of it.

Rule 1: at least once. A notice that was handed over is told again if its courier dies before it
could say so; `Notice.id` is the same then.
Rule 2: never authority, and never in the way: what notices come to changes nothing in a run, and
nobody who decides waits for one.
Rule 3: bounded. So many at a time, so long for each, so often; what is still refused then lies
among the dead until somebody revives it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from sayso.domain import events as e
from sayso.domain.hold import read_id
from sayso.domain.value import Principal, Value
from sayso.engine.going import Begun
from sayso.engine.parcel import KINDS, LATER, Kind, Slip, read_slip, reminder_after
from sayso.engine.parts import Parts
from sayso.engine.people import People
from sayso.engine.thread import in_thread
from sayso.engine.voters import asked
from sayso.engine.wanted import SAY_MS, kinds_of, leave_word
from sayso.errors import SaysoError, StoreClosed, StoreError, contained, describe
from sayso.store.base import HoldFound, Store
from sayso.store.journal import decode
from sayso.store.outbox import Parcel
from sayso.store.views import HoldView, hold_view

log = logging.getLogger("sayso")

AT_ONCE = 10
"""How many notices are delivered at a time."""
NOTIFY_S = 30.0
"""How long one may take."""
TAKEN_MS = 120_000
"""How long a parcel is kept from others: longer than delivering it can take."""
TRIES_MAX = 10
BACKOFF_MS, BACKOFF_MS_MAX = 60_000, 3_600_000
ROUNDS_MAX = 1000
"""No `deliver` goes on for longer; what is left then is for the next one."""


class Notice(Value, frozen=True, kw_only=True):
    """Something that people are to be told about a hold."""

    id: str
    """The same whenever the same notice is told again."""
    kind: Kind
    """`asked`: it was opened, edited or handed over. `escalated`: others are asked as well.
    `reminder`: nobody has decided for so long. `voted`: somebody has decided, and it takes more of
    them. `settled`: it was decided, or is not asked any more. The last two are for whoever has them
    among its `tells`.
    """
    hold: HoldView
    """As it is right now."""
    to: tuple[str, ...]
    """Who may decide it, such as `user:mira` or `role:finance`."""
    added: tuple[str, ...] = ()
    """Those of them who were not asked at first."""
    times: int = 0
    """Which reminder this is by the rule's clock, from 1; those that nobody could be told count."""


class DeadNotice(Value, frozen=True, kw_only=True):
    """A notice that was given up."""

    id: str
    """What `revive` takes."""
    kind: str
    hold_id: str
    tries: int
    error: str


Notify = Callable[[Notice], Any]
"""Tells somebody; a function in a thread, or a coroutine function. If it has `tells`, it is given
notices of these.
"""


@runtime_checkable
class Keeping(Protocol):
    """What tells somebody, and keeps something of that in the store."""

    def attach(self, store: Store, people: People, project: str) -> None:
        """Take the store, and who is who in it; done when a `Sayso` is opened."""
        ...


class Courier:
    """Takes parcels that are due, and hands over what they are about."""

    def __init__(self, parts: Parts, notify: Notify) -> None:
        self._parts = parts
        self._outbox = parts.store.outbox
        self._notify = notify
        self._kinds = kinds_of(notify)
        self._said_at: int | None = None
        """When it last left word of what it delivers."""
        self._task: asyncio.Task[None] | None = None
        self._taking = asyncio.Lock()
        self._busy: set[asyncio.Task[None]] = set()
        self._stuck: list[Begun[Any]] = []
        """What did not end in time, and may go on for ever: each takes up a place until it ends."""
        self._delivered = 0

    def start(self) -> None:
        """Begin to deliver."""
        self._task = asyncio.create_task(self._serve(), name="sayso-courier")

    async def stop(self, timeout_s: float) -> None:
        """Take no more, and wait for what is being delivered."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._busy:
            await asyncio.wait(self._busy, timeout=timeout_s)
        # What is cut off here comes again.
        for task in self._busy:
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)

    async def deliver(self) -> int:
        """Deliver everything that is due now; say how many notices were."""
        before = self._delivered
        for _ in range(ROUNDS_MAX):
            if not await self._round() and not self._busy:
                break
            if self._busy:
                await asyncio.wait(self._busy, return_when=asyncio.FIRST_COMPLETED)
        return self._delivered - before

    async def _serve(self) -> None:
        while True:
            try:
                await self._leave_word()
                while await self._round():
                    if self._busy and self._room <= 0:
                        await asyncio.wait(self._busy, return_when=asyncio.FIRST_COMPLETED)
            except StoreClosed:
                return
            except StoreError as error:
                log.warning("the courier goes on after: %s", error)
            except Exception:
                # A courier that has ended is missed by nobody, and nobody is reminded any more.
                log.exception("the courier goes on after what should not happen")
            await asyncio.sleep(self._parts.bounds.look_s)

    async def _leave_word(self) -> None:
        """Let processes that tell nobody know what is delivered here, if that is to be known."""
        now = self._parts.store.now()
        due = self._said_at is None or now - self._said_at >= SAY_MS
        if due and hasattr(self._notify, "tells"):
            await leave_word(self._parts.store, self._kinds)
            self._said_at = now

    @property
    def _room(self) -> int:
        return AT_ONCE - len(self._busy) - len(self._stuck)

    async def _round(self) -> int:
        """Take as many parcels as there is room for; say how many were taken."""
        async with self._taking:
            self._stuck = [one for one in self._stuck if not one.ended]
            if self._room <= 0:
                return 0
            taken = await self._outbox.take(limit=self._room, lease_ms=TAKEN_MS)
            for parcel in taken:
                task = asyncio.create_task(self._carry(parcel), name=f"sayso-{parcel.id}")
                self._busy.add(task)
                task.add_done_callback(self._busy.discard)
            return len(taken)

    async def _carry(self, parcel: Parcel) -> None:
        try:
            await self._hand_over(parcel)
        except StoreError as error:
            log.warning("%s comes again after: %s", parcel.id, error, extra=_ids(parcel.id))
        except Exception as error:
            log.exception("%s could not be delivered", parcel.id, extra=_ids(parcel.id))
            await self._refused(parcel, describe(error))

    async def _hand_over(self, parcel: Parcel) -> None:
        now = self._parts.store.now()
        if parcel.kind not in (*KINDS, LATER):
            # Of a newer version, which may be at work on the same store.
            await self._outbox.again(parcel, now + BACKOFF_MS_MAX)
            return
        slip = read_slip(parcel.data)
        place = None if slip is None else read_id("hold", slip.hold)
        if slip is None or place is None:
            await self._outbox.dead(parcel, "it is not understood")
            return
        if parcel.tries > TRIES_MAX:
            # Whoever took it never came back to say what was wrong.
            await self._outbox.dead(parcel, parcel.error or "its couriers died")
            return
        if _told_as(parcel) not in self._kinds:
            await self._refused(parcel, "nobody here tells of it")
            return
        found = await self._parts.store.hold(*place)
        wanted = "settled" if parcel.kind == "settled" else "open"
        if found is not None and found.row.status == "decided":
            # Whoever has decided may take it back, and then it asks the others again.
            await self._outbox.again(parcel, now + BACKOFF_MS)
            return
        if found is None or found.row.status != wanted:
            await self._outbox.done(parcel)
            return
        if wanted == "settled":
            await self._deliver(parcel, slip, found, now)
            return
        if found.row.deadline is not None and found.row.deadline <= now:
            # Its time is up, and it is about to be settled.
            await self._outbox.again(parcel, now + BACKOFF_MS)
            return
        if slip.to:
            who = await self._parts.records.authority(parcel.project, Principal(id=slip.to))
            if await asked(self._parts, found, who) is None:
                await self._outbox.done(parcel)
                return
        await self._deliver(parcel, slip, found, now)

    async def _deliver(self, parcel: Parcel, slip: Slip, found: HoldFound, now: int) -> None:
        view = hold_view(found)
        due = reminder_after(found.row.opened_at, view.ruling.remind_every_ms, now)
        again = due if parcel.kind == "reminder" else None
        times = 0 if again is None else again[0]
        opened = decode(found.opened)
        first = opened.approvers if isinstance(opened, e.HoldOpened) else ()
        notice = Notice(
            id=f"{parcel.id}:{times or slip.at}",
            kind=_told_as(parcel),
            hold=view,
            to=(f"user:{slip.to}",) if slip.to else view.approvers,
            added=tuple(who for who in view.approvers if who not in first),
            times=times,
        )
        error = await self._tell(notice)
        if error:
            await self._refused(parcel, error)
        elif again is not None:
            self._delivered += 1
            await self._outbox.again(parcel, again[1], afresh=True)
        else:
            self._delivered += 1
            await self._outbox.done(parcel)

    async def _tell(self, notice: Notice) -> str:
        """Hand a notice over; say what went wrong, if anything did."""
        begun = Begun(_call(self._notify, notice))
        begun.task.add_done_callback(_forget)
        try:
            done, _ = await asyncio.wait({begun.task}, timeout=NOTIFY_S)
        finally:
            begun.task.cancel()
        if not done:
            self._stuck.append(begun)
            ids = {"run_id": notice.hold.run_id, "hold_id": notice.hold.id}
            log.warning("%s: notify did not end within %g s", notice.id, NOTIFY_S, extra=ids)
            return f"it did not end within {NOTIFY_S:g} seconds"
        if begun.task.cancelled():
            return "it was cancelled from within"
        error = begun.task.exception()
        return "" if error is None else describe(error)

    async def _refused(self, parcel: Parcel, error: str) -> None:
        try:
            if parcel.tries >= TRIES_MAX:
                # Why is said with the dead one: it may quote what somebody was to be told.
                ids, tries = _ids(parcel.id), parcel.tries
                log.error("%s is given up after %d tries", parcel.id, tries, extra=ids)
                await self._outbox.dead(parcel, error)
                return
            wait_ms = min(BACKOFF_MS * 2 ** (parcel.tries - 1), BACKOFF_MS_MAX)
            await self._outbox.again(parcel, self._parts.store.now() + wait_ms, error=error)
        except SaysoError as worse:
            log.warning("%s comes again after: %s", parcel.id, worse, extra=_ids(parcel.id))


class Notices:
    """What people are told of holds, and what nobody could be told."""

    def __init__(self, parts: Parts, project: str, courier: Courier | None) -> None:
        self._outbox = parts.store.outbox
        self._project = project
        self._courier = courier

    async def deliver(self) -> int:
        """Deliver what is due right now rather than at the courier's next look; for tests and cron.
        Say how many notices were delivered: none without `notify`.
        """
        return 0 if self._courier is None else await self._courier.deliver()

    async def dead(
        self, *, limit: int = 50, after: str | None = None, project: str | None = None
    ) -> list[DeadNotice]:
        """List the notices that were given up, by id, from the one after an id on."""
        found = await self._outbox.dead_ones(project or self._project, limit=limit, after=after)
        return [_dead(parcel) for parcel in found]

    async def revive(self, notice: str | DeadNotice, *, project: str | None = None) -> bool:
        """Try a notice again that was given up; tell whether there was one."""
        name = notice.id if isinstance(notice, DeadNotice) else notice
        return await self._outbox.revive(project or self._project, name)


def _ids(parcel_id: str) -> dict[str, str]:
    hold = parcel_id.partition(":")[2]
    place = read_id("hold", hold)
    return {} if place is None else {"run_id": place[0], "hold_id": hold}


def _dead(parcel: Parcel) -> DeadNotice:
    slip = read_slip(parcel.data)
    return DeadNotice(
        id=parcel.id,
        kind=parcel.kind,
        hold_id="" if slip is None else slip.hold,
        tries=parcel.tries,
        error=parcel.error,
    )


def _told_as(parcel: Parcel) -> Kind:
    found: Kind | None = next((kind for kind in KINDS if kind == parcel.kind), None)
    return found or "reminder"


def _forget(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # One that comes too late is nobody's news.


async def _call(notify: Notify, notice: Notice) -> None:
    with contained("notify"):
        if inspect.iscoroutinefunction(notify) or inspect.iscoroutinefunction(
            type(notify).__call__
        ):
            await notify(notice)
            return
        result = await in_thread(partial(notify, notice), {}, "notify")
        if inspect.isawaitable(result):
            await result
