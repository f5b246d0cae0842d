"""Real npm clients: packages from a lock file, and pages that a Node process plays.

`SAYSO_NPM=none` leaves these tests out where there is no registry.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

from tests.engine.kit import World
from tests.npm import BIN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE_S = 30.0


class Browser:
    """A Node process with one release of the AI SDK, and any number of pages in it."""

    def __init__(self, packages: Path, package: str) -> None:
        driver = packages / f"driver-{os.getpid()}.mjs"
        # It finds its packages from where it is.
        shutil.copy(HERE / "driver.mjs", driver)
        self._driver = driver
        self._node = subprocess.Popen(
            [str(BIN / "node"), str(driver), package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=packages,
        )

    def do(self, what: str, page: str, **more: Any) -> dict[str, Any]:
        """Have a page do something; give what it shows afterwards."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps({"do": what, "page": page, **more}) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        assert line, "the browser is gone"
        shown = json.loads(line)
        assert shown.get("fault") is None, shown["fault"]
        return shown

    def close(self) -> None:
        self._node.terminate()
        self._node.wait(PATIENCE_S)
        for pipe in (self._node.stdin, self._node.stdout):
            if pipe is not None:
                pipe.close()
        self._driver.unlink(missing_ok=True)


class Server:
    """The server in a process of its own, on one port, over one file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.world = World(root / "world")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx2.Client(
            base_url=self.url, timeout=PATIENCE_S, headers={"authorization": "Bearer mira@default"}
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.chat_app", str(self.root), str(self.port)],
            env={**os.environ, "PYTHONPATH": path},
        )
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.http.get("/v1/chat/nobody/messages").raise_for_status()
            except httpx2.TransportError:
                assert self._process.poll() is None, "the server did not start"
                assert time.monotonic() < end, "the server did not answer"
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """End it without a word."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        self.http.close()

    def decide(self, hold: str, verdict: str, by: str = "mira", reason: str = "") -> None:
        """Decide somewhere else."""
        said = {"hold": hold, "verdict": verdict, "by": by, "reason": reason}
        self.http.post("/test/decide", json=said).raise_for_status()

    def messages(self, chat: str) -> dict[str, Any]:
        return self.http.get(f"/v1/chat/{chat}/messages").raise_for_status().json()

    def payments(self, to: str) -> list[float]:
        """List what somebody was paid, as it is written down outside."""
        lines = [json.loads(line) for line in self.world.read("payments")]
        return [line["amount"] for line in lines if line["to"] == to]


def calls(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """List the tool parts of the last message."""
    return [part for part in shown["messages"][-1]["parts"] if "toolCallId" in part]


def states(shown: dict[str, Any]) -> list[str]:
    return [part["state"] for part in calls(shown)]


def asked(shown: dict[str, Any]) -> list[str]:
    """List the ids of what the last message asks."""
    return [one["approval"]["id"] for one in calls(shown) if one["state"] == "approval-requested"]


def texts(shown: dict[str, Any]) -> list[str]:
    return [part["text"] for part in shown["messages"][-1]["parts"] if part["type"] == "text"]


def suspensions(shown: dict[str, Any]) -> list[dict[str, Any]]:
    parts = shown["messages"][-1]["parts"]
    return [part["data"] for part in parts if part["type"] == "data-suspension"]
