"""Durable human-in-the-loop for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sayso.agents.agent import Agent
from sayso.agents.move import Instance
from sayso.agents.tools import tool
from sayso.app import Page, Sayso
from sayso.domain.call import Declined, Effect, Failed, Outcome, Returned, Unknown
from sayso.domain.grant import Grant
from sayso.domain.hold import Decision, SignIn, Verdict, answer, approve, fail, reject
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.operand import Operand, OperandPin
from sayso.domain.people import Person
from sayso.domain.policy import CallFacts, Policy, Rule
from sayso.domain.question import Option, Question
from sayso.domain.recorded import Recorded
from sayso.domain.ruling import (
    Forbid,
    Proceed,
    Require,
    anyone,
    owner,
    require,
    role,
    service,
    user,
)
from sayso.domain.secret import Secret
from sayso.domain.tree import InstanceView
from sayso.domain.value import Principal
from sayso.engine.context import Said
from sayso.engine.feed import Delta
from sayso.engine.grants import Always
from sayso.engine.handle import RunHandle
from sayso.engine.parts import Bounds
from sayso.engine.ports import Context, Happened, NotHappened
from sayso.errors import NotAnswered, NotDone, SaysoError, StepFailed
from sayso.store.views import CommandView, HoldView, RunView

if TYPE_CHECKING:
    from sayso.agents.builtin import ask_user, spawn
    from sayso.agents.machine import Machine
    from sayso.agents.node import Node
    from sayso.agents.oauth_provider import OAuthProvider
    from sayso.agents.planner import Planner
    from sayso.agents.policy_file import PolicyFile, load_policy
    from sayso.domain.drawing import render_text
    from sayso.domain.rendering import Rendering, render
    from sayso.engine.courier import DeadNotice, Notice
    from sayso.engine.doctor import Report
    from sayso.engine.form import make_form_question as question
    from sayso.engine.otel import OpenTelemetry
    from sayso.engine.signing import DeskKey
    from sayso.store.checkup import Finding
    from sayso.store.doubt import DoubtView

__all__ = [
    "Agent",
    "Always",
    "AssistantMessage",
    "Bounds",
    "CallFacts",
    "CommandView",
    "Context",
    "DeadNotice",
    "Decision",
    "Declined",
    "Delta",
    "DeskKey",
    "DoubtView",
    "Effect",
    "Failed",
    "Finding",
    "Forbid",
    "Grant",
    "Happened",
    "HoldView",
    "Instance",
    "InstanceView",
    "Machine",
    "Message",
    "Node",
    "NotAnswered",
    "NotDone",
    "NotHappened",
    "Notice",
    "OAuthProvider",
    "OpenTelemetry",
    "Operand",
    "OperandPin",
    "Option",
    "Outcome",
    "Page",
    "Person",
    "Planner",
    "Policy",
    "PolicyFile",
    "Principal",
    "Proceed",
    "Question",
    "Recorded",
    "Rendering",
    "Report",
    "Require",
    "Returned",
    "Rule",
    "RunHandle",
    "RunView",
    "Said",
    "Sayso",
    "SaysoError",
    "Secret",
    "SignIn",
    "StepFailed",
    "ToolMessage",
    "Unknown",
    "UserMessage",
    "Verdict",
    "answer",
    "anyone",
    "approve",
    "ask_user",
    "fail",
    "load_policy",
    "owner",
    "question",
    "reject",
    "render",
    "render_text",
    "require",
    "role",
    "service",
    "spawn",
    "tool",
    "user",
]

# What a process that only resumes a run does not need; it is imported when it is first named.
_LATER = {
    "DeadNotice": ("sayso.engine.courier", "DeadNotice"),
    "DeskKey": ("sayso.engine.signing", "DeskKey"),
    "DoubtView": ("sayso.store.doubt", "DoubtView"),
    "Finding": ("sayso.store.checkup", "Finding"),
    "Machine": ("sayso.agents.machine", "Machine"),
    "Node": ("sayso.agents.node", "Node"),
    "Notice": ("sayso.engine.courier", "Notice"),
    "OAuthProvider": ("sayso.agents.oauth_provider", "OAuthProvider"),
    "OpenTelemetry": ("sayso.engine.otel", "OpenTelemetry"),
    "Planner": ("sayso.agents.planner", "Planner"),
    "PolicyFile": ("sayso.agents.policy_file", "PolicyFile"),
    "Rendering": ("sayso.domain.rendering", "Rendering"),
    "Report": ("sayso.engine.doctor", "Report"),
    "ask_user": ("sayso.agents.builtin", "ask_user"),
    "load_policy": ("sayso.agents.policy_file", "load_policy"),
    "question": ("sayso.engine.form", "make_form_question"),
    "render": ("sayso.domain.rendering", "render"),
    "render_text": ("sayso.domain.drawing", "render_text"),
    "spawn": ("sayso.agents.builtin", "spawn"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'sayso' has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
