"""Everything that can happen to a run. The journal is a list of these.

Rule 1: past tense, our own types only; what a provider said travels inside as opaque JSON.
Rule 2: a tag carries its version and is never given another meaning. A field is never added to a
tag that has been released, because code that does not know the field must refuse the entry: a new
shape is a new tag, and `codec.UPCASTS` brings the old one up. (Nothing is released before 1.0;
until then a field with a default may join a tag.)
Rule 3: every tag has a golden file in `tests/domain/golden/`, and those are only ever added to.

Inside a run, calls and holds go by their short names: a call by `ref` ("2.0": the first call of
the second turn), a hold by its number.
"""

import msgspec

from sayso.domain.call import Call, Outcome
from sayso.domain.grant import Grant
from sayso.domain.hold import Ask, Decision, Then
from sayso.domain.message import Message
from sayso.domain.operand import OperandPin
from sayso.domain.people import Basis
from sayso.domain.ruling import Require
from sayso.domain.value import Principal, RawOrNone, Value

MAIN = "main"
"""The strand every run begins with."""


class Event(Value, frozen=True, kw_only=True, tag_field="type"):
    """Something that happened to a run."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run.started.1"):
    """Somebody started a run."""

    run: str
    project: str
    agent: str
    by: Principal
    input: str
    at: int
    agent_version: str = ""
    policy_version: str = ""
    thread: str = ""
    previous: str = ""
    """The thread's run before this one, whose conversation this one goes on with."""
    root: str = ""
    parent: str = ""
    parent_call: str = ""
    history: tuple[Message, ...] = ()
    metadata: RawOrNone = None
    key: str = ""
    trace: str = ""
    parent_hold: int = 0
    """The parent's hold that this run's end settles."""
    lineage: tuple[str, ...] = ()
    """The agents above this run, the root's first: their rules apply here, too."""
    turns_max: int = 0
    """What is left of the parent's budget; 0: as many as the agent itself allows."""
    timeout_ms: int = 0
    """How long it may work, with the runs below it; 0: as long as it takes."""


class MessageReceived(Event, frozen=True, kw_only=True, tag="message.received.1"):
    """Somebody said something to the run."""

    by: Principal
    text: str
    strand: str = MAIN
    key: str = ""


class TurnTaken(Event, frozen=True, kw_only=True, tag="turn.taken.1"):
    """The model answered."""

    turn: int
    seen: int
    """The last entry the model was shown; what was said after it is for the next turn."""
    strand: str = MAIN
    text: str = ""
    calls: tuple[Call, ...] = ()
    raw: RawOrNone = None
    model: str = ""
    usage: dict[str, int] | None = None
    resolve: str = "each"
    """How its holds are decided; see `policy.BATCHES`."""
    siblings: str = "run"
    """What its other calls do while one of them is held."""


class CommandReceived(Event, frozen=True, kw_only=True, tag="command.received.1"):
    """Somebody invoked a command on the run: a call that no model asked for."""

    call: Call
    by: Principal
    at: int
    strand: str = MAIN
    key: str = ""


class StrandOpened(Event, frozen=True, kw_only=True, tag="strand.opened.1"):
    """Another line of thought begins in the run."""

    strand: str
    parent: str = MAIN
    text: str = ""
    """What it is to do. Without it, it waits until something is said to it."""
    data: RawOrNone = None
    """What its agent keeps of it: a plan's item, a machine's node and state."""


class StrandChanged(Event, frozen=True, kw_only=True, tag="strand.changed.1"):
    """What the agent keeps of a strand is something else now."""

    strand: str
    data: msgspec.Raw


class StrandClosed(Event, frozen=True, kw_only=True, tag="strand.closed.1"):
    """A line of thought is over."""

    strand: str
    result: RawOrNone = None
    error: str = ""


class HoldOpened(Event, frozen=True, kw_only=True, tag="hold.opened.1"):
    """A person is asked."""

    hold: int
    call: str
    digest: str
    ask: Ask
    ruling: Require
    approvers: tuple[str, ...]
    suspension: int
    at: int
    version: int = 1
    deadline: int | None = None
    policy_version: str = ""
    tool_version: str = ""
    """Set if the call is not what it was when it was asked for: its tool has changed, or a file."""
    duplicate_of: str = ""
    """The call in doubt that this one would repeat: its ref, or the id of one of another run."""
    trace: str = ""
    then: Then = "start"
    together: bool = False
    step: int = 0
    """The place in the call's body where it is asked."""
    operands: tuple[OperandPin, ...] = ()
    """The files of the call that it asks about."""


