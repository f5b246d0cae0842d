"""How long a run worked and how long it waited: spans of time, drawn to scale.

A span's place and length are in thousandths of the whole, so that a drawing needs no arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sayso.domain import events as e
from sayso.domain.recorded import Recorded

WHOLE = 1000
LEAST = 3
"""The shortest span that can still be seen."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which a run waited for somebody."""

    begin: int
    """Store time, in milliseconds."""
    end: int
    open: bool
    """It goes on."""

    @property
    def lasted_s(self) -> float:
        """How long it was."""
        return (self.end - self.begin) / 1000


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The whole time of a run."""

    begin: int
    end: int

    @property
    def lasted_s(self) -> float:
        """How long it was."""
        return (self.end - self.begin) / 1000

    def x(self, at: int) -> int:
        """Say where a time is."""
        whole = max(self.end - self.begin, 1)
        return round(min(max(at - self.begin, 0), whole) * WHOLE / whole)

    def width(self, span: Span) -> int:
        """Say how wide a span is."""
        return max(self.x(span.end) - self.x(span.begin), LEAST)


def scale_of(entries: Iterable[Recorded], now: int, *, final: bool) -> Scale:
    """Give the whole time of a run: until its end, or until now."""
    times = [entry.at for entry in entries] or [now]
    return Scale(begin=times[0], end=times[-1] if final else max(now, times[-1]))


def waits(entries: Iterable[Recorded], now: int) -> list[Span]:
    """Find when a run was suspended: nothing of it went on until somebody decided."""
    found: list[Span] = []
    since: int | None = None
    last = now
    for entry in entries:
        last = entry.at
        match entry.event:
            case e.RunSuspended() if since is None:
                since = entry.at
            case e.RunResumed() | e.RunCompleted() | e.RunFailed() | e.RunCancelled() if (
                since is not None
            ):
                found.append(Span(begin=since, end=entry.at, open=False))
                since = None
            case _:
                pass
    if since is not None:
        found.append(Span(begin=since, end=max(now, last), open=True))
    return found
