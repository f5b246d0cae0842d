"""A message of a chat as it is told: what has happened, then what happens, then an end.

Rule 1: nothing is kept but where the message is: a reader that comes back is told the message from
its beginning, and one that goes on with it only what its client does not have.
Rule 2: a stream ends when its run is suspended, because most clients cannot answer before. With
`continuous` it stays open for them for a while, and with `follow` until the run is finished.
Rule 3: it never just stops. An error says so, and so does a server that ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec

from sayso.app import Sayso
from sayso.domain import events as e
from sayso.domain.call import call_id
from sayso.domain.recorded import Recorded
from sayso.engine.feed import Delta
from sayso.errors import SaysoError, UnknownRun
from sayso.protocols.ai_sdk import Projection, Wire
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.server.chat_talk import Chat, Target

WAIT_S = 20.0
"""How long a continuous stream waits for an answer, if its client does not say."""
_UNFINISHED = ("running", "suspended")


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a client wants to be told."""

    wire: Wire = Wire()
    wait_s: float = 0.0
    """How long the stream stays open for an answer; 0: it ends at once."""
    follow: bool = False
    """It stays open until the run is finished, however long that waits for people."""


async def tell(
    app: Sayso, chat: Chat, target: Target, manner: Manner, closing: asyncio.Event
) -> AsyncIterator[Chunk]:
    """Tell a message, from where its client has it on, until there is nothing more to tell."""
    told = _Told(chat, target, manner)
    source = _Source(app, target.run_id, closing)
    try:
        for chunk in told.begin(await source.past()):
            yield chunk
        while not told.over:
            item = await source.next(told.patience_s)
            if item is None:
                break
            for chunk in told.add(item):
                yield chunk
        if source.closing:
            yield {"type": "error", "errorText": "The server is ending. Load the chat again."}
            return
        for chunk in told.end():
            yield chunk
    except SaysoError as error:
        yield {"type": "error", "errorText": str(error)}
    finally:
        await source.close()


class _Told:
    """What of a run belongs to one message, and what its client is told of it."""

    def __init__(self, chat: Chat, target: Target, manner: Manner) -> None:
        self._chat = chat
        self._target = target
        self._manner = manner
        self._projection = Projection(target.run_id, wire=manner.wire, who=chat.who)
        self._wanted = 0
        self._passed = False
        """Whether the run is at a later message."""
        self._suspended_at: float | None = None

    @property
    def over(self) -> bool:
        """Tell whether there is nothing more to tell for now."""
        status = self._projection.status
        if self._passed or status not in _UNFINISHED:
            return True
        stays = self._manner.follow or self._manner.wait_s > 0
        return status == "suspended" and not stays

    @property
    def patience_s(self) -> float | None:
        """How long to wait for something to happen; None: as long as it takes."""
        if self._suspended_at is None or self._manner.follow:
            return None
        since = asyncio.get_running_loop().time() - self._suspended_at
        return max(self._manner.wait_s - since, 0)

    def begin(self, past: list[Recorded]) -> Iterator[Chunk]:
        """Tell what has happened so far."""
        numbers = self._number(past)
        known = self._known(past, numbers)
        yield self._projection.start(self._wanted)
        yield from self._target.refusals
        if known < 0:
            self._projection.catch_up()
        for index, entry in enumerate(past):
            for chunk in self.add(entry):
                if index > known:
                    yield chunk
            if index == known:
                self._projection.go_on(self._target.answered)
            if self._passed:
                return
        yield from self._mine(self._projection.live())

    def add(self, item: Recorded | Delta) -> Iterator[Chunk]:
        """Tell what happens."""
        if self._projection.ends_message(item):
            if self._projection.message == self._wanted:
                self._passed = True
                return
            self._projection.close()
        yield from self._mine(self._projection.add(item))
        if self._projection.status != "suspended":
            self._suspended_at = None
        elif self._suspended_at is None:
            self._suspended_at = asyncio.get_running_loop().time()

    def end(self) -> list[Chunk]:
        """Tell how it stands."""
        return self._projection.close()

    def _mine(self, chunks: list[Chunk]) -> list[Chunk]:
        return chunks if self._projection.message == self._wanted else []

    def _number(self, past: list[Recorded]) -> list[int]:
        """Say to which message each entry belongs, and find the one that is wanted."""
        scan, numbers = Projection(self._target.run_id), list[int]()
        for entry in past:
            scan.add(entry)
            numbers.append(scan.message)
        self._wanted = self._target.message or scan.upcoming
        if self._wanted > scan.upcoming:
            raise UnknownRun("there is no such message")
        return numbers

    def _known(self, past: list[Recorded], numbers: list[int]) -> int:
        """Find the last entry that asked for a call that the client shows; -1: there is none."""
        found = -1
        for index, entry in enumerate(past):
            event = entry.event
            calls = event.calls if isinstance(event, e.TurnTaken) else ()
            if isinstance(event, e.CommandReceived):
                calls = (event.call,)
            names = {call_id(self._target.run_id, call.ref) for call in calls}
            if numbers[index] == self._wanted and not names.isdisjoint(self._target.seen):
                found = index
        return found


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