class HoldRevised(Event, frozen=True, kw_only=True, tag="hold.revised.1"):
    """A person edited the arguments: what is asked is now something else."""

    hold: int
    version: int
    args: msgspec.Raw
    digest: str
    by: Principal
    ruling: Require
    approvers: tuple[str, ...]
    at: int
    deadline: int | None = None
    right: str = ""
    of: str = ""
    basis: tuple[Basis, ...] = ()
    policy_version: str = ""
    operands: tuple[OperandPin, ...] = ()
    """The files that the new arguments name."""


class VoteCast(Event, frozen=True, kw_only=True, tag="vote.cast.1"):
    """Somebody decided, and it takes more than one."""

    hold: int
    version: int
    decision: Decision


class VoteUndone(Event, frozen=True, kw_only=True, tag="vote.undone.1"):
    """A vote does not count any more: whoever cast it took it back, or lost the right to it."""

    hold: int
    person: str
    by: Principal
    at: int
    why: str = ""


class GrantGiven(Event, frozen=True, kw_only=True, tag="grant.given.1"):
    """Whoever allowed a call allows those like it from now on."""

    hold: int
    grant: Grant


class HoldEscalated(Event, frozen=True, kw_only=True, tag="hold.escalated.1"):
    """Nobody has decided for so long that others are asked as well."""

    hold: int
    to: tuple[str, ...]
    at: int


class HoldReassigned(Event, frozen=True, kw_only=True, tag="hold.reassigned.1"):
    """Somebody handed over what they were asked."""

    hold: int
    by: Principal
    instead_of: str
    """By which of the approvers' names they were meant; it is asked no more."""
    to: str
    at: int
    right: str = ""
    """By what they may hand it over, if not by that name."""
    of: str = ""
    basis: tuple[Basis, ...] = ()
    note: str = ""


class HoldSettled(Event, frozen=True, kw_only=True, tag="hold.settled.1"):
    """Somebody decided, or time did. It counts from the decision's `effective_at`."""

    hold: int
    version: int
    decision: Decision
    turns: int = 0
    """How many turns the run took whose end this is: they count against the budget here."""
    worked_ms: int = 0
    """How long that run has worked, if this one may only work for so long."""
    trace: str = ""
    """The W3C `traceparent` of where this was done; see `engine/telemetry.py`."""


class DecisionEffective(Event, frozen=True, kw_only=True, tag="decision.effective.1"):
    """The time to undo a decision is over."""

    hold: int


class DecisionUndone(Event, frozen=True, kw_only=True, tag="decision.undone.1"):
    """Whoever decided took it back in time: the hold is open again."""

    hold: int
    by: Principal
    at: int


class CallStarted(Event, frozen=True, kw_only=True, tag="call.started.1"):
    """A worker owns this attempt; the tool runs only after this is committed."""

    call: str
    attempt: int
    worker: str
    digest: str
    tick: int
    """When, by the store's lease clock."""
    timeout_ms: int
    tool_version: str = ""
    grant: str = ""
    """The standing permission that was used, if one was."""
    basis: tuple[Basis, ...] = ()
    """The records by which whoever allowed it still may."""
    grant_until: int | None = None


class CallFinished(Event, frozen=True, kw_only=True, tag="call.finished.1"):
    """A call has its one outcome. `attempt` 0: it never started."""

    call: str
    outcome: Outcome
    attempt: int = 0
    why: str = ""
    """How this came to be known, if not from the tool itself: a probe, a person."""


class CallContinued(Event, frozen=True, kw_only=True, tag="call.continued.1"):
    """A worker owns the body from here on; it is given its answers only after this is committed."""

    call: str
    attempt: int
    worker: str
    tick: int
    timeout_ms: int


class StepStarted(Event, frozen=True, kw_only=True, tag="step.started.1"):
    """A body is about to take a step; it is taken only after this is committed."""

    call: str
    attempt: int
    step: int
    """Its place in the body: steps and asks are counted together, from 1."""
    name: str
    digest: str
    """Of its arguments."""
    effect: str


class StepFinished(Event, frozen=True, kw_only=True, tag="step.finished.1"):
    """A step has its outcome, and is never taken again."""

    call: str
    attempt: int
    step: int
    outcome: Outcome
    why: str = ""
    """How this came to be known, if not from the step itself."""


class StepVoided(Event, frozen=True, kw_only=True, tag="step.voided.1"):
    """A step had no effect, or one that may be repeated: it may be taken again."""

    call: str
    attempt: int
    step: int
    why: str


