"""Looking a SQLite file over: its settings, its place on the disk, and its pages."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping

import apsw

from sayso.errors import BadSetup, StoreError
from sayso.store.checkup import Finding, Level
from sayso.store.migrate import APPLICATION_ID, is_current, released
from sayso.store.sqlite_error import translate
from sayso.store.sqlite_file import NETWORK, check_version, close, kind_of, open_reader

SPACE_LOW, SPACE_MIN = 1 << 30, 64 << 20
"""Bytes that should be free on the disk, and bytes without which appends may soon be refused."""
FAULTS_MAX = 20
_FULL = 2
"""What SQLite calls `synchronous=FULL`; above it is more."""
_MEMORY = frozenset(("tmpfs", "ramfs"))
_SHARED = frozenset(("9p", "drvfs", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"))
"""Where a host shares a directory with a guest; their locks often do not hold."""
_SUFFIXES = ("", "-wal", "-shm", ".keys")


def look_at_settings(settings: Mapping[str, object], version: str = "") -> list[Finding]:
    """Judge what the connection that writes says of itself."""
    mode, sync = settings["journal_mode"], settings["synchronous"]
    keys, schema = settings["foreign_keys"], settings["user_version"]
    since, known = settings.get("since", schema), len(released())
    synced = isinstance(sync, int) and sync >= _FULL
    return [
        look_at_version(version or apsw.sqlite_lib_version()),
        _found(
            "journal_mode",
            "the write-ahead log is on."
            if mode == "wal"
            else f"the journal mode is {mode!r}, not 'wal': readers and writers block each other.",
            well=mode == "wal",
        ),
        _found(
            "synchronous",
            "every commit is on the disk before it is acknowledged."
            if synced
            else f"synchronous is {sync}, below FULL: a power cut can lose decisions that were "
            "acknowledged. Open the store without `synchronous=`.",
            well=synced,
        ),
        _found(
            "foreign_keys",
            "references between tables are enforced."
            if keys == 1
            else "references between tables are not enforced: SQLite was built without them.",
            well=keys == 1,
        ),
        _found(
            "schema",
            f"the schema is version {schema}, the newest that this Sayso knows."
            if schema == known
            else f"the schema is version {schema}, this Sayso knows {known}: upgrade it.",
            well=isinstance(schema, int) and isinstance(since, int) and since <= known <= schema,
        ),
    ]


def look_at_version(have: str) -> Finding:
    """Judge a version of SQLite."""
    try:
        check_version(have)
    except BadSetup as error:
        text = f"{error}: several connections can corrupt its log. Upgrade the package apsw."
        return Finding(name="sqlite", level="problem", text=text)
    text = f"SQLite {have} does not have the fault by which a shared log can be corrupted."
    return Finding(name="sqlite", level="ok", text=text)


def look_at_file(path: str, *, euid: int | None = None) -> list[Finding]:
    """Judge who else can get at a file, and what it is on."""
    euid = os.geteuid() if euid is None else euid
    files = [path + suffix for suffix in _SUFFIXES if os.path.exists(path + suffix)]
    folder = os.path.dirname(path)
    return [
        _look_at_mode(files),
        _look_at_owner(files, euid),
        _look_at_folder(folder),
        look_at_file_system(path, kind_of(path)),
        look_at_space(folder),
    ]


def look_at_age(path: str) -> Finding | None:
    """Find a store of an older Sayso, which opening it would bring up; None if there is nothing to
    say, also of what is no store at all: opening it says that.
    """
    try:
        conn = open_reader(path, vfs=None)
    except StoreError:
        return None
    try:
        have, ours = conn.pragma("user_version"), conn.pragma("application_id") == APPLICATION_ID
    except apsw.Error:
        return None
    finally:
        close(conn)
    if not ours or have >= len(released()):
        return None
    text = (
        f"the store has schema {have}, and this Sayso would bring it up to {len(released())}: an "
        "older one then refuses it. It was not opened: look at a copy, with --upgrade."
    )
    return Finding(name="schema", level="warning", text=text)


def look_at_versions(path: str) -> tuple[int, int]:
    """Give the version of a store's schema, and the one that opening it would bring it to.

    `NotOurStore` for a file of another program, `StoreNewer` for one of a newer Sayso.
    """
    conn = open_reader(path, vfs=None)
    try:
        is_current(conn, path, released())
        return conn.pragma("user_version"), len(released())
    except apsw.Error as error:
        raise translate(error, path) from None
    finally:
        close(conn)


async def look_at_pages(path: str, vfs: str | None) -> Finding:
    """Have SQLite read the whole file, on a connection and in a thread of its own."""
    conn = open_reader(path, vfs=vfs)
    reading = asyncio.ensure_future(asyncio.to_thread(_check_pages, conn, path))
    try:
        said = await asyncio.shield(reading)
    except asyncio.CancelledError:
        conn.interrupt()
        await asyncio.wait({reading})
        raise
    finally:
        close(conn)
    if not said:
        return Finding(name="quick_check", level="ok", text="SQLite finds its pages in order.")
    more = f", and {len(said) - 1} more" if len(said) > 1 else ""
    text = f"the file is damaged: {said[0]}{more}. Stop all that use it, and restore a backup."
    return Finding(name="quick_check", level="problem", text=text)


def look_at_file_system(path: str, kind: str) -> Finding:
    """Judge the kind of file system that a file is on; empty: it cannot be told."""
    level: Level = "ok"
    text = f"it is on {kind}."
    if not kind:
        level, text = "note", "what file system it is on cannot be told: it must be a local one."
    elif kind in NETWORK:
        level = "problem"
        text = f"{path!r} is on {kind}, over a network: SQLite's locks do not hold. Move it."
    elif kind in _MEMORY:
        level, text = "warning", f"{path!r} is on {kind}: it is gone when the machine restarts."
    elif kind in _SHARED or kind.startswith("fuse"):
        level = "warning"
        text = f"{path!r} is on {kind}, where locks may not hold: put it on a local disk."
    elif kind == "overlay":
        level, text = "note", "it is in a container's own layer, and goes with it: use a volume."
    return Finding(name="file_system", level=level, text=text)


def look_at_space(folder: str) -> Finding:
    """Judge how much is free where a store is."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    level: Level = "ok"
    text = f"{free >> 20:,} MiB are free on its disk."
    if free < SPACE_LOW:
        level = "problem" if free < SPACE_MIN else "warning"
        text = f"only {free >> 20:,} MiB are free on its disk: make room, or appends are refused."
    return Finding(name="space", level=level, text=text)


