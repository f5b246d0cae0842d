"""The least that anybody could do: the rows of a cycle in three commits, and no agent at all.

Each cycle writes what was asked and the held call, reads it back by its id, writes the decision,
and writes the result: durable after each. Nothing checks anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import queue
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, Self

import aiosqlite
import apsw

SCHEMA = """
create table if not exists runs (id text primary key, status text not null, state text not null);
create table if not exists holds (
    id text primary key, run text not null, status text not null, call text not null, decision text
);
create index if not exists holds_open on holds (id) where status = 'open';
"""
ASK = "insert into runs values (?, 'suspended', ?)"
HOLD = "insert into holds values (?, ?, 'open', ?, null)"
LOAD = "select r.state, h.call from holds h join runs r on r.id = h.run where h.id = ?"
DECIDE = "update holds set status = 'settled', decision = ? where id = ?"
RESUME = "update runs set status = 'running' where id = ?"
FINISH = "update runs set status = 'completed', state = ? where id = ?"

_CALL = {"id": "1", "tool": "process_payment", "args": {"amount": 200, "recipient": "Jiro"}}
_numbers = itertools.count(1)

Statement = tuple[str, tuple[Any, ...]]


class Floor(Protocol):
    async def write(self, *statements: Statement) -> None: ...
    async def read(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]: ...
    async def close(self) -> None: ...


async def cycle(floor: Floor) -> None:
    run = f"run_{next(_numbers):012}"
    state: list[dict[str, Any]] = [{"role": "user", "text": "Pay Jiro 200 dollars"}]
    state.append({"role": "assistant", "calls": [_CALL]})
    hold = f"hold_{run}"
    await floor.write(
        (ASK, (run, json.dumps(state))),
        (HOLD, (hold, run, json.dumps(_CALL))),
    )
    [(text, call)] = await floor.read(LOAD, (hold,))
    state, asked = json.loads(text), json.loads(call)
    decision = json.dumps({"verdict": "approved", "by": "mira"})
    await floor.write((DECIDE, (decision, hold)), (RESUME, (run,)))
    state.append({"role": "tool", "id": asked["id"], "result": {"ok": True}})
    state.append({"role": "assistant", "text": "Paid."})
    await floor.write((FINISH, (json.dumps(state), run)))


class AioFloor:
    """aiosqlite as its documentation shows it, with a lock where tasks share the connection."""

    def __init__(self, db: aiosqlite.Connection) -> None:
        self._db = db
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, path: Path) -> Self:
        db = await aiosqlite.connect(path)
        await db.execute("pragma journal_mode = wal")
        await db.execute("pragma synchronous = full")
        await db.executescript(SCHEMA)
        return cls(db)

    async def write(self, *statements: Statement) -> None:
        async with self._lock:
            for sql, bindings in statements:
                await self._db.execute(sql, bindings)
            await self._db.commit()

    async def read(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        async with self._db.execute(sql, bindings) as cursor:
            return list(await cursor.fetchall())

    async def close(self) -> None:
        await self._db.close()


class GroupFloor:
    """One writer thread over apsw; what is written in one tick of the loop shares a commit."""

    def __init__(self, path: Path, vfs: str | None) -> None:
        self._path, self._vfs = str(path), vfs
        self._loop = asyncio.get_running_loop()
        self._jobs: list[tuple[tuple[Statement, ...], asyncio.Future[None]]] = []
        self._batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._out = False
        self.commits = 0
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        self._reader = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)

    @classmethod
    async def open(cls, path: Path, vfs: str | None = None) -> Self:
        return cls(path, vfs)

    async def write(self, *statements: Statement) -> None:
        answer = self._loop.create_future()
        if not self._jobs and not self._out:
            self._loop.call_soon(self._hand_over)
        self._jobs.append((statements, answer))
        await answer

    async def read(self, sql: str, bindings: tuple[Any, ...]) -> list[Any]:
        return self._reader.execute(sql, bindings).fetchall()

    async def close(self) -> None:
        self._reader.close()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        if self._jobs and not self._out:
            self._out = True
            batch, self._jobs = self._jobs, []
            self._batches.put(batch)

    def _answered(self, batch: list[Any]) -> None:
        self._out = False
        for _, answer in batch:
            answer.set_result(None)
        # After the tasks that were just woken, so that what they write goes along.
        self._loop.call_soon(self._hand_over)

    def _run(self, ready: threading.Event) -> None:
        conn = apsw.Connection(self._path, vfs=self._vfs)
        conn.pragma("journal_mode", "wal")
        conn.pragma("synchronous", "full")
        for statement in filter(str.strip, SCHEMA.split(";\n")):
            conn.execute(statement)
        ready.set()
        while (batch := self._batches.get()) is not None:
            conn.execute("begin immediate")
            for statements, _ in batch:
                for sql, bindings in statements:
                    conn.execute(sql, bindings)
            conn.execute("commit")
            self.commits += 1
            self._loop.call_soon_threadsafe(self._answered, batch)
        conn.close()


@contextlib.asynccontextmanager
async def opened(opening: Awaitable[Floor]):
    floor = await opening
    try:
        yield floor
    finally:
        await floor.close()


def cycles_of(floor: Floor) -> Callable[[int], Awaitable[None]]:
    """Cycles one after another."""

    async def work(count: int) -> None:
        for _ in range(count):
            await cycle(floor)

    return work
