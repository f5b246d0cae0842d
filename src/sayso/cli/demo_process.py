"""The other processes of `sayso demo`: started, heard, killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sayso.errors import SaysoError


@contextmanager
def child(module: str, *args: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a module of ours in a process of its own, out of reach of the terminal's Ctrl-C."""
    command = [sys.executable, "-P", "-m", module, *args]
    with subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter.
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def agent_process(what: str, directory: Path) -> Any:
    """Run the agents in a process of their own."""
    return child("sayso.cli.demo_agent", what, str(directory))


def hear(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Hear the next thing that a process says, as a line of JSON."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SaysoError(f"the agent's process ended with code {process.wait()}, saying nothing")
    return json.loads(line)


def say(number: int, text: str) -> None:
    """Tell the next part of the story."""
    click.echo()
    click.secho(f"{number}. {text}", bold=True)
