"""Calls and what became of them."""

import enum
from typing import Any

import msgspec

from sayso.domain.digest import decode_value
from sayso.domain.operand import OperandPin
from sayso.domain.value import Tagged, Value


class Effect(enum.StrEnum):
    """What a tool does to the world, and so whether it may be started again."""

    NONE = "none"
    """It reads: it may run again."""
    KEYED = "keyed"
    """Its target drops a second call with the same key: it may run again with that key."""
    ONCE = "once"
    """It acts, and would act twice: never again without a person."""


class CallState(enum.StrEnum):
    """Where a call stands. `lifecycle.CALL_MOVES` says how it gets from one to another."""

    READY = "ready"
    """It needs nobody and has not started."""
    HELD = "held"
    """A person is asked before it starts."""
    APPROVED = "approved"
    """Somebody who may say so has said so; it has not started."""
    STARTED = "started"
    """An attempt is under way, or was when its worker was last heard of."""
    WAITING = "waiting"
    """It has asked something: the answer is its outcome, or what its body goes on with."""
    ANSWERED = "answered"
    """All that its body has asked is settled: it may go on."""
    DOUBTED = "doubted"
    """An attempt may or may not have had its effect; a person is asked."""
    DONE = "done"
    """It has its outcome."""


class Returned(Tagged, frozen=True, kw_only=True, tag="returned"):
    """The call gave a result."""

    value: msgspec.Raw

    def __repr__(self) -> str:
        return f"Returned(value={bytes(self.value).decode(errors='replace')})"

    def result(self) -> Any:
        """Parse the result."""
        return decode_value(bytes(self.value), bytes_max=len(bytes(self.value)))


class Failed(Tagged, frozen=True, kw_only=True, tag="failed"):
    """The call ended in an error, and the tool's word is that this is all that happened."""

    message: str
    error: str = ""
    """The kind of error, such as the exception's class name."""


class Declined(Tagged, frozen=True, kw_only=True, tag="declined"):
    """The call never started, because a person, a rule or the clock said no."""

    reason: str
    by: str = ""


class Unknown(Tagged, frozen=True, kw_only=True, tag="unknown"):
    """Nobody can say whether the call had its effect, and a person gave up finding out."""

    reason: str


Outcome = Returned | Failed | Declined | Unknown


class Call(Value, frozen=True, kw_only=True):
    """A request to use a tool, as the turn that asked for it recorded it."""

    ref: str
    """Its place in the run, `{turn}.{index}`; with the run's id in front it is the call's id."""
    tool: str
    args: msgspec.Raw = msgspec.Raw(b"{}")
    """The only bytes that are shown, decided on and executed."""
    digest: str = ""
    tool_version: str = ""
    given: str = ""
    """The id that the model's provider gave the call: opaque, and not always unique."""
    text: str = ""
    """What the model wrote where arguments belong, if that was not usable as arguments."""
    operands: tuple[OperandPin, ...] = ()
    """The files that its arguments name, if a person is asked about it: its digest covers them."""


def call_id(run: str, ref: str) -> str:
    """Make the id of a call, the same for ever and for every attempt."""
    return f"{run}.{ref}"
