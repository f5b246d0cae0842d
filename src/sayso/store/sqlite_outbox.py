"""The outbox in a SQLite file: what writes, what reads, and what hands over to the two.

Writes go through the writer thread and share its commits, as appends do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import apsw

from sayso.store.base import NewParcel, Write
from sayso.store.clock import Clock
from sayso.store.outbox import (
    Parcel,
    check_parcel,
    check_parcel_name,
    check_parcel_page,
    check_parcels,
    check_take,
    check_time,
    cut_error,
)

if TYPE_CHECKING:
    from sayso.store.sqlite_shelf import Read, Submit

_PUT = """
insert into parcels (project, id, kind, run, due_at, free_at, data) values (?, ?, ?, ?, ?, ?, ?)
on conflict (project, id) do update set kind = excluded.kind, run = excluded.run,
    due_at = excluded.due_at, free_at = excluded.free_at, data = excluded.data,
    taken = 0, tries = 0, error = ''
"""
_RUN = "select k from runs where id = ? and project = ?"
_REMOVE = "delete from parcels where project = ? and id = ?"
_PARCEL = "p.project, p.id, p.kind, r.id, p.due_at, p.data, p.tries, p.taken, p.error"
_FREE = f"""
select p.k, {_PARCEL} from parcels p join runs r on r.k = p.run
where p.free_at <= ? order by p.free_at, p.k limit ?
"""  # noqa: S608
_TAKE = "update parcels set free_at = ?, taken = ?, tries = ? where k = ?"
_MINE = "where project = ? and id = ? and taken = ? and taken > 0"
_DONE = f"delete from parcels {_MINE}"  # noqa: S608
_AGAIN = """
update parcels set due_at = ?1, free_at = ?1, taken = 0,
    tries = case when ?6 then 0 else tries - (?2 = '') end,
    error = case when ?6 then '' when ?2 = '' then error else ?2 end
where project = ?3 and id = ?4 and taken = ?5 and taken > 0
"""
_DEAD = f"update parcels set free_at = null, taken = 0, error = ? {_MINE}"  # noqa: S608
_DEAD_ONES = f"""
select {_PARCEL} from parcels p join runs r on r.k = p.run
where p.project = ? and p.id > ? and p.free_at is null order by p.id limit ?
"""  # noqa: S608
_WAITING = f"""
select {_PARCEL} from parcels p join runs r on r.k = p.run
where p.project = ? and p.id > ? and p.free_at is not null order by p.id limit ?
"""  # noqa: S608
_REVIVE = """
update parcels set due_at = ?1, free_at = ?1, tries = 0
where project = ?2 and id = ?3 and free_at is null
"""
_NEXT_DUE = "select min(free_at) from parcels where free_at is not null"


class OutboxPen:
    """Writes parcels, inside the writer's transaction; `next_taking` numbers the takings."""

    def __init__(self, conn: apsw.Connection, clock: Clock, next_taking: Callable[[], int]) -> None:
        self._conn = conn
        self._clock = clock
        self._next_taking = next_taking

    def post(self, write: Write, run: int) -> None:
        """Do what a write to the run with this key says."""
        check_parcels(write)
        for name in write.unparcels:
            self._conn.execute(_REMOVE, (write.project, name))
        for new in write.parcels:
            self._keep(write.project, run, new)

    def put(self, project: str, run_id: str, new: NewParcel) -> bool:
        run = self._conn.execute(_RUN, (run_id, project)).fetchall()
        if run:
            self._keep(project, cast("int", run[0][0]), new)
        return bool(run)

    def _keep(self, project: str, run: int, new: NewParcel) -> None:
        row = (project, new.id, new.kind, run, new.due_at, new.due_at, new.data)
        self._conn.execute(_PUT, row)

    def take(self, limit: int, lease_ms: int) -> list[Parcel]:
        now = self._clock.now()
        found = cast("list[tuple[Any, ...]]", self._conn.execute(_FREE, (now, limit)).fetchall())
        if not found:
            return []
        taking = self._next_taking()
        taken: list[Parcel] = []
        for k, *row in found:
            parcel = _parcel((*row[:6], row[6] + 1, taking, row[8]))
            self._conn.execute(_TAKE, (now + lease_ms, taking, parcel.tries, k))
            taken.append(parcel)
        return taken

    def done(self, parcel: Parcel) -> None:
        self._conn.execute(_DONE, (parcel.project, parcel.id, parcel.taken))

    def again(self, parcel: Parcel, at: int, error: str, *, afresh: bool) -> None:
        row = (at, error, parcel.project, parcel.id, parcel.taken, int(afresh))
        self._conn.execute(_AGAIN, row)

    def dead(self, parcel: Parcel, error: str) -> None:
        self._conn.execute(_DEAD, (error, parcel.project, parcel.id, parcel.taken))

    def revive(self, project: str, id: str) -> bool:
        self._conn.execute(_REVIVE, (self._clock.now(), project, id))
        return self._conn.changes() > 0


