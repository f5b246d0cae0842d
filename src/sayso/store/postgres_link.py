"""Connections to PostgreSQL: what each is set to, a pool of them, and how long anything may take.

Rule 1: every connection commits each statement by itself, so that a write is one round trip.
Rule 2: nothing waits without an end: the server has limits, and after those the socket is shut.
Rule 3: no connection is used on a server that could lose what it has acknowledged.
Rule 4: whoever is cancelled stops waiting, and the statement goes on by itself. On Python 3.11 the
driver now and then swallows a cancellation, and a task that was to end would go on for ever.
Rule 5: a question is planned once a connection, as planning takes longer than answering it.
That may be while the tables are still empty, so whatever pays only for small ones is not on offer:
for each statement there is an index that gives its rows in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from sayso.errors import (
    SaysoError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreNewer,
    StoreReadOnly,
)
from sayso.store.postgres_address import CONNECT_S, Address
from sayso.store.postgres_error import lost, translate, unreachable
from sayso.store.postgres_migrate import released

LOCK_S = 10.0
"""How long a statement waits for its turn."""
STATEMENT_S = 20.0
"""How long a statement may take, and its wait with it."""
PATIENCE_S = 30.0
"""After this the socket is shut: the server should have said something by then."""
RECONNECT_S = 4.0
"""How long the pool goes on with one attempt to connect, before it begins anew. It waits twice as
long after each try: after an outage of a minute it would sleep for another.
"""
POOL_MAX = 8
VERSION_MIN = 140_000
_DURABLE = ("on", "remote_write", "remote_apply")

_SET_UP = """
select
    set_config('search_path', %(path)s, false),
    set_config('lock_timeout', %(lock)s, false),
    set_config('statement_timeout', %(statement)s, false),
    set_config('idle_in_transaction_session_timeout', %(statement)s, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('jit', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('max_parallel_workers_per_gather', '0', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_sort', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('sayso.knows', %(knows)s, false),
    set_config('sayso.recovers', %(recovers)s, false),
    set_config('sayso.system', (select system_identifier::text from pg_control_system()), false)
"""
_SETTINGS = """
select current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on', getdatabaseencoding()::text,
    current_setting('server_version_num')::int
"""

T = TypeVar("T")
Conn: TypeAlias = "AsyncConnection[tuple[Any, ...]]"
Params: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Link:
    """A pool of connections to one store."""

    def __init__(
        self,
        address: Address,
        *,
        pool_max: int,
        patience_s: float,
        knows: int | None = None,
        recovers: bool = False,
    ) -> None:
        self.address = address
        self._recovers = recovers
        self.name = address.name
        self._knows = len(released()) if knows is None else knows
        self._newer = ""
        """Why this code may not use the store any more; empty while it may."""
        self._patience_s = patience_s
        self._fault: BaseException | None = None
        self._first: Callable[[Conn], Awaitable[object]] | None = None
        """What a new connection of the pool does first."""
        self._under_way: set[asyncio.Task[Any]] = set()
        self._pool: AsyncConnectionPool[Conn] = AsyncConnectionPool(
            address.conninfo,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=pool_max,
            open=False,
            configure=self._configure,
            timeout=LOCK_S,
            reconnect_timeout=RECONNECT_S,
            reconnect_failed=_begin_anew,
            name=f"sayso {address.name}",
        )

    async def open(self, sql: str, params: Params) -> None:
        """Fill the pool, and have each of its connections prepare this statement by doing it."""
        self._first = _statement(sql, params)
        await self._pool.open()

    async def close(self) -> None:
        """Finish what is under way, and let every connection go."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._pool.close(timeout=5.0)

    async def connect(self) -> Conn:
        """Make a connection of its own, set up like those of the pool."""
        conn: Conn | None = None
        try:
            async with asyncio.timeout(CONNECT_S + 5):
                conn = await AsyncConnection.connect(self.address.conninfo, autocommit=True)
                await self._set_up(conn)
        except BaseException as error:
            if conn is not None:
                await conn.close()
            if isinstance(error, psycopg.Error | OSError):  # TimeoutError is one.
                raise unreachable(error, self.name, self.address.password) from None
            raise
        return conn

    async def read(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Read. On a connection that turns out to be dead it is tried again on another, and as long
        as one may wait for a connection: a server that shuts down ends one after another.
        """
        do = _statement(sql, params)
        end, cuts = time.monotonic() + LOCK_S, 0
        while True:
            try:
                return await self._by_itself(do)
            except _Cut as cut:
                cuts += 1
                if cuts > 1 and time.monotonic() > end:
                    raise translate(cut.error, self.name, password=self.address.password) from None
                # Not without a rest: what ends its connections might be the read itself.
                await asyncio.sleep(min(0.02 * (cuts - 1), 1.0))

    async def write(
        self, sql: str, params: Params = (), *, prepare: bool = False
    ) -> list[tuple[Any, ...]]:
        """Write, by one statement and its commit. `CommitUnknown` if its answer is lost. It is
        carried out even if nobody awaits its answer any more.

        To prepare it is an exchange of its own, after whose loss nothing was written: an append is
        only prepared when a connection is opened.
        """
        return await self.lend(_statement(sql, params, prepare=prepare))

    async def lend(self, do: Callable[[Conn], Awaitable[T]]) -> T:
        """Do something on a connection of the pool, with all that is said of `write`."""
        try:
            return await self._by_itself(do)
        except _Cut as cut:
            raise lost(cut.error, self.name, self.address.password) from None

    async def use(self, conn: Conn, do: Callable[[Conn], Awaitable[T]]) -> T:
        """Do something on a connection, and shut its socket if that takes too long."""
        handle = asyncio.get_running_loop().call_later(self._patience_s, _sever, conn)
        try:
            return await do(conn)
        finally:
            handle.cancel()

    async def _by_itself(self, do: Callable[[Conn], Awaitable[T]]) -> T:
        if self._newer:
            raise StoreNewer(self._newer)
        task = asyncio.create_task(self._run(do))
        self._under_way.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # Nobody has to be told twice that nobody listened.

    async def _run(self, do: Callable[[Conn], Awaitable[T]]) -> T:
        conn = await self._borrow()
        try:
            return await self.use(conn, do)
        except (psycopg.Error, UnicodeEncodeError) as error:
            # Whoever is thrown out may have been waiting for the disk of a standby.
            if conn.closed:
                raise _Cut(error) from None
            raise await self._explain(conn, error) from None
        finally:
            await self._pool.putconn(conn)

    async def _borrow(self) -> Conn:
        """Get a connection that lives. Those that do not are thrown away one after another: after a
        restart of the server it is all of them, and the pool, were it to look for itself, would
        rest after each, twice as long every time.
        """
        end = time.monotonic() + LOCK_S
        while True:
            try:
                conn = await self._pool.getconn(timeout=end - time.monotonic())
            except PoolClosed:
                raise StoreClosed from None
            except PoolTimeout:
                raise await self._away() from None
            if await self._lives(conn):
                return conn
            await conn.close()
            await self._pool.putconn(conn)

    async def _lives(self, conn: Conn) -> bool:
        """Look at a connection before it is used, without a round trip: on one where nothing is
        under way the server only ever speaks to say goodbye.
        """
        try:
            poll = select.poll()
            poll.register(conn.fileno(), select.POLLIN)
            if poll.poll(0):
                await self.use(conn, AsyncConnectionPool.check_connection)
        except psycopg.Error:
            return False
        return True

    async def _explain(self, conn: Conn, error: BaseException) -> SaysoError:
        found = translate(error, self.name, password=self.address.password)
        if isinstance(found, StoreDamaged):
            # What is not there any more may have been taken away by a newer version.
            try:
                await self.use(conn, lambda conn: conn.execute("select check_code()"))
            except psycopg.Error as newer:
                if newer.sqlstate == "SY007":
                    found = translate(newer, self.name)
        if isinstance(found, StoreNewer):
            self._newer = str(found)
        return found

    async def _away(self) -> SaysoError:
        """Say why no connection was to be had: one more is tried, which finds out."""
        fault, self._fault = self._fault, None
        if isinstance(fault, SaysoError):
            return fault
        try:
            await (await self.connect()).close()
        except SaysoError as error:
            return type(error)(f"{error}; nothing was written")
        return StoreBusy(
            f"all {self._pool.max_size} connections to {self.name!r} were in use for too long; "
            "nothing was written"
        )

    async def _configure(self, conn: Conn) -> None:
        try:
            await self._set_up(conn)
        except BaseException as error:
            self._fault = error
            raise
        self._fault = None
        if self._first is not None:
            # Whatever is wrong with it is said to whoever needs it.
            with contextlib.suppress(psycopg.Error):
                await self.use(conn, self._first)

    async def _set_up(self, conn: Conn) -> None:
        async def do(conn: Conn) -> None:
            settings = {
                # What is temporary comes last, or anybody could put a table before ours.
                "path": f"{self.address.schema}, pg_temp",
                "lock": f"{LOCK_S * 1000:.0f}",
                "statement": f"{STATEMENT_S * 1000:.0f}",
                "knows": str(self._knows),
                "recovers": "on" if self._recovers else "off",
            }
            await conn.execute(_SET_UP, settings)
            found = await (await conn.execute(_SETTINGS)).fetchone()
            assert found is not None
            check_settings(self.name, Settings(*found))

        await self.use(conn, do)


class Settings(NamedTuple):
    """What of a server durability rests on, in the order of `_SETTINGS`."""

    fsync: str
    full_page_writes: str
    synchronous_commit: str
    is_replica: bool
    read_only: bool
    encoding: str
    version: int


def check_settings(name: str, found: Settings) -> None:
    """Refuse a server that cannot be written to, or could lose what it has acknowledged."""
    if found.version < VERSION_MIN:
        raise StoreError(f"{name!r} is PostgreSQL {found.version // 10_000}: it takes 14 or newer")
    if found.is_replica:
        raise StoreReadOnly(
            f"{name!r} is a read replica: use the address of the primary, or add "
            "target_session_attrs=read-write to it"
        )
    if found.fsync != "on" or found.full_page_writes != "on":
        off = "fsync" if found.fsync != "on" else "full_page_writes"
        raise StoreError(
            f"{name!r} has {off} off, and would lose decisions when the power fails: set it to on "
            "in postgresql.conf"
        )
    if found.synchronous_commit not in _DURABLE:
        raise StoreError(
            f"{name!r} has synchronous_commit {found.synchronous_commit}, and would acknowledge "
            "what it can still lose: set it to on, for this user and database too"
        )
    if found.read_only:
        raise StoreReadOnly(f"{name!r} only allows reading: set default_transaction_read_only off")
    if found.encoding != "UTF8":
        raise StoreError(f"{name!r} has the encoding {found.encoding}: make a database with UTF8")


class _Cut(Exception):
    """A connection was lost while it was used."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def _statement(
    sql: str, params: Params, *, prepare: bool = True
) -> Callable[[Conn], Coroutine[Any, Any, list[tuple[Any, ...]]]]:
    async def do(conn: Conn) -> list[tuple[Any, ...]]:
        cursor = await conn.execute(sql.encode(), params, binary=True, prepare=prepare)
        return await cursor.fetchall() if cursor.description else []

    return do


async def _begin_anew(pool: AsyncConnectionPool[Conn]) -> None:
    """Put a new attempt to connect in the place of one that a pool has given up. It makes one only
    when it grows, and not for those who wait in it already.
    """
    least, most = pool.min_size, pool.max_size
    await pool.resize(least + 1, max(least + 1, most))
    await pool.resize(least, most)


def _sever(conn: Conn) -> None:
    """Shut a connection's socket; whoever waits for it finds it dead, and cleans up."""
    try:
        with socket.socket(fileno=os.dup(conn.fileno())) as sock:
            sock.shutdown(socket.SHUT_RDWR)
    except (OSError, psycopg.Error):
        return  # It is gone already.
