"""Watches on runs, and the registry that wakes them. All of it lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

_OTHERS = ""
"""The key of watches on what others commit. No run is called this."""


class RunWatch:
    """A watch on one run, or on all of them."""

    def __init__(self, registry: Watches, run_id: str | None) -> None:
        self._registry = registry
        self._run_id = run_id
        self._rung = False
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

    def close(self) -> None:
        """Stop watching. A wait under way returns False."""
        self._closed = True
        self._registry.drop(self, self._run_id)
        for waiter in self._waiters:
            _answer(waiter, False)

    def ring(self) -> None:
        """Wake whoever waits, or remember it for whoever comes next."""
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

    def ring(self, run_ids: Iterable[str], *, own: bool = False) -> None:
        """Wake the watches on these runs, and those on all runs."""
        everything = (None,) if own else (None, _OTHERS)
        for key in (*everything, *run_ids):
            for watch in self._by_run.get(key, ()):
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
