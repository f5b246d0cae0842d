"""Folders for tests that make thousands of files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def shm_path() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process cannot tell, and it is faster."""
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="sayso-", dir=shm if shm.is_dir() else None))
    yield root
    shutil.rmtree(root, ignore_errors=True)
