"""The agent: a model, its instructions and its tools, in a loop.

Rule: making an agent imports and contacts nothing. A model named by a string is looked up when the
first turn is due, in the process that takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sayso.agents.driver import OneStrand
from sayso.agents.tools import NAME, FunctionTool, check_tool
from sayso.domain.digest import encode_value
from sayso.domain.message import Message
from sayso.domain.ruling import BATCHES, duration_ms
from sayso.engine.ports import Answer, Intervention, Model, Prompt, Reading, Scene, Tool
from sayso.errors import BadAgent, BadPolicy, BadTool, BadValue

if TYPE_CHECKING:
    from sayso.agents.schema import Output

_FENCE = r"(?s)```[a-zA-Z]*\s*\n(.*?)```"


class Agent(OneStrand):
    """Something that people start runs of: it asks its model, and calls the tools it asks for.

    `tools` takes what `@tool` made, and no plain functions. `output` is the type of the result, if
    it is not text. `turns_max` bounds the turns of a run, and `timeout` how long it works; waiting
    for people costs neither. `resolve` and `siblings` say how the calls of one turn are decided,
    and `on_reject` what a no does: `"tell"` the model, or `"cancel"` the run.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        instructions: str = "",
        tools: Iterable[Tool] = (),
        output: Any = None,
        turns_max: int = 50,
        timeout: str | float | None = None,
        model_tries_max: int = 4,
        version: str = "1",
        check_for_intervention: Intervention | None = None,
        commands: Iterable[Tool] = (),
        resolve: str = "each",
        siblings: str = "run",
        on_reject: str = "tell",
    ) -> None:
        if type(name) is not str or not NAME.fullmatch(name):
            raise BadAgent(
                f"{name!r} cannot name an agent: use up to 64 letters, digits, underscores and "
                "hyphens"
            )
        self.name = name
        self.version = _text(name, "version", version)
        self.instructions = _text(name, "instructions", instructions)
        self.turns_max = read_count(name, "turns_max", turns_max)
        self.timeout_ms = 0 if timeout is None else _timeout_ms(name, timeout)
        self.model_tries_max = read_count(name, "model_tries_max", model_tries_max)
        self.check_for_intervention = _check(name, check_for_intervention)
        self._offered = _by_name(name, tools)
        self.commands: Mapping[str, Tool] = MappingProxyType(_by_name(name, commands))
        self.tools: Mapping[str, Tool] = MappingProxyType(
            _together(name, self._offered, self.commands)
        )
        self.batch = read_batch(name, resolve, siblings)
        self.on_reject = read_on_reject(name, on_reject)
        self._given_model = _model(name, model)
        self._model: Model | None = None
        self._output_kind = None if output is str else output
        self._output: Output | None = None

    def __repr__(self) -> str:
        return f"<agent {self.name!r}>"

    @property
    def model(self) -> Model:
        """Who answers."""
        if self._model is None:
            self._model = _resolve(self._given_model)
        return self._model

    def check_model(self) -> None:
        """Raise `BadAgent` if its model cannot be asked here for want of the extra."""
        if isinstance(self._given_model, str):
            from sayso.agents.models import check_extra

            check_extra(self._given_model)

    async def aclose(self) -> None:
        """Close what its model has open in this event loop. The next turn opens it again."""
        close = getattr(self._model or self._given_model, "aclose", None)
        if close is not None:
            await close()

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """Say what to ask the model, given the conversation so far."""
        tools = tuple(self._offered.values())
        return Prompt(messages=messages, instructions=self._instructions(), tools=tools)

    def read(self, scene: Scene, strand: str, answer: Answer) -> Reading:
        """Make a result of an answer that asks for no calls."""
        del scene, strand
        return self.conclude(answer)

    def conclude(self, answer: Answer) -> Reading:
        """Read an answer as the run's result, or say what is wrong with it."""
        try:
            if self._output_kind is None:
                return Reading(output=encode_value(answer.text))
            return Reading(output=self._out.freeze(unfenced(answer.text)))
        except BadValue as error:
            return Reading(complaint=f"Your answer cannot be used: {error}")

    @property
    def _out(self) -> Output:
        if self._output is None:
            from sayso.agents.schema import Output

            self._output = Output(self.name, self._output_kind)
        return self._output

    def _instructions(self) -> str:
        if self._output_kind is None:
            return self.instructions
        schema = json.dumps(self._out.schema, ensure_ascii=False)
        wish = "When you are done, answer with JSON only, and with JSON that fits this schema:"
        return f"{self.instructions}\n\n{wish}\n{schema}".lstrip()


