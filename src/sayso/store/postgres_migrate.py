"""Numbered migrations of a PostgreSQL store: what makes a schema ours, and brings an older one up.

Rule: one migration is one transaction, its number included, so that whoever dies on the way leaves
the schema as it was. A migration that was released is never edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from psycopg import sql

from sayso.errors import NotOurStore, StoreNewer

if TYPE_CHECKING:
    from sayso.store.postgres_link import Conn

_LOCK = 1398110580
_SCHEMA = "select 1 from pg_namespace where nspname = %s"
_ANYTHING = """
select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s
union all
select 1 from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = %s
limit 1
"""
_MARKED = """
select count(*) = 4 from pg_attribute a
join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = 'store' and a.attname in ('one', 'program', 'version', 'id')
"""


@cache
def released() -> tuple[str, ...]:
    """All migrations; the first makes an empty schema ours."""
    files = sorted((Path(__file__).parent / "sql" / "postgres").glob("[0-9]*.sql"))
    return tuple(file.read_text(encoding="utf-8") for file in files)


async def migrate(conn: Conn, name: str, schema: str, steps: Sequence[str]) -> str:
    """Apply what is missing, one step in one transaction; give the store's id.

    `NotOurStore` for a schema of another program, `StoreNewer` for one of a newer Sayso.
    """
    while True:
        version, store_id = await _look(conn, name, schema)
        if version > len(steps):
            raise StoreNewer(
                f"{name!r} has version {version}, this Sayso knows {len(steps)}; upgrade it"
            )
        if version == len(steps):
            return store_id
        async with conn.transaction():
            # One at a time: another process may be about to do the same.
            await conn.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
            again, _ = await _look(conn, name, schema)
            if again != version:
                continue
            await _apply(conn, schema, steps[version], version + 1)


async def is_there(conn: Conn, name: str, schema: str) -> bool:
    """Tell whether there is a store in a schema. `NotOurStore` if another program is."""
    return (await _look(conn, name, schema))[0] > 0


async def _apply(conn: Conn, schema: str, step: str, version: int) -> None:
    if version == 1 and not await _one(conn, _SCHEMA, schema):
        await conn.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    await conn.execute(step.encode())
    if version == 1:
        await conn.execute("insert into store (program, version) values ('sayso', 1)")
    else:
        await conn.execute("update store set version = %s", (version,))


async def _look(conn: Conn, name: str, schema: str) -> tuple[int, str]:
    """Give the version of what is there, 0 if nothing is."""
    cursor = await conn.execute(_ANYTHING, (schema, schema))
    if await cursor.fetchone() is None:
        return 0, ""
    ours = await _one(conn, _MARKED, schema)
    row: tuple[object, ...] | None = None
    if ours is not None and ours[0]:
        # By its full name: whoever may not use the schema would be told that it is not there.
        marker = sql.SQL("select program, version, id::text from {}.store")
        cursor = await conn.execute(marker.format(sql.Identifier(schema)))
        row = await cursor.fetchone()
    if row is None or row[0] != "sayso":
        raise NotOurStore(
            f"the schema {schema!r} of {name!r} belongs to another program: use another database"
        )
    return cast("int", row[1]), cast("str", row[2])


async def _one(conn: Conn, query: str, schema: str) -> tuple[object, ...] | None:
    return await (await conn.execute(query.encode(), (schema,))).fetchone()
