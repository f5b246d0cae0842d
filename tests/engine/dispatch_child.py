"""A process that works: `python dispatch_child.py ADDRESS DIRECTORY NAME HOW`.

HOW is `work`, or `die`: then it kills itself when a job has reached it, before it has claimed.
Lines go to one file, in the order in which they happen.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from sayso import Agent, Bounds, Sayso, tool
from sayso.store.postgres import PostgresStore
from sayso.store.queue import Taker
from sayso.testing import ScriptedModel, call, say


def note(world: Path, line: str) -> None:
    handle = os.open(world / "lines", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def most(world: Path) -> tuple[int, set[str]]:
    """Count how many looked at the same time at most, and who has looked at all."""
    going, found, who = 0, 0, set[str]()
    for line in (world / "lines").read_text().splitlines():
        sign, name = line.split()
        if sign in "+-":
            going += 1 if sign == "+" else -1
            found = max(found, going)
            who.add(name)
    return found, who


def clerk(world: Path, name: str) -> Agent:
    @tool(effect="none")
    async def look() -> str:
        note(world, f"+ {name}")
        # Not before there were as many as there may be, however busy the machine is.
        for _ in range(400):
            if most(world)[0] >= 4:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        note(world, f"- {name}")
        return "seen"

    script = ScriptedModel(lambda messages: call("look") if len(messages) == 1 else say("Done."))
    return Agent("clerk", model=script, tools=[look])


async def work(url: str, world: Path, name: str) -> None:
    # Room for more than the bound of two projects, and for one process less than that.
    bounds = Bounds(runs_max=3, project_runs_max=2)
    async with Sayso(url, agents=[clerk(world, name)], bounds=bounds):
        note(world, f"up {name}")
        await asyncio.sleep(600)


async def die(url: str) -> None:
    store = await PostgresStore.open(url)

    async def take() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    store.queue.serve(
        Taker(
            agents=["teller"],
            room=lambda: 1,
            take=take,
            hint=lambda: None,
        )
    )
    await asyncio.sleep(60)


if __name__ == "__main__":
    url, world, name, how = sys.argv[1:]
    asyncio.run(die(url) if how == "die" else work(url, Path(world), name))
