"""Several channels as one: `Sayso(notify=Channels(Webhook(...), ...))`.

Rule 1: a channel that fails keeps no other from telling. The notice comes again, for those that
have not told it yet.
Rule 2: at least once. A process that ends forgets which channels have told a notice, and whichever
takes it up tells it by all of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

from sayso.engine.courier import Keeping, Notice
from sayso.engine.parcel import Kind
from sayso.engine.people import People
from sayso.engine.wanted import kinds_of
from sayso.errors import BadSetup, SaysoError, describe
from sayso.store.base import Store

TOLD_MAX = 10_000
"""How many notices are remembered of which some channel failed."""


class Channel(Protocol):
    """A way to tell people."""

    @property
    def name(self) -> str:
        """What it is called in errors; nothing secret."""
        ...

    async def send(self, notice: Notice) -> None:
        """Tell; raise if that could not be done. The same notice may come again."""
        ...


class Channels:
    """Tells each notice by every channel; by those that have `tells`, only notices of these."""

    def __init__(self, *channels: Channel) -> None:
        if not channels:
            raise BadSetup("name at least one channel")
        self._channels = channels
        self._told: OrderedDict[str, set[int]] = OrderedDict()
        """By notice that some channel failed to tell: those that have."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All of them."""
        return self._channels

    @property
    def tells(self) -> frozenset[Kind]:
        """The kinds of notices that some channel tells."""
        return frozenset[Kind]().union(*map(kinds_of, self._channels))

    def attach(self, store: Store, people: People, project: str) -> None:
        """Hand the store of an open `Sayso` to those channels that keep something there."""
        for channel in self._channels:
            if isinstance(channel, Keeping):
                channel.attach(store, people, project)

    async def __call__(self, notice: Notice) -> None:
        """Tell a notice by all channels that have not told it yet."""
        told = self._told.get(notice.id, set())
        left = [
            n
            for n, channel in enumerate(self._channels)
            if n not in told and notice.kind in kinds_of(channel)
        ]
        answers = await asyncio.gather(
            *[self._channels[n].send(notice) for n in left], return_exceptions=True
        )
        failed: list[str] = []
        for n, answer in zip(left, answers, strict=True):
            if isinstance(answer, asyncio.CancelledError):
                raise answer
            if isinstance(answer, BaseException):
                failed.append(f"{self._channels[n].name}: {describe(answer)}")
            else:
                told = told | {n}
        if not failed:
            self._told.pop(notice.id, None)
            return
        self._told[notice.id] = told
        self._told.move_to_end(notice.id)
        while len(self._told) > TOLD_MAX:
            self._told.popitem(last=False)
        raise SaysoError("; ".join(failed))
