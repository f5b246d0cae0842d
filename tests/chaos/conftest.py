"""A server for every test of the chaos: they stop it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import Cluster, cluster


@pytest.fixture
def own(postgres_home: tuple[Path, Path]) -> Iterator[Cluster]:
    """A server that the storm may stop."""
    root, bins = postgres_home
    with cluster(root, bins, f"chaos-{os.getpid()}-{time.monotonic_ns()}") as found:
        yield found
