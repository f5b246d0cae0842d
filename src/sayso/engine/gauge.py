"""How much waits, for whoever watches: read now and then, and never more than a page.

Rule: what is read is bounded, however much waits. Where there is more than a page, the oldest are
counted, so that how old the oldest is, is true in any case.
"""

from __future__ import annotations

from collections import Counter

from sayso.domain import events as e
from sayso.engine.telemetry import Attributes, Telemetry
from sayso.errors import NotUnderstood
from sayso.store.base import PAGE_MAX, HoldFound, Store
from sayso.store.journal import decode
from sayso.store.query import HoldQuery

EVERY_MS = 15_000
"""How often at most the store is read for it."""
AGES = {"under_1m": 60_000, "under_1h": 3_600_000, "under_1d": 86_400_000}
OLDER = "over_1d"


class Gauges:
    """Reads what waits for people, and what waits to be delivered."""

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry
        self._next = 0

    async def read_if_due(self) -> None:
        """Read, unless that was done a moment ago."""
        tick = self._store.tick()
        if tick >= self._next:
            self._next = tick + EVERY_MS
            await self.read()

    async def read(self) -> None:
        """Read what waits now, and show it."""
        found = await self._store.holds(HoldQuery(limit=PAGE_MAX))
        # What is decided, and what another run settles, waits for nobody.
        asked = [o for o in found if o.row.status == "open" and o.row.kind != "delegation"]
        due_at = await self._store.outbox.next_due()
        now = self._store.now()
        waiting = Counter(
            (one.row.kind, risk_of(one), age_of(now - one.row.opened_at)) for one in asked
        )
        oldest = min((one.row.opened_at for one in asked), default=now)
        doubts = sum(one.row.kind == "in_doubt" for one in asked)
        lag_ms = 0 if due_at is None else max(0, now - due_at)
        nothing: Attributes = {}
        self._telemetry.show(
            {
                "sayso.holds.open": [
                    (n, {"sayso.kind": kind, "sayso.risk": risk, "sayso.age": age})
                    for (kind, risk, age), n in sorted(waiting.items())
                ],
                "sayso.holds.oldest": [(max(0, now - oldest) / 1000, nothing)],
                "sayso.calls.in_doubt": [(doubts, nothing)],
                "sayso.outbox.lag": [(lag_ms / 1000, nothing)],
            }
        )


def age_of(waited_ms: int) -> str:
    """Name how long something has waited."""
    return next((name for name, most in AGES.items() if waited_ms < most), OLDER)


def risk_of(found: HoldFound) -> str:
    """Give the risk of what a hold asks about; nothing if that was erased, or is not understood:
    one that a newer version has asked must not keep all others from being counted.
    """
    try:
        event = decode(found.opened if found.revision is None else found.revision)
    except NotUnderstood:
        return ""
    return event.ruling.risk if isinstance(event, e.HoldOpened | e.HoldRevised) else ""
