"""Hearing of what other processes commit: a connection that listens, and a look now and then.

What is heard is a hint and nothing more; whoever hears nothing finds out at the next look, which
also keeps the estimate of the database's clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
import psycopg
from psycopg import sql

from sayso.errors import SaysoError
from sayso.store.postgres_aside import PostgresAside
from sayso.store.postgres_link import Conn, Link

POLL_S = 0.5
"""How often to look. Whatever the network does to hints, nobody hears later than this."""
LISTEN_S = 2.0
"""How long to listen before looking whether to go on."""
RETRY_S = 0.5
RETRY_MAX_S = 5.0
MOVED_MAX = 1000
"""Beyond it, everybody is told that something has moved."""
_LOOK = "select place, rung, now, ticks from look()"
_MOVED = """
select distinct r.id from journal j join runs r on r.k = j.run where j.position > %s limit %s
"""
log = logging.getLogger("sayso.store")


class Clocks:
    """What the database's clocks show, reckoned from this machine's own since the last look.

    While there is no look they run on, and may be put back by the next: all who share the store
    have to agree, because what one writes down by its lease clock others compare with theirs.
    """

    def __init__(self) -> None:
        self._now = 0
        self._tick = 0

    def set(self, now: int, tick: int, asked: float, answered: float) -> None:
        """Note what was shown half-way between question and answer."""
        middle = int((asked + answered) * 500)
        self._now, self._tick = now - middle, tick - middle

    def now(self) -> int:
        return self._now + _ms()

    def tick(self) -> int:
        return self._tick + _ms()


class Ear:
    """Rings for what others have committed. `on_moved(None)`: whichever runs it was."""

    def __init__(
        self,
        link: Link,
        sender: str,
        clocks: Clocks,
        on_moved: Callable[[list[str] | None], None],
        aside: PostgresAside,
    ) -> None:
        self._aside = aside
        self._link = link
        self._sender = sender
        self._clocks = clocks
        self._on_moved = on_moved
        self._seen = 0
        self._rung = 0
        self.fault = ""
        """Why the store is not what it was when it was opened; empty if it is."""
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, *, listen: bool = True) -> None:
        """Look where the store is, and go on looking; listen, if that is wanted."""
        await self._look(first=True)
        self._tasks = [asyncio.create_task(self._poll(), name="sayso-poll")]
        if listen:
            self._tasks.append(asyncio.create_task(self._listen(), name="sayso-ear"))

    async def close(self) -> None:
        """Stop listening and looking."""
        tasks, self._tasks = self._tasks, []
        await end(tasks)

    def own(self, first: int, last: int) -> None:
        """Note what this very store has committed after a position: that has been told about."""
        if first == self._seen:
            self._seen = last

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self._look()
            except SaysoError as error:
                log.debug("no look at %s: %s", self._link.name, error)

    async def _look(self, *, first: bool = False) -> None:
        asked, before = time.monotonic(), self._seen
        ((place, rung, now, tick),) = await self._link.read(_LOOK)
        self._clocks.set(now, tick, asked, time.monotonic())
        seen, self._rung, was = self._seen, rung, self._rung
        if first:
            self._seen = place
            return
        if place < before:
            # Restored, or carried on by a replica that had not heard of all that was answered.
            self.fault = f"it had come to position {before:,}, and was put back to {place:,}"
            return
        if place > seen:
            rows = await self._link.read(_MOVED, (seen, MOVED_MAX))
            self._seen = max(self._seen, place)
            self._on_moved([row[0] for row in rows] if len(rows) < MOVED_MAX else None)
        elif rung != was:
            self._on_moved([])

    async def _listen(self) -> None:
        heard = {self._link.address.channel: self._hear, self._aside.channel: self._aside.heard}
        await listen(self._link, heard)

    def _hear(self, text: str) -> None:
        try:
            said = cast("tuple[Any, ...]", _HINT.decode(text))
        except ValueError:
            return  # Anybody may call out on a channel.
        sender, _, _, moved = said
        # Where that was is not believed: a forged hint must not hide what a look would find.
        if sender != self._sender:
            self._on_moved(moved)


async def listen(
    link: Link,
    heard: Mapping[str, Callable[[str], None]],
    opened: Callable[[], None] | None = None,
) -> None:
    """Hear what is called out, by channel, on a connection of its own, and on another one when
    that is cut; `opened` is called each time, because nobody knows what was missed. Ends only when
    it is cancelled.
    """
    pause = RETRY_S
    while True:
        conn: Conn | None = None
        try:
            conn = await link.connect()
            for channel in heard:
                await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            pause = RETRY_S
            if opened is not None:
                opened()
            while not _is_cancelled():
                async for notice in conn.notifies(timeout=LISTEN_S):
                    heard[notice.channel](notice.payload)
        except (SaysoError, psycopg.Error, OSError) as error:
            log.debug("not listening to %s: %s", link.name, type(error).__name__)
        finally:
            if conn is not None:
                with contextlib.suppress(psycopg.Error, OSError):
                    await conn.close()
        if _is_cancelled():
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, RETRY_MAX_S)


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End tasks that use the driver, which now and then swallows a cancellation."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.2)


def _is_cancelled() -> bool:
    """Tell whether this task was to end: the driver may have swallowed that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _ms() -> int:
    return int(time.monotonic() * 1000)


_HINT = msgspec.json.Decoder(tuple[str, int, int, list[str] | None])
