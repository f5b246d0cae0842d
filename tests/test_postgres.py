"""The PostgreSQL of the tests: it needs no system package, no root, and no home."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sayso
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


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that everybody can enter; those of pytest are for root alone."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="sayso-", dir=memory if memory.is_dir() else None))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="the whole suite runs as an ordinary user")
def test_it_works_for_an_ordinary_user(open_path: Path) -> None:
    home = open_path / "home"
    home.mkdir()
    os.chown(home, _NOBODY, _NOBODY)
    package = Path(sayso.__file__).parents[1]
    for needed in (_ROOT / "tests", package, Path(pytest.__file__).parent):
        if _run(["ls", needed]).returncode:
            pytest.skip(f"an ordinary user cannot read {needed}")
    python, env = _python(open_path / "python")
    path = [str(package), *(one for one in sys.path if one.endswith("-packages"))]
    env |= {"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": ":".join(path)}
    tests = "tests/store/test_contract_postgres.py::TestPostgres"

    ran = _run(
        [
            *(python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            f"--basetemp={home / 'tests'}",
            f"{tests}::test_it_is_the_version_that_it_should_be",
            f"{tests}::test_a_redaction_of_nothing_is_refused",
        ],
        env={"PATH": os.environ["PATH"], **env},
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def _run(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
    user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    return subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=100, **user, **options
    )


def _python(root: Path) -> tuple[Path, dict[str, str]]:
    """Give a Python that an ordinary user can run: a copy, if ours is in the home of root."""
    ours = Path(sys.executable).resolve()
    try:
        if _run([ours, "-c", "import json"]).returncode == 0:
            return ours, {}
    except PermissionError:
        pass
    base, name = Path(sys.base_prefix), f"python3.{sys.version_info.minor}"
    left_out = shutil.ignore_patterns("__pycache__", "test", "site-packages", "config-*", "idlelib")
    shutil.copytree(base / "lib" / name, root / "lib" / name, ignore=left_out)
    (root / "bin").mkdir()
    for file in (ours, *(base / "lib").glob("libpython*.so*")):
        shutil.copy(file, root / ("bin" if file == ours else "lib"))
    return root / "bin" / ours.name, {
        "PYTHONHOME": str(root),
        "LD_LIBRARY_PATH": str(root / "lib"),
    }
