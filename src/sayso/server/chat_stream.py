"""A message of a chat as it is told: what has happened, then what happens, then an end.

Rule 1: nothing is kept but where the message is: a reader that comes back is told the message from
its beginning, and one that goes on with it only what its client does not have.
Rule 2: a stream ends when its run is suspended, because most clients cannot answer before. With
`continuous` it stays open for them for a while, and with `follow` until the run is finished.
Rule 3: it never just stops. An error says so, and so does a server that ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from sayso.app import Sayso
from sayso.domain.recorded import Recorded
from sayso.engine.feed import Delta
from sayso.errors import SaysoError, UnknownRun
from sayso.protocols.ai_sdk import Wire
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target, Telling
from sayso.server.chat_talk import Chat

WAIT_S = 20.0
"""How long a continuous stream waits for an answer, if its client does not say."""


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a client wants to be told."""

    wire: Wire = Wire()
    wait_s: float = 0.0
    """How long the stream stays open for an answer; 0: it ends at once."""
    follow: bool = False
    """It stays open until the run is finished, however long that waits for people."""


async def tell(
    app: Sayso, chat: Chat, target: Target, manner: Manner, closing: asyncio.Event
) -> AsyncGenerator[Chunk]:
    """Tell a message, from where its client has it on, until there is nothing more to tell."""
    telling = Telling(target, wire=manner.wire, who=chat.who)
    source = _Source(app, target.run_id, closing)
    clock = asyncio.get_running_loop().time
    until: float | None = None  # While it waits for an answer: for how long.
    try:
        for chunk in telling.begin(await source.past()):
            yield chunk
        while not telling.over:
            if not telling.waits or manner.follow:
                until = None
            elif until is None:
                until = clock() + manner.wait_s
            item = await source.next(None if until is None else until - clock())
            if item is None:
                break
            for chunk in telling.add(item):
                yield chunk
        if source.closing:
            yield {"type": "error", "errorText": "The server is ending. Load the chat again."}
            return
        for chunk in telling.end():
            yield chunk
    except SaysoError as error:
        yield {"type": "error", "errorText": str(error)}
    finally:
        await source.close()


class _Source:
    """A run's entries and text, until it is finished or the server ends."""

    def __init__(self, app: Sayso, run_id: str, closing: asyncio.Event) -> None:
        self.closing = False
        self._app = app
        self._run_id = run_id
        self._items = app.events(run_id, deltas=True)
        self._next: asyncio.Future[Recorded | Delta | None] | None = None
        self._early: list[Delta] = []
        self._closing = asyncio.ensure_future(closing.wait())

    async def past(self) -> list[Recorded]:
        """Read what is committed by now."""
        row = await self._app.store.load(self._run_id)
        if row is None:
            raise UnknownRun(f"there is no run {self._run_id!r}")
        found: list[Recorded] = []
        while not found or found[-1].seq < row.seq:
            item = await anext(self._items, None)
            if isinstance(item, Delta):
                self._early.append(item)
            elif item is None:
                break
            else:
                found.append(item)
        return found

    async def next(self, patience_s: float | None) -> Recorded | Delta | None:
        """Wait for the next one; None: there is none, or not in time."""
        if patience_s is not None and patience_s <= 0:
            return None
        if self._early:
            return self._early.pop(0)
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._items, None))
        await asyncio.wait(
            {self._next, self._closing}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
        )
        if not self._next.done():
            self.closing = self._closing.done()
            return None
        found, self._next = self._next.result(), None
        return found

    async def close(self) -> None:
        """Let go of everything."""
        for task in (self._closing, self._next):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        if (close := getattr(self._items, "aclose", None)) is not None:
            await close()
