"""Looking after the schema of a PostgreSQL store from outside: what is pending, bringing it up, and
giving roles their rights.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import psycopg

from sayso.store.postgres_address import read_address
from sayso.store.postgres_error import unreachable
from sayso.store.postgres_link import PATIENCE_S, Conn, Link
from sayso.store.postgres_migrate import Progress, look, migrate, released
from sayso.store.postgres_role import Kind, grant


@asynccontextmanager
async def _connected(url: str, knows: int) -> AsyncGenerator[tuple[Conn, str, str]]:
    address = read_address(url)
    link = Link(address, pool_max=1, patience_s=PATIENCE_S, knows=knows)
    conn = await link.connect()
    try:
        yield conn, link.name, address.schema
    except psycopg.Error as error:
        raise unreachable(error, link.name, address.password) from None
    finally:
        await conn.close()


async def versions(url: str, steps: Sequence[str] | None = None) -> tuple[int, int]:
    """Give the version that is there, 0 if nothing is, and the one that this code brings it to."""
    steps = released() if steps is None else steps
    async with _connected(url, len(steps)) as (conn, name, schema):
        return (await look(conn, name, schema, steps)).version, len(steps)


async def bring_up(
    url: str,
    *,
    roles: Sequence[tuple[str, Kind]] = (),
    progress: Progress | None = None,
    steps: Sequence[str] | None = None,
) -> None:
    """Make the schema, or bring it up; then give the roles their rights."""
    steps = released() if steps is None else steps
    async with _connected(url, len(steps)) as (conn, name, schema):
        await migrate(conn, name, schema, steps, progress)
        if roles:
            await grant(conn, schema, roles)
