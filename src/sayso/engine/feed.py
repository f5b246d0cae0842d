"""Following runs: the journal from any entry on, then live, and text as it comes.

Rule: the journal is the truth and is read from the store; nothing is missed and nothing comes
twice. Text deltas are a courtesy of the process that works on the run: they may be lost, and the
turn that follows has the whole text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from sayso.domain import events as e
from sayso.domain.recorded import Recorded
from sayso.domain.value import Value
from sayso.engine.ids import look_up
from sayso.errors import UnknownRun
from sayso.store.base import Store
from sayso.store.journal import recorded

DELTAS_MAX = 1000
"""A reader this far behind on text loses the oldest; the turn itself is never lost."""
_ENDS = (e.RunCompleted, e.RunFailed, e.RunCancelled)


class Delta(Value, frozen=True, kw_only=True):
    """A piece of text of a turn that is not over yet."""

    run_id: str
    turn: int
    text: str
    at: int = 0
    """How many characters of the turn came before it; from 0 again if its model is asked again."""


class Feed:
    """Tails journals, and carries text deltas within this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: dict[str, set[asyncio.Queue[Delta]]] = {}

    def emit(self, delta: Delta) -> None:
        """Hand a piece of text to whoever listens."""
        for queue in self._readers.get(delta.run_id, ()):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(delta)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Recorded]:
        """Give every entry after one, as soon as it is committed, until the run is finished."""
        watch = self._store.watch(look_up(run_id))
        after = max(after, 0)
        try:
            row = await self._store.load(run_id)
            if row is None:
                raise UnknownRun(f"there is no run {run_id!r}")
            while True:
                page = await self._store.journal(run_id, after=after)
                for entry in page:
                    found = recorded(entry)
                    after = found.seq
                    yield found
                    if isinstance(found.event, _ENDS):
                        return
                if not page and await self._finished(run_id, after):
                    return
                if not page:
                    await watch.wait()
        finally:
            watch.close()

    async def follow_all(self, run_id: str, *, after: int = 0) -> AsyncIterator[Recorded | Delta]:
        """Like `follow`, with the text of turns under way in between."""
        queue: asyncio.Queue[Delta] = asyncio.Queue(DELTAS_MAX)
        self._readers.setdefault(look_up(run_id), set()).add(queue)
        entries = self.follow(run_id, after=after)
        entry = asyncio.ensure_future(anext(entries))
        text = asyncio.ensure_future(queue.get())
        try:
            while True:
                await asyncio.wait({entry, text}, return_when=asyncio.FIRST_COMPLETED)
                while text.done():
                    yield text.result()
                    text = asyncio.ensure_future(queue.get())
                    await asyncio.sleep(0)
                if entry.done():
                    yield entry.result()
                    entry = asyncio.ensure_future(anext(entries))
        except StopAsyncIteration:
            return
        finally:
            text.cancel()
            entry.cancel()
            await asyncio.wait({entry, text})
            await entries.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            readers = self._readers[run_id]
            readers.discard(queue)
            if not readers:
                del self._readers[run_id]

    async def _finished(self, run_id: str, after: int) -> bool:
        # Whoever starts to follow behind the end must not wait for more.
        row = await self._store.load(run_id)
        return row is not None and row.seq <= after and row.status not in ("running", "suspended")
