"""A server of chats for tests: the real routes, before a door that believes what it is told.

`python -m tests.server.chat_app DIRECTORY PORT` serves one from a process of its own: the file in
that directory, an agent that pays, and payments written down outside of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from starlette.requests import HTTPConnection

from sayso import Agent, Context, Policy, Rule, Sayso, ask_user, spawn, tool
from sayso.domain.hold import approve, reject
from sayso.domain.message import AssistantMessage, Message, UserMessage
from sayso.domain.value import Principal
from sayso.engine.ports import Answer, Prompt
from sayso.errors import Unauthenticated
from sayso.server.app import create_app
from sayso.server.caller import Caller
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import QUICK, World


class OpenDoor:
    """Takes `person@project` for a credential, in a header or in the query."""

    async def identify(self, request: HTTPConnection) -> Caller:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        token = token or request.query_params.get("token", "")
        if not token:
            raise Unauthenticated
        person, _, rest = token.partition("@")
        project, _, scopes = rest.partition("/")
        via = "session" if "cookie" in request.headers else "token"
        given: Any = frozenset(scopes.split(",") if scopes else ["read", "start", "decide"])
        return Caller(by=Principal(id=person), project=project or "default", scopes=given, via=via)


def chat_app(app: Sayso) -> FastAPI:
    """Make the application, with another door."""
    made = create_app(app)
    made.state.door = OpenDoor()
    return made


@asynccontextmanager
async def served(app: Sayso) -> AsyncIterator[tuple[str, FastAPI]]:
    """Serve an app on a port of this machine, in this event loop; give its address."""
    made = chat_app(app)
    server = uvicorn.Server(
        uvicorn.Config(
            made,
            host="127.0.0.1",
            port=0,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    with contextlib.ExitStack():
        task = asyncio.ensure_future(server._serve())
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}", made
        finally:
            server.should_exit = True
            await task


def payer(world: World) -> Agent:
    """Make an agent that does what it is told: it pays, or looks up, whom it is asked to."""

    @tool(approval=True, effect="once", risk="high")
    async def pay(ctx: Context, amount: float, to: str) -> dict[str, Any]:
        """Pay somebody."""
        world.write("payments", json.dumps({"key": ctx.key, "amount": amount, "to": to}))
        return {"paid": amount, "to": to}

    @tool(effect="none")
    async def rate(ctx: Context, currency: str) -> dict[str, Any]:
        """Look up a rate."""
        return {"currency": currency, "rate": 1.5}

    return Agent("payer", model=Haltingly(world), tools=[pay, rate, ask_user()])


def boss() -> Agent:
    """Make an agent that has another one do what it is told."""

    def script(messages: tuple[Message, ...]) -> Any:
        if any(isinstance(one, AssistantMessage) for one in messages):
            return say("It is done.")
        asked = next(one for one in messages if isinstance(one, UserMessage))
        return call("spawn", {"agent": "payer", "input": asked.text})

    return Agent("boss", model=ScriptedModel(script), tools=[spawn("payer")])


class Haltingly(ScriptedModel):
    """Says what it has done; when asked to say it slowly, not all of it before a file is there."""

    def __init__(self, world: World) -> None:
        super().__init__(_script)
        self._world = world

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        words: list[str] = []
        said = await super().answer(prompt, words.append)
        asked = "".join(one.text for one in prompt.messages if isinstance(one, UserMessage))
        slowly = None if said.calls else re.search(r"pay \d+ (\w+) slowly", asked)
        for number, word in enumerate(words):
            # Text is a courtesy to whoever is there: the first word waits for somebody to be.
            sign = "go" if number else "say"
            while slowly and not self._world.read(f"{sign}-{slowly[1]}"):
                await asyncio.sleep(0.01)
            emit(word)
        return said


def _script(messages: tuple[Message, ...]) -> Any:
    """Make the calls that the last thing said names; then say what became of them."""
    asked = next(m for m in reversed(messages) if isinstance(m, UserMessage))
    since = messages[messages.index(asked) + 1 :]
    if any(isinstance(m, AssistantMessage) for m in since):
        last = [m for m in since if not isinstance(m, AssistantMessage)]
        return say("Done: " + ", ".join(type(m.outcome).__name__ for m in last) + ".")
    calls = [
        call(name, {"amount": float(amount), "to": to})
        for name, amount, to in re.findall(r"(pay) (\d+) (\w+)", asked.text)
    ]
    if "which" in asked.text:
        calls.append(call("ask_user", {"question": "Which?", "options": ["this", "that"]}))
    calls += [call("rate", {"currency": one}) for one in re.findall(r"rate (\w+)", asked.text)]
    return [say("Let me see. "), *calls] if calls else say(f"You said: {asked.text}")


POLICY = Policy(
    Rule("pay", when=lambda call: call.args["amount"] >= 5000, approvers=["role:finance"], quorum=2)
)


async def main(root: Path, port: int) -> None:
    world = World(root / "world")
    async with Sayso(
        root / "sayso.db", agents=[payer(world), boss()], policy=POLICY, bounds=QUICK, drain_s=1
    ) as app:
        for name in ("mira", "bob"):
            await app.people.put(name, roles=["finance"])
        made = chat_app(app)

        @made.post("/test/decide")
        async def decide(request: Request) -> dict[str, str]:
            said = await request.json()
            verdict = approve() if said["verdict"] == "approve" else reject(said["reason"])
            await app.decide(said["hold"], verdict, by=said["by"])
            return {}

        config = uvicorn.Config(
            made, host="127.0.0.1", port=port, log_level="warning", lifespan="off"
        )
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
