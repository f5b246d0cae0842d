"""Whether a store is the one that was last worked on, or a copy or an older state of it.

A backup knows nothing of what happened after it was made. Work that goes on from one could do again
what has been done since, and work on a copy what is being done beside it; so a store that was
restored or copied refuses to be written to until somebody has said so (`sayso restored`).

Rule 1: what is not certain is taken for restored. Reading is always allowed.
Rule 2: a store in which nothing ever happened has nothing to do again, and is taken as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from array import array

import msgspec

from sayso.errors import StoreRestored

REFUSED = (
    "{name!r} was restored or copied, and is read only until that is looked into: {fault}; stop "
    "whoever still works on the original, then run `sayso restored` on it"
)
_GET_VERSION = 0x80087601
"""FS_IOC_GETVERSION, of Linux."""
_SIZE = 64
"""How long the text in a mark's file is, always."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows of where it comes from."""

    fault: str
    """Why it is not taken for the one that was last worked on; empty if it is."""
    epoch: int
    """How often it was begun: 1, and one more for every time that it was restored or copied."""
    token: str
    """Another one each time that it was begun. A store that was moved into begins at 1 itself, so
    that its epoch is none that its journals have not seen.
    """


def restored(name: str, fault: str) -> StoreRestored:
    """Say that a store is not to be written to, why, and what to do."""
    return StoreRestored(REFUSED.format(name=name, fault=fault))


class MarkRead(msgspec.Struct, frozen=True, gc=False):
    """What the file of a mark says."""

    token: str
    place: str
    """Which file it is: another one that says the same is a copy."""
    position: int


class Mark:
    """How far a store has come, in a file of its own that no backup of the store brings back.

    It is written after each commit and before its answer, and not synced: it outlives the process
    with everything that anybody was told of, and after a power failure it may be behind. It is
    never ahead of the store, unless the store is not what it was.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._token = ""

    def make(self, position: int) -> MarkRead:
        """Begin anew, in a file with a number and a token that no other has."""
        self.close()
        token = os.urandom(16).hex()
        temporary = f"{self.path}.{token[:8]}"
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, _text(token, position), 0)
            os.fsync(fd)
            os.replace(temporary, self.path)
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        found = self.read()
        assert found is not None, "it was made a moment ago"
        return found

    def read(self) -> MarkRead | None:
        """Read it, and be ready to write; None if there is none. One that says nothing that could
        be understood is one that no store has.
        """
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        self._token, position = self._parse()
        return MarkRead(self._token, _place(self._fd), position)

    def _parse(self) -> tuple[str, int]:
        said = os.pread(self._fd, _SIZE, 0).decode("ascii", "replace").split()
        whole = len(said) == 3 and said[0] == "sayso" and said[2].isdecimal()  # noqa: PLR2004
        return (said[1], int(said[2])) if whole else ("", 0)

    def advance(self, position: int) -> None:
        """Note that the store has come to a position; one that is behind it changes nothing."""
        if self._fd < 0:
            return
        # A disk that does not take it is no reason to stop: the mark is then behind, as ever.
        with contextlib.suppress(OSError):
            if self._parse()[1] < position:
                os.pwrite(self._fd, _text(self._token, position), 0)

    def close(self) -> None:
        """Let the file go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _place(fd: int) -> str:
    """Name a file by its number and by the time or the turn in which it got that: numbers of files
    that are gone are given again, and to a restored file all the more.
    """
    found = os.fstat(fd)
    turn = array("L", [0])
    with contextlib.suppress(OSError):  # Not every file system counts.
        fcntl.ioctl(fd, _GET_VERSION, turn, True)
    return f"{found.st_ino}.{getattr(found, 'st_birthtime', 0) or turn[0]}"


def _text(token: str, position: int) -> bytes:
    return f"sayso {token} {position}".encode().ljust(_SIZE - 1) + b"\n"
