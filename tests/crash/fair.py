"""A machine's story for the crash harness: two clerks pay and check, then the desk goes on.

Like `story.py`, it is told from wherever it stands, and whatever happens outside writes a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sayso import (
    AssistantMessage,
    Context,
    HoldView,
    Instance,
    Machine,
    Message,
    Node,
    RunView,
    Sayso,
    UserMessage,
    answer,
    approve,
    tool,
)
from sayso.engine.parts import Bounds
from sayso.errors import AlreadyDecided, RunExists
from sayso.store.base import Store
from sayso.store.sqlite import SqliteStore
from sayso.testing import ScriptedModel, call, say
from sayso.testing.fuse import Fuse, fused

RUN = "run_fair"
GOAL = "Open the fair."
PATIENCE_S = 20


def write(folder: Path, name: str, line: str) -> None:
    """Note what happened, by one system call."""
    handle = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def read(folder: Path, name: str) -> list[str]:
    """List what happened."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def _turn(messages: tuple[Message, ...]) -> Any:
    first = messages[0]
    assert isinstance(first, UserMessage)
    taken = sum(isinstance(message, AssistantMessage) for message in messages)
    if first.text != GOAL:
        work = [call("pay", {"name": first.text}), call("check", {"name": first.text})]
        return [work, call("mark"), call("cede", {"payload": first.text})][min(taken, 2)]
    heard = [one.text for one in messages[1:] if isinstance(one, UserMessage)]
    brought = sorted(text.partition(" has ceded: ")[2] for text in heard)
    if not taken:
        return [call("spawn", {"node": "clerk", "input": name}) for name in ("A", "B")]
    if len(heard) < 2:
        return say("I wait.")
    # Whoever goes to the till has heard both, in whatever order.
    gone = any(
        one.tool == "transition_to_till"
        for message in messages
        if isinstance(message, AssistantMessage)
        for one in message.calls
    )
    return say(" ".join(brought)) if gone else call("transition_to_till")


def make_fair(folder: Path, fuse: Fuse) -> Machine:
    """A desk, two clerks and a till; a payment has a crash point on either side."""

    @tool(approval=True, effect="keyed")
    async def pay(ctx: Context, name: str) -> str:
        fuse.point("before the payment")
        if f"{ctx.key} {name}" not in read(folder, "payments"):
            write(folder, "payments", f"{ctx.key} {name}")
        fuse.point("after the payment")
        return "paid"

    @tool(effect="none")
    def check(ctx: Context, name: str) -> Any:
        return ctx.suspend(reason=f"check {name}")

    @tool(effect="none")
    async def mark(me: Instance) -> int:
        me.update_state(marks=me.state["marks"] + 1)
        fuse.point("marking")
        return me.state["marks"]

    return Machine(
        "fair",
        model=ScriptedModel(_turn),
        root="desk",
        nodes=[
            Node("desk", spawns=["clerk"], transitions=["till"]),
            Node("clerk", tools=[pay, check, mark], state={"marks": 0}),
            Node("till", state={"open": True}),
        ],
    )


async def tell(store: Store, folder: Path, fuse: Fuse) -> RunView:
    """Tell the story to its end, from wherever it stands."""
    bounds = Bounds(look_s=0.05, start_grace_ms=60_000)
    app_of = fused(store, fuse)
    async with Sayso(app_of, agents=[make_fair(folder, fuse)], bounds=bounds) as app:
        try:
            run = await app.start("fair", GOAL, by="mira", id=RUN)
        except RunExists:
            run = app.run(RUN)
        while True:
            view = await run.wait(held=True, timeout=PATIENCE_S)
            if view.final:
                return view
            for hold in view.holds:
                await _decide(app, folder, hold)


async def _decide(app: Sayso, folder: Path, hold: HoldView) -> None:
    try:
        await app.decide(hold, approve() if hold.kind == "approval" else answer("fine"), by="mira")
    except AlreadyDecided:
        return
    write(folder, "acknowledged", hold.id)


async def _answer_some(folder: Path, many: int) -> None:
    """Answer some of what is asked, and die."""
    store = await SqliteStore.open(folder / "fair.db")
    async with Sayso(store, agents=[make_fair(folder, Fuse())]) as app:
        try:
            run = await app.start("fair", GOAL, by="mira", id=RUN)
        except RunExists:
            run = app.run(RUN)
        for _ in range(many):
            view = await run.wait(timeout=PATIENCE_S)
            await _decide(app, folder, view.holds[-1])
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(_answer_some(Path(sys.argv[1]), int(sys.argv[2])))
