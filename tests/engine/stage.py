"""One durable body on a stage: played to its end, kept hot or parked at every wait.

Hot and parked have to come to the same: every test that asks for a `stage` is run both ways, and
says only once what it must come to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sayso import (
    Agent,
    Bounds,
    HoldView,
    Outcome,
    RunHandle,
    RunView,
    Sayso,
    ToolMessage,
    answer,
    approve,
    tool,
)
from sayso.domain import codec
from sayso.store.audit import verify
from sayso.store.base import Store
from sayso.store.journal import replay
from sayso.store.query import RunQuery
from sayso.testing import ScriptedModel, call, say

from .kit import PATIENCE_S, Place

HOT_S = {"hot": 30.0, "parked": 0.0}
Decider = Callable[[HoldView], Any]


class Stage:
    """A place, and how long a body that waits is kept in memory."""

    def __init__(self, place: Place, how: str) -> None:
        self.place = place
        self.hot = how == "hot"
        self.stay_s = HOT_S[how]

    def bounds(self, **more: Any) -> Bounds:
        quick: dict[str, Any] = {"look_s": 0.02, "backoff_s": 0.01, "backoff_max_s": 0.05}
        return Bounds(**{**quick, "stay_hot_s": self.stay_s, **more})

    @asynccontextmanager
    async def app(
        self, *bodies: Any, agents: tuple[Agent, ...] = (), bounds: Any = None, **options: Any
    ) -> AsyncIterator[Sayso]:
        """Open an app whose agent calls each of these bodies in one turn."""
        found = (*([worker(*bodies)] if bodies else []), *agents)
        async with self.place.app(*found, bounds=bounds or self.bounds(), **options) as app:
            yield app

    async def play(self, body: Any, decide: Decider | None = None, **options: Any) -> Outcome:
        """Let one body run to its outcome; `decide` gives the verdict on each hold."""
        async with self.app(body, **options) as app:
            run = await app.start("worker", "Go", by="mira")
            view = await play_on(app, run, decide)
            await check(app.store)
            return outcome(view)


def worker(*bodies: Any, **options: Any) -> Agent:
    """Make an agent that calls each tool once, in one turn."""
    tools = [body if hasattr(body, "spec") else durable(body) for body in bodies]
    turn = [call(each.name, {}) for each in tools]
    return Agent("worker", model=ScriptedModel([turn, say("Done.")]), tools=tools, **options)


def durable(body: Any, **options: Any) -> Any:
    """Make a tool of a durable body."""
    return tool(durable=True, **options)(body)


def say_yes(hold: HoldView) -> Any:
    """Answer a question with its own text; approve everything else."""
    return answer(f"to {hold.title}") if hold.kind in ("question", "external") else approve()


async def play_on(app: Sayso, run: RunHandle, decide: Decider | None = None) -> RunView:
    """Decide whatever a run asks, until it is over."""
    while not (view := await run.wait(timeout=PATIENCE_S)).final:
        for hold in view.holds:
            await app.decide(hold, (decide or say_yes)(hold), by="mira")
    return view


def outcome(view: RunView) -> Outcome:
    """Give the outcome of a run's only call."""
    assert view.status == "completed", f"{view.status}: {view.error}"
    (found,) = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
    return found


async def check(store: Store) -> None:
    """Hold a store against what is always so."""
    report = await verify(store)
    assert report.ok, report.faults
    for row in await store.runs(RunQuery(limit=500)):
        assert await replay(store, row.id) == codec.decode_run(row.state), row.id
