"""Saying something of a run in passing, between machines: notices on a channel of their own.

Whoever wants to hear of a run says so, and says it again every few seconds; whoever works on one
speaks only if somebody has said so lately. The channel is called by the store's id, because anybody
who may connect to the database may listen to a name that they know.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any, cast

import msgspec

from sayso.errors import SaysoError
from sayso.store.aside import TEXT_BYTES_MAX, Close, Hear
from sayso.store.postgres_link import Link

RENEW_S = 3.0
"""How often to say of which runs one wants to hear."""
LISTENED_S = 10.0
"""How long such a word counts."""
QUEUE_MAX = 64
"""What waits to be said; beyond it, the oldest is lost."""
AT_ONCE_MAX = 16
NAMED_MAX = 100
"""Of how many runs one notice says that somebody wants to hear of them: some 5,000 bytes."""
# Nothing of it is kept, so no disk is waited for.
_SAY = """
select pg_notify(%s, said), set_config('synchronous_commit', 'off', true)
from unnest(%s::text[]) said
"""
log = logging.getLogger("sayso.store")


class PostgresAside:
    """What is said in passing, over one store's connections."""

    def __init__(self, link: Link, sender: str, channel: str) -> None:
        self.channel = channel
        self._link = link
        self._sender = sender
        self._hears: dict[str, set[Hear]] = {}
        self._listened: dict[str, float] = {}
        """Until when others want to hear of a run, by this machine's clock."""
        self._queue: deque[str] = deque(maxlen=QUEUE_MAX)
        self._saying: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._closed = False

    def mention(self, run_id: str, text: str) -> None:
        """Put it where it is said in a moment, if anybody wants to hear it."""
        if self._listened.get(run_id, 0.0) < time.monotonic():
            self._listened.pop(run_id, None)
            return
        self._say([self._sender, run_id, text])

    def overhear(self, run_id: str, hear: Hear) -> Close:
        """Listen until closed."""
        self._hears.setdefault(run_id, set()).add(hear)
        self._news.set()
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="sayso-aside")

        def close() -> None:
            hears = self._hears.get(run_id, set())
            hears.discard(hear)
            if not hears:
                self._hears.pop(run_id, None)
                self._news.set()

        return close

    def heard(self, notice: str) -> None:
        """Take a notice of the channel. Anybody may call out on one: what is odd is nothing."""
        try:
            sender, run_id, text = cast("tuple[Any, ...]", _NOTICE.decode(notice))
        except (msgspec.MsgspecError, ValueError):
            return
        if sender == self._sender or self._closed:
            return
        if text is None:
            until = time.monotonic() + LISTENED_S
            self._listened.update(dict.fromkeys(run_id.split(), until))
            return
        for hear in tuple(self._hears.get(run_id, ())):
            hear(text)

    async def close(self) -> None:
        """Stop listening and saying."""
        tasks = {task for task in (self._saying, self._renewing) if task is not None}
        self._saying = self._renewing = None
        self._hears.clear()
        self._listened.clear()
        self._closed = True
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _renew(self) -> None:
        while self._hears:
            self._news.clear()
            names = list(self._hears)
            for first in range(0, len(names), NAMED_MAX):
                self._say([self._sender, " ".join(names[first : first + NAMED_MAX]), None])
            try:
                async with asyncio.timeout(RENEW_S):
                    await self._news.wait()
            except TimeoutError:
                continue
        self._renewing = None

    def _say(self, what: list[str | None]) -> None:
        try:
            said = msgspec.json.encode(what)
        except (UnicodeEncodeError, msgspec.MsgspecError):
            return  # Half a character: the turn itself has the text.
        if len(said) > TEXT_BYTES_MAX + 500:
            return
        self._queue.append(said.decode())
        if self._saying is None:
            self._saying = asyncio.create_task(self._say_all(), name="sayso-say")

    async def _say_all(self) -> None:
        """Say what waits, a statement at a time: under pressure only the queue loses something."""
        try:
            while self._queue:
                count = min(len(self._queue), AT_ONCE_MAX)
                batch = [self._queue.popleft() for _ in range(count)]
                await self._link.read(_SAY, (self.channel, batch))
        except SaysoError as error:
            log.debug("nothing said to %s: %s", self._link.name, type(error).__name__)
        finally:
            self._saying = None


_NOTICE = msgspec.json.Decoder(tuple[str, str, str | None])
