"""Asking whoever sits at the terminal. Ctrl-C ends it at once; the end of the input is a no.

Blocking reads would not do: while one is under way, asyncio only notes an interrupt.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import click

from sayso.domain.digest import decode_value
from sayso.errors import BadSetup, BadValue

LINE_MAX = 10_000


def is_terminal() -> bool:
    """Tell whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def ask(prompt: str, *, fresh: bool = False) -> str:
    """Ask for a line. What was typed before is dropped if it is to be `fresh`: it was meant for
    something else.
    """
    if fresh and sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    click.echo(prompt, nl=False, err=True)
    sys.stderr.flush()
    await readable()
    line = sys.stdin.readline(LINE_MAX)
    if not line:
        raise click.Abort
    return line.strip()


async def confirm(prompt: str) -> bool:
    """Ask for a yes; everything else is a no."""
    return (await ask(f"{prompt} [y/N] ", fresh=True)).lower() in ("y", "yes")


async def readable(within_s: float | None = None) -> bool:
    """Wait until something was typed, or so long."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    fd = sys.stdin.fileno()
    loop.add_reader(fd, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), within_s)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
    return True


def edit(text: str, about: list[str]) -> bytes:
    """Have JSON edited in somebody's editor, and give what it is then. Lines with a `#` in front
    are ours.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    head = "".join(f"# {line}\n" for line in about)
    handle, name = tempfile.mkstemp(suffix=".json", prefix="sayso-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(head + _visible(text) + "\n")
        try:
            # No shell: what the file is called, or anything in it, cannot be a command.
            subprocess.run([*shlex.split(editor), name], check=True)  # noqa: S603
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise BadSetup(f"the editor {editor!r} did not work: {error}; set EDITOR") from None
        lines = Path(name).read_text(encoding="utf-8").split("\n")
    finally:
        Path(name).unlink(missing_ok=True)
    read = "\n".join(line for line in lines if not line.startswith("#")).encode()
    try:
        decode_value(read)
    except BadValue as error:
        raise BadValue(f"what was edited is not JSON as it is read here: {error}") from None
    return read


def _visible(text: str) -> str:
    """Write JSON with what cannot be seen as its number: an editor shows a line of its own for some
    of it, which may look like one of ours, or turns what follows around.
    """
    return "".join(
        [one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text]
    )
