"""A model provider on this machine that follows a script.

It speaks OpenAI's two wires and Anthropic's, streamed.

It is a real HTTP server, so that the providers' own clients talk to it. Every request takes the
next reply of the script; what was asked is kept as parsed JSON.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Reply:
    """What to answer: a status with a body, or a stream of events, perhaps cut off."""

    def __init__(
        self,
        events: list[Any] | None = None,
        *,
        status: int = 200,
        body: Any = None,
        headers: dict[str, str] | None = None,
        end: str = "done",
    ) -> None:
        self.events = events or []
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.ready = threading.Event()
        """Until this is set, the answer is not begun."""
        self.ready.set()
        self.end = end
        """`done`, `closed` without OpenAI's mark at the end, `reset` in the middle of a chunked
        body, or `close` as if that were all.
        """


def chat(
    *parts: str | tuple[str | None, str, str], finish: str | None = "", end: str = "done"
) -> Reply:
    """Answer with pieces of text and with calls, each an id, a name and arguments."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    index = 0
    for part in parts:
        if isinstance(part, str):
            deltas.append({"content": part})
            continue
        given, name, args = part
        half = len(args) // 2
        head = {"index": index, "id": given, "type": "function"}
        function = {"name": name, "arguments": args[:half]}
        deltas.append({"tool_calls": [head | {"function": function}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": args[half:]}}]})
        index += 1
    finish = ("tool_calls" if index else "stop") if finish == "" else finish
    return Reply([*[_chunk(delta, None) for delta in deltas], *_last(finish)], end=end)


def _last(finish: str | None) -> list[Any]:
    if finish is None:
        return []
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return [_chunk({}, finish), _chunk(None, None) | {"usage": usage}]


def _chunk(delta: Any, finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": "test-1",
        "choices": [] if delta is None else [choice],
    }


def responses(*parts: str | tuple[str, str, str], end: str = "done") -> Reply:
    """Answer as `chat` does, on the wire of the Responses API."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response([], "in_progress")}
    ]
    items: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        made, item = _text_item(at, part) if isinstance(part, str) else _call_item(at, *part)
        events.extend(made)
        items.append(item)
    if end == "done":
        events.append({"type": "response.completed", "response": _response(items, "completed")})
    return Reply([event | {"sequence_number": n} for n, event in enumerate(events)], end=end)


def _response(items: list[Any], status: str) -> dict[str, Any]:
    done = status == "completed"
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_767_225_600,
        "model": "test-1",
        "status": status,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 18,
        }
        if done
        else None,
    }


def _text_item(at: int, text: str) -> tuple[list[Any], Any]:
    place = {"item_id": f"msg_{at}", "output_index": at, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": f"msg_{at}", "type": "message", "role": "assistant"}
    done = item | {"status": "completed", "content": [part]}
    words = [word + " " for word in text.split()]
    return [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": item | {"status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", "part": part | {"text": ""}} | place,
        *[
            {"type": "response.output_text.delta", "delta": w, "logprobs": []} | place
            for w in words
        ],
        {"type": "response.output_text.done", "text": text, "logprobs": []} | place,
        {"type": "response.content_part.done", "part": part} | place,
        {"type": "response.output_item.done", "output_index": at, "item": done},
    ], done


def _call_item(at: int, id: str, name: str, args: str) -> tuple[list[Any], Any]:
    place = {"item_id": f"fc_{at}", "output_index": at}
    item = {"id": f"fc_{at}", "type": "function_call", "call_id": id, "name": name}
    done = item | {"arguments": args, "status": "completed"}
    return [
        {
            "type": "response.output_item.added",
            "output_index": at,
            "item": item | {"arguments": "", "status": "in_progress"},
        },
        {"type": "response.function_call_arguments.delta", "delta": args} | place,
        {"type": "response.function_call_arguments.done", "arguments": args, "name": name} | place,
        {"type": "response.output_item.done", "output_index": at, "item": done},
    ], done


def anthropic(*parts: str | tuple[str, str, str], end: str = "done") -> Reply:
    """Answer as `chat` does, on Anthropic's wire."""
    usage = {"input_tokens": 11, "output_tokens": 7}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for at, part in enumerate(parts):
        if isinstance(part, str):
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": part}
        else:
            given, name, args = part
            block = {"type": "tool_use", "id": given, "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": args}
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    if end == "done":
        stop = "end_turn" if all(isinstance(part, str) for part in parts) else "tool_use"
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": usage})
        events.append({"type": "message_stop"})
    return Reply(events, end="closed" if end == "done" else end)


class OpenAIServer:
    """The provider, as a test sees it."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        self.script: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []

    def says(self, *replies: Reply) -> None:
        self.script.extend(replies)


@contextmanager
def serving() -> Iterator[OpenAIServer]:
    """Run a provider for as long as the block lasts."""
    server = _Server(("127.0.0.1", 0), _Handler)
    state = server.state = OpenAIServer(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    # The default of 5 makes the kernel reset connections when many come at once.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        state: OpenAIServer = self.server.state
        state.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        state.paths.append(self.path)
        reply = state.script.pop(0) if state.script else Reply(status=500, body={"error": {}})
        self.close_connection = True
        assert reply.ready.wait(30), "the test never let this reply go"
        if reply.status != 200:
            self._send_json(reply)
        else:
            self._send_stream(reply)

    def _send_json(self, reply: Reply) -> None:
        data = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _send_stream(self, reply: Reply) -> None:
        chunked = reply.end != "close"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in reply.events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self._write(f"{name}data: {json.dumps(event)}\n\n".encode(), chunked=chunked)
        if reply.end == "done":
            self._write(b"data: [DONE]\n\n", chunked=True)
        if reply.end in ("done", "closed"):
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, data: bytes, *, chunked: bool) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
