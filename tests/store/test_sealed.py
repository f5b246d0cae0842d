"""Seals find what no chain can: a run that was hashed again, or removed, or cut off.

Whoever tampers here has the file, plain SQLite, and our own code: chains and rows are made
consistent again. All that is missing is the key.
"""

import asyncio
import random
import shutil

import apsw
import pytest
from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain.standing import status_of
from sayso.engine.sealer import Sealer
from sayso.engine.vault import Vault
from sayso.store import audit, chain, door
from sayso.store.keyring import KeyRing
from sayso.store.rows import take_steps
from sayso.store.seal import Seal, Tree, read_seal
from sayso.store.seal_key import Signer, public_keys
from sayso.store.sqlite import SqliteStore
from tests.store.test_audit import fill

TAMPERINGS = 1000
PARTS = 4
RING = KeyRing({"ours": b"o" * 32})
THEIRS = KeyRing({"ours": b"t" * 32})
TRUSTED = public_keys(RING)


def sealer(store, ring=RING) -> Sealer:
    return Sealer(store, Vault(lambda: ring), every_s=60)


async def make(path) -> None:
    store = await SqliteStore.open(path, bell=False)
    for n in range(4):
        await fill(store, runs=4, threads=f"t{n}.")
        for what in (b"one", b"two", b"three"):
            await store.door.note("p", what)
        await sealer(store).seal()
    await store.close()


async def copies_of(path) -> list[bytes]:
    store = await SqliteStore.open(path, bell=False)
    kept = [one.data for one in await store.seals.list()]
    await store.close()
    return kept


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    path = tmp_path_factory.mktemp("sealed") / "sayso.db"
    asyncio.run(make(path))
    return path, asyncio.run(copies_of(path))


