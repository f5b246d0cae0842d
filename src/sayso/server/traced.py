"""Requests as spans, by their routes: never by what is in paths, queries, headers or bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sayso.engine.telemetry import Telemetry

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

UNTOLD: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""What FastAPI tells by itself as soon as a program has set up an SDK: queries, in which people's
searches are, and the values that did not fit. It tells nothing here.
"""
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "WS"})
FAULT = 500


class Traced:
    """Has a span around each request, below that of whoever sent it."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        method = scope.get("method", "WS")
        method = method if method in METHODS else "_OTHER"
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        parent = Headers(scope=scope).get("traceparent", "")
        with self._telemetry.span(method, parent=parent, serves=True) as span:
            try:
                await self._app(scope, receive, noted)
            finally:
                # It has one only now, and none if nothing is there.
                route = getattr(scope.get("route"), "path", "")
                span.name(f"{method} {route}".rstrip())
                span.note({"http.request.method": method, "http.route": route})
                if status:
                    span.note({"http.response.status_code": status})
                if status >= FAULT:
                    span.fail(str(status))
