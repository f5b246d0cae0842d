"""What happens to holds, told as it happens to whoever may see them.

Rule 1: one reader of the store for all who listen at a process. Each is told only of holds that
they may see, and only their ids and how they stand; whatever they show, they ask for.
Rule 2: who does not keep up is told to look at the list again; nothing is kept for them.
Rule 3: the id of what a program is told is its place in the store: whoever comes back with it, to
whichever server, is told what has happened since.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi import Request

from sayso.app import Sayso
from sayso.domain.hold import hold_id
from sayso.engine.window import Window
from sayso.errors import SaysoError
from sayso.server.sse import event
from sayso.store.base import Store
from sayso.store.moved import Moved, find_end, moved_by

if TYPE_CHECKING:
    from sayso.store.views import HoldView

log = logging.getLogger("sayso")

PENDING_MAX = 100
"""How many holds a listener is behind at most; then they are told to look at the list instead."""
REPLAY_MAX = 10_000
"""How many entries are read for whoever comes back; who was away for longer looks at the list."""
LOOK_S = 15.0
"""How long the store is waited for before it is looked at in any case."""
AGAIN_S = 1.0


class Ear:
    """What one listener has not been told yet."""

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
        return self.take()

    def take(self) -> tuple[list[Moved], bool]:
        """Give what is to be told so far, as `wait` does."""
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
        """Let somebody hear all that happens after this returns."""
        self._ears.add(ear)
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.create_task(self._serve(), name="sayso-live")
        await self._ready.wait()

    def leave(self, ear: Ear) -> None:
        """Let somebody go; with the last one, stop reading."""
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
                    log.warning("nobody hears of what happens: %s", error)
                    await asyncio.sleep(AGAIN_S)
        finally:
            watch.close()

    async def _read(self, after: int | None) -> int:
        if after is None:
            return await find_end(self._store)
        while page := await self._store.tail(after=after):
            for entry in page:
                for moved in moved_by(entry):
                    for ear in self._ears:
                        ear.hear(moved)
            after = page[-1].position
        return after


def live_of(request: Request, app: Sayso) -> Live:
    """Give the one reader of this process."""
    state = request.app.state
    if getattr(state, "live", None) is None:
        state.live = Live(app.store)
    return state.live


async def seen(window: Window, moved: Moved) -> HoldView | None:
    """Give a hold that something has happened to, as it is now, if it is theirs to see."""
    try:
        return await window.hold(hold_id(moved.run_id, moved.n))
    except SaysoError:
        return None  # Not theirs to see, or gone by now.


async def hold_frames(
    live: Live, store: Store, window: Window, *, after: int | None, forever: bool
) -> AsyncIterator[bytes]:
    """Tell what has happened to holds since a place in the store, or from now on: `ready` first,
    then `hold` for each, or `list` where it is too much; with `forever`, what happens as well.
    """
    ear, past = Ear(), Ear()
    try:
        await live.join(ear)
        # All that comes after this is heard, and what is before it is read.
        place = await find_end(store)
        lost = after is not None and not await _replay(store, past, after, place)
        begin = place if after is None or lost else after
        yield event("{}", id=begin, name="ready")
        moved, behind = past.take()
        while True:
            if lost or behind:
                # Without an id: what follows has its own, and ids only ever grow.
                yield event("{}", name="list")
            for one in moved:
                hold = await seen(window, one)
                if hold is not None:
                    told = json.dumps({"id": hold.id, "status": hold.status})
                    yield event(told, id=one.position, name="hold")
            if not forever:
                return
            lost, (moved, behind) = False, await ear.wait()
            moved = [one for one in moved if one.position > place]
    finally:
        live.leave(ear)


async def _replay(store: Store, past: Ear, after: int, until: int) -> bool:
    """Hear what happened after a place; False if that is too much, or no place of this store."""
    if not until - REPLAY_MAX <= after <= until:
        return False
    while after < until and (page := await store.tail(after=after)):
        for entry in page:
            for moved in moved_by(entry):
                if moved.position <= until:
                    past.hear(moved)
        after = page[-1].position
    return True
