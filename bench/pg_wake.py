"""Several processes on one database: how soon a decision reaches the tool of a worker, against a
bare NOTIFY there and back; and what one, two and four workers get done.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg

from bench import teller
from bench.cycle import AT_ONCE
from bench.measure import at_once, quantile
from bench.pair import Woken, _asked, _idle_percent, _woken, until_input_ends
from bench.pg_cycle import opened
from bench.report import Report, number
from bench.server import Server, started
from bench.size import Size
from sayso import Agent, Context, Sayso, tool
from sayso.store.postgres import PostgresStore
from sayso.testing import ScriptedModel

PING, PONG = "bench_ping", "bench_pong"


async def measure(report: Report, folder: Path, size: Size) -> None:
    with started(folder) as server, report.about("PostgreSQL"):
        await _wake(report, server, size)
        await _workers(report, server, size)


async def _wake(report: Report, server: Server, size: Size) -> None:
    """Decide here; see how long it takes until the first instruction of the tool runs there."""
    report.head("PostgreSQL, two processes")
    schema = server.schema()
    async with (
        opened(server, schema) as store,
        Sayso(store, agents=[teller.make_teller()], work=False) as app,
        _other("work", server.url, schema, "tell") as worker,
        _other("echo", server.url) as _,
        await psycopg.AsyncConnection.connect(server.url, autocommit=True) as says,
        await psycopg.AsyncConnection.connect(server.url, autocommit=True) as hears,
    ):
        holds = [await _asked(app) for _ in range(size.wakes)]
        await asyncio.sleep(1.5)  # Until it has calmed down.
        idle = await _idle_percent(worker.pid, size.idle_s)
        report.plain("idle worker: CPU", f"{number(idle)} %")
        await hears.execute(f"listen {PONG}")
        woken: list[Woken] = []
        echoed: list[float] = []
        for hold in holds:
            echoed.append(await _there_and_back(says, hears))
            woken.append(await _woken(app, hold, worker))
    base = quantile(echoed, 0.5)
    report.plain("a bare NOTIFY there and back, p50", f"{number(base)} ms")
    report.plain("a bare NOTIFY there and back, p99", f"{number(quantile(echoed, 0.99))} ms")
    to = "a bare NOTIFY there and back"
    for since, took in (
        ("before the decision", [one.asked_ms for one in woken]),
        ("its acknowledgement", [one.acked_ms for one in woken]),
    ):
        found = quantile(took, 0.5)
        name = f"wake-up since {since}"
        report.ratio(f"{name}, p50", f"{number(found)} ms", found / base, to, most=3)
        report.plain(f"{name}, p99", f"{number(quantile(took, 0.99))} ms")


async def _there_and_back(says: psycopg.AsyncConnection, hears: psycopg.AsyncConnection) -> float:
    before = time.perf_counter()
    await says.execute(f"notify {PING}")
    async for _ in hears.notifies(stop_after=1):
        pass
    return (time.perf_counter() - before) * 1000


async def _workers(report: Report, server: Server, size: Size) -> None:
    report.head("PostgreSQL, with several workers")
    cycles = max(size.cycles_at_once // 2, AT_ONCE)
    found: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for _ in range(max(size.rounds // 4, 1)):
        for count, took in found.items():
            took.append(await _throughput(server, count, cycles))
    alone = quantile(found[1], 0.5)
    for count, took in found.items():
        rate = quantile(took, 0.5)
        name = f"workers: {count}"
        report.ratio(name, f"{number(rate)} cycles/s", rate / alone, "one worker")


async def _throughput(server: Server, workers: int, cycles: int) -> float:
    """Ask and decide here, 64 at once, and let others do the work; give the cycles a second."""
    schema = server.schema()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(server, schema))
        for _ in range(workers):
            await stack.enter_async_context(_other("work", server.url, schema, "quiet"))
        agents = [teller.make_teller()]
        app = await stack.enter_async_context(Sayso(store, agents=agents, work=False))
        await at_once(AT_ONCE, max(cycles // 4, 1), lambda: teller.cycle(app))
        before = time.perf_counter()
        await at_once(AT_ONCE, cycles, lambda: teller.cycle(app))
        return cycles / (time.perf_counter() - before)


@asynccontextmanager
async def _other(*args: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.pg_wake",
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert await other.stdout.readline() == b"ready\n"
        yield other
    finally:
        other.stdin.close()
        code = await other.wait()
    assert code == 0, f"the other process ended with {code}"


async def _work(url: str, schema: str, *, tell: bool) -> None:
    """Work until the input ends, and say when each tool begins."""

    @tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
    async def process_payment(
        ctx: Context, amount: float, recipient: str, currency: str = "USD"
    ) -> dict:
        if tell:
            os.write(1, f"{time.monotonic()!r}\n".encode())
        del ctx, amount, recipient, currency
        return {"ok": True}

    model = ScriptedModel(teller.answer)
    agent = Agent("teller", model=model, tools=[process_payment, teller.look_up])
    store = await PostgresStore.open(url, schema=schema)
    try:
        async with Sayso(store, agents=[agent]):
            print("ready", flush=True)
            await until_input_ends()
    finally:
        await store.close()


async def _echo(url: str) -> None:
    """Answer every call, until the input ends."""

    async def answer() -> None:
        async for _ in hears.notifies():
            await says.execute(f"notify {PONG}")

    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as hears,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as says,
    ):
        await hears.execute(f"listen {PING}")
        answering = asyncio.create_task(answer())
        print("ready", flush=True)
        await until_input_ends()
        answering.cancel()
        await asyncio.wait([answering])


if __name__ == "__main__":
    if sys.argv[1] == "work":
        asyncio.run(_work(sys.argv[2], sys.argv[3], tell=sys.argv[4] == "tell"))
    else:
        asyncio.run(_echo(sys.argv[2]))
