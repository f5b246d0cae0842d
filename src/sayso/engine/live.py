"""A run in memory, between the store and whoever works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.store.base import Entry


class Live:
    """A run as it will be once every append under way is committed."""

    def __init__(self, run: Run, *, owner: str, last: bytes, unread: Sequence[Entry] = ()) -> None:
        self.run = run
        self.owner = owner
        self.last = last
        """The id of the last entry."""
        self.transcript: Transcript | None = None
        self.unread = unread
        """Its journal, for whoever folds it, if that was read together with the row."""
        self.committed = run.seq
        """Up to which entry what is known here is known to be in the journal."""
        self.pending = 0
        """How many appends are under way."""
        self._waiters: list[asyncio.Future[None]] = []
        self.stale = False
        """Somebody else has written: whoever holds this must open the run anew."""

    async def idle(self) -> None:
        """Wait until no append is under way."""
        if self.pending:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def landed(self) -> None:
        """Take note that an append is no longer under way."""
        self.pending -= 1
        if self._waiters and not self.pending:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def is_at(self, last: bytes) -> bool:
        """Tell whether all of it is in the journal, whose last entry this is: then it is what the
        row says, even if it was let go meanwhile.
        """
        return self.last == last

    def is_so(self, seq: int) -> bool:
        """Tell whether what was read here up to an entry is what the run has come to."""
        return not self.stale or seq <= self.committed
