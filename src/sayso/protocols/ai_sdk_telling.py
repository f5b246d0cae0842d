"""Telling one message of a run: which of its entries belong to it, and what its client has already.

Nothing is remembered between streams. A client that goes on with a message shows some of its calls;
what came after the last of these is told, and only that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sayso.domain import events as e
from sayso.domain.call import call_id
from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.engine.feed import Delta
from sayso.errors import UnknownRun
from sayso.protocols.ai_sdk import Projection, Wire
from sayso.protocols.ai_sdk_family import Family
from sayso.protocols.ai_sdk_suspension import Chunk

_UNFINISHED = ("running", "suspended")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is told in answer to a request: a message of a run, from where its client has it on."""

    run_id: str
    message: int | None = None
    """Its number; None: the one that the run is at, or is about to begin."""
    seen: frozenset[str] = frozenset()
    """The calls in it that the client shows."""
    answered: frozenset[str] = frozenset()
    """The holds that this request has decided."""
    refusals: tuple[Chunk, ...] = ()
    """What it was refused, for its client to say so."""


class Telling:
    """What of a run belongs to one message, and what its client is told of it."""

    def __init__(
        self, target: Target, *, wire: Wire | None = None, who: Authority | None = None
    ) -> None:
        self._target = target
        self._family = Family(target.run_id, wire=wire, who=who)
        self._wanted = 0
        self._passed = False
        """Whether the run is at a later message."""

    @property
    def runs(self) -> Iterable[str]:
        """The runs below whose entries are to be told, too."""
        return self._family.runs

    @property
    def over(self) -> bool:
        """Tell whether nothing more will come of the message."""
        return self._passed or self._family.root.status not in _UNFINISHED

    @property
    def waits(self) -> bool:
        """Tell whether nothing more will come of it until somebody has decided."""
        return self._family.rests

    def begin(self, past: Sequence[Recorded]) -> Iterator[Chunk]:
        """Tell what has happened so far. `UnknownRun` if there is no such message."""
        numbers = self._number(past)
        known = self._known(past, numbers)
        yield self._family.root.start(self._wanted)
        yield from self._target.refusals
        if known < 0:
            self._family.catch_up()
        for index, entry in enumerate(past):
            told = [*self.add(entry)]
            yield from told if index > known else ()
            if index == known:
                self._family.go_on(self._target.answered, self._target.seen)
            if self._passed:
                return
        yield from self._mine(self._family.live())

    def add(self, item: Recorded | Delta) -> Iterator[Chunk]:
        """Tell what happens."""
        if item.run_id == self._target.run_id and self._family.root.ends_message(item):
            if self._family.root.message == self._wanted:
                self._passed = True
                return
            self._family.close()
        yield from self._mine(self._family.add(item))

    def end(self) -> list[Chunk]:
        """Tell how it stands."""
        return self._family.close()

    def _mine(self, chunks: list[Chunk]) -> list[Chunk]:
        return chunks if self._family.root.message == self._wanted else []

    def _number(self, past: Sequence[Recorded]) -> list[int]:
        """Say to which message each entry belongs, and find the one that is wanted."""
        scan, numbers = Projection(self._target.run_id), list[int]()
        for entry in past:
            if entry.run_id == scan.run_id:
                scan.add(entry)
            numbers.append(scan.message)
        self._wanted = self._target.message or scan.upcoming
        if self._wanted > scan.upcoming:
            raise UnknownRun("there is no such message")
        return numbers

    def _known(self, past: Sequence[Recorded], numbers: list[int]) -> int:
        """Find the last entry that asked for a call that the client shows; -1: there is none."""
        found = -1
        for index, entry in enumerate(past):
            event = entry.event
            calls = event.calls if isinstance(event, e.TurnTaken) else ()
            if isinstance(event, e.CommandReceived):
                calls = (event.call,)
            names = {call_id(entry.run_id, call.ref) for call in calls}
            if entry.run_id != self._target.run_id:
                continue  # What a run below asks may be asked while its parent is where it was.
            if numbers[index] == self._wanted and not names.isdisjoint(self._target.seen):
                found = index
        return found
