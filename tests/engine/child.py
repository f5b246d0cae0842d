"""A process of its own for tests that kill, stop or terminate one.

    python child.py '{"db": ..., "world": ..., "do": "serve", ...}'

It says on standard output what it has come to, one word a line, and the test waits for that.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import apsw
from engine.kit import Delegate, World, tags

from sayso import Agent, Bounds, Context, Happened, NotHappened, Sayso, approve, reject, tool
from sayso.errors import AlreadyDecided, SaysoError
from sayso.store.sqlite import SqliteStore
from sayso.testing import ScriptedModel, call, say


def tell(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def stop_here(db: str) -> None:
    """Stand still until somebody sends SIGCONT.

    Not while the writer thread holds SQLite's lock, though: nobody else could write until then, and
    what becomes of a run whose worker is silent would not be seen.
    """
    conn = apsw.Connection(db)
    conn.set_busy_timeout(10_000)
    conn.execute("begin immediate")
    conn.execute("rollback")
    os.kill(os.getpid(), signal.SIGSTOP)
    conn.close()


class StopsAfterStart(Delegate):
    """A store after whose answer to a start the process stands still, once."""

    stopped = False

    def append(self, *writes: Any) -> Any:
        answer = self.inner.append(*writes)
        if self.stopped or "call.started" not in tags(writes):
            return answer
        self.stopped = True
        return asyncio.ensure_future(self._then_stop(answer))

    async def _then_stop(self, answer: Any) -> Any:
        found = await answer
        tell("started")
        stop_here(self.inner.name)
        return found


def teller(world: World, spec: dict[str, Any]) -> Agent:
    """An agent with one payment, which says where it is and stays there if it is told to."""
    kind = spec.get("kind", "once")
    stay = spec.get("stay", "")

    async def rest(where: str) -> None:
        tell(where)
        if where == spec.get("stop"):
            stop_here(spec["db"])
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

    @tool(effect="once")
    async def issue() -> str:
        raise TimeoutError("the printer did not answer")

    commands = [issue] if spec.get("doubted") else []
    return Agent("teller", model=ScriptedModel(script), tools=[pay], commands=commands)


async def serve(world: World, spec: dict[str, Any]) -> None:
    """Work until told to stop."""
    store: Any = await open_store(spec)
    app = Sayso(
        StopsAfterStart(store) if spec.get("stop") == "started" else store,
        agents=[teller(world, spec)],
        bounds=bounds(spec),
        drain_s=spec.get("drain_s", 20.0),
        trust=spec.get("trust"),
    )
    working = asyncio.create_task(app.serve())
    while not working.done():
        if app._parts is not None:
            tell("ready")
            break
        await asyncio.sleep(0.005)
    await working
    await store.close()
    tell("over")


async def decide(world: World, spec: dict[str, Any]) -> None:
    """Click many times at once, as soon as everybody is there."""
    async with Sayso(spec["db"], work=False) as app:
        hold = await app.hold(spec["hold"])
        tell("ready")
        while not (world.root / "go").exists():
            await asyncio.sleep(0)

        async def click(n: int) -> dict[str, Any]:
            key = spec["key"]
            yes = key is not None or (n + spec["n"]) % 2
            verdict = approve() if yes else reject(f"{spec['n']}.{n}")
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


async def contest(world: World, spec: dict[str, Any]) -> None:
    """Take part in races that others take part in as well."""
    from engine import contest as races

    chance = random.Random(spec["seed"])
    options = {"agents": races.agents(world), "policy": races.policy(), "bounds": bounds(spec)}
    async with Sayso(spec["db"], work=spec["work"], **options) as app:
        tell("ready")
        while not (world.root / "go").exists():
            await asyncio.sleep(0)
        said = await races.take_part(app, spec["jobs"], chance)
        (world.root / f"said.{spec['n']}").write_text(json.dumps(said))
        tell("done")
        while not (world.root / "end").exists():
            await asyncio.sleep(0.01)


def bounds(spec: dict[str, Any]) -> Bounds:
    return Bounds(look_s=0.05, **spec.get("bounds", {}))


async def open_store(spec: dict[str, Any]) -> SqliteStore:
    return await SqliteStore.open(spec["db"], **spec.get("store", {}))


async def main() -> None:
    spec = json.loads(sys.argv[1])
    await globals()[spec["do"]](World(Path(spec["world"])), spec)


if __name__ == "__main__":
    asyncio.run(main())
