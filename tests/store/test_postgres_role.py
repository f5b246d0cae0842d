"""Two roles on a PostgreSQL store: the app's adds, the keeper's may take back. The tests of the
engine use it as the app's role, too.
"""

import psycopg
import pytest

from sayso import Agent, Sayso, approve, tool
from sayso.domain.value import Principal
from sayso.errors import BadSetup, NotKeeper, StoreOlder, StoreReadOnly
from sayso.store.archive import NewArchive
from sayso.store.audit import verify
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_migrate import released
from sayso.store.postgres_upkeep import bring_up
from sayso.testing import ScriptedModel, call, say
from sayso.testing.contract import refused, write
from tests.postgres import Cluster


class Store:
    """A database with an owner who is no superuser, an app and a keeper."""

    def __init__(self, cluster: Cluster) -> None:
        name = cluster.schema()
        self.owner, self.app, self.keeper = (f"{name}_{who}" for who in ("owner", "app", "keeper"))
        for role in (self.owner, self.app, self.keeper):
            cluster.execute(f"create role {role} login")
        cluster.execute(f"create database {name} owner {self.owner} {cluster.quickly}")
        self.cluster, self.name = cluster, name

    def url(self, role: str) -> str:
        return self.cluster.url(self.name, user=role)

    async def make(self, steps: tuple[str, ...] | None = None) -> None:
        roles = [(self.app, "app"), (self.keeper, "keeper")]
        await bring_up(self.url(self.owner), roles=roles, steps=steps)

    def tries(self, role: str, statement: str) -> str:
        """Do something as a role, and take it back; say what came of it."""
        with psycopg.connect(self.url(role)) as conn:
            conn.execute("set search_path = sayso")
            try:
                conn.execute(statement.encode())
            except psycopg.Error as error:
                return type(error).__name__
            finally:
                conn.rollback()
        return ""


@pytest.fixture
def store(postgres) -> Store:
    return Store(postgres)


def _teller() -> Agent:
    @tool(approval=True, effect="once")
    def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda messages: call("pay") if len(messages) == 1 else say("Paid."))
    return Agent("teller", model=model, tools=[pay])


async def test_the_app_does_everything_but_erase_and_the_keeper_does_that(store):
    await store.make()
    async with Sayso(store.url(store.app), agents=[_teller()]) as app:
        run = await app.start("teller", "Pay", by="mira", id="run_1")
        (hold,) = (await run.wait(timeout=60)).holds
        await app.decide(hold, approve(), by="mira")
        assert (await run.wait(final=True, timeout=60)).status == "completed"
        await app.people.put("mira", roles=["operator"])
        before = await app.store.load("run_1")

        for erase in (
            lambda: app.redact("run_1", 2, by="mira"),
            lambda: app.audit.retain("1ms", by="mira"),
        ):
            error = await refused(NotKeeper, erase())
            assert store.keeper in str(error)
        assert await app.store.load("run_1") == before

    async with Sayso(store.url(store.keeper), work=False) as keeper:
        await keeper.redact("run_1", 2, by="mira")
        report = await verify(keeper.store)
    assert (report.ok, report.redacted) == (True, 1)


async def test_only_the_keeper_archives_and_whoever_may_not_leaves_no_file(store, tmp_path):
    await store.make()
    async with Sayso(store.url(store.app), agents=[_teller()]) as app:
        for run_id in ("run_1", "run_2"):
            run = await app.start("teller", "Pay", by="mira", id=run_id)
            (hold,) = (await run.wait(timeout=60)).holds
            await app.decide(hold, approve(), by="mira")
            await run.wait(final=True, timeout=60)
        who = Principal(kind="service", id="cli")
        before = tmp_path.stat().st_mtime_ns

        error = await refused(NotKeeper, app.audit.archive("1ms", tmp_path, by=who))
        new = NewArchive(file="x", sha256="0" * 64, runs=())
        await refused(NotKeeper, app.store.archives.take(new))

        assert store.keeper in str(error)
        assert (list(tmp_path.iterdir()), tmp_path.stat().st_mtime_ns) == ([], before)
        assert (await app.audit.archive("1ms", tmp_path, by=who, dry_run=True)).runs > 0


