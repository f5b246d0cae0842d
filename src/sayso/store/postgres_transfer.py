"""A whole store in PostgreSQL, to be moved or to be moved into.

It takes the owner of the schema: a store that is shut refuses by triggers, which are made with the
mark and go with it. They hold for every process that has it open, and cost nothing before.
"""

# ruff: noqa: S608 - statements are put together from our own names, never from data.

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import msgspec
import psycopg

from sayso.errors import BadValue, CannotMove, NotOurStore
from sayso.store.checkup import WorkerFact
from sayso.store.clock import SystemClock
from sayso.store.postgres_address import read_address
from sayso.store.postgres_error import translate, unreachable
from sayso.store.postgres_link import PATIENCE_S, Conn, Link
from sayso.store.postgres_migrate import look, migrate, released
from sayso.store.postgres_ports import LEAVES
from sayso.store.postgres_proof import Proofs
from sayso.store.seal import Leaf
from sayso.store.transfer import (
    HOLDS,
    MARK,
    TABLES,
    Mark,
    Row,
    Table,
    check_rest,
    moved_text,
    read_mark,
)

_PUT_MARK = """
insert into mark (state, other, token, at) values (%s, %s, %s, %s)
on conflict (one) do update set state = excluded.state, other = excluded.other,
    token = excluded.token, at = excluded.at
"""
_WORKERS = "select id, boot, lease_until <= tick_ms(null) from workers order by id"
_OWNED = "select owner, state from runs where status = 'running' and owner > ''"
_SET_TICK = "update pulse set tick = greatest(tick, %s)"
_LAST_REV = "select case when is_called then last_value else 0 end from revs"
_SET_REV = "select setval('revs', %s)"
_SET_KEY = """
select setval(pg_get_serial_sequence('{0}', 'k'), max(k)) from {0} having max(k) is not null
"""
_SET_END = """
update ends set position = greatest(position, (select coalesce(max(position), 0) from journal))
"""
_COUNTED = ("audiences", "runs", "parcels")
_BYTES = {"hash", "last", "state", "salt", "payload", "decision", "votes", "data", "words", "error"}
_TEXT = {
    "project",
    "agent",
    "thread",
    "status",
    "owner",
    "call",
    "kind",
    "tool",
    "digest",
    "key",
} | {
    "file",
    "sha256",
    "run_id",
}
_WHO, _WORDS = HOLDS.columns.index("who"), HOLDS.columns.index("words")
_SHUT = ", ".join([*(one.name for one in TABLES), "workers"])


