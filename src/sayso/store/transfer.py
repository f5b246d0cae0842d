"""Whole stores, table by table: what `move.py` needs of the one that is moved, and of the one that
is filled.

Rule 1: rows are the same values whatever a store keeps them as, down to every salt, hash and rev.
Rule 2: a page is one transaction. Whoever is killed leaves whole pages, and the last key of a table
says where to go on.
Rule 3: workers and leases stay behind: they are of the processes, and not of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from sayso.domain import codec
from sayso.domain.call import CallState
from sayso.errors import CannotMove, NotUnderstood, StoreMoved, StoreUnfinished

if TYPE_CHECKING:
    from sayso.store.checkup import WorkerFact
    from sayso.store.seal import Leaf

Row: TypeAlias = tuple[Any, ...]
"""The values of a table's columns: whole numbers, text, bytes or None."""
NAMES_MAX = 5
GRACE_MS = 60_000
"""How long a call may go on after its time is over."""
MOVED = "open that one; what is here can only be read"
"""How a store that was moved says so."""


class Table(msgspec.Struct, frozen=True):
    """A table, with its columns in the order of every row, and those that make its key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        """Give the key of a row."""
        return tuple(row[self.columns.index(name)] for name in self.key)


def _table(name: str, columns: str, key: str) -> Table:
    return Table(name, tuple(columns.split()), tuple(key.split()))


RUNS = _table(
    "runs",
    "k id project agent thread status owner due_at seq at fold hash last state",
    "k",
)
JOURNAL = _table("journal", "position run seq id at salt payload hash", "position")
HOLDS = _table(
    "holds",
    "run n opened status call kind tool version digest suspension entry revised args_entry "
    "opened_at deadline who decision votes escalates_at words",
    "run n",
)
"""Its digest is text, and so is who may decide, as JSON."""
SHELF = _table("shelf", "project kind id rev data", "project kind id")
SEALS = _table("seals", "n data", "n")
DOOR = _table("door", "n project at salt payload hash", "n")
TABLES = (
    _table("audiences", "k project who", "k"),
    RUNS,
    JOURNAL,
    HOLDS,
    _table("waiting", "audience opened n run", "audience opened n"),
    _table("keys", "project key digest run seq", "project key"),
    SHELF,
    _table("parcels", "k project id kind run due_at free_at taken tries error data", "k"),
    SEALS,
    DOOR,
    _table("archives", "n file sha256 runs entries at", "n"),
    _table("archived", "id project thread seq hash archive", "id"),
    _table("archived_keys", "project key digest run_id seq", "project key"),
    _table("leaves", "position hash", "position"),
)
"""Every table that is carried, after those that it refers to."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says of a move that it takes part in."""

    state: Literal["moved", "filling", "undone"]
    """`moved`: all of it went elsewhere. `filling`: it is taking another store in. `undone`: it
    did, and the other one goes on instead.
    """
    other: str
    """The name of the other store, without any password."""
    token: str
    """Of this very move: the same in both."""
    at: int
    """When it was put, milliseconds since 1970."""


MARK = "select state, other, token, at from mark"


def read_mark(found: Sequence[Row]) -> Mark | None:
    """Read the row of a mark, if there is one."""
    if not found:
        return None
    state, other, token, at = found[0]
    return Mark(state=state, other=other, token=token, at=at)


