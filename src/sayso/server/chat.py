"""Chats over HTTP, as the Vercel AI SDK speaks: `POST /v1/chat`, its stream, its messages.

Rule: whatever can be refused is refused before the stream begins, with a status of its own; from
then on an error is a chunk, and the end is marked.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from sayso.app import Sayso
from sayso.engine.keys import KEY_MAX
from sayso.errors import BadValue
from sayso.protocols.ai_sdk import Wire
from sayso.protocols.ai_sdk_request import ID_MAX, read_request
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target
from sayso.server.caller import App, Caller, Reader, caller_of, is_still_in
from sayso.server.chat_stream import WAIT_S, Manner, tell
from sayso.server.chat_talk import RUNS_MAX, Chat, open_chat
from sayso.server.json import StrictRequest, StrictRoute
from sayso.server.problem import documented
from sayso.server.seat import seat_of
from sayso.server.sse import ALIVE_S, alive, event

log = logging.getLogger("sayso")

BODY_MAX = 8_000_000
"""The largest body: clients send all that they have of a chat, every time."""
WAIT_MAX_S = 300.0
DONE = event("[DONE]")
ENDED = "The credential has ended. Sign in, and load the chat again."
FAULT = "A fault of ours; the log of the server has it."
Mode = Literal["detached", "continuous", "answer"]
_MODES = ("detached", "continuous", "answer")
STREAMED = {"x-vercel-ai-ui-message-stream": "v1"}
_STREAM: dict[str, dict[str, Any]] = {"text/event-stream": {}}


class LargeRequest(StrictRequest):
    """A request with a whole chat in it."""

    body_max = BODY_MAX


class LargeRoute(StrictRoute):
    """A route that reads a whole chat."""

    request_class = LargeRequest


class ChatIn(BaseModel):
    """What a client of the AI SDK sends. What else there is in it is not looked at."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=KEY_MAX)
    messages: list[dict[str, Any]] | None = None
    message: dict[str, Any] | None = None
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = Field(None, max_length=ID_MAX)  # noqa: N815 - as clients write it.
    modifiedArgs: dict[str, dict[str, Any]] | None = None  # noqa: N815 - as clients write it.
    answers: dict[str, Any] | None = None
    rejections: dict[str, str | None] | None = None
    agent: str | None = Field(None, max_length=ID_MAX)


class TellIn(BaseModel):
    """How a client wants to be told what comes of what it sends."""

    mode: Mode | None = None
    profile: Literal["6", "7"] | None = None
    wait_s: float | None = Field(None, gt=0, le=WAIT_MAX_S)
    supersede: bool | None = None
    follow: bool | None = None


class ResumeIn(BaseModel):
    """How a client wants to be told what goes on."""

    profile: Literal["6", "7"] | None = None
    replay: bool | None = None
    follow: bool | None = None


class ChatOut(BaseModel):
    """Messages of a chat, for a page that loads it."""

    messages: list[dict[str, Any]]
    status: str | None
    before: str | None


router = APIRouter(prefix="/v1", tags=["chat"], route_class=LargeRoute)
Known = Annotated[Caller, Depends(caller_of)]


@router.post(
    "/chat",
    response_model=None,
    responses={200: {"content": _STREAM}, **documented(400, 404, 409, 413)},
)
async def post_chat(
    *,
    request: Request,
    app: App,
    caller: Known,
    body: ChatIn,
    query: Annotated[TellIn, Query()],
) -> Response:
    """Say something in a chat, or answer what it asks; read what comes of it as a UI message
    stream. With `mode=answer` nothing is streamed: another stream is open for that.
    """
    given = body.model_dump(exclude_unset=True)
    options = {**given, **_headers(request), **query.model_dump(exclude_none=True)}
    manner, mode, supersede = read_manner(options), read_mode(options), read_supersede(options)
    # Whoever is not told what came of it would do it again.
    with seat_of(request, caller, wanted=mode != "answer") as seat:
        chat = await open_chat(app, caller, body.id)
        target = await chat.take(read_request(given), supersede=supersede)
        if seat is None:
            return Response(_json(await taken(app, target)), media_type="application/json")
        chunks = tell(app, chat, target, manner, request.app.state.closing)
        return seat.answer(_while_good(request, caller, chunks), STREAMED)


