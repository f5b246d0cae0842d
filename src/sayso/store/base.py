"""The store port. Each docstring is a contract, and `sayso.testing.contract` is its test.

A store knows entries, rows and leases. It knows no rule of the domain: the guard, the conditions
and a few constraints are all that it enforces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from sayso.domain.guard import Condition

if TYPE_CHECKING:
    from sayso.store.archive import Archives
    from sayso.store.aside import Close, Hear
    from sayso.store.checkup import Finding
    from sayso.store.door import Door
    from sayso.store.look import Look, Wish
    from sayso.store.origin import Origin
    from sayso.store.outbox import Outbox
    from sayso.store.query import Asked, HoldQuery, RunQuery
    from sayso.store.queue import Queue
    from sayso.store.seal import Seals
    from sayso.store.shelf import Shelf
    from sayso.store.watch import Watch

LEASE_MS = 15_000
"""How long a worker that was not heard of is still taken for alive."""
PAGE_MAX = 500
"""No page of anything is longer."""


class _Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    pass


class NewEntry(_Row, frozen=True, kw_only=True):
    """An entry to append: an encoded event and the id that its writer gave it."""

    id: bytes
    """Eight random bytes, by which the writer finds out whether a lost answer was a yes."""
    payload: bytes


class Entry(_Row, frozen=True, kw_only=True):
    """An entry as it is kept."""

    run_id: str
    seq: int
    """From 1, without gaps, within the run."""
    position: int
    """Ascending in commit order over the whole store; gaps mean nothing."""
    id: bytes
    at: int
    """Store time of the commit, milliseconds since 1970. Never less than the run's entry before."""
    salt: bytes
    """Empty once the entry is redacted."""
    payload: bytes
    """The encoded event. Once redacted, the hash that stands for salt and payload instead."""
    hash: bytes
    redacted: bool = False


class HoldRow(_Row, frozen=True, kw_only=True):
    """A hold as lists need it. Words and arguments stay in the journal, once."""

    run_id: str
    n: int
    call: str
    kind: str
    tool: str
    version: int
    digest: str
    status: Literal["open", "decided", "settled"]
    suspension: int
    entry: int
    """The entry that opened it."""
    revised: int
    """The entry that revised it last, or 0."""
    args_entry: int
    """The entry that holds its arguments."""
    opened_at: int
    deadline: int | None
    who: tuple[str, ...]
    """Who may decide, such as `user:mira` or `anyone`."""
    decision: bytes | None = None
    votes: bytes | None = None
    """What was said so far on a hold that takes several persons."""
    escalates_at: int | None = None
    """When others are asked as well."""
    words: str | None = None
    """What it is found by, folded, a line each. The first is what the entry said that opened it or
    revised it last, and goes when that is redacted. None: as before; a row that is read has some.
    """


class HoldFound(_Row, frozen=True, kw_only=True):
    """A hold with what a view of it needs, read in one go."""

    row: HoldRow
    project: str
    agent: str
    opened: Entry
    revision: Entry | None
    args: Entry
    key: str
    """Where the next page goes on if this was the last one of a page."""


class RunRow(_Row, frozen=True, kw_only=True):
    """A run's row: its state after its last entry, and who works on it."""

    id: str
    project: str
    agent: str
    thread: str
    status: str
    seq: int
    hash: bytes
    """The hash of its last entry."""
    last: bytes
    """The id of its last entry."""
    fold: int
    state: bytes
    """The encoded `domain.run.Run`."""
    due_at: int | None
    owner: str
    """The worker that works on it, or empty."""


class Key(_Row, frozen=True, kw_only=True):
    """An idempotency key: the same key with the same digest is a retry."""

    project: str
    key: str
    digest: str


class KeyRow(_Row, frozen=True, kw_only=True):
    """What a key was used for."""

    digest: str
    run_id: str
    seq: int
    """The first entry that was appended with it."""


class ItemPut(_Row, frozen=True, kw_only=True):
    """An item of the write's project to put on the shelf, or to drop, by the same commit."""

    kind: str
    id: str
    rev: int
    """The rev of the item that it takes the place of; 0: there must be none."""
    data: bytes | None
    """What it holds from now on; None: it is dropped, and what it held is erased."""


class NewParcel(_Row, frozen=True, kw_only=True):
    """A parcel to deliver, written by the same commit."""

    id: str
    """It takes the place of the parcel of the write's project that has this id, if there is one,
    whoever has taken that.
    """
    kind: str
    due_at: int
    """From when on it is to be delivered, in store time."""
    data: bytes


