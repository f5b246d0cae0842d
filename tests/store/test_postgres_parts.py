"""The journal of a database in parts: none can be cut, and each question reads what it needs."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from bench import bulk, load, teller
from sayso import Sayso, approve
from sayso.errors import StoreError
from sayso.store import audit
from sayso.store.look import Want, Wish
from sayso.store.postgres import PostgresStore
from sayso.store.query import HoldQuery, RunQuery
from sayso.testing.contract import hold_row, write
from tests.postgres import Cluster

PARTS = 16
LARGE = ("journal_", "runs", "holds", "waiting", "shelf")
LOADED = 1500
_WANTS = (Want("person"), Want("person", "mira"), Want("identity", "mira"))
EXPLAIN = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
}
"""So that the server tells the plan of whatever it does, to whoever asked for it."""


@pytest.fixture
def schema(postgres: Cluster):
    name = postgres.schema()
    yield name
    postgres.drop(name)


async def test_no_part_of_the_journal_is_changed_or_cut(postgres, schema):
    store = await PostgresStore.open(postgres.url("postgres"), schema=schema)
    for n in range(1, 40):
        await store.append(write(f"run_{n}"))
    await store.close()
    full = {
        part
        for (part,) in postgres.execute(f"select distinct tableoid::regclass from {schema}.journal")
    }
    parts = [f"{schema}.journal", *(f"{schema}.journal_{n}" for n in range(PARTS))]
    assert len(full) > PARTS // 2

    for part in parts:
        refused = [f"truncate {part}", f"truncate {part} cascade"]
        if part in full or part == parts[0]:
            refused += [
                f"delete from {part}",
                f"update {part} set payload = ''",
                f"update {part} set run = run + 1",
                f"update {part} set salt = null, payload = sha256(payload), position = 7",
            ]
        for statement in refused:
            with pytest.raises(psycopg.errors.RestrictViolation):
                postgres.execute(statement)
    assert postgres.execute(f"select count(*) from {schema}.journal") == [(39,)]


async def test_one_number_has_one_entry_whichever_part_is_written_to(postgres, schema):
    store = await PostgresStore.open(postgres.url("postgres"), schema=schema)
    await store.append(write())
    await store.close()
    ((part,),) = postgres.execute(f"select tableoid::regclass::text from {schema}.journal")

    for place in (f"{schema}.journal", part):
        with pytest.raises(psycopg.errors.UniqueViolation):
            postgres.execute(f"insert into {place} select * from {part}")


async def test_no_position_is_given_twice_even_without_the_lock(postgres, schema):
    store = await PostgresStore.open(postgres.url("postgres"), schema=schema)
    await store.append(write())
    with psycopg.connect(postgres.url("postgres")) as conn:
        conn.execute(f"update {schema}.ends set position = position + 1")
        answer = store.append(write("run_2"))
        await until_waiting(postgres)
        conn.commit()

    with pytest.raises(StoreError):
        await answer

    assert (await store.append(write("run_2"))).position == 3
    assert await store.load("run_2") is not None
    await store.close()


async def until_waiting(postgres: Cluster) -> None:
    """Wait until somebody waits for a lock."""
    waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    for _ in range(500):
        if postgres.execute(waits) != [(0,)]:
            return
        await asyncio.sleep(0.02)
    pytest.fail("nobody waits")


class Plans:
    """What the server has planned and done, for statements and for what they call."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        text = notice.message_primary or ""
        if "plan:" in text:
            self.told.append(json.loads(text.partition("plan:")[2]))

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every node that was carried out."""
        todo = [one["Plan"] for one in self.told]
        while todo:
            node = todo.pop()
            todo += node.get("Plans", [])
            if node["Actual Loops"]:
                yield node

    def read(self, *tables: str) -> int:
        """Give the most rows that one node has looked at in these tables."""
        return max(
            (
                (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
                for node in self.nodes()
                if node.get("Relation Name", "").startswith(tables)
            ),
            default=0,
        )

    def parts(self) -> set[str]:
        """Name the parts of the journal that were looked into."""
        names = {node.get("Relation Name", "") for node in self.nodes()}
        return {name for name in names if name.startswith("journal_")}


@asynccontextmanager
async def explained(postgres: Cluster, schema: str):
    """A store on one connection that tells its plans, from the first statement on."""
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in EXPLAIN.items())
    url = f"{postgres.url('postgres')}&options={options}"
    store = await PostgresStore.open(url, schema=schema, pool_max=1, listen=False)
    await store._ear.close()  # It would ask questions of its own in between.
    plans = Plans()
    async with store._link._pool.connection() as conn:
        conn.add_notice_handler(plans.hear)
    try:
        yield store, plans
    finally:
        await store.close()


@pytest.mark.parametrize("known", [False, True])
async def test_every_question_reads_what_it_answers_and_no_more(postgres, schema, known):
    """With enough rows that anything else would show. The plans are made before there are any, or
    when the server knows how many there are.
    """
    async with explained(postgres, schema) as (store, plans):
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            run_id = teller.run_of(await teller.ask(app))
        if not known:
            await ask_all(store, plans, run_id)
        loader = bulk.Loader(postgres.url("postgres"), schema)
        loader.load(await load.read_pattern(store, run_id), run_id, LOADED)
        if known:
            loader.settle()
        loader.close()

        found = await ask_all(store, plans, run_id)

        assert found.pop("tail") <= 20
        assert found == {
            "load": 1,
            "journal": 4,
            "entries": 2,
            "look": 1,
            "look at all of it": 4,
            # What opened it, and what has its arguments, by one look.
            "hold": 2,
            "holds of a run": 2,
            "list": 20,
            "list from the middle": 20,
            "list of a person": 20,
            "runs": 20,
            "due": 0,
            "claim": 0,
        }
        plans.told.clear()
        await store.append(write("run_new", holds=(hold_row(),)))
        await store.append(write("run_new", after=1))
        assert plans.read(*LARGE) <= 1
        assert len(plans.parts()) == 0


async def ask_all(store: PostgresStore, plans: Plans, run_id: str) -> dict[str, int]:
    """Ask everything; give how many rows each question has looked at, in the table where it was
    most. Nothing but `tail` and lists looks into more than one part of the journal.
    """
    middle = (await store.holds(HoldQuery(limit=20)))[-1].key
    questions = {
        "load": lambda: store.load(run_id),
        "journal": lambda: store.journal(run_id),
        "entries": lambda: store.entries(run_id, [2, 3]),
        "look": lambda: store.look(run_id, Wish(items=_WANTS)),
        "look at all of it": lambda: store.look(run_id, Wish(items=_WANTS, journal_max=500)),
        "hold": lambda: store.hold(run_id, 1),
        "holds of a run": lambda: store.holds(HoldQuery(run_id=run_id)),
        "tail": lambda: store.tail(after=9, limit=20),
        "list": lambda: store.holds(HoldQuery(limit=20)),
        "list from the middle": lambda: store.holds(HoldQuery(limit=20, after=middle)),
        "list of a person": lambda: store.holds(HoldQuery(who=("user:mira",), limit=20)),
        "runs": lambda: store.runs(RunQuery(status="suspended", limit=20)),
        "due": lambda: store.due(limit=20),
        "claim": lambda: store.claim("w"),
    }
    found: dict[str, int] = {}
    for name, question in questions.items():
        plans.told.clear()
        await question()
        assert plans.told, name
        found[name] = int(plans.read(*LARGE))
        assert name in ("tail", "list", "list from the middle", "list of a person") or (
            len(plans.parts()) <= 1
        )
        if name == "tail":
            assert "Merge Append" in {node["Node Type"] for node in plans.nodes()}
    return found


async def test_a_beginning_looks_at_no_archived_run_but_its_own(postgres, schema):
    async with explained(postgres, schema) as (store, plans):
        postgres.execute(
            f"set search_path = {schema}; "
            "insert into archives values (1, 'x', repeat('0', 64), 1, 1, 1); "
            "insert into archived select 'old_' || n, 'p', 'thread_' || n, 1, sha256(''), 1 "
            "from generate_series(1, 200) n"
        )
        for n, thread in enumerate(("", "new"), 1):
            plans.told.clear()

            await store.append(write(f"run_{n}", project="p", thread=thread))

            assert any(one.get("Relation Name") == "archived" for one in plans.nodes())
            assert plans.read("archived") == 0


async def test_positions_are_given_as_fast_while_somebody_keeps_an_old_view(postgres, schema):
    """A backup does, for hours, and nothing that is written meanwhile can be cleaned away."""
    async with explained(postgres, schema) as (store, plans):
        await store.append(write())
        with psycopg.connect(postgres.url("postgres")) as conn:
            conn.execute("begin isolation level repeatable read")
            conn.execute(f"select from {schema}.ends")
            for n in range(1, 300):
                await store.append(write(after=n))
            plans.told.clear()

            await store.append(write(after=300))

        ways = {one["Node Type"] for one in plans.nodes() if one.get("Alias") == "ends"}
        assert ways <= {"Index Scan", "Index Only Scan", "ModifyTable"}
        assert plans.read("ends") == 1
        assert (await audit.verify(store)).entries == 301


async def test_runs_that_a_server_has_made_are_as_real_ones_are(postgres, schema):
    url = postgres.url("postgres")
    store = await PostgresStore.open(url, schema=schema)
    loader = bulk.Loader(url, schema)
    async with Sayso(store, agents=[teller.make_teller()]) as app:
        pattern_of, real = [teller.run_of(await teller.ask(app)) for _ in range(2)]
        pattern = await load.read_pattern(store, pattern_of)

        made = loader.load(pattern, pattern_of, 30)
        later = loader.load(pattern, pattern_of, 3, later_ms=1000)

        bulk.prove(loader, real, [*made, *later])
        hold = (await app.holds(by=teller.BY, limit=9, search=made[7]))[0]
        await app.decide(hold, approve(), by=teller.BY)
        await teller.finish(app, made[7])
    report = await audit.verify(store)
    assert (report.ok, report.runs, report.holds) == (True, 35, 35)
    due = dict(loader.read("select id, due_at from runs"))
    assert due[later[0]] == due[made[0]] + 1000
    loader.close()
    await store.close()


@pytest.mark.parametrize("column", ["state", "status", "who", "words"])
async def test_a_loaded_run_that_is_otherwise_is_noticed(postgres, schema, column):
    url = postgres.url("postgres")
    store = await PostgresStore.open(url, schema=schema)
    async with Sayso(store, agents=[teller.make_teller()]) as app:
        pattern_of, real = [teller.run_of(await teller.ask(app)) for _ in range(2)]
    loader = bulk.Loader(url, schema)
    (one,) = loader.load(await load.read_pattern(store, pattern_of), pattern_of, 1)
    change = {
        "state": "runs set state = state || ' '::bytea",
        "status": "runs set status = 'running'",
        "who": "holds set who = who || array['user:eve']",
        "words": "holds set words = 'pay'",
    }[column]
    ((k,),) = loader.read("select k from runs where id = %s", one)
    key = "k" if change.startswith("runs") else "run"
    postgres.execute(f"set search_path = {schema}; update {change} where {key} = {k}")

    with pytest.raises(AssertionError, match="not like real ones"):
        bulk.prove(loader, real, [one])

    loader.close()
    await store.close()
