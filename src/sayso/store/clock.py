"""The store's clocks: wall time for people and deadlines, boot time for leases.

A wall clock may be set to anything at any moment, so no lease depends on it.
"""

from __future__ import annotations

import time
from typing import Protocol

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LEASE_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NS_PER_MS = 1_000_000


class Clock(Protocol):
    """What a store asks for the time."""

    def now(self) -> int:
        """Wall time in milliseconds since 1970."""
        ...

    def tick(self) -> int:
        """Milliseconds since the machine was started; nobody can set it."""
        ...

    def boot_id(self) -> str:
        """Names the start of the machine that `tick` counts from; empty if nobody knows."""
        ...


class SystemClock:
    """The machine's own clocks. Boot time goes on while the machine sleeps, where it can."""

    def __init__(self) -> None:
        self._boot_id: str | None = None

    def now(self) -> int:
        return time.time_ns() // _NS_PER_MS

    def tick(self) -> int:
        return time.clock_gettime_ns(_LEASE_CLOCK) // _NS_PER_MS

    def boot_id(self) -> str:
        if self._boot_id is None:
            try:
                with open(_BOOT_ID, encoding="utf-8") as file:
                    self._boot_id = file.read().strip()
            except OSError:
                self._boot_id = ""
        return self._boot_id
