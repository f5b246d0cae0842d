"""Every order in which a small run can go: all of its states, and that none is a dead end.

From a run with a few calls, do everything that anybody could do, then everything in each run that
came of it, until nothing new comes. What makes runs grow without end (another attempt, another
edit, another step) is bounded; what brings them forward is not. Then go backwards from the ends:
whatever has happened, people deciding and workers working bring every run to its end, without
cancelling it.
"""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import CallState
from sayso.domain.codec import encode_run
from sayso.domain.hold import Approval, Approved, Ask, Rejected, Verdict, Withdrawn, fail
from sayso.domain.hold import answer as answered
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run, Status
from sayso.domain.standing import (
    concludes,
    has_open,
    has_work,
    startable,
    status_of,
    strand_due,
)

from .build import (
    ANN,
    DELEGATION,
    DONE,
    MIRA,
    NOW,
    QUESTION,
    answer,
    asked,
    begin,
    call,
    commanded,
    commit,
    executing,
    held,
    opened_strand,
    start,
    started,
)

ATTEMPTS_MAX, VERSIONS_MAX, STEPS_MAX, PARKS_MAX = 2, 2, 2, 1
UNDO_MS = 5
LATE = NOW + 1_000_000
SILENT = Require(within_ms=1000)
PEOPLES: list[Verdict] = [Approved(), Rejected(reason="no"), answered(1), fail("who knows")]
FITTING: dict[str, list[Verdict]] = {
    "approval": PEOPLES[:2],
    "in_doubt": PEOPLES,
    "question": PEOPLES[1:],
    "delegation": PEOPLES[2:],
}
Moves = Callable[[Run, CallRow, int], Iterator[list[e.Event]]]
"""What else a call that has started may do, within bounds."""


def key(run: Run) -> bytes:
    """The run without what only counts: two runs with the same key have the same future."""
    strands = tuple(
        replace(
            strand,
            turn=0,
            said=int(strand.said > strand.seen),
            seen=0,
            calls=tuple(plain(row) for row in strand.calls),
        )
        for strand in run.strands
    )
    return encode_run(
        replace(
            run,
            seq=0,
            turns=0,
            strands=strands,
            commands=tuple(plain(row) for row in run.commands),
            holds=tuple(replace(hold, entry=0, revised=0, n=0, suspension=0) for hold in run.holds),
            suspensions=0,
            refusals=(),
            doubts=(),
        )
    )


def plain(row: CallRow) -> CallRow:
    return replace(row, entry=0, tick=0, worker="")


def forward(run: Run) -> Iterator[list[e.Event]]:
    """What brings a run on: people decide, children end, time passes, workers work."""
    for hold in run.holds:
        for verdict in FITTING[hold.kind]:
            again = hold.kind == "in_doubt" and run.ending and verdict == PEOPLES[0]
            if hold.child:
                ended = {"child": hold.child, "now": NOW, "turns": 0}
                yield settling.settle_child(run, hold.n, verdict, **ended)
            elif hold.decision is None and not again:
                for undo in (0, UNDO_MS):
                    yield settling.settle(run, hold.n, verdict, by=MIRA, now=NOW, undo_ms=undo)
    yield settling.sweep(run, now=LATE)
    for row in startable(run):
        yield verbs.start_calls(run, [start(row)])
    for row in run.calls(CallState.ANSWERED):
        yield bodies.continue_call(run, start(row))
    for row in run.calls(CallState.STARTED):
        if row.stepping:
            yield bodies.finish_step(run, row.ref, attempt=row.attempt, outcome=DONE)
        else:
            yield verbs.finish_call(run, row.ref, attempt=row.attempt, outcome=DONE)
    for strand in run.strands:
        if strand_due(run, strand):
            yield last_turn(run, strand.name)
    if concludes(run):
        yield verbs.complete(run, b"1")


def last_turn(run: Run, strand: str) -> list[e.Event]:
    last = answer(run, strand=strand)
    after = apply(run, last)
    if strand != e.MAIN:
        # Somebody has to be told, or nobody would go on.
        return [last, e.StrandClosed(strand=strand), e.MessageReceived(by=MIRA, text="Done.")]
    found = [last, *verbs.drop_commands(after, now=NOW)]
    after = apply_all(run, found)
    if after.commands and all(row.state is CallState.DOUBTED for row in after.commands):
        return found  # Whatever people say of these, and however late.
    if has_open(after) or len(run.strands) > 1:
        return []  # A model that is done waits for the rest of its run.
    return [*found, *verbs.complete(after, b"1")]


