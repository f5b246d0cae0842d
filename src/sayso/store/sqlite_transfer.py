"""A whole SQLite store, to be moved or to be moved into.

A store that is shut refuses by triggers, which are made with the mark and go with it: they hold for
every process that has the file open, and cost nothing before.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data.

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast

import apsw

from sayso.errors import CannotMove
from sayso.store.checkup import WorkerFact
from sayso.store.clock import Clock, SystemClock
from sayso.store.lease import Leases
from sayso.store.seal import Leaf
from sayso.store.sqlite_audit import AuditReader
from sayso.store.sqlite_error import translate
from sayso.store.sqlite_file import close, create, open_writer, patiently, sync_dir
from sayso.store.sqlite_origin import read_fault, renew
from sayso.store.sqlite_pen import pack_digest, unpack_digest
from sayso.store.transfer import (
    HOLDS,
    MARK,
    SHELF,
    TABLES,
    Mark,
    Row,
    Table,
    check_rest,
    moved_text,
    read_mark,
)

BUSY_S = 10.0
_PUT_MARK = "insert or replace into mark (one, state, other, token, at) values (1, ?, ?, ?, ?)"
_NO_MARK = "delete from mark"
_WORKERS = "select id, boot, lease_until from workers order by id"
_OWNED = "select owner, state from runs where status = 'running' and owner > ''"
# Of another start of the machine than any: they are dead.
_BURY = """
insert or ignore into workers (id, boot, lease_until)
select distinct owner, 'moved', 0 from runs where status = 'running' and owner > ''
"""
_LAST_REV = "select coalesce(max(rev), 0) from shelf where project = '' and kind = '' and id = ''"
_PUT_REV = """
insert into shelf (project, kind, id, rev, data) values ('', '', '', ?, x'')
on conflict (project, kind, id) do update set rev = excluded.rev
"""
_NAMED = "(project, kind, id) > ('', '', '')"
_OPS = ("insert", "update", "delete")
_SHUT = [(name, op) for name in [*(one.name for one in TABLES), "workers"] for op in _OPS]
_STATES = {"dead": "dead", "lease": "silent", None: "alive"}
_DIGEST = HOLDS.columns.index("digest")

T = TypeVar("T")


class SqliteTransfer:
    """A store in a file."""

    def __init__(self, path: str, conn: apsw.Connection, clock: Clock) -> None:
        self._path = path
        self._conn = conn
        self._clock = clock
        self._leases = Leases(path + ".workers")

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, clock: Clock | None = None) -> Self:
        """Open a file, or make one."""
        real = os.path.realpath(path)
        create(real)
        conn = open_writer(real, vfs=None, synchronous="FULL", busy_s=BUSY_S)
        sync_dir(os.path.dirname(real))
        return cls(real, conn, clock or SystemClock())

    @property
    def name(self) -> str:
        return self._path

    async def fault(self) -> str:
        return read_fault(self._conn, self._path)

    async def mark(self) -> Mark | None:
        return read_mark(self._all(MARK))

    async def check_rest(self, *, even_if_silent: bool = False) -> None:
        owned = cast("list[tuple[str, bytes]]", self._all(_OWNED))
        tick = self._clock.tick()
        check_rest(self._workers(), owned, tick, self.name, even_if_silent=even_if_silent)

    async def begin(self, mark: Mark) -> None:
        with self._transaction():
            if await self.mark() is not None or any(self._count(one) for one in TABLES):
                raise CannotMove(f"{self.name!r} is not empty: name a store that is not there yet")
            await self.check_rest(even_if_silent=True)
            self._put_mark(mark)

    async def shut(self, mark: Mark, *, even_if_silent: bool = False) -> None:
        with self._transaction():
            await self.check_rest(even_if_silent=even_if_silent)
            self._put_mark(mark)
            text = moved_text(self.name, mark.other).replace("'", "''")
            for name, op in _SHUT:
                self._all(
                    f"create trigger if not exists shut_{name}_{op} before {op} on {name} "
                    f"begin select raise(abort, '{text}'); end"
                )
            # A backup that knows nothing of the move is not the file that was moved.
            renew(self._conn, self._path)

    async def reopen(self) -> None:
        with self._transaction():
            for name, op in _SHUT:
                self._all(f"drop trigger if exists shut_{name}_{op}")
            self._all(_NO_MARK)

    async def count(self, table: Table) -> int:
        return self._count(table)

    async def rows(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        return self._rows(table, after, limit)

    async def last(self, table: Table) -> Row | None:
        order = ", ".join(f"{name} desc" for name in table.key)
        where = _NAMED if table is SHELF else "1"
        found = self._all(
            f"select {', '.join(table.key)} from {table.name} where {where} "
            f"order by {order} limit 1"
        )
        return found[0] if found else None

    async def fill(self, table: Table, rows: Sequence[Row], after: Row | None) -> None:
        marks = ", ".join("?" * len(table.columns))
        sql = f"insert into {table.name} ({', '.join(table.columns)}) values ({marks})"
        kept = [_packed(row) for row in rows] if table is HOLDS else rows
        with self._transaction():
            if await self.last(table) != after:
                raise CannotMove(f"somebody else fills {self.name!r}: let one of you go on")
            self._conn.executemany(sql, kept)

    async def leaves(self, after: int, limit: int) -> list[Leaf]:
        return self._read(lambda: AuditReader(self._conn).leaves(after, limit))

    async def last_rev(self) -> int:
        return self._all(_LAST_REV)[0][0]

    async def owned(self) -> list[tuple[str, bytes]]:
        return cast("list[tuple[str, bytes]]", self._all(_OWNED))

    async def go_on_after(self, rev: int, tick: int) -> None:
        del tick  # The clock is the machine's, and cannot be put on.
        # Everything else goes on after the largest that is there.
        with self._transaction():
            if rev > self._all(_LAST_REV)[0][0]:
                self._all(_PUT_REV, (rev,))
            self._all(_BURY)
            # At once, and not when it is first opened: a copy could be that before.
            renew(self._conn, self._path)

    async def close(self) -> None:
        self._leases.close()
        close(self._conn)

    def _put_mark(self, mark: Mark) -> None:
        self._all(_PUT_MARK, (mark.state, mark.other, mark.token, mark.at))

    def _workers(self) -> list[WorkerFact]:
        return [
            WorkerFact(
                id=worker,
                state=cast("Any", _STATES[self._leases.proof(worker, boot, until, self._clock)]),
                runs=0,
            )
            for worker, boot, until in self._all(_WORKERS)
        ]

    def _count(self, table: Table) -> int:
        where = _NAMED if table is SHELF else "1"
        return self._all(f"select count(*) from {table.name} where {where}")[0][0]

    def _rows(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        if after is None and table is SHELF:
            after = ("", "", "")  # The row without a name is no item.
        where = "1" if after is None else f"({key}) > ({', '.join('?' * len(after))})"
        found = self._all(
            f"select {', '.join(table.columns)} from {table.name} where {where} "
            f"order by {key} limit ?",
            (*(after or ()), limit),
        )
        return [_unpacked(row) for row in found] if table is HOLDS else found

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._read(lambda: patiently(lambda: self._conn.execute("begin immediate"), BUSY_S))
        try:
            yield
            self._conn.execute("commit")
        except apsw.Error as error:
            raise translate(error, self._path) from None
        finally:
            if self._conn.in_transaction:
                self._conn.execute("rollback")

    def _all(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[Row]:
        return self._read(lambda: cast("list[Row]", self._conn.execute(sql, bindings).fetchall()))

    def _read(self, what: Callable[[], T]) -> T:
        try:
            return what()
        except apsw.Error as error:
            raise translate(error, self._path) from None


def _packed(row: Row) -> Row:
    return (*row[:_DIGEST], pack_digest(row[_DIGEST]), *row[_DIGEST + 1 :])


def _unpacked(row: Row) -> Row:
    return (*row[:_DIGEST], unpack_digest(row[_DIGEST]), *row[_DIGEST + 1 :])
