"""What the engine needs to know of agents, models and tools, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from sayso.domain.call import Effect
from sayso.domain.message import Message
from sayso.domain.policy import CallFacts, Require
from sayso.domain.value import Principal, Value


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of its arguments."""


class Prompt(Value, frozen=True, kw_only=True):
    """Everything a model is given for one turn."""

    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    """What it may use. A model that needs their schemas asks for them: making one is not free."""


class AskedCall(Value, frozen=True, kw_only=True):
    """A call as the model asked for it: nothing in it is trusted or even well-formed."""

    tool: str
    args: str = "{}"
    """What it wrote as arguments: JSON, one hopes."""
    given: str = ""
    """The provider's id for the call."""


class Answer(Value, frozen=True, kw_only=True):
    """What a model answered."""

    text: str = ""
    calls: tuple[AskedCall, ...] = ()
    raw: bytes | None = None
    """The provider's own JSON, to be given back verbatim with the next prompt."""
    usage: dict[str, int] | None = None


class Model(Protocol):
    """Answers prompts."""

    @property
    def name(self) -> str:
        """What the journal calls it, such as `openai:gpt-5`."""
        ...

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        """Take one turn; hand text to `emit` as it comes.

        Raise `ModelFailed`, with `retryable` set if another try may help.
        """
        ...


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool is told of its call. A parameter annotated with this is filled in by Sayso."""

    run_id: str
    call_id: str
    key: str
    """The same for every attempt of this call, and for no other: give it to targets that
    deduplicate by key.
    """
    attempt: int
    by: Principal
    """Who started the run."""
    agent: str
    project: str
    thread: str = ""
    deps: Any = None
    """What was given to `Sayso(deps=...)`."""


class Happened(Value, frozen=True, kw_only=True):
    """A probe's answer: the effect is there, and this was the result."""

    result: Any = None


class NotHappened(Value, frozen=True, kw_only=True):
    """A probe's answer: the effect is not there, and will not come any more."""


class Tool(Protocol):
    """Something an agent can use."""

    @property
    def name(self) -> str:
        """What models and rules call it."""
        ...

    @property
    def version(self) -> str:
        """Changes when an approval of the old one should not count for the new one."""
        ...

    @property
    def effect(self) -> Effect:
        """What it does to the world."""
        ...

    @property
    def risk(self) -> str:
        """How bad it would be if it went wrong."""
        ...

    @property
    def timeout_ms(self) -> int:
        """How long one attempt may take."""
        ...

    @property
    def approval(self) -> Require | None:
        """Whom the tool itself demands, rules or not."""
        ...

    @property
    def asks_max(self) -> int:
        """How often one and the same call may be put to people after a no."""
        ...

    @property
    def has_probe(self) -> bool:
        """Whether its target can be asked if a call happened."""
        ...

    def spec(self) -> ToolSpec:
        """Describe it to a model."""
        ...

    def freeze(self, args: str | bytes) -> bytes:
        """Validate arguments and encode them once and for all; `BadValue` if they do not fit."""
        ...

    async def call(self, ctx: Context, args: bytes) -> bytes:
        """Run the tool on what these bytes parse to; return the encoded result."""
        ...

    async def probe(self, ctx: Context, args: bytes) -> Happened | NotHappened | None:
        """Ask the target whether this call happened; None if it does not know."""
        ...


Intervention = Callable[[CallFacts], object]
"""`check_for_intervention`: sync or async; True or a ruling holds a call, False lets it go on."""


class Reading(Value, frozen=True, kw_only=True):
    """What an agent makes of an answer without calls."""

    output: bytes | None = None
    """The run's encoded result: it is done."""
    complaint: str = ""
    """What to tell the model instead: the answer is not usable, it must try again."""


class Driver(Protocol):
    """An agent, as the engine sees it: what to ask the model next, and what to make of it."""

    @property
    def name(self) -> str:
        """What runs call it."""
        ...

    @property
    def version(self) -> str:
        """Recorded with every run it starts."""
        ...

    @property
    def model(self) -> Model:
        """Who answers."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What it can use, by name."""
        ...

    @property
    def turns_max(self) -> int:
        """How many turns a run may take before it fails."""
        ...

    @property
    def model_tries_max(self) -> int:
        """How often a model that fails is asked again for one turn."""
        ...

    @property
    def check_for_intervention(self) -> Intervention | None:
        """The agent's own gate check, beside the app's."""
        ...

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """Say what to ask the model, given the conversation so far."""
        ...

    def read(self, answer: Answer) -> Reading:
        """Make a result of an answer that asks for no calls."""
        ...
