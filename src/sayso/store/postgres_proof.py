"""Proof that a worker of this machine is dead, whatever the database can tell.

A connection that is gone proves nothing: the network may have cut it, or the server may have been
started again, while the worker is in the middle of a call. What proves it is the lock on a file
that `lease.py` has, and it does so for workers of this machine, since its last start, alone.
Everybody else's death shows in a lease that has passed, and in no other way.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sayso.store.clock import Clock
from sayso.store.lease import Leases


class Proofs:
    """The locks of this machine's workers, in a directory that nobody else can write to."""

    def __init__(self, store_id: str, clock: Clock, root: str | None = None) -> None:
        self._clock = clock
        base = Path(tempfile.gettempdir()) / f"sayso-{os.getuid()}" if root is None else Path(root)
        self._leases = Leases(str(base / store_id)) if _is_ours(base) else None

    def hold(self, worker: str) -> bool:
        """Lock a worker's file, where that can be done; tell whether it is new."""
        if self._leases is None:
            return False
        try:
            return self._leases.hold(worker)
        except OSError:
            return False  # Without it there is still the lease.

    def is_dead(self, worker: str, boot: str) -> bool:
        """Tell whether a worker has certainly ended; `boot` is the start of its machine."""
        mine = self._clock.boot_id()
        if self._leases is None or not mine or boot != mine:
            return False
        try:
            return self._leases.is_dead(worker)
        except OSError:
            return False

    def release(self, worker: str) -> None:
        """Let a worker's lock go."""
        if self._leases is not None:
            self._leases.release(worker)

    def clear(self, worker: str) -> None:
        """Remove the file of a dead worker."""
        if self._leases is not None:
            self._leases.clear(worker)


def _is_ours(base: Path) -> bool:
    """Make the directory, and tell whether it is one that only this user can write to."""
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError:
        return False
    return (
        base.is_dir()
        and not base.is_symlink()
        and (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    )
