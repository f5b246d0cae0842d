"""A store to test and the writes to test it with."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sayso.errors import SaysoError
from sayso.store.base import HoldRow, NewEntry, Store, Write
from sayso.testing.clock import FakeClock

E = TypeVar("E", bound=SaysoError)


class StoreCase:
    """A test of a store; whoever has a store says how to open it."""

    clock: FakeClock

    async def open_store(self, clock: FakeClock) -> Store:
        """Open the store.

        A second call with the same clock opens the same store again, as another process would; a
        store that only one process can have gives back the one it has.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """Open a store for a test and close it after."""
        self.clock = FakeClock()
        store = await self.open_store(self.clock)
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def opened_twice(self) -> AsyncGenerator[tuple[Store, Store]]:
        """Open a store for a test the way two processes would."""
        async with self.opened() as one:
            two = await self.open_store(self.clock)
            try:
                yield one, two
            finally:
                await two.close()


def write(run: str = "run_1", after: int = 0, count: int = 1, **changes: Any) -> Write:
    """Make a write of so many entries to a run that is running."""
    fields: dict[str, Any] = {
        "project": "p",
        "agent": "teller",
        "thread": "",
        "status": "running",
        "fold": 1,
        "state": f"{run} after {after + count}".encode(),
        **changes,
    }
    entries = tuple(
        NewEntry(id=os.urandom(8), payload=f"entry {after + 1 + n} of {run}".encode())
        for n in range(count)
    )
    return Write(run=run, after=after, entries=entries, **fields)


def hold_row(run: str = "run_1", n: int = 1, *, entry: int = 1, **changes: Any) -> HoldRow:
    """Make an open hold that the entry has opened."""
    fields: dict[str, Any] = {
        "call": f"1.{n}",
        "kind": "approval",
        "tool": "pay",
        "version": 1,
        "digest": f"{n:02x}" * 32,
        "status": "open",
        "suspension": 1,
        "revised": 0,
        "args_entry": 1,
        "opened_at": 5,
        "deadline": None,
        "who": ("user:mira",),
        "words": "\npay\nteller\nmira",
        **changes,
    }
    return HoldRow(run_id=run, n=n, entry=entry, **fields)


async def refused(kind: type[E], answer: Awaitable[object]) -> E:
    """Wait for an error of this kind, and give it."""
    try:
        found = await answer
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and {found!r} came")
