"""What people and programs see of runs and holds: plain values, made from committed rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.call import Outcome, call_id
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.grant import may_be_granted
from sayso.domain.hold import Approved, Ask, Decision, External, InDoubt, hold_id, request_id
from sayso.domain.message import Message
from sayso.domain.operand import OperandPin
from sayso.domain.question import Question
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.secret import mask_args
from sayso.domain.transcript import ERASED, Transcript
from sayso.domain.value import Principal, Value
from sayso.store.base import HoldFound, HoldRow, RunRow, Write
from sayso.store.journal import decode

if TYPE_CHECKING:
    from sayso.domain.hint import Schema
    from sayso.domain.plan import ItemStatus, Progress
    from sayso.domain.rendering import By, Rendering
    from sayso.domain.tree import InstanceView


class HoldView(Value, frozen=True, kw_only=True):
    """A hold, as whoever decides needs to see it."""

    id: str
    run_id: str
    request_id: str
    call_id: str
    kind: str
    tool: str
    args: Any
    """What the call would be executed with, parsed from the very bytes. For a secret there is its
    mark, `{"$sealed": ...}`, which `approve(args=...)` takes for: unchanged.
    """
    title: str
    why: str
    risk: str
    digest: str
    """What a decision must carry: it names exactly what is shown here."""
    version: int
    deadline: datetime | None
    status: str
    opened_at: datetime
    approvers: tuple[str, ...]
    agent: str
    project: str
    args_json: str
    """The very bytes; with marks for secrets."""
    editable: bool = True
    duplicate_of: str | None = None
    """The call in doubt that this one would repeat."""
    doubt: str = ""
    """For a call in doubt: what is known about it."""
    decision: Decision | None = None
    votes: tuple[Decision, ...] = ()
    """What was said so far, where it takes several persons."""
    quorum: int = 1
    reject_quorum: int = 1
    not_requester: bool = False
    """It is for others than who asked for the call."""
    escalates_at: datetime | None = None
    """When others are asked as well."""
    start_by: timedelta | None = None
    """How long a yes is good for."""
    ruling: Require = Require()
    """What the rules demand, as it was when it was asked."""
    ask: Ask | None = None
    """What is asked, in full: a question with its options, a provider and its scopes."""
    together: bool = False
    """It is decided with all others of its request, or not at all."""
    lineage: tuple[str, ...] = ()
    """The runs above the one that asks, the root first."""
    operands: tuple[OperandPin, ...] = ()
    """The files that the arguments name, as they were when they were asked about."""

    @property
    def missing(self) -> int:
        """How many more persons must say yes."""
        said = {vote.by.id for vote in self.votes if isinstance(vote.verdict, Approved)}
        return 0 if self.status != "open" else max(self.quorum - len(said), 1)

    @property
    def grantable(self) -> bool:
        """Tell whether a yes to it may be a standing one: `decide(..., always=...)`."""
        return self.kind == "approval" and not self.together and may_be_granted(self.ruling)

    @property
    def question(self) -> Question | None:
        """The question, if it asks one."""
        return self.ask if isinstance(self.ask, Question) else None

    @property
    def metadata(self) -> Any:
        """What goes along with a wait for something outside."""
        if not isinstance(self.ask, External) or self.ask.metadata is None:
            return None
        return decode_value(bytes(self.ask.metadata))

    @property
    def shown(self) -> Rendering:
        """What people see of the call; made of the very bytes each time it is looked at."""
        return self.show()

    def show(self, schema: Schema | None = None) -> Rendering:
        """Give what people see of the call, with hints from the tool's JSON Schema."""
        words: list[tuple[By, str, str]] = [("tool", "why", self.why)]
        if self.title != self.tool:
            words.insert(0, ("tool", "title", self.title))
        match self.ask:
            case Question(text=said) | External(reason=said):
                # Often a model's, and never ours.
                words.append(("agent", "asks", said))
            case _:
                pass
        from sayso.domain.rendering import render

        return render(self.args_json.encode(), schema, words=words, operands=self.operands)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of holds: iterate it; `next` is where the next page goes on, None at the end."""

    items: tuple[HoldView, ...]
    next: str | None

    def __iter__(self) -> Iterator[HoldView]:  # type: ignore[override]
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> HoldView:
        return self.items[index]


class ItemView(Value, frozen=True, kw_only=True):
    """An item of a run's plan."""

    id: str
    task: str
    after: tuple[str, ...]
    """The items whose results it builds on."""
    status: ItemStatus
    """`waiting`: nothing of it goes on until somebody has decided."""
    result: Any = None
    error: str | None = None
    holds: tuple[str, ...] = ()
    """The ids of what it asks."""