class Transfer(Protocol):
    """A store that is moved, or moved into. Nothing else may use the object meanwhile; it raises
    only errors of `sayso.errors`.
    """

    @property
    def name(self) -> str:
        """What to call the store in messages: its path or address, without any password."""
        ...

    async def mark(self) -> Mark | None:
        """Read its mark."""
        ...

    async def fault(self) -> str:
        """Say why it is not the store that was last worked on; empty if it is."""
        ...

    async def check_rest(self, *, even_if_silent: bool = False) -> None:
        """Raise `CannotMove` if somebody works on it, or may."""
        ...

    async def begin(self, mark: Mark) -> None:
        """Put the mark of a store that is filled. `CannotMove` unless it is empty and unmarked."""
        ...

    async def shut(self, mark: Mark, *, even_if_silent: bool = False) -> None:
        """Put a mark in place of any other, and refuse every write from that commit on, whoever
        has the store open. `CannotMove` names whoever still works on it, or may.
        """
        ...

    async def reopen(self) -> None:
        """Take the mark away, and take writes again."""
        ...

    async def count(self, table: Table) -> int:
        """Count the rows of a table."""
        ...

    async def rows(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        """Read rows by key, from the one after a key on."""
        ...

    async def last(self, table: Table) -> Row | None:
        """Give the last key of a table."""
        ...

    async def fill(self, table: Table, rows: Sequence[Row], after: Row | None) -> None:
        """Put rows after the last key of a table, all or none. `CannotMove` if that is another:
        somebody else fills it.
        """
        ...

    async def leaves(self, after: int, limit: int) -> list[Leaf]:
        """Read what seals cover, in the order of positions, from the one after a position on."""
        ...

    async def last_rev(self) -> int:
        """Give the last number that was given to an item or a taking."""
        ...

    async def owned(self) -> list[tuple[str, bytes]]:
        """Read the owner and the state of every run that is running and has one."""
        ...

    async def go_on_after(self, rev: int, tick: int) -> None:
        """Have everything that is counted go on after what is there, and revs after this one.

        Runs that have an owner are taken over here soon, and not when a lease clock that was never
        this store's has come to where it was: it goes on after `tick`, or their owners are dead.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


def check_mark(mark: Mark | None, name: str) -> str:
    """Give the name of the store that this one was moved to, or nothing. `StoreUnfinished` if it
    cannot be opened.
    """
    if mark is None:
        return ""
    if mark.state == "filling":
        raise StoreUnfinished(
            f"{name!r} is being filled from {mark.other!r}: run that `sayso move` again, and it "
            "goes on where it was"
        )
    if mark.state == "undone":
        raise StoreUnfinished(
            f"the move into {name!r} was undone, and {mark.other!r} goes on instead: remove this "
            "one"
        )
    return mark.other


def moved_text(name: str, other: str) -> str:
    """Say that a store was moved."""
    return f"{name!r} was moved to {other!r}: {MOVED}"


def check_work(name: str, moved_to: str) -> None:
    """Raise `StoreMoved` unless there can be work in a store."""
    if moved_to:
        raise StoreMoved(moved_text(name, moved_to))


def check_rest(
    workers: Sequence[WorkerFact],
    owned: Sequence[tuple[str, bytes]],
    tick: int,
    name: str,
    *,
    even_if_silent: bool,
) -> None:
    """Raise `CannotMove` if somebody works on a store, or may. Whoever is silent has to have had
    all the time that their calls could take: where the runs are taken over, nobody knows when that
    began.
    """
    alive = [one.id for one in workers if one.state == "alive"]
    silent = [one.id for one in workers if one.state == "silent"]
    busy, how = (alive, "at work") if alive else (silent, "silent, and may come back")
    if alive or (silent and not even_if_silent):
        shown = ", ".join(busy[:NAMES_MAX]) + (" and others" if len(busy) > NAMES_MAX else "")
        what = "stop them first, and wait until they have ended"
        if not alive:
            what += "; if their machines are certainly gone, use --even-if-silent"
        raise CannotMove(
            f"{name!r} has workers that are {how}: {shown}; {what}", workers=tuple(busy)
        )
    for owner, state in owned:
        over = over_at(state)
        if owner in silent and (over is None or over > tick):
            left = "" if over is None else f" for {over - tick:,} ms more: wait that long"
            raise CannotMove(
                f"{owner} is silent, and a call of it may be under way{left}", workers=(owner,)
            )


def over_at(state: bytes) -> int | None:
    """Say when the calls that are under way in a run will have had all their time, by the lease
    clock of the store that it is in: 0 if none is, None if this version cannot tell.
    """
    try:
        run = codec.decode_run(state)
    except NotUnderstood:
        return None
    ends = [one.tick + one.timeout_ms + GRACE_MS for one in run.calls(CallState.STARTED)]
    return max(ends, default=0)
