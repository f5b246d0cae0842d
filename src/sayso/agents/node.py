"""A node of a machine: what an instance is told there, what it can use, and where it can go."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from sayso.agents.move import encode_state, merge
from sayso.agents.tools import NAME
from sayso.domain.digest import decode_value
from sayso.engine.ports import Tool
from sayso.errors import BadAgent, BadMove, BadValue

if TYPE_CHECKING:
    from sayso.agents.schema import State


class Node:
    """A place where an instance of a machine can be.

    `state` is what instances know there: a pydantic model or a dataclass, an object of one, which
    they begin with, or any JSON value, which they begin with and which has no type. `transitions`
    and `spawns` name the nodes that an instance can go to, and that it can let others begin at.
    """

    def __init__(
        self,
        name: str,
        *,
        instructions: str = "",
        description: str = "",
        tools: Iterable[Tool] = (),
        commands: Iterable[Tool] = (),
        transitions: Iterable[str] = (),
        spawns: Iterable[str] = (),
        state: Any = None,
    ) -> None:
        if type(name) is not str or not NAME.fullmatch(name):
            raise BadAgent(
                f"{name!r} cannot name a node: use up to 64 letters, digits, underscores and "
                "hyphens"
            )
        self.name = name
        self.instructions = _text(name, "instructions", instructions)
        self.description = _text(name, "description", description)
        self.tools = _tools(name, "tools", tools)
        self.commands = _tools(name, "commands", commands)
        self.transitions = _names(name, "transitions", transitions)
        self.spawns = _names(name, "spawns", spawns)
        self._kind, self._first = _read(name, state)
        self._default: bytes | None = None

    def __repr__(self) -> str:
        return f"<node {self.name!r}>"

    @property
    def has_default(self) -> bool:
        """Tell whether an instance can begin here without being given a state."""
        return self._kind is None or self._first is not None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its state."""
        return {} if self._kind is None else self._type.schema

    def begin(self, given: bytes | None = None) -> bytes:
        """Make the state that an instance has here at first: what is given, over the default."""
        if not self.has_default and given is None:
            raise BadMove(f"the node {self.name!r} has no state to begin with: give one")
        if not self.has_default or not _is_object(self._begin_with):
            return self.freeze(self._begin_with if given is None else given)
        if given is not None and not _is_object(given):
            raise BadValue(f"the state of {self.name!r} is a JSON object")
        return self.freeze(self._begin_with if given is None else merge(self._begin_with, given))

    def freeze(self, state: bytes) -> bytes:
        """Validate a state and encode it; `BadValue` if it does not fit."""
        return state if self._kind is None else self._type.freeze(state)

    @property
    def _begin_with(self) -> bytes:
        if self._default is None:
            if self._kind is None:
                self._default = encode_state(self._first)
            else:
                self._default = self._type.dump(self._first)
        return self._default

    @property
    def _type(self) -> State:
        from sayso.agents.schema import read_state

        return read_state(self.name, self._kind)


def _is_object(data: bytes) -> bool:
    return type(decode_value(data)) is dict


def _read(node: str, state: Any) -> tuple[Any, Any]:
    """Read the type of a state, None if it has none, and the state to begin with."""
    if not isinstance(state, type):
        kind = cast("Any", type(state))
        if _is_typed(kind):
            return kind, state
        try:
            encode_state(state)
        except BadValue as error:
            raise BadAgent(f"the state of the node {node!r} is no JSON: {error}") from None
        return None, {} if state is None else state
    kind = cast("Any", state)
    if not _is_typed(kind):
        raise BadAgent(
            f"the state of the node {node!r} is a pydantic model, a dataclass or a JSON value, "
            f"not {kind!r}"
        )
    try:
        return kind, kind()
    except (TypeError, ValueError):
        return kind, None  # Whoever lets an instance begin here gives it a state.


def _is_typed(kind: Any) -> bool:
    # By a name that every pydantic model has: it must not be imported for this.
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")


def _text(node: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadAgent(f"{field} of the node {node!r} is a text, not {value!r}")
    return value


def _names(node: str, field: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise BadAgent(f"{field} of the node {node!r} is a list of names, not {names!r}")
    found = tuple(cast("Iterable[str]", names))
    if not all(isinstance(one, str) for one in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadAgent(f"{field} of the node {node!r} names nodes, by their names")
    if len(set(found)) != len(found):
        raise BadAgent(f"{field} of the node {node!r} names a node twice")
    return found


def _tools(node: str, field: str, tools: Any) -> tuple[Tool, ...]:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise BadAgent(f"{field} of the node {node!r} is a list of tools, not {tools!r}")
    return tuple(cast("Iterable[Tool]", tools))
