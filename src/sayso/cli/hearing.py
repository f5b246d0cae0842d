"""Hearing from a server what happens to requests: its stream, taken up again where it was left.

Rule: what was heard is kept until somebody asks for it, and where the stream stood with it; a
server that starts again, or another one, tells what has happened since.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from sayso.errors import SaysoError, Unknown, Unreachable

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

POLL_S = 1.0
"""How often somebody looks who cannot be told: at a server of before."""
SILENT_S = 45.0
"""A stream in which there is nothing for so long, not even a comment, is dead."""
_OK = 200
_NOT_NOW = frozenset({429, 502, 503, 504})


class Hearing:
    """What a server tells of requests."""

    def __init__(
        self, client: AsyncClient, name: str, problem: Callable[[Response], SaysoError]
    ) -> None:
        self._client = client
        self._name = name
        self._problem = problem
        self._place = ""
        self._moved: set[str] = set()
        self._rung = asyncio.Event()
        self._stream: asyncio.Task[None] | None = None
        self._deaf = False

    async def wait(self, within_s: float) -> frozenset[str]:
        """Wait until something was told, or so long; give which requests it was about."""
        if self._deaf:
            await asyncio.sleep(min(within_s, POLL_S))
            return frozenset()
        if self._stream is None:
            self._stream = asyncio.create_task(self._listen(), name="sayso-hearing")
        rung = asyncio.ensure_future(self._rung.wait())
        try:
            await asyncio.wait(
                {self._stream, rung}, timeout=within_s, return_when="FIRST_COMPLETED"
            )
        finally:
            rung.cancel()
        if self._stream.done():
            stream, self._stream = self._stream, None
            try:
                stream.result()
            except Unknown:
                self._deaf = True
            except Unreachable:
                # Whoever looks now is told why; here it is only tried again, and not at once.
                await asyncio.sleep(min(within_s, POLL_S))
        moved = frozenset(self._moved)
        self._moved.clear()
        self._rung.clear()
        return moved

    async def close(self) -> None:
        """Hear no more."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
            self._stream = None

    async def _listen(self) -> None:
        import httpx2

        headers = {"last-event-id": self._place} if self._place else {}
        try:
            async with self._client.stream(
                "GET",
                "/v1/holds/events?follow=true",
                headers=headers,
                timeout=httpx2.Timeout(SILENT_S),
            ) as answer:
                if answer.status_code != _OK:
                    await answer.aread()
                    raise self._refused(answer)
                name, place = "", ""
                async for line in answer.aiter_lines():
                    field, _, text = line.partition(": ")
                    if field == "id":
                        place = text
                    elif field == "event":
                        name = text
                    elif field == "data":
                        self._hear(name, place, text)
                        name, place = "", ""
        except httpx2.TransportError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"{self._name} does not answer: {why}") from None

    def _hear(self, name: str, place: str, text: str) -> None:
        if name == "hold":
            try:
                self._moved.add(str(json.loads(text)["id"]))
            except (ValueError, KeyError, TypeError):
                raise Unreachable(f"{self._name} tells in no language of ours") from None
        self._place = place or self._place
        self._rung.set()

    def _refused(self, answer: Response) -> SaysoError:
        problem = self._problem(answer)
        if answer.status_code in _NOT_NOW:
            return Unreachable(f"{self._name} does not answer: {problem}")
        return problem
