"""Bodies that wait for an answer and are still in memory.

Rule: keeping one is only a saving. It may be let go at any time, and goes on from the journal then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.engine.body import DurableBody


class HotBodies:
    """A bounded number of waiting bodies, each for a bounded time."""

    def __init__(self, stay_s: float, bodies_max: int) -> None:
        self._stay_s = stay_s
        self._bodies_max = bodies_max
        self._bodies: dict[tuple[str, str], tuple[DurableBody, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._bodies)

    def keep(self, run_id: str, body: DurableBody) -> None:
        """Keep a body that waits, for as long as there is time and room."""
        if self._stay_s <= 0 or self._bodies_max <= 0:
            body.park()
            return
        place = (run_id, body.ref)
        self._let_go(place)  # Only the latest of a call can be given its answer.
        while len(self._bodies) >= self._bodies_max:
            self._let_go(next(iter(self._bodies)))
        timer = asyncio.get_running_loop().call_later(self._stay_s, self._let_go, place)
        self._bodies[place] = (body, timer)

    def take(self, run_id: str, ref: str, attempt: int) -> DurableBody | None:
        """Give the body that waits since this attempt of the call, if it is here."""
        found = self._bodies.pop((run_id, ref), None)
        if found is None:
            return None
        body, timer = found
        timer.cancel()
        if body.gone or body.attempt != attempt:
            body.park()
            return None
        return body

    def forget(self, run_id: str) -> None:
        """Let those of a run go that is to end: they never get their answers."""
        for place in [place for place in self._bodies if place[0] == run_id]:
            self._let_go(place)

    def let_go(self) -> None:
        """Let all of them go: this process is about to end."""
        for place in list(self._bodies):
            self._let_go(place)

    def _let_go(self, place: tuple[str, str]) -> None:
        found = self._bodies.pop(place, None)
        if found is not None:
            found[0].park()
            found[1].cancel()
