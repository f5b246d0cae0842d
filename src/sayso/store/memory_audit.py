"""Seals and the door log of the store in memory."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence

from sayso.errors import BadSetup
from sayso.store.archive import Archive, Leaving, NewArchive, UsedKey
from sayso.store.door import SALT_BYTES, DoorEntry, Head, check_note, check_page, next_entry
from sayso.store.seal import KeptSeal, Leaf, Seal, check_next, read_seal


class MemorySeals:
    """Keeps seals for as long as the process lives; `check` raises when the store is closed."""

    def __init__(self, check: Callable[[], None], leaves: Callable[[int, int], list[Leaf]]) -> None:
        self._check = check
        self._leaves = leaves
        self._kept: list[bytes] = []

    async def put(self, seal: Seal) -> None:
        self._check()
        check_next(seal, len(self._kept))
        self._kept.append(seal.line())

    async def last(self) -> Seal | None:
        self._check()
        return read_seal(self._kept[-1]) if self._kept else None

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[KeptSeal]:
        limit = check_page(after, limit)
        self._check()
        page = self._kept[after : after + limit]
        return [KeptSeal(n, data) for n, data in enumerate(page, start=after + 1)]

    async def leaves(self, *, after: int = 0, limit: int = 500) -> builtins.list[Leaf]:
        limit = check_page(after, limit)
        self._check()
        return self._leaves(after, limit)


class MemoryArchives:
    """Knows of no archive: what is in memory is gone when the process ends, and leaves for none."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    async def take(self, new: NewArchive) -> Archive:
        del new
        raise BadSetup("a store in memory has no archives: use a file or a database")

    async def check_keeper(self) -> None:
        self._check()

    async def list(self, *, after: int = 0, limit: int = 50) -> builtins.list[Archive]:
        check_page(after, limit)
        self._check()
        return []

    async def runs(self, n: int, *, after: str = "", limit: int = 500) -> builtins.list[Leaving]:
        del n, after, limit
        self._check()
        return []

    async def leaves(self, positions: Sequence[int]) -> builtins.list[Leaf]:
        del positions
        self._check()
        return []

    async def keys(self, run_ids: Sequence[str]) -> builtins.list[UsedKey]:
        del run_ids
        self._check()
        return []


class MemoryDoor:
    """Keeps the door log for as long as the process lives."""

    def __init__(self, check: Callable[[], None], now: Callable[[], int]) -> None:
        self._check = check
        self._now = now
        self._kept: list[DoorEntry] = []

    async def note(self, project: str, payload: bytes) -> DoorEntry:
        check_note(project, payload)
        self._check()
        made = next_entry(
            self._kept[-1] if self._kept else None,
            project=project,
            at=self._now(),
            salt=os.urandom(SALT_BYTES),
            payload=payload,
        )
        self._kept.append(made)
        return made

    async def list(
        self, project: str | None = None, *, after: int = 0, limit: int = 50
    ) -> builtins.list[DoorEntry]:
        limit = check_page(after, limit)
        self._check()
        found = [one for one in self._kept[after:] if project in (None, one.project)]
        return found[:limit]

    async def head(self) -> Head:
        self._check()
        return Head(n=self._kept[-1].n, hash=self._kept[-1].hash) if self._kept else Head()