class BodyParked(Event, frozen=True, kw_only=True, tag="body.parked.1"):
    """Nobody has this body in memory any more; it goes on from the journal."""

    call: str
    attempt: int
    why: str


class AttemptVoided(Event, frozen=True, kw_only=True, tag="attempt.voided.1"):
    """This attempt is over and does not count; the call may start again."""

    call: str
    attempt: int
    why: str


class CallDoubted(Event, frozen=True, kw_only=True, tag="call.doubted.1"):
    """This attempt may or may not have had its effect."""

    call: str
    attempt: int
    why: str


class LateResult(Event, frozen=True, kw_only=True, tag="late.result.1"):
    """A result for an attempt that no longer counts. It changes nothing but what people see."""

    call: str
    attempt: int
    outcome: Outcome


class CancelRequested(Event, frozen=True, kw_only=True, tag="cancel.requested.1"):
    """The run is to end: as failed if `error` says why, as cancelled otherwise."""

    by: Principal
    at: int
    reason: str = ""
    error: str = ""


class RunTakenOver(Event, frozen=True, kw_only=True, tag="run.taken_over.1"):
    """Another worker goes on with the run, and the one before it can write no more."""

    worker: str
    before: str
    proof: str
    """Why the worker before is taken for gone: `dead` (proven) or `lease` (not heard of)."""


class RunAdopted(Event, frozen=True, kw_only=True, tag="run.adopted.1"):
    """The run came from another store. What was approved there is asked again here."""

    by: Principal
    at: int
    source: str
    """What it was exported from, and when, as its export says."""
    head: str = ""
    """The hash of its last entry there."""
    times: tuple[int, ...] = ()
    """When each of its entries before this one was committed there; here, all were at once."""
    silenced: tuple[int, ...] = ()
    """The open holds that silence would have approved; here it rejects them."""
    undated: tuple[int, ...] = ()
    """The open holds of bodies that silence would have let go on, by whatever it says; here they
    have no deadline any more.
    """


class RunSuspended(Event, frozen=True, kw_only=True, tag="run.suspended.1"):
    """Nothing can go on until somebody decides."""

    at: int = 0
    """When, if the run may only work for so long."""


class RunResumed(Event, frozen=True, kw_only=True, tag="run.resumed.1"):
    """Something can go on."""

    at: int = 0
    """As of `RunSuspended`."""


class RunCompleted(Event, frozen=True, kw_only=True, tag="run.completed.1"):
    """The agent is done."""

    output: msgspec.Raw


class RunFailed(Event, frozen=True, kw_only=True, tag="run.failed.1"):
    """The run cannot go on."""

    error: str


class RunCancelled(Event, frozen=True, kw_only=True, tag="run.cancelled.1"):
    """The run was stopped, and everything it had started is over."""

    reason: str = ""


class EntryRedacted(Event, frozen=True, kw_only=True, tag="entry.redacted.1"):
    """The content of an entry was erased; that it was there, and its hash, remain."""

    entry: int
    by: Principal
    at: int
    reason: str = ""

    @property
    def erases(self) -> range:
        """The entries whose content this erases."""
        return range(self.entry, self.entry + 1)


class RunErased(Event, frozen=True, kw_only=True, tag="run.erased.1"):
    """The content of a run was erased: that of every entry up to one, with what its rows had of it.
    That they were there, and their hashes, remain.
    """

    by: Principal
    at: int
    through: int
    """The last entry whose content was erased."""
    reason: str = ""

    @property
    def erases(self) -> range:
        """The entries whose content this erases."""
        return range(1, self.through + 1)


AnyEvent = (
    RunStarted
    | MessageReceived
    | TurnTaken
    | CommandReceived
    | StrandOpened
    | StrandChanged
    | StrandClosed
    | HoldOpened
    | HoldRevised
    | VoteCast
    | VoteUndone
    | GrantGiven
    | HoldEscalated
    | HoldReassigned
    | HoldSettled
    | DecisionEffective
    | DecisionUndone
    | CallStarted
    | CallContinued
    | CallFinished
    | StepStarted
    | StepFinished
    | StepVoided
    | BodyParked
    | AttemptVoided
    | CallDoubted
    | LateResult
    | CancelRequested
    | RunTakenOver
    | RunAdopted
    | RunSuspended
    | RunResumed
    | RunCompleted
    | RunFailed
    | RunCancelled
    | EntryRedacted
    | RunErased
)


Erasing = EntryRedacted | RunErased
"""What erases what other entries say."""
