"""Who may do what in a PostgreSQL store: the app's role, and the keeper's.

Rule: the app does everything but take back. It adds to the journal, the seals and the door log, and
changes nothing in them; the keeper may, which erasing and archiving take. Neither owns the schema.
Rights are given anew after every migration, so that whatever it makes is covered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from psycopg import sql

from sayso.errors import BadSetup

if TYPE_CHECKING:
    from sayso.store.postgres_link import Conn

Kind = Literal["app", "keeper"]

_CLOSED = """
with recursive closed as (
    select c.oid, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = %s and c.relname in ('journal', 'seals', 'door')
    union
    select c.oid, c.relname from closed join pg_inherits i on i.inhparent = closed.oid
    join pg_class c on c.oid = i.inhrelid
)
select relname from closed
"""
"""What is only ever added to, with its partitions."""
_ALL = (
    "grant usage on schema {schema} to {role}",
    "grant select, insert, update, delete on all tables in schema {schema} to {role}",
    "grant usage, select on all sequences in schema {schema} to {role}",
    "grant execute on all functions in schema {schema} to {role}",
    # What is made later, until it is known what it is: nothing that could be taken back.
    "alter default privileges in schema {schema} grant select, insert on tables to {role}",
    "alter default privileges in schema {schema} grant usage, select on sequences to {role}",
    "alter default privileges in schema {schema} grant execute on functions to {role}",
    "revoke insert, update, delete on {schema}.store, {schema}.roles from {role}",
    # Whoever finds that a store was put back says so.
    "grant update (fault) on {schema}.store to {role}",
)
_KEEPER = "grant update (imprint, epoch, id) on {schema}.store to {role}"
"""For letting a store that was restored work again."""


async def grant(conn: Conn, schema: str, roles: Iterable[tuple[str, Kind]]) -> None:
    """Note what each role is, and give it its rights. `BadSetup` for a role that cannot be one."""
    async with conn.transaction():
        for role, kind in roles:
            await _check(conn, role)
            await conn.execute(
                "insert into roles (name, kind) values (%s, %s) "
                "on conflict (name) do update set kind = excluded.kind",
                (role, kind),
            )
        await regrant(conn, schema)


async def regrant(conn: Conn, schema: str) -> None:
    """Give every role that was noted its rights to all there is by now."""
    cursor = await conn.execute(
        "select name, kind from roles join pg_roles on rolname = name order by name"
    )
    for role, kind in await cursor.fetchall():
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        for statement in _ALL:
            await conn.execute(sql.SQL(statement).format(**names))
        if kind == "keeper":
            await conn.execute(sql.SQL(_KEEPER).format(**names))
        if kind == "app":
            rights = sql.SQL("revoke update, delete, truncate on {schema}.{table} from {role}")
            for (table,) in await (await conn.execute(_CLOSED, (schema,))).fetchall():
                await conn.execute(rights.format(table=sql.Identifier(table), **names))


async def _check(conn: Conn, role: str) -> None:
    """Refuse a role that does not exist, or has every right already, whatever it is given."""
    asked = """
    select rolsuper, pg_has_role(rolname, n.nspowner, 'member') from pg_roles, pg_namespace n
    where rolname = %s and n.nspname = current_schema()
    """
    found = await (await conn.execute(asked, (role,))).fetchone()
    if found is None:
        raise BadSetup(f"there is no role {role!r} in this database: make it with `create role`")
    if any(found):
        what = "is a superuser" if found[0] else "owns the schema, or may act as its owner"
        raise BadSetup(f"the role {role!r} {what}: nothing could be kept from it")
