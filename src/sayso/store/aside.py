"""Saying something of a run to other processes in passing: text on its way into the journal.

It is a courtesy. Whatever is said may be lost, nothing of it is kept, nobody waits for it, and it
is said only while somebody else wants to hear it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Generator

TEXT_BYTES_MAX = 7000
"""What is longer is not said: a notice of PostgreSQL has 8,000 bytes at most."""

Hear = Callable[[str], None]
Close = Callable[[], None]


class NoAside:
    """For a store that no other process has."""

    def mention(self, run_id: str, text: str) -> None:
        """Tell nobody: there is nobody else."""

    def overhear(self, run_id: str, hear: Hear) -> Close:
        """Hear nothing."""
        del run_id, hear
        return _nothing


class FileAside:
    """Between processes of one machine that share a file: a socket for each who wants to hear, in a
    directory beside it. Its name says of which run, so that whoever speaks sees whether anybody
    listens, and sends nothing otherwise.
    """

    def __init__(self, directory: str) -> None:
        """Meet in this directory; empty: nowhere."""
        self._directory = directory
        self._own: dict[str, Close] = {}
        self._out: socket.socket | None = None

    def mention(self, run_id: str, text: str) -> None:
        """Send it to whoever listens and can take it at once."""
        try:
            there = os.listdir(self._directory)
        except OSError:
            return  # Nobody ever listened.
        wanted = _stem(run_id)
        others = [name for name in there if name.startswith(wanted) and name not in self._own]
        said = text.encode("utf-8", "surrogatepass")
        if not others or len(said) > TEXT_BYTES_MAX:
            return
        with contextlib.suppress(OSError), _entered(self._directory) as base:
            if self._out is None:
                self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._out.setblocking(False)
            for name in others:
                self._send(said, name, base)

    def _send(self, said: bytes, name: str, base: str) -> None:
        assert self._out is not None
        try:
            self._out.sendto(said, f"{base}/{name}")
        except ConnectionRefusedError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{base}/{name}")  # Its process is gone.
        except OSError:
            return  # It has more to hear than it can hold.

    def overhear(self, run_id: str, hear: Hear) -> Close:
        """Listen until closed. Where no socket can be, nothing is heard."""
        directory = self._directory
        if not directory:
            return _nothing
        loop = asyncio.get_running_loop()
        name = f"{_stem(run_id)}-{os.getpid()}-{os.urandom(4).hex()}"
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ear.setblocking(False)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, 0o700)
            with _entered(directory) as base:
                ear.bind(f"{base}/{name}")
        except OSError:
            ear.close()
            return _nothing

        def read() -> None:
            with contextlib.suppress(OSError):
                while said := ear.recv(TEXT_BYTES_MAX):
                    hear(said.decode("utf-8", "replace"))

        loop.add_reader(ear.fileno(), read)

        def close() -> None:
            if self._own.pop(name, None) is not None:
                loop.remove_reader(ear.fileno())
                ear.close()
                with contextlib.suppress(OSError):
                    os.unlink(f"{directory}/{name}")

        self._own[name] = close
        return close

    def close(self) -> None:
        """Say and hear nothing more."""
        self._directory = ""
        for close in list(self._own.values()):
            close()
        if self._out is not None:
            self._out.close()
            self._out = None


@contextlib.contextmanager
def _entered(directory: str) -> Generator[str]:
    """Give a short way to a directory: addresses of sockets are short."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = f"/proc/self/fd/{fd}"
        yield through if os.path.exists(through) else directory
    finally:
        os.close(fd)


def _stem(run_id: str) -> str:
    return hashlib.sha256(run_id.encode("utf-8", "replace")).hexdigest()[:24]


def _nothing() -> None:
    return
