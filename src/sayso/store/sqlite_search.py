"""Searches, beside the event loop: on a thread and a connection of their own.

A page of a list is read in a fraction of a millisecond, on the loop's own thread. A search that
finds little looks through everything that waits; nobody but whoever searches should wait for that.

Rule: one search after another, of few that wait, each only for a while. What nobody waits for any
more is not looked for any longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import apsw

from sayso.errors import StoreBusy, StoreClosed
from sayso.store.base import HoldFound
from sayso.store.sqlite_file import close
from sayso.store.sqlite_reader import Reader

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from sayso.store.query import HoldQuery

SEARCH_S = 5.0
"""How long one search may take."""
SEARCHES_MAX = 64
"""So many may be under way, or wait for their turn."""
_STEPS = 200_000
"""So many steps of SQLite between two looks at the time; each takes the interpreter's lock."""


class Search:
    """Searches a store, one search after another."""

    def __init__(self, open_conn: Callable[[], apsw.Connection], most_s: float = SEARCH_S) -> None:
        self._open_conn = open_conn
        self._most_s = most_s
        self._conn: apsw.Connection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._closed = False

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        """List what a search finds. `StoreBusy` if it takes too long, or too many wait."""
        if self._waiting >= SEARCHES_MAX:
            raise StoreBusy(f"{SEARCHES_MAX} searches wait for their turn already; try again")
        if self._pool is None:
            # Here, because most processes never search, and all of them start.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1, thread_name_prefix="sayso search")
        over = asyncio.Event()
        self._waiting += 1
        try:
            return await asyncio.wrap_future(self._pool.submit(self._find, query, over.is_set))
        finally:
            over.set()
            self._waiting -= 1

    async def close(self) -> None:
        """Break off what is under way, and let go of the connection."""
        self._closed = True
        if self._pool is not None:
            await asyncio.shield(asyncio.wrap_future(self._pool.submit(self._let_go)))
            self._pool.shutdown()  # The thread has nothing left to do but to end.

    def _find(self, query: HoldQuery, is_over: Callable[[], bool]) -> list[HoldFound]:
        until = time.monotonic() + self._most_s

        def stop() -> bool:
            return self._closed or is_over() or time.monotonic() >= until

        if self._closed:
            raise StoreClosed
        if self._conn is None:
            self._conn = self._open_conn()
        self._conn.set_progress_handler(stop, _STEPS)
        try:
            return Reader(self._conn).holds(query)
        except apsw.InterruptError:
            if self._closed:
                raise StoreClosed from None
            raise StoreBusy(
                f"a search took longer than {self._most_s:g} seconds; "
                "search what is open, or for a person, or go on `after` a page"
            ) from None

    def _let_go(self) -> None:
        if self._conn is not None:
            close(self._conn)
