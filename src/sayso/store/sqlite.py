"""The default store: one SQLite file, which several processes of one machine may share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeVar, TypeVarTuple

import apsw

from sayso.errors import StoreClosed, StoreDamaged, StoreError, StoreForked
from sayso.store.admit import check_hold_query, check_shape, page_size
from sayso.store.answer import Answer
from sayso.store.aside import FileAside
from sayso.store.base import (
    LEASE_MS,
    PAGE_MAX,
    Appended,
    Entry,
    HoldFound,
    KeyRow,
    Lost,
    RunRow,
    Sight,
    Write,
)
from sayso.store.clock import Clock, SystemClock
from sayso.store.lease import Leases
from sayso.store.look import Look, Wish, look_by_parts
from sayso.store.origin import Origin, restored
from sayso.store.sqlite_error import FATAL, from_os, stopped, translate
from sayso.store.sqlite_file import close, create, open_reader, open_writer, sync_dir
from sayso.store.sqlite_origin import SqliteOrigin
from sayso.store.sqlite_pen import Pen
from sayso.store.sqlite_queue import Job, JobQueue, refuse
from sayso.store.sqlite_reader import Reader
from sayso.store.sqlite_search import SEARCH_S, Search
from sayso.store.sqlite_shelf import SqliteShelf
from sayso.store.sqlite_writer import Handles, Writer
from sayso.store.transfer import check_mark
from sayso.store.watch import RunWatch, Watches

if TYPE_CHECKING:
    from sayso.store.checkup import Finding
    from sayso.store.query import Asked, HoldQuery, RunQuery
    from sayso.store.sqlite_archive import SqliteArchives
    from sayso.store.sqlite_audit import SqliteDoor, SqliteSeals
    from sayso.store.sqlite_outbox import SqliteOutbox

BUSY_S = 10.0
"""How long an append waits for another process's transaction."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Proof = Literal["dead", "lease"]
_FAULTS = (apsw.Error, AttributeError, TypeError, ValueError)
"""What reading a row can raise."""
_STATES: dict[Proof | None, Literal["alive", "silent", "dead"]] = {
    "dead": "dead",
    "lease": "silent",
    None: "alive",
}


