"""Schemas that are lent again: as they were made, or not at all."""

from pathlib import Path

import psycopg
import pytest

from sayso.store.postgres import PostgresStore
from sayso.testing.contract import write
from tests.postgres import Cluster

COUNTS = "select (select count(*) from {0}.runs), (select count(*) from {0}.journal)"


async def lend_and_write(cluster: Cluster, folder: Path) -> str:
    """Have a schema lent in which something was written, and all have left."""
    name = await cluster.lender.lend()
    store = await PostgresStore.open(
        cluster.url("postgres"), schema=name, listen=False, proof_dir=str(folder)
    )
    await store.append(write("run_1", count=2))
    await store.shelf.put("p", "kind", "a", b"1", rev=0)
    await store.close()
    assert cluster.execute(COUNTS.format(name)) == [(1, 2)]
    return name


def is_gone(cluster: Cluster, name: str) -> bool:
    there = f"select count(*) from pg_namespace where nspname = '{name}'"
    return cluster.execute(there) == [(0,)]


async def test_it_is_lent_again_with_the_rows_of_the_first_day(postgres, tmp_path) -> None:
    name = await lend_and_write(postgres, tmp_path)
    ends = f"select (select max(position) from {name}.ends), (select last_value from {name}.revs)"
    moved = postgres.execute(ends)

    postgres.lender.take_back()

    assert await postgres.lender.lend() == name
    assert postgres.execute(COUNTS.format(name)) == [(0, 0)]
    assert postgres.execute(f"select count(*) from {name}.store") == [(1,)]
    assert postgres.execute(ends) == [(0, 1)] != moved
    postgres.lender.take_back()


@pytest.mark.parametrize(
    "change",
    [
        "drop trigger the_journal_is_never_cut on {0}.journal",
        "alter table {0}.journal disable trigger the_journal_is_never_cut",
        "alter table {0}.runs add column more int",
        "create index more on {0}.runs (id)",
        "create or replace function {0}.take_turn() returns void language sql as ''",
        "alter table {0}.runs alter column agent drop not null",
        "grant select on {0}.runs to public",
        "create table {0}.more (n int)",
    ],
)
async def test_one_that_was_changed_is_not_lent_again(postgres, tmp_path, change) -> None:
    name = await lend_and_write(postgres, tmp_path)
    postgres.execute(change.format(name))

    postgres.lender.take_back()

    assert is_gone(postgres, name)


async def test_one_in_which_somebody_is_left_is_not_lent_again(postgres, tmp_path) -> None:
    name = await lend_and_write(postgres, tmp_path)

    with psycopg.connect(postgres.url("postgres")):
        postgres.lender.take_back()

    assert is_gone(postgres, name)
