"""A store in memory: the verified fake, held to the same contract as the durable ones.

As in those, an append is handed over in the call, committed a moment later together with others
of the same tick, and only then visible to readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from sayso.domain.lifecycle import OPEN
from sayso.errors import KeyReused, SaysoError, StoreClosed, StoreError, ThreadBusy
from sayso.store import chain
from sayso.store.admit import (
    check_conditions,
    check_guard,
    check_hold_query,
    check_shape,
    hold_key,
    make_entries,
    page_size,
    read_hold_key,
)
from sayso.store.base import (
    LEASE_MS,
    PAGE_MAX,
    Appended,
    Entry,
    HoldFound,
    HoldQuery,
    HoldRow,
    KeyRow,
    Lost,
    RunQuery,
    RunRow,
    Write,
)
from sayso.store.clock import Clock, SystemClock
from sayso.store.memory_audit import MemoryDoor, MemorySeals
from sayso.store.memory_shelf import MemoryShelf
from sayso.store.seal import Leaf
from sayso.store.watch import RunWatch, Watches


class _Kept:
    """All that is kept."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}
        self.journals: dict[str, tuple[Entry, ...]] = {}
        self.holds: dict[tuple[str, int], HoldRow] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.busy: dict[tuple[str, str], str] = {}
        """The unfinished run of a thread, or nothing."""
        self.log: list[tuple[str, int]] = []
        """Run and number of every entry; its position is its index plus one."""


