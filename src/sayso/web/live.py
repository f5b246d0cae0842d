"""What happens, told to browsers as it happens: which requests, and how they stand.

Rule 1: one reader of the store for all sessions of a process. Each session is told only of holds
that it may see, and only their ids and how they stand; whatever it shows, it asks for.
Rule 2: who does not keep up, or comes back, is told to look at the list again; nothing is kept for
them. So nothing grows, and nothing is missed.
Rule 3: a stream ends with its session.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import cast

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from sayso.app import Sayso
from sayso.domain import events as e
from sayso.domain.hold import hold_id
from sayso.engine.window import Window
from sayso.errors import SaysoError
from sayso.server.caller import App
from sayso.server.seat import Seats
from sayso.server.sse import alive, event
from sayso.store.base import Entry, Store
from sayso.store.journal import decode
from sayso.store.views import HoldView
from sayso.web.page import PageRoute
from sayso.web.session import SignedIn, is_still_in
from sayso.web.words import by_who, decided

log = logging.getLogger("sayso")

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PENDING_MAX = 100
"""How many holds a session is behind at most; then it is told to look at the list instead."""
RETRY_MS = 2000
"""After how long a browser comes back. It says then that it was here: see `again`."""
LOOK_S = 15.0
"""How long the store is waited for before it is looked at in any case."""
AGAIN_S = 1.0
_TAGS = (b'"hold.', b'"vote.', b'"decision.')
_LIST = event("true", name="list")
"""Look at the list, and whether what is open is still so."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A hold that something has happened to."""

    run_id: str
    n: int
    position: int
    wide: bool = False
    """It may ask others from now on: whoever it asked before may not be told of it any more."""


class Ear:
    """What one session has not been told yet."""

    def __init__(self) -> None:
        self._moved: dict[tuple[str, int], Moved] = {}
        self._behind = False
        self._rung = asyncio.Event()

    def hear(self, moved: Moved) -> None:
        """Take note of something. It is told once, as it stands when it is told."""
        self._moved.pop((moved.run_id, moved.n), None)
        if len(self._moved) >= PENDING_MAX:
            self._moved.clear()
            self._behind = True
        else:
            self._moved[moved.run_id, moved.n] = moved
        self._rung.set()

    async def wait(self) -> tuple[list[Moved], bool]:
        """Wait for what is to be told; the second says whether it is the list instead."""
        await self._rung.wait()
        self._rung.clear()
        moved, behind = list(self._moved.values()), self._behind
        self._moved, self._behind = {}, False
        return moved, behind


class Live:
    """Reads what is committed, for as long as anybody listens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ears: set[Ear] = set()
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def join(self, ear: Ear) -> None:
        """Let a session hear all that happens after this returns."""
        self._ears.add(ear)
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.create_task(self._serve(), name="sayso-live")
        await self._ready.wait()

    def leave(self, ear: Ear) -> None:
        """Let a session go; with the last one, stop reading."""
        self._ears.discard(ear)
        if not self._ears and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _serve(self) -> None:
        watch = self._store.watch()
        try:
            after = None
            while True:
                try:
                    after = await self._read(after)
                    self._ready.set()
                    await watch.wait(LOOK_S)
                except SaysoError as error:
                    # The store is away; what happens meanwhile is in it when it is back.
                    log.warning("pages hear nothing of what happens: %s", error)
                    await asyncio.sleep(AGAIN_S)
        finally:
            watch.close()

    async def _read(self, after: int | None) -> int:
        if after is None:
            return await find_end(self._store)
        while page := await self._store.tail(after=after):
            for entry in page:
                for moved in _moved(entry):
                    for ear in self._ears:
                        ear.hear(moved)
            after = page[-1].position
        return after


async def find_end(store: Store) -> int:
    """Find the position of the last entry, in a number of looks that hardly grows with it."""
    low, step = 0, 1
    while page := await store.tail(after=low + step, limit=1):
        low, step = page[0].position, step * 2
    # Nothing comes after `high`, and something is at `low`, unless there is nothing at all.
    high = low + step
    while low < high:
        middle = (low + high) // 2
        page = await store.tail(after=middle, limit=1)
        low, high = (page[0].position, high) if page else (low, middle)
    return high


def _moved(entry: Entry) -> list[Moved]:
    # Most entries are about nothing that pages list, and are not even read.
    if entry.redacted or not any(tag in entry.payload[:64] for tag in _TAGS):
        return []
    try:
        found = decode(entry)
    except SaysoError:
        return []  # Written by a newer Sayso; its own pages know what it is.
    match found:
        case (
            e.HoldOpened(hold=n)
            | e.HoldRevised(hold=n)
            | e.VoteCast(hold=n)
            | e.VoteUndone(hold=n)
            | e.HoldSettled(hold=n)
            | e.DecisionEffective(hold=n)
            | e.DecisionUndone(hold=n)
        ):
            wide = isinstance(found, e.HoldRevised)
        case e.HoldEscalated(hold=n) | e.HoldReassigned(hold=n):
            wide = True
        case _:
            return []
    return [Moved(run_id=entry.run_id, n=n, position=entry.position, wide=wide)]


@router.get("/live")
async def follow(request: Request, app: App, visitor: SignedIn) -> StreamingResponse:
    """Tell a session what happens to the requests that it may see, until it ends."""
    visitor.caller.need("read")
    again = "last-event-id" in request.headers
    frames = _frames(live_of(request, app), visitor.caller.window(app), again=again)

    still = partial(is_still_in, request, visitor)
    with cast("Seats", request.app.state.streams).take(visitor.caller) as seat:
        return seat.answer(alive(frames, request.app.state.closing, recheck=still))


def live_of(request: Request, app: Sayso) -> Live:
    """Give the one reader of this process."""
    state = request.app.state
    if getattr(state, "live", None) is None:
        state.live = Live(app.store)
    return state.live


async def _frames(live: Live, window: Window, *, again: bool) -> AsyncIterator[bytes]:
    ear = Ear()
    yield f"retry: {RETRY_MS}\n\n".encode()
    try:
        await live.join(ear)
        # Whatever it knew is from before: it looks, and hears of what comes after.
        yield event(json.dumps(again), id=0, name="list")
        while True:
            moved, behind = await ear.wait()
            if behind:
                yield _LIST
                continue
            if any([await _may_leave(window, one) for one in moved if one.wide]):
                yield _LIST
            for one in moved:
                told = await _told(window, one)
                if told is not None:
                    yield event(json.dumps(told), id=one.position, name="hold")
    finally:
        live.leave(ear)


async def _may_leave(window: Window, moved: Moved) -> bool:
    """Tell whether a hold could have been in their list; what is of another project could not."""
    try:
        await window.reach(hold_id(moved.run_id, moved.n))
    except SaysoError:
        return False
    return True


async def _told(window: Window, moved: Moved) -> dict[str, str] | None:
    try:
        hold = await window.hold(hold_id(moved.run_id, moved.n))
    except SaysoError:
        return None  # Not theirs to see, or gone by now.
    return {"id": hold.id, "status": hold.status, "said": _said(hold)}


def _said(hold: HoldView) -> str:
    if hold.status == "open" or hold.decision is None:
        return ""
    return f"{decided(hold)}{by_who(hold.decision)}."
