"""The service over HTTP, against a bare FastAPI handler that makes one commit to SQLite: requests a
second, how soon a decision reaches its tool, and what a thousand readers of one run cost.

Both are real servers, each a process of its own behind uvicorn; the client speaks HTTP over
loopback with as little work as can be, because a client that is busy would make both look alike.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import apsw

from bench import teller
from bench.measure import Series, quantile, rounds, rss_bytes
from bench.report import Report, number
from bench.size import Size
from sayso import Agent, Context, Sayso, tool
from sayso.testing import ScriptedModel

AT_ONCE = 16
FLOOR = "a bare handler"
PATIENCE_S = 120


class Wire:
    """One connection to a server, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; give the status and the body of its answer."""
        status, head = await self.begin(request)
        length = next(
            int(line.partition(b":")[2]) for line in head if line.startswith(b"content-length:")
        )
        return status, await self._reader.readexactly(length)

    async def begin(self, request: bytes) -> tuple[int, list[bytes]]:
        """Send a request; give the status and the lines of the head of its answer."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        return int(head[0].split()[1]), head

    async def until(self, text: bytes) -> None:
        """Read a stream until it has said this."""
        said = b""
        while text not in said:
            more = await self._reader.read(1 << 16)
            assert more, f"the stream ended before {text!r}"
            said = said[-len(text) :] + more

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Other:
    """A server in another process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, token: str) -> None:
        self._process = process
        self._token = token
        self.port = port

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {self._token}\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data

    @asynccontextmanager
    async def wires(self, count: int) -> AsyncGenerator[list[Wire]]:
        """Open so many connections. Not for longer than needed: a server ends those that idle."""
        opened: list[Wire] = []
        async with AsyncExitStack() as stack:
            for _ in range(count):
                wire = await Wire.open(self.port)
                stack.push_async_callback(wire.close)
                opened.append(wire)
            yield opened

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask once, and read the answer."""
        (answer,) = await self.many([self.request(method, path, body)], at_once=1)
        return json.loads(answer)

    async def many(self, requests: Sequence[bytes], at_once: int = AT_ONCE) -> list[bytes]:
        """Send requests, so many at a time; give their answers, in whichever order they came."""
        left, found = iter(requests), list[bytes]()

        async def hand(wire: Wire) -> None:
            for request in left:
                status, answer = await wire.ask(request)
                assert status < 300, answer
                found.append(answer)

        async with self.wires(at_once) as wires, asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*[hand(wire) for wire in wires])
        return found

    async def heard(self) -> float:
        """Wait for the next time that it says."""
        assert self._process.stdout is not None
        return float(await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S))

    def rss_bytes(self) -> int:
        return rss_bytes(self._process.pid)


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head(f"Over HTTP, {AT_ONCE} requests at a time")
    async with AsyncExitStack() as stack:
        service, floor = [
            await stack.enter_async_context(_other(kind, folder)) for kind in ("service", "floor")
        ]
        await _requests(report, service, floor, size)
        await _wake(report, service, floor, size)
        await _readers(report, service, floor, size)


async def _requests(report: Report, service: Other, floor: Other, size: Size) -> None:
    count = (size.rounds + 1) * size.http_cycles
    started = await service.many([_start(service)] * count)
    holds = [await _held(service, json.loads(one)["run_id"]) for one in started]
    decisions = iter([_decide(service, hold) for hold in holds])

    def each(other: Other, make: Callable[[], bytes]) -> Callable[[int], Awaitable[None]]:
        async def work(cycles: int) -> None:
            await other.many([make() for _ in range(cycles)])

        return work

    listing = service.request("GET", "/v1/holds?limit=50")
    found = await rounds(
        {
            "floor": each(floor, lambda: floor.request("POST", "/commit")),
            "list": each(service, lambda: listing),
            "decide": each(service, lambda: next(decisions)),
            "start": each(service, lambda: _start(service)),
        },
        times=size.rounds,
        cycles=size.http_cycles,
    )
    report.plain(f"HTTP: {FLOOR}", _rate(found["floor"]))
    for name, means in {
        "start": "HTTP: start a run",
        "list": "HTTP: list 50 holds",
        "decide": "HTTP: decide",
    }.items():
        report.ratio(means, _rate(found[name]), found[name].to(found["floor"]), FLOOR)


async def _wake(report: Report, service: Other, floor: Other, size: Size) -> None:
    """Decide over HTTP; see how long it takes until the first instruction of the tool runs."""
    woken: list[float] = []
    bare: list[float] = []
    for _ in range(size.wakes):
        hold = await _held(service, (await service.ask("POST", "/v1/runs", _RUN))["run_id"])
        before = time.monotonic()
        await floor.many([floor.request("POST", "/commit")], at_once=1)
        bare.append((time.monotonic() - before) * 1000)
        before = time.monotonic()
        answered = asyncio.ensure_future(service.many([_decide(service, hold)], at_once=1))
        while (began := await service.heard()) < before:
            pass  # Of those that were decided before.
        woken.append((began - before) * 1000)
        await answered
    base, found = quantile(bare, 0.5), quantile(woken, 0.5)
    report.ratio("HTTP: decision to tool, p50", f"{number(found)} ms", found / base, FLOOR)
    report.plain("HTTP: decision to tool, p99", f"{number(quantile(woken, 0.99))} ms")


