"""Requests of somebody who means harm: bodies, paths and headers that try what they should not."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from sayso import Principal, Sayso
from sayso.server import chat, stream
from sayso.server import json as bodies
from sayso.server.app import create_app
from sayso.server.door import LocalWay
from sayso.store.keyring import VARIABLE, new_key

from .conftest import Service, service, teller
from .test_runs import started

JSON = (b"content-type", b"application/json")


async def raw(it: Service, path: str, receive: Any, *headers: tuple[bytes, bytes]) -> int:
    """POST by hand, with a body that comes as a test wants it to; give the status."""
    told: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    scope = {
        "type": "http",
        "asgi": {"spec_version": "2.4"},
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [JSON, *headers],
        "client": ("127.0.0.1", 1),
    }
    async with asyncio.timeout(20):
        await it.app(scope, receive, send)
    return told[0]["status"]


async def test_nothing_is_read_of_whoever_is_not_let_in():
    async with service() as it:

        async def receive() -> Any:
            raise AssertionError("a body was read")

        for path in ("/v1/runs", "/v1/chat", "/v1/decisions"):
            assert await raw(it, path, receive) == 401
            assert await raw(it, path, receive, (b"authorization", b"Bearer sayso_x")) == 401


async def test_a_body_that_comes_drop_by_drop_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    async with service() as it:
        client = await it.client()
        bearer = (b"authorization", client.headers["authorization"].encode())
        sent = 0

        async def receive() -> Any:
            nonlocal sent
            sent += 1
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b" ", "more_body": True}

        assert await raw(it, "/v1/runs", receive, bearer) == 408
        assert sent < 20


async def test_a_large_body_is_parsed_beside_the_loop(monkeypatch):
    async with service() as it:
        client = await it.client()
        beside: list[int] = []
        aside = asyncio.to_thread

        async def to_thread(fn, body, **more):
            beside.append(len(body))
            return await aside(fn, body, **more)

        monkeypatch.setattr(bodies.asyncio, "to_thread", to_thread)
        body = {"agent": "teller", "input": "x" * 200_000}
        assert (await client.post("/v1/runs", json=body)).status_code == 202
        assert (await client.post("/v1/runs", json={**body, "input": "x"})).status_code == 202

        assert len(beside) == 1


@pytest.mark.parametrize("path", ["/v1/runs/", "//v1/runs", "/v1/runs%2F", "/v1//runs", "/V1/runs"])
async def test_a_path_is_one_path_and_nothing_is_sent_on(path):
    async with service() as it:
        client = await it.client()

        answer = await client.post(path, json={"agent": "teller", "input": "x"})

        assert (answer.status_code, answer.headers.get("location")) == (404, None)


async def test_no_answer_is_for_keeping():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        paths = [
            "/v1/me",
            "/v1/runs",
            "/v1/holds",
            "/v1/chat/c/stream",
            "/v1/nothing",
            "/v1/people",
        ]
        answers = [await client.get(path) for path in paths]
        answers.append(await client.get(f"/v1/runs/{body['run_id']}/events"))

        for one in answers:
            assert one.headers["cache-control"] == "no-store", one.url
            assert one.headers["x-content-type-options"] == "nosniff", one.url


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host"]
)
async def test_a_local_token_is_not_good_by_way_of_another_machine(header):
    async with service() as it:
        way = LocalWay(Principal(id="mira"), "default")
        it.app = create_app(it.sayso, ways=[way])
        local = await it.bearing(way.text)

        assert (await local.get("/v1/me")).status_code == 200
        passed_on = await local.get("/v1/me", headers={header: "127.0.0.1"})

        assert passed_on.status_code == 401


async def test_who_sends_a_request_is_not_said_by_the_request():
    async with service() as it:
        mira, ann = await it.client(), await it.client("ann")
        names = ("x-user", "x-forwarded-user", "remote-user", "x-sayso-by", "x-sayso-project")
        claims = dict.fromkeys(names, "ann")

        found = await mira.get("/v1/me?by=ann&project=other", headers=claims)
        twice = await mira.get(
            "/v1/me", headers=[("authorization", ann.headers["authorization"])] * 2
        )
        body = {"agent": "teller", "input": "x", "by": "ann"}

        assert found.json()["by"]["id"] == "mira"
        assert found.json()["project"] == "default"
        assert twice.status_code == 401
        assert (await mira.post("/v1/runs", json=body)).status_code == 422


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_what_a_form_of_another_site_could_send_is_not_read(kind):
    async with service() as it:
        client = await it.client()
        body = b'{"agent":"teller","input":"x"}'

        answer = await client.post("/v1/runs", content=body, headers={"content-type": kind})

        assert answer.status_code == 422
        assert (await client.get("/v1/runs")).json()["items"] == []


async def test_a_key_of_one_caller_is_of_no_use_to_another():
    async with service() as it:
        clients = [
            await it.client("mira"),
            await it.client("ann"),
            await it.client("mira", kind="service"),
            await it.client("mira", project="other"),
        ]
        body = {"agent": "teller", "input": "pay 3"}
        head = {"Idempotency-Key": "same"}

        first = [await one.post("/v1/runs", json=body, headers=head) for one in clients]
        again = [await one.post("/v1/runs", json=body, headers=head) for one in clients]

        names = [one.json()["run_id"] for one in first]
        assert len(set(names)) == 4
        assert [one.json()["run_id"] for one in again] == names


@pytest.mark.parametrize("change", [{"roles": []}, {"active": False}])
async def test_a_stream_ends_with_the_right_to_read_it(monkeypatch, change):
    monkeypatch.setattr(stream, "ALIVE_S", 0.02)
    async with service() as it:
        await it.sayso.people.put("olga", roles=["operator"])
        olga, mira = await it.client("olga"), await it.client()
        _, body = await started(mira)
        path = f"/v1/runs/{body['run_id']}/events?follow=true"
        reading = asyncio.ensure_future(olga.get(path))
        while not it.app.state.streams.open:
            await asyncio.sleep(0.005)

        await it.sayso.people.put("olga", **change)
        async with asyncio.timeout(20):
            found = await reading

        assert "event: hold.opened" in found.text
        assert "event: end" not in found.text
        assert (await olga.get(path)).status_code == 403


async def test_a_chat_ends_for_whoever_is_shut_out(monkeypatch):
    monkeypatch.setattr(chat, "ALIVE_S", 0.02)
    async with service() as it:
        mira = await it.client()
        part = {"type": "text", "text": "pay 3"}
        said = {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [part]}]}
        assert (await mira.post("/v1/chat", json=said)).status_code == 200
        reading = asyncio.ensure_future(mira.get("/v1/chat/c/stream?follow=true"))
        while not it.app.state.streams.open:
            await asyncio.sleep(0.005)

        await it.sayso.people.put("mira", active=False)
        async with asyncio.timeout(20):
            found = await reading

        assert json.dumps(chat.ENDED) in found.text


async def test_where_a_reader_says_to_be_twice_it_is_further_on():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        path = f"/v1/runs/{body['run_id']}/events?after=1"

        whole = (await client.get(path)).text
        later = (await client.get(path, headers={"last-event-id": "2"})).text
        before = (await client.get(path, headers={"last-event-id": "0"})).text

        assert "id: 2\n" in whole
        assert "id: 2\n" not in later
        assert before == whole


ZEROS = [
    *[("GET", f"/v1/{path}", None) for path in (
        "runs?agent=%00", "runs?thread=%00", "runs?after=%00", "runs/%00", "runs/%00/events",
        "holds?search=%00", "holds?search=a%00%25_", "holds?after=%00", "holds?risk=%00",
        "holds/%00", "resume/%00", "people/%00", "people?after=%00", "notifications?after=%00",
        "chat/%00/messages", "chat/%00/stream", "chat/c/messages?before=%00",
        "projects/%00/questions",
    )],
    ("PUT", "/v1/people/x", {"name": "\0", "roles": ["\0"], "identities": ["\0"]}),
    ("PUT", "/v1/people/x", {"name": "\0"}),
    ("POST", "/v1/tokens", {"name": "\0", "by": "mira", "scopes": ["read"]}),
    ("POST", "/v1/tokens", {"name": "x", "by": "\0", "kind": "service", "scopes": ["read"]}),
    ("POST", "/v1/runs", {"agent": "\0", "input": "x"}),
    ("POST", "/v1/runs", {"agent": "teller", "input": "x \0", "metadata": {"\0": "\0"}}),
    ("POST", "/v1/runs", {"agent": "teller", "input": "x", "thread": "\0"}),
    ("POST", "/v1/chat", {"id": "\0", "messages": [{"id": "\0", "role": "user", "content": "x"}]}),
    ("POST", "/v1/chat", {"id": "c", "answers": {"\0": "\0"}}),
    ("POST", "/v1/decisions", {"decisions": [{"hold_id": "\0", "action": "fail", "seen": "\0"}]}),
    ("POST", "/v1/holds/{hold}/reassign", {"to": "\0", "note": "\0"}),
    ("POST", "/v1/runs/{run}/commands/%00", {"args": {"\0": 1}, "strand": "\0"}),
    ("POST", "/v1/runs/{run}/messages", {"text": "\0", "supersede": True}),
    ("DELETE", "/v1/runs/{run}", {"reason": "\0"}),
    ("DELETE", "/v1/grants/%00", None),
    ("DELETE", "/v1/tokens/%00", None),
    ("POST", "/v1/notifications/%00/read", None),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_zero_anywhere_is_no_fault_of_ours(kind, request, tmp_path, monkeypatch):
    """PostgreSQL keeps none in its texts, and SQLite may end a text there."""
    monkeypatch.setenv(VARIABLE, new_key())
    where = {"memory": "memory:", "sqlite": str(tmp_path / "sayso.db")}.get(kind)
    where = where or request.getfixturevalue("postgres").database()
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(Sayso(where, agents=[teller([])]))
        it = Service(sayso, create_app(sayso), [], stack)
        await sayso.people.put("mira", roles=["operator"])
        client = await it.client()
        _, body = await started(client)
        faults: list[str] = []
        for method, path, sent in ZEROS:
            there = path.format(run=body["run_id"], hold=body["calls"][0]["id"])
            answer = await client.request(method, there, json=sent)
            if answer.status_code >= 500:
                faults.append(f"{method} {path}: {answer.text}")

    assert not faults, "\n".join(faults)