async def test_only_the_keeper_lets_a_restored_store_work(store):
    await store.make()

    error = await refused(NotKeeper, PostgresStore.open(store.url(store.app), recovers=True))

    assert f"only {store.keeper} may let a store that was restored work again in" in str(error)
    keeper = await PostgresStore.open(store.url(store.keeper), recovers=True)
    assert (await keeper.origin()).fault == ""
    assert await keeper.accept_origin() == 2
    await keeper.close()
    owner = await PostgresStore.open(store.url(store.owner), recovers=True)
    await owner.close()


@pytest.mark.parametrize("table", ["journal", "seals", "door"])
async def test_what_is_only_added_to_cannot_be_changed_by_the_app(store, table):
    await store.make()
    changes = [f"update {table} set hash = hash", f"delete from {table}", f"truncate {table}"]
    changes[0] = changes[0].replace("hash", "data") if table == "seals" else changes[0]

    assert [store.tries(store.app, one) for one in changes] == ["InsufficientPrivilege"] * 3
    assert store.tries(store.app, f"select * from {table}") == ""
    assert store.tries(store.keeper, f"truncate {table}") == "InsufficientPrivilege"
    assert store.tries(store.keeper, changes[0]) == ""


async def test_nobody_but_the_owner_changes_what_is_ours(store):
    await store.make()
    for role in (store.app, store.keeper):
        for statement in (
            "drop table runs",
            "create table other (n int)",
            "alter table journal disable trigger all",
            "create or replace function take_turn() returns void language sql as ''",
            "update store set since = 0",
            f"insert into roles values ('{role}', 'keeper')",
        ):
            assert store.tries(role, statement) == "InsufficientPrivilege", statement


async def test_what_a_later_migration_makes_is_given_to_both(store):
    await store.make()
    later = """
    create table tags (n int); create sequence tag_numbers;
    create function f() returns int language sql as 'select 1'
    """

    await refused(StoreOlder, PostgresStore.open(store.url(store.app), steps=(*released(), later)))
    await bring_up(store.url(store.owner), steps=(*released(), later))

    for role in (store.app, store.keeper):
        assert store.tries(role, "insert into tags values (nextval('tag_numbers'))") == ""
        assert store.tries(role, "update tags set n = f(); delete from tags") == ""
        opened = await PostgresStore.open(store.url(role), steps=(*released(), later))
        await opened.append(write(f"run_{role}"))
        await opened.close()


async def test_a_table_that_somebody_made_meanwhile_is_only_added_to(store, postgres):
    """Such as a partition: until the next migration nobody knows what it is."""
    await store.make()
    with psycopg.connect(store.url(store.owner), autocommit=True) as conn:
        conn.execute("create table sayso.part (n int)")

    assert store.tries(store.app, "insert into part values (1)") == ""
    assert store.tries(store.app, "delete from part") == "InsufficientPrivilege"


async def test_a_role_that_could_do_everything_is_refused(store, postgres):
    await bring_up(store.url(store.owner))
    for role, word in (
        ("nobody_at_all", "create role"),
        ("postgres", "superuser"),
        (store.owner, "owns the schema"),
    ):
        error = await refused(BadSetup, bring_up(store.url(store.owner), roles=[(role, "app")]))
        assert word in str(error)


async def test_a_keeper_who_becomes_an_app_loses_the_right(store):
    await store.make()
    await bring_up(store.url(store.owner), roles=[(store.keeper, "app")])

    assert store.tries(store.keeper, "delete from journal") == "InsufficientPrivilege"


async def test_somebody_without_any_right_is_told_so(store, postgres):
    await store.make()
    postgres.execute(f"create role {store.name}_other login")

    error = await refused(StoreReadOnly, PostgresStore.open(store.url(f"{store.name}_other")))
    assert "grant" in str(error)
