"""One call of somebody else's agent, as a run of its own.

It gives a foreign agent the same gate, the same holds and the same journal: the run asks for
exactly one call, and is done when that call has its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sayso.agents.driver import OneStrand
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.message import AssistantMessage, Message, UserMessage
from sayso.engine.ports import Answer, AskedCall, Prompt, Reading, Scene, Tool
from sayso.engine.vault import Vault
from sayso.errors import BadKeys, ModelFailed

NAME = "sayso.single"
"""The agent that such runs belong to."""
LOOK_S = 1.0
"""How often to look whether arguments can be read by now."""
REF = "1.0"
"""The place of the one call in its run."""


def describe_call(tool: str, args: Any) -> str:
    """Write a call down as the input of its run."""
    return encode_value({"tool": tool, "args": args}).decode()


def describe_secret_call(vault: Vault, tool: str, args: Any, scope: str) -> str:
    """Write a call of a tool that takes secrets down, with its arguments sealed as a whole.

    Which of them are secret is not known before they are frozen. The same scope gives the same
    text, so that a retry is known by it.
    """
    sealed = vault.seal_secret(_scope(tool, scope), encode_value(args))
    return encode_value({"tool": tool, "sealed": sealed, "scope": scope}).decode()


class _SingleModel:
    name = NAME

    def __init__(self, agent: SingleCall) -> None:
        self._agent = agent

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        del emit
        if any(isinstance(message, AssistantMessage) for message in prompt.messages):
            return Answer(text="done")
        first = prompt.messages[0]
        if not isinstance(first, UserMessage):
            raise ModelFailed("a run of one call begins with that call")
        wanted = decode_value(first.text)
        args = encode_value(wanted["args"]) if "args" in wanted else await self._open(wanted)
        return Answer(calls=(AskedCall(tool=wanted["tool"], args=args.decode()),))

    async def _open(self, wanted: dict[str, str]) -> bytes:
        """Open sealed arguments; where that cannot be done, wait for a worker that can."""
        scope = _scope(wanted["tool"], wanted["scope"])
        vault = self._agent.vault
        while True:
            try:
                return vault.open_secret(scope, wanted["sealed"])
            except BadKeys as error:
                vault.say_shut(scope, "the key of its arguments", error)
                await vault.rest(LOOK_S)


def _scope(tool: str, scope: str) -> str:
    return f"gate/{tool}/{scope}"


class SingleCall(OneStrand):
    """The agent of runs that make one call."""

    name = NAME
    version = "1"
    turns_max = 2
    timeout_ms = 0
    model_tries_max = 1
    check_for_intervention = None

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.model = _SingleModel(self)
        self.tools = dict(tools)
        self.vault = Vault()
        """Opens the arguments of tools that take secrets; set by `app` once the store is open."""

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """Give the conversation as it is."""
        return Prompt(messages=messages, tools=tuple(self.tools.values()))

    def read(self, scene: Scene, strand: str, answer: Answer) -> Reading:
        """Take the answer for what it is: word that the call is over."""
        del scene, strand
        return Reading(output=encode_value(answer.text))