class Tamper:
    """Somebody who knows how everything is made, and has no key."""

    def __init__(self, path, pristine, seed):
        self.chance = random.Random(seed)
        self.conn = apsw.Connection(str(path))
        self.conn.execute("attach ? as pristine", (str(pristine),))
        for (name,) in self.rows("sqlite_schema where type = 'trigger'", "name"):
            self.conn.execute(f"drop trigger {name}")
        self.ways = [
            self.hash_again,
            self.remove_run,
            self.cut_run,
            self.swap_seals,
            self.edit_seal,
            self.remove_seals,
            self.forge_seals,
            self.edit_door,
            self.cut_door,
            self.hash_door_again,
        ]

    def restore(self):
        self.conn.execute("begin immediate")
        for table in ("waiting", "keys", "journal", "holds", "runs", "seals", "door"):
            self.conn.execute(f"delete from {table}")
            self.conn.execute(f"insert into {table} select * from pristine.{table}")
        self.conn.execute("commit")

    def rows(self, table, columns="*"):
        return self.conn.execute(f"select {columns} from {table}").fetchall()

    def a_run(self):
        return self.chance.choice(self.rows("runs", "k, id"))

    def journal(self, k):
        return self.conn.execute(
            "select seq, id, at, salt, payload from journal where run = ? order by seq", (k,)
        ).fetchall()

    def hash_again(self):
        """Have the run say something else, from its first entry on."""
        k, run_id = self.a_run()
        prev = chain.GENESIS
        for seq, entry_id, at, salt, was in self.journal(k):
            payload = was
            if seq == 1:
                event = codec.decode_event(was)
                payload = codec.encode_event(replace(event, input=event.input + " Twice."))
            prev = chain.link(
                prev,
                run_id=run_id,
                seq=seq,
                entry_id=entry_id,
                at=at,
                content=chain.leaf(salt, payload),
            )
            self.conn.execute(
                "update journal set payload = ?, hash = ? where run = ? and seq = ?",
                (payload, prev, k, seq),
            )
        self.conn.execute("update runs set hash = ? where k = ?", (prev, k))
        return "entries were exchanged or hashed again"

    def remove_run(self):
        k, _ = self.a_run()
        for table, column in (
            ("waiting", "run"),
            ("keys", "run"),
            ("holds", "run"),
            ("journal", "run"),
            ("runs", "k"),
        ):
            self.conn.execute(f"delete from {table} where {column} = ?", (k,))
        return "entries were removed"

    def cut_run(self):
        """Take a run back to its beginning, rows and all."""
        k, _ = self.a_run()
        ((_, entry_id, _, _, payload), *_) = self.journal(k)
        run = take_steps(None, [codec.decode_event(payload)])[-1].after
        ((last,),) = self.conn.execute(
            "select hash from journal where run = ? and seq = 1", (k,)
        ).fetchall()
        self.conn.execute("delete from journal where run = ? and seq > 1", (k,))
        self.conn.execute("delete from holds where run = ?", (k,))
        self.conn.execute("delete from waiting where run = ?", (k,))
        self.conn.execute(
            "update runs set seq = 1, hash = ?, last = ?, state = ?, status = ?, due_at = null,"
            " owner = '' where k = ?",
            (last, entry_id, codec.encode_run(run), status_of(run).value, k),
        )
        return "entries were removed"

    def seals(self):
        return [read_seal(data) for (data,) in self.rows("seals order by n", "data")]

    def put_seals(self, seals):
        self.conn.execute("delete from seals")
        rows = [(n, seal.line()) for n, seal in enumerate(seals, start=1)]
        self.conn.executemany("insert into seals values (?, ?)", rows)

    def swap_seals(self):
        seals = self.seals()
        one, two = self.chance.sample(range(len(seals)), 2)
        seals[one], seals[two] = seals[two], seals[one]
        self.put_seals(seals)
        return f"where seal {min(one, two) + 1} should be is seal {max(one, two) + 1}"

    def edit_seal(self):
        seals = self.seals()
        at = self.chance.randrange(len(seals))
        name = self.chance.choice([f for f in Seal.__struct_fields__ if f != "n"])
        was = getattr(seals[at], name)
        other = was + 1 if isinstance(was, int) else was[:-1] + ("0" if was[-1] != "0" else "1")
        seals[at] = replace(seals[at], **{name: other})
        self.put_seals(seals)
        return f"seal {at + 1} in the store is not the one that was kept outside"

    def remove_seals(self):
        n = self.chance.randrange(1, len(self.seals()) + 1)
        tail = self.chance.random() < 0.5
        self.conn.execute(f"delete from seals where n {'>=' if tail else '='} ?", (n,))
        return "not in the store any more, but in what was kept outside"

    def forge_seals(self):
        """Hash a run again, and seal everything again with a key that fits nothing."""
        self.hash_again()
        signer, made = Signer(THEIRS), []
        before = bytes(32)
        for seal in self.seals():
            tree = Tree()
            for (leaf,) in self.conn.execute(
                "select hash from journal where position between ? and ? order by position",
                (seal.first, seal.last),
            ):
                tree.add(leaf)
            made.append(signer.sign(replace(seal, root=tree.root().hex(), before=before.hex())))
            before = made[-1].hash()
        self.put_seals(made)
        return "in the store is not the one that was kept outside"

    def edit_door(self):
        (n,) = self.chance.choice(self.rows("door", "n"))
        change = self.chance.choice(
            [
                "payload = x'00'",
                "project = 'q'",
                "at = at + 1",
                "at = -1",
                "salt = x'00'",
                "hash = zeroblob(32)",
            ]
        )
        self.conn.execute(f"update door set {change} where n = ?", (n,))
        return "of the door log was changed after it was written"

    def cut_door(self):
        (n,) = self.chance.choice(self.rows("door", "n"))
        tail = self.chance.random() < 0.5
        self.conn.execute(f"delete from door where n {'>=' if tail else '='} ?", (n,))
        return "door log"

    def hash_door_again(self):
        (first,) = self.chance.choice(self.rows("door", "n"))
        prev = door.GENESIS
        for n, project, at, salt, was in self.rows(
            "door order by n", "n, project, at, salt, payload"
        ):
            payload = b"nobody was refused" if n == first else was
            prev = door.link(prev, project=project, n=n, at=at, salt=salt, payload=payload)
            self.conn.execute(
                "update door set payload = ?, hash = ? where n = ?", (payload, prev, n)
            )
        return "the door log was changed"


