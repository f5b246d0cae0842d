"""Runs that other runs wait for: how they begin."""

from __future__ import annotations

from collections.abc import Sequence

from sayso.domain import events as e
from sayso.domain.hold import Delegation
from sayso.domain.run import Run
from sayso.engine.parts import Parts
from sayso.engine.ports import Driver
from sayso.errors import BadTool, BadValue, BudgetSpent, UnknownAgent


def check_spawn(parts: Parts, run: Run, agents: Sequence[str]) -> None:
    """Refuse to begin runs that have no end, no agent, no turn to take or no time for one."""
    for agent in agents:
        if agent not in parts.drivers:
            known = ", ".join(sorted(parts.drivers))
            raise BadTool(f"there is no agent {agent!r} to spawn; the agents are: {known}")
    if len(agents) > parts.bounds.calls_max:
        most = parts.bounds.calls_max
        raise BadValue(f"{len(agents)} agents at once are too many: {most} is the most")
    if agents and len(run.lineage) >= parts.bounds.depth_max:
        raise BadValue(f"agents are {parts.bounds.depth_max} deep below agents already")
    if agents and turns_left(parts, run) < len(agents):
        raise BudgetSpent(f"{run.id!r} has not enough turns left for {len(agents)} agents below it")
    time = run.work_time
    if agents and time is not None and time.left_ms(parts.store.now()) < len(agents):
        raise BudgetSpent(f"{run.id!r} has no time left for {len(agents)} agents below it")


def turns_left(parts: Parts, run: Run) -> int:
    """Give how many turns a run and those below it may still take."""
    return (run.turns_max or parts.drivers[run.agent].turns_max) - run.turns - run.spent


def _timeout_ms(driver: Driver, run: Run, now: int, among: int) -> int:
    time = run.work_time
    if time is None:
        return driver.timeout_ms
    # At least something: nothing would be no bound.
    share = max(1, time.left_ms(now) // among)
    return min(share, driver.timeout_ms or share)


def child_of(parts: Parts, run: Run, opened: e.HoldOpened, among: int = 1) -> e.RunStarted:
    """Make the beginning of the run that a hold waits for, one `among` several."""
    ask = opened.ask
    assert isinstance(ask, Delegation), "only a delegation begins a run"
    driver = parts.drivers.get(ask.agent)
    if driver is None:
        raise UnknownAgent(f"there is no agent {ask.agent!r}")
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
        # Those that begin together share what is left.
        turns_max=max(1, min(driver.turns_max, turns_left(parts, run) // among)),
        timeout_ms=_timeout_ms(driver, run, opened.at, among),
    )
