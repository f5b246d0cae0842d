"""What a store in PostgreSQL knows of archives. Letting runs go is one statement."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sayso.errors import StaleRun
from sayso.store.archive import Archive, Leaving, NewArchive, UsedKey, archived
from sayso.store.door import check_page
from sayso.store.seal import Leaf
from sayso.store.sqlite_archive import used_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from sayso.store.postgres_ports import Ask

_TAKE = """
select stale, num, now from archive_take(%s::text, %s::text, %s::text[], %s::bigint[],
    %b::bytea[], %s::bigint)
"""
_LIST = "select n, file, sha256, runs, entries, at from archives where n > %s order by n limit %s"
_RUNS = """
select id, seq, hash from archived where archive = %s and id > %s order by id limit %s
"""
_LEAVES = """
select position, hash from leaves where position = any(%s::bigint[]) order by position
"""
_KEYS = """
select x.project, x.key, x.digest, r.id, x.seq from runs r join keys x on x.run = r.k
where r.id = any(%s::text[]) order by x.project, x.key
"""
_FILE = """
select a.file, r.project from archived r join archives a on a.n = r.archive where r.id = %s
"""
_THREAD = """
select r.id, a.file from archived r join archives a on a.n = r.archive
where r.project = %s and r.thread = %s limit 1
"""


class PostgresArchives:
    """What the schema of a store knows of archives."""

    def __init__(self, submit: Ask, read: Ask, given: Callable[[], int | None]) -> None:
        self._submit = submit
        self._read = read
        self._given = given

    async def take(self, new: NewArchive) -> Archive:
        ids, seqs = [run.id for run in new.runs], [run.seq for run in new.runs]
        hashes = [run.hash for run in new.runs]
        row = (new.file, new.sha256, ids, seqs, hashes, self._given())
        ((stale, n, now),) = await self._submit(_TAKE, row)
        if stale is not None:
            raise StaleRun(f"{stale!r} cannot leave as it is", run_id=stale, seq=0)
        return Archive(
            n=n, file=new.file, sha256=new.sha256, runs=len(ids), entries=sum(seqs), at=now
        )

    async def check_keeper(self) -> None:
        await self._read("select check_keeper()")

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[Archive]:
        limit, names = check_page(after, limit), Archive.__struct_fields__
        found = await self._read(_LIST, (after, limit))
        return [Archive(**dict(zip(names, row, strict=True))) for row in found]

    async def runs(self, n: int, *, after: str = "", limit: int = 500) -> builtins.list[Leaving]:
        found = await self._read(_RUNS, (n, after, check_page(n, limit)))
        return [Leaving(id=run_id, seq=seq, hash=made) for run_id, seq, made in found]

    async def leaves(self, positions: Sequence[int]) -> builtins.list[Leaf]:
        return [Leaf(row[0], row[1]) for row in await self._read(_LEAVES, (list(positions),))]

    async def keys(self, run_ids: Sequence[str]) -> builtins.list[UsedKey]:
        return [used_key(row) for row in await self._read(_KEYS, (list(run_ids),))]

    async def check_run(self, run_id: str) -> None:
        """Raise `RunArchived` if a run has left."""
        for file, project in await self._read(_FILE, (run_id,)):
            archived(run_id, file, project)

    async def check_thread(self, project: str, thread: str) -> None:
        """Raise `RunArchived` if the runs of a thread have left."""
        for run_id, file in await self._read(_THREAD, (project, thread)):
            archived(run_id, file, project)
