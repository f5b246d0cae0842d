"""Streams and ends of a server, with real servers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from sayso.server.sse import alive

from .process import Server


@pytest.fixture
def server(tmp_path):
    found = Server(tmp_path / "sayso.db", tmp_path / "ledger")
    found.start()
    yield found
    found.stop(signal.SIGKILL)


async def start(client, amount, **more):
    answer = await client.post("/v1/runs", json={"agent": "teller", "input": str(amount), **more})
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


async def read(client, url, last=None):
    """Read a stream to its end; give events as (id, name, data)."""
    headers = {} if last is None else {"last-event-id": str(last)}
    found = []
    async with client.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200
        async for event in events(answer):
            found.append(event)
    return found


async def events(answer):
    fields = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields.get("id"), fields.get("event"), json.loads(fields["data"])
            fields = {}


async def test_a_stream_ends_at_a_suspension_and_goes_on_from_there(server):
    async with server.client() as client:
        run = (await start(client, 5, mode="wait"))["run_id"]
        first = await read(client, f"/v1/runs/{run}/events")
        held = (await client.get(f"/v1/runs/{run}")).json()
        await client.post(held["approval_url"])
        rest = await read(client, f"/v1/runs/{run}/events", last=first[-2][0])
        whole = await read(client, f"/v1/runs/{run}/events?follow=true")

        assert first[-1][1:] == ("end", {"status": "suspended"})
        assert rest[-1][1:] == ("end", {"status": "completed"})
        both = [one for one in first + rest if one[1] != "end"]
        assert both == whole[:-1]
        assert [int(one[0]) for one in both] == list(range(1, len(both) + 1))


async def test_a_server_that_ends_ends_its_streams_and_exits_cleanly(server):
    async with server.client() as client:
        run = (await start(client, 5, mode="wait"))["run_id"]
        async with client.stream("GET", f"/v1/runs/{run}/events?follow=true") as answer:
            stream = events(answer)
            while (await anext(stream))[1] != "run.suspended":
                pass
            code = await asyncio.to_thread(server.stop)
            assert [name async for _, name, _ in stream] == []
    assert code == 0


async def test_whoever_goes_away_frees_the_stream(server):
    async with server.client() as client:
        run = (await start(client, 5, mode="wait"))["run_id"]
        for _ in range(20):
            async with client.stream("GET", f"/v1/runs/{run}/events?follow=true") as answer:
                assert (await anext(events(answer)))[0] == "1"
        # Ending takes no longer for them.
        assert await asyncio.to_thread(server.stop) == 0


async def test_a_stream_ends_with_its_credential():
    asked = []

    async def never():
        await asyncio.Event().wait()
        yield b""

    async def is_good():
        asked.append(len(asked))
        return len(asked) < 3

    frames = alive(never(), asyncio.Event(), every_s=0.01, recheck=is_good)
    sent = []
    async for frame in frames:
        sent.append(frame)
        if len(sent) > 5:
            break

    assert sent == [b": alive\n\n"] * 2
    assert asked == [0, 1, 2]
