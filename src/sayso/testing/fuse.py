"""Crash points: stop the process, or what stands for it, at any append and around any effect.

    fuse = Fuse(at=7, blow=kill_me)             # die at the seventh point
    app = Sayso(fused(store, fuse), agents=[...])

Run the same story with `at` = 1, 2, 3, ... until it comes through; after each death open the store
again and let it finish; then count what happened in the world. Tools mark their own points:
`fuse.point("before the payment")`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, cast

from sayso.domain import codec
from sayso.store.base import Appended, Store, Write


class Blown(BaseException):
    """The fuse has blown: for this process, everything is over."""


def kill_me() -> None:
    """End this process as a power switch would: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def raise_blown() -> None:
    """Stand for the end of the process by an exception that nothing should catch."""
    raise Blown


class Fuse:
    """Counts points, and blows at some of them."""

    def __init__(
        self, at: int | Collection[int] = (), blow: Callable[[], None] = raise_blown
    ) -> None:
        self._at = {at} if isinstance(at, int) else set(at)
        self._blow = blow
        self.names: list[str] = []
        """Every point that was passed, in order."""
        self.blown = asyncio.Event()

    def point(self, name: str) -> None:
        """Pass a point: die here, if this is where to die; after that, die everywhere."""
        if self.blown.is_set():
            raise Blown
        self.names.append(name)
        if len(self.names) in self._at:
            self.blown.set()
            self._blow()


def fused(store: Store, fuse: Fuse) -> Store:
    """Wrap a store so that every append, claim and beat of it is a point before and after."""
    return cast("Store", _FusedStore(store, fuse))


def _describe(writes: Sequence[Write]) -> str:
    return " + ".join(
        codec.event_tag(codec.decode_event(entry.payload)).rpartition(".")[0]
        for write in writes
        for entry in write.entries
    )


class _FusedStore:
    def __init__(self, store: Store, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, *writes: Write) -> Awaitable[Appended]:
        name = _describe(writes)
        self._fuse.point(f"before {name}")
        return asyncio.ensure_future(self._answered(name, self._store.append(*writes)))

    async def _answered(self, name: str, answer: Awaitable[Appended]) -> Appended:
        found = await answer
        self._fuse.point(f"after {name}")
        return found

    async def beat(self, worker: str) -> None:
        self._fuse.point("before beat")
        await self._store.beat(worker)
        self._fuse.point("after beat")

    async def claim(self, worker: str, **how: Any) -> list[str]:
        found = await self._store.claim(worker, **how)
        if found:
            self._fuse.point("after claim")
        return found

    async def retire(self, worker: str) -> None:
        self._fuse.point("before retire")
        await self._store.retire(worker)
        self._fuse.point("after retire")
