"""A bell within one event loop: rung by anybody, heard by whoever waits, and cheap either way."""

from __future__ import annotations

import asyncio


class Bell:
    """Remembers that it was rung until it is silenced."""

    def __init__(self) -> None:
        self.rung = False
        self._waiters: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake whoever waits, or whoever comes next."""
        self.rung = True
        for waiter in self._waiters:
            _wake(waiter)

    def silence(self) -> None:
        """Forget that it was rung."""
        self.rung = False

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is rung; False if the time is over first."""
        if self.rung:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        timer = None if timeout_s is None else loop.call_later(timeout_s, _wake, waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()
        return self.rung


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