class Write(_Row, frozen=True, kw_only=True):
    """One guarded write to one run."""

    run: str
    after: int
    """The number of the run's last entry; 0 creates the run."""
    after_id: bytes | None = None
    """And its id; None: whichever. A number alone can be that of another writer's entry, where this
    write builds on one of its own that was refused.
    """
    entries: tuple[NewEntry, ...]
    """At least one."""
    project: str
    agent: str
    thread: str
    status: str
    fold: int
    state: bytes
    due_at: int | None = None
    holds: tuple[HoldRow, ...] = ()
    """Rows to put, each in place of the one with the same number."""
    owner: str | None = None
    """The worker that owns the run from now on; empty: nobody; None: as before."""
    owner_was: str | None = None
    """Who must own the run right now (empty: nobody), or the write is stale; None: whoever."""
    key: Key | None = None
    only_if: tuple[Condition, ...] = ()
    """What must hold at the time of the commit. Items are those of `project`, as the writes before
    this one of the same append have left them.
    """
    items: tuple[ItemPut, ...] = ()
    """Items to put in their turn, after the conditions have been looked at."""
    parcels: tuple[NewParcel, ...] = ()
    """Parcels to put into the outbox."""
    unparcels: tuple[str, ...] = ()
    """Ids of parcels of `project` to remove, if they are there, taken or dead as they may be. They
    are removed before others are put.
    """
    redacts: tuple[int, ...] = ()
    """Entries of this run whose salt and payload are erased by the same commit."""


class Appended(_Row, frozen=True, kw_only=True):
    """The answer to an append."""

    at: int
    """Store time of the commit."""
    position: int
    """The position of the last entry written."""


class Lost(_Row, frozen=True, kw_only=True):
    """A run whose owner may be gone."""

    run_id: str
    worker: str
    proof: Literal["dead", "lease"]
    """`dead`: the worker cannot come back. `lease`: it has not been heard of for its lease."""


class Sight(_Row, frozen=True, kw_only=True):
    """What a store knows of a worker."""

    worker: str
    alive: Literal["alive", "silent", "dead"]
    """`dead`: it cannot come back. `silent`: it has not been heard of for its lease, and may be
    slow, stopped or gone. `alive`: it was heard of within its lease.
    """
    seen_ms_ago: int | None
    """How long ago it was last heard of, by the lease clock; None: nobody knows, as when the
    machine was started again since.
    """
    host: str
    """The machine that it ran on when it was last heard of, as that calls itself; empty: nobody
    knows.
    """


