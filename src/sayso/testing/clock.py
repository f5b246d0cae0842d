"""A clock that stands still until it is told to move."""

from __future__ import annotations

from sayso.domain.ruling import duration_ms

_START_MS = 1_767_225_600_000
"""The first instant of 2026."""


class FakeClock:
    """A clock whose time passes only when a test says so."""

    def __init__(
        self, now: int = _START_MS, tick: int = 1_000_000, boot_id: str = "boot_fake"
    ) -> None:
        self._now = now
        self._tick = tick
        self._boot_id = boot_id

    def now(self) -> int:
        """Wall time, in milliseconds since 1970."""
        return self._now

    def tick(self) -> int:
        """Time since the machine started, in milliseconds; it never goes back."""
        return self._tick

    def boot_id(self) -> str:
        """Name this start of the machine."""
        return self._boot_id

    def advance(self, by: int | str) -> None:
        """Let time pass: a number of milliseconds, or a duration such as '4h'."""
        ms = duration_ms(by) if isinstance(by, str) else by
        assert ms >= 0, "time does not go back; step_wall does"
        self._now += ms
        self._tick += ms

    def step_wall(self, ms: int) -> None:
        """Set the wall clock forward, or back, as an administrator might; no time passes."""
        self._now += ms
