"""Where a file comes from: a mark beside it, and a row in it that names that mark."""

from __future__ import annotations

import os
from typing import cast

import apsw
import msgspec

from sayso.store.origin import Mark, MarkRead, Origin
from sayso.store.sqlite_file import kind_of, patiently, sync_dir

_ROW = "select token, place, epoch, fault from origin"
_TAKE = "update origin set token = ?, place = ?, epoch = epoch + ?, fault = ''"
_DOUBT = "update origin set fault = ?"
_NOBODY = "delete from workers"
_POSITION = "select coalesce(max(position), 0) from journal"
_UNNUMBERED = ("9p", "fuse", "virtiofs", "vboxsf")
"""File systems that may give a file another number when they are mounted again."""


class _Row(msgspec.Struct, frozen=True, gc=False):
    token: str
    place: str
    epoch: int
    fault: str


class SqliteOrigin:
    """The origin of an open file. All of it belongs to the writer thread, but for `fault`."""

    def __init__(self, conn: apsw.Connection, path: str, busy_s: float) -> None:
        self._conn = conn
        self._busy_s = busy_s
        self._path = path
        self.mark = Mark(path + ".mark")
        self.fault = ""
        """Why the file is not to be written to; empty if it is."""
        self._look()

    def read(self) -> Origin:
        """Give what is known."""
        row = _row(self._conn)
        return Origin(fault=self.fault, epoch=row.epoch, token=row.token)

    def note(self, position: int) -> None:
        """Note how far the file has come."""
        if not self.fault:
            self.mark.advance(position)

    def accept(self) -> int:
        """Take the file, where and as it is now, for the one to work on; give its new epoch. Inside
        a transaction: whoever is killed on the way leaves a mark that is not the file's.
        """
        self._take(1)
        # Whoever worked on it elsewhere does not do so here.
        self._conn.execute(_NOBODY)
        return _row(self._conn).epoch

    def doubt(self, why: str) -> None:
        """Note why the file is not to be trusted any more. Inside a transaction."""
        self._conn.execute(_DOUBT, (why,))

    def _look(self) -> None:
        row, found, position = _row(self._conn), self.mark.read(), _position(self._conn)
        self.fault = _fault(row, found, position, self.mark.path)
        if not self.fault and (found is None or not _same(row, found)):
            patiently(lambda: self._conn.execute("begin immediate"), self._busy_s)
            try:
                # Another process may have made a file of that name meanwhile.
                self.mark.close()
                again = self.mark.read()
                if again is None or not _same(_row(self._conn), again):
                    self._take(0)
                self._conn.execute("commit")
            finally:
                if self._conn.in_transaction:
                    self._conn.execute("rollback")
        self.note(position)

    def _take(self, epochs: int) -> None:
        _take(self._conn, self._path, self.mark, epochs)
        self.fault = ""


def _take(conn: apsw.Connection, path: str, mark: Mark, epochs: int) -> None:
    made = mark.make(_position(conn))
    sync_dir(os.path.dirname(path) or ".")
    place = "" if kind_of(path).startswith(_UNNUMBERED) else made.place
    conn.execute(_TAKE, (made.token, place, epochs))


def renew(conn: apsw.Connection, path: str) -> None:
    """Have no copy that was made before pass for the file any more; one with a fault keeps it.
    Inside a transaction, and last: whoever is killed on the way leaves a mark that is not the
    file's.
    """
    mark = Mark(path + ".mark")
    try:
        if not _fault(_row(conn), mark.read(), _position(conn), mark.path):
            _take(conn, path, mark, 0)
    finally:
        mark.close()


def read_fault(conn: apsw.Connection, path: str) -> str:
    """Say why a file is not the one that was last worked on, and change nothing."""
    mark = Mark(path + ".mark")
    try:
        return _fault(_row(conn), mark.read(), _position(conn), mark.path)
    finally:
        mark.close()


def _fault(row: _Row, found: MarkRead | None, position: int, mark: str) -> str:
    if row.fault:
        return row.fault
    if not position:
        return ""
    if row.token and found is None:
        return f"there is no {mark!r}; if both were moved, move that as well"
    if row.token and found is not None and not _same(row, found):
        return f"{mark!r} is of another store, or a copy"
    if found is not None and found.position > position:
        return f"it had come to position {found.position:,}, and is back at {position:,}"
    return ""


def _row(conn: apsw.Connection) -> _Row:
    found = conn.execute(_ROW).fetchall()[0]
    return _Row(*cast("tuple[str, str, int, str]", found))


def _position(conn: apsw.Connection) -> int:
    return cast("int", conn.execute(_POSITION).fetchall()[0][0])


def _same(row: _Row, found: MarkRead) -> bool:
    return row.token == found.token != "" and row.place in ("", found.place)
