"""A new process that imports, opens, resumes one parked run and exits, against a bare one."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import teller
from bench.report import Report, number
from bench.size import Size
from sayso import Sayso

FLOOR = """
import asyncio, sys
import apsw
async def main():
    conn = apsw.Connection(sys.argv[1])
    conn.pragma("journal_mode", "wal")
    conn.pragma("synchronous", "full")
    conn.execute("create table if not exists t (x)")
    conn.execute("begin immediate; insert into t values (1); commit")
    conn.close()
asyncio.run(main())
"""
RESUME = """
import asyncio, sys
from sayso import Agent, Sayso, approve, tool
{extra}
class Model:
    name = "fake"
    async def answer(self, prompt, emit):
        from sayso.engine.ports import Answer
        return Answer(text="Paid.")
@tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
async def process_payment(amount: {kind}, recipient: str, currency: str = "USD") -> dict:
    return {{"ok": True}}
async def main():
    agent = Agent("teller", model=Model(), instructions="You pay.", tools=[process_payment])
    async with Sayso(sys.argv[1], agents=[agent]) as app:
        hold = await app.decide(sys.argv[2], approve(), by="mira")
        view = await app.run(hold.run_id).wait(final=True)
        assert view.output == "Paid.", view
    print("pydantic" in sys.modules)
asyncio.run(main())
"""
PLAIN = RESUME.format(extra="", kind="float")
RICH = RESUME.format(
    extra="from decimal import Decimal\nfrom pydantic import Field\nfrom typing import Annotated",
    kind="Annotated[Decimal, Field(gt=0)]",
)


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head("Cold start: import, open, resume one, exit")
    path = folder / "sayso.db"
    async with Sayso(path, agents=[teller.make_teller()]) as app:
        holds = [await teller.ask(app) for _ in range(2 * (size.cold + 1))]
    # Compiled modules are what an installed package has, whatever this environment says.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    took: dict[str, list[float]] = {"floor": [], "plain": [], "rich": []}
    says = {}
    for turn in range(size.cold + 1):
        found = {
            "floor": _start(env, FLOOR, str(folder / "floor.db")),
            "plain": _start(env, PLAIN, str(path), holds.pop()),
            "rich": _start(env, RICH, str(path), holds.pop()),
        }
        for name, (ms, said) in found.items():
            says[name] = said
            if turn:  # The first has to compile everything.
                took[name].append(ms)
    report.plain("floor: a process with one commit", _ms(took["floor"]))
    for name, title, most in (
        ("plain", "cold start", 1.6),
        ("rich", "cold start, a parameter needs pydantic", 2.2),
    ):
        ratio = statistics.median(
            ours / floor for ours, floor in zip(took[name], took["floor"], strict=True)
        )
        report.ratio(title, _ms(took[name]), ratio, "the bare process", most=most)
    if says["plain"] == "True":
        report.note("pydantic was imported although no parameter needs it")


def _start(env: dict[str, str], program: str, *args: str) -> tuple[float, str]:
    before = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    return (time.perf_counter() - before) * 1000, done.stdout.strip()


def _ms(values: list[float]) -> str:
    return f"{number(statistics.median(values))} ms"
