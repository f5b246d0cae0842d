"""Searches of a file: beside the event loop, bounded, and found by what people see.

A search that never ends is played by a view in place of the holds that has endless rows.
"""

import asyncio
import threading

import apsw
import pytest

from sayso import Agent, Sayso, approve, tool
from sayso.errors import BadValue, StoreBusy, StoreClosed
from sayso.store.memory import MemoryStore
from sayso.store.query import HoldQuery
from sayso.store.sqlite import SqliteStore
from sayso.store.sqlite_search import SEARCHES_MAX, Search
from sayso.store.words import fold, read_search
from sayso.testing import ScriptedModel, call, say
from sayso.testing.contract import hold_row, refused, write

QUERY = HoldQuery(search=("nobody",))


@tool(approval=True, title="Pay somebody in Zürich", effect="once")
def pay(amount: int, to: str) -> str:
    return f"paid {amount}"


def teller():
    turns = [call("pay", {"amount": 4711, "to": "Hanako"}), say("Done.")]
    return Agent("Teller", model=ScriptedModel(turns), tools=[pay])


class Endless:
    """Searches that never come to an end by themselves."""

    def __init__(self, most_s=600.0):
        self.begun = threading.Semaphore(0)
        self.threads = set()
        self.search = Search(self.open, most_s)

    def open(self):
        conn = apsw.Connection(":memory:")
        conn.execute(
            """
            create table runs (k, id, project, agent);
            create table journal (position, run, seq, id, at, salt, payload, hash);
            insert into runs values (1, 'run_1', 'p', 'teller');
            insert into journal values (1, 1, 0, x'', 0, x'', x'', x'');
            create view holds as
                with recursive endless (opened) as (
                    select 1 union all select opened + 1 from endless
                )
                select opened, 1 as run, 1 as n, 'open' as status, 'pay' as words, 0 as suspension,
                    0 as call, 0 as kind, 0 as tool, 0 as version, 0 as digest, 0 as entry,
                    0 as revised, 0 as args_entry, 0 as opened_at, 0 as deadline, 0 as who,
                    0 as decision, 0 as votes, 0 as escalates_at
                from endless;
            """
        ).fetchall()
        conn.exec_trace = self.trace
        return conn

    def trace(self, *_):
        self.threads.add(threading.get_ident())
        self.begun.release()
        return True

    async def started(self):
        task = asyncio.create_task(self.search.holds(QUERY))
        await asyncio.to_thread(self.begun.acquire)
        return task


async def test_the_event_loop_goes_on_while_a_search_does():
    endless = Endless()
    task = await endless.started()

    for _ in range(100):
        await asyncio.sleep(0)

    assert not task.done()
    assert threading.get_ident() not in endless.threads
    await endless.search.close()
    await refused(StoreClosed, task)


async def test_a_search_that_takes_too_long_is_broken_off():
    endless = Endless(most_s=0.0)

    told = await refused(StoreBusy, endless.search.holds(QUERY))

    assert "longer than 0 seconds" in str(told)
    await endless.search.close()


async def test_a_search_that_nobody_waits_for_is_broken_off():
    endless = Endless()
    task = await endless.started()

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    await (await next_one(endless))
    await endless.search.close()


async def next_one(endless):
    """What comes after a search gets its turn only once that is over."""
    return asyncio.wrap_future(endless.search._pool.submit(int))


async def test_no_more_than_so_many_searches_wait():
    endless = Endless()
    first = await endless.started()
    rest = [asyncio.create_task(endless.search.holds(QUERY)) for _ in range(SEARCHES_MAX - 1)]
    await asyncio.sleep(0)

    told = await refused(StoreBusy, endless.search.holds(QUERY))

    assert "try again" in str(told)
    rest.pop().cancel()
    await asyncio.sleep(0)
    again = asyncio.create_task(endless.search.holds(QUERY))
    await asyncio.sleep(0)
    assert not again.done()
    await endless.search.close()
    for task in (first, *rest, again):
        await refused(StoreClosed, task)


