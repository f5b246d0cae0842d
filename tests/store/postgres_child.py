"""A worker in a process of its own: `python postgres_child.py ADDRESS DIRECTORY NAME`.

Every payment leaves a file of its key; one that was to be paid twice leaves a second line in it.
"""

import asyncio
import os
import sys
from pathlib import Path

from sayso import Agent, Context, Sayso, tool
from sayso.testing import ScriptedModel, call, say


def teller(world: Path, name: str) -> Agent:
    @tool(approval=True, effect="keyed")
    async def pay(ctx: Context) -> str:
        (world / f"{name}.busy").touch()
        await asyncio.sleep(0.05)
        with (world / f"{ctx.key}.paid").open("a") as file:
            file.write(f"{name}\n")
        return f"paid by {name}"

    return Agent(
        "teller",
        model=ScriptedModel(lambda messages: call("pay") if len(messages) == 1 else say("Done.")),
        tools=[pay],
    )


async def main(url: str, world: Path, name: str) -> None:
    app = Sayso(url, agents=[teller(world, name)], drain_s=5.0)
    (world / f"{name}.{os.getpid()}").touch()
    await app.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
