"""A process of its own for tests that kill, stop or terminate one.

    python child.py '{"db": ..., "world": ..., "do": "serve", ...}'

It says on standard output what it has come to, one word a line, and the test waits for that.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.kit import World

from sayso import Agent, Bounds, Context, Happened, NotHappened, Sayso, approve, reject, tool
from sayso.errors import AlreadyDecided, SaysoError
from sayso.store.sqlite import SqliteStore
from sayso.testing import ScriptedModel, call, say


def tell(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def teller(world: World, spec: dict[str, Any]) -> Agent:
    """An agent with one payment, which says where it is and stays there if it is told to."""
    kind = spec.get("kind", "once")
    stay = spec.get("stay", "")

    async def rest(where: str) -> None:
        tell(where)
        if where == stay and spec.get("busy"):
            # A process that does not even serve its loop, as one that swaps or is stopped.
            while True:
                time.sleep(0.01)
        while where == stay and not (world.root / "go").exists():
            await asyncio.sleep(0.01)

    async def probe(ctx: Context) -> Happened | NotHappened:
        return Happened(result="probed") if world.effects(ctx.key) else NotHappened()

    @tool(
        approval=spec.get("approval", True),
        effect="once" if kind == "probe" else kind,
        probe=probe if kind == "probe" else None,
        timeout=spec.get("timeout", "30s"),
    )
    async def pay(ctx: Context) -> str:
        await rest("before")
        if kind != "keyed" or not world.effects(ctx.key):
            world.act(ctx, {})
        await rest("after")
        return f"paid by {spec.get('name', 'child')}"

    async def script(messages: Any) -> Any:
        await rest("model" if len(messages) == 1 else "second")
        return call("pay") if len(messages) == 1 else say("done")

    return Agent("teller", model=ScriptedModel(script), tools=[pay])


async def serve(world: World, spec: dict[str, Any]) -> None:
    """Work until told to stop."""
    app = Sayso(
        await open_store(spec),
        agents=[teller(world, spec)],
        bounds=bounds(spec),
        drain_s=spec.get("drain_s", 20.0),
    )
    working = asyncio.create_task(app.serve())
    while not working.done():
        if app._parts is not None:
            tell("ready")
            break
        await asyncio.sleep(0.005)
    await working
    tell("over")


async def decide(world: World, spec: dict[str, Any]) -> None:
    """Click many times at once, as soon as everybody is there."""
    async with Sayso(await open_store(spec), work=False) as app:
        hold = await app.hold(spec["hold"])
        tell("ready")
        while not (world.root / "go").exists():
            await asyncio.sleep(0)

        async def click(n: int) -> dict[str, Any]:
            verdict = approve() if (n + spec["n"]) % 2 else reject(f"{spec['n']}.{n}")
            key = None if spec["key"] is None else spec["key"]
            if key is not None:
                verdict = approve()
            try:
                found = await app.decide(hold, verdict, by="mira", key=key, note="click")
            except AlreadyDecided as late:
                decision = late.decision
                word = "told"
            except SaysoError as error:
                return {"answer": type(error).__name__}
            else:
                assert found.decision is not None
                decision = found.decision
                word = "stands"
            return {
                "answer": word,
                "said": decision.word,
                "by": str(decision.by),
                "at": decision.at,
                "reason": getattr(decision.verdict, "reason", ""),
            }

        answers = await asyncio.gather(*(click(n) for n in range(spec["clicks"])))
    tell(json.dumps(answers))


def bounds(spec: dict[str, Any]) -> Bounds:
    return Bounds(look_s=0.05, **spec.get("bounds", {}))


async def open_store(spec: dict[str, Any]) -> SqliteStore:
    return await SqliteStore.open(spec["db"], **spec.get("store", {}))


async def main() -> None:
    spec = json.loads(sys.argv[1])
    await globals()[spec["do"]](World(Path(spec["world"])), spec)


if __name__ == "__main__":
    asyncio.run(main())
