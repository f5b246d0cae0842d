"""The bodies of calls that were begun here, and whether they have ended.

Rule: a task that has ended is not enough. A function in a thread goes on after whoever waited for
it has given up, and nothing can stop it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

LOOKS_MAX = 10
"""How many rounds of the event loop what was cancelled is given to notice."""

_functions: ContextVar[list[threading.Event] | None] = ContextVar("sayso_functions", default=None)


def note_function(ended: threading.Event) -> None:
    """Take note of a function in a thread of its own, which sets `ended` when it has."""
    noted = _functions.get()
    if noted is not None:
        noted.append(ended)


@contextmanager
def _noting() -> Generator[list[threading.Event]]:
    noted: list[threading.Event] = []
    token = _functions.set(noted)
    try:
        yield noted
    finally:
        _functions.reset(token)


class Begun(Generic[T]):
    """A body in a task of its own, with the functions that it runs in threads."""

    def __init__(self, work: Awaitable[T]) -> None:
        # The task has a copy of this context, and so does everything that it begins.
        with _noting() as self._functions:
            self.task: asyncio.Task[T] = asyncio.ensure_future(cast("Coroutine[Any, Any, T]", work))

    @property
    def ended(self) -> bool:
        """Tell whether nothing of it goes on any more."""
        return self.task.done() and all(one.is_set() for one in self._functions)

    async def ends_at_once(self) -> bool:
        """Tell whether it has ended, after giving what was cancelled a moment to do so. One that
        ignores its cancellation must not be waited for.
        """
        for _ in range(LOOKS_MAX):
            if self.task.done():
                break
            await asyncio.sleep(0)
        return self.ended


class Going:
    """What was begun here and has not ended, by call."""

    def __init__(self) -> None:
        self._begun: dict[str, list[Begun[Any]]] = {}
        self._doubted: set[str] = set()

    def add(self, call: str, begun: Begun[Any]) -> None:
        """Keep an eye on a body until it has ended."""
        self._begun.setdefault(call, []).append(begun)
        begun.task.add_done_callback(lambda _: self._look(call))

    async def ends_at_once(self, call: str) -> bool:
        """Like `Begun.ends_at_once`, of all that goes on of a call."""
        return all([await one.ends_at_once() for one in self._begun.get(call, ())])

    def doubt(self, call: str) -> None:
        """Take note that somebody is asked about a call that still goes on."""
        self._doubted.add(call)

    @property
    def doubted(self) -> bool:
        """Tell whether something goes on that somebody is asked about."""
        for call in list(self._doubted):
            self._look(call)
        self._doubted &= self._begun.keys()
        return bool(self._doubted)

    def _look(self, call: str) -> None:
        left = [one for one in self._begun.get(call, ()) if not one.ended]
        if left:
            self._begun[call] = left
        else:
            self._begun.pop(call, None)
