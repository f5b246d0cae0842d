"""Seals and the door log in a SQLite file: what writes, what reads, and what hands over to the two.

Writes go through the writer thread and share its commits, as appends do.
"""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import apsw

from sayso.store.door import SALT_BYTES, DoorEntry, Head, check_note, check_page, next_entry

if TYPE_CHECKING:
    from sayso.store.clock import Clock
    from sayso.store.seal import KeptSeal, Leaf, Seal
    from sayso.store.sqlite_pen import Pen
    from sayso.store.sqlite_reader import Reader

_LAST_SEAL = "select n from seals order by n desc limit 1"
_LAST_SEAL_DATA = "select data from seals order by n desc limit 1"
_NEW_SEAL = "insert into seals (n, data) values (?, ?)"
_SEALS = "select n, data from seals where n > ? order by n limit ?"
# SQLite reads both by position, and merges them.
_LEAVES = """
select position, hash from journal where position > ?1
union all select position, hash from leaves where position > ?1 order by position limit ?2
"""
_DOOR = "n, project, at, salt, payload, hash"
_LAST_DOOR = f"select {_DOOR} from door order by n desc limit 1"  # noqa: S608
_NEW_DOOR = f"insert into door ({_DOOR}) values (?, ?, ?, ?, ?, ?)"  # noqa: S608
_DOORS = f"select {_DOOR} from door where n > ? order by n limit ?"  # noqa: S608
_DOORS_OF = f"select {_DOOR} from door where project = ? and n > ? order by n limit ?"  # noqa: S608

T = TypeVar("T")


class AuditPen:
    """Writes seals and the door log, inside the writer's transaction."""

    def __init__(self, conn: apsw.Connection, clock: Clock) -> None:
        self._conn = conn
        self._clock = clock

    def put_seal(self, seal: Seal) -> None:
        found = self._conn.execute(_LAST_SEAL).fetchall()
        from sayso.store.seal import check_next

        check_next(seal, cast("int", found[0][0]) if found else 0)
        self._conn.execute(_NEW_SEAL, (seal.n, seal.line()))

    def note(self, project: str, payload: bytes) -> DoorEntry:
        found = self._conn.execute(_LAST_DOOR).fetchall()
        made = next_entry(
            _door(found[0]) if found else None,
            project=project,
            at=self._clock.now(),
            salt=os.urandom(SALT_BYTES),
            payload=payload,
        )
        row = (made.n, made.project, made.at, made.salt, made.payload, made.hash)
        self._conn.execute(_NEW_DOOR, row)
        return made


class AuditReader:
    """Reads seals and the door log as of the last commit."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn

    def last_seal(self) -> bytes | None:
        found = self._conn.execute(_LAST_SEAL_DATA).fetchall()
        return cast("bytes", found[0][0]) if found else None

    def seals(self, after: int, limit: int) -> list[KeptSeal]:
        found = self._conn.execute(_SEALS, (after, limit)).fetchall()
        from sayso.store.seal import KeptSeal

        return [KeptSeal(*cast("tuple[int, bytes]", row)) for row in found]

    def leaves(self, after: int, limit: int) -> list[Leaf]:
        found = self._conn.execute(_LEAVES, (after, limit)).fetchall()
        from sayso.store.seal import Leaf

        return [Leaf(*cast("tuple[int, bytes]", row)) for row in found]

    def doors(self, project: str | None, after: int, limit: int) -> list[DoorEntry]:
        if project is None:
            found = self._conn.execute(_DOORS, (after, limit)).fetchall()
        else:
            found = self._conn.execute(_DOORS_OF, (project, after, limit)).fetchall()
        return [_door(row) for row in found]

    def last_door(self) -> Head:
        found = self._conn.execute(_LAST_DOOR).fetchall()
        return Head(n=(last := _door(found[0])).n, hash=last.hash) if found else Head()


class _Submit(Protocol):
    def __call__(self, do: Callable[[Pen], T], *, erases: bool = False) -> asyncio.Future[T]: ...


class _Read(Protocol):
    def __call__(self, what: Callable[[Reader], T]) -> T: ...


class SqliteSeals:
    """Keeps seals in the file of a store, which hands the work over and finds words for faults."""

    def __init__(self, submit: _Submit, read: _Read) -> None:
        self._submit = submit
        self._read = read

    async def put(self, seal: Seal) -> None:
        await self._submit(lambda pen: pen.audit.put_seal(seal))

    async def last(self) -> Seal | None:
        found = self._read(lambda reader: reader.audit.last_seal())
        from sayso.store.seal import read_seal

        return None if found is None else read_seal(found)

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[KeptSeal]:
        limit = check_page(after, limit)
        return self._read(lambda reader: reader.audit.seals(after, limit))

    async def leaves(self, *, after: int = 0, limit: int = 500) -> builtins.list[Leaf]:
        limit = check_page(after, limit)
        return self._read(lambda reader: reader.audit.leaves(after, limit))


class SqliteDoor:
    """Keeps the door log in the file of a store."""

    def __init__(self, submit: _Submit, read: _Read) -> None:
        self._submit = submit
        self._read = read

    async def note(self, project: str, payload: bytes) -> DoorEntry:
        check_note(project, payload)
        return await self._submit(lambda pen: pen.audit.note(project, payload))

    async def list(
        self, project: str | None = None, *, after: int = 0, limit: int = 50
    ) -> builtins.list[DoorEntry]:
        limit = check_page(after, limit)
        return self._read(lambda reader: reader.audit.doors(project, after, limit))

    async def head(self) -> Head:
        return self._read(lambda reader: reader.audit.last_door())


def _door(row: tuple[Any, ...]) -> DoorEntry:
    n, project, at, salt, payload, made = row
    return DoorEntry(n=n, project=project, at=at, salt=salt, payload=payload, hash=made)