async def test_a_store_searches_on_another_thread_and_connection(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write(holds=(hold_row(who=("a", "b"), words="Jiro"),)))
    seen = []

    def watch(conn):
        def trace(cursor, sql, bindings):
            seen.append((threading.get_ident(), sql, bindings, conn))
            return True

        conn.exec_trace = trace

    apsw.connection_hooks.append(watch)
    try:
        for who in (None, ("a", "b")):
            await store.holds(HoldQuery(search=("nobody", "x"), who=who, project="p", after="1.0"))
        await store.holds(HoldQuery(search=("nobody",), status="any"))
    finally:
        apsw.connection_hooks.remove(watch)

    searched = [one for one in seen if "instr" in one[1]]
    assert len(searched) == 4
    assert threading.get_ident() not in {one[0] for one in searched}
    reader = store._reader._conn
    for _, sql, bindings, conn in searched:
        assert conn is not reader
        plan = [row[3] for row in reader.execute(f"explain query plan {sql}", bindings).fetchall()]
        # In the order of the list: the first page of a word that is common needs no more than that.
        assert not any(step.startswith(("SCAN h", "SCAN r", "SCAN waiting")) for step in plan), plan
        assert "union" in sql or not any("ORDER BY" in step for step in plan), plan
    await store.close()


async def test_a_store_that_is_closed_leaves_no_search_behind(tmp_path):
    store = await SqliteStore.open(tmp_path / "sayso.db")
    await store.append(write(holds=(hold_row(),)))
    await store.holds(QUERY)

    await store.close()

    assert not (tmp_path / "sayso.db-wal").exists()
    assert not [t for t in threading.enumerate() if t.name.startswith("sayso search")]
    await refused(StoreClosed, store.holds(QUERY))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_holds_are_found_by_what_people_see(tmp_path, kind):
    store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "sayso.db")
    async with Sayso(store, agents=[teller()]) as app:
        runs = [await app.start("Teller", "Pay them quickly", by=by) for by in ("mira", "Ann")]
        holds = [(await run.wait(timeout=20)).holds[0] for run in runs]

        async def found(search, **more):
            return [hold.run_id for hold in await app.holds(search=search, **more)]

        both, mira = [run.id for run in runs], [runs[0].id]
        assert await found("pay somebody") == both
        assert await found("ZÜRICH teller") == both
        assert await found("Zu\u0308rich") == both
        assert await found("mira pay") == mira
        assert await found("ann") == [runs[1].id]
        assert await found("pay", by="mira") == mira
        assert await found("ann", by="mira") == []
        assert await found(holds[0].id) == await found(holds[0].request_id) == mira
        assert await found(holds[0].run_id.upper()) == mira
        # What the call would be executed with, and what was said to the agent, are not searched.
        assert await found("hanako") == await found("4711") == await found("quickly") == []
        assert await found(None) == await found("") == await found(" \t ") == both
        assert await found("pay", project="other") == []
        page = await app.holds(search="pay", limit=1)
        assert await found("pay", after=page.next) == both[1:]

        await app.decide(holds[0], approve(), by="mira")
        await runs[0].wait(final=True, timeout=20)
        assert await found("mira pay") == []
        assert await found("mira pay", status="settled") == mira
        assert await found("mira pay", status="any") == mira
    await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_was_redacted_is_found_no_more(tmp_path, kind):
    store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "sayso.db")
    async with Sayso(store, agents=[teller()]) as app:
        run = await app.start("Teller", "Pay", by="mira")
        (hold,) = (await run.wait(timeout=20)).holds
        await app.decide(hold, approve(), by="mira")
        await run.wait(final=True, timeout=20)
        opened = (await store.hold(run.id, 1)).row.entry

        await app.redact(run, opened, by="mira")

        assert len(await app.holds(search="zürich", status="any")) == 0
        assert len(await app.holds(search="mira pay teller", status="any")) == 1
    await store.close()
    if kind == "sqlite":
        assert b"rich" not in (tmp_path / "sayso.db").read_bytes()


async def test_a_search_that_cannot_be_is_refused():
    async with Sayso("memory:", agents=[teller()]) as app:
        for search, told in (
            ("x" * 201, "200 characters"),
            ("\ufb03" * 100, "200 characters"),
            (" ".join("abcdefghijk"), "10 words"),
            ("\ud800", "half a character"),
            (b"pay", "text"),
            (7, "text"),
        ):
            assert told in str(await refused(BadValue, app.holds(search=search)))


def test_the_same_is_folded_alike():
    for one, other in (
        ("JIRO", "jiro"),
        ("Straße", "STRASSE"),
        ("É", "e\u0301"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("ﬁne", "FINE"),
        ("１２", "12"),
    ):
        assert fold(one) == fold(other)
    assert read_search("Pay  PAY\u00a0Jiro\n") == ("pay", "jiro")


def test_folding_twice_changes_nothing():
    for number in (*range(0xD800), *range(0xE000, 0x30000)):
        for mark in ("", "\u0345\u0301"):
            folded = fold(chr(number) + mark)
            assert fold(folded) == folded