class MemoryStore:
    """Keeps runs for as long as the process lives."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._kept = _Kept()
        self._leases: dict[str, int] = {}
        self._dead: set[str] = set()
        self._queue: list[tuple[tuple[Write, ...], asyncio.Future[Appended]]] = []
        self._watches = Watches()
        self._closed = False
        self.shelf = MemoryShelf(self._check)
        self.seals = MemorySeals(self._check, self._leaves)
        self.door = MemoryDoor(self._check, self.now)

    @property
    def name(self) -> str:
        return "memory:"

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
            self._watches.ring({write.run for write in writes})
            if not answer.done():
                answer.set_result(appended)

    def _carry_out(self, writes: tuple[Write, ...]) -> Appended:
        kept = _Draft(self._kept)
        at = max([self.now(), *(kept.last_at(write.run) for write in writes)])
        for write in writes:
            kept.write(write, at)
        kept.keep()
        return Appended(at=at, position=len(self._kept.log))

    async def load(self, run_id: str) -> RunRow | None:
        self._check()
        return self._kept.runs.get(run_id)

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
        return [self._kept.journals[run_id][seq - 1] for run_id, seq in page]

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
        after = read_hold_key(query.after)
        found = [self._found(row) for row in self._kept.holds.values() if _wanted(query, row)]
        found = [
            hold
            for hold in found
            if (query.project is None or hold.project == query.project) and _place(hold) > after
        ]
        return sorted(found, key=_place)[: page_size(query.limit)]

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        self._check()
        row = self._kept.holds.get((run_id, n))
        return None if row is None else self._found(row)

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
        self, worker: str, *, limit: int = 1, agents: Sequence[str] | None = None
    ) -> list[str]:
        self._check()
        free = [
            row
            for row in self._kept.runs.values()
            if row.status == "running" and not row.owner and (agents is None or row.agent in agents)
        ]
        for row in free[: page_size(limit)]:
            self._kept.runs[row.id] = replace(row, owner=worker)
        return [row.id for row in free[: page_size(limit)]]

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

    async def close(self) -> None:
        self._commit()
        self._closed = True
        self._watches.close()

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


class _Draft:
    """One append in the making: kept as a whole, or dropped."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept
        self._runs: dict[str, RunRow] = {}
        self._journals: dict[str, tuple[Entry, ...]] = {}
        self._holds: dict[tuple[str, int], HoldRow] = {}
        self._keys: dict[tuple[str, str], KeyRow] = {}
        self._busy: dict[tuple[str, str], str] = {}
        self._log: list[tuple[str, int]] = []

    def last_at(self, run_id: str) -> int:
        journal = self._kept.journals.get(run_id)
        return journal[-1].at if journal else 0

    def write(self, write: Write, at: int) -> None:
        row = self._runs.get(write.run) or self._kept.runs.get(write.run)
        check_guard(
            write,
            seq=row.seq if row else 0,
            last=row.last if row else b"",
            owner=row.owner if row else "",
        )
        check_conditions(write.only_if, at)
        self._take_key(write)
        self._take_thread(write)
        journal = self._journals.get(write.run) or self._kept.journals.get(write.run, ())
        prev = journal[-1].hash if journal else chain.GENESIS
        position = len(self._kept.log) + len(self._log) + 1
        made = make_entries(write, prev=prev, at=at, position=position)
        self._log += [(entry.run_id, entry.seq) for entry in made]
        self._journals[write.run] = journal = _redact((*journal, *made), write.redacts)
        owner = write.owner if write.owner is not None else (row.owner if row else "")
        if owner and write.status != "running":
            raise StoreError(f"{write.run!r} is {write.status} and cannot have an owner")
        self._runs[write.run] = RunRow(
            id=write.run,
            project=row.project if row else write.project,
            agent=row.agent if row else write.agent,
            thread=row.thread if row else write.thread,
            status=write.status,
            seq=made[-1].seq,
            hash=made[-1].hash,
            last=made[-1].id,
            fold=write.fold,
            state=write.state,
            due_at=write.due_at,
            owner=owner,
        )
        for hold in write.holds:
            if not 0 < hold.entry <= len(journal):
                raise StoreError(f"hold {hold.n} of {write.run!r} names an entry that is not there")
            self._holds[write.run, hold.n] = hold

    def _take_key(self, write: Write) -> None:
        if write.key is None:
            return
        place = (write.key.project, write.key.key)
        found = self._keys.get(place) or self._kept.keys.get(place)
        if found is not None:
            raise KeyReused(f"the key {write.key.key!r} was used before", found=found)
        self._keys[place] = KeyRow(digest=write.key.digest, run_id=write.run, seq=write.after + 1)

    def _take_thread(self, write: Write) -> None:
        place = (write.project, write.thread)
        if not write.thread:
            return
        busy = self._busy.get(place, self._kept.busy.get(place, ""))
        if write.status in OPEN:
            if busy not in ("", write.run):
                raise ThreadBusy(f"the thread {write.thread!r} is busy with {busy!r}")
            self._busy[place] = write.run
        elif busy == write.run:
            self._busy[place] = ""

    def keep(self) -> None:
        self._kept.runs.update(self._runs)
        self._kept.journals.update(self._journals)
        self._kept.holds.update(self._holds)
        self._kept.keys.update(self._keys)
        self._kept.busy.update(self._busy)
        self._kept.log += self._log


def _redact(journal: tuple[Entry, ...], seqs: Sequence[int]) -> tuple[Entry, ...]:
    entries = list(journal)
    for seq in seqs:
        if not 0 < seq <= len(entries):
            raise StoreError(f"there is no entry {seq} to redact")
        entry = entries[seq - 1]
        if not entry.redacted:
            content = chain.leaf(entry.salt, entry.payload)
            entries[seq - 1] = replace(entry, salt=b"", payload=content, redacted=True)
    return tuple(entries)


def _wanted(query: HoldQuery, row: HoldRow) -> bool:
    if query.status != "any" and (row.status == "settled") != (query.status == "settled"):
        return False
    if query.run_id is not None and row.run_id != query.run_id:
        return False
    if query.suspension is not None and row.suspension != query.suspension:
        return False
    return query.who is None or not set(query.who).isdisjoint(row.who)


def _place(hold: HoldFound) -> tuple[int, int]:
    return hold.opened.position, hold.row.n


def _refuse(answer: asyncio.Future[Appended], error: SaysoError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # Nobody has to be told twice that nobody listened.
