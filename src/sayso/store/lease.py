"""Proof that a worker is dead: a lock on a file, which the system lets go when its process ends.

A lease that has passed says only that a worker was not heard of; it may be slow, or stopped, and
come back. A free lock says that it never will.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import weakref
from typing import Literal

from sayso.errors import StoreError
from sayso.store.clock import Clock

_TRIES_MAX = 5
_all: weakref.WeakSet[Leases] = weakref.WeakSet()


class Leases:
    """The locks of this process's workers, in a directory beside the store."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}
        _all.add(self)

    def hold(self, worker: str) -> bool:
        """Lock a worker's file; tell whether that was new. `StoreError` if another has it."""
        if worker in self._held:
            return False
        path = self._path(worker)
        if self._is_locked(path):
            raise StoreError(f"the worker {worker!r} lives in another process")
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._directory, 0o700)
        for _ in range(_TRIES_MAX):
            fd = self._make(path)
            if fd is not None:
                self._held[worker] = fd
                return True
        raise StoreError(f"the file of worker {worker!r} cannot be locked")

    def is_dead(self, worker: str) -> bool:
        """Tell whether a worker's process has certainly ended.

        A file that is missing proves nothing: the store may have been copied without it.
        """
        if worker in self._held:
            return False
        return self._is_locked(self._path(worker)) is False

    def proof(
        self, worker: str, boot: str | None, lease_until: int | None, clock: Clock
    ) -> Literal["dead", "lease"] | None:
        """Say what proves that a worker is gone: its death, or a lease that has passed; None if
        nothing does. `boot` is the start of its machine, None if the store does not know it.
        """
        if boot is None or lease_until is None:
            return "lease"
        if boot != clock.boot_id() or self.is_dead(worker):
            return "dead"
        return "lease" if lease_until <= clock.tick() else None

    def release(self, worker: str) -> None:
        """Let a worker's lock go, and its file with it."""
        fd = self._held.pop(worker, None)
        if fd is not None:
            _remove(self._path(worker))
            os.close(fd)

    def clear(self, worker: str) -> None:
        """Remove the file of a dead worker."""
        _remove(self._path(worker))

    def close(self) -> None:
        """Let go of everything."""
        for worker in list(self._held):
            os.close(self._held.pop(worker))

    def _path(self, worker: str) -> str:
        return f"{self._directory}/{hashlib.sha256(worker.encode()).hexdigest()[:32]}"

    def _make(self, path: str) -> int | None:
        """Lock the file under another name first: under its own name it is never seen unlocked."""
        temporary = f"{self._directory}/new-{os.urandom(8).hex()}"
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(temporary, path)
        except OSError:
            os.close(fd)
            _remove(temporary)
            return None
        return fd

    def _is_locked(self, path: str) -> bool | None:
        """Tell whether somebody holds the lock; None if there is no such file."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Unlinked since it was opened: its worker has retired, and that is no death.
            return None if os.fstat(fd).st_nlink == 0 else False
        except BlockingIOError:
            return True
        finally:
            os.close(fd)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def this_host() -> str:
    """Give the name of this machine, as text that any store can keep."""
    return os.uname().nodename.encode("utf-8", "replace").decode()


def _after_fork() -> None:
    """Close the child's copies of the locks: they would outlive the parent that they stand for."""
    for leases in list(_all):
        leases.close()


os.register_at_fork(after_in_child=_after_fork)
