"""Machines to test with: a desk that lets clerks begin, who wait for something from outside.

What each instance says is told by the first thing that was said to it, so that a script needs to
know nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sayso import (
    AssistantMessage,
    Context,
    Instance,
    InstanceView,
    Machine,
    Message,
    Node,
    RunHandle,
    RunView,
    UserMessage,
    tool,
)
from sayso.testing import ScriptedModel, call


@dataclass
class Cart:
    total: int = 0
    note: str = ""


def script(**turns: Sequence[Any]) -> ScriptedModel:
    """Let each instance take its own turns, found by the first word that was said to it."""

    def turn(messages: tuple[Message, ...]) -> Any:
        first = messages[0]
        assert isinstance(first, UserMessage)
        at = sum(isinstance(message, AssistantMessage) for message in messages)
        found = turns[first.text.split()[0]][at]
        return found() if callable(found) else found

    return ScriptedModel(turn)


@tool(effect="none")
def add(me: Instance[Cart], n: int) -> int:
    me.update_state(total=me.state.total + n)
    return me.state.total


@tool(effect="none")
def check(ctx: Context, what: str) -> Any:
    return ctx.suspend(reason=f"checking {what}", metadata={"what": what})


@tool
def note(me: Instance[Cart], text: str) -> str:
    me.update_state(note=text)
    return me.state.note


@tool
def give(me: Instance, value: str, hold: str = "") -> None:
    me.resume(value, hold=hold)


@tool
def dismiss(me: Instance) -> None:
    me.cede("dismissed")


@tool
def hire(me: Instance, input: str) -> None:
    me.spawn("clerk", input)


@tool
def close_shop(me: Instance) -> None:
    me.transition("till", {"total": 7})


@tool
def wait_first(ctx: Context) -> Any:
    return ctx.suspend(reason="the command waits")


@tool
def break_down(me: Instance, how: str) -> None:
    me.update_state(total=99)
    if how == "raise":
        raise ValueError("no")
    if how == "type":
        me.replace_state({"total": "many"})
    if how == "cede":
        me.cede()


@tool
def spoil(me: Instance, ctx: Context) -> Any:
    me.update_state(total=99)
    return ctx.suspend(reason="never")


@tool(approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


HIRES = [call("spawn", {"node": "clerk", "input": name}) for name in ("A", "B")]


def clerk(name: str) -> list[Any]:
    """Check something, and leave what came of it to the parent."""
    return [call("check", {"what": name}), call("cede", {"payload": f"{name} is checked"})]


def shop(
    model: ScriptedModel,
    tools: Sequence[Any] = (),
    lower: Sequence[Any] = (),
    orders: Sequence[Any] = (),
    **options: Any,
) -> Machine:
    """A desk where clerks can begin, and a till where it ends."""
    commands = [note, hire, close_shop, wait_first, break_down, spoil, dismiss, give]
    return Machine(
        "shop",
        model=model,
        root="desk",
        nodes=[
            Node(
                "desk",
                tools=[add, pay, check, break_down, spoil, *tools],
                commands=commands,
                transitions=["till"],
                spawns=["clerk"],
                state=Cart,
            ),
            Node("till", instructions="Count.", tools=[add], commands=[note], state=Cart(total=5)),
            Node(
                "clerk",
                tools=[check, dismiss, *lower],
                commands=[give, dismiss, hire, *orders],
                spawns=["clerk"],
                state={"seen": []},
            ),
        ],
        **options,
    )


def tree(view: RunView) -> Mapping[str, InstanceView]:
    """Give the instances by their ids."""
    return {one.id: one for one in view.tree}


def statuses(view: RunView) -> dict[str, str]:
    """Say how each instance stands."""
    return {one.id: one.status for one in view.tree}


def said(view: RunView) -> list[str]:
    """List what was said to the root after its input."""
    return [one.text for one in view.messages[1:] if isinstance(one, UserMessage)]


def last_outcome(view: RunView) -> Any:
    """Give the last outcome that the root's model was shown."""
    return [one.outcome for one in view.messages if hasattr(one, "outcome")][-1]


async def waits(run: RunHandle, name: str) -> bool:
    """Tell whether an instance waits for somebody."""
    return statuses(await run.view()).get(name) == "waiting"
