"""Chats over a WebSocket, in the AI SDK's frames. That its own client is content with them is tried
in `tests/clients`; here, what a client could get wrong.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from sayso.errors import StoreError
from sayso.server import chat_socket
from sayso.server.seat import Seats
from tests.engine.kit import until
from tests.server.test_chat import Desk, Json, answered, desk, kinds, said
from tests.server.test_chat_guards import revoke, token


class Socket:
    """A connection, and what has come over it, by request."""

    def __init__(self, link: ClientConnection) -> None:
        self._link = link
        self.frames: dict[str, list[Json]] = {}

    async def send(self, kind: str, request: str, **more: Any) -> None:
        frame = {"type": kind, "requestId": request, "headers": {}, "body": {}, **more}
        await self._link.send(json.dumps(frame))

    async def read(self, request: str) -> list[Json]:
        """Read until a request is answered to its end; give its chunks, in the order of numbers."""
        while not any(one["type"] in ENDS for one in self.frames.get(request, [])):
            frame = json.loads(await asyncio.wait_for(self._link.recv(), 20))
            self.frames.setdefault(frame["requestId"], []).append(frame)
        found = [one for one in self.frames[request] if one["type"] == "chunk"]
        assert [one["sequence"] for one in found] == list(range(len(found)))
        return [one["chunk"] for one in found]


ENDS = ("end", "error", "no-active")


@asynccontextmanager
async def linked(here: Desk, query: str = "token=mira@default", **more: Any) -> AsyncIterator[Any]:
    url = f"{here.url.replace('http', 'ws')}/v1/chat?{query}"
    async with websockets.connect(url, max_queue=None, **more) as link:
        yield Socket(link)


async def test_one_stream_stays_open_while_another_request_answers(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        asked = said("c", "pay 200 jiro")
        await socket.send("send", "r1", **asked, body={"mode": "continuous"})
        await until(lambda: _held(here))
        page = await here.page("c")
        await socket.send("send", "r2", **answered("c", page, True), body={"mode": "answer"})
        chunks = await socket.read("r1")
        await socket.read("r2")

        assert [one["type"] for one in socket.frames["r2"]] == ["start", "end"]
        found = kinds(chunks)
        order = ["tool-approval-request", "finish-step", "tool-output-available", "finish"]
        assert [found.index(one) for one in order] == sorted(found.index(one) for one in order)
        assert found.count("finish") == 1
        assert here.paid() == [200.0]


async def test_requests_on_one_connection_do_not_mix(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        for number in range(8):
            await socket.send("send", f"r{number}", **said(f"c{number}", f"number {number}"))

        for number in range(8):
            chunks = await socket.read(f"r{number}")
            text = "".join(one["delta"] for one in chunks if one["type"] == "text-delta")
            assert text == f"You said: number {number}"


async def test_there_is_nothing_to_resume_while_a_run_waits(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        await here.held("c", "pay 200 jiro")

        await socket.send("resume", "r1", id="c")
        await socket.read("r1")
        await socket.send("resume", "r2", id="c", body={"replay": True})

        assert socket.frames["r1"] == [{"type": "no-active", "requestId": "r1"}]
        assert "tool-approval-request" in kinds(await socket.read("r2"))


BAD_FRAMES = [
    "no json",
    "[]",
    '{"type": "shout", "requestId": "r1"}',
    '{"type": "send", "requestId": ""}',
    '{"type": "send", "requestId": "r1", "messages": []}',
    '{"type": "send", "requestId": "r1", "id": "c", "messages": 1}',
    '{"type": "resume", "requestId": "r1", "id": "c", "body": {"mode": "x"}}',
]


async def test_a_frame_that_is_none_is_an_error_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        for frame in BAD_FRAMES:
            await socket._link.send(frame)
            error = json.loads(await socket._link.recv())
            assert error["type"] == "error", frame
            assert error["errorText"]

        await socket.send("send", "r2", **said("c", "hello"))
        assert (await socket.read("r2"))[-1]["type"] == "finish"


async def test_an_abort_ends_the_telling_and_not_the_run(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        await here.held("c", "pay 200 jiro")
        tasks = len(asyncio.all_tasks())
        await socket.send("resume", "r1", id="c", body={"follow": True})
        await until(lambda: len(asyncio.all_tasks()) > tasks)

        await socket.send("abort", "r1")

        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        assert (await here.page("c"))["status"] == "suspended"


async def test_a_connection_that_breaks_lets_go_of_everything(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        tasks = len(asyncio.all_tasks())
        async with linked(here) as socket:
            for number in range(3):
                await socket.send("resume", f"r{number}", id="c", body={"follow": True})
            await until(lambda: len(asyncio.all_tasks()) >= tasks + 3)

        await until(lambda: len(asyncio.all_tasks()) <= tasks, "every reader's end")
        assert here.app._parts is not None
        assert here.app._parts.feed._readers == {}


async def test_no_connection_has_too_many_answers_under_way(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:
        await here.held("c", "pay 200 jiro")
        for number in range(17):
            await socket.send("resume", f"r{number}", id="c", body={"follow": True})

        await socket.read("r16")
        assert socket.frames["r16"][-1]["type"] == "error"


@pytest.mark.parametrize(
    "headers, good",
    [
        ({}, True),
        ({"cookie": "session=1"}, True),
        ({"cookie": "session=1", "origin": "http://evil.example"}, False),
        ({"cookie": "session=1", "origin": "http://HOST"}, True),
        ({"origin": "http://evil.example"}, True),
    ],
)
async def test_a_page_of_another_site_cannot_use_its_visitors_cookie(
    tmp_path: Path, headers: dict[str, str], good: bool
) -> None:
    async with desk(tmp_path) as here:
        sent = {name: one.replace("HOST", here.url[7:]) for name, one in headers.items()}
        if not good:
            with pytest.raises(websockets.InvalidStatus):
                async with linked(here, additional_headers=sent):
                    pass
            return
        async with linked(here, additional_headers=sent) as socket:
            await socket.send("send", "r1", **said("c", "hello"))
            assert (await socket.read("r1"))[-1]["type"] == "finish"


async def test_whoever_does_not_say_who_they_are_is_not_let_in(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        with pytest.raises(websockets.InvalidStatus):
            async with linked(here, query=""):
                pass


async def test_a_frame_is_taken_while_its_credential_lasts(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        mine, text = await token(here)
        bearer = {"authorization": f"Bearer {text}"}
        async with linked(here, query="", additional_headers=bearer) as socket:
            await socket.send("resume", "r1", id="c", body={"replay": True})
            await socket.read("r1")
            await revoke(here, mine)
            await socket.send("send", "r2", **answered("c", page, True))
            with pytest.raises(websockets.ConnectionClosed):
                await socket.read("r2")

        assert socket._link.close_code == 1008
        row = await here.app.store.thread("default", "c")
        assert row is not None
        assert row.status == "suspended"
        assert here.paid() == []


async def test_who_is_only_told_is_told_while_the_credential_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_socket, "ALIVE_S", 0.02)
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        mine, text = await token(here)
        bearer = {"authorization": f"Bearer {text}"}
        async with linked(here, query="", additional_headers=bearer) as socket:
            await socket.send("resume", "r1", id="c", body={"follow": True})
            await until(lambda: here.state.state.streams.open == 1)
            await revoke(here, mine)
            with pytest.raises(websockets.ConnectionClosed):
                await socket.read("r1")

        assert socket._link.close_code == 1008
        assert here.state.state.streams.open == 0


@pytest.mark.parametrize("seats", [Seats(1), Seats(5, each=1)])
async def test_a_server_has_so_many_connections_and_so_many_of_each(
    tmp_path: Path, seats: Seats
) -> None:
    async with desk(tmp_path) as here:
        here.state.state.sockets = seats
        async with linked(here):
            async with linked(here) as second:
                with pytest.raises(websockets.ConnectionClosed):
                    await second.read("r1")
            assert second._link.close_code == 1013
        await until(lambda: here.state.state.sockets.open == 0)
        async with linked(here) as third:
            await third.send("send", "r1", **said("c", "hello"))
            assert (await third.read("r1"))[-1]["type"] == "finish"


async def test_answers_are_counted_with_all_other_streams(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        here.state.state.streams = streams = Seats(1)
        page = await here.held("c", "pay 200 jiro")
        async with linked(here) as socket:
            await socket.send("resume", "r1", id="c", body={"follow": True})
            await until(lambda: streams.open == 1)
            await socket.send("send", "r2", **answered("c", page, True))
            await socket.read("r2")
            assert socket.frames["r2"][-1]["type"] == "error"
            await socket.send("abort", "r1")
            await until(lambda: streams.open == 0)

        assert await here.page("c") == page
        assert here.paid() == []


async def test_an_error_does_not_say_where_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as here, linked(here) as socket:

        async def thread(*_: Any) -> Any:
            raise StoreError("'postgresql://sayso@10.0.0.5/pay' cannot be reached")

        monkeypatch.setattr(here.app.store, "thread", thread)
        await socket.send("resume", "r1", id="c")
        await socket.read("r1")

        (error,) = socket.frames["r1"]
        assert error["type"] == "error"
        assert "10.0.0.5" not in error["errorText"]


async def _held(here: Desk) -> bool:
    row = await here.app.store.thread("default", "c")
    return row is not None and row.status == "suspended"
