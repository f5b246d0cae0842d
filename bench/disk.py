"""A layer between SQLite and the disk that counts. It is too slow to be timed as well."""

from __future__ import annotations

import itertools
from typing import Any

import apsw

_numbers = itertools.count(1)


class CountingDisk(apsw.VFS):
    """Counts syncs, writes and bytes of everything opened through it."""

    def __init__(self) -> None:
        self.name = f"counting-{next(_numbers)}"
        self.reset()
        super().__init__(self.name, "")

    def reset(self) -> None:
        self.syncs = self.writes = self.reads = self.bytes = 0
        self.checkpoints = 0
        """How often the file itself was synced, rather than its log."""
        self.wal_bytes = 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _CountingFile(self, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(self, disk: CountingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.reads += 1
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.writes += 1
        self._disk.bytes += len(data)
        self._disk.wal_bytes += len(data) if self._is_log else 0
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.syncs += 1
        self._disk.checkpoints += not self._is_log
        super().xSync(flags)
