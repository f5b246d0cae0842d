"""Every provider that pydantic-ai knows, as one model port.

Rule 1: nothing is imported before the first turn, and then in a thread: it takes seconds.
Rule 2: one try is one request. Trying again is the engine's business, so clients must not.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sayso.engine.ports import Answer, Prompt

if TYPE_CHECKING:
    from sayso.agents.models.exchange import Exchange


class PydanticAIModel:
    """A model named `provider:name`, asked through pydantic-ai.

    `settings` are pydantic-ai's model settings, such as `max_tokens` and `temperature`.
    """

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._settings = dict(settings or {})
        # A client's connections belong to the event loop that opened them.
        self._exchanges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Exchange] = (
            weakref.WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"<model {self.name!r}>"

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        """Take one turn; hand text to `emit` as it comes. `ModelFailed` if there is no answer."""
        loop = asyncio.get_running_loop()
        exchange = self._exchanges.get(loop)
        if exchange is None:
            opened = await asyncio.to_thread(_open, self.name, self._settings)
            exchange = self._exchanges.setdefault(loop, opened)
        return await exchange.answer(prompt, emit)

    async def aclose(self) -> None:
        """Close the connections that this event loop has open. The next turn opens new ones."""
        exchange = self._exchanges.pop(asyncio.get_running_loop(), None)
        if exchange is not None:
            await exchange.aclose()


def _open(name: str, settings: dict[str, Any]) -> Exchange:
    from sayso.agents.models.exchange import Exchange

    return Exchange(name, settings)
