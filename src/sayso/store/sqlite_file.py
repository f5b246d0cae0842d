"""Open a SQLite file as a store, or say why it cannot be one.

Rule: a file that exists is never opened other than through SQLite. Closing a plain descriptor of it
would drop the locks that another connection of this process holds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import apsw

from sayso.errors import BadSetup, StoreDamaged, StoreError, StoreReadOnly
from sayso.store.migrate import is_current, migrate, released
from sayso.store.sqlite_error import from_os, translate

SQLITE_MIN = (3, 51, 3)
"""Before it, a WAL that several connections share could be corrupted."""
BUSY_SLEEP_S = 0.0007
"""SQLite's own waiting backs off to 100 ms, and starves whoever is polite."""
READ_BUSY_MS = 2000
_CACHE_KIB = 8000
_PAGE_BYTES = 4096
_WAL_BYTES_MAX = 64 << 20
NETWORK = frozenset(
    ("afs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs")
)

T = TypeVar("T")


def create(path: str) -> None:
    """Make an empty file that only its owner may read, unless there is a file already."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        if os.path.isdir(path):
            raise from_os(IsADirectoryError(errno.EISDIR, ""), path) from None
        _check_not_emptied(path)
    except OSError as error:
        raise from_os(error, path) from None


def sync_dir(path: str) -> None:
    """Make the names in a directory durable, deletions included."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # A file system that has nothing to sync there.
            raise
    finally:
        os.close(fd)


def open_writer(path: str, *, vfs: str | None, synchronous: str, busy_s: float) -> apsw.Connection:
    """Open for writing, create or bring up the schema, and check what durability rests on."""
    _check_host(path)
    is_whole = _is_whole(path)
    conn = _connect(path, apsw.SQLITE_OPEN_READWRITE, vfs)
    try:
        if conn.readonly("main"):
            raise StoreReadOnly(f"{path!r} cannot be written to")
        _prepare(conn, path, synchronous=synchronous, busy_s=busy_s)
        if not is_whole:
            raise StoreDamaged(f"{path!r} was cut off in the middle of a page")
    except BaseException:
        close(conn)
        raise
    return conn


def open_reader(path: str, *, vfs: str | None) -> apsw.Connection:
    """Open for reading only."""
    conn = _connect(path, apsw.SQLITE_OPEN_READONLY, vfs)
    try:
        conn.set_busy_timeout(READ_BUSY_MS)
        conn.pragma("cache_size", -_CACHE_KIB)
        conn.pragma("trusted_schema", 0)
        _plan_once(conn)
    except apsw.Error as error:
        close(conn)
        raise translate(error, path) from None
    return conn


def _plan_once(conn: apsw.Connection) -> None:
    """Have every statement planned once, rather than again for every value bound to it."""
    conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def close(conn: apsw.Connection) -> None:
    """Close a connection. If its log cannot be cleared away now, whoever opens it next does it."""
    with contextlib.suppress(apsw.Error):
        conn.close()


def patiently(what: Callable[[], T], busy_s: float) -> T:
    """Do something again and again while another process holds the lock."""
    until = time.monotonic() + busy_s
    while True:
        try:
            return what()
        except apsw.BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(BUSY_SLEEP_S)


def _connect(path: str, flags: int, vfs: str | None) -> apsw.Connection:
    try:
        return apsw.Connection(path, flags=flags, vfs=vfs)
    except apsw.Error as error:
        raise translate(error, path) from None


def _prepare(conn: apsw.Connection, path: str, *, synchronous: str, busy_s: float) -> None:
    steps = released()
    try:
        current = patiently(lambda: is_current(conn, path, steps), busy_s)
        if patiently(lambda: conn.pragma("journal_mode", "wal"), busy_s) != "wal":
            raise StoreError(f"{path!r} is where SQLite cannot keep a write-ahead log")
        conn.pragma("synchronous", synchronous)
        conn.pragma("fullfsync", 1)
        conn.pragma("foreign_keys", 1)
        conn.pragma("trusted_schema", 0)
        conn.pragma("cell_size_check", 1)
        conn.pragma("secure_delete", 1)  # What is redacted must not stay in free space.
        conn.pragma("cache_size", -_CACHE_KIB)
        conn.pragma("journal_size_limit", _WAL_BYTES_MAX)
        conn.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        _plan_once(conn)
        if not current:
            patiently(lambda: migrate(conn, path, steps), busy_s)
    except apsw.CantOpenError as error:
        # The file is there; what cannot be made beside it is its log.
        raise StoreReadOnly(f"nothing can be written beside {path!r}: {error}") from None
    except apsw.Error as error:
        raise translate(error, path) from None


def check_version(have: str) -> None:
    """Refuse a SQLite that is too old. `BadSetup` says so."""
    if tuple(int(part) for part in have.split(".")) < SQLITE_MIN:
        wanted = ".".join(map(str, SQLITE_MIN))
        raise BadSetup(f"SQLite {have} is too old: {wanted} or newer, please")


def file_system(mounts: Iterable[str], device: int) -> str:
    """Name the type of a device's file system, as Linux lists them; empty if it does not."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        if fields.split()[2] == wanted:
            return rest.split()[0]
    return ""


def kind_of(path: str) -> str:
    """Name the type of the file system that a file is on; empty if nobody can tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            mounts = file.readlines()
    except OSError:  # Not Linux.
        return ""
    return file_system(mounts, os.stat(path).st_dev)


def _check_host(path: str) -> None:
    check_version(apsw.sqlite_lib_version())
    if kind_of(path) in NETWORK:
        raise BadSetup(f"{path!r} is on a network file system, where SQLite's locks do not hold")


def _is_whole(path: str) -> bool:
    """Tell whether a file ends with a page. SQLite fills the rest of the last one with zeros.

    With a log beside it nothing is wrong: the power may have failed while it was copied.
    """
    return any(map(_size, (path + "-wal", path + "-journal"))) or _size(path) % _PAGE_BYTES == 0


def _check_not_emptied(path: str) -> None:
    """Refuse a file that was truncated to nothing: SQLite would throw its log away."""
    # The log first: when somebody else makes the file right now, its log is never there before it.
    if _size(path + "-wal") and not _size(path):
        raise StoreDamaged(f"{path!r} is empty, but there is a log beside it; restore a backup")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
