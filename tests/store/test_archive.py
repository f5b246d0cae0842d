"""Finished runs that leave for files: they verify there, the store verifies without them, and none
of them can begin again.
"""

import asyncio
import base64
import gzip
import hashlib
import json
import os
import signal
import sys

import apsw
import pytest
from msgspec.structs import replace

from sayso import Principal, Sayso, approve
from sayso.errors import BadArchive, BadSetup, NotAllowed, RunArchived, StaleRun
from sayso.store import chain
from sayso.store.archive import Leaving, NewArchive
from sayso.store.archive_file import check_archive, leaving, read_archive
from sayso.store.memory import MemoryStore
from sayso.testing.contract import refused, write
from tests.store.child import forked
from tests.store.furnished import PARKED, PATIENCE_S, everything, opened
from tests.store.test_move import Place, Watched, _keys, carry, fill, full, place
from tests.store.test_move_killed import some

__all__ = ["_keys", "full", "place"]

THREAD = ("default", "talk")


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, place, full) -> Place:
    """A place with something of everything in it."""
    found = place(request.param)
    asyncio.run(fill(found, full))
    return found


@pytest.fixture
def file(place, full) -> Place:
    found = place("sqlite")
    asyncio.run(fill(found, full))
    return found


async def let_go(place: Place, to, **more):
    async with place.opened() as store, Sayso(store, work=False) as app:
        return await app.audit.archive("1ms", to, by="mira", **more)


async def audit(place: Place, **more):
    async with place.opened() as store, Sayso(store, work=False) as app:
        return await app.audit.verify(**more)


async def look(place: Place):
    async with place.opened() as store:
        return await everything(store)


