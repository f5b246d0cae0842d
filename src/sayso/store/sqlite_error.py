"""What SQLite says when it cannot, in our own words."""

from __future__ import annotations

import errno

import apsw

from sayso.errors import (
    NotOurStore,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
)
from sayso.store.transfer import MOVED

_RESTART = "restart the process; what was acknowledged is safe"

FATAL = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.MisuseError)
"""After one of these nothing that this process still has in memory can be trusted."""


def not_kept(error: Exception, text: str) -> StoreError:
    """Say that a write cannot be kept, and why: the file is shut, or it is the write."""
    said = str(error)
    return StoreMoved(said) if MOVED in said else StoreError(f"{text}: {error}")


def translate(error: apsw.Error, name: str) -> StoreError:
    """Say what went wrong with a store while it was used or opened."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another process kept {name!r} locked; nothing was written")
        case apsw.FullError():
            return StoreFull(f"the disk of {name!r} is full; nothing was written")
        case apsw.ReadOnlyError():
            return StoreReadOnly(f"{name!r} cannot be written to: {error}")
        case apsw.NotADBError():
            return NotOurStore(f"{name!r} is not a database")
        case apsw.CorruptError() | apsw.FormatError():
            return StoreDamaged(f"{name!r} is damaged: {error}")
        case _:
            return StoreError(f"{name!r} could not be used: {error}")


def stopped(error: apsw.Error, name: str) -> StoreError:
    """Say why a store that was fine refuses everything from now on."""
    match error:
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError():
            return StoreDamaged(f"{name!r} is damaged: {error}; {_RESTART}")
        case _:
            return StoreClosed(f"{name!r} stopped after a fault: {error}; {_RESTART}")


def from_os(error: OSError, name: str) -> StoreError:
    """Say why a file could not be made."""
    match error.errno:
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return StoreReadOnly(f"{name!r} cannot be written to: {error.strerror}")
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(f"{name!r} cannot be made: {error.strerror}")
        case errno.ENOENT:
            return StoreError(f"{name!r} cannot be made: its directory is not there; make it first")
        case errno.EISDIR:
            return StoreError(
                f"{name!r} is a directory: name a file, such as {name + '/sayso.db'!r}"
            )
        case _:
            return StoreError(f"{name!r} cannot be made: {error.strerror}")
