"""A store is put back to an older state: whatever may have happened since is not done again without
a person. The payments are counted outside, as ever.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import apsw
import pytest

from sayso import Agent, Context, Sayso, answer, approve, question, tool
from sayso.domain.value import Principal
from sayso.engine.restore import Restored, recover
from sayso.errors import BadValue, StoreMoved, StoreRestored
from sayso.store.audit import verify
from sayso.store.base import Store
from sayso.store.move import move
from sayso.store.query import RunQuery
from sayso.store.sqlite import SqliteStore
from sayso.store.sqlite_transfer import SqliteTransfer
from sayso.testing import call, say
from tests.postgres import Cluster
from tests.store.child import forked

from .kit import QUICK, Place, World, agent, completed, held, suspended, types, until

SCRIPT = [call("pay", {"amount": 5}), say("Paid.")]
OPS = Principal(kind="service", id="ops")


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from .conftest import KEYS

    monkeypatch.setenv("SAYSO_KEYS", KEYS)
    if request.param == "sqlite":
        yield Place("sqlite", tmp_path)
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    found = Place("postgres", tmp_path, cluster)
    yield found
    cluster.lender.take_back()


class Backup:
    """A backup of a site, made as the manual says, while others work."""

    def __init__(self, site: Place, root: Path) -> None:
        self.site = site
        self.file = root / "backup"
        if site.kind == "sqlite":
            conn = apsw.Connection(str(site.path))
            conn.execute("vacuum into ?", (str(self.file),))
            conn.close()
        else:
            self._run("pg_dump", "-Fc", "-n", site._schema, "-f", str(self.file))

    def put_back(self) -> None:
        if self.site.kind == "sqlite":
            for suffix in ("-wal", "-shm"):
                Path(f"{self.site.path}{suffix}").unlink(missing_ok=True)
            self.site.path.write_bytes(self.file.read_bytes())
        else:
            self._cluster.drop(self.site._schema)
            self._run("pg_restore", str(self.file))

    @property
    def _cluster(self) -> Cluster:
        assert self.site.cluster is not None
        return self.site.cluster

    def _run(self, program: str, *args: str) -> None:
        url = self._cluster.url("postgres")
        command = [self._cluster.bins / program, *args, "-d", url]
        subprocess.run(command, check=True, timeout=60, capture_output=True)


def teller(world: World, *, approval: bool = True, gate: asyncio.Event | None = None) -> Agent:
    @tool(approval=approval, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        """Pay."""
        if gate is not None:
            await gate.wait()
        world.act(ctx, {"amount": amount})
        return f"paid {amount}"

    return agent(SCRIPT, pay)


async def recovering(site: Place) -> Store:
    if site.kind == "sqlite":
        return await SqliteStore.open(site.path, clock=site.clock, recovers=True)
    from sayso.store.postgres import PostgresStore

    assert site.cluster is not None
    return await PostgresStore.open(
        site.cluster.url("postgres"), schema=site._schema, clock=site.clock, recovers=True
    )


async def recovered(site: Place, *agents: Agent) -> Restored:
    """Let a site work again, as `sayso restored` does."""
    store = await recovering(site)
    try:
        async with Sayso(store, agents=agents, work=False) as app:
            return await recover(app._open_parts, by=OPS)
    finally:
        await store.close()


async def approved(site: Place, count: int = 1) -> list[str]:
    """Leave runs that may pay, with nobody there to do it."""
    async with site.app(teller(site.world)) as app:
        runs = [await app.start("teller", "Pay Jiro", by="mira") for _ in range(count)]
        for run in runs:
            await suspended(run)
    async with site.app(teller(site.world), work=False) as app:
        for run in runs:
            (hold,) = (await app.run(run.id).view()).holds
            await app.decide(hold, approve(), by="mira")
    return [run.id for run in runs]


async def start_one(site: Place) -> None:
    """Have something happen that the backup knows nothing of."""
    async with site.app(teller(site.world), work=False) as app:
        await app.start("teller", "More", by="mira")


async def test_what_was_approved_and_has_run_since_is_not_run_again_without_a_person(
    site: Place, tmp_path: Path
) -> None:
    (run_id,) = await approved(site)
    backup = Backup(site, tmp_path)
    async with site.app(teller(site.world)) as app:
        await completed(app.run(run_id))
    assert len(site.world.effects()) == 1

    backup.put_back()
    with pytest.raises(StoreRestored, match="sayso restored"):
        async with site.app(teller(site.world)):
            pass
    async with site.app(teller(site.world), work=False) as app:
        assert (await app.run(run_id).view()).status == "running"
        with pytest.raises(StoreRestored):
            await app.start("teller", "Pay Jiro", by="mira")
    done = await recovered(site)

    assert (done.runs, done.quarantined, done.asked, done.due, done.epoch) == (1, 1, 1, 0, 2)
    async with site.app(teller(site.world)) as app:
        hold = await held(app.run(run_id))
        assert "may have run since" in hold.why
        assert len(site.world.effects()) == 1
        await app.decide(hold, approve(), by="mira")
        await completed(app.run(run_id))
        assert len(site.world.effects()) == 2
        assert (await verify(app.store)).ok


async def test_a_store_that_was_restored_and_moved_is_restored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from .conftest import KEYS

    monkeypatch.setenv("SAYSO_KEYS", KEYS)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    site, there = (Place("sqlite", tmp_path / name) for name in ("here", "there"))
    (run_id,) = await approved(site)
    await put_back_after(site, run_id)
    assert (await recovered(site)).quarantined == 1
    source, target = SqliteTransfer.open(site.path), SqliteTransfer.open(there.path)
    await move(source, target)
    await source.close()
    await target.close()
    async with there.app(teller(there.world), work=False) as app:
        (hold,) = (await app.run(run_id).view()).holds
        await app.decide(hold, approve(), by="mira")
    await put_back_after(there, run_id)
    assert len(there.world.effects()) == 1

    assert (await recovered(there)).quarantined == 1

    async with there.app(teller(there.world)) as app:
        await held(app.run(run_id))
    assert len(there.world.effects()) == 1


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
async def test_a_store_that_was_moved_is_not_let_work(site: Place, tmp_path: Path) -> None:
    (run_id,) = await approved(site)
    source, target = SqliteTransfer.open(site.path), SqliteTransfer.open(tmp_path / "there.db")
    await move(source, target)

    with pytest.raises(StoreMoved, match="was moved to"):
        await recovered(site)

    assert await source.fault() == ""
    await source.close()
    await target.close()
    async with site.app(work=False) as app:
        assert "run.adopted" not in await types(app, run_id)


async def put_back_after(site: Place, run_id: str) -> None:
    """Have a run come to its end, and put a store back to before it did."""
    backup = Backup(site, site.path.parent)
    async with site.app(teller(site.world)) as app:
        await completed(app.run(run_id))
    backup.put_back()
    backup.file.unlink()


async def test_what_was_under_way_is_in_doubt(site: Place, tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with site.app(teller(site.world, gate=gate)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await until(lambda: started(app, run.id))
        backup = Backup(site, tmp_path)
        gate.set()
        await completed(run)

    backup.put_back()
    await recovered(site, teller(site.world))

    async with site.app(teller(site.world)) as app:
        hold = await held(app.run(run.id))
        assert hold.kind == "in_doubt"
        assert "backed up" in (await app.doubt(hold)).why
        assert len(site.world.effects()) == 1


async def started(app: Sayso, run_id: str) -> bool:
    return "call.started" in await types(app, run_id)


async def test_a_call_that_needs_nobody_is_asked_about_if_it_acts_once(
    site: Place, tmp_path: Path
) -> None:
    world = site.world

    # A turn is taken and its call is not started: by two calls, of which the first is held up.
    gate = asyncio.Event()

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        """Look."""
        await gate.wait()
        return "seen"

    @tool(effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        """Pay."""
        world.act(ctx, {"amount": amount})
        return "paid"

    script = [[call("look", {}), call("pay", {"amount": 5})], say("Done.")]

    def make() -> Agent:
        return agent(script, look, pay, siblings="in_order")

    async with site.app(make()) as app:
        run = await app.start("teller", "Pay", by="mira")
        await until(lambda: started(app, run.id))
        backup = Backup(site, tmp_path)
        gate.set()
        await completed(run)

    backup.put_back()
    done = await recovered(site, make())

    assert done.asked == 2
    async with site.app(make()) as app:
        holds = (await suspended(app.run(run.id))).holds
        assert {hold.tool for hold in holds} == {"look", "pay"}
        (asked,) = [hold for hold in holds if hold.tool == "pay"]
        assert "restored" in asked.why
        assert len(world.effects()) == 1


@pytest.mark.parametrize("silence", ["answer", "reject"])
async def test_no_body_that_silence_let_go_on_does_so_again_without_a_person(
    site: Place, tmp_path: Path, silence: str
) -> None:
    world = site.world

    @tool(durable=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        """Pay."""
        if silence == "answer":
            await ctx.ask(question("From?", default="main"), within="1h", on_silence="answer")
        else:
            await ctx.approval("Any objection?", within="1h")
        await ctx.step("pay", lambda: world.act(ctx, {"amount": amount}))
        return "paid"

    async with site.app(agent(SCRIPT, pay), bounds=QUICK) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        backup = Backup(site, tmp_path)
        site.clock.advance("2h")
        await completed(run)
    assert len(world.effects()) == 1

    backup.put_back()
    assert (await recovered(site)).quarantined == 1

    async with site.app(agent(SCRIPT, pay), bounds=QUICK) as app:
        later = await app.start("teller", "Pay Ann", by="mira")
        await suspended(later)
        site.clock.advance("2h")
        await completed(later)
        assert len(world.effects()) == 2
        hold = await held(app.run(run.id))
        assert hold.deadline is None
        verdict = answer("main") if silence == "answer" else approve()
        await app.decide(hold, verdict, by="mira")
        await completed(app.run(run.id))
        assert len(world.effects()) == 3
        assert (await verify(app.store)).ok


async def test_a_run_that_only_waits_is_left_alone(site: Place, tmp_path: Path) -> None:
    async with site.app(teller(site.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        await suspended(run)
        before = await types(app, run)
        backup = Backup(site, tmp_path)
        await app.start("teller", "More", by="mira")

    backup.put_back()
    done = await recovered(site)

    assert (done.runs, done.quarantined, done.asked) == (1, 0, 0)
    async with site.app(teller(site.world)) as app:
        assert await types(app, run.id) == before
        await app.decide(await held(app.run(run.id)), approve(), by="mira")
        await completed(app.run(run.id))


async def test_a_run_that_goes_on_by_itself_is_named(site: Place, tmp_path: Path) -> None:
    async with site.app(work=False) as app:
        store = app.store
        async with Sayso(store, agents=[teller(site.world)], work=False) as desk:
            run = await desk.start("teller", "Pay Jiro", by="mira")
            backup = Backup(site, tmp_path)
            await desk.start("teller", "More", by="mira")

    backup.put_back()
    await interrupted(site)
    done = await recovered(site)

    assert (done.quarantined, done.due, done.due_runs) == (0, 1, [run.id])
    async with site.app(teller(site.world)) as app:
        await held(app.run(run.id))
        assert (await types(app, run.id)).count("run.adopted") == 1


async def interrupted(site: Place) -> None:
    """Begin to let a place work again, and stop at the first run."""

    def stop(found: Restored) -> None:
        raise KeyError(found.runs)

    store = await recovering(site)
    async with Sayso(store, work=False) as app:
        with pytest.raises(KeyError):
            await recover(app._open_parts, by=OPS, progress=stop)
    await store.close()


async def test_whoever_is_killed_on_the_way_asks_nothing_twice(
    file_place: Place, tmp_path: Path
) -> None:
    site = file_place
    ids = await approved(site, 4)
    backup = Backup(site, tmp_path)
    await start_one(site)
    backup.put_back()

    async def die(after: int) -> None:
        store = await recovering(site)
        async with Sayso(store, work=False) as app:

            def progress(found: Restored) -> None:
                if found.quarantined == after:
                    os.kill(os.getpid(), signal.SIGKILL)

            await recover(app._open_parts, by=OPS, progress=progress)

    for after in (1, 2):
        assert forked(lambda after=after: die(after)) == signal.SIGKILL
        with pytest.raises(StoreRestored):
            async with site.app(teller(site.world)):
                pass
    done = await recovered(site)

    assert (done.runs, done.quarantined, done.epoch) == (4, 1, 2)
    async with site.app(teller(site.world)) as app:
        for run_id in ids:
            await held(app.run(run_id))
            assert (await types(app, run_id)).count("run.adopted") == 1
        assert (await verify(app.store)).ok
    assert site.world.effects() == []


async def test_two_who_recover_it_at_once_ask_once(site: Place, tmp_path: Path) -> None:
    ids = await approved(site, 3)
    backup = Backup(site, tmp_path)
    await start_one(site)
    backup.put_back()

    await asyncio.gather(recovered(site), recovered(site))

    async with site.app(teller(site.world)) as app:
        for run_id in ids:
            await held(app.run(run_id))


async def test_a_seal_outside_that_the_store_has_lost_stops_it(site: Place, tmp_path: Path) -> None:
    seals = tmp_path / "pay.seals"
    async with site.app(teller(site.world)) as app:
        await suspended(await app.start("teller", "Pay Jiro", by="mira"))
        await app.audit.seal(out=seals)
        await app.start("teller", "More", by="mira")
        await app.audit.seal()
        elsewhere = tmp_path / "other.seals"
        elsewhere.write_bytes(seals.read_bytes())
    lines = seals.read_bytes()

    # A disk that was put back knows nothing of it: only what is outside does.
    async with site.app(work=False) as app:
        ahead = lines + lines.splitlines(keepends=True)[-1].replace(b'"n":1', b'"n":9')
        seals.write_bytes(ahead)
        with pytest.raises(StoreRestored, match="has a seal 9 that it does not have"):
            await app.audit.seal(out=seals)
        seals.write_bytes(ahead[1:])
        with pytest.raises(BadValue):
            await app.audit.seal(out=seals)
        assert seals.read_bytes() == ahead[1:]
    with pytest.raises(StoreRestored):
        async with site.app(teller(site.world)):
            pass
    await recovered(site)
    async with site.app(teller(site.world)) as app:
        assert (await app.store.origin()).fault == ""


async def test_backups_under_load_never_lead_to_a_payment_that_nobody_allowed_anew(
    site: Place, tmp_path: Path
) -> None:
    chance = random.Random(23)

    async def decide_all(app: Sayso, rounds: int) -> int:
        count = 0
        for _ in range(rounds):
            for hold in (await app.holds(by="mira")).items:
                await app.decide(hold, approve(), by="mira")
                count += 1
            await asyncio.sleep(0)
        return count

    async with site.app(teller(site.world), bounds=QUICK) as app:
        for n in range(12):
            await app.start("teller", f"Pay {n}", by="mira")
        await until(lambda: any_open(app))
        deciding = asyncio.create_task(decide_all(app, 4))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0.01)
        backup = await asyncio.to_thread(Backup, site, tmp_path)
        await deciding
        await until(lambda: none_running(app))
    paid = len(site.world.effects())

    backup.put_back()
    await recovered(site, teller(site.world))

    async with site.app(teller(site.world)) as app:
        await until(lambda: none_running(app))
        assert len(site.world.effects()) == paid
        assert (await verify(app.store)).ok


async def any_open(app: Sayso) -> bool:
    return bool((await app.holds()).items)


async def none_running(app: Sayso) -> bool:
    return not await app.store.runs(RunQuery(status="running", limit=1))
