"""A run in memory, between the store and whoever works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self, cast

from sayso.domain import events as e
from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.engine.beside import Beside
from sayso.errors import NotUnderstood
from sayso.store.base import Entry
from sayso.store.journal import decode
from sayso.store.look import Look


class Live:
    """A run as it will be once every append under way is committed."""

    def __init__(
        self,
        run: Run,
        *,
        owner: str,
        last: bytes,
        unread: Sequence[Entry] = (),
        beside: Beside | None = None,
    ) -> None:
        self.run = run
        self.owner = owner
        self.last = last
        """The id of the last entry."""
        self.transcript: Transcript | None = None
        self.unread = unread
        """Its journal, for whoever folds it, if that was read together with the row."""
        self.beside = beside
        """What was read together with the row of its project, for whoever asks for that at once."""
        self.committed = run.seq
        """Up to which entry what is known here is known to be in the journal."""
        self.pending = 0
        """How many appends are under way."""
        self._under_way: dict[int, tuple[bytes, e.Event]] = {}
        """Their entries, by number, as far as they are not in the transcript already."""
        self._waiters: list[asyncio.Future[None]] = []
        self.stale = False
        """Somebody else has written: whoever holds this must open the run anew."""

    @classmethod
    def of(cls, run: Run, found: Look, beside: Beside | None) -> Self:
        """Give a run in memory as it was found."""
        row = found.row
        return cls(run, owner=row.owner, last=row.last, unread=found.journal, beside=beside)

    def fold(self) -> Sequence[Entry]:
        """Fold the journal that was read together with the row, if it is all that there is to say,
        so that what is written goes on from there; give it.
        """
        journal, self.unread = self.unread, ()
        if journal and journal[-1].id == self.last and not self.run.previous:
            transcript = Transcript(self.run.id)
            try:
                for entry in journal:
                    transcript.add(entry.seq, decode(entry))
            except NotUnderstood:
                return journal  # Whoever needs it will say so.
            self.transcript = transcript
        return journal

    def go_on(
        self, run: Run, *, owner: str, last: bytes, said: Iterable[tuple[int, bytes, e.Event]]
    ) -> None:
        """Become what an append makes of it that is under way from now on. It has `said` this: the
        number, the id and the event of each entry.
        """
        for seq, entry, event in said:
            if self.transcript is not None and self.transcript.seq == seq - 1:
                self.transcript.add(seq, cast("e.AnyEvent", event))
            else:
                self._under_way[seq] = (entry, event)
        self.run, self.owner, self.last = run, owner, last
        self.pending += 1

    def contradicts(self, journal: Sequence[Entry]) -> bool:
        """Tell whether others have written where something is under way, which comes to nothing."""
        end = [entry.id for entry in journal if entry.seq >= self.run.seq]
        return end not in ([], [self.last]) or any(
            self._under_way.get(entry.seq, (entry.id,))[0] != entry.id for entry in journal
        )

    def add_to(self, transcript: Transcript) -> None:
        """Add what is under way to the transcript of what is in the journal."""
        for seq, (_, event) in self._under_way.items():
            if seq == transcript.seq + 1:
                transcript.add(seq, cast("e.AnyEvent", event))

    async def idle(self) -> None:
        """Wait until no append is under way."""
        if self.pending:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def landed(self) -> None:
        """Take note that an append is no longer under way."""
        self.pending -= 1
        if not self.pending:
            self._under_way.clear()
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
