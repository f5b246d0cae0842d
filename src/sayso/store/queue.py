"""The port of a queue: where a store offers runs that have work, besides letting them be claimed.

A job is a ticket: there was a run to take when it was written. It says nothing of whether there
still is one, and gives nobody any right to it. Whoever picks one claims, as everybody does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

HELD_MAX = 100
"""No list of held jobs is longer."""


class HeldJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed, and waits for somebody to look at it."""

    id: int
    agent: str
    run_id: str
    """Empty, if the job does not say."""
    since: int
    """When it was held, milliseconds since 1970."""
    why: str


class Taker(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever takes runs when there is a job."""

    agents: Sequence[str]
    """Only jobs for these are picked."""
    room: Callable[[], int]
    """How many more runs it could work on. Without room no job is picked."""
    take: Callable[[], Awaitable[None]]
    """Claim runs. A job is done when this has returned."""
    hint: Callable[[], None]
    """Hear that there may be runs to take; nobody waits for what comes of it."""


class Serving(Protocol):
    """Jobs being picked for one worker."""

    async def stop(self) -> None:
        """Pick no more jobs, and hand back those that are not begun."""
        ...


class Queue(Protocol):
    """Jobs of one store. What it loses costs time and nothing else."""

    def serve(self, taker: Taker) -> Serving:
        """Begin to pick jobs for a worker of this process."""
        ...

    async def held(self, *, limit: int = HELD_MAX) -> list[HeldJob]:
        """List jobs that failed, oldest first."""
        ...

    async def requeue(self, *ids: int) -> int:
        """Offer held jobs again; say how many of these were held."""
        ...

    async def requeue_all(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Offer all jobs again that are held when this begins, each once, and say how many; tell
        `progress` from time to time how many they are so far, and of how many.
        """
        ...