def said(report) -> str:
    return "\n".join(fault.what for fault in report.faults)


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_one_of_a_thousand_tamperings_is_found_and_named(sealed, shm_path, part):
    pristine, copies = sealed
    path = shm_path / "tampered.db"
    shutil.copy(pristine, path)
    shutil.copy(pristine, shm_path / "pristine.db")
    tamper = Tamper(path, shm_path / "pristine.db", part)
    store = await SqliteStore.open(path, bell=False)
    missed, found = [], 0
    for n in range(TAMPERINGS // PARTS):
        way = tamper.ways[n % len(tamper.ways)]
        named = way()
        report = await audit.verify(store, trusted=TRUSTED, copies=copies)
        found += not report.ok
        if report.ok or named not in said(report):
            missed.append(f"{n}: {way.__name__}: {named!r} is not in {said(report)!r}")
        tamper.restore()
    tamper.conn.close()

    assert missed == []
    assert found == TAMPERINGS // PARTS
    assert (await audit.verify(store, trusted=TRUSTED, copies=copies)).ok
    await store.close()


async def tampered(sealed, tmp_path, way, *, copies=False, seed=1, trusted=TRUSTED):
    path, pristine = tmp_path / "tampered.db", sealed[0]
    shutil.copy(pristine, path)
    tamper = Tamper(path, pristine, seed)
    named = getattr(tamper, way)()
    tamper.conn.close()
    store = await SqliteStore.open(path, bell=False)
    report = await audit.verify(store, trusted=trusted, copies=sealed[1] if copies else ())
    await store.close()
    return report, named


async def test_a_store_that_nobody_touched_holds(sealed, tmp_path):
    shutil.copy(sealed[0], tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", bell=False)

    report = await audit.verify(store, trusted=TRUSTED, copies=sealed[1])

    assert report.faults == []
    assert (report.seals, report.refused) == (4, 12)
    assert report.sealed == report.entries
    await store.close()


@pytest.mark.parametrize("way", ["hash_again", "remove_run", "cut_run"])
async def test_a_consistent_change_is_found_by_seals_alone(sealed, tmp_path, way):
    report, named = await tampered(sealed, tmp_path, way)

    # No chain and no row is at fault: it takes a seal to find it.
    assert [fault.run_id for fault in report.faults] == [""]
    assert named in said(report)
    assert "at positions" in said(report)


async def test_a_forged_seal_is_not_trusted_without_any_copy(sealed, tmp_path):
    report, _ = await tampered(sealed, tmp_path, "forge_seals")

    assert said(report).count("signed with a key that is not trusted here") == 4


async def test_an_edited_seal_is_found_without_any_copy(sealed, tmp_path):
    for seed in range(8):
        report, _ = await tampered(sealed, tmp_path, "edit_seal", seed=seed)

        assert "is not to be trusted" in said(report)


@pytest.mark.parametrize("way", ["edit_door", "cut_door", "hash_door_again"])
async def test_a_change_of_the_door_log_is_found_without_any_copy(sealed, tmp_path, way):
    for seed in range(8):
        report, named = await tampered(sealed, tmp_path, way, seed=seed)

        assert named in said(report)


async def test_seals_cut_off_are_found_with_a_copy_and_only_then(sealed, tmp_path):
    path = tmp_path / "cut.db"
    shutil.copy(sealed[0], path)
    conn = apsw.Connection(str(path))
    conn.execute("drop trigger a_seal_is_never_broken; delete from seals where n >= 3")
    conn.close()
    store = await SqliteStore.open(path, bell=False)

    alone = await audit.verify(store, trusted=TRUSTED)
    compared = await audit.verify(store, trusted=TRUSTED, copies=sealed[1])

    assert alone.ok
    assert alone.sealed < alone.entries
    assert said(compared) == (
        "seals 3 to 4 are not in the store any more, but in what was kept outside"
    )
    assert compared.sealed == compared.entries
    await store.close()


@pytest.mark.parametrize(
    "gone, named",
    [("n = 2", "seal 2 is missing"), ("n in (2, 3)", "seals 2 to 3 are missing")],
)
async def test_seals_missing_in_between_are_named_without_any_copy(sealed, tmp_path, gone, named):
    path = tmp_path / "gap.db"
    shutil.copy(sealed[0], path)
    conn = apsw.Connection(str(path))
    conn.execute(f"drop trigger a_seal_is_never_broken; delete from seals where {gone}")
    conn.close()
    store = await SqliteStore.open(path, bell=False)

    report = await audit.verify(store, trusted=TRUSTED)

    assert said(report) == named
    await store.close()


async def test_an_entry_put_under_a_seal_is_found(tmp_path):
    path = tmp_path / "more.db"
    store = await SqliteStore.open(path, bell=False)
    await fill(store, runs=1)
    conn = apsw.Connection(str(path))
    conn.execute("drop trigger the_journal_is_only_redacted")
    conn.execute("update journal set position = position + 1000 where position > 2")
    conn.execute("update holds set opened = opened + 1000 where opened > 2")
    conn.execute("update waiting set opened = opened + 1000 where opened > 2")
    await sealer(store).seal()
    assert (await audit.verify(store, trusted=TRUSTED)).ok

    conn.execute(
        "insert into journal select 6, run, seq + 1, id, at, salt, payload, hash from journal"
        " order by position desc limit 1"
    )
    conn.close()
    report = await audit.verify(store, trusted=TRUSTED)

    assert "entries were put in: seal 1 covers" in said(report)
    await store.close()


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda lines: [lines[1], lines[0], *lines[2:]], "line 2 of what was kept outside has"),
        (lambda lines: [lines[0], *lines[2:]], "seal 2 is missing in what was kept outside"),
        (lambda lines: [b"{}\n", *lines[1:]], "line 1 of what was kept outside cannot be read"),
        (
            lambda lines: [lines[0].replace(b'"count":', b'"count":1'), *lines[1:]],
            "seal 1 in the store is not the one that was kept outside",
        ),
    ],
    ids=["reordered", "removed", "unreadable", "edited"],
)
async def test_a_copy_that_was_changed_is_found_as_well(sealed, tmp_path, change, named):
    shutil.copy(sealed[0], tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", bell=False)

    report = await audit.verify(store, trusted=TRUSTED, copies=change(sealed[1]))

    assert named in said(report)
    await store.close()


async def test_a_copy_may_begin_late_end_early_and_have_empty_lines(sealed, tmp_path):
    shutil.copy(sealed[0], tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", bell=False)

    report = await audit.verify(store, trusted=TRUSTED, copies=[b"\n", sealed[1][1], b"\n"])

    assert report.faults == []
    await store.close()


async def test_seals_without_a_key_to_check_them_are_a_fault(sealed, tmp_path):
    shutil.copy(sealed[0], tmp_path / "copy.db")
    store = await SqliteStore.open(tmp_path / "copy.db", bell=False)

    report = await audit.verify(store, trusted=())

    assert said(report) == (
        "there are seals, and no key to check them with: set SAYSO_KEYS, or give the key that "
        "`sayso audit key` has printed"
    )
    await store.close()


async def test_a_seal_that_skips_something_is_found(tmp_path):
    """Signed with the right key, and still wrong."""
    store = await SqliteStore.open(tmp_path / "sayso.db", bell=False)
    await fill(store, runs=1)
    first = await sealer(store).seal()
    signer = Signer(RING)
    await store.seals.put(
        signer.sign(
            Seal(
                n=2,
                first=first.last + 2,
                last=first.last + 1,
                count=0,
                root=Tree().root().hex(),
                before="00" * 32,
                refused=0,
                door="00" * 32,
                at=first.at,
                key="",
            )
        )
    )

    report = await audit.verify(store, trusted=TRUSTED)

    assert [fault.what for fault in report.faults] == [
        "seal 2 does not name the seal that is before it",
        "seal 2 does not go on where the seal before it ends",
    ]
    await store.close()


async def test_seals_and_door_log_refuse_every_change(sealed, tmp_path):
    shutil.copy(sealed[0], tmp_path / "copy.db")
    conn = apsw.Connection(str(tmp_path / "copy.db"))

    for change in (
        "delete from seals where n = 1",
        "update seals set n = 99 where n = 1",
        "update seals set data = x'00' where n = 1",
        "delete from door where n = 1",
        "update door set payload = x'00' where n = 1",
        "update door set n = 99 where n = 1",
        "insert or replace into door select 1, project, at, salt, x'', hash from door where n = 2",
        "insert into door select 99, project, at, salt, payload, hash from door where n = 2",
        "insert or replace into seals select 1, data from seals where n = 2",
        "insert into seals select 99, data from seals where n = 2",
    ):
        with pytest.raises(apsw.ConstraintError):
            conn.execute(change)
    conn.close()


async def test_entries_before_the_first_position_are_found(sealed, tmp_path):
    path = tmp_path / "before.db"
    shutil.copy(sealed[0], path)
    conn = apsw.Connection(str(path))
    conn.execute("drop trigger the_journal_is_only_redacted")
    conn.execute("update journal set position = -position where position = 1")
    conn.close()
    store = await SqliteStore.open(path, bell=False)

    report = await audit.verify(store)

    assert "its entries are out of order" in said(report)
    await store.close()
