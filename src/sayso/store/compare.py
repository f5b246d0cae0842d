"""Two stores compared, row by row, and the chains and seals of the second checked on the way.

Rule: a difference is said in words, and never passed over. Memory does not grow with the stores.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Container
from typing import Any, cast

import msgspec

from sayso.errors import BadKeys, CannotMove
from sayso.store import chain
from sayso.store.door import DoorEntry
from sayso.store.seal import KeptSeal, Leaf
from sayso.store.sealed import SealWalk
from sayso.store.transfer import DOOR, RUNS, SEALS, TABLES, Row, Table, Transfer

PAGE_ROWS = 1000
"""How many rows are read at once, and put by one transaction."""
_SEALED_ARG = re.compile(rb'"\$sealed":"([A-Za-z0-9_-]{1,32})\.')
_SEALED_ANSWER = re.compile(rb'"sealed":"([A-Za-z0-9+/=]{8,})"')
_CREDENTIAL = "credential"

Tell = Callable[[str, int, int], None]


class Sums(msgspec.Struct):
    """What a table comes to: how many rows, and a digest over all of them."""

    rows: int = 0
    digest: str = ""


async def compare(
    source: Transfer, target: Transfer, key_ids: Container[str] | None, tell: Tell
) -> dict[str, Sums]:
    """Read both stores; give the sums of what they have in common. `CannotMove` says what differs,
    `BadKeys` which keys are missing.
    """
    found: dict[str, Sums] = {}
    for table in TABLES:
        watch = _Watch(target, table, key_ids)
        here = await _sum(source, table, None, tell)
        there = found[table.name] = await _sum(target, table, watch, tell)
        if here != there:
            raise CannotMove(
                f"{table.name} are not the same in {source.name!r} and {target.name!r}: "
                f"{here.rows:,} rows and {there.rows:,}, with the digests {here.digest[:16]} and "
                f"{there.digest[:16]}"
            )
        watch.finish()
    if await source.last_rev() > await target.last_rev():
        raise CannotMove(f"revs do not go on in {target.name!r} where they were")
    await _check_seals(target)
    return found


async def _sum(store: Transfer, table: Table, watch: _Watch | None, tell: Tell) -> Sums:
    sums, total = Sums(), 2 * await store.count(table)
    digest = hashlib.sha256()
    async for page in pages(store, table):
        for row in page:
            digest.update(msgspec.msgpack.encode(row))
            if watch is not None:
                await watch.look(row)
        sums.rows += len(page)
        tell(table.name, sums.rows + (total // 2 if watch else 0), total)
    sums.digest = digest.hexdigest()
    return sums


async def pages(
    store: Transfer, table: Table, after: Row | None = None
) -> AsyncIterator[list[Row]]:
    """Read a table, a page at a time, from the row after a key on."""
    while page := await store.rows(table, after, PAGE_ROWS):
        yield page
        after = table.key_of(page[-1])


class _Watch:
    """Looks at the rows of a table as they go by: whether chains hold, and keys are there."""

    def __init__(self, store: Transfer, table: Table, key_ids: Container[str] | None) -> None:
        self._store = store
        self._key_ids = key_ids
        self._heads: dict[int, _Head] = {}
        """Runs whose journal has not been read to its end."""
        self._runs = pages(store, RUNS)
        self._look = {"journal": self._entry, "shelf": self._item}.get(table.name)

    async def look(self, row: Row) -> None:
        if self._look is not None:
            await self._look(row)

    def finish(self) -> None:
        """Say which journals were not read to the end that their rows name."""
        for head in self._heads.values():
            raise CannotMove(f"the journal of {head.id!r} does not end where its row says")

    async def _entry(self, row: Row) -> None:
        _, run, seq, entry_id, at, salt, payload, made = row
        head = await self._head(run)
        content = payload if salt is None else chain.leaf(salt, payload)
        link = chain.link(
            head.link, run_id=head.id, seq=head.seq + 1, entry_id=entry_id, at=at, content=content
        )
        if seq != head.seq + 1 or link != made:
            raise CannotMove(
                f"entry {seq} of {head.id!r} was changed after it was written: `sayso audit "
                "verify` says more"
            )
        head.seq, head.link = seq, made
        if seq == head.last:
            if made != head.hash:
                raise CannotMove(f"the journal of {head.id!r} does not end where its row says")
            del self._heads[run]
        if salt is not None:
            self._check_keys(_key_ids(payload), f"entry {seq} of {head.id!r}")

    async def _head(self, run: int) -> _Head:
        # Runs are numbered as their first entries are, so that hardly any are read ahead.
        while run not in self._heads:
            page = await anext(self._runs, None)
            if page is None:
                raise CannotMove(f"there are entries of run number {run}, and no such run")
            for row in page:
                one = dict(zip(RUNS.columns, row, strict=True))
                self._heads[one["k"]] = _Head(one["id"], one["seq"], one["hash"])
        return self._heads[run]

    async def _item(self, row: Row) -> None:
        project, kind, _, _, data = row
        if kind == _CREDENTIAL:
            name = bytes(data).partition(b".")[0].decode("ascii", "replace")
            self._check_keys([name], f"a credential of {project!r}")

    def _check_keys(self, names: list[str], what: str) -> None:
        for name in names:
            if self._key_ids is not None and name not in self._key_ids:
                raise BadKeys(
                    f"{what} is sealed with the key {name[:32]!r}, which is not among those that "
                    f"{self._store.name!r} would be used with: add it to SAYSO_KEYS, and go on "
                    "with the same command"
                )


class _Head:
    """Where the journal of a run is, and where it has to end."""

    def __init__(self, run_id: str, last: int, made: bytes) -> None:
        self.id = run_id
        self.last = last
        self.hash = made
        self.seq = 0
        self.link = chain.GENESIS


def _key_ids(payload: bytes) -> list[str]:
    """Name the keys that something in an entry is sealed with."""
    found = [one.decode() for one in _SEALED_ARG.findall(payload)]
    for text in _SEALED_ANSWER.findall(payload):
        try:
            found.append(base64.b64decode(text).partition(b".")[0].decode())
        except (binascii.Error, UnicodeDecodeError):
            continue  # Not one of ours: whoever reads it finds that out.
    return found


async def _check_seals(store: Transfer) -> None:
    faults: list[str] = []
    walk = SealWalk(cast("Any", _Sealed(store)), faults.append, trusted=None)
    await walk.check()
    if faults:
        raise CannotMove(f"the seals of {store.name!r} do not hold: {faults[0]}")


class _Sealed:
    """As much of a store as checking its seals takes."""

    def __init__(self, store: Transfer) -> None:
        self.seals = _Seals(store)
        self.door = _Doors(store)


class _Seals:
    def __init__(self, store: Transfer) -> None:
        self._store = store

    async def list(self, *, after: int, limit: int) -> list[KeptSeal]:
        return [KeptSeal(*row) for row in await self._store.rows(SEALS, (after,), limit)]

    async def leaves(self, *, after: int, limit: int) -> list[Leaf]:
        return await self._store.leaves(after, limit)


class _Doors:
    def __init__(self, store: Transfer) -> None:
        self._store = store

    async def list(self, *, after: int, limit: int) -> list[DoorEntry]:
        rows = await self._store.rows(DOOR, (after,), limit)
        return [DoorEntry(**dict(zip(DOOR.columns, row, strict=True))) for row in rows]
