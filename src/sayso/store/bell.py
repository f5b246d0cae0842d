"""A bell between processes that share a file: whoever has committed rings it.

A datagram socket a process, in a directory beside the file. It is a hint and nothing more: a bell
that nobody hears costs a moment, because everybody also looks by themselves.
"""

from __future__ import annotations

import contextlib
import os
import socket

PATH_BYTES_MAX = 100
"""Addresses of sockets are short; Linux has a way around it, others may have to do without."""


class Bell:
    """This process's ear, and its hand on everybody else's bell."""

    def __init__(self, directory: str) -> None:
        """Hang it in this directory; empty: nowhere."""
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._socket: socket.socket | None = None
        self._dir = -1
        self._base = directory
        try:
            self._open(directory)
        except OSError:  # Without a bell there is still the clock.
            self.close()

    def _open(self, directory: str) -> None:
        if not directory:
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        self._dir = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        through_proc = f"/proc/self/fd/{self._dir}"
        if os.path.exists(through_proc):
            self._base = through_proc
        elif len(os.fsencode(directory)) > PATH_BYTES_MAX - len(self._name):
            raise OSError(f"{directory!r} is too long for a socket")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(f"{self._base}/{self._name}")

    def fileno(self) -> int:
        """Say what to poll for a ring; -1 if there is no bell."""
        return -1 if self._socket is None else self._socket.fileno()

    def drain(self) -> None:
        """Take all rings for one."""
        if self._socket is None:
            return
        try:
            while self._socket.recv(16):
                pass
        except OSError:
            return

    def ring(self) -> None:
        """Ring for all the others."""
        if self._socket is None:
            return
        try:
            names = os.listdir(self._dir)
        except OSError:
            return
        for name in names:
            if name != self._name:
                self._ring(name)

    def _ring(self, name: str) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(b"!", f"{self._base}/{name}")
        except ConnectionRefusedError:
            self._remove(name)  # Its process is gone.
        except OSError:
            return  # It has more rings to hear than it can hold.

    def close(self) -> None:
        """Take the bell down."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._remove(self._name)
        if self._dir >= 0:
            os.close(self._dir)
            self._dir = -1

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._dir)
        except OSError:
            return
