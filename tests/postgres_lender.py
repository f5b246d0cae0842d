"""Schemas of PostgreSQL that are emptied and lent again: making one costs more than most tests do
with it. One in which anything but rows was changed, or somebody is left, is dropped instead.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg

    from tests.postgres import Cluster

Roles = tuple[tuple[str, Any], ...]
_LEAVE_S = 0.5
_OTHERS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend'
    and pid <> pg_backend_pid()
"""
"""Whose connection ends may still be in the middle of something."""
_LOOKS = """
    with mine as (select oid, relname, relkind, xmin from pg_class where relnamespace = %(n)s)
    select 'class', oid::text, xmin::text from mine
    union all select 'column', attrelid || '.' || attnum, a.xmin::text
        from pg_attribute a join mine on mine.oid = attrelid
    union all select 'default', d.oid::text, d.xmin::text
        from pg_attrdef d join mine on mine.oid = adrelid
    union all select 'trigger', t.oid::text, t.xmin::text
        from pg_trigger t join mine on mine.oid = tgrelid
    union all select 'constraint', oid::text, xmin::text
        from pg_constraint where connamespace = %(n)s
    union all select 'function', oid::text, xmin::text from pg_proc where pronamespace = %(n)s
    union all select 'type', oid::text, xmin::text from pg_type where typnamespace = %(n)s
    union all select 'schema', oid::text, xmin::text from pg_namespace where oid = %(n)s
    order by 1, 2
"""
"""Which transaction wrote each line of the catalogue: any change of a schema makes another."""


class _First(NamedTuple):
    """A schema as it was made."""

    roles: Roles
    looks: list[Any]
    empty: str
    """What brings its rows back to that."""


class Lender:
    """Lends the schemas of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._firsts: dict[str, _First] = {}
        self._lent: list[str] = []
        self._spare: dict[Roles, list[str]] = {}

    async def lend(self, roles: Roles = (), prepare: str = "") -> str:
        """Give a schema that is made and empty."""
        from sayso.store.postgres_upkeep import bring_up

        if spare := self._spare.get(roles):
            name = spare.pop()
        else:
            if prepare:
                self._cluster.execute(prepare)
            name = self._cluster.schema()
            await bring_up(f"{self._cluster.url('postgres')}#{name}", roles=roles)
            with self._connect() as conn:
                self._firsts[name] = _First(roles, _looks(conn, name), _emptying(conn, name))
        self._lent.append(name)
        return name

    def take_back(self) -> None:
        """Empty all that was lent for the next one, or drop it."""
        while self._lent:
            name = self._lent.pop()
            if self._is_as_at_first(name):
                self._spare.setdefault(self._firsts[name].roles, []).append(name)
            else:
                self._cluster.drop(name)

    def _is_as_at_first(self, name: str) -> bool:
        end = time.monotonic() + _LEAVE_S
        with self._connect() as conn:
            while conn.execute(_OTHERS).fetchone() != (0,):
                if time.monotonic() > end:
                    return False
                time.sleep(0.005)
            if _looks(conn, name) != self._firsts[name].looks:
                return False
            conn.execute(self._firsts[name].empty.encode())
            return True

    def _connect(self) -> psycopg.Connection:
        import psycopg

        return psycopg.connect(self._cluster.url("postgres"), autocommit=True)


def _looks(conn: psycopg.Connection, name: str) -> list[Any]:
    found = conn.execute("select oid from pg_namespace where nspname = %s", (name,)).fetchone()
    return conn.execute(_LOOKS, {"n": found[0]}).fetchall() if found else []


def _emptying(conn: psycopg.Connection, name: str) -> str:
    """Write down how its rows become what they are now. No trigger stands in the way of that."""
    named = "select relname from pg_class where relnamespace = %s::regnamespace and relkind = %s"
    does = ["set session_replication_role = replica"]
    for (table,) in conn.execute(named, (name, "r")).fetchall():
        at = f"{name}.{table}"
        does.append(f"delete from {at}")
        (rows,) = conn.execute(f"select jsonb_agg(t)::text from {at} t".encode()).fetchone() or ()
        if rows is not None:
            quoted = rows.replace("'", "''")
            does.append(
                f"insert into {at} overriding system value"
                f" select * from jsonb_populate_recordset(null::{at}, '{quoted}')"
            )
    for (sequence,) in conn.execute(named, (name, "S")).fetchall():
        at = f"{name}.{sequence}"
        last = conn.execute(f"select last_value, is_called from {at}".encode()).fetchone() or ()
        does.append(f"select setval('{at}', {last[0]}, {last[1]})")
    return "; ".join(does)