class Store(Protocol):
    """Keeps runs. Every method but `append` may be called from many tasks and has no side effect
    beyond what it says; everything raises only errors of `sayso.errors`.
    """

    @property
    def name(self) -> str:
        """What to call the store in messages: its path or address, without any password."""
        ...

    @property
    def moved_to(self) -> str:
        """The name of the store that all of this one was moved to: it can be read, and every write
        raises `StoreMoved`. Empty: it was not, when it was opened.
        """
        ...

    @property
    def shelf(self) -> Shelf:
        """Where the same store keeps what is no run."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Where parcels that appends have written wait to be delivered."""
        ...

    @property
    def seals(self) -> Seals:
        """Where it keeps the seals over what it keeps."""
        ...

    @property
    def door(self) -> Door:
        """Where it keeps who was refused what."""
        ...

    @property
    def queue(self) -> Queue | None:
        """Where it offers runs that have work; None: whoever works looks by itself."""
        ...

    @property
    def archives(self) -> Archives:
        """What it knows of the files that runs have left it for."""
        ...

    def now(self) -> int:
        """Store time: milliseconds since 1970 by the store's own clock."""
        ...

    def tick(self) -> int:
        """Give the lease clock: milliseconds that no change of the wall clock moves, the same for
        every process that shares the store.
        """
        ...

    def append(self, *writes: Write) -> Awaitable[Appended]:
        """Append to one or several runs, all or none, durably before the answer.

        The hand-over happens in the call itself: of two calls from one thread, the first is
        committed first, and the second may build on it without waiting. `StaleRun` if any run is
        not where its write expects it, `ConditionFailed` if a condition does not hold at the time
        of the commit, or an item to put is not at its rev (its `condition` is then the `ItemAt`
        that was expected), `KeyReused` if a key exists (whatever its digest), `ThreadBusy` if
        another unfinished run has the thread, `RunArchived` if a run that has left would begin
        again, or its thread go on, `BadValue` if an item or a parcel is none that could
        be kept, or a condition names an item that could not; nothing is written then, and other
        appends go on unharmed. `CommitUnknown` if the store cannot tell whether it is written.
        Otherwise committed: entries get consecutive numbers, positions in commit order, store time
        and their hash. Once handed over, an append is carried out even if nobody awaits its answer
        any more.
        """
        ...

    async def load(self, run_id: str) -> RunRow | None:
        """Read a run's row as of the last commit; None if there is no such run. `RunArchived` if it
        has left, here and wherever one run is asked for.
        """
        ...

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        """Like `load`, with what else is wished for, by one round trip where that is what a read
        costs. All of it is of the moment that the row is of, or of a later one.
        """
        ...

    async def journal(self, run_id: str, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        """Read a run's entries after one, in order, at most `limit`."""
        ...

    async def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        """Read single entries of a run, in ascending order, without those that are not there."""
        ...

    async def tail(self, *, after: int = 0, limit: int = PAGE_MAX) -> list[Entry]:
        """Read the entries of all runs after a position, in commit order. Nothing is ever skipped:
        what is not returned now has a higher position than what is.
        """
        ...

    def watch(self, run_id: str | None = None, *, own: bool = True) -> Watch:
        """Watch one run, or all of them; without `own`, all of them for what others commit. What
        was appended through this very object may be left out of that, or not.
        """
        ...

    def mention(self, run_id: str, text: str) -> None:
        """Say something of a run to other processes, in passing: whoever overhears it now may hear
        it, and nobody later. Never waits and never fails; what is too long, or too much, is lost.
        """
        ...

    def overhear(self, run_id: str, hear: Hear) -> Close:
        """Hear what other processes mention of a run, until what this gives is called. It may begin
        late, by seconds; nothing of this very object is heard, and nothing twice.
        """
        ...

    async def runs(self, query: RunQuery) -> list[RunRow]:
        """List runs, newest first, a page by key; the cost does not grow with what is skipped."""
        ...

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        """List holds, oldest first, a page by key; the cost does not grow with what is skipped.

        A search costs what it looks through, and keeps nobody else from going on. `BadValue` if a
        query is none, `StoreBusy` if a search takes too long, or too many search already.
        """
        ...

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        """Read one hold, open or settled."""
        ...

    async def asked(
        self, *, after: tuple[int, int, int] = (0, 0, 0), limit: int = PAGE_MAX
    ) -> list[Asked]:
        """List whom the lists of open holds are for, hold by hold, and whether the holds agree."""
        ...

    async def key(self, project: str, key: str) -> KeyRow | None:
        """Look an idempotency key up; those of archived runs stay."""
        ...

    async def thread(self, project: str, thread: str) -> RunRow | None:
        """Read the latest run of a thread. `RunArchived` if its runs have left."""
        ...

    async def beat(self, worker: str) -> None:
        """Say that a worker of this process lives; the first time makes it known. It is alive for
        `LEASE_MS` more by the lease clock, and provably dead as soon as its process is, wherever
        the store can tell.
        """
        ...

    async def retire(self, worker: str) -> None:
        """Take a worker of this process off the list and leave its runs to others."""
        ...

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        agents: Sequence[str] | None = None,
        project_max: int | None = None,
    ) -> list[str]:
        """Make the worker the owner of runs that are running and have none, of these agents if
        they are named; say which. No run is ever given to two, and none that a newer Sayso has
        written to, by its fold number, to anybody.

        It is fair: one after another is taken from the project of which the fewest have an owner,
        whoever that is, those taken before included; among such projects, and within one, the
        oldest run. No project gets beyond `project_max` runs that have an owner. Costs no more than
        a read when there is none, and does not grow with how many wait.
        """
        ...

    async def lost(
        self, *, agents: Sequence[str] | None = None, skip: int = 0, limit: int = PAGE_MAX
    ) -> list[Lost]:
        """List the runs that are running and whose owner is dead, or past its lease, of these
        agents if they are named; without the first `skip`, always in the same order.
        """
        ...

    async def sight(self, worker: str) -> Sight | None:
        """Say what is known of a worker, with the same proofs as `lost`; None if it has retired, if
        nobody ever heard of it, or if it was dead, owned nothing and was forgotten.
        """
        ...

    async def due(self, *, skip: int = 0, limit: int = PAGE_MAX) -> list[str]:
        """List the runs whose `due_at` is now or earlier by store time, most urgent first; without
        the first `skip`.
        """
        ...

    async def checkup(self) -> list[Finding]:
        """Look the store over: what durability, access and time rest on, its keys, and who works
        on it. One finding a check, in every store `clock`, `keys`, `origin` and `workers`; nothing
        is changed by looking. What is well is found as such.
        """
        ...

    async def origin(self) -> Origin:
        """Say whether this is the store that was last worked on. While it has a fault, everything
        that writes raises `StoreRestored`, but of whoever has opened it to recover it.
        """
        ...

    async def accept_origin(self) -> int:
        """Take the store, where and as it is now, for the one to work on; give its new epoch. No
        worker of before is known any more.
        """
        ...

    async def doubt_origin(self, why: str) -> None:
        """Note why the store is not the one that was last worked on, where it cannot know that by
        itself: whoever opens it from now on finds it so, until `accept_origin`.
        """
        ...

    async def close(self) -> None:
        """Finish what was handed over, then let go of everything, but for the proof that workers
        which did not retire may still be alive. Closing twice is fine.
        """
        ...