async def _readers(report: Report, service: Other, floor: Other, size: Size) -> None:
    """Let many follow one run; see what each costs, and when the last one has heard the news."""
    report.head(f"Over HTTP, {size.readers:,} readers of one run")
    hold = await _held(service, (await service.ask("POST", "/v1/runs", _RUN))["run_id"])
    run = hold["run_id"]
    follow = service.request("GET", f"/v1/runs/{run}/events?follow=true")
    news = (_decide(service, hold), b"event: run.completed")
    kept, took = await _follow(service, follow, b"event: run.suspended", news, size.readers)
    wait = floor.request("GET", "/wait")
    news = (floor.request("POST", "/commit?tell=1"), b"data: news")
    bare_kept, bare_took = await _follow(floor, wait, b"data: first", news, size.readers)
    to = "a bare stream"
    report.ratio("HTTP: a reader: memory", f"{kept / 1024:.1f} KB", kept / max(bare_kept, 1), to)
    report.ratio("HTTP: news to all of them", f"{number(took)} ms", took / bare_took, to)


async def _follow(
    other: Other, follow: bytes, first: bytes, news: tuple[bytes, bytes], count: int
) -> tuple[float, float]:
    """Open streams, have something happen, and wait until all have it: memory of each, and ms."""
    before = other.rss_bytes()
    async with other.wires(count) as wires:
        for wire in wires:
            status, _ = await wire.begin(follow)
            assert status == 200
            await wire.until(first)
        kept = (other.rss_bytes() - before) / count
        request, last = news
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for wire in wires:
                group.create_task(wire.until(last))
            await other.many([request], at_once=1)
        return kept, (time.monotonic() - began) * 1000


_RUN = {"agent": "teller", "input": teller.PAY}


def _start(service: Other) -> bytes:
    return service.request("POST", "/v1/runs", _RUN)


def _decide(service: Other, hold: dict[str, Any]) -> bytes:
    body = {"action": "approve", "seen": hold["digest"]}
    return service.request("POST", f"/v1/holds/{hold['id']}/decision", body)


async def _held(service: Other, run: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE_S
    while (found := await service.ask("GET", f"/v1/runs/{run}"))["type"] != "suspended":
        assert time.monotonic() < end, "the run did not come to its hold"
        await asyncio.sleep(0.001)
    return found["calls"][0]


def _rate(series: Series) -> str:
    return f"{number(series.per_s)} /s"


@asynccontextmanager
async def _other(kind: str, folder: Path) -> AsyncGenerator[Other]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.http", kind, str(folder / f"{kind}.db")),
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdout is not None
    try:
        port, token = (await process.stdout.readline()).decode().split()
        yield Other(process, int(port), token)
    finally:
        process.terminate()
        await process.wait()


def _serve(app: Any, token: str) -> None:
    from sayso.server.serve import bind, serve

    sock = bind("127.0.0.1", 0)
    print(sock.getsockname()[1], token, flush=True)
    serve(app, sock)


def _service(path: str) -> None:
    """Serve an agent whose tool says when it began."""
    from sayso import Principal
    from sayso.server.app import create_app
    from sayso.server.door import LocalWay

    @tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
    async def process_payment(
        ctx: Context, amount: float, recipient: str, currency: str = "USD"
    ) -> dict:
        os.write(1, f"{time.monotonic()!r}\n".encode())
        del ctx, amount, recipient, currency
        return {"ok": True}

    agent = Agent("teller", model=ScriptedModel(teller.answer), tools=[process_payment])
    way = LocalWay(Principal(id=teller.BY), "default")
    _serve(create_app(Sayso(path, agents=[agent]), ways=[way]), way.text)


def _floor(path: str) -> None:
    """Serve a handler that makes one commit, and one that streams what it is told."""
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse

    conn = apsw.Connection(path)
    conn.pragma("journal_mode", "wal")
    conn.pragma("synchronous", "full")
    conn.execute("create table rows (id integer primary key, text text not null)")
    app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})
    app.state.closing = news = asyncio.Event()

    @app.post("/commit")
    async def commit(tell: int = 0) -> dict[str, int]:
        conn.execute("insert into rows (text) values (?)", (teller.TEXT,))
        if tell:
            news.set()
        return {"id": conn.last_insert_rowid()}

    @app.get("/wait")
    async def wait() -> StreamingResponse:
        async def frames() -> AsyncGenerator[bytes]:
            yield b"data: first\n\n"
            await news.wait()
            yield b"data: news\n\n"

        return StreamingResponse(frames(), media_type="text/event-stream")

    _serve(app, "none")


if __name__ == "__main__":
    {"service": _service, "floor": _floor}[sys.argv[1]](sys.argv[2])
