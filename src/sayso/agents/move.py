"""What a call may change in the machine that it belongs to, and the handle by which it does.

Rule: a move is a wish. It counts if the call returns and the move is possible by then; all moves of
a call and its outcome are one append, so a call that fails leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.hold import read_id
from sayso.domain.value import Principal, Value
from sayso.engine.context import Context
from sayso.engine.keys import check_text
from sayso.errors import BadMove, BadValue

S = TypeVar("S")

INPUT_MAX = 1_000_000


class Update(Value, frozen=True, kw_only=True):
    """The state is to be something else."""

    node: str
    value: bytes
    whole: bool = False
    """It is the new state, rather than those of its fields that change."""


class Transition(Value, frozen=True, kw_only=True):
    """The instance is to go to another node."""

    node: str
    to: str
    state: bytes | None = None
    at_once: bool = False
    """Whether what its own calls ask is withdrawn for it."""


class Spawn(Value, frozen=True, kw_only=True):
    """An instance is to begin below this one."""

    node: str
    to: str
    input: str
    state: bytes | None = None


class Cede(Value, frozen=True, kw_only=True):
    """The instance is to end, and leave something to its parent."""

    node: str
    value: bytes
    at_once: bool = False


class Resume(Value, frozen=True, kw_only=True):
    """What the instance waits for is there."""

    node: str
    hold: int
    """0: all that it waits for."""
    value: bytes | None
    error: str
    by: Principal


Move = Update | Transition | Spawn | Cede | Resume


class Instance(Generic[S]):
    """The instance that a call belongs to. A parameter annotated with this, or with
    `Instance[Cart]` where `Cart` is the type of the node's state, is filled in by Sayso.
    """

    def __init__(self, ctx: Context, kind: Any = None) -> None:
        from sayso.domain.tree import decode_kept

        kept = decode_kept(ctx.data)
        if kept is None:
            raise BadMove(f"{ctx.agent!r} is no machine: it has no instances")
        self.id = ctx.strand
        """The name of its strand; the root's is `main`."""
        self.node = kept.node
        """Where it is."""
        self._ctx = ctx
        self._state = bytes(kept.state)
        self._kind = kind

    @property
    def state(self) -> S:
        """What it knows, with what this call has changed of it; a copy."""
        return self._read(self._state)

    def update_state(self, fields: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Change fields of the state, and leave the others alone. It must fit the node's type."""
        self._check_last()
        value = encode_state({**(fields or {}), **more})
        self._take(merge(self._state, value))
        self._ctx.moves.append(Update(node=self.node, value=value))

    def replace_state(self, state: Any) -> None:
        """Put another state in place of the one there is."""
        self._check_last()
        value = encode_state(state)
        self._take(value)
        self._ctx.moves.append(Update(node=self.node, value=value, whole=True))

    def transition(self, to: str, state: Any = None) -> None:
        """Go to another node, with this state or the one that instances begin with there. The
        instances below this one end. It is the last that a call does.
        """
        self._check_last()
        at_once = self._commanded
        self._ctx.moves.append(
            Transition(node=self.node, to=to, state=_optional(state), at_once=at_once)
        )

    def spawn(self, node: str, input: str, state: Any = None) -> None:
        """Let an instance begin below this one, at a node, with something to do."""
        self._check_last()
        check_input(input)
        self._ctx.moves.append(Spawn(node=self.node, to=node, input=input, state=_optional(state)))

    def cede(self, payload: Any = None) -> None:
        """End, and tell the parent. It is the last that a call does; the root cannot."""
        self._check_last()
        value, at_once = encode_state(payload), self._commanded
        self._ctx.moves.append(Cede(node=self.node, value=value, at_once=at_once))

    def resume(self, payload: Any = None, *, hold: str = "", error: str = "") -> None:
        """Give the instance what it waits for from outside, or say why that will not come. Only
        commands can, because a person invokes them; `hold` is one of several.
        """
        self._check_last()
        if not self._commanded:
            raise BadMove("only a command can resume: a tool is called by whoever would be waiting")
        value = None if error else encode_state(payload)
        self._ctx.moves.append(
            Resume(
                node=self.node,
                hold=self._number(hold),
                value=value,
                error=error,
                by=self._ctx.by,
            )
        )

    def _read(self, state: bytes) -> S:
        if self._kind is None:
            return decode_value(state)
        from sayso.agents.schema import read_state

        return read_state(self.node, self._kind).parse(state)

    def _take(self, state: bytes) -> None:
        # What does not fit the type is noticed where it is written.
        self._read(state)
        self._state = state

    @property
    def _commanded(self) -> bool:
        return self._ctx.call_id.rpartition(".")[2].startswith("c")

    def _number(self, hold: str) -> int:
        if not hold:
            return 0
        place = read_id("hold", hold)
        if place is None or place[0] != self._ctx.run_id:
            raise BadMove(f"there is no hold {hold!r} in this run")
        return place[1]

    def _check_last(self) -> None:
        if any(isinstance(move, Transition | Cede) for move in self._ctx.moves):
            raise BadMove("a transition, or ceding, is the last that a call does")


def encode_state(value: Any) -> bytes:
    """Encode what a tool gives as state or payload; `BadValue` if it cannot be kept as JSON."""
    try:
        return encode_value(value)
    except BadValue as error:
        from pydantic_core import to_jsonable_python

        try:
            # NaN would silently become null.
            return encode_value(to_jsonable_python(value, inf_nan_mode="constants"))
        except Exception:  # noqa: BLE001 - serialisers are the user's own code.
            raise error from None


def merge(state: bytes, fields: bytes) -> bytes:
    """Put fields over those of a state."""
    before = decode_value(state)
    if type(before) is not dict:
        raise BadValue(f"the state is {type(before).__name__}, without fields: replace it whole")
    return encode_value({**cast("dict[str, Any]", before), **decode_value(fields)})


def check_input(text: Any) -> None:
    """Refuse what cannot be given to an instance to do."""
    check_text(text, "the input of an instance", INPUT_MAX)
    if not text.strip():
        raise BadMove("an instance is given something to do: it begins with its input")


def _optional(state: Any) -> bytes | None:
    return None if state is None else encode_state(state)
