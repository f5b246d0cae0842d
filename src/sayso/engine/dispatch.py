"""Which run has work: the port, in-process dispatch, and that by the queue of a store.

Never trusted for exclusion: the append guard is the fence. A wake-up that is lost costs a moment,
because workers also look at `claim` by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from sayso.store.base import Store
from sayso.store.queue import Queue, Serving, Taker


class Dispatch(Protocol):
    """Tells workers that a run has work."""

    def wake(self, run_id: str) -> None:
        """Say that a run is running and nobody works on it."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Wait until there may be such a run, or the time is over."""
        ...

    def serve(self, taker: Taker) -> None:
        """Begin to work for the worker of this process."""
        ...

    async def close(self) -> None:
        """Leave what is there to others."""
        ...


class LocalDispatch:
    """Dispatch for the processes that share one store: its watch is the bell between them."""

    def __init__(self, store: Store) -> None:
        self._watch = store.watch(own=False)

    def wake(self, run_id: str) -> None:
        """Wake the worker of this process."""
        del run_id
        self._watch.ring()

    async def wait(self, timeout_s: float) -> None:
        """Wait for work of this process, or for any commit of another one."""
        await self._watch.wait(timeout_s)

    def serve(self, taker: Taker) -> None:
        """Do nothing: whoever waits here looks by itself."""

    async def close(self) -> None:
        """Stop watching."""
        self._watch.close()


class QueueDispatch:
    """Dispatch by the queue of a store: what is called out is a hint to claim at once, and a job,
    which is picked a little later, makes sure that somebody did.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._serving: Serving | None = None
        self._work = asyncio.Event()

    def wake(self, run_id: str) -> None:
        """Wake the worker of this process."""
        del run_id
        self._work.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for work of this process, or for a hint."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._work.wait()
        self._work.clear()

    def serve(self, taker: Taker) -> None:
        """Begin to pick jobs."""
        self._serving = self._queue.serve(taker)

    async def close(self) -> None:
        """Pick no more jobs."""
        if self._serving is not None:
            await self._serving.stop()


def dispatch_of(store: Store) -> Dispatch:
    """Give the dispatch that suits a store."""
    return LocalDispatch(store) if store.queue is None else QueueDispatch(store.queue)