class OutboxReader:
    """Reads parcels as of the last commit."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def dead_ones(self, project: str, after: str, limit: int) -> list[Parcel]:
        found = self._conn.execute(_DEAD_ONES, (project, after, limit)).fetchall()
        return [_parcel(row) for row in found]

    def waiting(self, project: str, after: str, limit: int) -> list[Parcel]:
        found = self._conn.execute(_WAITING, (project, after, limit)).fetchall()
        return [_parcel(row) for row in found]

    def next_due(self) -> int | None:
        return cast("int | None", self._conn.execute(_NEXT_DUE).fetchall()[0][0])


class SqliteOutbox:
    """Keeps parcels in the file of a store, which hands work over and finds words for faults."""

    def __init__(self, submit: Submit, read: Read, now: Callable[[], int]) -> None:
        self._submit = submit
        self._read = read
        self._now = now

    async def put(self, project: str, run_id: str, parcel: NewParcel) -> bool:
        check_parcel(project, parcel)
        return await self._submit(lambda pen: pen.outbox.put(project, run_id, parcel))

    async def take(self, *, limit: int = 1, lease_ms: int) -> list[Parcel]:
        limit = check_take(limit, lease_ms)
        due = self._read(lambda reader: reader.outbox.next_due())
        if due is None or due > self._now():
            return []  # The usual answer, which needs no transaction.
        return await self._submit(lambda pen: pen.outbox.take(limit, lease_ms))

    async def done(self, parcel: Parcel) -> None:
        await self._submit(lambda pen: pen.outbox.done(parcel))

    async def again(
        self, parcel: Parcel, at: int, *, error: str = "", afresh: bool = False
    ) -> None:
        check_time(at)
        error = cut_error(error)
        await self._submit(lambda pen: pen.outbox.again(parcel, at, error, afresh=afresh))

    async def dead(self, parcel: Parcel, error: str) -> None:
        error = cut_error(error)
        await self._submit(lambda pen: pen.outbox.dead(parcel, error))

    async def dead_ones(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return self._read(lambda reader: reader.outbox.dead_ones(project, after or "", limit))

    async def waiting(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return self._read(lambda reader: reader.outbox.waiting(project, after or "", limit))

    async def revive(self, project: str, id: str) -> bool:
        check_parcel_name(project, id)
        return await self._submit(lambda pen: pen.outbox.revive(project, id))

    async def next_due(self) -> int | None:
        return self._read(lambda reader: reader.outbox.next_due())


def _parcel(row: tuple[Any, ...]) -> Parcel:
    project, name, kind, run_id, due_at, data, tries, taken, error = row
    return Parcel(
        project=project,
        id=name,
        kind=kind,
        run_id=run_id,
        due_at=due_at,
        data=data,
        tries=tries,
        taken=taken,
        error=error,
    )
