"""Numbered migrations of a PostgreSQL store: what makes a schema ours, and brings an older one up.

Rule 1: one migration is one transaction, its number included, so that whoever dies on the way
leaves the schema as it was. One that is `online` is done statement by statement, outside of any,
and may be begun again after each. A migration that was released is never edited.
Rule 2: the schema says which code may use it, as `step` has it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import psycopg
from psycopg import sql

from sayso.errors import NotOurStore, StoreBusy, StoreOlder
from sayso.store.postgres_role import regrant
from sayso.store.step import Step, check_since, read_step

if TYPE_CHECKING:
    from sayso.store.postgres_link import Conn

LOCK_MS = 2000
"""How long a migration waits for a lock: whoever comes after it waits behind it, readers too."""
PAUSE_S = 0.2
"""How long it lets others go before until it tries again,"""
WAIT_S = 30.0
"""and for how long it does so."""
_TRY = "select 1 where pg_try_advisory_lock(1398110580, hashtext(%s))"
_TRY_FOR_STEP = "select 1 where pg_try_advisory_xact_lock(1398110580, hashtext(%s))"
_LET_GO = "select pg_advisory_unlock(1398110580, hashtext(%s))"
_TAKE_TURN = """
select pg_advisory_xact_lock(1398110579, oid::integer) from pg_namespace where nspname = %s
"""
"""The lock that writes hold until they are committed."""
_JOBS = "-- pgqueuer --"
"""In place of this line comes what pgqueuer needs."""
_SCHEMA = "select 1 from pg_namespace where nspname = %s"
_ANYTHING = """
select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s
union all
select 1 from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = %s
limit 1
"""
_MARK = "insert into store (program, version, since, imprint) values ('sayso', 1, 1, imprint())"
_MARKED = """
select count(*) = 5 from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = 'store'
    and a.attname in ('one', 'program', 'version', 'since', 'id')
"""
_INVALID = """
select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relkind = 'i' and not i.indisvalid
"""
_BOUNDS = """
select set_config('lock_timeout', %s, one.step), set_config('statement_timeout', '0', one.step),
    case when version() like '%%linux%%'
        then set_config('client_connection_check_interval', '1000', one.step) end
