"""Reading bodies: bounded, and as strictly as everything else that is kept."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from sayso.domain.digest import decode_value
from sayso.errors import BadValue
from sayso.server.problem import Refusal

BODY_MAX = 2_000_000
"""The largest body; the longest input fits in with all its escapes but the rarest."""


class StrictRequest(Request):
    """A request whose JSON has one meaning only."""

    body_max = BODY_MAX

    async def body(self) -> bytes:
        """Read the body, up to its bound."""
        if not hasattr(self, "_body"):
            read = bytearray()
            async for chunk in self.stream():
                read += chunk
                if len(read) > self.body_max:
                    raise Refusal(
                        413, "TooLarge", "Too large", f"a body has at most {self.body_max:,} bytes"
                    )
            self._body = bytes(read)
        return self._body

    async def json(self) -> Any:
        """Parse the body: no key twice, no NaN, no half characters."""
        try:
            return decode_value(await self.body(), bytes_max=self.body_max)
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
            return await handle(self.request_class(request.scope, request.receive))

        return strictly
