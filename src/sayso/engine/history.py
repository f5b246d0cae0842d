"""What was said earlier in a thread: the messages of the runs before, kept while they fit.

Rule: what a finished run has said changes only by redaction, and that is an entry. So it is kept
under the id of the run's last entry, and the row is read every time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from sayso.domain.call import call_id
from sayso.domain.message import Message
from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.engine.ids import look_up
from sayso.errors import UnknownRun
from sayso.store.base import RunRow, Store
from sayso.store.journal import decode, read_journal

THREAD_MAX = 1000
"""How many earlier runs of a thread are read as history."""
BYTES_MAX = 4_000_000
"""How much of the journal is kept in memory as messages, by its size in the journal."""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    last: bytes
    previous: str
    messages: tuple[Message, ...]
    doubts: dict[tuple[str, bytes], str]
    size: int


class History:
    """Begins transcripts where those of the thread's earlier runs end."""

    def __init__(
        self,
        store: Store,
        read: Callable[[RunRow], Awaitable[Run]],
        *,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._store = store
        self._read = read
        self._bytes_max = bytes_max
        self._kept: dict[str, _Said] = {}
        """The one used last comes last."""
        self._size = 0

    async def begin(self, run: Run) -> Transcript:
        """Begin a run's transcript: with what was said in its thread, and is in doubt there."""
        runs: list[_Said] = []
        previous = run.previous
        while previous and len(runs) < THREAD_MAX:
            runs.append(await self._said(previous))
            previous = runs[-1].previous
        messages: list[Message] = []
        doubts: dict[tuple[str, bytes], str] = {}
        for said in reversed(runs):
            messages += said.messages
            doubts |= said.doubts
        return Transcript(run.id, tuple(messages), doubts)

    async def _said(self, run_id: str) -> _Said:
        row = await self._store.load(look_up(run_id))
        if row is None:
            raise UnknownRun(f"there is no run {run_id!r}")
        kept = self._kept.pop(run_id, None)
        if kept is not None:
            self._size -= kept.size
        if kept is None or kept.last != row.last:
            kept = await self._fold(row)
        self._keep(run_id, kept)
        return kept

    async def _fold(self, row: RunRow) -> _Said:
        run = await self._read(row)
        transcript, size = Transcript(row.id), 0
        for entry in await read_journal(self._store, row.id):
            size += len(entry.payload)
            transcript.add(entry.seq, decode(entry))
        return _Said(
            last=row.last,
            previous=run.previous,
            messages=transcript.messages(),
            doubts={what: call_id(run.id, ref) for what, ref in transcript.doubted(run).items()},
            size=size,
        )

    def _keep(self, run_id: str, said: _Said) -> None:
        before = self._kept.pop(run_id, None)  # Somebody else may have read it meanwhile.
        self._size += said.size - (0 if before is None else before.size)
        self._kept[run_id] = said
        while self._size > self._bytes_max:
            oldest = next(iter(self._kept))
            self._size -= self._kept.pop(oldest).size