async def test_finished_runs_leave_and_both_still_verify(kept, tmp_path, full):
    before = await look(Place(None, full))
    final = {row.id for row in before["runs"] if row.status == "completed"}
    dry = await let_go(kept, tmp_path, dry_run=True)
    assert not list(tmp_path.glob("sayso-*"))

    done = await let_go(kept, tmp_path)

    assert (dry.runs, dry.entries) == (done.runs, done.entries)
    assert done.runs == len(final) > 3
    (path,) = tmp_path.glob("sayso-*.jsonl.gz")
    assert done.files == [str(path)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*.part"))
    found = check_archive(path)
    assert (found.runs, found.entries) == (done.runs, done.entries)
    runs = {run.row.id: run for run in read_archive(path)}
    assert set(runs) == final
    for row in before["runs"]:
        if row.id in runs:
            assert runs[row.id].row == row
            assert runs[row.id].journal == tuple(before["journals"][row.id])
            holds = [one.row for one in before["holds"] if one.row.run_id == row.id]
            assert list(runs[row.id].holds) == holds
    report = await audit(kept)
    assert report.ok, report.faults
    assert (report.archives, report.archived) == (1, len(final))
    assert report.sealed > report.entries - 20


async def test_what_stays_is_as_it_was_and_goes_on(kept, tmp_path):
    before = await look(kept)
    await let_go(kept, tmp_path)
    after = await look_without_talk(kept)

    stayed = [row for row in before["runs"] if row.status != "completed"]
    assert after["runs"] == stayed
    for name in ("open", "waiting", "found", "shelf", "seals", "leaves", "door", "keys"):
        assert after[name] == before[name], name
    async with kept.opened() as store, opened(store, tmp_path / "paid") as app:
        run = app.run(PARKED)
        await app.decide((await run.view()).holds[0], approve(), by="mira")
        assert (await run.wait(final=True, timeout=PATIENCE_S)).status == "completed"
        await app.audit.seal()
        report = await app.audit.verify()
        assert report.ok, report.faults
        assert report.seals == 2


async def look_without_talk(kept):
    """Look at everything but the thread that has left."""
    async with kept.opened() as store:
        kept_thread = store.thread

        async def thread(project, name):
            return None if name == "talk" else await kept_thread(project, name)

        store.thread = thread
        return await everything(store)


async def test_an_archived_run_says_where_it_is_and_never_begins_again(kept, tmp_path, full):
    before = await look(Place(None, full))
    key = before["keys"]["key-first"]
    done = await let_go(kept, tmp_path)

    async with kept.opened() as store, opened(store, tmp_path / "paid") as app:
        for attempt in (
            app.run(key.run_id).view(),
            store.journal(key.run_id),
            store.hold(key.run_id, 1),
            store.thread(*THREAD),
            app.start("teller", "pay first 10", by="mira", id=key.run_id),
            app.start("teller", "pay first 10", by="mira", thread="talk"),
        ):
            with pytest.raises(RunArchived, match="was archived to") as refusal:
                await attempt
            assert (refusal.value.file, refusal.value.project) == (done.files[0], "default")
        await refused(RunArchived, store.append(write(key.run_id, project="default")))
        await refused(RunArchived, store.append(write("run_new", project="default", thread="talk")))
        retried = await app.start(
            "teller", "pay first 10", by="mira", key="key-first", thread="talk"
        )
        assert retried.id == key.run_id
    assert not (tmp_path / "paid").exists()


async def test_a_second_time_takes_what_is_new_and_the_last_entry_stays(kept, tmp_path):
    await let_go(kept, tmp_path)
    async with kept.opened() as store, opened(store, tmp_path / "paid") as app:
        for text in ("hello", "hello again"):
            run = await app.start("teller", text, by="mira")
            await run.wait(final=True, timeout=PATIENCE_S)
        last = (await store.tail(after=0, limit=500))[-1]

    done = await let_go(kept, tmp_path)

    # The last entry of all is one of the second run's.
    assert (done.runs, len(done.files), done.left) == (1, 1, [run.id])
    report = await audit(kept)
    assert report.ok, report.faults
    assert report.archives == 2
    async with kept.opened() as store:
        assert (await store.append(write("run_new"))).position == last.position + 1


async def test_runs_that_were_finished_lately_stay(file, tmp_path):
    async with file.opened() as store, Sayso(store, work=False) as app:
        done = await app.audit.archive("1h", tmp_path, by="mira")
        other = await app.audit.archive("1ms", tmp_path, by="mira", project="other")

    assert (done.runs, done.looked_at) == (0, 4)
    assert (other.runs, other.looked_at) == (0, 0)
    assert not list(tmp_path.glob("sayso-*"))


async def test_a_thread_with_a_run_that_stays_does_not_leave(kept, tmp_path):
    async with kept.opened() as store, opened(store, tmp_path / "paid") as app:
        run = await app.start("teller", "pay third 10", by="mira", thread="talk")
        await run.wait(held=True, timeout=PATIENCE_S)

    done = await let_go(kept, tmp_path)

    assert done.left == []
    async with kept.opened() as store:
        latest = await store.thread(*THREAD)
        assert latest is not None
        assert latest.id == run.id
        assert len([row for row in (await everything(store))["runs"] if row.thread == "talk"]) == 3


async def test_a_run_that_another_began_leaves_with_its_root_and_not_before(file, tmp_path):
    async with file.opened() as store, opened(store, tmp_path / "paid") as app:
        run = await app.start("boss", "spawn-and-pay", by="mira")
        child = (await run.wait(held=True, timeout=PATIENCE_S)).holds[0]
        await app.decide(child, approve(), by="mira")
        ended = await app.run(child.run_id).wait(final=True, timeout=PATIENCE_S)
        assert ended.status == "completed"
        own = (await run.wait(held=True, timeout=PATIENCE_S)).holds[0]
        assert own.run_id == run.id
        done = await app.audit.archive("1ms", tmp_path, by="mira")
        assert done.runs == 4
        assert (await app.run(child.run_id).view()).status == "completed"

        await app.decide(own, approve(), by="mira")
        await run.wait(final=True, timeout=PATIENCE_S)
        later = await app.start("teller", "hello", by="mira")
        await later.wait(final=True, timeout=PATIENCE_S)
        ended = store.now()
        while store.now() <= ended + 1:
            await asyncio.sleep(0.001)
        done = await app.audit.archive("1ms", tmp_path, by="mira")

        assert (done.runs, done.left) == (2, [later.id])
        for run_id in (run.id, child.run_id):
            with pytest.raises(RunArchived):
                await app.run(run_id).view()
        report = await app.audit.verify()
        assert report.ok, report.faults


async def whole(store):
    """Give the rows of finished runs."""
    return [row for row in (await everything(store))["runs"] if row.status == "completed"]


@pytest.mark.parametrize("how", ["running", "another hash", "part of a thread", "not there"])
async def test_a_store_lets_nothing_go_that_is_not_in_the_file_as_it_is(kept, how):
    async with kept.opened() as store:
        await store.append(write("run_running"))
        await store.append(write("run_last"))
        finished = await whole(store)
        row = {
            "running": await store.load("run_running"),
            "part of a thread": next(one for one in finished if one.thread == "talk"),
        }.get(how, next(one for one in finished if not one.thread))
        before = await everything(store)
        gone = NewArchive(
            file="/f",
            sha256="0" * 64,
            runs=(
                leaving_of(
                    row,
                    hash=bytes(32) if how == "another hash" else row.hash,
                    id="run_x" if how == "not there" else row.id,
                ),
            ),
        )

        with pytest.raises(StaleRun):
            await store.archives.take(gone)

        assert await everything(store) == before
        assert await store.archives.list() == []


def leaving_of(row, **changes):
    return replace(Leaving(id=row.id, seq=row.seq, hash=row.hash), **changes)


def put_parcel(kept, run_id, *, free_at):
    data = "''" if kept.cluster else "x''"
    kept.execute(
        "insert into parcels (project, id, kind, run, due_at, free_at, data) "
        f"select 'default', 'p', 'x', k, 1, {free_at}, {data} from runs where id = '{run_id}'"
    )


async def test_a_run_with_a_notice_that_was_given_up_stays_and_is_not_even_tried(kept, tmp_path):
    async with kept.opened() as store:
        row = next(one for one in await whole(store) if not one.thread)
    put_parcel(kept, row.id, free_at="null")

    looked = await let_go(kept, tmp_path, dry_run=True)
    done = await let_go(kept, tmp_path)

    assert (looked.runs, looked.left) == (3, [row.id])
    assert (done.runs, done.left) == (3, [row.id])


async def test_a_run_with_a_notice_on_its_way_stays(kept, tmp_path):
    async with kept.opened() as store:
        row = next(one for one in await whole(store) if not one.thread)
    put_parcel(kept, row.id, free_at="1")

    done = await let_go(kept, tmp_path)

    assert done.left == [row.id]
    assert done.runs == 3
    assert (await audit(kept)).ok
    # The file that was written with it is gone; no store names it.
    assert [str(one) for one in tmp_path.glob("sayso-*")] == done.files


@pytest.mark.parametrize(
    "change",
    [
        "delete from journal where run = (select k from runs where status = 'completed' limit 1)",
        "delete from journal where run = (select k from runs where id = 'run_parked')",
        "delete from leaves",
        "update leaves set position = position + 1000",
        "delete from archived",
        "update archives set file = 'elsewhere'",
    ],
)
async def test_a_store_is_cut_in_no_other_way(kept, tmp_path, change):
    if "journal" not in change:
        await let_go(kept, tmp_path)
    before = await look_without_talk(kept)

    with pytest.raises(Exception, match="cannot be"):
        kept.execute(change)

    assert await look_without_talk(kept) == before


@pytest.mark.parametrize("what", ["running", "without a leaf", "another hash"])
async def test_an_entry_stays_whatever_is_said_of_an_archive(kept, what):
    async with kept.opened() as store:
        row = next(one for one in await whole(store) if not one.thread)
    name = PARKED if what == "running" else row.id
    other = "sha256(hash)" if kept.cluster else "randomblob(32)"
    kept.execute(
        "insert into archives (n, file, sha256, runs, entries, at) "
        f"values (1, '/f', '{'0' * 64}', 1, 1, 1)"
    )
    kept.execute(
        "insert into archived (id, project, seq, hash, archive) select id, project, seq, "
        f"{other if what == 'another hash' else 'hash'}, 1 from runs where id = '{name}'"
    )
    if what != "without a leaf":
        kept.execute("insert into leaves (position, hash) select position, hash from journal")

    with pytest.raises(Exception, match="cannot be deleted"):
        kept.execute(f"delete from journal where run = (select k from runs where id = '{name}')")


def unzipped(path) -> list:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def zipped(path, lines) -> None:
    path.write_bytes(gzip.compress(b"".join(json.dumps(one).encode() + b"\n" for one in lines)))


def _payload(lines):
    line = next(one for one in lines if one["type"] == "entry" and "mira" in one.get("payload", ""))
    line["payload"] = line["payload"].replace("mira", "eve")


def _entry(lines):
    lines.remove(next(one for one in lines if one["type"] == "entry"))


def _run(lines):
    first = next(n for n, one in enumerate(lines) if one["type"] == "run")
    second = next(n for n, one in enumerate(lines) if n > first and one["type"] in ("run", "end"))
    gone = lines[first:second]
    del lines[first:second]
    lines[-1] = {"type": "end", "runs": lines[-1]["runs"] - 1, "entries": lines[-1]["entries"]}
    lines[-1]["entries"] -= len(gone) - 1


def _end(lines):
    del lines[-1]


def _after(lines):
    lines.append(lines[1])


def _position(lines):
    next(one for one in lines if one["type"] == "entry")["position"] += 1


def _rehash(lines):
    """Change what a run says, and hash all of it again."""
    start = next(n for n, one in enumerate(lines) if one["type"] == "run")
    prev, run = chain.GENESIS, lines[start]["row"]
    for line in lines[start + 1 :]:
        if line["type"] != "entry":
            break
        line["payload"] = line["payload"].replace("mira", "eve")
        content = chain.leaf(bytes.fromhex(line["salt"]), line["payload"].encode())
        prev = chain.link(
            prev,
            run_id=run["id"],
            seq=line["seq"],
            entry_id=bytes.fromhex(line["id"]),
            at=line["at"],
            content=content,
        )
        line["hash"] = prev.hex()
    run["hash"] = base64.b64encode(prev).decode()


ALONE = {
    "a payload": (_payload, "was changed after it was written"),
    "an entry": (_entry, "missing"),
    "the end": (_end, "cut off"),
    "something after the end": (_after, "added after its end"),
}
"""What a file shows by itself."""
TOGETHER = {
    "a run": (_run, "lacks"),
    "a position": (_position, "other entries"),
    "all hashes": (_rehash, "did not leave like that"),
}
"""What it takes the store to find."""


@pytest.mark.parametrize("name", [*ALONE, *TOGETHER])
async def test_an_archive_that_was_changed_is_found(file, tmp_path, name):
    done = await let_go(file, tmp_path)
    (path,) = tmp_path.glob("sayso-*")
    change, said = {**ALONE, **TOGETHER}[name]
    lines = unzipped(path)
    change(lines)
    zipped(path, lines)

    if name in ALONE:
        with pytest.raises(BadArchive, match=said):
            check_archive(path)
    else:
        check_archive(path)
    whats = [fault.what for fault in (await audit(file)).faults]
    assert any("is not the file that the runs have left for" in what for what in whats)
    assert any(said in what for what in whats), whats
    # Whoever can write the store as well has its digest changed, and is found all the same.
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    file.execute(f"drop trigger an_archive_is_never_changed; update archives set sha256 = '{sha}'")
    whats = [fault.what for fault in (await audit(file)).faults]
    assert not any("is not the file" in what for what in whats)
    assert any(said in what for what in whats), whats
    assert done.files


async def test_rewriting_the_store_along_with_the_archive_breaks_the_seal(file, tmp_path):
    await let_go(file, tmp_path)
    (path,) = tmp_path.glob("sayso-*")
    lines = unzipped(path)
    _rehash(lines)
    zipped(path, lines)
    runs = list(read_archive(path))
    conn = apsw.Connection(str(file.path))
    for (name,) in conn.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
        conn.execute(f"drop trigger {name}")
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    conn.execute("update archives set sha256 = ?", (sha,))
    for run in runs:
        gone = leaving(run)
        conn.execute("update archived set hash = ? where id = ?", (gone.hash, gone.id))
        for entry in run.journal:
            conn.execute(
                "update leaves set hash = ? where position = ?", (entry.hash, entry.position)
            )
    conn.close()

    report = await audit(file)

    assert [fault.what for fault in report.faults] == [
        fault.what for fault in report.faults if "exchanged or hashed again" in fault.what
    ]
    assert report.faults


async def test_an_archive_that_is_gone_is_missed(kept, tmp_path):
    await let_go(kept, tmp_path)
    (path,) = tmp_path.glob("sayso-*")
    (tmp_path / "elsewhere").mkdir()
    path.rename(tmp_path / "elsewhere" / path.name)

    missed = await audit(kept)

    assert not missed.ok
    assert "is missing, with 4 runs in it" in missed.faults[0].what
    assert (await audit(kept, archives=tmp_path / "elsewhere")).ok


async def test_archives_are_known_where_a_store_is_moved_to(place, full, tmp_path):
    source, target, back = place("sqlite"), place("postgres"), place("sqlite")
    await fill(source, full)
    await let_go(source, tmp_path)
    before = await look_without_talk(source)

    await carry(source, target)
    assert await look_without_talk(target) == before
    report = await audit(target)
    assert report.ok, report.faults
    assert report.archived == 4
    await carry(target, back)

    assert await look_without_talk(back) == before
    async with back.opened() as store:
        await refused(RunArchived, store.thread(*THREAD))
        assert (await audit(back)).ok


async def test_what_cannot_be_archived_is_refused(file, tmp_path):
    with pytest.raises(BadSetup, match="no directory"):
        await let_go(file, tmp_path / "nowhere")
    async with file.opened() as store, Sayso(store, work=False) as app:
        agent = Principal(kind="agent", id="teller")
        with pytest.raises(NotAllowed):
            await app.audit.archive("1ms", tmp_path, by=agent)
    with pytest.raises(BadSetup, match="in memory"):
        await MemoryStore().archives.take(NewArchive(file="f", sha256="0" * 64, runs=()))


def killed(kept: Place, to, point: int) -> bool:
    """Archive in a child that dies before its n-th step: a statement to a file, a file that is
    opened, linked or removed, a call to the store; tell whether it came to that.
    """
    count = 0

    def step(*_) -> bool:
        nonlocal count
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def heard(event: str, args: tuple) -> None:
        if event in ("open", "os.link", "os.remove") and str(to) in str(args[0]):
            step()

    async def call(*_) -> None:
        step()

    async def archiving() -> None:
        apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", step))
        store = await kept.store()
        watched = Watched(store.archives, call)
        type(store).archives = property(lambda _: watched)  # Of this child alone.
        sys.addaudithook(heard)
        async with Sayso(store, work=False) as app:
            await app.audit.archive("1ms", to, by="mira")
        await store.close()
        (to / "steps").write_text(str(count))

    return os.WIFSIGNALED(forked(archiving))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_run_is_lost_wherever_archiving_is_killed(place, full, tmp_path, kind):
    before = asyncio.run(look(Place(None, full)))
    final = {row.id for row in before["runs"] if row.status == "completed"}
    kept = place(kind)
    asyncio.run(fill(kept, full))
    (tmp_path / "0").mkdir()
    assert not killed(kept, tmp_path / "0", 0)
    steps = int((tmp_path / "0" / "steps").read_text())
    assert steps > 5

    for point in some(steps, 10 if kind == "sqlite" else 4):
        kept, to = place(kind), tmp_path / str(point)
        to.mkdir()
        asyncio.run(fill(kept, full))
        assert killed(kept, to, point)

        halfway = asyncio.run(audit(kept))
        assert halfway.ok, halfway.faults
        assert halfway.archived in (0, len(final))
        again = asyncio.run(let_go(kept, to))
        report = asyncio.run(audit(kept))
        assert report.ok, report.faults
        assert halfway.archived + again.runs == report.archived == len(final)
