"""Chats over a WebSocket, in the AI SDK's own frames: several requests on one connection.

Rule 1: everything that HTTP refuses is refused here, as an `error` frame of its request.
Rule 2: what a connection began ends with it: its runs go on, nobody is told.
Rule 3: a connection is good for as long as the credential is that it was opened with, and whoever
bears it is active; that is asked with every frame, and every few seconds while it is only told.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any, cast
from urllib.parse import urlsplit

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from sayso.app import Sayso
from sayso.domain.digest import decode_value
from sayso.errors import BadValue, NotAllowed, SaysoError
from sayso.protocols.ai_sdk_frame import Frame, chunk_frame, error_frame, mark, read_frame
from sayso.server.caller import Caller
from sayso.server.chat import BODY_MAX, FAULT, read_manner, read_mode, read_supersede, resumed
from sayso.server.chat_stream import explain, tell
from sayso.server.chat_talk import open_chat
from sayso.server.problem import Refusal
from sayso.server.seat import Seats
from sayso.server.sse import ALIVE_S

log = logging.getLogger("sayso")

REQUESTS_MAX = 16
"""How many answers are under way on one connection."""
STALL_S = 60.0
"""Whoever does not read for so long is let go."""
CONNECTIONS_MAX = 500
"""How many connections one server has at a time."""
CONNECTIONS_EACH_MAX = 32
"""How many of them one of its callers has."""
_POLICY, _LATER = 1008, 1013

socket_router = APIRouter()


@socket_router.websocket("/v1/chat")
async def chat_socket(socket: WebSocket) -> None:
    """Serve one connection."""
    state = socket.app.state
    try:
        caller = await _identify(socket)
    except SaysoError:
        await socket.close(_POLICY)
        return
    try:
        seat = state.sockets.take(caller)
    except Refusal:
        await socket.accept()  # Before that, no code can be given.
        await socket.close(_LATER)
        return
    with seat:
        await socket.accept()
        await _Connection(socket).serve()


class _Connection:
    """One connection, and the answers under way on it."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._app = cast("Sayso", socket.app.state.sayso)
        self._closing = cast("asyncio.Event", socket.app.state.closing)
        self._streams = cast("Seats", socket.app.state.streams)
        self._answers: dict[str, asyncio.Task[None]] = {}
        self._pen = asyncio.Lock()

    async def serve(self) -> None:
        """Take frames until the client is gone; then let go of what it was being told."""
        text = asyncio.ensure_future(self._socket.receive_text())
        ended = False
        try:
            while True:
                await asyncio.wait({text}, timeout=ALIVE_S)
                caller = await _identify(self._socket)
                if text.done():
                    await self._take(text.result(), caller)
                    text = asyncio.ensure_future(self._socket.receive_text())
        except SaysoError:
            ended = True
        except (WebSocketDisconnect, KeyError, OSError, TimeoutError):
            return  # It is gone, or has sent what is no text.
        finally:
            tasks: list[asyncio.Task[Any]] = [text, *self._answers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if ended:
                with suppress(WebSocketDisconnect, RuntimeError, OSError):
                    await self._socket.close(_POLICY)

    async def _take(self, text: str, caller: Caller) -> None:
        name = ""
        try:
            if len(text) > BODY_MAX:
                raise BadValue(f"a frame has at most {BODY_MAX:,} characters")
            given = decode_value(text, bytes_max=4 * BODY_MAX)
            name = _name(given)
            frame = read_frame(given)
            if frame.kind == "abort":
                self._abort(frame.request)
                return
            if frame.request in self._answers or len(self._answers) >= REQUESTS_MAX:
                raise BadValue("this request is under way, or too many others are")
        except SaysoError as error:
            await self._send(error_frame(name, explain(error)))
            return
        answer = asyncio.ensure_future(self._answer(frame, caller))
        self._answers[frame.request] = answer
        answer.add_done_callback(lambda _: self._answers.pop(frame.request, None))

    def _abort(self, request: str) -> None:
        if (answer := self._answers.get(request)) is not None:
            answer.cancel()

    async def _answer(self, frame: Frame, caller: Caller) -> None:
        try:
            # Nothing is done for one too many.
            with self._streams.take(caller):
                await self._tell(frame, caller)
        except Refusal as error:
            await self._send(error_frame(frame.request, error.problem.detail))
        except SaysoError as error:
            await self._send(error_frame(frame.request, explain(error)))
        except (OSError, RuntimeError, WebSocketDisconnect, TimeoutError):
            return  # Nobody is there to be told; the connection's own loop ends it.
        except Exception:
            log.exception("an answer of a chat failed")
            await self._send(error_frame(frame.request, FAULT))

    async def _tell(self, frame: Frame, caller: Caller) -> None:
        options: Mapping[str, Any] = {**frame.options, **self._socket.query_params}
        manner, mode = read_manner(options), read_mode(options)
        chat = await open_chat(self._app, caller, frame.chat)
        if frame.said is None:
            caller.need("read")
            target = await resumed(chat, options)
            if target is None:
                await self._send(mark("no-active", frame.request))
                return
        else:
            target = await chat.take(frame.said, supersede=read_supersede(options))
        await self._send(mark("start", frame.request))
        sequence = 0
        if mode == "answer":
            # The stream that is open tells the rest.
            for chunk in target.refusals:
                await self._send(chunk_frame(frame.request, sequence, chunk))
                sequence += 1
        else:
            async with aclosing(tell(self._app, chat, target, manner, self._closing)) as chunks:
                async for chunk in chunks:
                    await self._send(chunk_frame(frame.request, sequence, chunk))
                    sequence += 1
        await self._send(mark("end", frame.request))

    async def _send(self, frame: Mapping[str, Any]) -> None:
        async with self._pen:
            text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
            # Not `wait_for`: in 3.11 it can swallow that the answer was aborted.
            async with asyncio.timeout(STALL_S):
                await self._socket.send_text(text)


async def _identify(socket: WebSocket) -> Caller:
    caller = cast("Caller", await socket.app.state.door.identify(socket))
    _check_origin(socket, caller)
    people = cast("Sayso", socket.app.state.sayso).people
    if not (await people.authority(caller.project, caller.by)).active:
        raise NotAllowed(f"{caller.by} may not chat: they are no longer active")
    return caller


def _name(given: object) -> str:
    name = cast("dict[str, Any]", given).get("requestId") if isinstance(given, dict) else None
    return name if isinstance(name, str) else ""


def _check_origin(socket: WebSocket, caller: Caller) -> None:
    """Refuse a page of another site that uses what its visitor's browser sends along by itself."""
    origin = socket.headers.get("origin")
    if origin is None or caller.via != "session":
        return
    if urlsplit(origin).netloc != socket.headers.get("host"):
        raise NotAllowed(f"a page of {origin!r} may not chat for you")
