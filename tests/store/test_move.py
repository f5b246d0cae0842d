"""A whole store moved into another: all of it is there, chains hold, and only one goes on."""

import asyncio
import os
import signal
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from sayso import Sayso, approve
from sayso.errors import (
    BadKeys,
    CannotMove,
    NotOurStore,
    StoreDamaged,
    StoreMoved,
    StoreRestored,
    StoreUnfinished,
)
from sayso.store.audit import verify
from sayso.store.keyring import new_key
from sayso.store.memory import MemoryStore
from sayso.store.move import move, undo
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_transfer import PostgresTransfer
from sayso.store.query import RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.store.sqlite_transfer import SqliteTransfer
from sayso.store.transfer import SHELF
from sayso.testing.contract import refused, write
from tests.postgres import Cluster
from tests.store.child import forked
from tests.store.furnished import PARKED, PATIENCE_S, everything, furnish, opened, summary


class Place:
    """Where a store is, or will be."""

    def __init__(self, cluster: Cluster | None, path: Path) -> None:
        self.cluster = cluster
        self.path = path
        self.schema = "" if cluster is None else cluster.schema()

    async def store(self):
        if self.cluster is None:
            return await SqliteStore.open(self.path)
        return await PostgresStore.open(self.cluster.url("postgres"), schema=self.schema)

    @asynccontextmanager
    async def opened(self):
        store = await self.store()
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def transfer(self):
        if self.cluster is None:
            found = SqliteTransfer.open(self.path)
        else:
            found = await PostgresTransfer.open(self.cluster.url("postgres"), schema=self.schema)
        try:
            yield found
        finally:
            await found.close()

    def execute(self, sql: str) -> None:
        if self.cluster is not None:
            self.cluster.execute(f"set search_path = {self.schema}; {sql}")
            return
        conn = apsw.Connection(str(self.path))
        conn.execute(sql)
        conn.close()


KINDS = {"up": ("sqlite", "postgres"), "down": ("postgres", "sqlite")}


@pytest.fixture(scope="module", autouse=True)
def _keys():
    kept = os.environ.get("SAYSO_KEYS")
    os.environ["SAYSO_KEYS"] = new_key()
    yield
    del os.environ["SAYSO_KEYS"]
    if kept is not None:
        os.environ["SAYSO_KEYS"] = kept


