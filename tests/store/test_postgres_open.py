"""Opening a store in PostgreSQL: migrations, and everything that is refused, with what to do."""

import asyncio
import os
import time

import pytest

from sayso import Sayso
from sayso.errors import (
    BadKeys,
    BadSetup,
    NotOurStore,
    StoreError,
    StoreNewer,
    StoreReadOnly,
)
from sayso.given import load_keys, open_store
from sayso.store import postgres as module
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_address import read_address
from sayso.store.postgres_link import Link
from sayso.store.postgres_migrate import migrate, released
from sayso.store.postgres_upkeep import versions
from sayso.testing.contract import refused, write
from tests.postgres import Cluster, cluster

SECRET = "s3cret-word"


@pytest.fixture
def url(postgres: Cluster) -> str:
    return postgres.database()


@pytest.fixture
def own(postgres_home):
    """A server whose settings a test may change."""
    root, bins = postgres_home
    with cluster(root, bins, f"own-{os.getpid()}-{time.monotonic_ns()}") as found:
        yield found


async def test_an_app_is_opened_by_an_address(url):
    async with Sayso(url, work=False) as app:
        await app.store.append(write())
    async with Sayso(url.replace("postgresql:", "postgres:"), work=False) as app:
        assert await app.store.load("run_1") is not None
        assert "://" in app.store.name


async def test_a_store_that_is_opened_again_is_the_same(url):
    for after in range(3):
        store = await PostgresStore.open(url)
        await store.append(write(after=after))
        await store.close()


async def test_many_who_open_a_new_store_at_once_make_it_once(url):
    stores = await asyncio.gather(*(PostgresStore.open(url) for _ in range(6)))

    answers = [store.append(write(f"run_{n}")) for n, store in enumerate(stores)]
    assert sorted([(await answer).position for answer in answers]) == [1, 2, 3, 4, 5, 6]
    for store in stores:
        await store.close()


def _tables(postgres: Cluster, url: str) -> list:
    name = url.partition("///")[2].partition("?")[0]
    return postgres.execute(
        "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where nspname = 'sayso' order by 1",
        name,
    )


@pytest.mark.parametrize("fault", ["select 1 / 0", "drop table store"])
async def test_whoever_dies_in_a_migration_leaves_it_as_it_was(postgres, url, monkeypatch, fault):
    """Inside a step, and between it and the note of its number."""
    steps = released()
    for broken in range(len(steps)):
        cut = (*steps[:broken], f"{steps[broken]}; {fault}", *steps[broken + 1 :])
        monkeypatch.setattr(module, "released", lambda cut=cut: cut)
        before = _tables(postgres, url) if broken == 0 else None

        await refused(StoreError, PostgresStore.open(url))

        if before is not None:
            assert _tables(postgres, url) == before == []
        else:
            name = url.partition("///")[2].partition("?")[0]
            assert postgres.execute("select version from sayso.store", name) == [(broken,)]
        conn = await Link(read_address(url), pool_max=1, patience_s=9).connect()
        await migrate(conn, url, "sayso", steps[: broken + 1])
        await conn.close()
    monkeypatch.setattr(module, "released", lambda: steps)
    store = await PostgresStore.open(url)
    await store.append(write())
    await store.close()


async def test_a_newer_store_is_refused(postgres, url):
    await (await PostgresStore.open(url)).close()
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute("update sayso.store set version = 99, since = 99", name)

    assert "upgrade" in str(await refused(StoreNewer, PostgresStore.open(url)))
    await refused(StoreNewer, versions(url))


@pytest.mark.parametrize(
    "theirs",
    [
        "create schema sayso; create table sayso.invoices (n int)",
        "create schema sayso; create table sayso.store (n int)",
        "create schema sayso; create function sayso.f() returns int language sql as 'select 1'",
        """
        create schema sayso;
        create table sayso.store (one bool, program text, version int, since int, id uuid);
        insert into sayso.store values (true, 'other', 1, 1, gen_random_uuid())
        """,
    ],
)
async def test_a_schema_of_another_program_is_refused_and_left_alone(postgres, url, theirs):
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute(theirs, name)
    before = _tables(postgres, url)

    await refused(NotOurStore, PostgresStore.open(url))

    assert _tables(postgres, url) == before


async def test_an_empty_schema_that_somebody_made_for_it_is_taken(postgres, url):
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute("create schema sayso", name)

    await (await PostgresStore.open(url)).close()


