"""The PostgreSQL of the tests: it needs no system package, no root, and no home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import NEWEST, OLDER, Cluster

_NOBODY = 65534
_ROOT = Path(__file__).parents[1]


def test_two_versions_are_tested(postgres: Cluster, older_postgres: Cluster) -> None:
    found = [
        one.execute("select current_setting('server_version_num')::int / 10000")[0][0]
        for one in (postgres, older_postgres)
    ]

    assert found == [NEWEST, OLDER]


def test_it_is_nobodys_but_ours(postgres: Cluster) -> None:
    """No port, and a directory that only the server's user can enter."""
    assert postgres.execute("show listen_addresses") == [("",)]
    assert postgres.data.stat().st_mode & 0o077 == 0
    assert postgres.data.stat().st_uid == (_NOBODY if os.geteuid() == 0 else os.geteuid())


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user")
def test_it_works_for_an_ordinary_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, _NOBODY, _NOBODY)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # Made by pytest for root alone.
    user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    if subprocess.run(["ls", _ROOT / "tests"], capture_output=True, **user).returncode:
        pytest.skip("an ordinary user cannot read this checkout")
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    tests = "tests/store/test_contract_postgres.py::TestPostgres"
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
            f"--basetemp={home / 'tests'}",
            f"{tests}::test_it_is_the_version_that_it_should_be",
            f"{tests}::test_a_redaction_of_nothing_is_refused",
        ],
        cwd=_ROOT,
        env={**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        **user,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
