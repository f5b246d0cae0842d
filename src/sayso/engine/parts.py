"""What everything in the engine shares: the store, the gate, the agents, and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from sayso.domain.policy import CallFacts
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.engine.door import DoorKeeper
from sayso.engine.feed import Feed
from sayso.engine.gate import Gate
from sayso.engine.going import Going
from sayso.engine.grants import Grants
from sayso.engine.ledger import Ledger
from sayso.engine.people import People
from sayso.engine.ports import Driver, Intervention
from sayso.engine.vault import Vault
from sayso.store.base import LEASE_MS, Store

if TYPE_CHECKING:
    from sayso.engine.hot import HotBodies
    from sayso.engine.signing import DeskKey
    from sayso.engine.telemetry import Telemetry


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on everything that could go on for ever."""

    depth_max: int = 16
    """How deep agents may be below agents."""
    runs_max: int = 200
    """How many runs one worker advances at a time."""
    project_runs_max: int | None = None
    """How many runs of one project all workers together advance at a time; None: as many as they
    can. The same for all of them, or the greatest counts.
    """
    calls_max: int = 128
    """How many calls one turn may ask for."""
    attempts_max: int = 5
    """How many attempts of one call may come to nothing before it counts as failed."""
    start_grace_ms: int = 2000
    """A call is not made if its start was committed longer ago than this: a worker that was
    stopped in between may have been taken for dead.
    """
    takeover_grace_ms: int = 5000
    """How long after a call's timeout a silent worker is still given."""
    backoff_s: float = 0.5
    """How long to wait before a model that failed is asked again; doubled each time."""
    backoff_max_s: float = 30.0
    result_patience_s: float = 120.0
    """How long a result is kept in memory and offered again to a store that does not take it."""
    stay_hot_s: float = 30.0
    """How long a body that waits for an answer is kept in memory; 0: not at all."""
    bodies_max: int = 100
    """How many such bodies one worker keeps."""
    look_s: float = 1.0
    """How often workers and the sweeper look for what no bell told them of."""
    seal_every_s: float = 60.0
    """How often the sweeper seals what is new."""
    beat_s: float = LEASE_MS / 3000
    """How often a worker says that it lives: several times in a lease."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's parts, put together by `app`."""

    store: Store
    ledger: Ledger
    gate: Gate
    drivers: Mapping[str, Driver]
    feed: Feed
    bounds: Bounds = Bounds()
    deps: Any = None
    hot: HotBodies
    records: People
    grants: Grants
    door: DoorKeeper
    vault: Vault = Vault()
    desk_key: DeskKey | None = None
    """Signs what people decide here."""
    telemetry: Telemetry | None = None
    """Whoever watches, if somebody does."""
    going: Going = msgspec.field(default_factory=Going)

    def bound(self, run: Run, ref: str, ruling: Require) -> Require:
        """Make a ruling on a call that an agent's model asked for as strict as the agent wants."""
        driver = self.drivers.get(run.agent)
        if driver is None or driver.on_reject != "cancel" or run.strand_of(ref) is None:
            return ruling
        return msgspec.structs.replace(ruling, on_reject="cancel")

    def checks(self, run: Run) -> list[Intervention]:
        """List the gate checks of a run's agent, and of the agents above it. One that is not known
        here may have a check that would not let the call go on: a person is asked.
        """
        found: list[Intervention] = []
        for name in (*run.lineage, run.agent):
            driver = self.drivers.get(name)
            if driver is None:
                found.append(partial(_unknown_above, name))
            elif driver.check_for_intervention is not None:
                found.append(driver.check_for_intervention)
        return found


async def _unknown_above(name: str, facts: CallFacts) -> Require:
    del facts
    return Require(why=f"The agent {name!r} above it is not known here, and so its rules are not.")
