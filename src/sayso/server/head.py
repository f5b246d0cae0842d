"""HEAD, answered as GET is: the same status and headers, and nothing after them.

Rule 1: whoever asks is gone once the headers are sent: no stream begins, and no seat stays taken.
Rule 2: where even a GET does something, as where OAuth has it so, HEAD is refused.
"""

from __future__ import annotations

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEAD = "sayso.head"
NOT_SO = 405


class Headed:
    """Has an application that knows GET answer HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a socket."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked: Scope = {**scope, "method": "GET", _HEAD: True}

        async def heads(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                await send({"type": "http.response.body", "body": b""})
                raise _Told

        try:
            await self._app(asked, receive, heads)
        except (_Told, ClientDisconnect):
            pass  # A stream says in its own way that nobody reads it.
        finally:
            # Whoever counts requests by their routes looks for it where it was put.
            scope.update({key: asked[key] for key in ("route",) if key in asked})


def get_only(request: Request) -> None:
    """Refuse HEAD: for a route that does something when it is looked at."""
    if _HEAD in request.scope:
        raise HTTPException(NOT_SO, headers={"allow": "GET"})


class _Told(OSError):
    """The headers are out, as if somebody had closed the connection then."""
