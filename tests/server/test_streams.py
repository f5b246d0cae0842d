"""Streams and ends of a server, with real servers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import random
import signal

import httpx2
import pytest

from sayso.server.sse import alive

from .process import Server

PATIENCE_S = 60.0


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
            assert (await anext(stream))[1] == "run.started"
            code = await asyncio.to_thread(server.stop)
            assert [name async for _, name, _ in stream][-1] == "run.suspended"
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


async def follow(server, run, seen, over):
    """Follow a run over every restart, from the last event that was seen."""
    while not over.is_set():
        try:
            async with server.client() as client:
                last = {"last-event-id": str(len(seen))} if seen else {}
                url = f"/v1/runs/{run}/events?follow=true"
                async with client.stream("GET", url, headers=last) as answer:
                    async for number, name, data in events(answer):
                        if number is not None:
                            seen.append((int(number), name))
                        elif name == "end" and data["status"] == "completed":
                            return
        except (httpx2.HTTPError, OSError):
            await asyncio.sleep(0.05)


async def work(server, amount, acked, seen, over):
    """Start a run, approve it, retrying as a client does; follow it meanwhile."""
    key = {"idempotency-key": f"start-{amount}"}
    body = {"agent": "teller", "input": str(amount)}
    run = (await insist(server, "POST", "/v1/runs", key, body, over))["run_id"]
    seen[amount] = (run, [])
    follower = asyncio.create_task(follow(server, run, seen[amount][1], over))
    while not over.is_set():
        found = await insist(server, "GET", f"/v1/runs/{run}", {}, None, over)
        if found.get("type") == "suspended" and found["calls"][0]["kind"] == "in_doubt":
            # A person looks into the ledger, as one would.
            happened = amount in server.paid
            said = {"action": "answer", "value": "paid"} if happened else {"action": "approve"}
            said |= {"seen": found["seen"], "mode": "async"}
            await insist(server, "POST", f"/v1/resume/{found['request_id']}", {}, said, over)
        elif found.get("type") == "suspended":
            said = {"action": "approve", "seen": found["seen"], "mode": "async"}
            url = f"/v1/resume/{found['request_id']}"
            key = {"idempotency-key": f"decide-{found['request_id']}"}
            answer = await insist(server, "POST", url, key, said, over)
            if "run_id" in answer:
                acked.add(amount)
        elif found.get("status") == "completed":
            break
        else:
            await asyncio.sleep(0.02)
    await asyncio.wait_for(follower, PATIENCE_S)


async def insist(server, method, url, headers, body, over):
    while not over.is_set():
        try:
            async with server.client() as client:
                answer = await client.request(method, url, headers=headers, json=body)
            if answer.status_code < 500:
                return answer.json()
        except (httpx2.HTTPError, OSError):
            pass
        await asyncio.sleep(0.05)
    return {}


@pytest.mark.parametrize("runs", [24, pytest.param(1000, marks=pytest.mark.soak)])
async def test_a_server_killed_at_any_moment_loses_nothing(server, runs):
    """Runs are started, followed and decided by clients that retry, while the server is killed."""
    acked: set[int] = set()
    seen: dict[int, tuple[str, list[tuple[int, str]]]] = {}
    over = asyncio.Event()
    room = asyncio.Semaphore(16)

    async def one(amount):
        async with room:
            await work(server, amount, acked, seen, over)

    async def kill():
        chance = random.Random(7)
        for _ in range(max(runs // 10, 4)):
            await asyncio.sleep(chance.uniform(0.3, 1.2))
            server.stop(signal.SIGKILL)
            await asyncio.to_thread(server.start)

    async with asyncio.timeout(PATIENCE_S * (1 + runs / 20)):
        await asyncio.gather(kill(), *[one(amount) for amount in range(1, runs + 1)])

    assert sorted(server.paid) == list(range(1, runs + 1)), "every payment is made once"
    async with server.client() as client:
        for run, story in seen.values():
            whole = await read(client, f"/v1/runs/{run}/events?follow=true")
            assert story == [(int(number), name) for number, name, _ in whole if number]
            assert "run.completed" in [name for _, name in story]
    assert acked <= set(seen)