def read_batch(agent: str, resolve: str, siblings: str) -> tuple[str, str]:
    """Read how the calls of one turn are decided, or refuse what cannot work."""
    if (resolve, siblings) not in BATCHES:
        known = ", ".join(f"{one}/{other}" for one, other in sorted(BATCHES))
        raise BadAgent(
            f"the agent {agent!r} cannot resolve {resolve!r} with siblings {siblings!r}: "
            f"use one of {known}"
        )
    return resolve, siblings


def read_on_reject(agent: str, on_reject: str) -> str:
    """Read what a no to one of its calls does, or refuse what is nothing."""
    if on_reject not in ("tell", "cancel"):
        raise BadAgent(f"on_reject of the agent {agent!r} is 'tell' or 'cancel', not {on_reject!r}")
    return on_reject


def _together(
    agent: str, tools: Mapping[str, Tool], commands: Mapping[str, Tool]
) -> dict[str, Tool]:
    for name in tools.keys() & commands.keys():
        if tools[name] is not commands[name]:
            raise BadAgent(f"a tool and a command of the agent {agent!r} are called {name!r}")
    return {**tools, **commands}


def _by_name(agent: str, tools: Iterable[Tool]) -> dict[str, Tool]:
    if isinstance(tools, str | FunctionTool) or not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadAgent(f"tools of the agent {agent!r} is a list of tools, not {tools!r}")
    found: dict[str, Tool] = {}
    for each in tools:
        _check_tool(agent, each)
        if each.name in found:
            raise BadAgent(f"the agent {agent!r} has two tools called {each.name!r}")
        found[each.name] = each
    return found


def _check_tool(agent: str, each: Tool) -> None:
    try:
        check_tool(each)
        if isinstance(each, FunctionTool):
            # By now every type that a signature names has to be there.
            each.check()
    except BadTool as error:
        raise BadTool(f"a tool of the agent {agent!r}: {error}") from error
    if not NAME.fullmatch(each.name):
        raise BadTool(f"{each.name!r} cannot name a tool of the agent {agent!r}")


def _resolve(model: str | Model) -> Model:
    if not isinstance(model, str):
        return model
    from sayso.agents.models import resolve

    return resolve(model)


def _model(agent: str, model: Any) -> str | Model:
    if isinstance(model, str):
        from sayso.agents.models import check_name

        check_name(model)
        return model
    if not callable(getattr(model, "answer", None)):
        raise BadAgent(
            f"the model of the agent {agent!r} is a name such as 'openai:gpt-5' or a Model, "
            f"not {model!r}"
        )
    return model


def _check(agent: str, check: Any) -> Intervention | None:
    if check is not None and not callable(check):
        raise BadAgent(f"check_for_intervention of the agent {agent!r} cannot be called")
    return check


def _text(agent: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadAgent(f"{field} of the agent {agent!r} is a text, not {value!r}")
    return value


def read_count(agent: str, field: str, value: Any, *, least: int = 1) -> int:
    """Read a bound, or refuse what is none."""
    if type(value) is not int or value < least:
        raise BadAgent(f"{field} of the agent {agent!r} is a number from {least} on, not {value!r}")
    return value


def _timeout_ms(agent: str, timeout: str | float) -> int:
    try:
        return duration_ms(timeout)
    except BadPolicy as error:
        raise BadAgent(f"the timeout of the agent {agent!r}: {error}") from None


def unfenced(text: str) -> str:
    """Find the JSON in an answer."""
    # Many models fence their JSON however firmly they are told not to.
    text = text.strip()
    found = None if text.startswith(("{", "[", '"')) else re.search(_FENCE, text)
    return found.group(1) if found else text
