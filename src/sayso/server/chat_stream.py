"""A message of a chat as it is told: what has happened, then what happens, then an end.

Rule 1: nothing is kept but where the message is: a reader that comes back is told the message from
its beginning, and one that goes on with it only what its client does not have.
Rule 2: a stream ends when its run is suspended, because most clients cannot answer before. With
`continuous` it stays open for them for a while, and with `follow` until the run is finished.
Rule 3: it never just stops. An error says so, and so does a server that ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable

import msgspec

from sayso.app import Sayso
from sayso.domain.recorded import Recorded
from sayso.engine.feed import Delta
from sayso.errors import SaysoError, UnknownRun
from sayso.protocols.ai_sdk import Wire
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target, Telling
from sayso.server.chat_talk import FAMILY_MAX, Chat, read_family
from sayso.server.problem import FAULT, describe

log = logging.getLogger("sayso")

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
            source.follow(telling.runs)
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
        yield {"type": "error", "errorText": explain(error)}
    finally:
        await source.close()


def explain(error: SaysoError) -> str:
    """Say of an error what a client may know; the log has the rest."""
    problem = describe(error)
    if problem.status >= FAULT:
        log.error("a chat failed: %s: %s", type(error).__name__, error)
    return problem.detail


class _Source:
    """What happens in a run and in those below it, until it is finished or the server ends."""

    def __init__(self, app: Sayso, run_id: str, closing: asyncio.Event) -> None:
        self.closing = False
        self._app = app
        self._run_id = run_id
        self._heads: dict[str, int] = {}
        """Up to which entry each run was read."""
        self._feeds: dict[str, AsyncIterator[Recorded | Delta]] = {}
        self._next: dict[str, asyncio.Future[Recorded | Delta | None]] = {}
        self._ended: set[str] = set()
        self._closing = asyncio.ensure_future(closing.wait())

    async def past(self) -> list[Recorded]:
        """Read what is committed by now."""
        found = await read_family(self._app, self._run_id)
        if not found:
            raise UnknownRun(f"there is no run {self._run_id!r}")
        for entry in found:
            self._heads[entry.run_id] = max(entry.seq, self._heads.get(entry.run_id, 0))
        head = self._heads[self._run_id]
        self._feeds[self._run_id] = self._app.events(self._run_id, after=head, deltas=True)
        return found

    def follow(self, runs: Iterable[str]) -> None:
        """Follow these, too."""
        for run_id in runs:
            if run_id not in self._feeds and len(self._feeds) < FAMILY_MAX:
                self._feeds[run_id] = self._app.events(run_id, after=self._heads.get(run_id, 0))

    async def next(self, patience_s: float | None) -> Recorded | Delta | None:
        """Wait for the next one; None: there is none, or not in time."""
        while patience_s is None or patience_s > 0:
            for run_id, feed in self._feeds.items():
                if run_id not in self._next and run_id not in self._ended:
                    self._next[run_id] = asyncio.ensure_future(anext(feed, None))
            await asyncio.wait(
                {*self._next.values(), self._closing},
                timeout=patience_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            done = next((one for one, task in self._next.items() if task.done()), None)
            if done is None:
                self.closing = self._closing.done()
                return None
            found = self._next.pop(done).result()
            if found is not None or done == self._run_id:
                return found
            self._ended.add(done)
        return None

    async def close(self) -> None:
        """Let go of everything."""
        for task in (self._closing, *self._next.values()):
            task.cancel()
            await asyncio.wait({task})
        for feed in self._feeds.values():
            if (close := getattr(feed, "aclose", None)) is not None:
                await close()