class PostgresTransfer:
    """A store in a schema of a database."""

    def __init__(self, link: Link, conn: Conn, proofs: Proofs) -> None:
        self._link = link
        self._conn = conn
        self._proofs = proofs

    @classmethod
    async def open(cls, url: str, *, schema: str = "sayso", make: bool = True) -> Self:
        """Open a schema of a database, or make one, unless `make` is False."""
        address = read_address(url, schema)
        schema = address.schema
        link = Link(address, pool_max=1, patience_s=PATIENCE_S)
        conn = await link.connect()
        try:
            if not make and not (await look(conn, link.name, schema, released())).version:
                raise NotOurStore(f"there is no store in {link.name!r}")
            store_id = await migrate(conn, link.name, schema, released())
        except BaseException as error:
            await conn.close()
            if isinstance(error, psycopg.Error):
                raise unreachable(error, link.name, link.address.password) from None
            raise
        return cls(link, conn, Proofs(store_id, SystemClock()))

    @property
    def name(self) -> str:
        return self._link.name

    async def fault(self) -> str:
        ((found,),) = await self._all("select origin_fault()")
        return found

    async def mark(self) -> Mark | None:
        return read_mark(await self._all(MARK))

    async def check_rest(self, *, even_if_silent: bool = False) -> None:
        ((tick,),) = await self._all("select tick_ms(null)")
        owned = await self.owned()
        check_rest(await self._workers(), owned, tick, self.name, even_if_silent=even_if_silent)

    async def begin(self, mark: Mark) -> None:
        async with self._transaction():
            await self._lock()
            found = [one for one in TABLES if await self.last(one) is not None]
            if found or await self.mark() is not None:
                raise CannotMove(f"{self.name!r} is not empty: name a database without a store")
            await self.check_rest(even_if_silent=True)
            await self._put_mark(mark)

    async def shut(self, mark: Mark, *, even_if_silent: bool = False) -> None:
        async with self._transaction():
            await self._lock()
            await self.check_rest(even_if_silent=even_if_silent)
            await self._put_mark(mark)
            text = moved_text(self.name, mark.other).replace("'", "''")
            for name in _SHUT.split(", "):
                await self._all(
                    f"create or replace trigger shut before insert or update or delete "
                    f"on {name} for each statement execute function refuse_moved('{text}')"
                )

    async def reopen(self) -> None:
        async with self._transaction():
            await self._lock()
            for name in _SHUT.split(", "):
                await self._all(f"drop trigger if exists shut on {name}")
            await self._all("delete from mark")

    async def count(self, table: Table) -> int:
        return (await self._all(f"select count(*) from {table.name}"))[0][0]

    async def rows(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        where = "true" if after is None else f"({key}) > ({', '.join(['%s'] * len(after))})"
        found = await self._all(
            f"select {', '.join(table.columns)} from {table.name} where {where} "
            f"order by {key} limit %s",
            (*(after or ()), limit),
        )
        return [_neutral(table, row) for row in found]

    async def last(self, table: Table) -> Row | None:
        order = ", ".join(f"{name} desc" for name in table.key)
        found = await self._all(
            f"select {', '.join(table.key)} from {table.name} order by {order} limit 1"
        )
        return found[0] if found else None

    async def fill(self, table: Table, rows: Sequence[Row], after: Row | None) -> None:
        kept = [_kept(table, row, self.name) for row in rows]
        async with self._transaction():
            if await self.last(table) != after:
                raise CannotMove(f"somebody else fills {self.name!r}: let one of you go on")
            sql = f"copy {table.name} ({', '.join(table.columns)}) from stdin (format binary)"
            async with (
                self._conn.cursor() as cursor,
                cursor.copy(sql.encode()) as copy,
            ):
                copy.set_types([_type(table, name) for name in table.columns])
                for row in kept:
                    await copy.write_row(row)

    async def leaves(self, after: int, limit: int) -> list[Leaf]:
        return [Leaf(*row) for row in await self._all(LEAVES, {"after": after, "limit": limit})]

    async def last_rev(self) -> int:
        return (await self._all(_LAST_REV))[0][0]

    async def owned(self) -> list[tuple[str, bytes]]:
        return [(row[0], row[1]) for row in await self._all(_OWNED)]

    async def go_on_after(self, rev: int, tick: int) -> None:
        async with self._transaction():
            if rev > await self.last_rev():
                await self._all(_SET_REV, (rev,))
            await self._all(_SET_TICK, (tick,))
            for name in _COUNTED:
                await self._all(_SET_KEY.format(name))
            if (await self._all("select to_regclass('ends') is not null"))[0][0]:
                await self._all(_SET_END)

    async def close(self) -> None:
        await self._conn.close()

    async def _lock(self) -> None:
        """Wait for every write that is under way, and let none begin before the commit."""
        await self._all(f"lock table {_SHUT} in share row exclusive mode")

    async def _put_mark(self, mark: Mark) -> None:
        await self._all(_PUT_MARK, (mark.state, mark.other, mark.token, mark.at))

    async def _workers(self) -> list[WorkerFact]:
        return [
            WorkerFact(
                id=worker,
                state="dead"
                if self._proofs.is_dead(worker, boot)
                else ("silent" if over else "alive"),
                runs=0,
            )
            for worker, boot, over in await self._all(_WORKERS)
        ]

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[None]:
        try:
            async with self._conn.transaction():
                yield
        except psycopg.Error as error:
            raise self._in_words(error) from None

    async def _all(self, sql: str, params: Any = ()) -> list[Row]:
        try:
            cursor = await self._conn.execute(sql.encode(), params or None, binary=True)
            return await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._in_words(error) from None

    def _in_words(self, error: psycopg.Error) -> Exception:
        return translate(error, self.name, password=self._link.address.password)


def _type(table: Table, column: str) -> str:
    """Name the type of a column, as COPY is told."""
    if column == "who" and table is HOLDS:
        return "text[]"
    if column == "id":
        return "bytea" if table.name == "journal" else "text"
    if column in _BYTES:
        return "bytea"
    return "text" if column in _TEXT or column == "who" else "int8"


def _neutral(table: Table, row: Row) -> Row:
    if table is HOLDS:
        who = msgspec.json.encode(row[_WHO]).decode()
        return (*row[:_WHO], who, *row[_WHO + 1 : _WORDS], _text(row[_WORDS]))
    if table.name == "parcels":
        return (*row[:-2], _text(row[-2]), row[-1])
    return row


def _kept(table: Table, row: Row, name: str) -> Row:
    """Give a row as it is kept here. `BadValue` if some text in it cannot be."""
    for column, value in zip(table.columns, row, strict=True):
        if _type(table, column) == "text" and "\0" in (value or ""):
            raise BadValue(
                f"{name!r} cannot keep the text {value[:80]!r} of {table.name} "
                f"{table.key_of(row)}: no text in PostgreSQL has the character U+0000"
            )
    if table is HOLDS:
        who = msgspec.json.decode(row[_WHO], type=list[str])
        return (*row[:_WHO], who, *row[_WHO + 1 : _WORDS], row[_WORDS].encode())
    if table.name == "parcels":
        return (*row[:-2], row[-2].encode(), row[-1])
    return row


def _text(data: bytes) -> str:
    return bytes(data).decode()
