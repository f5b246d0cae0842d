"""Keys of a terminal, one at a time.

Rule: a key acts on what somebody has seen. What is typed before something is shown, and for a
moment after, is dropped, and so is all but the first of what comes at once: it was meant for
something else, or pasted.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager

from sayso.cli.asking import ask, readable

GRACE_S = 0.35
"""How long something must have been seen before keys count."""
_AT_ONCE = 4096


class Keyboard:
    """Reads keys, and lines in between."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._before = termios.tcgetattr(fd)

    async def settle(self) -> None:
        """Let somebody see what is shown; what they type meanwhile is dropped."""
        await asyncio.sleep(GRACE_S)
        self.drop()

    def drop(self) -> None:
        """Drop what was typed so far."""
        termios.tcflush(self._fd, termios.TCIFLUSH)

    async def key(self, within_s: float) -> str:
        """Give a key, in lower case; empty if none was pressed in time, or none that is a letter,
        a digit or a sign.
        """
        if not await readable(within_s):
            return ""
        read = os.read(self._fd, _AT_ONCE)
        if not read:
            raise EOFError
        first = read.decode("utf-8", "replace")[:1]
        return first.lower() if first.isprintable() else ""

    async def line(self, prompt: str) -> str:
        """Ask for a line, with the keys as they are elsewhere."""
        with self.usual():
            return await ask(prompt)

    @contextmanager
    def usual(self) -> Generator[None]:
        """Have the keys as they were before."""
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        try:
            yield
        finally:
            self.start()

    def start(self) -> None:
        """Have keys come one by one, and unseen."""
        tty.setcbreak(self._fd, termios.TCSADRAIN)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


@contextmanager
def keyboard() -> Generator[Keyboard]:
    """Read keys for a while, and leave the terminal as it was."""
    keys = Keyboard(sys.stdin.fileno())
    keys.start()
    try:
        yield keys
    finally:
        keys.stop()