@pytest.fixture
def place(request, tmp_path):
    """Give places of either kind, and remove them."""
    made = []

    def make(kind: str) -> Place:
        cluster = request.getfixturevalue("postgres") if kind == "postgres" else None
        made.append(Place(cluster, tmp_path / f"{len(made)}.db"))
        return made[-1]

    yield make
    for one in made:
        if one.cluster is not None:
            one.cluster.drop(one.schema)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A file with something of everything, which nobody changes."""
    root = tmp_path_factory.mktemp("full")
    asyncio.run(furnish(root / "full.db", root / "paid"))
    return root / "full.db"


async def fill(place: Place, full: Path) -> None:
    """Put a copy of everything there."""
    if place.cluster is None:
        copy_file(full, place.path)
        return
    first = Place(None, place.path.with_name("first.db"))
    copy_file(full, first.path)
    await carry(first, place)


def copy_file(full: Path, path: Path) -> None:
    """Copy a file, and say that this is meant."""
    conn, there = apsw.Connection(str(full)), apsw.Connection(str(path))
    with there.backup("main", conn, "main") as backup:
        backup.step()
    there.close()
    conn.close()
    taken = threading.Thread(target=lambda: asyncio.run(_accept(path)))
    taken.start()
    taken.join()


async def _accept(path: Path) -> None:
    store = await SqliteStore.open(path, recovers=True)
    await store.accept_origin()
    await store.close()


async def carry(source: Place, target: Place, **more):
    async with source.transfer() as here, target.transfer() as there:
        return await move(here, there, **more)


async def look(place: Place):
    async with place.opened() as store:
        return await everything(store)


@pytest.fixture
def upward(place, full):
    """A full file, and an empty place in a database."""
    source, target = place("sqlite"), place("postgres")
    asyncio.run(fill(source, full))
    return source, target


@pytest.fixture(params=KINDS)
def pair(request, place, full):
    """A full store, and an empty place of the other kind."""
    kinds = KINDS[request.param]
    source, target = place(kinds[0]), place(kinds[1])
    asyncio.run(fill(source, full))
    return source, target


async def test_everything_is_there_and_the_same(pair):
    source, target = pair
    before = await look(source)
    assert min(summary(before).values()) > 0

    moved = await carry(source, target)

    assert await look(target) == before
    assert moved.rows["runs"] == len(before["runs"])
    assert moved.rows["parcels"] > 0
    async with target.opened() as store, Sayso(store, work=False) as app:
        report = await app.audit.verify()
        assert report.ok, report.faults
        assert (report.seals, report.redacted) == (1, 1)
        assert report.sealed > 0


async def test_a_parked_run_is_decided_there_and_paid_once(upward, tmp_path):
    source, target = upward
    await carry(source, target)

    async with target.opened() as store, opened(store, tmp_path / "paid") as app:
        run = app.run(PARKED)
        await app.decide((await run.view()).holds[0], approve(), by="mira")
        view = await run.wait(final=True, timeout=PATIENCE_S)
        asked = {"key": "key-parked", "id": PARKED, "thread": "waits"}
        assert (await app.start("teller", "pay parked 50", by="mira", **asked)).id == PARKED
        spare = await app.start("teller", "pay always 4", by="mira")
        assert (await spare.wait(final=True, timeout=PATIENCE_S)).status == "completed"
        assert (await verify(store)).ok

    assert view.status == "completed"
    assert (tmp_path / "paid").read_text() == "parked 50\nalways 4\n"


async def test_revs_keys_and_positions_go_on_above(pair):
    source, target = pair
    async with source.transfer() as here:
        revs = await here.last_rev()
    positions = max(entry.position for entry in (await look(source))["tail"])
    await carry(source, target)

    async with target.opened() as store:
        item = await store.shelf.put("default", "person", "new", b"{}", rev=0)
        appended = await store.append(write("run_new"))
        (newest,) = await store.runs(RunQuery(limit=1))

    assert newest.id == "run_new"
    assert item.rev > revs
    assert appended.position == positions + 1


async def test_the_source_takes_no_writes_from_anybody(pair):
    source, target = pair
    before = await look(source)
    async with source.opened() as desk:
        (parcel,) = await desk.outbox.take(limit=1, lease_ms=1)

        await carry(source, target)

        for attempt in (
            desk.append(write("run_new")),
            desk.shelf.put("default", "person", "x", b"{}", rev=0),
            desk.shelf.drop("default", "person", "mira"),
            desk.outbox.done(parcel),
            desk.door.note("default", b"{}"),
            desk.beat("w"),
        ):
            with pytest.raises(StoreMoved, match="open that one"):
                await attempt
        assert [row.id for row in (await everything(desk))["runs"]] == [
            row.id for row in before["runs"]
        ]
    async with source.opened() as store:
        assert store.moved_to == (await _name(target))
        assert (await store.checkup())[0].level == "warning"
        with pytest.raises(StoreMoved, match="was moved to"):
            async with Sayso(store):
                pass
        async with Sayso(store, work=False) as app:
            assert (await app.audit.verify()).ok


async def test_there_is_no_work_in_a_store_that_says_it_was_moved():
    class Gone(MemoryStore):
        moved_to = "elsewhere"

    with pytest.raises(StoreMoved, match="was moved to 'elsewhere'"):
        async with Sayso(Gone()):
            pass
    async with Sayso(Gone(), work=False):
        pass


async def _name(place: Place) -> str:
    async with place.transfer() as found:
        return found.name


async def test_a_store_that_is_worked_on_is_not_moved(pair):
    source, target = pair
    async with source.opened() as store:
        await store.beat("worker-1")

        with pytest.raises(CannotMove, match="at work: worker-1") as refusal:
            await carry(source, target)

        assert refusal.value.workers == ("worker-1",)
        await store.retire("worker-1")
    async with target.transfer() as there:
        assert await there.mark() is None
    await carry(source, target)


async def test_who_is_silent_may_come_back(upward):
    source, target = upward
    async with source.opened() as store:
        await store.beat("worker-1")
        source.execute("update workers set lease_until = 0")

        with pytest.raises(CannotMove, match=r"may come back: worker-1.*--even-if-silent"):
            await carry(source, target)

        await carry(source, target, even_if_silent=True)
    async with target.opened() as store:
        assert await store.sight("worker-1") is None


async def test_a_run_of_a_dead_worker_is_carried_as_it_is_and_taken_over_there(
    place, full, tmp_path
):
    source, target = place("sqlite"), place("postgres")
    await fill(source, full)

    async def die() -> None:
        async with source.opened() as store:
            await store.beat("worker-1")
            await store.append(write("run_owned", agent="teller", owner="worker-1"))
            os._exit(9)

    assert forked(die)
    await carry(source, target)

    async with target.opened() as store:
        row = await store.load("run_owned")
        assert row is not None
        assert row.owner == "worker-1"
        assert await store.claim("worker-2", limit=10) == []
        assert [(one.run_id, one.proof) for one in await store.lost()] == [("run_owned", "lease")]


async def test_a_run_of_a_dead_worker_is_free_to_be_taken_over_in_a_file(place, full):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)
    async with source.opened() as store:
        await store.append(write("run_owned", owner="worker-gone"))

    await carry(source, target)

    async with target.opened() as store:
        assert [(one.run_id, one.proof) for one in await store.lost()] == [("run_owned", "dead")]


async def test_the_lease_clock_goes_on_where_calls_were_begun(place):
    target = place("postgres")
    async with target.transfer() as there:
        await there.go_on_after(0, 10**12)

    async with target.opened() as store:
        assert store.tick() >= 10**12


async def begin_payment(app: Sayso, text: str):
    run = await app.start("teller", text, by="mira")
    hold = (await run.wait(held=True, timeout=PATIENCE_S)).holds[0]
    await app.decide(hold, approve(), by="mira")
    return run


def test_a_call_that_was_under_way_is_in_doubt_there_and_not_made_again(pair, tmp_path):
    source, target = pair
    paid = tmp_path / "paid"

    async def die() -> None:
        async with source.opened() as store, opened(store, paid) as app:
            await (await begin_payment(app, "pay death 9")).wait(final=True)

    assert os.WTERMSIG(forked(die)) == signal.SIGKILL
    if source.cluster is not None:
        # Nobody but the machine it was on can tell that it is dead.
        source.execute("update workers set lease_until = 0; update pulse set tick = 10 ^ 7")
    asyncio.run(carry(source, target, even_if_silent=source.cluster is not None))

    async def look_there() -> str:
        async with target.opened() as store, opened(store, paid) as app:
            (row,) = [one for one in await store.runs(RunQuery(status="running")) if one.owner]
            view = await app.run(row.id).wait(held=True, timeout=PATIENCE_S)
            return view.holds[0].kind

    assert asyncio.run(look_there()) == "in_doubt"
    assert paid.read_text() == "death 9\n"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_who_is_silent_has_all_the_time_that_a_call_could_take(place, full, tmp_path, kind):
    source, target = place(kind), place("sqlite")
    await fill(source, full)
    async with source.opened() as store, opened(store, tmp_path / "paid") as app:
        run = await begin_payment(app, "pay sleep 2")
        while not (tmp_path / "paid").exists():
            await asyncio.sleep(0.01)
        source.execute("update workers set lease_until = 0")

        with pytest.raises(CannotMove, match=r"may be under way for .* ms more"):
            await carry(source, target, even_if_silent=True)

        assert (await run.wait(final=True, timeout=PATIENCE_S)).status == "completed"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_place_that_is_taken_is_refused(place, full, kind):
    source, target = place("sqlite"), place(kind)
    await fill(source, full)
    async with target.opened() as store:
        await store.shelf.put("default", "person", "x", b"{}", rev=0)

    with pytest.raises(CannotMove, match="not empty"):
        await carry(source, target)
    with pytest.raises(CannotMove, match="into itself"):
        await carry(source, source)

    async with source.opened() as store:
        assert not store.moved_to
        await store.append(write("run_new"))


class Watched:
    """A transfer that has something done before each of its calls."""

    def __init__(self, store, before):
        self._store = store
        self._before = before

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def wrapped(*args, **kwargs):
            await self._before(name, *args)
            return await found(*args, **kwargs)

        return wrapped


async def test_what_is_half_moved_cannot_be_opened(pair):
    source, target = pair
    seen = []

    async def before(name, *args):
        if name in ("fill", "reopen"):
            with pytest.raises(StoreUnfinished, match="is being filled from"):
                await target.store()
            seen.append(name)

    async with source.transfer() as here, target.transfer() as there:
        await move(here, Watched(there, before))

    assert seen.count("fill") > 5
    assert seen[-1] == "reopen"
    async with target.opened() as store:
        assert not store.moved_to


@pytest.mark.parametrize(
    "change, said",
    [
        ("update shelf set rev = rev + 1 where kind = 'person'", "shelf are not the same"),
        ("update holds set deadline = 7", "holds are not the same"),
        ("delete from keys where key = 'key-first'", "keys are not the same"),
        ("delete from waiting where n = 1", "waiting are not the same"),
        ("update journal set salt = null, payload = hash where seq = 1", "was changed after"),
    ],
)
async def test_what_is_not_the_same_there_is_found(upward, change, said):
    source, target = upward

    async def before(name, *args):
        if name == "go_on_after":
            target.execute(change)

    with pytest.raises(CannotMove, match=said):
        async with source.transfer() as here, target.transfer() as there:
            await move(here, Watched(there, before))

    with pytest.raises(StoreUnfinished):
        await target.store()


@pytest.mark.parametrize(
    "change, said",
    [
        ("update journal set at = at + 1 where seq = 2", "was changed after it was written"),
        ("update runs set hash = zeroblob(32)", "does not end where its row says"),
        ("update runs set seq = seq + 1 where id = 'run_parked'", "does not end where its row"),
        ("delete from journal where position = (select max(position) - 1 from journal)", "entry"),
        ("update seals set data = cast(replace(data, ',\"door', '1,\"door') as blob)", "seals of"),
        ("update door set hash = zeroblob(32)", "seals of"),
    ],
)
async def test_a_store_that_was_changed_is_not_passed_off_as_whole(place, full, change, said):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)
    conn = apsw.Connection(str(source.path))
    for (name,) in conn.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
        conn.execute(f"drop trigger {name}")
    conn.execute("pragma foreign_keys = off")
    conn.execute(change)
    conn.close()

    with pytest.raises(CannotMove, match=said):
        await carry(source, target)
    with pytest.raises(StoreUnfinished):
        await target.store()


async def test_values_that_could_not_be_opened_there_are_found(upward):
    source, target = upward

    with pytest.raises(BadKeys, match=r"is sealed with the key .*SAYSO_KEYS"):
        await carry(source, target, key_ids=("other",))

    with pytest.raises(StoreUnfinished):
        await target.store()
    (key_id,) = [os.environ["SAYSO_KEYS"].partition(":")[0]]
    await carry(source, target, key_ids=(key_id,))


async def test_a_move_is_undone_while_nobody_worked_there(pair):
    source, target = pair
    before = await look(source)
    await carry(source, target)

    async with source.transfer() as here, target.transfer() as there:
        await undo(here, there)

    assert await look(source) == before
    async with source.opened() as store:
        await store.append(write("run_new"))
    with pytest.raises(StoreUnfinished, match="was undone"):
        await target.store()
    with pytest.raises(CannotMove, match="is taken by a move"):
        await carry(source, target)


async def test_a_move_is_not_undone_once_somebody_worked_there(upward):
    source, target = upward
    await carry(source, target)
    async with target.opened() as store:
        await store.append(write("run_new"))

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="was worked on since"):
            await undo(here, there)

    async with target.opened() as store:
        await store.append(write("run_newer"))
    async with source.opened() as store:
        await refused(StoreMoved, store.append(write("run_new")))


async def killed_while_undoing(source: Place, target: Place) -> None:
    async def die() -> None:
        async def before(name, *args):
            if name == "rows":
                os._exit(9)

        async with source.transfer() as here, target.transfer() as there:
            await undo(here, Watched(there, before))

    assert await asyncio.to_thread(forked, die)


async def test_an_undoing_that_was_killed_looks_again(place, full):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)
    await carry(source, target)
    async with target.opened() as store:
        await store.append(write("run_new"))
    await killed_while_undoing(source, target)
    with pytest.raises(StoreUnfinished):
        await target.store()

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="was worked on since"):
            await undo(here, there)

    async with source.opened() as store:
        assert store.moved_to
    async with target.opened() as store:
        await store.append(write("run_newer"))


async def test_an_undoing_that_was_killed_is_done_again(place, full):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)
    await carry(source, target)
    await killed_while_undoing(source, target)

    async with source.transfer() as here, target.transfer() as there:
        await undo(here, there)

    async with source.opened() as store:
        await store.append(write("run_new"))
    with pytest.raises(StoreUnfinished, match="was undone"):
        await target.store()


async def test_whatever_stops_an_undoing_the_target_goes_on(upward):
    source, target = upward
    await carry(source, target)

    async def before(name, *args):
        if name == "leaves":
            raise StoreDamaged("the cable was pulled")

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(StoreDamaged):
            await undo(here, Watched(there, before))

    async with target.opened() as store:
        await store.append(write("run_new"))


async def test_a_half_filled_target_is_never_passed_off_as_whole(upward):
    source, target = upward

    async def stop(name, *args):
        if name == "go_on_after":
            raise StoreDamaged("the cable was pulled")

    async def cut(name, *args):
        if name == "reopen":
            raise StoreDamaged("the cable was pulled")

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(StoreDamaged):
            await move(here, Watched(there, stop))
        with pytest.raises(StoreDamaged):
            await undo(Watched(here, cut), there)
        with pytest.raises(StoreUnfinished):
            await target.store()

        await undo(here, there)

    async with source.opened() as store:
        await store.append(write("run_new"))
    with pytest.raises(StoreUnfinished, match="was undone"):
        await target.store()


@pytest.mark.parametrize("which", ["source", "target"])
async def test_a_move_is_not_undone_if_either_was_restored(upward, which):
    source, target = upward
    await carry(source, target)
    fault = {"source": "update origin set fault = 'x'", "target": "update store set fault = 'x'"}
    {"source": source, "target": target}[which].execute(fault[which])

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="was restored or copied: x; run `sayso restored`"):
            await undo(here, there)

        assert await there.mark() is None
        assert await here.mark() is not None


async def test_a_source_that_was_restored_in_the_middle_of_a_move_can_go_on(place, full):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)

    async def stop(name, *args):
        if name == "go_on_after":
            raise StoreDamaged("the cable was pulled")

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(StoreDamaged):
            await move(here, Watched(there, stop))
    source.execute("update origin set fault = 'x'")

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="`sayso move --undo` opens it for that"):
            await move(here, there)
        await undo(here, there)

    async with source.opened() as store:
        await refused(StoreRestored, store.append(write("run_new")))
    recovered = await SqliteStore.open(source.path, recovers=True)
    await recovered.accept_origin()
    await recovered.append(write("run_new"))
    await recovered.close()
    with pytest.raises(StoreUnfinished, match="was undone"):
        await target.store()


async def test_a_move_that_could_not_begin_leaves_the_target_as_it_was(upward):
    source, target = upward

    async def before(name, *args):
        if name == "shut":
            raise StoreDamaged("the cable was pulled")

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(StoreDamaged):
            await move(Watched(here, before), there)

        assert await there.mark() is None
    async with target.opened():
        pass


def put_back(backup: Path, path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(backup.read_bytes())


async def test_a_backup_from_before_the_move_is_not_the_store_that_was_moved(place, full, tmp_path):
    source, target = place("sqlite"), place("sqlite")
    await fill(source, full)
    conn = apsw.Connection(str(source.path))
    conn.execute("vacuum into ?", (str(tmp_path / "backup"),))
    conn.close()
    await carry(source, target)

    put_back(tmp_path / "backup", source.path)

    async with source.opened() as store:
        assert not store.moved_to
        await refused(StoreRestored, store.append(write("run_new")))


async def test_a_copy_of_a_target_that_nobody_has_opened_is_found(place, full):
    source, target, copy = place("sqlite"), place("sqlite"), place("sqlite")
    await fill(source, full)
    await carry(source, target)

    copy.path.write_bytes(target.path.read_bytes())

    async with copy.opened() as store:
        await refused(StoreRestored, store.append(write("run_new")))
    async with target.opened() as store:
        assert (await store.origin()).epoch == 1
        await store.append(write("run_new"))


async def test_a_move_that_was_not_finished_is_undone(upward):
    source, target = upward

    async def before(name, *args):
        if name == "go_on_after":
            raise StoreDamaged("the cable was pulled")

    with pytest.raises(StoreDamaged):
        async with source.transfer() as here, target.transfer() as there:
            await move(here, Watched(there, before))
    async with source.transfer() as here, target.transfer() as there:
        await undo(here, there)

    async with source.opened() as store:
        await store.append(write("run_new"))
    with pytest.raises(StoreUnfinished, match="was undone"):
        await target.store()


async def test_only_what_was_moved_is_undone_and_only_from_there(place, full):
    source, target, other = place("sqlite"), place("sqlite"), place("sqlite")
    await fill(source, full)
    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="was not moved"):
            await undo(here, there)
    await carry(source, target)

    with pytest.raises(CannotMove, match=r"was moved to .* already"):
        await carry(source, other)
    async with source.transfer() as here, other.transfer() as there:
        with pytest.raises(CannotMove, match="worked on since"):
            await undo(here, there)


async def test_two_who_fill_one_store_do_not_both_go_on(upward):
    source, target = upward

    async def before(name, *args):
        if name == "fill" and args[0] is SHELF:
            async with source.transfer() as here, target.transfer() as there:
                await there.fill(SHELF, await here.rows(SHELF, None, 1), None)

    async with source.transfer() as here, target.transfer() as there:
        with pytest.raises(CannotMove, match="somebody else fills"):
            await move(here, Watched(there, before))
    await carry(source, target)


async def test_no_store_is_made_where_one_is_looked_for(postgres):
    with pytest.raises(NotOurStore, match="there is no store"):
        await PostgresTransfer.open(postgres.url("postgres"), schema="nothing", make=False)
    assert postgres.execute("select 1 from pg_namespace where nspname = 'nothing'") == []
