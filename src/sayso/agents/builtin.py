"""Tools that come with Sayso, and are given to an agent like any other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast

import msgspec

from sayso.domain.call import Effect
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.hold import Answered, Errored, SignIn, check_silent_answer
from sayso.domain.operand import OperandFile
from sayso.domain.question import Question
from sayso.domain.ruling import Require, require
from sayso.engine.context import Context, Suspend, Wanted
from sayso.engine.form import make_form_question
from sayso.engine.ports import Happened, NotHappened, ToolSpec
from sayso.engine.result import keep_result
from sayso.errors import BadTool, BadValue

_TASK = {"agent", "input"}
_YES_NO = {"yes/no", "yes_no", "boolean", "confirm"}
_KINDS = ("text", "choice", "choices", "yes_no", "number", "date", "form")


class Builtin:
    """What all of them have in common."""

    name = ""
    version = "1"
    effect = Effect.NONE
    effect_declared = True
    risk = "low"
    timeout_ms = 300_000
    approval: Require | None = None
    asks_max = 1
    has_probe = False
    durable = False
    sign_in: SignIn | None = None
    takes_secrets = False
    description = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole, never changed.

    def spec(self) -> ToolSpec:
        """Describe it to a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def operands(self, args: bytes) -> tuple[OperandFile, ...]:
        """Name no files."""
        del args
        return ()

    async def probe(self, ctx: Context, args: bytes) -> Happened | NotHappened | None:
        """Say nothing: it has no effect of its own."""
        del ctx, args

    def ask(self, args: bytes) -> Wanted | None:
        """Have a body."""
        del args
        return None

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Never run: what it asks is its outcome."""
        del ctx, args
        raise BadTool(f"{self.name!r} has no body")


class AskUser(Builtin):
    """`ask_user`: lets a model ask a person; the answer is the call's outcome."""

    name = "ask_user"
    description = (
        "Ask the person you work for a question and wait for the answer. Use it when you cannot go "
        "on without knowing something that only they know."
    )
    parameters = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What you want to know."},
            "kind": {
                "type": "string",
                "enum": list(_KINDS),
                "description": "What the answer is; text if left out, choice if there are options.",
            },
            "options": {
                "type": "array",
                "description": "What can be chosen, for choice and choices.",
                "items": {
                    "type": "object",
                    "properties": {
                        "label": {"type": "string"},
                        "value": {"type": "string"},
                        "description": {"type": "string"},
                    },
                    "required": ["label", "value"],
                },
            },
            "schema": {"type": "object", "description": "The JSON Schema of a form."},
            "placeholder": {"type": "string"},
        },
        "required": ["question"],
    }

    def __init__(self, **who: Any) -> None:
        self._ruling = require(editable=False, answered=True, **who)
        # What a model asks has no default.
        check_silent_answer(Question(text=self.name), self._ruling)

    def freeze(self, args: str | bytes) -> bytes:
        """Validate what the model asks, so that nobody is asked what cannot be answered."""
        value = read_object(self.name, args)
        if "message" in value and "question" not in value:
            value["question"] = value.pop("message")
        frozen = encode_value(value)
        self._wanted(frozen)
        return frozen

    def ask(self, args: bytes) -> Wanted | None:
        """Ask the question."""
        return self._wanted(args)

    def _wanted(self, args: bytes) -> Wanted:
        value = dict(decode_value(args))
        unknown = value.keys() - {"question", "kind", "options", "schema", "placeholder"}
        if unknown:
            raise BadValue(f"'ask_user' does not know {', '.join(sorted(unknown))}")
        text = value.pop("question", "")
        if not isinstance(text, str) or not text.strip():
            raise BadValue("question is required")
        if value.get("kind") in _YES_NO:
            value["kind"] = "yes_no"
        question = make_form_question(text, **value)
        title = self._ruling.title or text[:200]
        return Wanted(ask=question, ruling=msgspec.structs.replace(self._ruling, title=title))


def ask_user(
    *, approvers: Iterable[str] | None = None, within: str | float | None = None, **more: Any
) -> AskUser:
    """Make the tool by which a model asks people. Whoever started the run is asked, unless
    `approvers` names others.
    """
    return AskUser(approvers=approvers, within=within, **more)


def read_object(tool: str, args: str | bytes) -> dict[str, Any]:
    """Read arguments as one JSON object, or refuse them."""
    value = decode_value(args)
    if type(value) is not dict:
        raise BadValue(f"the arguments of {tool!r} are one JSON object")
    return cast("dict[str, Any]", value)


class ChildFailed(Exception):
    """The agent that was given the task did not come to a result."""


def _told(verdict: Answered | Errored) -> dict[str, Any]:
    """Say what one of several agents has brought."""
    if isinstance(verdict, Answered):
        return {"output": verdict.result()}
    return {"error": verdict.message}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class Spawn(Builtin):
    """`spawn`: lets a model give tasks to other agents, and wait for what they bring."""

    name = "spawn"
    effect = Effect.ONCE
    durable = True
    timeout_ms = 300_000

    def __init__(self, agents: Iterable[_Named | str], **options: Any) -> None:
        self.agents = tuple(one if isinstance(one, str) else one.name for one in agents)
        if not self.agents:
            raise BadTool("spawn needs at least one agent")
        self.name = options.pop("name", "spawn")
        self.approval = require(**options) if options.pop("approval", False) else None
        self.description = (
            "Give tasks to other agents, which work on them beside each other, and wait for all "
            f"of them. The agents: {', '.join(self.agents)}."
        )
        task = {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": list(self.agents)},
                "input": {"type": "string", "description": "What it is to do."},
            },
            "required": ["agent", "input"],
        }
        self.parameters = {
            "type": "object",
            "properties": {"tasks": {"type": "array", "items": task, "minItems": 1}},
            "required": ["tasks"],
        }

    def freeze(self, args: str | bytes) -> bytes:
        """Validate the tasks; a single one may be given without a list."""
        value = read_object(self.name, args)
        if "tasks" not in value and "agent" in value:
            value = {"tasks": [value]}
        tasks: Any = value.get("tasks")
        if type(tasks) is not list or not tasks:
            raise BadValue(f"{self.name!r} needs tasks: a list of {{agent, input}}")
        for task in cast("list[Any]", tasks):
            if type(task) is not dict or cast("dict[str, Any]", task).keys() != _TASK:
                raise BadValue("a task has an agent and an input, and nothing else")
            if task["agent"] not in self.agents:
                known = ", ".join(self.agents)
                raise BadValue(f"there is no agent {task['agent']!r}; the agents are: {known}")
            if not isinstance(task["input"], str):
                raise BadValue("the input of a task is a text")
        return encode_value({"tasks": tasks})

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Begin a run for each task, and wait for all."""
        tasks = decode_value(args)["tasks"]
        found = await ctx.spawned([(task["agent"], task["input"]) for task in tasks])
        if len(found) > 1:
            return keep_result([_told(verdict) for verdict in found])
        if isinstance(found[0], Answered):
            return bytes(found[0].value)
        raise ChildFailed(found[0].message)


def spawn(*agents: _Named | str, **options: Any) -> Spawn:
    """Make the tool by which a model gives tasks to other agents."""
    return Spawn(agents, **options)