@pytest.mark.parametrize(
    "setting, value", [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")]
)
async def test_a_server_that_could_lose_decisions_is_refused(own, setting, value):
    own.execute(f"alter system set {setting} = {value}")
    own.execute("select pg_reload_conf()")
    own.stop()
    own.start(**({"fsync": "off"} if setting == "fsync" else {}))

    error = await refused(StoreError, PostgresStore.open(own.url("postgres")))

    assert setting in str(error)
    assert " on" in str(error)


async def test_a_user_whose_commits_do_not_wait_is_refused(postgres, url):
    name = url.partition("///")[2].partition("?")[0]
    for value in ("off", "local"):
        postgres.execute(f"alter database {name} set synchronous_commit = {value}")
        assert "synchronous_commit" in str(await refused(StoreError, PostgresStore.open(url)))
    postgres.execute(f"alter database {name} set synchronous_commit = remote_apply")
    await (await PostgresStore.open(url)).close()


async def test_a_connection_made_later_is_looked_at_as_well(postgres, url, monkeypatch):
    monkeypatch.setattr("sayso.store.postgres_link.LOCK_S", 1.0)
    name = url.partition("///")[2].partition("?")[0]
    store = await PostgresStore.open(url, listen=False)
    await store.append(write())
    postgres.execute(f"alter database {name} set synchronous_commit = off")
    postgres.execute(
        f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    )
    await asyncio.sleep(0.1)

    error = await refused(StoreError, store.append(write(after=1)))

    assert "synchronous_commit" in str(error)
    postgres.execute(f"alter database {name} reset synchronous_commit")
    await store.close()


async def test_a_read_replica_is_refused(own):
    own.stop()
    (own.data / "standby.signal").touch()
    os.chown(own.data / "standby.signal", own.data.stat().st_uid, own.data.stat().st_gid)
    own.start(hot_standby="on")

    error = await refused(StoreReadOnly, PostgresStore.open(own.url("postgres")))

    assert "primary" in str(error)


async def test_a_user_without_rights_is_told_which(postgres, url):
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute("drop role if exists guest; create role guest login")
    theirs = postgres.url(name, user="guest")

    error = await refused(StoreReadOnly, PostgresStore.open(theirs))
    assert "grant" in str(error)
    await (await PostgresStore.open(url)).close()
    error = await refused(StoreReadOnly, PostgresStore.open(theirs))
    assert "grant" in str(error)


async def test_a_user_who_may_only_read_is_told_so(postgres, url):
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute(f"alter database {name} set default_transaction_read_only = on")

    await refused(StoreReadOnly, PostgresStore.open(url))


async def test_what_cannot_be_reached_is_said_without_the_password(postgres, own):
    own.execute(f"create role ann login password '{SECRET}'")
    hba = own.data / "hba.conf"
    hba.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    os.chown(hba, own.data.stat().st_uid, own.data.stat().st_gid)
    own.stop()
    own.start(hba_file=str(hba))
    at = f"?host={own.data}"

    for address, word in (
        (f"postgresql://ann:wrong{SECRET}@/postgres{at}", "password"),
        (f"postgresql://nobody:{SECRET}@/postgres{at}", "password"),
        (f"postgresql://ann:{SECRET}@/nowhere{at}", "createdb"),
        (f"postgresql://ann:{SECRET}@/postgres?host={own.data}/nowhere", "running"),
        (f"postgresql://ann:{SECRET}@127.0.0.1:1/postgres", "running"),
        (f"postgresql://ann:{SECRET}@nowhere.invalid/postgres", "nowhere.invalid"),
    ):
        error = await refused(StoreError, open_store(address))
        assert word in str(error), str(error)
        assert SECRET not in str(error)
        assert "ann" in str(error) or "nobody" in str(error)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:p@ss@host/db",
        "postgresql://ann:p/ss@host/db",
        "postgresql://ann:p:ss@host:port/db",
        "postgresql://ann:%zz@host/db",
        "postgresql://ann:pss@host/db?nonsense=pss",
        "postgresql://ann:p ss@ho st/db",
    ],
)
async def test_an_address_that_cannot_be_read_is_not_repeated(address):
    try:
        found = await refused(BadSetup, open_store(address))
    except StoreError as error:  # It can be read, and there is no such host.
        found = error
    for piece in ("p@ss", "p/ss", "p:ss", "ss@", "pss", "zz", "p ss", '"p"'):
        assert piece not in str(found)


@pytest.mark.parametrize("host", ["x..y", f"{'a' * 64}.example", "db,x..y", ".example"])
async def test_a_host_that_no_name_service_could_know_is_refused(host):
    error = await refused(BadSetup, open_store(f"postgresql://ann:{SECRET}@{host}/pay"))

    assert "63 characters" in str(error)
    assert SECRET not in str(error)


def test_a_password_is_in_nothing_that_is_shown():
    address = read_address(f"postgresql://ann:{SECRET}@db.example:5433/pay?sslmode=require")

    assert address.name == "postgresql://ann@db.example:5433/pay"
    assert SECRET not in repr(address)
    assert address.password == SECRET
    for bounded in ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "sslmode=require"):
        assert bounded in address.conninfo
    with pytest.raises(BadSetup):
        read_address("postgresql://h/db", "sayso; drop")
    with pytest.raises(BadSetup):
        read_address("mysql://h/db")


async def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sayso.store.postgres", None)

    error = await refused(BadSetup, open_store("postgresql://h/db"))

    assert "sayso[postgres]" in str(error)


async def test_a_queue_that_is_not_installed_is_missed_before_anybody_works(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    error = await refused(BadSetup, Sayso("postgresql://nowhere/pay").open())

    assert "pgqueuer" in str(error)
    assert "sayso[postgres]" in str(error)


async def test_another_kind_of_address_is_refused():
    assert "postgresql://" in str(await refused(BadSetup, open_store("mysql://h/db")))


async def test_keys_are_never_made_beside_a_store_that_machines_share(url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SAYSO_KEYS", raising=False)
    store = await PostgresStore.open(url)

    with pytest.raises(BadKeys, match="every machine"):
        load_keys(store)

    (keys,) = [one for one in await store.checkup() if one.name == "keys"]
    assert "every machine" in keys.text
    assert list(tmp_path.iterdir()) == []
    await store.close()