def sideways(run: Run, holds_max: int, moves: Moves) -> Iterator[list[e.Event]]:
    """What else may happen to it, within bounds."""
    for row in run.calls(CallState.STARTED):
        yield from moves(run, row, holds_max)
    for row in startable(run):
        if run.holds_opened < holds_max:
            request = verbs.HoldRequest(ref=row.ref, ruling=SILENT)
            yield verbs.open_holds(run, [request], now=NOW)
    for hold in run.holds:
        if hold.decision is not None:
            yield settling.undo(run, hold.n, by=MIRA, now=NOW)
        elif hold.editable and hold.version < VERSIONS_MAX:
            edit = {"args": b"{}", "digest": "edited", "ruling": SILENT, "by": MIRA, "now": NOW}
            yield verbs.revise(run, hold.n, **edit)
    if not run.ending:
        yield verbs.say(run, "Hm.", by=MIRA, now=NOW, supersede=True)
        for error in ("", "broken"):
            yield settling.cancel(run, by=ANN, now=NOW, error=error)


def simply(run: Run, row: CallRow, holds_max: int) -> Iterator[list[e.Event]]:
    """A call without anything special about it."""
    if row.attempt < ATTEMPTS_MAX and not row.step:
        yield verbs.void_attempt(run, row.ref, attempt=row.attempt, why="?")
    if run.holds_opened < holds_max:
        doubt = {"attempt": row.attempt, "why": "?", "ruling": SILENT, "now": NOW}
        yield verbs.doubt_call(run, row.ref, **doubt)


def blocking(run: Run, row: CallRow, holds_max: int) -> Iterator[list[e.Event]]:
    """A call that may wait for its outcome."""
    yield from simply(run, row, holds_max)
    if run.holds_opened < holds_max:
        request = verbs.HoldRequest(
            ref=row.ref, ruling=SILENT, ask=QUESTION, then="outcome", digest="q"
        )
        yield bodies.ask(run, row.ref, requests=[request], attempt=row.attempt, now=NOW)


def durable(
    run: Run, row: CallRow, holds_max: int, steps_max: int = STEPS_MAX
) -> Iterator[list[e.Event]]:
    """A call whose body takes steps, asks, is parked, and comes in doubt."""
    mine = {"attempt": row.attempt}
    yield from simply(run, row, holds_max)
    if row.stepping:
        if run.holds_opened < holds_max:
            doubt = {"why": "?", "ruling": SILENT, "digest": "s", "now": NOW}
            yield bodies.doubt_step(run, row.ref, **mine, **doubt)
        if row.voids < PARKS_MAX:
            yield bodies.park(run, row.ref, **mine, why="?", again=True)
        return
    if row.step < steps_max:
        made = {"name": "reserve", "digest": "s", "effect": "once"}
        yield bodies.start_step(run, row.ref, **mine, **made)
    if row.voids < PARKS_MAX:
        yield bodies.park(run, row.ref, **mine, why="?")
    several: list[list[Ask]] = [[QUESTION], [QUESTION, Approval()]]
    for asks in several:
        if run.holds_opened + len(asks) <= holds_max:
            yield ask_all(run, row, asks, SILENT)


def shortly(run: Run, row: CallRow, holds_max: int) -> Iterator[list[e.Event]]:
    """The same, with fewer steps: for a run where other things happen, too."""
    return durable(run, row, holds_max, steps_max=1)


def on_a_strand() -> Run:
    run = opened_strand(started())
    return begin(commit(run, answer(run, "d", strand="item.2")))


def delegating(run: Run, row: CallRow, holds_max: int) -> Iterator[list[e.Event]]:
    """A call whose body lets other runs work for it."""
    yield from simply(run, row, holds_max)
    if run.holds_opened + 2 <= holds_max:
        yield ask_all(run, row, [DELEGATION], Require())
        yield ask_all(run, row, [DELEGATION, replace(DELEGATION, run="run_d")], Require())
    if run.holds_opened + 1 <= holds_max:
        yield ask_all(run, row, [DELEGATION], Require())


def ask_all(run: Run, row: CallRow, asks: list[Ask], ruling: Require) -> list[e.Event]:
    requests = [
        verbs.HoldRequest(
            ref=row.ref, ruling=ruling, ask=ask, then="continue", step=row.step + 1, digest="q"
        )
        for ask in asks
    ]
    return bodies.ask(run, row.ref, requests=requests, attempt=row.attempt, now=NOW)


