"""Following runs: the journal from any entry on, then live, and text as it comes.

Rule 1: the journal is the truth and is read from the store; nothing is missed and nothing comes
twice.
Rule 2: text deltas are a courtesy of the process that works on the run: they may be lost, and the
turn that follows has the whole text. None comes after that turn.
Rule 3: other processes are told of them in passing, a few times a second, and only if they follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import msgspec
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.recorded import Recorded
from sayso.domain.value import Value
from sayso.engine.ids import look_up
from sayso.errors import UnknownRun
from sayso.store.base import Store
from sayso.store.journal import recorded

DELTAS_MAX = 1000
"""A reader this far behind on text loses the oldest; the turn itself is never lost."""
SAY_S = 0.075
"""How long text is gathered before other processes are told."""
PIECE = 900
"""How many characters they are told at once: never more than a store can carry, however they are
written.
"""
SAID_MAX = 20 * PIECE
"""No more at a time; the rest is lost to them."""
UNSAID_MAX = 8
_ENDS = (e.RunCompleted, e.RunFailed, e.RunCancelled)


class Delta(Value, frozen=True, kw_only=True):
    """A piece of text of a turn that is not over yet."""

    run_id: str
    turn: int
    """The number that the turn has, unless another strand is faster."""
    text: str
    strand: str = e.MAIN
    seen: int = 0
    """The last entry that the model was shown. The `turn.taken` of this strand that says the same
    has the whole text, and takes the place of all its deltas.
    """
    at: int = 0
    """How many characters of the text come before it. 0: the model begins, perhaps anew; more than
    have come: some were lost.
    """


class Voice:
    """What a model says, until its answer is there: each piece with its place."""

    def __init__(self, feed: Feed, first: Delta) -> None:
        self._feed = feed
        self._first = first
        self._at = 0

    def emit(self, text: str) -> None:
        """Hand a piece of text to whoever follows."""
        self._feed.emit(replace(self._first, text=text, at=self._at))
        self._at += len(text)


class Feed:
    """Tails journals, and carries text deltas to whoever follows, here and elsewhere."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._readers: dict[str, set[asyncio.Queue[Delta]]] = {}
        self._unsaid: dict[str, list[Delta]] = {}
        """What other processes have not been told yet, by run."""

    def emit(self, delta: Delta) -> None:
        """Hand a piece of text to whoever listens."""
        self._hand(delta)
        waiting = self._unsaid.setdefault(delta.run_id, [])
        if not self._unsaid[delta.run_id]:
            asyncio.get_running_loop().call_later(SAY_S, self._say, delta.run_id)
        last = waiting[-1] if waiting else None
        if last is not None and _goes_on(last, delta):
            waiting[-1] = replace(last, text=last.text + delta.text)
        elif len(waiting) < UNSAID_MAX:
            waiting.append(delta)

    def _say(self, run_id: str) -> None:
        """Tell other processes what has come since the last time."""
        for delta in self._unsaid.pop(run_id, ()):
            for first in range(0, min(len(delta.text), SAID_MAX), PIECE):
                piece = delta.text[first : first + PIECE]
                whole = replace(delta, text=piece, at=delta.at + first)
                try:
                    said = msgspec.json.encode(whole).decode()
                except (UnicodeEncodeError, msgspec.MsgspecError):
                    continue  # Half a character: the turn itself has the text.
                self._store.mention(run_id, said)

    def _hand(self, delta: Delta) -> None:
        for queue in self._readers.get(delta.run_id, ()):
            _put(queue, delta)

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
        deaf = self._store.overhear(run_id, partial(_overheard, queue, run_id, after))
        taken: dict[str, int] = {}
        entries = self.follow(run_id, after=after)
        entry = asyncio.ensure_future(anext(entries))
        text = asyncio.ensure_future(queue.get())
        try:
            while True:
                await asyncio.wait({entry, text}, return_when=asyncio.FIRST_COMPLETED)
                while text.done():
                    delta = text.result()
                    if delta.seen > taken.get(delta.strand, -1):
                        yield delta
                    text = asyncio.ensure_future(queue.get())
                    await asyncio.sleep(0)
                if entry.done():
                    found = entry.result()
                    if isinstance(found.event, e.TurnTaken):
                        taken[found.event.strand] = found.event.seen
                    yield found
                    entry = asyncio.ensure_future(anext(entries))
        except StopAsyncIteration:
            return
        finally:
            deaf()
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


def _goes_on(last: Delta, delta: Delta) -> bool:
    same = (last.strand, last.seen, last.turn) == (delta.strand, delta.seen, delta.turn)
    return same and last.at + len(last.text) == delta.at


def _put(queue: asyncio.Queue[Delta], delta: Delta) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(delta)


def _overheard(queue: asyncio.Queue[Delta], run_id: str, after: int, said: str) -> None:
    """Take what another process has said, unless it is nothing, or of a turn that may be over."""
    try:
        delta = msgspec.json.decode(said, type=Delta)
    except (msgspec.MsgspecError, ValueError):
        return
    if delta.run_id == run_id and delta.seen >= after:
        _put(queue, delta)
