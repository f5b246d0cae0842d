"""The application: routes, the door, and a `Sayso` that is open while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from sayso.app import Sayso
from sayso.errors import SaysoError
from sayso.server import chat, chat_socket, govern, holds, notices, outbox, runs
from sayso.server.door import Door, TokenWay, Way
from sayso.server.head import Headed
from sayso.server.problem import Problem, add_handlers
from sayso.server.seat import Seats
from sayso.server.stream import STREAMS_EACH_MAX, STREAMS_MAX
from sayso.server.traced import UNTOLD, Traced


def create_app(sayso: Sayso, *, ways: Sequence[Way] = (), public_url: str | None = None) -> FastAPI:
    """Make an ASGI application of a `Sayso`, to be run by itself or mounted in another.

    The `Sayso` is opened when the application starts and closed when it ends, unless it is open
    already; what is mounted is not started by itself, so open it in your own lifespan then. API
    tokens are always good; `ways` are further ways in. `public_url` is the address that people
    reach it by, if that is not what their requests say.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        opens = not sayso.is_open
        if opens:
            await sayso.open()
        try:
            yield
        finally:
            app.state.closing.set()
            if opens:
                await sayso.close()

    app = FastAPI(
        title="Sayso",
        version=version("sayso"),
        summary="Durable human-in-the-loop for AI agents.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry=UNTOLD,
        # An address made of what a request says of itself could send a credential astray.
        redirect_slashes=False,
    )
    app.add_middleware(Headed)
    if sayso.telemetry is not None:
        app.add_middleware(Traced, telemetry=sayso.telemetry)
    app.state.sayso = sayso
    app.state.door = Door([TokenWay(sayso), *ways])
    app.state.public_url = public_url
    app.state.streams = Seats(STREAMS_MAX, STREAMS_EACH_MAX)
    app.state.sockets = Seats(chat_socket.CONNECTIONS_MAX, chat_socket.CONNECTIONS_EACH_MAX)
    app.state.closing = asyncio.Event()
    add_handlers(app)
    app.include_router(runs.router)
    app.include_router(holds.router)
    app.include_router(notices.router)
    app.include_router(govern.router)
    app.include_router(outbox.router)
    app.include_router(chat.router)
    app.include_router(chat_socket.socket_router)
    _add_slack(app, sayso)
    _add_health(app, sayso)
    _describe(app)
    return app


def _add_slack(app: FastAPI, sayso: Sayso) -> None:
    """Hear clicks, if somebody's channel to Slack can tell that they are Slack's."""
    if not any(getattr(one, "hears", False) for one in getattr(sayso.notify, "channels", ())):
        return
    from sayso.server.slack import slack_of, slack_router

    app.include_router(slack_router(sayso, slack_of(sayso)))


def _add_health(app: FastAPI, sayso: Sayso) -> None:
    @app.get("/health", include_in_schema=False)
    async def health() -> dict[str, str]:
        """Say that the process is there."""
        return {"status": "ok"}

    @app.get("/ready", include_in_schema=False)
    async def ready() -> JSONResponse:
        """Say whether requests can be served: the store answers, and this is not ending."""
        try:
            await sayso.store.load("run_0")
        except SaysoError as error:
            return JSONResponse({"status": "not ready", "why": type(error).__name__}, 503)
        if app.state.closing.is_set():
            return JSONResponse({"status": "ending"}, 503)
        return JSONResponse({"status": "ready"})


def _describe(app: FastAPI) -> None:
    """Put problems and credentials into the OpenAPI, which FastAPI does not know of."""
    made = app.openapi

    def openapi() -> dict[str, object]:
        if app.openapi_schema:
            return app.openapi_schema
        schema = made()
        parts = schema.setdefault("components", {})
        shape = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        parts.setdefault("schemas", {}).update({**shape.pop("$defs", {}), "Problem": shape})
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"bearer": []}]
        app.openapi_schema = schema
        return schema

    app.openapi = openapi
