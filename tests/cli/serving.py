"""`sayso serve` in a process of its own, and what it has said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import PATIENCE_S, SAYSO, environment

OPENED = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"


class Served:
    """A server on a free port, whose person is Mira."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.opened = folder / "opened"
        """What it has opened in a browser, with `--open`."""
        browser = f"{sys.executable} -c '{OPENED}' {self.opened} %s"
        self.process = subprocess.Popen(
            [SAYSO, "serve", "--port", "0", "--user", "mira", *options],
            cwd=folder,
            env=environment(BROWSER=browser),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.token = self.process.stdout.readline().removeprefix("token: ").strip()
        self.link = self.process.stdout.readline().removeprefix("inbox: ").strip()

    def stop(self) -> int:
        """End it; give its exit code."""
        self.process.terminate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(PATIENCE_S)
