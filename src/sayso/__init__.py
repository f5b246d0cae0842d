"""Durable human-in-the-loop for AI agents."""

from sayso.agents.agent import Agent
from sayso.agents.tools import tool
from sayso.app import Page, Sayso
from sayso.domain.call import Declined, Effect, Failed, Outcome, Returned, Unknown
from sayso.domain.events import Recorded
from sayso.domain.hold import Decision, Verdict, answer, approve, fail, reject
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.policy import (
    CallFacts,
    Forbid,
    Policy,
    Proceed,
    Require,
    Rule,
    anyone,
    owner,
    require,
    user,
)
from sayso.domain.value import Principal
from sayso.engine.feed import Delta
from sayso.engine.handle import RunHandle
from sayso.engine.parts import Bounds
from sayso.engine.ports import Context, Happened, NotHappened
from sayso.errors import NotDone, SaysoError
from sayso.store.views import HoldView, RunView

__all__ = [
    "Agent",
    "AssistantMessage",
    "Bounds",
    "CallFacts",
    "Context",
    "Decision",
    "Declined",
    "Delta",
    "Effect",
    "Failed",
    "Forbid",
    "Happened",
    "HoldView",
    "Message",
    "NotDone",
    "NotHappened",
    "Outcome",
    "Page",
    "Policy",
    "Principal",
    "Proceed",
    "Recorded",
    "Require",
    "Returned",
    "Rule",
    "RunHandle",
    "RunView",
    "Sayso",
    "SaysoError",
    "ToolMessage",
    "Unknown",
    "UserMessage",
    "Verdict",
    "answer",
    "anyone",
    "approve",
    "fail",
    "owner",
    "reject",
    "require",
    "tool",
    "user",
]
