"""A server that is killed, again and again, under the load of clients who do not give up.

Method: runs come in batches. While one is under way the server is killed with SIGKILL, after so
many answers and events as chance says, and started again on the same port; then the next batch
comes as well. So it dies under load however slow the machine is. A client sends what was not
answered again, with the same key, and follows its run from the last event that it has. What was
acknowledged is noted, and the payments are lines in a file outside.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from typing import Any

import httpx2
import pytest

from .process import Server
from .test_streams import events, read

PATIENCE_S = 90.0
AT_ONCE = 32
WAIT_S = 0.1
HEARD_MAX = 120
"""How many answers and events come before a kill at most: fewer than any batch brings."""
GONE = (httpx2.HTTPError, OSError)
WAYS = ("approve", "reject", "ask", "alone")
"""What becomes of every fourth run: approved or rejected by its request, asked a question first, or
approved by its hold alone."""


class Client:
    """Someone who starts runs, follows them and decides, and notes what they were told."""

    def __init__(self, server: Server, http: httpx2.AsyncClient) -> None:
        self.server = server
        self.http = http
        self.left: set[int] = set()
        """Runs that have begun and are not over."""
        self.runs: dict[int, str] = {}
        self.seen: dict[int, list[tuple[int, str]]] = {}
        self.news: dict[int, asyncio.Event] = {}
        self.acked: dict[str, str] = {}
        """By hold, the verdict that was acknowledged."""
        self.up = asyncio.Event()
        self.up.set()
        self.heard = self.doubts = self.cuts = 0

    async def insist(self, method: str, url: str, key: str = "", **body: Any) -> Any:
        """Ask until there is an answer; a server that is not ready is none."""
        headers = {"idempotency-key": key} if key else {}
        while True:
            try:
                answer = await self.http.request(method, url, headers=headers, json=body or None)
            except GONE:
                self.cuts += 1
                await self.up.wait()
            else:
                if answer.status_code < 500:
                    self.heard += 1
                    return answer
            await asyncio.sleep(WAIT_S)

    async def go(self, n: int) -> None:
        """See one run through, from its start to its end."""
        self.left.add(n)
        text = f"ask {n}" if way_of(n) == "ask" else str(n)
        begun = await self.insist("POST", "/v1/runs", f"start-{n}", agent="teller", input=text)
        self.runs[n] = begun.json()["run_id"]
        self.seen[n], self.news[n] = [], asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow(n))
            group.create_task(self.decide(n))
        self.left.discard(n)

    async def follow(self, n: int) -> None:
        """Follow a run over every restart, from the last event that was seen."""
        seen, url = self.seen[n], f"/v1/runs/{self.runs[n]}/events?follow=true"
        while True:
            last = {"last-event-id": str(seen[-1][0])} if seen else {}
            try:
                async with self.http.stream("GET", url, headers=last) as answer:
                    async for number, name, data in events(answer):
                        if number is not None:
                            assert int(number) == len(seen) + 1, "every event, and none twice"
                            seen.append((int(number), name))
                            self.heard += 1
                            if name in ("run.suspended", "run.completed"):
                                self.news[n].set()
                        elif name == "end" and data["status"] == "completed":
                            return
            except (*GONE, json.JSONDecodeError, KeyError):
                self.cuts += 1  # In the middle of an event, it may be.
                self.news[n].set()  # It is looked at again, and must be as it was.
                await self.up.wait()
            await asyncio.sleep(WAIT_S)

    async def decide(self, n: int) -> None:
        """Say what is to be said whenever a run waits, until it is over."""
        while True:
            await self.news[n].wait()
            self.news[n].clear()
            found = (await self.insist("GET", f"/v1/runs/{self.runs[n]}")).json()
            if found.get("status") == "completed":
                return
            if found["type"] != "suspended":
                continue
            (hold,) = found["calls"]
            assert hold["id"] not in self.acked, "what was acknowledged is gone"
            said = self.say(n, hold["kind"])
            if way_of(n) == "alone":
                url, said = f"/v1/holds/{hold['id']}/decision", {**said, "seen": hold["digest"]}
            else:
                url = f"/v1/resume/{found['request_id']}"
                said |= {"seen": found["seen"], "mode": "async"}
            answer = await self.insist("POST", url, f"decide-{hold['id']}", **said)
            assert answer.status_code in (200, 202), answer.text
            self.acked[hold["id"]] = WORDS[said["action"]]

    def say(self, n: int, kind: str) -> dict[str, Any]:
        if kind == "question":
            return {"action": "answer", "value": "yes"}
        if kind == "in_doubt":
            # A person looks into the books, as one would; whoever was to pay is dead.
            self.doubts += 1
            paid = n in self.server.paid
            return {"action": "answer", "value": "paid"} if paid else {"action": "approve"}
        return {"action": "reject" if way_of(n) == "reject" else "approve"}


WORDS = {"approve": "approved", "reject": "rejected", "answer": "answered"}


def way_of(n: int) -> str:
    return WAYS[n % len(WAYS)]


async def load(client: Client, runs: int, kills: int) -> list[int]:
    """Let the runs come while the server is killed so often; say how many were under way then."""
    chance, room, under_way = random.Random(runs), asyncio.Semaphore(AT_ONCE), list[int]()

    async def go(n: int) -> None:
        async with room:
            await client.go(n)

    async with asyncio.TaskGroup() as group:
        for kill in range(kills):
            for n in range(1 + runs * kill // kills, 1 + runs * (kill + 1) // kills):
                group.create_task(go(n))
            enough = client.heard + chance.randint(1, HEARD_MAX)
            while client.heard < enough:
                await asyncio.sleep(0.005)  # No longer than the test may take.
            under_way.append(len(client.left))
            client.up.clear()
            client.server.stop(signal.SIGKILL)
            await asyncio.to_thread(client.server.start)
            client.up.set()
    return under_way


@pytest.fixture
def server(tmp_path):
    found = Server(tmp_path / "sayso.db", tmp_path / "ledger", pause_s=0.1)
    found.start()
    yield found
    found.stop(signal.SIGKILL)


@pytest.mark.parametrize("runs, kills", [(60, 4), pytest.param(1000, 60, marks=pytest.mark.soak)])
async def test_a_server_killed_at_any_moment_loses_nothing(server, runs, kills):
    before = time.monotonic()
    limits = httpx2.Limits(max_connections=None)
    async with server.client(limits=limits) as http, asyncio.timeout(PATIENCE_S * (1 + runs / 60)):
        client = Client(server, http)
        under_way = await load(client, runs, kills)

        assert min(under_way) > 0, "every kill was under load"
        wanted = [n for n in range(1, runs + 1) if way_of(n) != "reject"]
        assert sorted(server.paid) == wanted, "what was approved is paid once, and nothing else"
        for hold, word in client.acked.items():
            stands = (await client.insist("GET", f"/v1/holds/{hold}")).json()
            assert (stands["status"], stands["decision"]["verdict"]) == ("settled", word)
            assert stands["decision"]["by"]["id"] == "mira"
        for n, run in client.runs.items():
            whole = await read(http, f"/v1/runs/{run}/events?follow=true")
            assert client.seen[n] == [(int(number), name) for number, name, _ in whole if number]
            assert client.seen[n][-1][1] == "run.completed"
    print(
        f"{runs} runs, {kills} kills with {min(under_way)} to {max(under_way)} runs under way, "
        f"{len(client.acked)} decisions, {client.doubts} doubts settled, {client.cuts} cut off, "
        f"{time.monotonic() - before:.0f} s"
    )
