"""The cycle on PostgreSQL: one after another and 64 at once, against the driver alone."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from psycopg_pool import AsyncConnectionPool

from bench import floors, teller
from bench.cycle import AT_ONCE, _ms, _per_s
from bench.measure import Series, at_once, rounds
from bench.report import Report, number
from bench.server import Server, started
from bench.size import Size
from sayso import Sayso
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_link import POOL_MAX, Link
from sayso.store.postgres_pen import APPEND


class PsycopgFloor:
    """psycopg and its pool as their documentation shows them; a block is a transaction."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, url: str, schema: str) -> Self:
        async def configure(conn: Any) -> None:
            await conn.execute(f"set search_path = {schema}")
            await conn.commit()

        pool = AsyncConnectionPool(url, max_size=POOL_MAX, open=False, configure=configure)
        await pool.open()
        return cls(pool)

    async def write(self, *statements: floors.Statement) -> None:
        async with self._pool.connection() as conn:
            for sql, bindings in statements:
                await conn.execute(sql.replace("?", "%s").encode(), bindings)

    async def read(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        async with self._pool.connection() as conn:
            return await (await conn.execute(sql.replace("?", "%s").encode(), bindings)).fetchall()

    async def close(self) -> None:
        await self._pool.close()


async def measure(report: Report, folder: Path, size: Size) -> None:
    with started(folder) as server, report.about("PostgreSQL"):
        async with (
            floor(server) as psycopg,
            opened(server) as store,
            Sayso(store, agents=[teller.make_teller()]) as app,
        ):
            await _one_after_another(report, size, server, psycopg, app)
            await _many_at_once(report, size, server, psycopg, app)


@asynccontextmanager
async def floor(server: Server):
    schema = server.schema()
    server.execute(f"create schema {schema}; set search_path = {schema}; {floors.SCHEMA}")
    async with floors.opened(PsycopgFloor.open(server.url, schema)) as found:
        yield found


@asynccontextmanager
async def opened(server: Server, schema: str = "", **options: Any):
    store = await PostgresStore.open(server.url, schema=schema or server.schema(), **options)
    try:
        yield store
    finally:
        await store.close()


async def _one_after_another(
    report: Report, size: Size, server: Server, psycopg: floors.Floor, app: Sayso
) -> None:
    report.head("PostgreSQL, one after another")
    found = await rounds(
        {"floor": floors.cycles_of(psycopg), "sayso": teller.cycles_of(app)},
        times=size.rounds,
        cycles=max(size.cycles // 2, 1),
    )
    ours, theirs = found["sayso"], found["floor"]
    report.plain("floor: psycopg, three commits", _ms(theirs))
    report.ratio("one after another", _ms(ours), ours.to(theirs), "psycopg", most=3)
    _cpu(report, "one after another: CPU", ours, theirs)
    cycles = max(size.cycles // 2, 1)
    with counted() as count:
        before, log = server.cpu_s(), server.wal_bytes()
        await at_once(1, cycles, lambda: teller.cycle(app))
        used, logged = server.cpu_s() - before, server.wal_bytes() - log
    report.plain("round trips a cycle", number((count["read"] + count["write"]) / cycles))
    report.below("commits a cycle", count["append"] / cycles, "", 5)
    report.plain("CPU of the server a cycle", f"{number(used * 1000 / cycles)} ms")
    report.plain("log written a cycle", f"{number(logged / cycles / 1000)} KB")


async def _many_at_once(
    report: Report, size: Size, server: Server, psycopg: floors.Floor, app: Sayso
) -> None:
    report.head("PostgreSQL, 64 at once")
    cycles = max(size.cycles_at_once // 2, AT_ONCE)
    found = await rounds(
        {
            "floor": lambda count: at_once(AT_ONCE, count, lambda: floors.cycle(psycopg)),
            "sayso": lambda count: at_once(AT_ONCE, count, lambda: teller.cycle(app)),
        },
        times=max(size.rounds // 2, 1),
        cycles=cycles,
    )
    ours, theirs = found["sayso"], found["floor"]
    report.plain("floor: psycopg, 64 at once", _per_s(theirs))
    report.ratio("64 at once", _per_s(ours), 1 / ours.to(theirs), "psycopg")
    _cpu(report, "64 at once: CPU", ours, theirs)
    with counted() as count:
        before = server.cpu_s()
        await at_once(AT_ONCE, cycles, lambda: teller.cycle(app))
        used = server.cpu_s() - before
    report.plain("64 at once: commits a cycle", number(count["append"] / cycles))
    trips = (count["read"] + count["write"]) / cycles
    report.plain("64 at once: round trips a cycle", number(trips))
    report.plain("64 at once: CPU of the server", f"{number(used * 1000 / cycles)} ms")


def _cpu(report: Report, name: str, ours: Series, theirs: Series) -> None:
    report.ratio(name, f"{number(ours.cpu_ms)} ms CPU", ours.cpu_to(theirs), "psycopg's CPU")


class counted:  # noqa: N801 - it is used as a statement.
    """Count the round trips of every store in this process, by whether they read or write; and the
    appends among those, without claims and heartbeats.
    """

    def __enter__(self) -> dict[str, int]:
        self._real = Link.read, Link.write
        count = {"read": 0, "write": 0, "append": 0}
        read, write = self._real

        async def counting_read(link: Link, *args: Any) -> Any:
            count["read"] += 1
            return await read(link, *args)

        async def counting_write(link: Link, sql: str, *args: Any, **how: Any) -> Any:
            count["write"] += 1
            count["append"] += sql is APPEND
            return await write(link, sql, *args, **how)

        Link.read, Link.write = counting_read, counting_write  # type: ignore[method-assign]
        return count

    def __exit__(self, *_: object) -> None:
        Link.read, Link.write = self._real
