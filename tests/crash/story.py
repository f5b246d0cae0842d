"""One story, told again after every crash until it is over: a teller pays once a person says so.

Everything that outlives a process is outside of it: the store, the world's own ledger of payments,
and the list of decisions that were acknowledged. The story can be told from any point: it looks at
what is there and does what is missing, as a person at a desk and a restarted process would.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from sayso import (
    Agent,
    AssistantMessage,
    Bounds,
    Context,
    Happened,
    HoldView,
    Message,
    NotHappened,
    Planner,
    RunView,
    Sayso,
    UserMessage,
    answer,
    approve,
    tool,
)
from sayso.errors import AlreadyDecided, RunExists
from sayso.store.base import Store
from sayso.testing import ScriptedModel, call, say
from sayso.testing.fuse import Fuse, fused

RUN = "run_story"
GOAL = "Pay what is due"
Kind = Literal["none", "keyed", "once", "probe"]
KINDS: tuple[Kind, ...] = ("none", "keyed", "once", "probe")


class World:
    """What happens outside: lines in files, each written by one system call, never taken back."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, line: str) -> None:
        handle = os.open(self.root / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)

    def read(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def pay(self, key: str) -> None:
        self.write("payments", key)

    def payments(self) -> list[str]:
        return self.read("payments")


PLAN = {
    "items": [
        {"id": "a", "task": "Pay 200"},
        {"id": "b", "task": "Pay 300"},
        {"id": "look", "task": "Look"},
        {"id": "sum", "task": "Add up", "after": ["a", "b", "look"]},
    ]
}


def _planned(messages: tuple[Message, ...]) -> Any:
    """Take the turns of a teller who makes a plan first; told by the messages alone."""
    first = messages[0]
    assert isinstance(first, UserMessage)
    taken = sum(isinstance(message, AssistantMessage) for message in messages)
    if first.text == GOAL:
        return say("Done.") if taken else say(json.dumps(PLAN))
    what, _, amount = first.text.partition("\n")[0].partition(" ")
    if what == "Pay" and not taken:
        return call("pay", {"amount": int(amount)})
    if what == "Look" and not taken:
        return call("look", {"what": "x"})
    return say(first.text)


def make_agent(
    kind: Kind, world: World, fuse: Fuse, *, siblings: bool = False, plan: bool = False
) -> Agent:
    """A teller whose payment has the given effect, with a crash point on either side of it.

    With `plan` it makes a plan first: two payments and a look beside each other, then their sum.
    """

    async def probe(ctx: Context, amount: int) -> Happened | NotHappened:
        del amount
        return Happened(result="paid") if ctx.key in world.payments() else NotHappened()

    @tool(
        approval=True,
        effect="once" if kind == "probe" else kind,
        probe=probe if kind == "probe" else None,
    )
    async def pay(ctx: Context, amount: int) -> str:
        del amount
        fuse.point("before the payment")
        # A target that deduplicates by key makes one payment of two calls.
        if kind != "keyed" or ctx.key not in world.payments():
            world.pay(ctx.key)
        fuse.point("after the payment")
        return "paid"

    @tool(effect="none")
    async def look(what: str) -> str:
        fuse.point("looking")
        world.write("looks", what)
        return what

    if plan:
        return Planner("teller", model=ScriptedModel(_planned), tools=[pay, look])
    first: Any = call("pay", {"amount": 200})
    if siblings:
        first = [call("look", {"what": "balance"}), first, call("look", {"what": "rate"})]
    model = ScriptedModel([first, say("Done.")])
    return Agent("teller", model=model, tools=[pay, look])


async def tell(
    store: Store,
    world: World,
    fuse: Fuse,
    kind: Kind,
    *,
    siblings: bool = False,
    plan: bool = False,
) -> RunView:
    """Tell the story to its end, from wherever it stands."""
    agent = make_agent(kind, world, fuse, siblings=siblings, plan=plan)
    bounds = Bounds(look_s=0.05, start_grace_ms=60_000)
    async with Sayso(fused(store, fuse), agents=[agent], bounds=bounds) as app:
        try:
            run = await app.start("teller", GOAL, by="mira", id=RUN)
        except RunExists:
            run = app.run(RUN)
        world.write("acknowledged", "start")
        while True:
            view = await run.wait(held=True, timeout=20)
            if view.final:
                world.write("ended", view.status)
                return view
            for hold in view.holds:
                await _decide(app, world, hold)


async def _decide(app: Sayso, world: World, hold: HoldView) -> None:
    """Decide as a careful person would: look at the world before calling a doubt settled."""
    verdict = approve()
    if hold.kind == "in_doubt":
        world.write("doubts", hold.id)
        if hold.call_id in world.payments():
            verdict = answer("paid")
        else:
            world.write("again", hold.id)
    try:
        # The world was looked at: whatever the worker is, it has not paid, and never will.
        alive = hold.kind == "in_doubt" and verdict == approve()
        await app.decide(hold, verdict, by="mira", even_if_alive=alive)
    except AlreadyDecided as already:
        # Decided before the crash, or by an earlier look at the same hold.
        assert already.decision.by.id == "mira"
    world.write("acknowledged", f"decide {hold.id}")
