"""The store for many machines: a schema in a PostgreSQL database.

Rule 1: an append is one statement on one connection, and so one round trip with its commit.
Rule 2: time is the database's own, and every comparison with it is made there.
Rule 3: writes that rest on one another come one after another, by one lock in the database that
each holds until it is committed. Positions are then given in commit order, and no tail skips any.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, Self, TypeVar

import psycopg

from sayso.domain.run import FOLD
from sayso.errors import SaysoError, StoreClosed, StoreError, StoreForked
from sayso.store.admit import check_shape, page_size
from sayso.store.answer import Answer
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
from sayso.store.checkup import (
    Finding,
    WorkerFact,
    look_at_clock,
    look_at_move,
    look_at_origin,
    look_at_workers,
    look_for_keys,
)
from sayso.store.clock import Clock, SystemClock
from sayso.store.lease import this_host
from sayso.store.look import Look, Wish
from sayso.store.origin import Origin, restored
from sayso.store.postgres_address import SCHEMA, read_address
from sayso.store.postgres_archive import PostgresArchives
from sayso.store.postgres_aside import PostgresAside
from sayso.store.postgres_ear import Clocks, Ear
from sayso.store.postgres_error import unreachable
from sayso.store.postgres_lane import Lane
from sayso.store.postgres_link import PATIENCE_S, POOL_MAX, Link
from sayso.store.postgres_migrate import check, migrate, released
from sayso.store.postgres_pen import APPEND, bind, write_down
from sayso.store.postgres_ports import (
    PostgresDoor,
    PostgresOutbox,
    PostgresSeals,
    PostgresShelf,
    Question,
)
from sayso.store.postgres_proof import Proofs
from sayso.store.postgres_queue import PostgresQueue
from sayso.store.postgres_reader import Reader
from sayso.store.postgres_writer import Job, Writer, refuse
from sayso.store.query import Asked, HoldQuery, RunQuery
from sayso.store.transfer import MARK, check_mark, read_mark
from sayso.store.watch import RunWatch, Watches

_CLAIM = """
select run, of_agent, of_project from claim_runs(
    %s::text, %s::text[], %s::int, %s::bigint, %s::text, %s::text, %s::int, %s::bigint)
order by place nulls last
"""
_BEAT = "select worker_beat(%s::text, %s::text, %s::text, %s::bigint, %s::bigint)"
_RETIRE = "select worker_retire(%s::text, %s::text, %s::text)"
_IDLE = """
select id, boot from workers w
where not exists (select 1 from runs where status = 'running' and owner = w.id)
"""
_ORIGIN = "select origin_fault(), epoch, id::text from store"
_FORGET = """
delete from workers w where id = any(%s::text[])
    and not exists (select 1 from runs where status = 'running' and owner = w.id)