def _look_at_mode(files: list[str]) -> Finding:
    open_ones = [one for one in files if stat.S_IMODE(os.stat(one).st_mode) & 0o077]
    if open_ones:
        names = " ".join(open_ones)
        text = f"others may get at what people said and decided: chmod 600 {names}"
        return Finding(name="mode", level="problem", text=text)
    return Finding(name="mode", level="ok", text="nobody but its owner may read it.")


def _look_at_owner(files: list[str], euid: int) -> Finding:
    others = sorted({uid for one in files if (uid := os.stat(one).st_uid) not in (euid, 0)})
    if not others:
        return Finding(name="owner", level="ok", text="it belongs to whoever runs this.")
    owners = ", ".join(map(str, others))
    if euid == 0:
        text = f"it belongs to user {owners}, and root runs this: files made now would be root's."
        return Finding(name="owner", level="note", text=text)
    text = f"it belongs to user {owners}, not to {euid} who runs this: run it as its owner."
    return Finding(name="owner", level="warning", text=text)


def _look_at_folder(folder: str) -> Finding:
    mode = os.stat(folder).st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        text = f"others may write in {folder!r}, and put another file in its place: chmod 700 it."
        return Finding(name="directory", level="warning", text=text)
    return Finding(name="directory", level="ok", text="nobody else can put a file in its place.")


def _check_pages(conn: apsw.Connection, path: str) -> list[str]:
    try:
        found = conn.execute(f"pragma quick_check({FAULTS_MAX})").fetchall()
        said = [str(row[0]) for row in found]
        return [] if said == ["ok"] else said
    except apsw.Error as error:
        wrong: StoreError = translate(error, path)
        return [str(wrong)]


def _found(name: str, text: str, *, well: bool) -> Finding:
    return Finding(name=name, level="ok" if well else "problem", text=text)
