"""Every test that asks for a `place` is run in memory and on a real SQLite file."""

from pathlib import Path

import pytest

from .kit import Place, World


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


@pytest.fixture
def file_place(tmp_path: Path) -> Place:
    return Place("sqlite", tmp_path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")
