"""Durable human-in-the-loop for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sayso import errors as errors

if TYPE_CHECKING:
    from sayso.agents.agent import Agent
    from sayso.agents.builtin import ask_user, spawn
    from sayso.agents.machine import Machine
    from sayso.agents.move import Instance
    from sayso.agents.node import Node
    from sayso.agents.oauth_provider import OAuthProvider
    from sayso.agents.planner import Planner
    from sayso.agents.policy_file import PolicyFile, load_policy
    from sayso.agents.tools import tool
    from sayso.app import Page, Sayso
    from sayso.domain.call import Declined, Effect, Failed, Outcome, Returned, Unknown
    from sayso.domain.drawing import render_text
    from sayso.domain.grant import Grant
    from sayso.domain.hold import Decision, SignIn, Verdict, answer, approve, fail, reject
    from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
    from sayso.domain.operand import Operand, OperandPin
    from sayso.domain.people import Person
    from sayso.domain.policy import CallFacts, Policy, Rule
    from sayso.domain.question import Option, Question
    from sayso.domain.recorded import Recorded
    from sayso.domain.rendering import Rendering, render
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
    from sayso.engine.courier import DeadNotice, Notice
    from sayso.engine.doctor import Report
    from sayso.engine.feed import Delta
    from sayso.engine.form import make_form_question as question
    from sayso.engine.grants import Always
    from sayso.engine.handle import RunHandle
    from sayso.engine.otel import OpenTelemetry
    from sayso.engine.parts import Bounds
    from sayso.engine.ports import Context, Happened, NotHappened
    from sayso.engine.signing import DeskKey
    from sayso.errors import NotAnswered, NotDone, SaysoError, StepFailed
    from sayso.store.checkup import Finding
    from sayso.store.doubt import DoubtView
    from sayso.store.views import CommandView, HoldView, RunView

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

_HOMES = {
    "agents.agent": "Agent",
    "agents.builtin": "ask_user spawn",
    "agents.machine": "Machine",
    "agents.move": "Instance",
    "agents.node": "Node",
    "agents.oauth_provider": "OAuthProvider",
    "agents.planner": "Planner",
    "agents.policy_file": "PolicyFile load_policy",
    "agents.tools": "tool",
    "app": "Page Sayso",
    "domain.call": "Declined Effect Failed Outcome Returned Unknown",
    "domain.drawing": "render_text",
    "domain.grant": "Grant",
    "domain.hold": "Decision SignIn Verdict answer approve fail reject",
    "domain.message": "AssistantMessage Message ToolMessage UserMessage",
    "domain.operand": "Operand OperandPin",
    "domain.people": "Person",
    "domain.policy": "CallFacts Policy Rule",
    "domain.question": "Option Question",
    "domain.recorded": "Recorded",
    "domain.rendering": "Rendering render",
    "domain.ruling": "Forbid Proceed Require anyone owner require role service user",
    "domain.secret": "Secret",
    "domain.tree": "InstanceView",
    "domain.value": "Principal",
    "engine.context": "Said",
    "engine.courier": "DeadNotice Notice",
    "engine.doctor": "Report",
    "engine.feed": "Delta",
    "engine.form": "question",
    "engine.grants": "Always",
    "engine.handle": "RunHandle",
    "engine.otel": "OpenTelemetry",
    "engine.parts": "Bounds",
    "engine.ports": "Context Happened NotHappened",
    "engine.signing": "DeskKey",
    "errors": "NotAnswered NotDone SaysoError StepFailed",
    "store.checkup": "Finding",
    "store.doubt": "DoubtView",
    "store.views": "CommandView HoldView RunView",
}
"""Which module each of them is in. It is imported when somebody first names one of them, so that a
process pays for what it uses only.
"""
_LATER = {name: home for home, names in _HOMES.items() for name in names.split()}
_NAMED_THERE = {"question": "make_form_question"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'sayso' has no attribute {name!r}")
    module = import_module(f"sayso.{_LATER[name]}")
    found = globals()[name] = getattr(module, _NAMED_THERE.get(name, name))
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
