"""The same stories on PostgreSQL: real processes killed with SIGKILL, held against the same tables.

Every change dies at some of the points and pairs of them, `make soak` at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import test_tales as tales
from tests.crash.story import KINDS, Kind
from tests.crash.test_crash_points import judge, phases, run_forks
from tests.postgres import Cluster

STEP: dict[Kind, str] = {"none": "3", "keyed": "3", "once": "1", "probe": "3"}
"""Every how many points a change dies at."""


@pytest.fixture
def address(postgres: Cluster) -> Iterator[str]:
    """A database for the cases of one test."""
    url = postgres.database()
    yield url
    postgres.execute(f"drop database test_{postgres.given} with (force)")


def check(kind: Kind, folder: Path, address: str, *options: str) -> set[str]:
    cases = run_forks(kind, folder, "--in", address, *options)
    assert cases[0]["deaths"] == ["exit 0"]
    reached: set[str] = set()
    for found in cases:
        killed = found["deaths"][: len(found["crashes"])]
        assert killed == ["SIGKILL"] * len(found["crashes"]), found
        assert found["deaths"][-1] == "exit 0", found
        judge(kind, found, "postgres")
        for points in found["points"][: len(found["crashes"])]:
            reached.update(phases(points, "postgres"))
    return reached


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_some_points_it_pays_once(kind: Kind, shm_path: Path, address: str) -> None:
    check(kind, shm_path, address, "--step", STEP[kind])


@pytest.mark.parametrize("kind", ["once", "keyed", "probe"])
def test_killed_twice_at_some_points_it_pays_once(kind: Kind, shm_path: Path, address: str) -> None:
    reached = check(kind, shm_path, address, "--from", "11", "--step", "9", "--pairs", "9")

    assert "started" in reached, "some die where it matters"


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_killed_anywhere_once_or_twice_it_pays_once(
    kind: Kind, shm_path: Path, address: str
) -> None:
    reached = check(kind, shm_path, address, "--pairs", "1")

    assert reached == {"quiet", "started", "paid"}


@pytest.mark.soak
@pytest.mark.parametrize("name", [*tales.BODY, "child", "cancel", "nested-cab"])
def test_killed_anywhere_nothing_is_repeated_lost_or_left_behind(
    name: str, shm_path: Path, address: str
) -> None:
    tales.check_forks(name, shm_path, "--in", address)
