"""A model that says what a script tells it to.

Rule: it remembers nothing. The turn it gives is told by the prompt alone, so that a run goes on at
the right place in another process. With a list, it is the turn whose number is the number of
assistant messages in the prompt: a script covers the whole thread, earlier runs included.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from sayso.domain.message import AssistantMessage, Message
from sayso.engine.ports import Answer, AskedCall, Prompt
from sayso.errors import ModelFailed

_WORD = re.compile(r"\S+\s*|\s+")


class Say(msgspec.Struct, frozen=True):
    """Something the model says."""

    text: str


Turn = Say | AskedCall | Sequence[Say | AskedCall]
"""What a model does in one turn: a `say`, a `call`, or a list of them."""
Script = Callable[[tuple[Message, ...]], Turn | Awaitable[Turn]]


def say(text: str) -> Say:
    """Let the model say something. A turn with no `call` in it ends the run."""
    return Say(text)


def call(tool: str, args: dict[str, Any] | str | None = None, id: str | None = None) -> AskedCall:
    """Let the model call a tool. `args` as text is sent as it is, however broken."""
    text = args if isinstance(args, str) else json.dumps({} if args is None else args)
    return AskedCall(tool=tool, args=text, given=id or "")


class ScriptedModel:
    """A model whose turns are a list, or what a function makes of the messages so far.

    An exception in the list is no turn: it is raised once by this object where it stands, and
    whoever asks again gets what comes after it.
    """

    def __init__(self, turns: Sequence[Turn | Exception] | Script, name: str = "scripted") -> None:
        self.name = name
        self._fn: Script | None = turns if callable(turns) else None
        self._turns: list[Turn] = []
        self._errors: dict[int, list[Exception]] = {}
        for turn in () if callable(turns) else turns:
            if isinstance(turn, Exception):
                self._errors.setdefault(len(self._turns), []).append(turn)
            else:
                self._turns.append(turn)

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        """Give the turn that is due, its text word by word."""
        turn = await self._turn(prompt.messages)
        parts = turn if isinstance(turn, list | tuple) else [turn]
        said = [part.text for part in parts if isinstance(part, Say)]
        calls = [part for part in parts if isinstance(part, AskedCall)]
        if len(said) + len(calls) != len(parts):
            raise ModelFailed(f"a turn is a say, a call or a list of them, not {turn!r}")
        text = "".join(said)
        for word in _WORD.findall(text):
            emit(word)
        return Answer(text=text, calls=tuple(calls))

    async def _turn(self, messages: tuple[Message, ...]) -> Turn:
        if self._fn is not None:
            made = self._fn(messages)
            return await made if inspect.isawaitable(made) else made
        at = sum(isinstance(message, AssistantMessage) for message in messages)
        if errors := self._errors.get(at):
            raise errors.pop(0)
        if at >= len(self._turns):
            raise ModelFailed(
                f"the script has {len(self._turns)} turns, and turn {at + 1} is due: it must "
                "cover every answer of the thread"
            )
        return self._turns[at]
