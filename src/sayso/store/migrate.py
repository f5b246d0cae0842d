"""Numbered migrations: what makes a file ours, and brings an older one up.

Rule 1: one migration is one transaction, its number included, so that whoever dies on the way
leaves the file as it was. A migration that was released is never edited.
Rule 2: the file says which code may use it, as `step` has it: by its version alone, until the first
migration that lets older code go on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import apsw

from sayso.errors import NotOurStore
from sayso.store.step import check_since, read_step

APPLICATION_ID = 0x53617973
"""`Says`, in the header of every file of ours."""


@cache
def released() -> tuple[str, ...]:
    """All migrations; the first makes an empty file ours."""
    folder = os.path.join(os.path.dirname(__file__), "sql")
    names = [name for name in os.listdir(folder) if name[0].isdigit() and name.endswith(".sql")]
    return tuple(_read(os.path.join(folder, name)) for name in sorted(names))


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
        tables, since = conn.execute(_ANY_TABLE).fetchall(), since_of(conn)
    finally:
        conn.execute("release look")
    if application == 0 and version == 0 and not tables:
        return False
    if application != APPLICATION_ID:
        raise NotOurStore(f"{name!r} is a database of another program")
    check_since(name, version, since, len(steps))
    return version >= len(steps)


def check_code(conn: apsw.Connection, name: str, known: int) -> None:
    """Refuse code that is too old for what another process has made of the file. `StoreNewer`."""
    version = cast("int", conn.execute("pragma user_version").fetchall()[0][0])
    if version > known:
        check_since(name, version, since_of(conn), known)


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
            step, since = read_step(steps[version], version + 1), since_of(conn)
            assert not step.online, "nobody else writes to a file meanwhile"
            conn.execute(step.text).fetchall()
            conn.pragma("application_id", APPLICATION_ID)
            conn.pragma("user_version", step.number)
            noted = bool(conn.execute(_ANY_COMPATIBLE).fetchall())
            if step.since < step.number or noted:
                conn.execute(_COMPATIBLE)
                conn.execute(_NOTE_SINCE, (max(since, step.since),))
            conn.execute("commit")
        finally:
            if conn.in_transaction:
                conn.execute("rollback")


def since_of(conn: apsw.Connection) -> int:
    """Give the lowest number of migrations known to code that may use the file."""
    if conn.execute(_ANY_COMPATIBLE).fetchall():
        return cast("int", conn.execute("select since from compatible").fetchall()[0][0])
    return conn.pragma("user_version")


_ANY_TABLE = "select 1 from sqlite_schema limit 1"
_ANY_COMPATIBLE = "select 1 from sqlite_schema where type = 'table' and name = 'compatible'"
_COMPATIBLE = """
create table if not exists compatible (
    one integer primary key check (one = 1),
    since integer not null
) strict
"""
_NOTE_SINCE = """
insert into compatible (one, since) values (1, ?)
on conflict (one) do update set since = excluded.since
"""
