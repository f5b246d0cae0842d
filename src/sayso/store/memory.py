"""A store in memory: the verified fake, held to the same contract as the durable ones.

As in those, an append is handed over in the call, committed a moment later together with others
of the same tick, and only then visible to readers.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from sayso.domain.run import FOLD
from sayso.errors import SaysoError, StoreClosed
from sayso.store.admit import (
    check_hold_query,
    check_shape,
    hold_key,
    page_size,
    read_hold_key,
)
from sayso.store.aside import NoAside
from sayso.store.base import (
    LEASE_MS,
    PAGE_MAX,
    Appended,
    Entry,
    HoldFound,
    HoldRow,
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
    look_at_origin,
    look_at_workers,
    look_for_keys,
)
from sayso.store.clock import Clock, SystemClock
from sayso.store.fair import Free, share
from sayso.store.lease import this_host
from sayso.store.look import Look, Wish, look_by_parts
from sayso.store.memory_audit import MemoryArchives, MemoryDoor, MemorySeals
from sayso.store.memory_draft import Draft, Kept
from sayso.store.memory_outbox import MemoryOutbox
from sayso.store.memory_shelf import MemoryShelf
from sayso.store.origin import Origin
from sayso.store.query import Asked, HoldQuery, RunQuery
from sayso.store.seal import Leaf
from sayso.store.watch import RunWatch, Watches
from sayso.store.words import has_words


class MemoryStore:
    """Keeps runs for as long as the process lives."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._kept = Kept()
        self._leases: dict[str, int] = {}
        self._dead: set[str] = set()
        self._queue: list[tuple[tuple[Write, ...], asyncio.Future[Appended]]] = []
        self._watches = Watches()
        self._closed = False
        aside = NoAside()
        self.mention, self.overhear = aside.mention, aside.overhear
        # What is kept for as long as the process lives is never restored.
        self._origin = Origin(fault="", epoch=1, token=os.urandom(8).hex())
        self.shelf = MemoryShelf(self._check)
        self.outbox = MemoryOutbox(
            self._check, self.now, lambda: self._watches.ring(()), self._has_run
        )
        self.seals = MemorySeals(self._check, self._leaves)
        self.door = MemoryDoor(self._check, self.now)
        self.archives = MemoryArchives(self._check)

    @property
    def name(self) -> str:
        return "memory:"

    @property
    def queue(self) -> None:
        return None

    @property
    def moved_to(self) -> str:
        return ""  # Nobody else could reach it.

    def now(self) -> int:
        return self._clock.now()

    def tick(self) -> int:
        return self._clock.tick()

    def append(self, *writes: Write) -> asyncio.Future[Appended]:
        check_shape(writes)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Appended] = loop.create_future()
        if self._closed:
            _refuse(answer, StoreClosed())
            return answer
        if not self._queue:
            loop.call_soon(self._commit)
        self._queue.append((writes, answer))
        return answer

    def _commit(self) -> None:
        queue, self._queue = self._queue, []
        for writes, answer in queue:
            try:
                appended = self._carry_out(writes)
            except SaysoError as error:
                _refuse(answer, error)
                continue
            if not answer.done():
                answer.set_result(appended)
            # Writers before watchers: what these look at is then no longer under way.
            self._watches.tell(writes)
            self._watches.ring(())  # Whoever shares it shares this object.

    def _carry_out(self, writes: tuple[Write, ...]) -> Appended:
        kept = Draft(self._kept, self.shelf)
        at = max([self.now(), *(kept.last_at(write.run) for write in writes)])
        for write in writes:
            kept.write(write, at)
        kept.keep()
        for write in writes:
            self.outbox.post(write)
        return Appended(at=at, position=len(self._kept.log))

    def _has_run(self, project: str, run_id: str) -> bool:
        row = self._kept.runs.get(run_id)
        return row is not None and row.project == project

    async def load(self, run_id: str) -> RunRow | None:
        self._check()
        return self._kept.runs.get(run_id)

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        return await look_by_parts(self, run_id, wish)

    async def journal(self, run_id: str, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        self._check()
        return list(self._kept.journals.get(run_id, ())[after : after + page_size(limit)])

    async def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        self._check()
        journal = self._kept.journals.get(run_id, ())
        return [journal[seq - 1] for seq in sorted(set(seqs)) if 0 < seq <= len(journal)]

    async def tail(self, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        self._check()
        page = self._kept.log[after : after + page_size(limit)]
        return [self._entry(place) for place in page]

    def watch(self, run_id: str | None = None, *, own: bool = True) -> RunWatch:
        self._check()
        return self._watches.add(run_id, own=own)

    async def runs(self, query: RunQuery) -> list[RunRow]:
        self._check()
        newest_first = list(reversed(self._kept.runs.values()))
        if query.before is not None:
            ids = [row.id for row in newest_first]
            start = ids.index(query.before) + 1 if query.before in ids else len(ids)
            newest_first = newest_first[start:]
        wanted = [("project", query.project), ("status", query.status)]
        wanted += [("agent", query.agent), ("thread", query.thread)]
        return [
            row
            for row in newest_first
            if all(value is None or getattr(row, name) == value for name, value in wanted)
        ][: page_size(query.limit)]

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        self._check()
        check_hold_query(query)
        after = read_hold_key(query.after, newest=query.newest)
        found = [self._found(row) for row in self._kept.holds.values() if _wanted(query, row)]
        found = [
            hold
            for hold in found
            if query.project in (None, hold.project) and query.follows(_place(hold), after)
        ]
        return sorted(found, key=_place, reverse=query.newest)[: page_size(query.limit)]

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        self._check()
        row = self._kept.holds.get((run_id, n))
        return None if row is None else self._found(row)

    async def asked(
        self, *, after: tuple[int, int, int] = (0, 0, 0), limit: int = PAGE_MAX
    ) -> list[Asked]:
        self._check()
        rows = [row for row in self._kept.holds.values() if row.status != "settled"]
        names = [(row.run_id, row.n, who) for row in rows for who in dict.fromkeys(row.who)]
        found = [
            Asked(run_id=run_id, n=n, who=who, fits=True, place=(0, 0, place))
            for place, (run_id, n, who) in enumerate(names, start=1)
        ]
        return found[after[2] :][: page_size(limit)]

    async def key(self, project: str, key: str) -> KeyRow | None:
        self._check()
        return self._kept.keys.get((project, key))

    async def thread(self, project: str, thread: str) -> RunRow | None:
        return next(iter(await self.runs(RunQuery(project=project, thread=thread, limit=1))), None)

    async def beat(self, worker: str) -> None:
        self._check()
        self._leases[worker] = self.tick() + LEASE_MS

    async def retire(self, worker: str) -> None:
        self._check()
        self._leases.pop(worker, None)
        for row in self._kept.runs.values():
            if row.owner == worker:
                self._kept.runs[row.id] = replace(row, owner="")
        self._watches.ring(())

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        agents: Sequence[str] | None = None,
        project_max: int | None = None,
    ) -> list[str]:
        self._check()
        rows = list(self._kept.runs.values())
        free = [
            Free(k, row.id, row.project)
            for k, row in enumerate(rows)
            if row.status == "running" and not row.owner and (agents is None or row.agent in agents)
            if row.fold <= FOLD
        ]
        if not free:
            return []
        owned = Counter(row.project for row in rows if row.owner)
        chosen = share(free, owned, page_size(limit), project_max)
        for run in chosen:
            self._kept.runs[run.id] = replace(rows[run.k], owner=worker)
        return [run.id for run in chosen]

    async def lost(
        self, *, agents: Sequence[str] | None = None, skip: int = 0, limit: int = PAGE_MAX
    ) -> list[Lost]:
        self._check()
        return [
            Lost(run_id=r.id, worker=r.owner, proof="dead" if r.owner in self._dead else "lease")
            for r in self._kept.runs.values()
            if r.owner and (r.owner in self._dead or self._leases.get(r.owner, 0) <= self.tick())
            if agents is None or r.agent in agents
        ][skip : skip + page_size(limit)]

    async def sight(self, worker: str) -> Sight | None:
        self._check()
        until = self._leases.get(worker)
        if until is None:
            return None
        silent = until <= self.tick()
        return Sight(
            worker=worker,
            alive="dead" if worker in self._dead else ("silent" if silent else "alive"),
            seen_ms_ago=self.tick() - (until - LEASE_MS),
            host=this_host(),
        )

    def kill(self, worker: str) -> None:
        """Play the death of a worker's process: from now on it is provably dead."""
        self._dead.add(worker)

    async def due(self, *, skip: int = 0, limit: int = PAGE_MAX) -> list[str]:
        self._check()
        now = self.now()
        found = [
            (row.due_at, row.id)
            for row in self._kept.runs.values()
            if row.due_at is not None and row.due_at <= now
        ]
        found.sort(key=lambda one: one[0])
        return [run_id for _, run_id in found[skip : skip + page_size(limit)]]

    async def checkup(self) -> list[Finding]:
        self._check()
        last_at = self._entry(self._kept.log[-1]).at if self._kept.log else 0
        running = [row for row in self._kept.runs.values() if row.status == "running"]
        owned = Counter(row.owner for row in running)
        free = owned.pop("", 0)
        workers = [
            WorkerFact(id=worker, state=self._state(worker), runs=owned[worker])
            for worker in sorted({*owned, *self._leases})
        ]
        text = "this store is in memory: all of it is gone when the process ends."
        return [
            Finding(name="store", level="note", text=text),
            look_at_clock(self.now(), last_at),
            look_for_keys(None),
            look_at_workers(workers, free),
            look_at_origin(self._origin),
        ]

    async def origin(self) -> Origin:
        self._check()
        return self._origin

    async def accept_origin(self) -> int:
        self._check()
        self._leases.clear()
        epoch = self._origin.epoch + 1
        self._origin = Origin(fault="", epoch=epoch, token=os.urandom(8).hex())
        return self._origin.epoch

    async def doubt_origin(self, why: str) -> None:
        self._check()
        self._origin = replace(self._origin, fault=why)

    async def close(self) -> None:
        self._commit()
        self._closed = True
        self._watches.close()

    def _entry(self, place: tuple[str, int]) -> Entry:
        run_id, seq = place
        return self._kept.journals[run_id][seq - 1]

    def _state(self, worker: str) -> Literal["alive", "silent", "dead"]:
        if worker in self._dead:
            return "dead"
        return "silent" if self._leases.get(worker, 0) <= self.tick() else "alive"

    def _check(self) -> None:
        if self._closed:
            raise StoreClosed

    def _leaves(self, after: int, limit: int) -> list[Leaf]:
        page = self._kept.log[after : after + limit]
        return [
            Leaf(position, self._kept.journals[run_id][seq - 1].hash)
            for position, (run_id, seq) in enumerate(page, start=after + 1)
        ]

    def _found(self, row: HoldRow) -> HoldFound:
        run, journal = self._kept.runs[row.run_id], self._kept.journals[row.run_id]
        opened = journal[row.entry - 1]
        return HoldFound(
            row=row,
            project=run.project,
            agent=run.agent,
            opened=opened,
            revision=journal[row.revised - 1] if row.revised else None,
            args=journal[row.args_entry - 1],
            key=hold_key(opened.position, row.n),
        )


def _wanted(query: HoldQuery, row: HoldRow) -> bool:
    if query.status != "any" and (row.status == "settled") != (query.status == "settled"):
        return False
    if query.run_id is not None and row.run_id != query.run_id:
        return False
    if query.suspension is not None and row.suspension != query.suspension:
        return False
    if not has_words(query.search, row):
        return False
    return query.who is None or not set(query.who).isdisjoint(row.who)


def _place(hold: HoldFound) -> tuple[int, int]:
    return hold.opened.position, hold.row.n


def _refuse(answer: asyncio.Future[Appended], error: SaysoError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # Nobody has to be told twice that nobody listened.