class SqliteStore:
    """Keeps runs in a SQLite file. Made by `open`, used on the event loop that opened it."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        open_handles: Callable[[], Handles],
        busy_s: float,
        vfs: str | None,
        *,
        recovers: bool = False,
    ) -> None:
        self._path = path
        self._recovers = recovers
        self._vfs = vfs
        self._clock = clock
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.moved_to = ""
        self._reader: Reader | None = None
        self._search: Search | None = None
        self._leases = Leases(path + ".workers")
        self._aside = FileAside(path + ".text")
        self.mention, self.overhear = self._aside.mention, self._aside.overhear
        self._writer = Writer(
            path,
            open_handles,
            busy_s=busy_s,
            on_answered=self._answered,
            on_moved=self._moved,
        )
        self._queue = JobQueue(self._writer.give)
        self._watches = Watches(on_waiting=self._writer.waits)
        self.shelf = SqliteShelf(self._submit, self._read)

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        synchronous: str = "FULL",
        vfs: str | None = None,
        busy_s: float = BUSY_S,
        recovers: bool = False,
        bell: bool = True,
        lease_ms: int = LEASE_MS,
        search_s: float = SEARCH_S,
        sync_dir: Callable[[str], None] = sync_dir,
    ) -> Self:
        """Open a file, or make one. It accepts work when this returns, and not before.

        `NotOurStore`, `StoreNewer`, `StoreDamaged`, `StoreUnfinished` or `StoreReadOnly` if it
        cannot be used. One
        that was restored or copied only takes writes of whoever `recovers` it. All other
        parameters but the first are there for tests: a clock, less durability, another layer
        between SQLite and the disk, an impatient writer, no bell, another lease, searches that may
        take less long, and somebody who sees when a directory is synced.
        """
        real = os.path.realpath(path)  # noqa: ASYNC240 - a few microseconds.
        clock = SystemClock() if clock is None else clock

        def open_handles() -> Handles:
            create(real)
            conn = open_writer(real, vfs=vfs, synchronous=synchronous, busy_s=busy_s)
            try:
                # SQLite has deleted a journal in there; coming back, it would undo the schema.
                sync_dir(os.path.dirname(real))
                return Handles(
                    conn,
                    Pen(conn, clock, SqliteOrigin(conn, real, busy_s), lease_ms),
                    files=(real, real + "-wal"),
                    bell_dir=real + ".bell" if bell else "",
                )
            except BaseException as error:
                close(conn)
                if isinstance(error, apsw.Error):
                    raise translate(error, real) from None
                if isinstance(error, OSError):
                    raise from_os(error, real) from None
                raise

        store = cls(real, clock, open_handles, busy_s, vfs, recovers=recovers)
        try:
            await store._writer.start()
        except asyncio.CancelledError:
            store._queue.close()  # Whatever the thread has opened by then, it closes.
            raise
        try:
            store._reader = Reader(open_reader(real, vfs=vfs))
            store._search = Search(lambda: open_reader(real, vfs=vfs), search_s)
            store.moved_to = check_mark(store._read(lambda reader: reader.mark()), real)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def name(self) -> str:
        return self._path

    @property
    def outbox(self) -> SqliteOutbox:
        from sayso.store.sqlite_outbox import SqliteOutbox

        return SqliteOutbox(self._submit, self._read, self.now)

    @property
    def seals(self) -> SqliteSeals:
        from sayso.store.sqlite_audit import SqliteSeals

        return SqliteSeals(self._submit, self._read)

    @property
    def door(self) -> SqliteDoor:
        from sayso.store.sqlite_audit import SqliteDoor

        return SqliteDoor(self._submit, self._read)

    @property
    def archives(self) -> SqliteArchives:
        from sayso.store.sqlite_archive import SqliteArchives

        return SqliteArchives(self._submit, self._read)

    @property
    def queue(self) -> None:
        return None

    def now(self) -> int:
        return self._clock.now()

    def tick(self) -> int:
        return self._clock.tick()

    def append(self, *writes: Write) -> asyncio.Future[Appended]:
        check_shape(writes)
        erased = [write for write in writes if write.redacts or _drops(write)]
        return self._submit(lambda pen: pen.append(writes), writes=writes, erases=bool(erased))

    async def load(self, run_id: str) -> RunRow | None:
        return self._read(Reader.load, run_id)

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        return await look_by_parts(self, run_id, wish)

    async def journal(self, run_id: str, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        return self._read(Reader.journal, run_id, after, limit)

    async def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        return self._read(Reader.entries, run_id, seqs)

    async def tail(self, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        return self._read(Reader.tail, after, limit)

    def watch(self, run_id: str | None = None, *, own: bool = True) -> RunWatch:
        self._check()
        return self._watches.add(run_id, own=own)

    async def runs(self, query: RunQuery) -> list[RunRow]:
        return self._read(Reader.runs, query)

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        if not query.search or query.run_id is not None:
            return self._read(Reader.holds, query)
        self._check()
        check_hold_query(query)
        assert self._search is not None, "a store is made by `open`"
        try:
            return await self._search.holds(query)
        except _FAULTS as error:
            raise self._fault(error) from None

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        return self._read(Reader.hold, run_id, n)

    async def asked(
        self, *, after: tuple[int, int, int] = (0, 0, 0), limit: int = PAGE_MAX
    ) -> list[Asked]:
        return self._read(Reader.asked, after, limit)

    async def key(self, project: str, key: str) -> KeyRow | None:
        return self._read(Reader.key, project, key)

    async def thread(self, project: str, thread: str) -> RunRow | None:
        return self._read(Reader.thread, project, thread)

    async def due(self, *, skip: int = 0, limit: int = PAGE_MAX) -> list[str]:
        return self._read(Reader.due, self.now(), skip, limit)

    async def beat(self, worker: str) -> None:
        def do(pen: Pen) -> None:
            if self._leases.hold(worker):
                self._bury(pen)
            pen.beat(worker)

        await self._submit(do)

    async def retire(self, worker: str) -> None:
        await self._submit(
            lambda pen: pen.retire(worker), after=lambda: self._leases.release(worker)
        )

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        agents: Sequence[str] | None = None,
        project_max: int | None = None,
    ) -> list[str]:
        if not self._read(Reader.has_free, agents, project_max):
            return []  # The usual answer, which needs no transaction.
        return await self._submit(
            lambda pen: pen.claim(worker, page_size(limit), agents, project_max)
        )

    async def lost(
        self, *, agents: Sequence[str] | None = None, skip: int = 0, limit: int = PAGE_MAX
    ) -> list[Lost]:
        owned = self._read(Reader.owned)
        proofs: dict[str, Proof | None] = {
            worker: self._proof(worker, boot, lease_until)
            for worker, boot, lease_until in {row[2:] for row in owned}
        }
        return [
            Lost(run_id=run_id, worker=worker, proof=proof)
            for run_id, agent, worker, *_ in owned
            if (proof := proofs[worker]) is not None and (agents is None or agent in agents)
        ][skip : skip + page_size(limit)]

    async def sight(self, worker: str) -> Sight | None:
        found = self._read(Reader.sight, worker)
        if found is None:
            return None
        boot, lease_until, seen_at, host = found
        proof = self._proof(worker, boot, lease_until)
        # Boot time of another start of the machine says nothing about now.
        known = boot == self._clock.boot_id()
        return Sight(
            worker=worker,
            alive="alive" if proof is None else ("dead" if proof == "dead" else "silent"),
            seen_ms_ago=max(0, self.tick() - seen_at) if known and seen_at is not None else None,
            host=host,
        )

    async def checkup(self) -> list[Finding]:
        from sayso.store import checkup, sqlite_checkup

        settings = await self._submit(lambda pen: pen.settings(), changes=False)
        rows = self._read(Reader.workers)
        workers = [
            checkup.WorkerFact(
                id=worker, state=_STATES[self._proof(worker, boot, until)], runs=runs
            )
            for worker, boot, until, runs in rows
        ]
        return [
            *checkup.look_at_move(self.moved_to),
            *sqlite_checkup.look_at_settings(settings),
            *sqlite_checkup.look_at_file(self._path),
            await sqlite_checkup.look_at_pages(self._path, self._vfs),
            checkup.look_at_clock(self.now(), self._read(Reader.last_at)),
            checkup.look_for_keys(self._path),
            checkup.look_at_workers(workers, self._read(Reader.free)),
            checkup.look_at_origin(await self.origin()),
        ]

    async def origin(self) -> Origin:
        return await self._submit(lambda pen: pen.origin.read(), changes=False)

    async def accept_origin(self) -> int:
        def done() -> None:
            self._writer.fault = ""

        return await self._submit(lambda pen: pen.origin.accept(), after=done)

    async def doubt_origin(self, why: str) -> None:
        await self._submit(lambda pen: pen.origin.doubt(why))

    async def close(self) -> None:
        if self._pid != os.getpid():
            raise StoreForked
        if not self._closed:
            self._closed = True
            self._watches.close()
            self._aside.close()
            # Before the writer, which can only then clear the log away.
            try:
                if self._search is not None:
                    await self._search.close()
            finally:
                if self._reader is not None:
                    self._reader.close()
                self._queue.close()
        await self._writer.gone()
        # The lock of a worker that did not retire stays until this process ends: a call that it was
        # cut off in may still be under way in a thread.

    def _proof(self, worker: str, boot: str | None, lease_until: int | None) -> Proof | None:
        return self._leases.proof(worker, boot, lease_until, self._clock)

    def _bury(self, pen: Pen) -> None:
        """Forget the workers that are dead and own nothing any more."""
        for worker, boot in pen.idle_workers():
            if boot != self._clock.boot_id() or self._leases.is_dead(worker):
                pen.forget(worker)
                self._leases.clear(worker)

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise StoreForked
        if self._writer.failed is not None:
            raise self._writer.failed
        if self._closed:
            raise StoreClosed

    def _read(self, what: Callable[[Reader, *Ts], T], *args: *Ts) -> T:
        """Read as of the last commit: `what` is given the reader, and then these arguments."""
        self._check()
        assert self._reader is not None, "a store is made by `open`"
        try:
            return what(self._reader, *args)
        except _FAULTS as error:
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> StoreError:
        """Say in our words what went wrong in reading."""
        if not isinstance(error, apsw.Error):
            # Text that is no text, or a number where bytes should be: SQLite does not notice.
            return StoreDamaged(f"{self._path!r} has a row that cannot be read: {error}")
        if isinstance(error, FATAL):
            self._writer.failed = stopped(error, self._path)
        return self._writer.failed or translate(error, self._path)

    def _submit(
        self,
        do: Callable[[Pen], T],
        *,
        writes: tuple[Write, ...] = (),
        erases: bool = False,
        after: Callable[[], None] | None = None,
        changes: bool = True,
    ) -> asyncio.Future[T]:
        """Hand a job over in the call itself; errors come with the answer."""
        loop = asyncio.get_running_loop()
        answer: Answer[T] = Answer(loop=loop)
        try:
            self._check()
            assert loop is self._loop, "a store is used on the event loop that opened it"
            if changes and self._writer.fault and not self._recovers:
                raise restored(self._path, self._writer.fault)
        except StoreError as error:
            refuse(answer, error)
        else:
            self._queue.submit(Job(do, answer, writes=writes, erases=erases, after=after))
        return answer

    def _answered(self, batch: list[Job]) -> None:
        # Watchers are woken first, while whoever has written still has the run in memory; all of
        # this is over when they look, and what they look at is no longer under way.
        self._watches.tell([one for job in batch if job.error is None for one in job.writes])
        self._queue.answered(batch)

    def _moved(self, run_ids: list[str] | None) -> None:
        """Another process has committed to these runs; None: to whichever."""
        if run_ids is None:
            self._watches.ring_all()
        else:
            self._watches.ring(run_ids)


def _drops(write: Write) -> bool:
    return bool(write.items) and any(item.data is None for item in write.items)
