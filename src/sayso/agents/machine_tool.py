"""The tools by which a model moves its instance: transitions, `spawn` and `cede`.

They have no effect outside the run, so one that was cut off may run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sayso.agents.builtin import Builtin, read_object
from sayso.agents.move import Instance, check_input
from sayso.agents.node import Node
from sayso.domain.digest import decode_value, encode_value
from sayso.engine.context import Context, Suspend
from sayso.errors import BadMove, BadValue

SPAWN = "spawn"
CEDE = "cede"


def transition_name(node: str) -> str:
    """Name the tool that goes to a node."""
    return f"transition_to_{node}"


class TransitionTool(Builtin):
    """Lets a model go to a node."""

    def __init__(self, node: Node) -> None:
        self.name = transition_name(node.name)
        self._node = node
        about = f": {node.description}" if node.description else "."
        self.description = f"Go to {node.name!r}{about}"

    @property
    def parameters(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The JSON Schema of its arguments."""
        return _object({"state": _state(self._node)}, [] if self._node.has_default else ["state"])

    def freeze(self, args: str | bytes) -> bytes:
        """Validate the state that the node is to have."""
        value = _only(self.name, args, {"state"})
        check_state(self._node, value.get("state"))
        return encode_value(value)

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Go there, once everything else that the turn asks for is over."""
        Instance[Any](ctx).transition(self._node.name, decode_value(args).get("state"))
        return encode_value({"transition": self._node.name})


class SpawnTool(Builtin):
    """Lets a model begin instances below its own."""

    name = SPAWN

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        about = "; ".join(
            f"{node.name}: {node.description}" if node.description else node.name for node in nodes
        )
        self.description = (
            "Let an instance begin below you, which works beside you and tells you when it is "
            f"done. It can begin at: {about}."
        )

    @property
    def parameters(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The JSON Schema of its arguments."""
        states = [_state(node) for node in self._nodes.values()]
        return _object(
            {
                "node": {"type": "string", "enum": list(self._nodes)},
                "input": {"type": "string", "description": "What it is to do."},
                "state": states[0] if len(states) == 1 else {"anyOf": states},
            },
            ["node", "input"],
        )

    def freeze(self, args: str | bytes) -> bytes:
        """Validate what is to begin."""
        value = _only(self.name, args, {"node", "input", "state"})
        node = self._nodes.get(value.get("node", ""))
        if node is None:
            known = ", ".join(self._nodes)
            raise BadValue(f"an instance can begin at: {known}, not {value.get('node')!r}")
        try:
            check_input(value.get("input", ""))
        except BadMove as error:
            raise BadValue(str(error)) from None
        check_state(node, value.get("state"))
        return encode_value(value)

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Let it begin."""
        value = decode_value(args)
        Instance[Any](ctx).spawn(value["node"], value["input"], value.get("state"))
        return encode_value({"spawned": value["node"]})


class CedeTool(Builtin):
    """Lets a model end its instance."""

    name = CEDE
    description = "Say that you are done, and what your parent is to know. You end with it."
    parameters = {  # noqa: RUF012
        "type": "object",
        "properties": {"payload": {"description": "What you leave to your parent."}},
        "additionalProperties": False,
    }

    def freeze(self, args: str | bytes) -> bytes:
        """Take any payload."""
        return encode_value(_only(self.name, args, {"payload"}))

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """End, once everything else that the turn asks for is over."""
        Instance[Any](ctx).cede(decode_value(args).get("payload"))
        return encode_value({"ceded": True})


def check_state(node: Node, state: Any) -> None:
    """Refuse a state that an instance cannot begin with at a node."""
    try:
        node.begin(None if state is None else encode_value(state))
    except BadMove as error:
        raise BadValue(str(error)) from None


def _state(node: Node) -> dict[str, Any]:
    about = "What it knows at first, over what is there by default."
    return {**node.schema, "description": about}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    # References inside are to definitions at the root.
    parts = [*properties.values(), *properties.get("state", {}).get("anyOf", ())]
    defs = {name: one for part in parts for name, one in part.pop("$defs", {}).items()}
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if defs:
        found["$defs"] = defs
    if required:
        found["required"] = required
    return {**found, "additionalProperties": False}


def _only(tool: str, args: str | bytes, known: set[str]) -> dict[str, Any]:
    # Some models send nothing where nothing has to be sent.
    value = read_object(tool, args if args.strip() else b"{}")
    unknown = value.keys() - known
    if unknown:
        raise BadValue(f"{tool!r} does not know {', '.join(sorted(unknown))}")
    return value