from (select %s::boolean as step) one
"""
"""Where it can, the server looks whether it still works for somebody: it would otherwise finish a
statement that takes an hour, and keep everybody else out, for a process that was killed.
"""
Progress = Callable[[str], None]


class Standing(NamedTuple):
    """Where a schema is: version 0 if nothing is there."""

    version: int
    since: int
    id: str


@cache
def released() -> tuple[str, ...]:
    """All migrations; the first makes an empty schema ours."""
    files = sorted((Path(__file__).parent / "sql" / "postgres").glob("[0-9]*.sql"))
    return tuple(file.read_text(encoding="utf-8") for file in files)


async def look(conn: Conn, name: str, schema: str, steps: Sequence[str]) -> Standing:
    """See what is there, and change nothing.

    `NotOurStore` for a schema of another program, `StoreNewer` for one that this code may not use.
    """
    found = await _look(conn, name, schema)
    check_since(name, found.version, found.since, len(steps))
    return found


async def check(conn: Conn, name: str, schema: str, steps: Sequence[str]) -> str:
    """Give the id of a store that is ready to be used, and make none. `NotOurStore` if there is
    none, `StoreOlder` if something is to be done first.
    """
    found = await look(conn, name, schema, steps)
    if found.version == 0:
        raise NotOurStore(f"there is no store of Sayso in {name!r}")
    if found.version < len(steps):
        raise _older(name, found.version, len(steps))
    return found.id


async def migrate(
    conn: Conn, name: str, schema: str, steps: Sequence[str], progress: Progress | None = None
) -> str:
    """Apply what is missing, step by step; give the store's id. `progress` hears of each.

    Whoever lacks the rights for it is told `StoreOlder`. Code may be older than what is there, if
    that says so.
    """
    until = time.monotonic() + WAIT_S
    while True:
        found = await look(conn, name, schema, steps)
        if found.version >= len(steps):
            return found.id
        step = read_step(steps[found.version], found.version + 1)
        try:
            if await (_apply_online if step.online else _apply)(conn, name, schema, step):
                until = time.monotonic() + WAIT_S
                if progress is not None:
                    progress(f"migration {step.number} of {len(steps)} is done")
                continue
        except psycopg.errors.LockNotAvailable as error:
            said = f"what is to be changed is in use: {error}"
        except psycopg.errors.InsufficientPrivilege:
            if found.version == 0:
                raise
            raise _older(name, found.version, len(steps)) from None
        else:
            said = "another process migrates it"
        if time.monotonic() >= until:
            raise StoreBusy(f"{name!r} cannot be brought up now, {said}; nothing was written")
        await asyncio.sleep(PAUSE_S)


def _older(name: str, version: int, known: int) -> StoreOlder:
    return StoreOlder(
        f"{name!r} has version {version}, this Sayso needs {known}: run `sayso migrate` as the "
        "owner of its schema"
    )


async def _apply(conn: Conn, name: str, schema: str, step: Step) -> bool:
    """Do it, one process at a time; tell whether nobody else was at it."""
    async with conn.transaction():
        # Nobody waits for this lock: an index that is built waits for whoever is waiting.
        if not await _one(conn, _TRY_FOR_STEP, schema):
            return False
        if (await _look(conn, name, schema)).version != step.number - 1:
            return False
        await conn.execute(_BOUNDS, (str(LOCK_MS), True))
        if step.since == step.number and step.number > 1:
            # Who is writing now is not cut off, and who writes next finds out.
            await conn.execute(_TAKE_TURN, (schema,))
        if step.number == 1 and not await _one(conn, _SCHEMA, schema):
            await conn.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        text = step.text
        if _JOBS in text:
            from sayso.store.postgres_jobs import install_sql

            text = text.replace(_JOBS, install_sql(schema))
        await conn.execute(text.encode())
        await _note(conn, schema, step)
    return True


async def _apply_online(conn: Conn, name: str, schema: str, step: Step) -> bool:
    """Do it statement by statement: each of them is there or not when it is begun again."""
    if not await _one(conn, _TRY, schema):
        return False
    try:
        if (await _look(conn, name, schema)).version != step.number - 1:
            return False
        # Building an index keeps nobody waiting, however long it waits for others.
        await conn.execute(_BOUNDS, ("0", False))
        # Left behind by whoever died while building one, which counts as being there.
        cursor = await conn.execute(_INVALID, (schema,))
        for (index,) in await cursor.fetchall():
            drop = sql.SQL("drop index concurrently if exists {}.{}")
            await conn.execute(drop.format(sql.Identifier(schema), sql.Identifier(index)))
        for statement in step.text.split(";\n"):
            if re.sub(r"--.*", "", statement).strip():
                await conn.execute(statement.encode())
        async with conn.transaction():
            await _note(conn, schema, step)
    finally:
        if not conn.closed:
            await _one(conn, _LET_GO, schema)
    return True


async def _note(conn: Conn, schema: str, step: Step) -> None:
    if step.number == 1:
        await conn.execute(_MARK)
        return
    await conn.execute(
        "update store set version = %s, since = greatest(since, %s)", (step.number, step.since)
    )
    await regrant(conn, schema)


async def _look(conn: Conn, name: str, schema: str) -> Standing:
    cursor = await conn.execute(_ANYTHING, (schema, schema))
    if await cursor.fetchone() is None:
        return Standing(0, 0, "")
    ours = await _one(conn, _MARKED, schema)
    row: tuple[object, ...] | None = None
    if ours is not None and ours[0]:
        # By its full name: whoever may not use the schema would be told that it is not there.
        marker = sql.SQL("select program, version, since, id::text from {}.store")
        cursor = await conn.execute(marker.format(sql.Identifier(schema)))
        row = await cursor.fetchone()
    if row is None or row[0] != "sayso":
        raise NotOurStore(
            f"the schema {schema!r} of {name!r} belongs to another program: use another database"
        )
    return Standing(cast("int", row[1]), cast("int", row[2]), cast("str", row[3]))


async def _one(conn: Conn, query: str, schema: str) -> tuple[object, ...] | None:
    return await (await conn.execute(query.encode(), (schema,))).fetchone()
