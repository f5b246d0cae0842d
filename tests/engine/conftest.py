"""Every test that asks for a `place` is run in memory and on a real SQLite file; those of the files
below, or all with SAYSO_POSTGRES=all, in a real PostgreSQL as well.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sayso.store.keyring import new_key
from tests.postgres import Cluster

from .kit import Place, World

KINDS = ["memory", "sqlite"]
IN_POSTGRES = {
    "test_blocking",
    "test_child_ends",
    "test_commands",
    "test_conflicts",
    "test_cycle",
    "test_dispatch",
    "test_doubt",
    "test_doubted_command",
    "test_durable_await",
    "test_effects",
    "test_fail_closed",
    "test_grants",
    "test_many_holds",
    "test_may_live",
    "test_messages",
    "test_overtaken",
    "test_parallel",
    "test_people_races",
    "test_races",
    "test_reads",
    "test_sweeper",
    "test_takeover",
}
"""What rests on the store the most, as far as it is quick enough for every change."""
KEYS = new_key()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        wanted = os.environ.get("SAYSO_POSTGRES", "")
        core = metafunc.module.__name__.rpartition(".")[2] in IN_POSTGRES and wanted != "none"
        kinds = [*KINDS, "postgres"] if core or wanted == "all" else KINDS
        metafunc.parametrize("place", kinds, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param != "postgres":
        yield Place(request.param, tmp_path)
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    # Where machines share a store, no file beside it can have the keys.
    request.getfixturevalue("monkeypatch").setenv("SAYSO_KEYS", KEYS)
    yield Place("postgres", tmp_path, cluster)
    cluster.lender.take_back()


@pytest.fixture
def file_place(tmp_path: Path) -> Place:
    return Place("sqlite", tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")
