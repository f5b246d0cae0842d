"""Every order in which a small run can go: all of its states, and that none is a dead end.

From a run with a few calls, do everything that anybody could do, then everything in each run that
came of it, until nothing new comes. What makes runs grow without end (another attempt, another
edit) is bounded; what brings them forward is not. Then go backwards from the ends: whatever has
happened, people deciding and workers working bring every run to its end, without cancelling it.
"""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState
from sayso.domain.codec import encode_run
from sayso.domain.hold import Approved, Rejected, Verdict, fail
from sayso.domain.hold import answer as answered
from sayso.domain.lifecycle import apply
from sayso.domain.policy import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import has_work, startable, status_of, strand_due

from .build import ANN, DONE, MIRA, NOW, answer, asked, call, commit, held, start

ATTEMPTS_MAX, VERSIONS_MAX = 2, 2
UNDO_MS = 5
LATE = NOW + 1_000_000
SILENT = Require(within_ms=1000)
PEOPLES: list[Verdict] = [Approved(), Rejected(reason="no"), answered(1), fail("who knows")]


def key(run: Run) -> bytes:
    """The run without what only counts: two runs with the same key have the same future."""
    strand = run.strands[0]
    rows = tuple(replace(row, entry=0, tick=0, worker="") for row in strand.calls)
    said = int(strand.said > strand.seen)
    plain = replace(
        run,
        seq=0,
        strands=(replace(strand, said=said, seen=0, calls=rows),),
        holds=tuple(replace(hold, entry=0, revised=0, n=0, suspension=0) for hold in run.holds),
        suspensions=0,
        refusals=(),
        doubts=(),
    )
    return encode_run(plain)


def forward(run: Run) -> Iterator[list[e.Event]]:
    """What brings a run on: people decide, time passes, workers work."""
    for hold in run.holds:
        for verdict in PEOPLES:
            doubt_only = hold.kind == "approval" and verdict in PEOPLES[2:]
            again = hold.kind == "in_doubt" and run.ending and verdict == PEOPLES[0]
            if hold.decision is None and not doubt_only and not again:
                for undo in (0, UNDO_MS):
                    yield settling.settle(run, hold.n, verdict, by=MIRA, now=NOW, undo_ms=undo)
    yield settling.sweep(run, now=LATE)
    for row in startable(run):
        yield verbs.start_calls(run, [start(row)])
    for row in run.calls(CallState.STARTED):
        yield verbs.finish_call(run, row.ref, attempt=row.attempt, outcome=DONE)
    if strand_due(run, run.strands[0]):
        last = answer(run)
        yield [last, *verbs.complete(apply(run, last), b"1")]


def sideways(run: Run, holds_max: int) -> Iterator[list[e.Event]]:
    """What else may happen to it, within bounds."""
    for row in run.calls(CallState.STARTED):
        if row.attempt < ATTEMPTS_MAX:
            yield verbs.void_attempt(run, row.ref, attempt=row.attempt, why="?")
        if run.holds_opened < holds_max:
            doubt = {"attempt": row.attempt, "why": "?", "ruling": SILENT, "now": NOW}
            yield verbs.doubt_call(run, row.ref, **doubt)
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


def search(first: Run, holds_max: int) -> tuple[dict[bytes, Run], dict[bytes, set[bytes]]]:
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
        steps += [(events, False) for events in sideways(run, holds_max)]
        for events, is_forward in steps:
            if not events:
                continue
            after = commit(run, *events)
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


@pytest.mark.parametrize("name", FIRST)
def test_no_run_can_get_stuck(name: str):
    first = FIRST[name]
    runs, came_from = search(first, holds_max=4 - len(first.calls(*CallState)))

    for run in runs.values():
        assert run.final or has_work(run) or run.holds
        assert run.told is status_of(run)
        if status_of(run) is Status.SUSPENDED:
            assert run.holds
        for row in run.calls(CallState.HELD, CallState.DOUBTED):
            assert call(run, row.ref).ref in {hold.call for hold in run.holds}
    ends = [k for k, run in runs.items() if run.final]
    reach = set(ends)
    while ends:
        for before in came_from.get(ends.pop(), ()):
            if before not in reach:
                reach.add(before)
                ends.append(before)
    assert set(runs) == reach
    assert {run.final for run in runs.values()} >= {"completed", "failed", "cancelled"}
