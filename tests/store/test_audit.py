"""The audit finds every fault, and none where there is none.

A store is filled by the real engine, copied, and tampered with through plain SQLite with our
triggers dropped, a thousand times, in every way that changes what somebody could read.
"""

import asyncio
import random
import shutil

import apsw
import msgspec
import pytest

from sayso import Agent, Sayso, approve, reject, tool
from sayso.domain import codec
from sayso.domain.run import FOLD_LIKE
from sayso.store import audit
from sayso.store.chain import leaf, link
from sayso.store.memory import MemoryStore
from sayso.store.query import RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.testing import ScriptedModel, call, say
from sayso.testing.contract import write

TAMPERINGS = 1000
PARTS = 4


@tool(approval=True, effect="once")
def pay(amount: int) -> str:
    return f"paid {amount}"


async def fill(store, runs=8, threads="t"):
    """Leave runs of every kind behind: parked, approved, edited, rejected, undone, cancelled."""
    turns = [[call("pay", {"amount": 1}), call("pay", {"amount": 2})], say("Done.")]
    teller = Agent("teller", model=ScriptedModel(turns), tools=[pay])
    async with Sayso(store, agents=[teller]) as app:
        for n in range(runs):
            run = await app.start("teller", f"Pay number {n}.", by="mira", thread=f"{threads}{n}")
            one, two = (await run.wait(timeout=20)).holds
            if n % 4 == 0:
                continue
            await app.decide(
                one, approve(args={"amount": 5}) if n % 4 == 1 else approve(), by="mira"
            )
            if n % 4 == 2:
                await app.decide(two, reject("no"), by="mira")
            if n % 4 == 3:
                await app.decide(two, approve(), by="mira", undo=600)
                await app.undo(two, by="mira")
                await app.cancel(run, by="mira")
            if n % 4 != 1:
                await run.wait(final=True, timeout=20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "sayso.db"

    async def make():
        store = await SqliteStore.open(path, bell=False)
        await fill(store)
        await store.close()

    asyncio.run(make())
    return path


async def verified(path):
    store = await SqliteStore.open(path, bell=False)
    report = await audit.verify(store)
    await store.close()
    return report


async def test_a_store_that_nobody_touched_has_no_fault(filled, tmp_path):
    shutil.copy(filled, tmp_path / "copy.db")

    report = await verified(tmp_path / "copy.db")

    assert report.faults == []
    assert report.ok
    assert (report.runs, report.holds, report.redacted) == (8, 16, 0)
    assert report.replayed == 8
    assert report.entries > 60


async def test_a_store_in_memory_is_audited_the_same_way():
    store = MemoryStore()
    await fill(store, runs=4)
    calls = []

    with_progress = await audit.verify(store, calls.append)

    assert with_progress.ok
    assert with_progress.runs == 4
    assert calls == [with_progress]


async def test_a_redacted_run_verifies_and_says_so(filled, tmp_path):
    shutil.copy(filled, tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", recovers=True)
    async with Sayso(store, agents=[], work=False) as app:
        finished = next(row for row in await store.runs(RunQuery()) if row.status == "completed")
        await app.redact(finished.id, 1, by="mira", reason="she asked")
    await store.close()

    report = await verified(tmp_path / "copy.db")

    assert report.faults == []
    assert report.redacted == 1
    assert report.replayed == 7


class Tamper:
    """Somebody with the file, plain SQLite and bad intentions."""

    def __init__(self, path, pristine, seed):
        self.chance = random.Random(seed)
        self.conn = apsw.Connection(str(path))
        self.conn.execute("attach ? as pristine", (str(pristine),))
        self.conn.execute(
            "drop trigger the_journal_is_never_cut; drop trigger the_journal_is_only_redacted;"
        )
        self.conn.pragma("ignore_check_constraints", 1)
        self.ways = [
            self.edit_entry,
            self.edit_entry,
            self.delete_entry,
            self.swap_entries,
            self.insert_entry,
            self.move_entry,
            self.erase_entry,
            self.edit_run,
            self.edit_hold,
            self.delete_hold,
            self.insert_hold,
            self.edit_list,
            self.delete_from_list,
            self.insert_into_list,
        ]

    def restore(self):
        self.conn.execute("begin immediate")
        for table in ("journal", "holds", "runs", "waiting", "audiences"):
            self.conn.execute(f"delete from {table}")
            self.conn.execute(f"insert into {table} select * from pristine.{table}")
        self.conn.execute("commit")

    def rows(self, table, columns="*"):
        return self.conn.execute(f"select {columns} from {table}").fetchall()

    def other(self, column, value):
        """Something else of the same kind."""
        if value is None:
            kinds = {
                "deadline": 7,
                "due_at": 7,
                "decision": b"{}",
                "votes": b"[]",
                "escalates_at": 7,
            }
            return kinds[column]
        if isinstance(value, bytes):
            at = self.chance.randrange(len(value))
            return (
                value[:at] + bytes([value[at] ^ (1 << self.chance.randrange(8))]) + value[at + 1 :]
            )
        if isinstance(value, int):
            return value + self.chance.choice((-1, 1, 1000))
        return f"{value}x"

    def edit(self, table, columns, where, key):
        column = self.chance.choice(columns)
        ((value,),) = self.conn.execute(
            f"select {column} from {table} where {where}", key
        ).fetchall()
        self.conn.execute(
            f"update {table} set {column} = ? where {where}", (self.other(column, value), *key)
        )
        return f"{table}.{column}"

    def edit_entry(self):
        (position,) = self.chance.choice(self.rows("journal", "position"))
        columns = ("seq", "id", "at", "salt", "payload", "hash", "run")
        try:
            return self.edit("journal", columns, "position = ?", (position,))
        except apsw.ConstraintError:  # The place was taken.
            return self.delete_entry()

    def delete_entry(self):
        (position,) = self.chance.choice(self.rows("journal", "position"))
        self.conn.execute("delete from journal where position = ?", (position,))
        return "an entry deleted"

    def swap_entries(self):
        one, two = self.chance.sample(
            self.rows("journal", "position, id, at, salt, payload, hash"), 2
        )
        for position, content in ((one[0], two[1:]), (two[0], one[1:])):
            self.conn.execute(
                "update journal set id = ?, at = ?, salt = ?, payload = ?, hash = ?"
                " where position = ?",
                (*content, position),
            )
        return "two entries swapped"

    def insert_entry(self):
        run, last = self.chance.choice(
            self.rows("journal", "run, max(seq) over (partition by run)")
        )
        run = self.chance.choice((run, run, 9999))
        self.conn.execute(
            "insert into journal (run, seq, id, at, salt, payload, hash)"
            " select ?, ?, id, at, salt, payload, hash from journal order by random() limit 1",
            (run, last + self.chance.choice((1, 2))),
        )
        return "an entry inserted"

    def move_entry(self):
        (run,) = self.chance.choice(self.rows("runs", "k"))
        positions = self.conn.execute(
            "select position from journal where run = ?", (run,)
        ).fetchall()
        (one,), (two,) = self.chance.sample(positions, 2)
        for old, new in ((one, -1), (two, one), (-1, two)):
            self.conn.execute("update journal set position = ? where position = ?", (new, old))
        return "two entries in each other's place"

    def erase_entry(self):
        position, salt, payload = self.chance.choice(
            self.rows("journal", "position, salt, payload")
        )
        self.conn.execute(
            "update journal set salt = null, payload = ? where position = ?",
            (leaf(salt, payload), position),
        )
        return "an entry erased"

    def edit_run(self):
        (k,) = self.chance.choice(self.rows("runs", "k"))
        columns = (
            "project",
            "agent",
            "thread",
            "status",
            "due_at",
            "seq",
            "hash",
            "state",
            "id",
            "last",
        )
        return self.edit("runs", columns, "k = ?", (k,))

    def edit_hold(self):
        key = self.chance.choice(self.rows("holds", "run, n"))
        columns = ("status", "call", "kind", "tool", "version", "digest", "suspension", "entry")
        columns += ("revised", "args_entry", "opened_at", "deadline", "who", "decision", "votes")
        columns += ("escalates_at", "words", "opened")
        return self.edit("holds", columns, "run = ? and n = ?", key)

    def delete_hold(self):
        key = self.chance.choice(self.rows("holds", "run, n"))
        self.conn.execute("delete from holds where run = ? and n = ?", key)
        return "a hold deleted"

    def insert_hold(self):
        self.conn.execute(
            "insert into holds select run, n + 7, opened, status, call, kind, tool, version,"
            " digest, suspension, entry, revised, args_entry, opened_at, deadline, who, decision,"
            " votes, escalates_at, words from holds order by random() limit 1"
        )
        return "a hold inserted"

    def edit_list(self):
        if self.chance.random() < 0.5:
            (k,) = self.chance.choice(self.rows("audiences", "k"))
            return self.edit("audiences", ("k", "project", "who"), "k = ?", (k,))
        key = self.chance.choice(self.rows("waiting", "audience, opened, n"))
        columns = ("audience", "opened", "n", "run")
        return self.edit("waiting", columns, "audience = ? and opened = ? and n = ?", key)

    def delete_from_list(self):
        key = self.chance.choice(self.rows("waiting", "audience, opened, n"))
        self.conn.execute("delete from waiting where audience = ? and opened = ? and n = ?", key)
        return "somebody not asked any more"

    def insert_into_list(self):
        self.conn.execute("insert or ignore into audiences (project, who) values ('', 'user:eve')")
        self.conn.execute(
            "insert into waiting select k, opened, n, run from holds join audiences a"
            " where a.who = 'user:eve' order by random() limit 1"
        )
        return "somebody else asked as well"


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_one_of_a_thousand_tamperings_is_found(filled, shm_path, part):
    path = shm_path / "tampered.db"
    shutil.copy(filled, path)
    shutil.copy(filled, shm_path / "pristine.db")
    tamper = Tamper(path, shm_path / "pristine.db", part)
    store = await SqliteStore.open(path, bell=False)
    missed, found = [], 0
    for n in range(TAMPERINGS // PARTS):
        what = tamper.chance.choice(tamper.ways)()
        report = await audit.verify(store)
        found += not report.ok
        missed += [f"{n}: {what}"] if report.ok else []
        tamper.restore()
    tamper.conn.close()

    assert missed == []
    assert found == TAMPERINGS // PARTS
    assert (await audit.verify(store)).ok
    await store.close()


async def test_a_row_of_the_fold_before_is_held_to_its_journal_as_well(filled, tmp_path):
    """It is read as it is, and not folded anew."""
    path = tmp_path / "copy.db"
    shutil.copy(filled, path)
    conn = apsw.Connection(str(path))
    conn.execute("update runs set fold = ?", (FOLD_LIKE,))
    assert (await verified(path)).ok
    ((run_id, state),) = conn.execute("select id, state from runs limit 1").fetchall()
    run = codec.decode_run(state)
    forged = codec.encode_run(msgspec.structs.replace(run, turns=run.turns + 1))
    conn.execute("update runs set state = ? where id = ?", (forged, run_id))
    conn.close()

    assert [fault.run_id for fault in (await verified(path)).faults] == [run_id]


async def test_an_entry_that_was_hashed_anew_is_found(filled, tmp_path):
    """Whoever knows how the chain is made can hash one entry anew; the next one does not fit."""
    path = tmp_path / "copy.db"
    shutil.copy(filled, path)
    conn = apsw.Connection(str(path))
    for (trigger,) in conn.execute("select name from sqlite_schema where type = 'trigger'"):
        conn.execute(f"drop trigger {trigger}")
    sql = "select r.id, j.position, j.id, j.at, j.salt, j.hash from journal j join runs r "
    sql += "on r.k = j.run where r.id = ? and j.seq = ?"
    (run_id,) = conn.execute("select id from runs limit 1").fetchall()[0]
    *_, before = conn.execute(sql, (run_id, 2)).fetchall()[0]
    _, position, entry_id, at, salt, _ = conn.execute(sql, (run_id, 3)).fetchall()[0]
    content = leaf(salt, b"{}")
    forged = link(before, run_id=run_id, seq=3, entry_id=entry_id, at=at, content=content)
    conn.execute(
        "update journal set payload = ?, hash = ? where position = ?", (b"{}", forged, position)
    )
    conn.close()

    store = await SqliteStore.open(path, bell=False)
    report = await audit.verify(store)
    await store.close()

    assert [(fault.run_id, fault.seq) for fault in report.faults] == [(run_id, 4)]


async def test_the_journal_refuses_changes_other_than_redaction(filled, tmp_path):
    shutil.copy(filled, tmp_path / "copy.db")
    conn = apsw.Connection(str(tmp_path / "copy.db"))
    before = conn.execute("select * from journal").fetchall()

    for change in (
        "delete from journal where position = 3",
        "update journal set payload = x'00' where position = 3",
        "update journal set salt = null, payload = x'00' where position = 3",
        "update journal set salt = null, at = 1, payload = randomblob(32) where position = 3",
        "update journal set seq = 99 where position = 3",
        "update journal set position = 999 where position = 3",
    ):
        with pytest.raises(apsw.ConstraintError):
            conn.execute(change)
    assert conn.execute("select * from journal").fetchall() == before
    conn.execute("update journal set salt = null, payload = randomblob(32) where position = 3")
    with pytest.raises(apsw.ConstraintError):
        conn.execute("update journal set salt = x'00' where position = 3")
    conn.close()


async def test_an_audit_goes_on_while_others_append(filled, tmp_path):
    shutil.copy(filled, tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", recovers=True)
    done = asyncio.Event()

    async def append():
        after = 0
        while not done.is_set():
            await store.append(write("run_other", after=after))
            after += 1

    appending = asyncio.create_task(append())
    report = await audit.verify(store)
    done.set()
    await appending

    # What the writes of this test say is no event, and that is all there is to find.
    assert {fault.run_id for fault in report.faults} <= {"run_other"}
    assert not any("chain" in fault.what or "missing" in fault.what for fault in report.faults)
    await store.close()
