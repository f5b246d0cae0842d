"""A server that the command line speaks to, and its store, which it can open as well."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from sayso import Agent, OAuthProvider, Policy, Principal, Rule, Sayso, ask_user, role, tool
from sayso.domain.message import ToolMessage
from sayso.testing import ScriptedModel, call, say
from tests.cli.conftest import PATIENCE_S, environment

ROOT = Path(__file__).parents[2]
STAGE = "tests.cli.stage:app"
WAYS = ("local", "remote")


def turns(messages: Any) -> Any:
    """Do what the last thing said asks for."""
    if isinstance(messages[-1], ToolMessage):
        return say("Done.")
    word, _, rest = messages[-1].text.partition(" ")
    match word:
        case "pay":
            return call("pay", {"amount": float(rest or 200), "to": "Jiro \x1b[2J\u202e"})
        case "wipe":
            return call("wipe", {"path": "/"})
        case "hurry":
            return call("hurry", {})
        case "mail":
            return call("send_mail", {"text": "hello"})
        case "fund":
            return call("fund", {"id": 9007199254740993, "amount": 12400.0})
        case "ask":
            return call("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
        case _:
            return call("ask_user", {"question": "What is your name?"})


def app() -> Sayso:
    """Make the app that is served."""

    @tool(approval=True, effect="once", risk="high")
    def pay(amount: float, to: str) -> str:
        return f"paid {to}"

    @tool(approval=True, effect="once", risk="critical")
    def wipe(path: str) -> str:
        return "gone"

    @tool(approval=True, effect="once", within="1s")
    def hurry() -> str:
        return "hurried"

    @tool(sign_in="mail", effect="once")
    def send_mail(text: str) -> str:
        return "sent"

    @tool(effect="once")
    def fund(id: int, amount: float) -> str:
        return "funded"

    tools = [pay, wipe, hurry, send_mail, fund, ask_user()]
    agent = Agent("teller", model=ScriptedModel(turns), tools=tools)
    mail = OAuthProvider(
        "mail",
        authorize_url="https://login.example.com/authorize",
        token_url=os.environ.get("STAGE_TOKENS", "http://127.0.0.1:1/token"),
        client_id="sayso",
        redirect_url="http://localhost:1/back",
    )
    rule = Rule("fund", approvers=[role("finance")], quorum=2, within="1h")
    policy = Policy(rule)
    return Sayso(os.environ["STAGE_STORE"], agents=[agent], policy=policy, providers=[mail])


class Stage:
    """The store, the server on it, and how to run commands on either."""

    def __init__(self, store: Path, tokens: dict[str, str]) -> None:
        self.store, self.tokens = store, tokens
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the server; again, on the port that it had."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-c", "from sayso.cli import main; main()", "serve", STAGE]
        self._process = subprocess.Popen(
            [*command, "--port", port],
            cwd=ROOT,
            env=environment(**self.env("local")),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http"), self._process.wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(how)
        self._process.wait(60)
        self._process.stdout.close()

    def env(self, way: str, who: str = "mira", **more: str) -> dict[str, str]:
        """Say where the requests are, and who one is there."""
        path = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "STAGE_STORE": str(self.store)}
        if way == "local":
            return {**path, "SAYSO_STORE": str(self.store), "SAYSO_USER": who, **more}
        return {**path, "SAYSO_URL": self.url, "SAYSO_TOKEN": self.tokens[who], **more}

    def ask(self, text: str = "pay", who: str = "mira") -> str:
        """Start a run, and give the id of what it asks."""
        body = {"agent": "teller", "input": text, "mode": "wait"}
        return self.post("/v1/runs", body, who)["calls"][0]["id"]

    def post(self, path: str, body: Any, who: str = "mira") -> Any:
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        answer = httpx2.post(self.url + path, json=body, headers=headers, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()

    def cancel(self, run: str) -> None:
        """Cancel a run."""
        headers = {"authorization": f"Bearer {self.tokens['mira']}"}
        assert httpx2.delete(f"{self.url}/v1/runs/{run}", headers=headers, trust_env=False)

    def answer(self, id: str) -> Any:
        """Give what became of a question, as its agent was told."""
        from sayso.sync import Sayso as Looking

        with Looking(self.store, work=False) as app:
            decision = app.hold(id).decision
        return None if decision is None else decision.verdict.result()

    def hold(self, id: str, who: str = "mira") -> Any:
        """Look at a request."""
        headers = {"authorization": f"Bearer {self.tokens[who]}"}
        return httpx2.get(f"{self.url}/v1/holds/{id}", headers=headers, trust_env=False).json()


PEOPLE = {"mira": ["operator"], "ann": ["finance"], "bob": ["finance"], "eve": []}


async def _people(store: Path) -> dict[str, str]:
    from sayso.server.token import Tokens

    async with Sayso(store, work=False) as made:
        for name, roles in PEOPLE.items():
            await made.people.put(name, roles=roles)
        tokens = Tokens(made.store)
        return {
            name: (await tokens.create(name="t", by=Principal(id=name), project="default"))[1]
            for name in PEOPLE
        }


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


@contextmanager
def staged(where: Path) -> Iterator[Stage]:
    """Start a server on a store of its own."""
    store = where / "stage.db"
    tokens = asyncio.run(_people(store))
    stage = Stage(store, tokens)
    stage.start()
    try:
        yield stage
    finally:
        stage.stop()