@router.get(
    "/chat/{chat_id}/stream",
    response_model=None,
    responses={200: {"content": _STREAM}, 204: {"description": "Nothing goes on"}, **documented()},
)
async def get_stream(
    *,
    request: Request,
    app: App,
    caller: Reader,
    chat_id: str,
    query: Annotated[ResumeIn, Query()],
) -> Response:
    """Read the message under way from its beginning; 204 if there is none. With `replay` also one
    that is over or waits; with `follow`, until its run is finished.
    """
    options = {**_headers(request), **query.model_dump(exclude_none=True)}
    manner = read_manner(options)
    with request.app.state.streams.take(caller) as seat:
        chat = await open_chat(app, caller, chat_id)
        target = await resumed(chat, options)
        if target is None:
            return Response(status_code=204)
        chunks = tell(app, chat, target, manner, request.app.state.closing)
        return seat.answer(_while_good(request, caller, chunks), STREAMED)


@router.get("/chat/{chat_id}/messages", responses=documented(404))
async def get_messages(
    *,
    app: App,
    caller: Reader,
    chat_id: str,
    before: Annotated[str | None, Query(max_length=ID_MAX)] = None,
    limit: Annotated[int, Query(ge=1, le=RUNS_MAX)] = RUNS_MAX,
) -> ChatOut:
    """Give a chat's messages, for a page that loads it: those of its last runs. The one that its
    stream would play from its beginning is left to that.
    """
    page = await (await open_chat(app, caller, chat_id)).page(before=before, limit=limit)
    return ChatOut(**msgspec.to_builtins(page))


async def resumed(chat: Chat, options: Mapping[str, Any]) -> Target | None:
    """Find what a reader comes back for; None if nothing is under way."""
    whatever = _flag(options, "replay") or _flag(options, "follow")
    if chat.row is None or not (whatever or await chat.is_under_way()):
        return None
    return Target(run_id=chat.row.id)


def read_manner(options: Mapping[str, Any]) -> Manner:
    """Read how a client wants to be told."""
    continuous = read_mode(options) == "continuous"
    profile = str(options.get("profile", "6"))
    if profile not in ("6", "7"):
        raise BadValue("profile is 6 (the default: what every release understands) or 7")
    try:
        wait_s = float(options.get("wait_s", WAIT_S))
    except (TypeError, ValueError):
        raise BadValue("wait_s is a number of seconds") from None
    if not 0 < wait_s <= WAIT_MAX_S:
        raise BadValue(f"wait_s is more than 0, and at most {WAIT_MAX_S:.0f}")
    return Manner(
        wire=Wire(extras=profile == "7", continuous=continuous),
        wait_s=wait_s if continuous else 0.0,
        follow=_flag(options, "follow"),
    )


def read_mode(options: Mapping[str, Any]) -> str:
    """Read which kind of answer a client wants."""
    mode = options.get("mode", "detached")
    if mode not in _MODES:
        raise BadValue(f"mode is one of {', '.join(_MODES)}")
    return mode


def read_supersede(options: Mapping[str, Any]) -> bool:
    """Read whether what is said takes the place of what waits. It does unless its client minds: a
    refusal would leave most pages with a message that went nowhere.
    """
    return _flag(options, "supersede", default=True)


async def taken(app: Sayso, target: Target) -> dict[str, Any]:
    """Say what became of answers, without a stream."""
    holds = [await app.hold(name) for name in sorted(target.answered)]
    return {
        "holds": [{"id": hold.id, "status": hold.status} for hold in holds],
        "refusals": [chunk["data"] for chunk in target.refusals],
    }


async def _while_good(
    request: Request, caller: Caller, chunks: AsyncGenerator[Chunk]
) -> AsyncGenerator[bytes]:
    """Send chunks as long as the credential lasts that asked for them."""
    good = True

    async def recheck() -> bool:
        nonlocal good
        good = await is_still_in(request, caller)
        return good

    # That the server ends is told in the stream itself: one that just ends looks complete.
    async for frame in alive(_frames(chunks), asyncio.Event(), every_s=ALIVE_S, recheck=recheck):
        yield frame
    if not good:
        yield event(_json({"type": "error", "errorText": ENDED}))
        yield DONE


async def _frames(chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield event(_json(chunk))
    except Exception:
        log.exception("the stream of a chat failed")
        yield event(_json({"type": "error", "errorText": FAULT}))
    yield DONE


def _headers(request: Request) -> dict[str, str]:
    prefix = "x-sayso-"
    return {
        name.removeprefix(prefix).replace("-", "_"): value
        for name, value in request.headers.items()
        if name.startswith(prefix)
    }


def _flag(options: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    given = options.get(name, default)
    if given in (True, "true", "1"):
        return True
    if given in (False, "false", "0"):
        return False
    raise BadValue(f"{name} is true or false")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
