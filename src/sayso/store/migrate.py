"""Numbered migrations: what makes a file ours, and brings an older one up.

Rule: one migration is one transaction, its number included, so that whoever dies on the way leaves
the file as it was. A migration that was released is never edited.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import apsw

from sayso.errors import NotOurStore, StoreNewer

APPLICATION_ID = 0x53617973
"""`Says`, in the header of every file of ours."""


@cache
def released() -> tuple[str, ...]:
    """All migrations; the first makes an empty file ours."""
    folder = os.path.join(os.path.dirname(__file__), "sql")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".sql"))
    return tuple(_read(os.path.join(folder, name)) for name in names)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_current(conn: apsw.Connection, name: str, steps: Sequence[str]) -> bool:
    """Tell whether nothing is to be done.

    Raise `NotOurStore` for a file of another program, `StoreNewer` for one of a newer Sayso.
    """
    # As of one moment: another process may be making the file ours right now.
    conn.execute("savepoint look")
    try:
        application, version = conn.pragma("application_id"), conn.pragma("user_version")
        tables = conn.execute(_ANY_TABLE).fetchall()
    finally:
        conn.execute("release look")
    if application == 0 and version == 0 and not tables:
        return False
    if application != APPLICATION_ID:
        raise NotOurStore(f"{name!r} is a database of another program")
    if version > len(steps):
        raise StoreNewer(
            f"{name!r} has version {version}, this Sayso knows {len(steps)}; upgrade it"
        )
    return version == len(steps)


def migrate(conn: apsw.Connection, name: str, steps: Sequence[str]) -> None:
    """Apply what is missing, one step in one transaction. `BusyError` if another writes."""
    from sayso.store.words import words_of

    conn.create_scalar_function("words_of", cast("Any", words_of), 4)
    while True:
        conn.execute("begin immediate")
        try:
            # Only now is it certain that no other process is about to do the same.
            if is_current(conn, name, steps):
                return
            version: int = conn.pragma("user_version")
            conn.execute(steps[version]).fetchall()
            conn.pragma("application_id", APPLICATION_ID)
            conn.pragma("user_version", version + 1)
            conn.execute("commit")
        finally:
            if conn.in_transaction:
                conn.execute("rollback")


_ANY_TABLE = "select 1 from sqlite_schema limit 1"
