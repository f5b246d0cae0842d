"""The shelf in a SQLite file: what writes, what reads, and what hands over to the two.

Writes go through the writer thread and share its commits, as appends do.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, cast

import apsw

from sayso.store.shelf import Item, check_name, check_page, check_put, check_rev, check_stale

if TYPE_CHECKING:
    from sayso.store.sqlite_pen import Pen
    from sayso.store.sqlite_reader import Reader

_GET = "select rev, data from shelf where project = ? and kind = ? and id = ?"
_REV = "select rev from shelf where project = ? and kind = ? and id = ?"
_LIST = """
select id, rev, data from shelf where project = ? and kind = ? and id > ? order by id limit ?
"""
_PUT = """
insert into shelf (project, kind, id, rev, data) values (?, ?, ?, ?, ?)
on conflict (project, kind, id) do update set rev = excluded.rev, data = excluded.data
"""
_DROP = "delete from shelf where project = ? and kind = ? and id = ?"
# The row without a name has the last rev that was given.
_NEXT_REV = """
insert into shelf (project, kind, id, rev, data) values ('', '', '', 1, x'')
on conflict (project, kind, id) do update set rev = rev + 1
returning rev
"""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ShelfPen:
    """Writes items, inside the writer's transaction."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def put(self, project: str, kind: str, id: str, data: bytes, rev: int) -> Item:
        check_stale(kind, id, found=self.rev(project, kind, id), expected=rev)
        return self.keep(project, kind, id, data)

    def drop(self, project: str, kind: str, id: str, rev: int | None) -> None:
        if rev is not None:
            check_stale(kind, id, found=self.rev(project, kind, id), expected=rev)
        self._conn.execute(_DROP, (project, kind, id))

    def keep(self, project: str, kind: str, id: str, data: bytes) -> Item:
        """Put an item in place of whichever there is; the caller has looked at that."""
        new = self.next_rev()
        self._conn.execute(_PUT, (project, kind, id, new, data))
        return Item(project=project, kind=kind, id=id, rev=new, data=data)

    def next_rev(self) -> int:
        """Give a number that was never given before."""
        return cast("int", self._conn.execute(_NEXT_REV).fetchall()[0][0])

    def rev(self, project: str, kind: str, id: str) -> int:
        """Give an item's rev, or 0."""
        found = self._conn.execute(_REV, (project, kind, id)).fetchall()
        return cast("int", found[0][0]) if found else 0


class ShelfReader:
    """Reads items as of the last commit."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def get(self, project: str, kind: str, id: str) -> Item | None:
        found = self._conn.execute(_GET, (project, kind, id)).fetchall()
        return _item(project, kind, (id, *found[0])) if found else None

    def list(self, project: str, kind: str, after: str, limit: int) -> builtins.list[Item]:
        found = self._conn.execute(_LIST, (project, kind, after, limit)).fetchall()
        return [_item(project, kind, row) for row in found]


class Submit(Protocol):
    """Hands a job over to the writer thread."""

    def __call__(self, do: Callable[[Pen], T], *, erases: bool = False) -> asyncio.Future[T]: ...


class Read(Protocol):
    """Reads as of the last commit."""

    def __call__(self, what: Callable[[Reader, *Ts], T], *args: *Ts) -> T: ...


class SqliteShelf:
    """Keeps items in the file of a store, which hands the work over and finds words for faults."""

    def __init__(self, submit: Submit, read: Read) -> None:
        self._submit = submit
        self._read = read

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        check_name(project, kind, id)
        return self._read(lambda reader: reader.shelf.get(project, kind, id))

    async def put(self, project: str, kind: str, id: str, data: bytes, *, rev: int) -> Item:
        check_put(project, kind, id, data, rev)
        return await self._submit(lambda pen: pen.shelf.put(project, kind, id, data, rev))

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> builtins.list[Item]:
        limit = check_page(project, kind, after, limit)
        return self._read(lambda reader: reader.shelf.list(project, kind, after or "", limit))

    async def drop(self, project: str, kind: str, id: str, *, rev: int | None = None) -> None:
        check_name(project, kind, id)
        if rev is not None:
            check_rev(rev, least=1)
        await self._submit(lambda pen: pen.shelf.drop(project, kind, id, rev), erases=True)


def _item(project: str, kind: str, row: tuple[Any, ...]) -> Item:
    name, rev, data = row
    return Item(project=project, kind=kind, id=name, rev=rev, data=data)
