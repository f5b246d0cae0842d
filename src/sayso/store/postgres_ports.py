"""The shelf, the outbox, the seals and the door log in PostgreSQL.

Every write is one statement.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from typing import Any, Protocol

from sayso.store.base import NewParcel
from sayso.store.door import SALT_BYTES, DoorEntry, Head, check_note
from sayso.store.door import check_page as check_numbers
from sayso.store.outbox import (
    Parcel,
    check_parcel,
    check_parcel_name,
    check_parcel_page,
    check_take,
    check_time,
    cut_error,
)
from sayso.store.seal import KeptSeal, Leaf, Seal, check_next, read_seal
from sayso.store.shelf import Item, check_name, check_page, check_put, check_rev, check_stale

_GET = """
select q.o, s.id, s.rev, s.data
from unnest(%s::text[], %s::text[], %s::text[]) with ordinality q (project, kind, id, o)
join shelf s on s.project = q.project and s.kind = q.kind and s.id = q.id
"""
_LIST = """
select q.o, s.id, s.rev, s.data
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
    with ordinality q (project, kind, after, most, o)
cross join lateral (
    select id, rev, data from shelf
    where project = q.project and kind = q.kind and id > q.after order by id limit q.most
) s
order by q.o, s.id
"""
_PUT = "select there, made from shelf_put(%s::text, %s::text, %s::text, %b::bytea, %s::bigint)"
_DROP = "select shelf_drop(%s::text, %s::text, %s::text, %s::bigint)"
_PARCEL = "p.project, p.id, p.kind, r.id, p.due_at, p.data, p.tries, p.taken, p.error"
_TAKE = f"""
select {_PARCEL} from parcels_take(%s::bigint, %s::bigint, %s::bigint) with ordinality as
    p (k, project, id, kind, run, due_at, free_at, taken, tries, error, data, place)
join runs r on r.k = p.run order by p.place
"""  # noqa: S608
_POST = """
insert into parcels (project, id, kind, run, due_at, free_at, data)
select r.project, %(id)s, %(kind)s, r.k, %(at)s, %(at)s, %(data)b from runs r
where r.id = %(run)s and r.project = %(project)s
on conflict (project, id) do update set kind = excluded.kind, run = excluded.run,
    due_at = excluded.due_at, free_at = excluded.free_at, data = excluded.data,
    taken = 0, tries = 0, error = ''
returning 1
"""
_MINE = "where project = %(project)s and id = %(id)s and taken = %(taken)s and taken > 0"
_DONE = f"delete from parcels {_MINE}"  # noqa: S608
_AGAIN = f"""
update parcels set due_at = %(at)s, free_at = %(at)s, taken = 0,
    tries = case when %(afresh)s then 0
        else tries - (case when %(error)b = ''::bytea then 1 else 0 end) end,
    error = case when %(afresh)s then ''::bytea
        when %(error)b = ''::bytea then error else %(error)b end
{_MINE}
"""  # noqa: S608
_DEAD = f"update parcels set free_at = null, taken = 0, error = %(error)b {_MINE}"  # noqa: S608
_DEAD_ONES = f"""
select {_PARCEL} from parcels p join runs r on r.k = p.run
where p.project = %s and p.id > %s and p.free_at is null order by p.id limit %s
"""  # noqa: S608
_WAITING = f"""
select {_PARCEL} from parcels p join runs r on r.k = p.run
where p.project = %s and p.id > %s and p.free_at is not null order by p.id limit %s
"""  # noqa: S608
_REVIVE = "select parcel_revive(%s::text, %s::text, %s::bigint, %s::text, %s::text)"
_NEXT_DUE = "select min(free_at) from parcels where free_at is not null"
_PUT_SEAL = "select seal_put(%s::bigint, %b::bytea)"
_LAST_SEAL = "select data from seals order by n desc limit 1"
_SEALS = "select n, data from seals where n > %s order by n limit %s"
LEAVES = """
(select position, hash from journal where position > %(after)s order by position limit %(limit)s)
union all
(select position, hash from leaves where position > %(after)s order by position limit %(limit)s)
order by position limit %(limit)s
"""
_DOOR = "n, project, at, salt, payload, hash"
_NOTE = f"select {_DOOR} from door_note(%s::text, %b::bytea, %b::bytea, %s::bigint)"  # noqa: S608
_DOORS = f"""
select {_DOOR} from door where (%(project)s::text is null or project = %(project)s)
    and n > %(after)s order by n limit %(limit)s
