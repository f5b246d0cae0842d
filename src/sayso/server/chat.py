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
from typing import Annotated, Any, cast

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from sayso.app import Sayso
from sayso.domain.digest import decode_value
from sayso.errors import BadValue
from sayso.protocols.ai_sdk import Wire
from sayso.protocols.ai_sdk_request import read_request
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target
from sayso.server.caller import App, Caller, caller_of
from sayso.server.chat_stream import WAIT_S, Manner, tell
from sayso.server.chat_talk import RUNS_MAX, Chat, open_chat
from sayso.server.sse import HEADERS, alive, event

log = logging.getLogger("sayso")

BODY_MAX = 8_000_000
"""The largest body: clients send all that they have of a chat, every time."""
WAIT_MAX_S = 300.0
DONE = event("[DONE]")
FAULT = "A fault of ours; the log of the server has it."
_MODES = ("detached", "continuous", "answer")

router = APIRouter(tags=["chat"])
Known = Annotated[Caller, Depends(caller_of)]


@router.post("/v1/chat", response_model=None)
async def post_chat(request: Request, app: App, caller: Known) -> Response:
    """Say something in a chat, or answer what it asks; read what comes of it as a UI message
    stream. With `mode=answer` nothing is streamed: another stream is open for that.
    """
    body = await _read(request)
    said = read_request(body)
    options = {**body, **_headers(request), **request.query_params}
    manner, mode = read_manner(options), read_mode(options)
    chat = await open_chat(app, caller, said.chat)
    target = await chat.take(said, supersede=read_supersede(options))
    if mode == "answer":
        return Response(_json(await taken(app, target)), media_type="application/json")
    return _stream(tell(app, chat, target, manner, closing_of(request)))


@router.get("/v1/chat/{chat_id}/stream", response_model=None)
async def get_stream(request: Request, chat_id: str, app: App, caller: Known) -> Response:
    """Read the message under way from its beginning; 204 if there is none. With `replay` also one
    that is over or waits; with `follow`, until its run is finished.
    """
    options = {**_headers(request), **request.query_params}
    chat = await open_chat(app, caller, chat_id)
    target = await resumed(chat, caller, options)
    if target is None:
        return Response(status_code=204)
    return _stream(tell(app, chat, target, read_manner(options), closing_of(request)))


@router.get("/v1/chat/{chat_id}/messages", response_model=None)
async def get_messages(
    chat_id: str, app: App, caller: Known, before: str | None = None, limit: int = RUNS_MAX
) -> Response:
    """Give a chat's messages, for a page that loads it: those of its last runs. The one that its
    stream would play from its beginning is left to that.
    """
    if not 1 <= limit <= RUNS_MAX:
        raise BadValue(f"limit is from 1 to {RUNS_MAX}")
    page = await (await open_chat(app, caller, chat_id)).page(before=before, limit=limit)
    return Response(msgspec.json.encode(page), media_type="application/json")


async def resumed(chat: Chat, caller: Caller, options: Mapping[str, Any]) -> Target | None:
    """Find what a reader comes back for; None if nothing is under way."""
    caller.need("read")
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


def closing_of(request: Request) -> asyncio.Event:
    """Give what tells streams that the server ends."""
    return cast("asyncio.Event", request.app.state.closing)


def _stream(chunks: AsyncGenerator[Chunk]) -> StreamingResponse:
    headers = {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
    # That the server ends is told in the stream itself: one that just ends looks complete.
    frames = alive(_frames(chunks), asyncio.Event())
    return StreamingResponse(frames, media_type="text/event-stream", headers=headers)


async def _frames(chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield event(_json(chunk))
    except Exception:
        log.exception("the stream of a chat failed")
        yield event(_json({"type": "error", "errorText": FAULT}))
    yield DONE


async def _read(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A form of another site could be sent without asking; this cannot.
        raise HTTPException(415, "send application/json")
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > BODY_MAX:
            raise HTTPException(413, f"a body has at most {BODY_MAX:,} bytes")
    found = decode_value(bytes(read), bytes_max=BODY_MAX)
    if not isinstance(found, dict):
        raise BadValue("the body is an object")
    return cast("dict[str, Any]", found)


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
