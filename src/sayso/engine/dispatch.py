"""Which run has work: the port, and the in-process implementation.

Never trusted for exclusion: the append guard is the fence. A wake-up that is lost costs a moment,
because workers also look at `claim` by themselves.
"""

from __future__ import annotations

from typing import Protocol

from sayso.store.base import Store


class Dispatch(Protocol):
    """Tells workers that a run has work."""

    def wake(self, run_id: str) -> None:
        """Say that a run is running and nobody works on it."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Wait until there may be such a run, or the time is over."""
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

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()
