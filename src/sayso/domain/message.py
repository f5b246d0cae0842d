"""The messages of a conversation, in our own types."""

from sayso.domain.call import Call, Outcome
from sayso.domain.value import RawOrNone, Tagged


class UserMessage(Tagged, frozen=True, kw_only=True, tag="user"):
    """What a person said."""

    text: str
    by: str = ""


class AssistantMessage(Tagged, frozen=True, kw_only=True, tag="assistant"):
    """What the model said, and the calls it asked for."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    raw: RawOrNone = None
    """What the provider sent, to be given back verbatim; opaque to us."""
    model: str = ""


class ToolMessage(Tagged, frozen=True, kw_only=True, tag="tool"):
    """What became of a call."""

    call_id: str
    tool: str
    outcome: Outcome
    given: str = ""
    note: str = ""
    """What the model must know beside the outcome, such as that a person edited the arguments."""


Message = UserMessage | AssistantMessage | ToolMessage
