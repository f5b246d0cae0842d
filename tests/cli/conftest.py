"""The command line as people use it: a process, or a process behind a pseudo-terminal."""

import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from sayso import Agent, approve, tool
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say

SAYSO = str(Path(sys.executable).with_name("sayso"))
PATIENCE_S = 60


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SAYSO_", "NO_COLOR"))}
    return {**kept, "TZ": "UTC", **more}


@pytest.fixture(autouse=True)
def as_wide_as_its_terminal(monkeypatch):
    """Have nothing but a terminal say how wide it is: test processes are told, by whoever starts
    them, how wide their own is.
    """
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)


@pytest.fixture
def run_cli():
    def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SAYSO, *map(str, args)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environment(**env),
            timeout=PATIENCE_S,
        )

    return run


@pytest.fixture
def terminal():
    children: list[pexpect.spawn] = []

    def spawn(*args: object, columns: int = 200, **env: str) -> pexpect.spawn:
        child = pexpect.spawn(
            SAYSO,
            [str(arg) for arg in args],
            env=environment(TERM="xterm", **env),
            encoding="utf-8",
            timeout=PATIENCE_S,
            dimensions=(50, columns),
        )
        children.append(child)
        return child

    yield spawn
    for child in children:
        child.close(force=True)


def finish(child: pexpect.spawn) -> tuple[str, int | None]:
    """Read to the end; give what was printed since the last match, and the exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return child.before, child.exitstatus


@pytest.fixture
def store(tmp_path) -> Path:
    """A store with two finished runs, and one that waits."""

    @tool(approval=True, effect="once")
    def pay(amount: float, recipient: str) -> str:
        return f"paid {recipient}"

    asked = {"amount": 200, "recipient": "Jiro \x1b[2J\u202e"}
    model = ScriptedModel([call("pay", asked), say("Paid.")])
    path = tmp_path / "pay.db"
    with Sayso(path, agents=[Agent("teller", model=model, tools=[pay])]) as app:
        for name in ("run_1", "run_2", "run_3"):
            run = app.start("teller", "Pay \x1b]0;owned\x07 him", by="mira", id=name)
            hold = run.wait(timeout=PATIENCE_S).holds[0]
            if name != "run_3":
                app.decide(hold, approve(), by="mira", note="as agreed\x9b31m")
                run.wait(final=True, timeout=PATIENCE_S)
    return path