"""  # noqa: S608
_HEAD = "select n, hash from door order by n desc limit 1"

Rows = builtins.list[tuple[Any, ...]]


class Ask(Protocol):
    """Reads, or writes, by one statement."""

    async def __call__(self, sql: str, params: Any = ()) -> Rows: ...


class Question(Protocol):
    """Reads, together with whoever asks the same way."""

    async def __call__(self, *params: Any) -> Rows: ...


class PostgresShelf:
    """Keeps items."""

    def __init__(self, submit: Ask, lane: Callable[[str], Question]) -> None:
        self._submit = submit
        self._get = lane(_GET)
        self._list = lane(_LIST)

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        check_name(project, kind, id)
        found = await self._get(project, kind, id)
        return _item(project, kind, found[0]) if found else None

    async def put(self, project: str, kind: str, id: str, data: bytes, *, rev: int) -> Item:
        check_put(project, kind, id, data, rev)
        ((there, made),) = await self._submit(_PUT, (project, kind, id, data, rev))
        check_stale(kind, id, found=there, expected=rev)
        return Item(project=project, kind=kind, id=id, rev=made, data=data)

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> builtins.list[Item]:
        limit = check_page(project, kind, after, limit)
        found = await self._list(project, kind, after or "", limit)
        return [_item(project, kind, row) for row in found]

    async def drop(self, project: str, kind: str, id: str, *, rev: int | None = None) -> None:
        check_name(project, kind, id)
        if rev is not None:
            check_rev(rev, least=1)
        ((there,),) = await self._submit(_DROP, (project, kind, id, rev))
        if rev is not None:
            check_stale(kind, id, found=there, expected=rev)


class PostgresOutbox:
    """Keeps parcels; `given` is store time if it is a test's, `caller` whom a ring comes from."""

    def __init__(
        self,
        submit: Ask,
        read: Ask,
        given: Callable[[], int | None],
        caller: tuple[str, str],
        on_revived: Callable[[], None],
    ) -> None:
        self._submit = submit
        self._read = read
        self._given = given
        self._caller = caller
        self._on_revived = on_revived

    async def put(self, project: str, run_id: str, parcel: NewParcel) -> bool:
        check_parcel(project, parcel)
        named = {"project": project, "run": run_id, "id": parcel.id, "kind": parcel.kind}
        row = {**named, "at": parcel.due_at, "data": parcel.data}
        return bool(await self._submit(_POST, row))

    async def take(self, *, limit: int = 1, lease_ms: int) -> builtins.list[Parcel]:
        limit = check_take(limit, lease_ms)
        return [_parcel(row) for row in await self._submit(_TAKE, (limit, lease_ms, self._given()))]

    async def done(self, parcel: Parcel) -> None:
        await self._submit(_DONE, _taking(parcel))

    async def again(
        self, parcel: Parcel, at: int, *, error: str = "", afresh: bool = False
    ) -> None:
        check_time(at)
        said = cut_error(error).encode()
        await self._submit(_AGAIN, {**_taking(parcel), "at": at, "error": said, "afresh": afresh})

    async def dead(self, parcel: Parcel, error: str) -> None:
        await self._submit(_DEAD, {**_taking(parcel), "error": cut_error(error).encode()})

    async def dead_ones(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> builtins.list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return [_parcel(row) for row in await self._read(_DEAD_ONES, (project, after or "", limit))]

    async def waiting(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> builtins.list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return [_parcel(row) for row in await self._read(_WAITING, (project, after or "", limit))]

    async def revive(self, project: str, id: str) -> bool:
        check_parcel_name(project, id)
        ((revived,),) = await self._submit(_REVIVE, (project, id, self._given(), *self._caller))
        if revived:
            self._on_revived()
        return revived

    async def next_due(self) -> int | None:
        return (await self._read(_NEXT_DUE))[0][0]


class PostgresSeals:
    """Keeps seals."""

    def __init__(self, submit: Ask, read: Ask) -> None:
        self._submit = submit
        self._read = read

    async def put(self, seal: Seal) -> None:
        check_next(seal, seal.n - 1)
        ((last,),) = await self._submit(_PUT_SEAL, (seal.n, seal.line()))
        check_next(seal, last)

    async def last(self) -> Seal | None:
        found = await self._read(_LAST_SEAL)
        return read_seal(found[0][0]) if found else None

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[KeptSeal]:
        limit = check_numbers(after, limit)
        return [KeptSeal(row[0], row[1]) for row in await self._read(_SEALS, (after, limit))]

    async def leaves(self, *, after: int = 0, limit: int = 500) -> builtins.list[Leaf]:
        limit = check_numbers(after, limit)
        found = await self._read(LEAVES, {"after": after, "limit": limit})
        return [Leaf(row[0], row[1]) for row in found]


class PostgresDoor:
    """Keeps the door log."""

    def __init__(self, submit: Ask, read: Ask, given: Callable[[], int | None]) -> None:
        self._submit = submit
        self._read = read
        self._given = given

    async def note(self, project: str, payload: bytes) -> DoorEntry:
        check_note(project, payload)
        params = (project, payload, os.urandom(SALT_BYTES), self._given())
        return _door((await self._submit(_NOTE, params))[0])

    async def list(
        self, project: str | None = None, *, after: int = 0, limit: int = 50
    ) -> builtins.list[DoorEntry]:
        limit = check_numbers(after, limit)
        params = {"project": project, "after": after, "limit": limit}
        return [_door(row) for row in await self._read(_DOORS, params)]

    async def head(self) -> Head:
        found = await self._read(_HEAD)
        return Head(n=found[0][0], hash=found[0][1]) if found else Head()


def _item(project: str, kind: str, row: tuple[Any, ...]) -> Item:
    name, rev, data = row
    return Item(project=project, kind=kind, id=name, rev=rev, data=data)


def _taking(parcel: Parcel) -> dict[str, Any]:
    return {"project": parcel.project, "id": parcel.id, "taken": parcel.taken}


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
        error=error.decode(),
    )


def _door(row: tuple[Any, ...]) -> DoorEntry:
    n, project, at, salt, payload, made = row
    return DoorEntry(n=n, project=project, at=at, salt=salt, payload=payload, hash=made)