def check_step(run: Run, events: list[e.Event], after: Run) -> None:
    """What no append may do: take back what has happened, or lose what was said."""
    for row in run.calls(*CallState):
        later = after.call(row.ref)
        if later is None or later.entry != row.entry:
            continue  # Its turn is over, or it was a command, or it was edited.
        assert row.state is not CallState.DONE or later.state is CallState.DONE
        assert later.attempt >= row.attempt
        # A place with an outcome stays; only the step under way may be taken back.
        assert later.step >= row.step - row.stepping
    settled = {ev.hold: ev.decision.verdict for ev in events if isinstance(ev, e.HoldSettled)}
    effective = {ev.hold for ev in events if isinstance(ev, e.DecisionEffective)}
    undone = {ev.hold for ev in events if isinstance(ev, e.DecisionUndone)}
    for hold in run.holds:
        if after.hold(hold.n) is None:
            assert hold.n in settled or hold.n in effective
        if hold.decision is not None and hold.n not in effective and hold.n not in undone:
            same = after.hold(hold.n)
            taken_back = isinstance(settled.get(hold.n), Withdrawn)
            assert taken_back or (same is not None and same.decision == hold.decision)


def search(
    first: Run, holds_max: int, moves: Moves = simply
) -> tuple[dict[bytes, Run], dict[bytes, set[bytes]]]:
    """Find every run that can come of this one, and from which each can come forward."""
    runs: dict[bytes, Run] = {key(first): first}
    came_from: dict[bytes, set[bytes]] = {}
    todo = [first]
    while todo:
        run = todo.pop()
        if run.final:
            continue
        here = key(run)
        steps = [(events, True) for events in forward(run)]
        steps += [(events, False) for events in sideways(run, holds_max, moves)]
        for events, is_forward in steps:
            if not events:
                continue
            after = commit(run, *events)
            check_step(run, events, after)
            there = key(after)
            if there not in runs:
                runs[there] = after
                todo.append(after)
            if is_forward:
                came_from.setdefault(there, set()).add(here)
    return runs, came_from


FIRST = {
    "a hold": held("d", ruling=SILENT),
    "a hold that may end the run": held(
        "d", ruling=Require(within_ms=1000, on_silence="fail", on_reject="cancel")
    ),
    "a hold that silence approves": held("d", ruling=replace(SILENT, on_silence="approve")),
    "a hold and a call that needs nobody": held("d", ruling=SILENT, ready=("r",)),
    "two calls that need nobody": asked("r", "s"),
}


@pytest.mark.search
@pytest.mark.parametrize("name", FIRST)
def test_no_run_can_get_stuck(name: str):
    first = FIRST[name]

    runs = check_all(first, holds_max=4 - len(first.calls(*CallState)))

    assert {run.final for run in runs} >= {"completed", "failed", "cancelled"}


WAITING: dict[str, tuple[Run, int, Moves]] = {
    "a durable call": (executing("d"), 3, durable),
    "a durable call beside a held one": (begin(held("d", ruling=SILENT, ready=("r",))), 2, shortly),
    "a blocking call": (executing("d"), 3, blocking),
    "two calls of which one blocks": (executing("d", "e"), 1, blocking),
    "a call that delegates": (executing("d"), 3, delegating),
    "a durable command": (commanded(started()), 2, shortly),
    "a durable call on a strand of its own": (on_a_strand(), 2, shortly),
}


@pytest.mark.search
@pytest.mark.parametrize("name", WAITING)
def test_no_run_with_a_call_that_waits_can_get_stuck(name: str):
    first, holds_max, moves = WAITING[name]

    runs = check_all(first, holds_max, moves)

    states = {row.state for run in runs for row in run.calls(*CallState)}
    assert states >= {CallState.WAITING, CallState.DOUBTED}
    assert {run.final for run in runs} >= {"completed", "failed", "cancelled"}


def check_all(first: Run, holds_max: int, moves: Moves = simply) -> list[Run]:
    """Check every run that can come of this one, and that each can come to an end."""
    runs, came_from = search(first, holds_max, moves)
    for run in runs.values():
        assert run.final or has_work(run) or run.holds or concludes(run)
        assert run.told is status_of(run)
        if status_of(run) is Status.SUSPENDED:
            assert run.holds
        for row in run.calls(CallState.HELD, CallState.DOUBTED, CallState.WAITING):
            assert call(run, row.ref).ref in {hold.call for hold in run.holds}
    ends = [k for k, run in runs.items() if run.final]
    reach = set(ends)
    while ends:
        for before in came_from.get(ends.pop(), ()):
            if before not in reach:
                reach.add(before)
                ends.append(before)
    assert set(runs) == reach
    return list(runs.values())
