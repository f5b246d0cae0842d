"""A disk that fails when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw


class FaultyDisk(apsw.VFS):
    """Passes everything on to the real disk, and counts; at `fail_at` it fails."""

    def __init__(self, name: str, kinds: tuple[str, ...], error: type[apsw.Error]) -> None:
        self.name = name
        self.kinds = kinds
        self.error = error
        self.count = 0
        self.fail_at = 0
        self.keeps_failing = False
        self.failed = False
        self.read_only = False
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if self.read_only and flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            # What the system's own layer does where a file may only be read.
            flags[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            flags[0] |= apsw.SQLITE_OPEN_READONLY
        return _File(self, name, flags)

    def called(self, kind: str) -> None:
        if kind not in self.kinds:
            return
        self.count += 1
        now = self.count >= self.fail_at if self.keeps_failing else self.count == self.fail_at
        if self.fail_at and now:
            self.failed = True
            raise self.error(f"{kind} failed, as it was told to")


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        super().__init__("", name, flags)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        return True

    def xRead(self, amount: int, offset: int) -> bytes:
        self.disk.called("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.called("write")
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self.disk.called("truncate")
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.disk.called("sync")
        super().xSync(flags)


@contextmanager
def faulty(kinds: tuple[str, ...], error: type[apsw.Error] = apsw.IOError) -> Iterator[FaultyDisk]:
    """Have such a disk for a while."""
    disk = FaultyDisk(f"faulty-{'-'.join(kinds)}-{error.__name__}", kinds, error)
    try:
        yield disk
    finally:
        disk.unregister()
