"""How many are told something at a time: over all, and each of them.

Rule 1: a seat is taken in one step, before anything is done for whoever takes it: nobody does what
they could not be told of.
Rule 2: it is left when what they are told has ended, whichever way that ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self, cast

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sayso.server.caller import Caller
from sayso.server.problem import Refusal
from sayso.server.sse import HEADERS


def seat_of(
    request: Request, caller: Caller, *, wanted: bool = True
) -> AbstractContextManager[Seat | None]:
    """Take a seat among the streams of the server, if one is wanted."""
    streams = cast("Seats", request.app.state.streams)
    return streams.take(caller) if wanted else nullcontext()


class Seats:
    """Counts who is being told something."""

    def __init__(self, most: int, each: int | None = None) -> None:
        self._most = most
        self._each = most if each is None else each
        self._of: Counter[tuple[str, str]] = Counter()

    @property
    def open(self) -> int:
        """How many there are."""
        return self._of.total()

    def take(self, caller: Caller) -> Seat:
        """Take a seat, or refuse one more than there may be. Leave it, or let an answer do so."""
        who = caller.project, str(caller.by)
        if self.open >= self._most or self._of[who] >= self._each:
            raise Refusal(503, "TooManyStreams", "Too many readers", "try again in a moment")
        self._of[who] += 1
        return Seat(self, who)

    def leave(self, who: tuple[str, str]) -> None:
        """Have one less of somebody's."""
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]


class Seat:
    """Somebody's seat. As a context it is left at the end, unless an answer has it by then."""

    def __init__(self, seats: Seats, who: tuple[str, str]) -> None:
        self._seats: Seats | None = seats
        self._who = who
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._kept:
            self.leave()

    def answer(
        self, frames: AsyncIterator[bytes], headers: dict[str, str] | None = None
    ) -> StreamingResponse:
        """Answer with frames; the seat is left when they have been sent, or nobody reads them."""
        self._kept = True
        return _Seated(self, frames, {**HEADERS, **(headers or {})})

    def leave(self) -> None:
        """Leave it. Doing so twice is fine."""
        if self._seats is not None:
            self._seats.leave(self._who)
            self._seats = None


class _Seated(StreamingResponse):
    """An answer that has a seat until it is over. Not in its frames: whoever is gone before the
    first of them would keep the seat for ever.
    """

    def __init__(self, seat: Seat, frames: AsyncIterator[bytes], headers: dict[str, str]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers=headers)
        self._seat = seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._seat.leave()
