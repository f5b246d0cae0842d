"""A run with the runs below it, as one message: a sub-agent's requests are asked where its parent
speaks.

Of a run below, only what it asks people is told, as parts of the message that its parent was at
when it began; what it says is its parent's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sayso.domain import events as e
from sayso.domain.hold import Delegation
from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.engine.feed import Delta
from sayso.protocols.ai_sdk import Projection, Wire
from sayso.protocols.ai_sdk_part import Part
from sayso.protocols.ai_sdk_suspension import Chunk


class Family:
    """Folds the entries of a run and of those below it, and gives the chunks that they mean."""

    def __init__(
        self, run_id: str, *, wire: Wire | None = None, who: Authority | None = None
    ) -> None:
        self.root = Projection(run_id, wire=wire, who=who)
        self._wire = wire
        self._who = who
        self._below: dict[str, tuple[Below, int]] = {}
        """Each run below, with the number of the message that it belongs to."""
        self._quiet = False
        self._answered: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()

    @property
    def runs(self) -> Iterable[str]:
        """The runs below whose entries belong to this, too."""
        return self._below.keys()

    @property
    def rests(self) -> bool:
        """Tell whether nothing goes on here until somebody has decided."""
        return self._is_at_rest(self.root)

    def add(self, entry: Recorded | Delta) -> list[Chunk]:
        """Fold in an entry or a piece of text, and give the chunks that it means."""
        found = self._below.get(entry.run_id)
        if found is None and entry.run_id != self.root.run_id:
            return []
        chunks = (self.root if found is None else found[0]).add(entry)
        event = entry.event if isinstance(entry, Recorded) else None
        home = self.root.message if found is None else found[1]
        if isinstance(event, e.HoldOpened) and isinstance(event.ask, Delegation):
            self._adopt(event.ask.run, home)
        return chunks if home == self.root.message else []

    def catch_up(self) -> None:
        """From here on tell only what is so in the end, until `live`."""
        self._quiet = True
        for one in self._all():
            one.catch_up()

    def live(self) -> list[Chunk]:
        """Tell what is so by now, and from here on everything as it happens."""
        self._quiet = False
        chunks = self.root.live()
        for below, home in self._below.values():
            told = below.live()
            chunks += told if home == self.root.message else []
        return chunks

    def go_on(self, answered: Iterable[str], seen: Iterable[str]) -> None:
        """Go on in a new stream; see `Projection.go_on`."""
        self._answered, self._seen = frozenset(answered), frozenset(seen)
        self._quiet = True
        for one in self._all():
            one.go_on(self._answered, self._seen)

    def close(self) -> list[Chunk]:
        """End a stream, or a message of it."""
        chunks: list[Chunk] = []
        for below, home in self._below.values():
            told = below.close()
            chunks += told if home == self.root.message else []
        return [*chunks, *self.root.close()]

    def begin_step(self) -> Iterator[Chunk]:
        """Begin a step for what a run below asks. The call that waits for that run is in the one
        before: a client sends answers by itself only if nothing else of their step is open.
        """
        if not any(one.asks for one in self._all()):
            yield from self.root.begin_step()

    def _all(self) -> Iterator[Projection]:
        yield self.root
        for below, _ in self._below.values():
            yield below

    def _adopt(self, run_id: str, home: int) -> None:
        below = Below(run_id, wire=self._wire, who=self._who)
        below.family = self
        below.go_on(self._answered, self._seen)
        if not self._quiet:
            below.live()
        self._below[run_id] = below, home

    def _is_at_rest(self, one: Projection) -> bool:
        if not one.waits:
            return False
        # What one of them ended with is not heard in the same moment by the one above it.
        found = [self._below.get(run_id) for run_id in one.waits_for]
        return all(below is not None and self._is_at_rest(below[0]) for below in found)


class Below(Projection):
    """A run below another one: only what it asks is told."""

    family: Family

    def close(self) -> list[Chunk]:
        """Tell how its calls stand; the end is its parent's."""
        return [*self._flush(), *self._settle()]

    def _take_turn(self, turn: e.TurnTaken) -> Iterator[Chunk]:
        yield from self._flush()
        for call in turn.calls:
            self._ask_for(call)

    def _delta(self, delta: Delta) -> Iterator[Chunk]:
        del delta
        return iter(())

    def _sync(self, part: Part) -> Iterator[Chunk]:
        if not part.holds:
            return
        if part.shown is None:
            yield from self.family.begin_step()
        yield from super()._sync(part)
