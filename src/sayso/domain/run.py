"""The state of a run, as far as verbs need it: what the row in the store keeps.

It never holds messages, arguments or outcomes, so that a decision costs the same after two
messages as after two thousand. Those are folded from the journal by `transcript`.
"""

import enum
from typing import Self

from msgspec.structs import replace

from sayso.domain.call import CallState
from sayso.domain.hold import Hold
from sayso.domain.value import Principal, Row

FOLD = 5
"""The number of this shape, and of the set of events: whoever changes either raises it. A row with
a lower number is folded anew from its journal, and one with a higher number is left alone.
"""
FOLD_LIKE = 4
"""From this number on a row reads as one of now: what has joined it since has a default, and that
is what the row has meant. Some of them could not be folded anew, because an entry was erased.
"""


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
    voids: int = 0
    """How many attempts came to nothing."""
    step: int = 0
    """How many steps and asks its body has come to."""
    stepping: bool = False
    """Whether the last of them is a step without an outcome."""
    by: str = ""
    """The person who invoked it, if it is a command."""
    start_by: int | None = None
    """Until when the yes that it has is good."""
    editor: str = ""
    """Who made its arguments what they are now, if somebody has edited them."""


class Strand(Row, frozen=True, kw_only=True):
    """One line of thought: its open turn, and what was said to it."""

    name: str
    turn: int = 0
    said: int = 0
    """The last entry that said something to it."""
    seen: int = 0
    """The last entry its model was shown."""
    calls: tuple[CallRow, ...] = ()
    resolve: str = "each"
    siblings: str = "run"
    parent: str = ""


class Refusal(Row, frozen=True, kw_only=True):
    """A call that was rejected or expired: asking again would only tire people."""

    digest: str
    hold: int
    times: int


class WorkTime(Row, frozen=True, kw_only=True):
    """How long a run may work, and how long it has. While it is suspended, none of it passes."""

    timeout_ms: int
    since: int = 0
    """When it began to work, or went on; 0 while it is suspended."""
    worked_ms: int = 0
    """How long it had worked by then, and runs below it."""

    def worked_by(self, now: int) -> int:
        """Give how long it has worked. A clock that was set back takes none of it away."""
        return self.worked_ms + (max(0, now - self.since) if self.since else 0)

    def left_ms(self, now: int) -> int:
        """Give how long it may still work."""
        return max(0, self.timeout_ms - self.worked_by(now))

    def stopped(self, at: int) -> Self:
        """Let no more of it pass."""
        return replace(self, since=0, worked_ms=self.worked_by(at))

    def resumed(self, at: int) -> Self:
        """Let it pass again."""
        return replace(self, since=at)


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
    commands: tuple[CallRow, ...] = ()
    """Calls that people asked for, and that have no outcome yet."""
    commanded: int = 0
    """How many commands the run was given."""
    strands_opened: int = 1
    spent: int = 0
    """How many turns its children took."""
    turns_max: int = 0
    parent: str = ""
    parent_call: str = ""
    parent_hold: int = 0
    lineage: tuple[str, ...] = ()
    work_time: WorkTime | None = None
    """None: it may work for as long as it takes. The end of the row, which is left out then."""

    def strand(self, name: str) -> Strand | None:
        """Find a strand."""
        for strand in self.strands:
            if strand.name == name:
                return strand
        return None

    def call(self, ref: str) -> CallRow | None:
        """Find a call of an open turn, or an open command."""
        for strand in self.strands:
            for call in strand.calls:
                if call.ref == ref:
                    return call
        for call in self.commands:
            if call.ref == ref:
                return call
        return None

    def calls(self, *states: CallState) -> list[CallRow]:
        """All calls of open turns, and all open commands, in one of these states."""
        found = [c for strand in self.strands for c in strand.calls if c.state in states]
        return found + [c for c in self.commands if c.state in states] if self.commands else found

    def strand_of(self, ref: str) -> Strand | None:
        """Find the strand whose open turn asked for a call; None for a command."""
        for strand in self.strands:
            for call in strand.calls:
                if call.ref == ref:
                    return strand
        return None

    def holds_of(self, ref: str) -> list[Hold]:
        """All open holds of a call."""
        return [hold for hold in self.holds if hold.call == ref]

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
        if self.ending and any(hold.child for hold in self.holds):
            return 0  # Its children are to end as well.
        times: list[int | None] = []
        for hold in self.holds:
            if hold.decision is not None:
                times.append(hold.decision.effective_at)
            else:
                times.append(hold.deadline)
                times += [rung.at for rung in hold.ladder[:1]]
        return min((at for at in times if at is not None), default=None)


def with_strand(run: Run, strand: Strand) -> Run:
    """Copy a run with this strand in place of the one of its name."""
    strands = [strand if other.name == strand.name else other for other in run.strands]
    return replace(run, strands=tuple(strands))


def with_call(run: Run, row: CallRow) -> Run:
    """Copy a run with this call in place of the one of its ref."""
    strand = run.strand_of(row.ref)
    if strand is None:
        # A command that has its outcome is over; no turn waits for it.
        commands = tuple(row if other.ref == row.ref else other for other in run.commands)
        open_ones = tuple(c for c in commands if c.state is not CallState.DONE)
        return replace(run, commands=open_ones)
    calls = [row if other.ref == row.ref else other for other in strand.calls]
    return with_strand(run, replace(strand, calls=tuple(calls)))


def with_hold(run: Run, hold: Hold) -> Run:
    """Copy a run with this hold in place of the one of its number."""
    return replace(run, holds=tuple(hold if other.n == hold.n else other for other in run.holds))