"""

KINDS_MAX = 1000
"""A claim looks at so many agents of projects that have something free, and the next one at others.
"""

T = TypeVar("T")
Proof = Literal["dead", "lease"]
_STATES: dict[Proof | None, Literal["alive", "silent", "dead"]] = {
    "dead": "dead",
    "lease": "silent",
    None: "alive",
}


class PostgresStore:
    """Keeps runs in PostgreSQL. Made by `open`, used on the event loop that opened it."""

    def __init__(
        self,
        link: Link,
        clock: Clock | None,
        proofs: Proofs,
        lease_ms: int,
        *,
        aside: str,
        recovers: bool = False,
    ) -> None:
        self._link = link
        self._recovers = recovers
        self._fake = clock
        self._boot = (clock or SystemClock()).boot_id()
        self._proofs = proofs
        self._lease_ms = lease_ms
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.moved_to = ""
        self._watches = Watches()
        self._clocks = Clocks()
        self._caller = (f"{os.getpid()}-{os.urandom(6).hex()}", link.address.channel)
        self._aside = PostgresAside(link, self._caller[0], aside)
        self.mention, self.overhear = self._aside.mention, self._aside.overhear
        self._ear = Ear(link, self._caller[0], self._clocks, self._moved, self._aside)
        self._writer = Writer(link, self._caller[0], self._given, self._appended)
        self.archives = PostgresArchives(self._submit, self._read, self._given)
        self._reader = Reader(link, self.archives)
        self.shelf = PostgresShelf(self._submit, self._lane)
        self.outbox = PostgresOutbox(
            self._submit, self._read, self._given, self._caller, lambda: self._moved([])
        )
        self.seals = PostgresSeals(self._submit, self._read)
        self.door = PostgresDoor(self._submit, self._read, self._given)
        self.queue = PostgresQueue(link)
        self._looked_at = ("", "")
        """The agent and project that the last claim came to: the next one goes on after them."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = SCHEMA,
        make: bool = True,
        pool_max: int = POOL_MAX,
        recovers: bool = False,
        clock: Clock | None = None,
        listen: bool = True,
        lease_ms: int = LEASE_MS,
        patience_s: float = PATIENCE_S,
        proof_dir: str | None = None,
        steps: Sequence[str] | None = None,
    ) -> Self:
        """Open a schema of a database, or make one, unless `make` is False. It accepts work when
        this returns.

        `BadSetup` for an address that cannot be read. `NotOurStore`, `StoreNewer`, `StoreOlder`,
        `StoreUnfinished`, `StoreReadOnly` or another `StoreError` if what is there cannot be used,
        or would not be safe to use. One that was restored or copied only takes writes of whoever
        `recovers` it; `NotKeeper` if this role may not. All parameters from `clock` on are there
        for tests: a clock, no ear, another lease, an impatient writer, another place for the proofs
        of death, and other migrations.
        """
        steps = released() if steps is None else steps
        address = read_address(url, schema)
        link = Link(
            address,
            pool_max=pool_max,
            patience_s=patience_s,
            knows=len(steps),
            recovers=recovers,
        )
        conn = await link.connect()
        try:
            ready = migrate if make else check
            store_id = await ready(conn, link.name, address.schema, steps)
            moved_to = check_mark(read_mark(await (await conn.execute(MARK)).fetchall()), link.name)
            if recovers:
                await conn.execute("select check_recoverer()")
        except psycopg.Error as error:
            raise unreachable(error, link.name, link.address.password) from None
        finally:
            await conn.close()
        proofs = Proofs(store_id, clock or SystemClock(), proof_dir)
        aside = f"sayso_{store_id.replace('-', '')}"
        store = cls(link, clock, proofs, lease_ms, aside=aside, recovers=recovers)
        store.moved_to = moved_to
        try:
            await link.open(APPEND, (*bind(()), None, *store._caller))
            await store._ear.open(listen=listen)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def name(self) -> str:
        return self._link.name

    def now(self) -> int:
        return self._clocks.now() if self._fake is None else self._fake.now()

    def tick(self) -> int:
        return self._clocks.tick() if self._fake is None else self._fake.tick()

    def append(self, *writes: Write) -> asyncio.Future[Appended]:
        check_shape(writes)
        answer: Answer[Appended] = Answer()
        try:
            self._check()
            self._check_origin()
            self._writer.submit(Job(write_down(writes), answer))
        except SaysoError as error:
            refuse(answer, error)
        return answer

    async def load(self, run_id: str) -> RunRow | None:
        return await self._look(self._reader.load(run_id))

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        return await self._look(self._reader.look(run_id, wish))

    async def journal(self, run_id: str, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        return await self._look(self._reader.journal(run_id, after, limit))

    async def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        return await self._look(self._reader.entries(run_id, seqs))

    async def tail(self, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        return await self._look(self._reader.tail(after, limit))

    def watch(self, run_id: str | None = None, *, own: bool = True) -> RunWatch:
        self._check()
        return self._watches.add(run_id, own=own)

    async def runs(self, query: RunQuery) -> list[RunRow]:
        return await self._look(self._reader.runs(query))

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        return await self._look(self._reader.holds(query))

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        return await self._look(self._reader.hold(run_id, n))

    async def asked(
        self, *, after: tuple[int, int, int] = (0, 0, 0), limit: int = PAGE_MAX
    ) -> list[Asked]:
        return await self._look(self._reader.asked(after, limit))

    async def key(self, project: str, key: str) -> KeyRow | None:
        return await self._look(self._reader.key(project, key))

    async def thread(self, project: str, thread: str) -> RunRow | None:
        return await self._look(self._reader.thread(project, thread))

    async def due(self, *, skip: int = 0, limit: int = PAGE_MAX) -> list[str]:
        return await self._look(self._reader.due(self._given(), skip, limit))

    async def beat(self, worker: str) -> None:
        self._check()
        # Before it is known to others, or they would miss its lock.
        if self._proofs.hold(worker):
            await self._bury()
        row = (worker, self._boot, this_host(), self._lease_ms, self._given_tick())
        await self._submit(_BEAT, row)

    async def retire(self, worker: str) -> None:
        await self._submit(_RETIRE, (worker, *self._caller))
        self._proofs.release(worker)
        self._moved([])

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        agents: Sequence[str] | None = None,
        project_max: int | None = None,
    ) -> list[str]:
        mine = None if agents is None else list(agents)
        bounds = (page_size(limit), project_max)
        params = (worker, mine, *bounds, *self._looked_at, KINDS_MAX, FOLD)
        *taken, end = await self._submit(_CLAIM, params, prepare=True) or [(None, *self._looked_at)]
        self._looked_at = end[1:]
        return [run_id for run_id, *_ in taken]

    async def lost(
        self, *, agents: Sequence[str] | None = None, skip: int = 0, limit: int = PAGE_MAX
    ) -> list[Lost]:
        owned = await self._look(self._reader.owned(self._given_tick()))
        proofs: dict[str, Proof | None] = {
            worker: self._proof(worker, boot, over) for _, _, worker, boot, over in owned
        }
        return [
            Lost(run_id=run_id, worker=worker, proof=proof)
            for run_id, agent, worker, *_ in owned
            if (proof := proofs[worker]) is not None and (agents is None or agent in agents)
        ][skip : skip + page_size(limit)]

    async def sight(self, worker: str) -> Sight | None:
        found = await self._look(self._reader.sight(worker, self._given_tick()))
        if found is None:
            return None
        boot, over, silent_ms, host = found
        state = _STATES[self._proof(worker, boot, over)]
        return Sight(worker=worker, alive=state, seen_ms_ago=max(0, silent_ms), host=host)

    async def checkup(self) -> list[Finding]:
        rows = await self._look(self._reader.workers(self._given_tick()))
        free, last_at, now = await self._reader.facts(self._given())
        workers = [
            WorkerFact(id=worker, state=_STATES[self._proof(worker, boot, over)], runs=runs)
            for worker, boot, over, runs in rows
        ]
        text = f"{self.name!r} keeps what it has acknowledged: fsync, full pages, waiting commits."
        return [
            *look_at_move(self.moved_to),
            Finding(name="store", level="ok", text=text),
            look_at_clock(now, last_at),
            look_for_keys(None, shared=True),
            look_at_workers(workers, free),
            await self.queue.checkup(),
            look_at_origin(await self.origin()),
        ]

    async def origin(self) -> Origin:
        ((fault, epoch, token),) = await self._read(_ORIGIN)
        return Origin(fault=fault or self._ear.fault, epoch=epoch, token=token)

    async def accept_origin(self) -> int:
        ((epoch,),) = await self._submit("select origin_accept()")
        return epoch

    async def doubt_origin(self, why: str) -> None:
        await self._submit("update store set fault = %s", (why,))

    async def close(self) -> None:
        if self._pid != os.getpid():
            raise StoreForked
        if not self._closed:
            self._closed = True
            self._watches.close()
        await self.queue.close()
        await self._writer.finish()
        await self._aside.close()
        await self._ear.close()
        await self._link.close()
        # The lock of a worker that did not retire stays until this process ends: a call that it was
        # cut off in may still be under way in a thread.

    def _given(self) -> int | None:
        """Give store time, if it is not the database's."""
        return None if self._fake is None else self._fake.now()

    def _given_tick(self) -> int | None:
        return None if self._fake is None else self._fake.tick()

    def _proof(self, worker: str, boot: str | None, over: bool | None) -> Proof | None:  # noqa: FBT001
        if boot is None or over is None:
            return "lease"
        if self._proofs.is_dead(worker, boot):
            return "dead"
        return "lease" if over else None

    async def _bury(self) -> None:
        """Forget the workers that are dead and own nothing any more."""
        rows = await self._read(_IDLE)
        dead = [worker for worker, boot in rows if self._proofs.is_dead(worker, boot)]
        if dead:
            await self._submit(_FORGET, (dead,))
            for worker in dead:
                self._proofs.clear(worker)

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise StoreForked
        if self._closed:
            raise StoreClosed
        assert asyncio.get_running_loop() is self._loop, "it is used on the loop that opened it"

    async def _look(self, reading: Coroutine[Any, Any, T]) -> T:
        try:
            self._check()
        except StoreError:
            reading.close()
            raise
        return await reading

    async def _read(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        self._check()
        return await self._link.read(sql, params)

    def _lane(self, sql: str) -> Question:
        lane = Lane(self._link, sql)

        async def ask(*params: Any) -> list[tuple[Any, ...]]:
            self._check()
            return await lane.ask(*params)

        return ask

    def _check_origin(self) -> None:
        if self._ear.fault and not self._recovers:
            raise restored(self.name, self._ear.fault)

    async def _submit(
        self, sql: str, params: Any = (), *, prepare: bool = False
    ) -> list[tuple[Any, ...]]:
        self._check()
        self._check_origin()
        return await self._link.write(sql, params, prepare=prepare)

    def _appended(self, writes: list[Write], first: int, last: int) -> None:
        self._ear.own(first, last)
        self._watches.tell(writes)

    def _moved(self, run_ids: list[str] | None) -> None:
        """Another process has committed to these runs; None: to whichever."""
        if run_ids is None:
            self._watches.ring_all()
        else:
            self._watches.ring(run_ids)
