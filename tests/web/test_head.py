"""HEAD, as GET is answered and with nothing after it: in memory, mounted, and by a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from sayso.server.app import create_app
from sayso.web.asset import assets
from tests.server.process import Server

PATHS = (
    *("/", "/runs", "/settings", "/no-such-page", "/health", "/ready", "/openapi.json"),
    *("/v1/runs", "/v1/runs/run_x", "/v1/decisions", assets()["app.css"].path),
)
CHANGES = {"date", "traceparent"}


def headers(answer: httpx2.Response) -> dict[str, str]:
    return {name: text for name, text in answer.headers.items() if name not in CHANGES}


async def test_head_is_answered_as_get_without_a_body(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira, nobody = await pages.browser(), await pages.stranger()
        for client in (mira, nobody, await pages.service.client()):
            for path in PATHS:
                # What is packed is as long as its secrets make it, which are others each time.
                looked = await client.get(path, headers={"accept-encoding": "identity"})
                asked = await client.head(path, headers={"accept-encoding": "identity"})

                assert (asked.status_code, asked.content) == (looked.status_code, b""), path
                assert headers(asked) == headers(looked), path


@pytest.mark.parametrize("spec", ["2.3", "2.4"])
async def test_a_stream_is_not_begun_and_its_seat_is_free(open_pages: Any, spec: str) -> None:
    async with open_pages() as pages:
        run = await pages.sayso.start("teller", "pay 200", by="mira")
        await run.wait()
        _, text = await pages.token()
        sent: list[Any] = []

        async def receive() -> Any:
            await asyncio.Event().wait()  # Whoever asks stays, as on a connection that is kept.

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "HEAD",
            "scheme": "http",
            "query_string": b"follow=true",
            "path": f"/v1/runs/{run.id}/events",
            "headers": [(b"authorization", f"Bearer {text}".encode())],
            "asgi": {"version": "3.0", "spec_version": spec},
            "client": ("127.0.0.1", 1),
        }
        async with asyncio.timeout(5):
            await pages.service.app(scope, receive, send)

        assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
        assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
        assert sent[1] == {"type": "http.response.body", "body": b""}
        assert pages.service.app.state.streams.open == 0


@pytest.mark.parametrize("path", ["/oauth/callback", "/sign-in/callback"])
async def test_what_a_look_would_carry_out_is_not_carried_out_by_head(
    open_pages: Any, path: str
) -> None:
    async with open_pages() as pages:
        answer = await (await pages.browser()).head(f"{path}?state=x&code=y")

        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET"


async def test_what_is_mounted_answers_head_too(open_pages: Any) -> None:
    async with open_pages() as pages:
        outer = FastAPI()
        outer.mount("/ask", create_app(pages.sayso))
        _, text = await pages.token()
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=outer),
            base_url="http://sayso.test/ask",
            headers={"authorization": f"Bearer {text}"},
        ) as client:
            answer = await client.head("/v1/runs")

        assert (answer.status_code, answer.content) == (200, b"")


async def test_a_connection_goes_on_after_head(tmp_path: Any) -> None:
    server = Server(tmp_path / "sayso.db", tmp_path / "paid")
    server.start()
    try:
        only = httpx2.Limits(max_connections=1)
        async with server.client(limits=only) as client, asyncio.timeout(30):
            begun = await client.post("/v1/runs", json={"agent": "teller", "input": "7"})
            path = f"/v1/runs/{begun.json()['run_id']}"
            for _ in range(3):
                assert (await client.head(f"{path}/events?follow=true")).status_code == 200
                assert int((await client.head(path)).headers["content-length"]) > 0
                assert (await client.get("/v1/me")).json()["by"]["id"] == "mira"
    finally:
        server.stop()
