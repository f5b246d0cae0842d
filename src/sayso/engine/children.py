"""Runs that other runs wait for: how they begin."""

from __future__ import annotations

from sayso.domain import events as e
from sayso.domain.hold import Delegation
from sayso.domain.run import Run
from sayso.engine.parts import Parts
from sayso.errors import UnknownAgent


def child_of(parts: Parts, run: Run, opened: e.HoldOpened) -> e.RunStarted:
    """Make the beginning of the run that a hold waits for."""
    ask = opened.ask
    assert isinstance(ask, Delegation), "only a delegation begins a run"
    driver = parts.drivers.get(ask.agent)
    if driver is None:
        raise UnknownAgent(f"there is no agent {ask.agent!r}")
    own = run.turns_max or parts.drivers[run.agent].turns_max
    left = own - run.turns - run.spent
    return e.RunStarted(
        run=ask.run,
        project=run.project,
        agent=ask.agent,
        by=run.by,
        input=ask.input,
        at=opened.at,
        agent_version=driver.version,
        policy_version=parts.gate.policy.version,
        root=run.root or run.id,
        parent=run.id,
        parent_call=opened.call,
        parent_hold=opened.hold,
        lineage=(*run.lineage, run.agent),
        turns_max=max(1, min(driver.turns_max, left)),
    )
