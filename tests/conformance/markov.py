"""A machine as markov-machines knows it: refunds that wait for somebody, tools that do not, and
commands for whoever watches.

markov-machines (seed 3): nodes, instances in a tree, tools and commands that suspend, each
suspension resumed by its id. The setting that honours it is the default, `resolve="each"` with
`siblings="run"`: what does not wait goes on, and every hold is decided by itself.
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
    RunView,
    ToolMessage,
    UserMessage,
    tool,
)
from sayso.testing import ScriptedModel, call
from tests.engine.kit import Place


@dataclass
class Desk:
    """What an instance knows at the desk."""

    refunds: int = 0
    note: str = ""


def refund(order: str, amount: int = 10) -> Any:
    return call("request_refund", {"order_id": order, "amount": amount})


def hire(*inputs: str) -> list[Any]:
    return [call("spawn", {"node": "clerk", "input": one}) for one in inputs]


class Markov:
    """A machine whose instances take the turns that a test gives them, told apart by the first word
    that was said to each. What its tools do is written down outside.
    """

    def __init__(
        self,
        place: Place,
        turns: Mapping[str, Sequence[Any]],
        *,
        tools: Sequence[Any] = (),
        commands: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        self.place = place
        self.turns = turns
        self.shown: dict[str, list[tuple[Message, ...]]] = {}
        """What the models were given, by the instance's first word."""
        world = place.world

        @tool(effect="once")
        async def request_refund(ctx: Context, order_id: str, amount: int) -> Any:
            """Ask for the refund of an order."""
            world.write("approvals", f"{order_id} {amount}")
            return ctx.suspend(
                reason=f"refund of {order_id}", metadata={"approval_id": f"appr-{order_id}"}
            )

        @tool(effect="once")
        async def look_up(ctx: Context, order_id: str) -> str:
            """Look an order up."""
            world.write("effects", ctx.key)
            return f"{order_id} was delivered"

        desk = [request_refund, look_up, *tools]
        own = [*_COMMANDS, *commands]
        nodes = [
            Node(
                "desk",
                instructions="You take care of refunds.",
                tools=desk,
                commands=own,
                transitions=["till"],
                spawns=["clerk"],
                state=Desk,
            ),
            Node("till", instructions="You count.", commands=[remark], state=Desk(refunds=5)),
            Node("clerk", tools=desk, commands=own, spawns=["clerk"], state=Desk),
        ]
        self.machine = Machine(
            "shop", model=ScriptedModel(self._turn), nodes=nodes, root="desk", **options
        )

    def _turn(self, messages: tuple[Message, ...]) -> Any:
        first = messages[0]
        assert isinstance(first, UserMessage)
        word = first.text.split()[0]
        self.shown.setdefault(word, []).append(messages)
        at = sum(isinstance(one, AssistantMessage) for one in messages)
        turn = self.turns[word][at]
        return turn(messages) if callable(turn) else turn

    @property
    def approvals(self) -> list[str]:
        return self.place.world.read("approvals")

    @property
    def effects(self) -> list[str]:
        return self.place.world.read("effects")

    def told(self, word: str = "go") -> list[Any]:
        """The outcomes in the last prompt of an instance."""
        return [one.outcome for one in self.shown[word][-1] if isinstance(one, ToolMessage)]


@tool(effect="none")
def escalate(ctx: Context, to: str) -> Any:
    """Wait until somebody has answered."""
    return ctx.suspend(reason=f"escalated to {to}", metadata={"to": to})


@tool
def remark(me: Instance[Desk], text: str) -> str:
    """Write something down."""
    me.update_state(note=text)
    return me.state.note


@tool
def settle(me: Instance, value: Any, hold: str = "") -> None:
    """Give the instance what it waits for."""
    me.resume(value, hold=hold)


@tool
def add_clerk(me: Instance, input: str) -> None:
    me.spawn("clerk", input)


@tool
def go_to_till(me: Instance) -> None:
    me.transition("till", {"refunds": 7})


@tool
def leave(me: Instance) -> None:
    me.cede("left")


@tool
def stumble(me: Instance[Desk]) -> None:
    """Change the state, and fail."""
    me.update_state(note="half done")
    raise ValueError("no")


_COMMANDS = (escalate, remark, settle, add_clerk, go_to_till, leave, stumble)


def tree(view: RunView) -> dict[str, InstanceView]:
    """Give the instances by their ids."""
    return {one.id: one for one in view.tree}


def statuses(view: RunView) -> dict[str, str]:
    """Say how each instance stands."""
    return {one.id: one.status for one in view.tree}


def said(view: RunView) -> list[str]:
    """List what was said to the root after its input."""
    return [one.text for one in view.messages[1:] if isinstance(one, UserMessage)]
