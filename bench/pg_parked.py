"""A hundred thousand runs parked in PostgreSQL, or a million: list, search, decide and sweep them;
and what one of them takes up, and leaves behind when it is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import bulk, load, pending, teller
from bench.pg_cycle import opened
from bench.report import Report, number
from bench.server import Server, started
from bench.size import Size
from sayso import Sayso, approve
from sayso.store.postgres import PostgresStore
from sayso.testing import FakeClock

TABLES = ("runs", "journal", "holds", "waiting")

PROOF = 20
"""So many loaded runs are compared with a real one, and"""
FINISHED = 3
"""so many are decided and finished by an agent."""
_SIZES = """
select case when c.relname like 'journal%%' then 'journal' else c.relname end,
    sum(pg_table_size(c.oid))::bigint, sum(pg_indexes_size(c.oid))::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relkind = 'r' group by 1
"""


_DEPTHS = """
select i.relname, m.level from pg_class i join pg_namespace n on n.oid = i.relnamespace
cross join lateral bt_metap(n.nspname || '.' || i.relname) m
where n.nspname = %s and i.relkind = 'i'
    and i.relname in ('runs_pkey', 'holds_pkey', 'waiting_pkey', 'journal_0_run_seq_key')
order by 1
"""
_DEAD = """
select case when relname like 'journal%%' then 'journal' else relname end,
    sum(n_tup_upd + n_tup_del)::bigint
from pg_stat_user_tables where schemaname = %s group by 1
"""
DECIDED = 100
STATS_S = 2.0
"""Within it a connection has told what it did."""


async def measure(report: Report, folder: Path, size: Size) -> None:
    few, many = size.pending_few, size.parked
    report.head(f"PostgreSQL, {many:,} parked runs, {size.due:,} with one deadline")
    clock = FakeClock()
    with started(folder) as server, report.about("PostgreSQL"):
        async with (
            _place(server, clock, size, few, few) as one,
            _place(server, clock, size, many, size.due) as other,
        ):
            _space(report, server, other[1], many + size.decisions * 4)
            places = one[0], other[0]
            await pending._list(report, size, *places)
            await pending._search(report, size, *places)
            await pending._decide(report, size, *places)
            await _leavings(report, other[0], server, other[1])
            clock.advance("4h")
            await pending._sweep(report, *places, most_ms=100)


def _space(report: Report, server: Server, schema: str, runs: int) -> None:
    """Say what a parked run takes up, in tables and in indexes."""
    found = {name: (rows, keys) for name, rows, keys in server.execute(_SIZES, schema)}
    total = 0
    for name in TABLES:
        rows, keys = (int(str(one)) / runs for one in found[name])
        total += rows + keys
        report.plain(f"a parked run: {name}", f"{rows:.0f} B, indexes {keys:.0f} B")
    report.plain("a parked run on disk", f"{total:,.0f} B")
    server.execute("create extension if not exists pageinspect")
    depths = server.execute(_DEPTHS, schema)
    report.plain("levels of its indexes", ", ".join(f"{name} {deep}" for name, deep in depths))


async def _leavings(report: Report, place: pending.Place, server: Server, schema: str) -> None:
    """Say what a decision writes to the log, and which dead rows it leaves."""
    before, log = _dead(server, schema), server.wal_bytes()
    count = min(DECIDED, len(place.later) // 4)
    holds = [f"hold_{run_id.removeprefix('run_')}.1" for run_id in place.later[-count:]]
    del place.later[-count:]
    for hold in holds:
        await pending._approve(place, hold)
    logged = server.wal_bytes() - log
    await asyncio.sleep(STATS_S)
    dead = {name: count - before.get(name, 0) for name, count in _dead(server, schema).items()}
    report.plain("log a decision", f"{number(logged / len(holds) / 1000)} KB")
    said = ", ".join(f"{name} {dead[name] / len(holds):.2g}" for name in (*TABLES, "ends"))
    report.plain("dead rows a decision", said)


def _dead(server: Server, schema: str) -> dict[str, int]:
    """How many rows were left for vacuum, ever."""
    return {str(name): int(str(count)) for name, count in server.execute(_DEAD, schema)}


@asynccontextmanager
async def _place(
    server: Server, clock: FakeClock, size: Size, count: int, due: int
) -> AsyncGenerator[tuple[pending.Place, str]]:
    """Fill a schema: so many parked, some with one deadline, the others with later ones."""
    schema = server.schema()
    async with opened(server, schema, clock=clock) as store:
        later = await fill(server, store, schema, count, due, spare=size.decisions * 4)
        async with Sayso(store, agents=[teller.make_teller()], work=False) as app:
            place = pending.Place(app=app, name=f"of {count:,}", count=due, later=later)
            yield place, schema


async def fill(
    server: Server, store: PostgresStore, schema: str, count: int, due: int, *, spare: int
) -> list[str]:
    """Park so many runs, prove a sample of them equal to a real one, and finish some; give the ids
    of the spare ones, whose deadline is a day later.
    """
    loader = bulk.Loader(server.url, schema)
    try:
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            pattern_of, real = [teller.run_of(await teller.ask(app)) for _ in range(2)]
            pattern = await load.read_pattern(store, pattern_of)
            made = loader.load(pattern, pattern_of, due - 2 + FINISHED)
            made += loader.load(pattern, pattern_of, count - due, later_ms=pending.DAY_MS * 2)
            later = loader.load(pattern, pattern_of, spare, later_ms=pending.DAY_MS)
            loader.settle()
            sample = [one for ids in (made, later) for one in ids[:: max(len(ids) // PROOF, 1)]]
            bulk.prove(loader, real, sample)
            await bulk.prove_sound(store, sample)
            for run_id in made[:FINISHED]:
                hold = f"hold_{run_id.removeprefix('run_')}.1"
                await app.decide(hold, approve(), by=teller.BY)
                await teller.finish(app, run_id)
    finally:
        loader.close()
    return later
