"""What the engine needs to know of agents, models and tools, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sayso.domain import events as e
from sayso.domain.call import Effect
from sayso.domain.hold import SignIn
from sayso.domain.message import Message
from sayso.domain.operand import OperandFile
from sayso.domain.policy import CallFacts
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.domain.value import Value
from sayso.engine.context import Context, Suspend, Wanted


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
    def effect_declared(self) -> bool:
        """Whether somebody said so, or it is what counts where nobody did."""
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

    @property
    def durable(self) -> bool:
        """Whether its body may ask and take steps, and goes on from the journal."""
        ...

    @property
    def sign_in(self) -> SignIn | None:
        """Where whoever started the run has to be signed in before it starts."""
        ...

    @property
    def takes_secrets(self) -> bool:
        """Whether any of its arguments is a secret, or has one in it."""
        ...

    def spec(self) -> ToolSpec:
        """Describe it to a model."""
        ...

    def ask(self, args: bytes) -> Wanted | None:
        """Say what it asks instead of having a body; None if it has one."""
        ...

    def freeze(self, args: str | bytes) -> bytes:
        """Validate arguments and encode them once and for all; `BadValue` if they do not fit.

        Secrets are in the open in what it gives, so only `sealing.py` calls it.
        """
        ...

    def operands(self, args: bytes) -> Sequence[OperandFile]:
        """List the files that frozen arguments name; none if the tool declares none."""
        ...

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Run the tool on what these bytes parse to, with its secrets open as `freeze` gave them;
        return the encoded result, or what it asks.
        """
        ...

    async def probe(self, ctx: Context, args: bytes) -> Happened | NotHappened | None:
        """Ask the target whether this call happened; None if it does not know."""
        ...


Intervention = Callable[[CallFacts], object]
"""`check_for_intervention`: sync or async; True or a ruling holds a call, False lets it go on."""


class Scene(msgspec.Struct, frozen=True):
    """A run as its agent sees it: where it stands, and all that was said and done in it."""

    run: Run
    transcript: Transcript
    now: int = 0
    """Store time."""


Change = Callable[[Scene], Sequence[e.Event]]
"""Gives the events by which an agent changes a run. It is asked again if the run has moved."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent makes of an answer without calls."""

    output: bytes | None = None
    """The run's encoded result: it is done."""
    complaint: str = ""
    """What to tell the model instead: the answer is not usable, it must try again."""
    change: Change | None = None
    """How the run goes on instead."""


class Driver(Protocol):
    """An agent, as the engine sees it: given the run, what is next on each of its strands."""

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
        """What it can use, by name: all that it ever offers a model, and its commands."""
        ...

    @property
    def commands(self) -> Mapping[str, Tool]:
        """What people can invoke on its runs, by name."""
        ...

    @property
    def turns_max(self) -> int:
        """How many turns a run may take before it fails."""
        ...

    @property
    def timeout_ms(self) -> int:
        """How long a run may work before it fails; 0: as long as it takes."""
        ...

    @property
    def model_tries_max(self) -> int:
        """How often a model that fails is asked again for one turn."""
        ...

    @property
    def check_for_intervention(self) -> Intervention | None:
        """The agent's own gate check, beside the app's."""
        ...

    @property
    def batch(self) -> tuple[str, str]:
        """How the calls of one turn are decided, and what the others do; see `policy.BATCHES`."""
        ...

    @property
    def listens(self) -> bool:
        """Whether its main strand can be spoken to while only others wait for a person."""
        ...

    def data_of(self, scene: Scene, strand: str) -> bytes | None:
        """Give what it keeps of a strand."""
        ...

    def commands_of(self, scene: Scene, strand: str) -> Mapping[str, Tool]:
        """Give those of its commands that can be invoked on a strand now."""
        ...

    @property
    def on_reject(self) -> str:
        """What a no to one of its calls does: `tell` its model, or `cancel` the run."""
        ...

    def next(self, scene: Scene, strand: str) -> Prompt | Change:
        """Say what a strand that is due a turn asks the model, or does instead.

        Raise `CannotGoOn` to let the run fail.
        """
        ...

    def read(self, scene: Scene, strand: str, answer: Answer) -> Reading:
        """Make something of an answer that asks for no calls."""
        ...

    def moved(self, scene: Scene, strand: str, moves: Sequence[Any]) -> Sequence[e.Event]:
        """Say what becomes of the run by the moves that a call of this strand has made."""
        ...

    def lacks(self, scene: Scene) -> Sequence[str]:
        """Say what an open run needs that this agent does not have any more: one text a fault."""
        ...

    def failed(self, strand: str, error: str) -> Change | None:
        """Say how the run goes on after a strand could not; None: it fails as well."""
        ...
