"""Archives: files that finished runs have left a store for. The port, and what is known of them.

Rule 1: a run leaves as it is in the file, or not at all: recording it and cutting its journal are
one commit.
Rule 2: a store still knows which runs have left, their idempotency keys, and what its seals cover
of them. None of them can begin again, and none of their threads can go on.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import NoReturn, Protocol

import msgspec

from sayso.errors import RunArchived
from sayso.store.base import Key, KeyRow
from sayso.store.seal import Leaf


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A run that leaves, as it is in the file."""

    id: str
    seq: int
    """The number of its last entry."""
    hash: bytes
    """And its hash."""


class NewArchive(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is written, synced and read back."""

    file: str
    """Its path."""
    sha256: str
    """Of its bytes, in hexadecimal."""
    runs: tuple[Leaving, ...]


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """A file that runs have left for."""

    n: int
    """From 1, without gaps."""
    file: str
    sha256: str
    runs: int
    entries: int
    at: int
    """Store time, milliseconds since 1970."""


class UsedKey(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotency key, and what it was used for."""

    key: Key
    row: KeyRow


class Archives(Protocol):
    """Keeps what is known of archives. May be called from many tasks; raises only errors of
    `sayso.errors`.
    """

    async def take(self, new: NewArchive) -> Archive:
        """Record an archive, and cut the runs that are in it, all or none, durably before the
        answer. `StaleRun` if one of them is not there as it is in the file, is not finished, has a
        parcel on the way or the last entry of all, or if a run of its thread stays. `CommitUnknown`
        if the store cannot tell.
        """
        ...

    async def check_keeper(self) -> None:
        """Raise `NotKeeper` if whoever uses the store may not have runs leave it."""
        ...

    async def list(self, *, after: int = 0, limit: int = 50) -> list[Archive]:
        """List archives, from the one after a number on."""
        ...

    async def runs(self, n: int, *, after: str = "", limit: int = 500) -> builtins.list[Leaving]:
        """List the runs that have left for an archive by id, from the one after an id on."""
        ...

    async def leaves(self, positions: Sequence[int]) -> builtins.list[Leaf]:
        """Read what seals cover of entries that have left, by ascending position."""
        ...

    async def keys(self, run_ids: Sequence[str]) -> builtins.list[UsedKey]:
        """List the idempotency keys that were used for runs that have not left."""
        ...


def archived(run_id: str, file: str, project: str) -> NoReturn:
    """Raise `RunArchived`."""
    said = f"{run_id!r} was archived to {file!r}"
    raise RunArchived(said, run_id=run_id, file=file, project=project)
