"""Reading bodies: bounded, and as strictly as everything else that is kept.

Rule: nothing is read of whoever is not let in. What a body costs is the cost of somebody known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from sayso.domain.digest import decode_value
from sayso.errors import BadValue
from sayso.server.caller import let_in
from sayso.server.problem import PRIVATE, Refusal

BODY_MAX = 2_000_000
"""The largest body; the longest input fits in with all its escapes but the rarest."""
BODY_S = 30.0
"""How long a body may take to arrive: whoever sends it drop by drop keeps a place from others."""
ASIDE_MIN = 100_000
"""A larger body is parsed beside the event loop, which others wait for."""


class StrictRequest(Request):
    """A request whose JSON has one meaning only."""

    body_max = BODY_MAX

    async def body(self) -> bytes:
        """Read the body, up to its bound."""
        if not hasattr(self, "_body"):
            try:
                async with asyncio.timeout(BODY_S):
                    self._body = await self._read()
            except TimeoutError:
                late = f"a body arrives within {BODY_S:g} seconds"
                raise Refusal(408, "TooSlow", "Too slow", late) from None
        return self._body

    async def _read(self) -> bytes:
        read = bytearray()
        async for chunk in self.stream():
            read += chunk
            if len(read) > self.body_max:
                raise Refusal(
                    413, "TooLarge", "Too large", f"a body has at most {self.body_max:,} bytes"
                )
        return bytes(read)

    async def json(self) -> Any:
        """Parse the body: no key twice, no NaN, no half characters."""
        body = await self.body()
        try:
            if len(body) < ASIDE_MIN:
                return decode_value(body, bytes_max=self.body_max)
            return await asyncio.to_thread(decode_value, body, bytes_max=self.body_max)
        except BadValue as error:
            raise Refusal(
                400, "NotJson", "This is not JSON as it is read here", str(error)
            ) from None


class StrictRoute(APIRoute):
    """A route that reads its body strictly."""

    request_class = StrictRequest

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand the route a strict request."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            await let_in(request)
            answer = await handle(self.request_class(request.scope, request.receive))
            for name, value in PRIVATE.items():
                answer.headers.setdefault(name, value)
            return answer

        return strictly
