"""Two processes on one file: how soon one hears of the other, and whether both get their turn."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from bench import teller
from bench.measure import quantile, timed_ms
from bench.report import Report, number
from bench.size import Size
from sayso import Agent, Context, Sayso, approve, tool
from sayso.store.sqlite import SqliteStore
from sayso.testing import ScriptedModel

GREEDY = 64


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head("Two processes on one file")
    with_bell = await _wake(report, folder / "bell.db", size, bell=True)
    without = await _wake(report, folder / "no-bell.db", size, bell=False)
    report.below("wake-up with the bell, p50", quantile(with_bell, 0.5), "ms", 2)
    report.plain("wake-up with the bell, p99", f"{number(quantile(with_bell, 0.99))} ms")
    report.plain("wake-up without the bell, p50", f"{number(quantile(without, 0.5))} ms")
    report.below("wake-up without the bell, p99", quantile(without, 0.99), "ms", 60)
    await _share(report, folder / "shared.db", size)


async def _wake(report: Report, path: Path, size: Size, *, bell: bool) -> list[float]:
    """Decide here; give how long it took until the first instruction of the tool ran there."""
    store = await SqliteStore.open(path, bell=bell)
    try:
        async with (
            Sayso(store, agents=[teller.make_teller()], work=False) as app,
            _other("work", path, "bell" if bell else "no bell") as other,
        ):
            holds = [await _asked(app) for _ in range(size.wakes)]
            if bell:
                await asyncio.sleep(1.5)  # Until it has calmed down.
                idle = await _idle_percent(other.pid, size.idle_s)
                report.below("idle worker: CPU", idle, "%", 0.5)
            return [(await _woken(app, hold, other)).asked_ms for hold in holds]
    finally:
        await store.close()


async def _asked(app: Sayso) -> str:
    run = await app.start("teller", teller.PAY, by=teller.BY)
    return (await run.wait()).holds[0].id


class Woken(NamedTuple):
    """How long it took until the first instruction of the tool ran elsewhere."""

    asked_ms: float
    """Since before the decision was asked for."""
    acked_ms: float
    """Since it was acknowledged: it was committed some time before."""


async def _woken(app: Sayso, hold: str, other: asyncio.subprocess.Process) -> Woken:
    assert other.stdout is not None
    shown = await app.hold(hold)
    before = time.monotonic()
    await app.decide(shown, approve(), by=teller.BY)
    acked = time.monotonic()
    began = float(await other.stdout.readline())
    await app.run(teller.run_of(hold)).wait(final=True)
    await asyncio.sleep(0.003)
    return Woken((began - before) * 1000, (began - acked) * 1000)


async def _share(report: Report, path: Path, size: Size) -> None:
    async with _other("greedy", path) as other:
        async with Sayso(path, agents=[teller.make_teller()]) as app:
            await teller.cycle(app)
            took = [await timed_ms(lambda: teller.cycle(app)) for _ in range(size.polite_cycles)]
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"enough\n")
        said = (await other.stdout.readline()).decode().strip()
    report.plain("two processes: the greedy one", f"{said} cycles/s")
    report.plain("two processes: the polite one, p50", f"{number(quantile(took, 0.5))} ms")
    report.below("two processes: the polite one, p95", quantile(took, 0.95), "ms", 10)
    report.below("two processes: the polite one, most", max(took), "ms", 200)


@asynccontextmanager
async def _other(*args: object):
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.pair",
        *map(str, args),
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


async def _idle_percent(pid: int, for_s: float) -> float:
    before = _cpu_s(pid)
    await asyncio.sleep(for_s)
    return (_cpu_s(pid) - before) / for_s * 100


def _cpu_s(pid: int) -> float:
    try:
        with Path(f"/proc/{pid}/schedstat").open(encoding="ascii") as file:
            main = int(file.read().split()[0])
        tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
        others = sum(
            int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text(encoding="ascii").split()[0])
            for task in tasks
            if task != pid
        )
    except OSError:
        return 0
    return (main + others) / 1e9


def say_when() -> Agent:
    """Make the agent whose tool says when it begins."""

    @tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
    async def process_payment(
        ctx: Context, amount: float, recipient: str, currency: str = "USD"
    ) -> dict:
        os.write(1, f"{time.monotonic()!r}\n".encode())
        del ctx, amount, recipient, currency
        return {"ok": True}

    model = ScriptedModel(teller.answer)
    return Agent("teller", model=model, tools=[process_payment, teller.look_up])


async def _work(path: Path, *, bell: bool) -> None:
    """Work until the input ends, and say when each tool begins."""
    store = await SqliteStore.open(path, bell=bell)
    try:
        async with Sayso(store, agents=[say_when()]):
            print("ready", flush=True)
            await until_input_ends()
    finally:
        await store.close()


async def _greedy(path: Path) -> None:
    """Do cycles, 64 at once, until told that it is enough; say how many a second."""
    done, enough = 0, False

    async def hand() -> None:
        nonlocal done
        while not enough:
            await teller.cycle(app)
            done += 1

    async with Sayso(path, agents=[teller.make_teller()]) as app:
        await teller.cycle(app)
        print("ready", flush=True)
        before = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(GREEDY):
                group.create_task(hand())
            await until_input_ends()
            took_s = time.monotonic() - before
            counted = done
            enough = True
    print(f"{counted / took_s:,.0f}", flush=True)


async def until_input_ends() -> None:
    """Wait for a line on the input, or its end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.readline()
    pipe.close()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        asyncio.run(_work(Path(sys.argv[2]), bell=sys.argv[3] == "bell"))
    else:
        asyncio.run(_greedy(Path(sys.argv[2])))
