"""Two processes on one PostgreSQL: from a decision to the first instruction of its tool, against a
bare NOTIFY there and back, one after the other in the same minute.

    python -m bench.wake_postgres postgresql://...
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager

import psycopg

from bench import teller
from bench.measure import quantile
from bench.pair import say_when, until_input_ends
from sayso import Sayso, approve

ROUNDS = 5


async def wakes(url: str, count: int) -> tuple[list[float], list[float]]:
    """Measure so many wake-ups and bare round trips, alternating; give both, in milliseconds."""
    woken: list[float] = []
    bare: list[float] = []
    async with (
        Sayso(url, agents=[teller.make_teller()], work=False) as app,
        _other("work", url) as worker,
        _other("echo", url),
    ):
        for _ in range(ROUNDS):
            woken += await _wake_up(app, worker, max(1, count // ROUNDS))
            bare += await _there_and_back(url, max(1, count // ROUNDS))
    return woken, bare


async def _wake_up(app: Sayso, worker: asyncio.subprocess.Process, count: int) -> list[float]:
    assert worker.stdout is not None
    took: list[float] = []
    for _ in range(count):
        run = await app.start("teller", teller.PAY, by=teller.BY)
        hold = (await run.wait()).holds[0]
        await asyncio.sleep(0.1)  # Until nothing is under way any more.
        before = time.monotonic()
        await app.decide(hold, approve(), by=teller.BY)
        took.append((float(await worker.stdout.readline()) - before) * 1000)
        await run.wait(final=True)
    return took


async def _there_and_back(url: str, count: int) -> list[float]:
    took: list[float] = []
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as ear,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as mouth,
    ):
        await ear.execute("listen bench_back")
        for _ in range(count):
            before = time.monotonic()
            await mouth.execute("select pg_notify('bench_there', '')")
            heard = [one async for one in ear.notifies(stop_after=1, timeout=10)]
            assert heard
            took.append((time.monotonic() - before) * 1000)
    return took


async def _echo(url: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as ear,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as mouth,
    ):
        await ear.execute("listen bench_there")
        print("ready", flush=True)

        async def answer() -> None:
            async for _notice in ear.notifies():
                await mouth.execute("select pg_notify('bench_back', '')")

        answering = asyncio.create_task(answer())
        await until_input_ends()
        answering.cancel()
        await asyncio.wait([answering])


async def _work(url: str) -> None:
    async with Sayso(url, agents=[say_when()]):
        print("ready", flush=True)
        await until_input_ends()


@asynccontextmanager
async def _other(*args: str):
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.wake_postgres",
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
        await other.wait()


async def _main(url: str) -> None:
    woken, bare = await wakes(url, 200)
    for name, took in (("decision to first instruction", woken), ("NOTIFY there and back", bare)):
        parts = [f"p{p} {quantile(took, p / 100):.2f} ms" for p in (10, 50, 99)]
        print(f"{name}: {', '.join(parts)}")
    print(f"ratio of p50: {quantile(woken, 0.5) / quantile(bare, 0.5):.2f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work", address]:
            asyncio.run(_work(address))
        case ["echo", address]:
            asyncio.run(_echo(address))
        case [address]:
            asyncio.run(_main(address))