class RunView(Value, frozen=True, kw_only=True):
    """A run, as of its last committed entry."""

    id: str
    project: str
    agent: str
    by: Principal
    status: str
    seq: int
    started_at: datetime
    holds: tuple[HoldView, ...]
    """What waits for a person."""
    messages: tuple[Message, ...]
    output: Any = None
    error: str | None = None
    thread: str | None = None
    cancelling: bool = False
    worker: str | None = None
    """Who works on it right now."""
    late: tuple[e.LateResult, ...] = ()
    """Results that came after their attempt had been given up."""
    tree: tuple[InstanceView, ...] = ()
    """The instances of a machine, each after its parent."""
    plan: tuple[ItemView, ...] = ()
    """What a planner is to do, and how far it has come."""

    @property
    def final(self) -> bool:
        """Tell whether nothing will happen to it any more."""
        return self.status not in ("running", "suspended")


class CommandView(Value, frozen=True, kw_only=True):
    """A command, as of the run's last committed entry."""

    call_id: str
    status: str
    """`done`: it has its outcome; `held`: it asks somebody."""
    outcome: Outcome | None = None
    holds: tuple[str, ...] = ()
    """The ids of what it asks."""


def moment(ms: int) -> datetime:
    """Turn store time into a date and time in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def hold_view(found: HoldFound, lineage: tuple[str, ...] = ()) -> HoldView:
    """Make a view of a hold. What was redacted of it shows as erased."""
    revision = None if found.revision is None else decode(found.revision)
    said = _Said(opened=decode(found.opened), revision=revision, args=decode(found.args))
    return _hold_view(found.row, said, found.project, found.agent, lineage)


def written_holds(write: Write) -> tuple[HoldView, ...] | None:
    """Make views of the open holds that a committed write has put; None if not all that they say is
    in the write itself.
    """
    events = {
        seq: codec.decode_event(entry.payload)
        for seq, entry in enumerate(write.entries, start=write.after + 1)
    }
    rows = [row for row in write.holds if row.status != "settled"]
    views = [view_among(row, events, write.project, write.agent) for row in rows]
    found = tuple([view for view in views if view is not None])
    return found if len(found) == len(rows) else None


def view_among(
    row: HoldRow, events: Mapping[int, e.AnyEvent | None], project: str, agent: str
) -> HoldView | None:
    """Make a view of a hold, if what it says is among these entries."""
    if not events.keys() >= {row.entry, row.args_entry, row.revised or row.entry}:
        return None
    said = _Said(events[row.entry], events.get(row.revised), events[row.args_entry])
    return _hold_view(row, said, project, agent, ())


class _Said(NamedTuple):
    """What entries say of a hold; None: it was redacted, or there is no such entry."""

    opened: e.AnyEvent | None
    revision: e.AnyEvent | None
    args: e.AnyEvent | None


def _hold_view(
    row: HoldRow, said: _Said, project: str, agent: str, lineage: tuple[str, ...]
) -> HoldView:
    opened, revision = said.opened, said.revision
    ruling, doubt, repeats = Require(), "", ""
    ask, together, operands = None, False, ()
    if isinstance(opened, e.HoldOpened):
        ruling, repeats = opened.ruling, opened.duplicate_of
        ask, together, operands = opened.ask, opened.together, opened.operands
        doubt = opened.ask.why if isinstance(opened.ask, InDoubt) else ""
    if isinstance(revision, e.HoldRevised):
        ruling, operands = revision.ruling, revision.operands
    args = _args(row, said.args)
    return HoldView(
        id=hold_id(row.run_id, row.n),
        run_id=row.run_id,
        request_id=request_id(row.run_id, row.suspension),
        call_id=call_id(row.run_id, row.call),
        kind=row.kind,
        tool=row.tool,
        args=None if args is None else decode_value(args),
        args_json=ERASED if args is None else args.decode(),
        title=ruling.title or row.tool,
        why=ruling.why,
        risk=ruling.risk,
        digest=row.digest,
        version=row.version,
        deadline=None if row.deadline is None else moment(row.deadline),
        status=row.status,
        opened_at=moment(row.opened_at),
        approvers=row.who,
        agent=agent,
        project=project,
        editable=ruling.editable,
        duplicate_of=_call(row.run_id, repeats) if repeats else None,
        doubt=doubt,
        decision=None if row.decision is None else codec.decode_decision(row.decision),
        votes=() if row.votes is None else codec.decode_votes(row.votes),
        quorum=ruling.quorum,
        reject_quorum=ruling.reject_quorum,
        not_requester=ruling.not_requester,
        ruling=ruling,
        escalates_at=None if row.escalates_at is None else moment(row.escalates_at),
        start_by=None if ruling.start_by_ms is None else timedelta(milliseconds=ruling.start_by_ms),
        ask=ask,
        together=together,
        lineage=lineage,
        operands=operands,
    )


def _call(run_id: str, ref: str) -> str:
    # A call of another run is named by its whole id.
    return ref if ref.startswith("run_") else call_id(run_id, ref)


def _args(row: HoldRow, event: e.AnyEvent | None) -> bytes | None:
    if isinstance(event, e.HoldRevised):
        return mask_args(bytes(event.args))
    calls = event.calls if isinstance(event, e.TurnTaken) else ()
    if isinstance(event, e.CommandReceived):
        calls = (event.call,)
    mine = (call for call in calls if call.ref == row.call)
    return next((mask_args(bytes(call.args)) for call in mine), None)


def _tree(run: Run, transcript: Transcript) -> tuple[InstanceView, ...]:
    from sayso.domain.tree import tree_of

    return tree_of(run, transcript)


def _plan(run: Run, transcript: Transcript) -> tuple[ItemView, ...]:
    from sayso.domain.plan import plan_of, progress

    plan = plan_of(transcript)
    if plan is None:
        return ()
    return tuple([_item(run, one) for one in progress(plan, run, transcript)])


def _item(run: Run, one: Progress) -> ItemView:
    strand = run.strand(one.strand)
    asking = {call.ref for call in strand.calls} if strand is not None else set[str]()
    return ItemView(
        id=one.item.id,
        task=one.item.task,
        after=one.item.after,
        status=one.status,
        result=None if one.result is None else decode_value(one.result),
        error=one.error or None,
        holds=tuple([hold_id(run.id, hold.n) for hold in run.holds if hold.call in asking]),
    )


def run_view(row: RunRow, run: Run, transcript: Transcript, holds: tuple[HoldView, ...]) -> RunView:
    """Make a view of a run. What was erased of it shows as erased."""
    output, error = transcript.output, transcript.error
    if transcript.erased:
        output = encode_value(ERASED) if row.status == Status.COMPLETED else None
        error = ERASED if row.status == Status.FAILED else ""
    # Machines and planners keep something of their strands; most agents have nothing to keep.
    kept = any(log.data is not None for log in transcript.strands.values())
    return RunView(
        id=run.id,
        project=run.project,
        agent=run.agent,
        by=run.by,
        status=row.status,
        seq=row.seq,
        started_at=moment(run.started_at),
        holds=holds,
        messages=transcript.messages(),
        output=None if output is None else decode_value(output),
        error=error or None,
        thread=run.thread or None,
        cancelling=bool(run.ending) and not run.final,
        worker=row.owner or None,
        late=tuple(transcript.late),
        tree=_tree(run, transcript) if kept else (),
        plan=_plan(run, transcript) if kept else (),
    )
