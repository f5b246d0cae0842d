"""A server in a process of its own, `python -m tests.server.process STORE LEDGER PORT PAUSE`, and
how tests start, kill and speak to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

from sayso import Agent, Sayso, ask_user, tool
from sayso.domain.message import ToolMessage
from sayso.domain.value import Principal
from sayso.testing import ScriptedModel, call, say

ROOT = Path(__file__).parents[2]


def app_on(store: str, ledger: str, pause_s: float) -> Sayso:
    """Make an app that writes what it pays to a file outside, with a pause before and after."""

    @tool(approval=True, effect="once")
    def pay(amount: int) -> str:
        time.sleep(pause_s)
        with Path(ledger).open("a") as file:
            file.write(f"{amount}\n")
            file.flush()
            os.fsync(file.fileno())
        time.sleep(pause_s)
        return f"paid {amount}"

    def turns(messages: Any) -> Any:
        """Pay what the first message says; with `ask` before it, ask first."""
        ask, _, amount = messages[0].text.rpartition(" ")
        todo = [call("ask_user", {"question": "Really?"})] if ask else []
        todo.append(call("pay", {"amount": int(amount)}))
        done = sum(isinstance(message, ToolMessage) for message in messages)
        return todo[done] if done < len(todo) else say("Done.")

    agent = Agent("teller", model=ScriptedModel(turns), tools=[pay, ask_user()])
    return Sayso(store, agents=[agent])


class Server:
    """A server that can be killed and started again on the same port."""

    def __init__(self, store: Path | str, ledger: Path, pause_s: float = 0.0) -> None:
        self.store, self.ledger, self.pause_s = str(store), ledger, pause_s
        self.port = 0
        self.token = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        told = [self.store, str(self.ledger), str(self.port), str(self.pause_s)]
        command = [sys.executable, "-m", __name__, *told]
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server ended: {self.process.wait()}"
        told = json.loads(line)
        self.port, self.token = told["port"], told["token"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> httpx2.AsyncClient:
        """Give a client that bears the token."""
        return httpx2.AsyncClient(
            base_url=self.url,
            headers={"authorization": f"Bearer {self.token}"},
            trust_env=False,
            timeout=60,
            **options,
        )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it; give its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(how)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    @property
    def paid(self) -> list[int]:
        return (
            [int(line) for line in self.ledger.read_text().split()] if self.ledger.exists() else []
        )


def main(store: str, ledger: str, port: str, pause_s: str) -> None:
    import asyncio

    from sayso.server.app import create_app
    from sayso.server.serve import bind, serve
    from sayso.server.token import Tokens

    sayso = app_on(store, ledger, float(pause_s))

    async def make() -> str:
        async with Sayso(store, work=False) as looking:
            tokens = Tokens(looking.store)
            _, text = await tokens.create(name="t", by=Principal(id="mira"), project="default")
            return text

    token = asyncio.run(make())
    sock = bind("127.0.0.1", int(port))
    print(json.dumps({"port": sock.getsockname()[1], "token": token}), flush=True)
    serve(create_app(sayso), sock)


if __name__ == "__main__":
    main(*sys.argv[1:])
