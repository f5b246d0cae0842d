"""What a SQLite store knows of archives: what writes, what reads, what hands over to the two."""

from __future__ import annotations

import builtins
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import apsw

from sayso.errors import StaleRun
from sayso.store.archive import Archive, Leaving, NewArchive, UsedKey, archived
from sayso.store.base import Key, KeyRow
from sayso.store.clock import Clock
from sayso.store.door import check_page

if TYPE_CHECKING:
    from sayso.store.seal import Leaf
    from sayso.store.sqlite_shelf import Read, Submit

_RUN = """
select k from runs r where id = ?1 and seq = ?2 and hash = ?3
    and status in ('completed', 'failed', 'cancelled')
    and not exists (select 1 from holds h where h.run = r.k and h.status <> 'settled')
    and not exists (select 1 from parcels p where p.run = r.k)
    and not exists (
        select 1 from runs o where o.project = r.project and o.thread = r.thread
            and o.id not in (select value from json_each(?4)))
    and not exists (
        select 1 from journal j where j.run = r.k
            and j.position = (select max(position) from journal))
"""
_NEW = """
insert into archives (n, file, sha256, runs, entries, at)
select coalesce(max(n), 0) + 1, ?, ?, ?, ?, ? from archives
returning n
"""
_GONE = """
insert into archived (id, project, thread, seq, hash, archive)
select id, project, thread, seq, hash, ? from runs where k = ?
"""
_STEPS = (
    "insert into leaves (position, hash) select position, hash from journal where run = ?",
    """
    insert into archived_keys (project, key, digest, run_id, seq)
    select x.project, x.key, x.digest, r.id, x.seq from keys x join runs r on r.k = x.run
    where x.run = ?
    """,
    "delete from keys where run = ?",
    "delete from holds where run = ?",
    "delete from journal where run = ?",
    "delete from runs where k = ?",
)
_LIST = "select n, file, sha256, runs, entries, at from archives where n > ? order by n limit ?"
_RUNS = "select id, seq, hash from archived where archive = ? and id > ? order by id limit ?"
_LEAVES = "select position, hash from leaves where position in ({}) order by position"
_KEYS = """
select x.project, x.key, x.digest, r.id, x.seq from runs r join keys x on x.run = r.k
where r.id in ({}) order by x.project, x.key
"""
_FILE = """
select a.file, r.project from archived r join archives a on a.n = r.archive where r.id = ?
"""
_THREAD = """
select r.id, a.file from archived r join archives a on a.n = r.archive
where r.project = ? and r.thread = ? limit 1
"""


class ArchivePen:
    """Lets runs go, inside the writer's transaction."""

    def __init__(self, conn: apsw.Connection, clock: Clock) -> None:
        self._conn = conn
        self._clock = clock

    def check(self, run_id: str, project: str, thread: str) -> None:
        """Raise `RunArchived` if a run has left, or those of its thread have."""
        reader = ArchiveReader(self._conn)
        reader.check_run(run_id)
        reader.check_thread(project, thread)

    def take(self, new: NewArchive) -> Archive:
        keys: list[int] = []
        ids = json.dumps([run.id for run in new.runs])
        for run in new.runs:
            found = self._conn.execute(_RUN, (run.id, run.seq, run.hash, ids)).fetchall()
            if not found:
                raise StaleRun(f"{run.id!r} cannot leave as it is", run_id=run.id, seq=run.seq)
            keys.append(cast("int", found[0][0]))
        entries = sum(run.seq for run in new.runs)
        now = self._clock.now()
        row = (new.file, new.sha256, len(new.runs), entries, now)
        n = cast("int", self._conn.execute(_NEW, row).fetchall()[0][0])
        for k in keys:
            self._conn.execute(_GONE, (n, k))
            for step in _STEPS:
                self._conn.execute(step, (k,))
        return Archive(
            n=n, file=new.file, sha256=new.sha256, runs=len(keys), entries=entries, at=now
        )


class ArchiveReader:
    """Reads what is known of archives as of the last commit."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def list(self, after: int, limit: int) -> builtins.list[Archive]:
        names = Archive.__struct_fields__
        found = self._all(_LIST, (after, limit))
        return [Archive(**dict(zip(names, row, strict=True))) for row in found]

    def runs(self, n: int, after: str, limit: int) -> builtins.list[Leaving]:
        found = self._all(_RUNS, (n, after, limit))
        return [Leaving(id=run_id, seq=seq, hash=made) for run_id, seq, made in found]

    def leaves(self, positions: Sequence[int]) -> builtins.list[Leaf]:
        sql = _LEAVES.format(", ".join("?" * len(positions)))
        from sayso.store.seal import Leaf

        return [Leaf(*row) for row in self._all(sql, tuple(positions))]

    def keys(self, run_ids: Sequence[str]) -> builtins.list[UsedKey]:
        sql = _KEYS.format(", ".join("?" * len(run_ids)))
        return [used_key(row) for row in self._all(sql, tuple(run_ids))]

    def check_run(self, run_id: str) -> None:
        """Raise `RunArchived` if a run has left."""
        for file, project in self._all(_FILE, (run_id,)):
            archived(run_id, file, project)

    def check_thread(self, project: str, thread: str) -> None:
        """Raise `RunArchived` if the runs of a thread have left."""
        for run_id, file in self._all(_THREAD, (project, thread)):
            archived(run_id, file, project)

    def _all(self, sql: str, bindings: tuple[Any, ...]) -> builtins.list[tuple[Any, ...]]:
        return cast("Any", self._conn.execute(sql, bindings).fetchall())


class SqliteArchives:
    """What the file of a store knows of archives."""

    def __init__(self, submit: Submit, read: Read) -> None:
        self._submit = submit
        self._read = read

    async def take(self, new: NewArchive) -> Archive:
        return await self._submit(lambda pen: pen.archive.take(new), erases=True)

    async def check_keeper(self) -> None:
        """Whoever can write the file may."""

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[Archive]:
        limit = check_page(after, limit)
        return self._read(lambda reader: reader.archive.list(after, limit))

    async def runs(self, n: int, *, after: str = "", limit: int = 500) -> builtins.list[Leaving]:
        limit = check_page(n, limit)
        return self._read(lambda reader: reader.archive.runs(n, after, limit))

    async def leaves(self, positions: Sequence[int]) -> builtins.list[Leaf]:
        return self._read(lambda reader: reader.archive.leaves(positions))

    async def keys(self, run_ids: Sequence[str]) -> builtins.list[UsedKey]:
        return self._read(lambda reader: reader.archive.keys(run_ids))


def used_key(row: tuple[Any, ...]) -> UsedKey:
    """Read a key with what it was used for."""
    project, key, digest, run_id, seq = row
    return UsedKey(
        key=Key(project=project, key=key, digest=digest),
        row=KeyRow(digest=digest, run_id=run_id, seq=seq),
    )
