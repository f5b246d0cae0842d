"""What an append comes to for each of its runs, while it is under way and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

import msgspec

from sayso.domain import events as e
from sayso.domain.run import Run
from sayso.engine.live import Live
from sayso.store.base import Appended, HoldRow, ItemPut, Key, Write

Verb = Callable[[Run], Sequence[e.Event]]
Begins = Callable[[Run, Sequence[e.Event]], Sequence[e.RunStarted]]
"""Gives the runs that begin with these events, which have left a run like this."""
Takes = Callable[[str], str]
"""Gives the worker that would take a run of an agent on right now, or nothing."""
Items = Callable[[], Sequence[ItemPut]]
"""Gives what the verb that was just run puts on the shelf, all or nothing with its events."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to a run, and on what terms."""

    verb: Verb
    takes: Takes | None = None
    key: Key | None = None
    owned_by: str | None = None
    quiet: bool = False
    begins: Begins | None = None
    items: Items | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did: the run after it, and the events that were appended (none: no need)."""

    run: Run
    owner: str
    events: tuple[e.Event, ...] = ()
    holds: tuple[HoldRow, ...] = ()
    """The rows of holds that it has put."""
    at: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What an append does to one run."""

    live: Live
    run: Run
    write: Write
    events: tuple[e.Event, ...] = ()
    """Without those of a run that comes from elsewhere: nobody here waits for them."""
    owner: str = ""
    quiet: bool = False

    def written(self, at: int) -> Written:
        """Say what it did, once it is committed."""
        holds = self.write.holds
        return Written(run=self.run, owner=self.owner, events=self.events, holds=holds, at=at)


class Sent(msgspec.Struct, kw_only=True):
    """An append under way, and what it comes to for each run; the first is the one it is for."""

    parts: tuple[Part, ...]
    answer: asyncio.Future[Appended]
    """The store's. Nobody awaits it: whoever goes away would take it along."""
    landed: asyncio.Future[None]
    """Done after the answer, once that was taken note of."""
    lost: bool = False
    """Whether its answer was, and it was not found there; it may still come."""


class Posted:
    """The answer to a post, for whoever awaits it; dropped unawaited, what was sent goes on."""

    __slots__ = ("_finish",)

    def __init__(self, finish: Callable[[], Coroutine[Any, Any, Written]]) -> None:
        self._finish = finish

    def __await__(self) -> Generator[Any, Any, Written]:
        return self._finish().__await__()
