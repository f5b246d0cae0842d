"""Longer stories for the same harness: a durable body, a run below another, three levels of them.

Like `story.py`, each is told from wherever it stands. Whatever has an effect writes a line into the
world, and there are points to die at on either side of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from sayso import (
    Agent,
    Bounds,
    Context,
    HoldView,
    RunHandle,
    RunView,
    Sayso,
    ToolMessage,
    answer,
    approve,
    ask_user,
    spawn,
    tool,
)
from sayso.errors import AlreadyDecided, RunExists
from sayso.store.base import Store
from sayso.testing import ScriptedModel, call, say
from sayso.testing.fuse import Fuse, fused
from tests.crash.story import RUN, World

NESTED = tuple(f"nested-{''.join(order)}" for order in itertools.permutations("abc"))
TALES = ("body-hot", "body-parked", "child", "cancel", *NESTED)
EFFECTS = ("find", "book", "pay", "note")
PATIENCE_S = 20


def make_cast(tale: str, world: World, fuse: Fuse) -> list[Agent]:
    """The agents of a tale; the one that is started is called `root`."""
    if tale.startswith("body"):
        return _body(world, fuse)
    return _nested(world, fuse) if tale in NESTED else _child(world, fuse)


def _agent(name: str, first: Any, *tools: Any) -> Agent:
    return Agent(name, model=ScriptedModel([first, say(f"{name} is done.")]), tools=tools)


def _effect(world: World, fuse: Fuse, name: str) -> Callable[[], str]:
    """Something that happens outside; what is keyed happens once however often it is asked for."""

    def act(key: str = "") -> str:
        fuse.point(f"before {name}")
        if not key or key not in world.read(name):
            world.write(name, key or "done")
        fuse.point(f"after {name}")
        return f"{name} done"

    return act


def _body(world: World, fuse: Fuse) -> list[Agent]:
    find, book = _effect(world, fuse, "find"), _effect(world, fuse, "book")

    @tool(durable=True)
    async def trip(ctx: Context) -> list[Any]:
        # Says which step the next start of one is about: the journal's tags do not.
        fuse.point("at find")
        found = await ctx.step("find", find)
        name = await ctx.ask("Name?")
        fuse.point("at book")
        booked = await ctx.step("book", book, ctx.key, effect="keyed")
        said = await ctx.approval("Pay?")
        return [found, name, booked, bool(said)]

    return [_agent("root", call("trip"), trip)]


def _child(world: World, fuse: Fuse) -> list[Agent]:
    act = _effect(world, fuse, "pay")

    @tool(approval=True)
    async def pay() -> str:
        return act()

    below = _agent("below", call("pay"), pay)
    return [_agent("root", call("spawn", {"agent": "below", "input": "Pay"}), spawn(below)), below]


def _nested(world: World, fuse: Fuse) -> list[Agent]:
    pay, note = _effect(world, fuse, "pay"), _effect(world, fuse, "note")

    @tool(durable=True)
    async def work(ctx: Context) -> list[Any]:
        name = await ctx.ask("c")
        fuse.point("at pay")
        return [name, await ctx.step("pay", pay)]

    @tool(durable=True)
    async def delegate(ctx: Context) -> Any:
        return await ctx.spawn("leaf", "Work")

    @tool(approval=True, title="b", effect="keyed")
    async def write(ctx: Context) -> str:
        return note(ctx.key)

    leaf = _agent("leaf", call("work"), work)
    middle = _agent("middle", [call("delegate"), call("write")], delegate, write)
    asks = [call("spawn", {"agent": "middle", "input": "Go"}), call("ask_user", {"question": "a"})]
    return [_agent("root", asks, spawn(middle), ask_user()), middle, leaf]


async def tell(store: Store, world: World, fuse: Fuse, tale: str) -> RunView:
    """Tell a tale to its end, from wherever it stands."""
    bounds = Bounds(
        look_s=0.05, start_grace_ms=60_000, stay_hot_s=0 if tale == "body-parked" else 30
    )
    order = tale.partition("-")[2] if tale in NESTED else ""
    cast = make_cast(tale, world, fuse)
    async with Sayso(fused(store, fuse), agents=cast, bounds=bounds) as app:
        try:
            run = await app.start("root", "Go", by="mira", id=RUN)
        except RunExists:
            run = app.run(RUN)
        world.write("acknowledged", "start")
        while not (view := await _next(run, order)).final:
            if tale == "cancel":
                view = await _cancel(app, run, view, world)
                break
            for hold in _in_order(view.holds, order):
                await _decide(app, world, fuse, hold)
        said = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
        results = [one.result() if hasattr(one, "result") else repr(one) for one in said]
        world.write("ended", json.dumps([view.status, view.output, results]))
        return view


async def _cancel(app: Sayso, run: RunHandle, view: RunView, world: World) -> RunView:
    # Once: if the process dies half-way, what it has begun must come to its end by itself.
    if not view.cancelling:
        await app.cancel(run, by="mira")
        world.write("acknowledged", "cancel")
    return await run.wait(final=True, timeout=PATIENCE_S)


async def _next(run: RunHandle, order: str) -> RunView:
    # Where an order is told, everything is asked before anything is answered.
    return await run.wait(held=not order, timeout=PATIENCE_S)


def _in_order(holds: Sequence[HoldView], order: str) -> list[HoldView]:
    if not order:
        return list(holds)
    return sorted(holds, key=lambda hold: order.find(hold.title))[:1]


async def _decide(app: Sayso, world: World, fuse: Fuse, hold: HoldView) -> None:
    """Decide as a careful person would: look at the world before calling a doubt settled."""
    verdict: Any = approve()
    if hold.kind == "question":
        verdict = answer(f"to {hold.title}")
    if hold.kind == "in_doubt":
        world.write("doubts", hold.id)
        name = "find" if hold.tool == "trip" else "pay"
        if world.read(name):
            verdict = answer(f"{name} done")
        else:
            world.write("again", hold.id)
    try:
        # The world was looked at: whatever the worker is, it has not done it, and never will.
        alive = hold.kind == "in_doubt" and verdict == approve()
        await app.decide(hold, verdict, by="mira", even_if_alive=alive)
    except AlreadyDecided as already:
        assert already.decision.by.id == "mira"
    world.write("acknowledged", f"decide {hold.id}")
    fuse.point(f"answered {hold.title}")
