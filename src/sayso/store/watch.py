"""Watches on runs: the port, and the registry that wakes them. All of it is on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from sayso.store.base import Write


class Watch(Protocol):
    """Tells that a run may have moved. Make it before reading, or you may wait for the past."""

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True after any append to the run since the watch was made or last returned True.

        May return True for nothing. Return False when the time is over. Appends of other processes
        count too; they may be noticed late, but within a second. A watch on all runs also hears of
        runs that a worker has left to others.
        """
        ...

    def news(self) -> Write | None:
        """Give the last write to the run since the watch was made or this was last asked, if this
        very store object has committed it, and nothing was heard of others: then the run is as it
        says. None: whoever wants to know must look; so it always is for a watch on all runs.
        """
        ...

    def ring(self) -> None:
        """Make the wait return True, as a commit would."""
        ...

    def close(self) -> None:
        """Stop watching. A wait under way returns False."""
        ...


_OTHERS = ""
"""The key of watches on what others commit. No run is called this."""


class RunWatch:
    """A watch on one run, or on all of them."""

    def __init__(self, registry: Watches, run_id: str | None) -> None:
        self._registry = registry
        self._run_id = run_id
        self._rung = False
        self._last: Write | None = None
        self._others = False
        """Whether it was rung for anything but such a write."""
        self._closed = False
        self._waiters: set[asyncio.Future[bool]] = set()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Return True after an append since the watch was made or last returned True."""
        if self._rung:
            self._rung = False
            return True
        if self._closed or (timeout_s is not None and timeout_s <= 0):
            return False
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        handle = None if timeout_s is None else loop.call_later(timeout_s, _answer, waiter, False)
        self._waiters.add(waiter)
        self._registry.waits(1)
        try:
            return await waiter
        except asyncio.CancelledError:
            # It was woken in the same moment: keep that for whoever waits next.
            if waiter.done() and not waiter.cancelled():
                self._rung = self._rung or waiter.result()
            raise
        finally:
            self._registry.waits(-1)
            self._waiters.discard(waiter)
            if handle is not None:
                handle.cancel()

    def news(self) -> Write | None:
        """Give the last write since this was last asked, if nobody else may have written."""
        last = None if self._others else self._last
        self._last, self._others = None, False
        return last

    def close(self) -> None:
        """Stop watching. A wait under way returns False."""
        self._closed = True
        self._registry.drop(self, self._run_id)
        for waiter in self._waiters:
            _answer(waiter, False)

    def ring(self) -> None:
        """Wake whoever waits, or remember it for whoever comes next."""
        self._others = True
        self._wake()

    def tell(self, write: Write) -> None:
        """Like `ring`, for a write of this process that is committed."""
        self._last = write
        self._wake()

    def _wake(self) -> None:
        waiting = [waiter for waiter in self._waiters if not waiter.done()]
        if not waiting:
            self._rung = True
        for waiter in waiting:
            _answer(waiter, True)


class Watches:
    """All watches of a store in this process."""

    def __init__(self, on_waiting: Callable[[int], None] | None = None) -> None:
        self._by_run: dict[str | None, set[RunWatch]] = {}
        self._waiting = 0
        self._on_waiting = on_waiting

    def add(self, run_id: str | None, *, own: bool = True) -> RunWatch:
        """Make a watch; without `own`, on what others commit."""
        run_id = run_id if own else _OTHERS
        watch = RunWatch(self, run_id)
        self._by_run.setdefault(run_id, set()).add(watch)
        return watch

    def drop(self, watch: RunWatch, run_id: str | None) -> None:
        """Forget a watch."""
        watches = self._by_run.get(run_id, set())
        watches.discard(watch)
        if not watches:
            self._by_run.pop(run_id, None)

    def ring(self, run_ids: Iterable[str]) -> None:
        """Wake the watches on these runs, and those on all runs: others have committed."""
        for key in (None, _OTHERS, *run_ids):
            for watch in self._by_run.get(key, ()):
                watch.ring()

    def tell(self, writes: Iterable[Write]) -> None:
        """Wake the watches on the runs of these writes, which are committed, and those on all."""
        for write in writes:
            for watch in self._by_run.get(write.run, ()):
                watch.tell(write)
        for watch in self._by_run.get(None, ()):
            watch.ring()

    def ring_all(self) -> None:
        """Wake every watch."""
        for watches in self._by_run.values():
            for watch in watches:
                watch.ring()

    def waits(self, change: int) -> None:
        """Count whoever waits, and tell who polls on their behalf."""
        self._waiting += change
        if self._on_waiting is not None:
            self._on_waiting(self._waiting)

    def close(self) -> None:
        """Close every watch."""
        for watches in list(self._by_run.values()):
            for watch in list(watches):
                watch.close()


def _answer(waiter: asyncio.Future[bool], answer: bool) -> None:  # noqa: FBT001
    if not waiter.done():
        waiter.set_result(answer)
