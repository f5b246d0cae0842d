"""The AI SDK's frames over a WebSocket: several requests on one connection, each with its answer.

A client sends `send`, `resume` and `abort`. It is sent `start`, `chunk` with a number that begins
at 0 for every request and never skips, and `end`, `error` or `no-active`.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from sayso.errors import BadValue
from sayso.protocols.ai_sdk_request import ID_MAX, ChatRequest, read_request
from sayso.protocols.ai_sdk_suspension import Chunk


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for on a socket."""

    kind: Literal["send", "resume", "abort"]
    request: str
    chat: str = ""
    said: ChatRequest | None = None
    options: dict[str, Any] = {}


def read_frame(given: object) -> Frame:
    """Read a frame; `BadValue` if it is none."""
    if not isinstance(given, dict):
        raise BadValue("a frame is an object")
    frame = cast("dict[str, Any]", given)
    kind, name = frame.get("type"), frame.get("requestId")
    if kind not in ("send", "resume", "abort"):
        raise BadValue("a frame is of type 'send', 'resume' or 'abort'")
    if not isinstance(name, str) or not name or len(name) > ID_MAX:
        raise BadValue(f"a frame has a requestId of at most {ID_MAX} characters")
    if kind == "abort":
        return Frame(kind="abort", request=name)
    given_body = frame.get("body")
    body = cast("dict[str, Any]", given_body) if isinstance(given_body, dict) else {}
    chat = frame.get("id")
    if not isinstance(chat, str) or not chat or len(chat) > ID_MAX:
        raise BadValue(f"a frame names its chat as 'id', in at most {ID_MAX} characters")
    if kind == "resume":
        return Frame(kind="resume", request=name, chat=chat, options=body)
    own = {key: frame[key] for key in ("id", "messages", "trigger", "messageId") if key in frame}
    said = read_request({**body, **own})
    return Frame(kind="send", request=name, chat=chat, said=said, options=body)


def chunk_frame(request: str, sequence: int, chunk: Chunk) -> Chunk:
    """Wrap a chunk."""
    return {"type": "chunk", "requestId": request, "sequence": sequence, "chunk": chunk}


def mark(kind: Literal["start", "end", "no-active"], request: str) -> Chunk:
    """Say that an answer begins, ends, or will not be."""
    return {"type": kind, "requestId": request}


def error_frame(request: str, text: str) -> Chunk:
    """Say what went wrong before an answer began."""
    return {"type": "error", "requestId": request, "errorText": text}
