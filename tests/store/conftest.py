"""Folders for tests that make hundreds of files."""

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def shm_path():
    """A folder in memory, where a sync costs nothing and the test does not depend on one."""
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="sayso-", dir=shm if shm.is_dir() else None))
    yield root
    shutil.rmtree(root, ignore_errors=True)
