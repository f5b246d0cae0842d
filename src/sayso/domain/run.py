"""The state of a run, as far as verbs need it: what the row in the store keeps.

It never holds messages, arguments or outcomes, so that a decision costs the same after two
messages as after two thousand. Those are folded from the journal by `transcript`.
"""

from __future__ import annotations

import enum

from msgspec.structs import replace

from sayso.domain.call import CallState
from sayso.domain.hold import Hold
from sayso.domain.value import Principal, Row

FOLD = 1
"""The number of this shape. A row with another number is folded anew from its journal."""


class Status(enum.StrEnum):
    """What a run is doing. Computed by `lifecycle.status_of` and nowhere else."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CallRow(Row, frozen=True, kw_only=True):
    """A call of the open turn."""

    ref: str
    tool: str
    digest: str
    entry: int
    """The entry that holds its arguments."""
    state: CallState
    version: int = 1
    attempt: int = 0
    worker: str = ""
    tick: int = 0
    timeout_ms: int = 0
    approved: bool = False
    """Whether a person's approval stands behind it, for an attempt after the first."""


class Strand(Row, frozen=True, kw_only=True):
    """One line of thought: its open turn, and what was said to it."""

    name: str
    turn: int = 0
    said: int = 0
    """The last entry that said something to it."""
    seen: int = 0
    """The last entry its model was shown."""
    calls: tuple[CallRow, ...] = ()


class Refusal(Row, frozen=True, kw_only=True):
    """A call that was rejected or expired: asking again would only tire people."""

    digest: str
    hold: int
    times: int


class Run(Row, frozen=True, kw_only=True):
    """The state of a run after some entry of its journal."""

    id: str
    project: str
    agent: str
    by: Principal
    started_at: int
    seq: int
    strands: tuple[Strand, ...]
    holds: tuple[Hold, ...] = ()
    """Open ones, in the order they were opened."""
    told: Status = Status.RUNNING
    """The status the journal has last announced."""
    ending: str = ""
    """How it is to end once what has started is over: `cancelled`, `failed`, or not at all."""
    ending_why: str = ""
    final: str = ""
    thread: str = ""
    previous: str = ""
    root: str = ""
    turns: int = 0
    holds_opened: int = 0
    suspensions: int = 0
    refusals: tuple[Refusal, ...] = ()
    doubts: tuple[tuple[str, str], ...] = ()
    """Digest and ref of every call whose outcome nobody knows."""

    def strand(self, name: str) -> Strand | None:
        """Find a strand."""
        for strand in self.strands:
            if strand.name == name:
                return strand
        return None

    def call(self, ref: str) -> CallRow | None:
        """Find a call of an open turn."""
        for strand in self.strands:
            for call in strand.calls:
                if call.ref == ref:
                    return call
        return None

    def calls(self, *states: CallState) -> list[CallRow]:
        """All calls of open turns in one of these states."""
        return [c for strand in self.strands for c in strand.calls if c.state in states]

    def hold(self, n: int) -> Hold | None:
        """Find an open hold."""
        for hold in self.holds:
            if hold.n == n:
                return hold
        return None

    @property
    def due_at(self) -> int | None:
        """When the sweeper must look at it: a deadline, or a decision becoming effective."""
        if not self.holds:
            return None
        times = [
            hold.deadline if hold.decision is None else hold.decision.effective_at
            for hold in self.holds
        ]
        return min((at for at in times if at is not None), default=None)


def with_strand(run: Run, strand: Strand) -> Run:
    """Copy a run with this strand in place of the one of its name."""
    strands = [strand if other.name == strand.name else other for other in run.strands]
    return replace(run, strands=tuple(strands))


def with_call(run: Run, row: CallRow) -> Run:
    """Copy a run with this call in place of the one of its ref."""
    strands = [
        replace(strand, calls=tuple([row if c.ref == row.ref else c for c in strand.calls]))
        if strand.calls
        else strand
        for strand in run.strands
    ]
    return replace(run, strands=tuple(strands))


def with_hold(run: Run, hold: Hold) -> Run:
    """Copy a run with this hold in place of the one of its number."""
    return replace(run, holds=tuple(hold if other.n == hold.n else other for other in run.holds))
