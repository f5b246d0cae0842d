"""The tables, cell by cell, and every guard of `apply` beside them.

A legal cell needs a witness: a step that some story really takes. The stories are told by the
verbs; whatever they append is collected, so a cell that nothing can reach is found too.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.apply_calls import CALL_MOVES
from sayso.domain.apply_holds import HOLD_MOVES, THENS
from sayso.domain.call import Call, CallState
from sayso.domain.handing import reassign
from sayso.domain.hold import (
    ASK_KINDS,
    Approval,
    Ask,
    Consent,
    InDoubt,
    Rejected,
    SignIn,
    Then,
)
from sayso.domain.hold import answer as answered
from sayso.domain.lifecycle import FINAL, LEGAL, OPEN, TRANSITIONS, apply, epilogue
from sayso.domain.people import unrecorded
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import has_work, startable, status_of, strand_due
from sayso.domain.value import CLOCK, Principal
from sayso.errors import IllegalEvent

from .build import (
    ANN,
    APPROVE,
    DELEGATION,
    DONE,
    EXTERNAL,
    MIRA,
    NOW,
    QUESTION,
    answer,
    asked,
    begin,
    begun,
    call,
    cancelled,
    commit,
    executing,
    finish,
    held,
    late,
    put,
    start,
    started,
    step_doubted,
)
from .forge import (
    HOUR,
    PAID,
    TIMED,
    VALUE,
    attempt,
    completed,
    continued,
    illegal,
    in_state,
    opened,
    revised,
    settled,
    step,
    wondered,
)
from .specimen import GRANT

MANY = Require(
    approvers=("owner", "user:ann"),
    quorum=2,
    escalate_after_ms=HOUR,
    escalate_to=("user:cy",),
)
TYPES: tuple[type[e.Event], ...] = get_args(e.AnyEvent)


def failed() -> Run:
    run = started()
    return commit(run, *settling.cancel(run, by=CLOCK, now=NOW, error="no turns left"))


class Stories:
    """Collects every step that the verbs and the epilogue really take."""

    def __init__(self) -> None:
        self.steps: list[tuple[Run | None, e.Event]] = []

    def go(self, run: Run | None, *events: e.Event) -> Run:
        after = self._walk(run, events)
        return self._walk(after, epilogue(after))

    def _walk(self, run: Run | None, events: Iterable[e.Event]) -> Run:
        for event in events:
            self.steps.append((run, event))
            run = apply(run, event)
        assert run is not None
        return run


def tell_stories() -> Stories:
    s = Stories()
    redacted = e.EntryRedacted(entry=1, by=MIRA, at=NOW)
    late_result = e.LateResult(call="1.0", attempt=1, outcome=DONE)
    timed = held("d", "e", ruling=TIMED)
    busy = begin(held("d", "e", ruling=TIMED, ready=("r",)))
    takeover = e.RunTakenOver(worker="w2", before="w1", proof="dead")

    s.go(None, begun())
    for final in (completed(), failed(), cancelled(started())):
        s.go(final, redacted)
        s.go(final, e.RunErased(by=MIRA, at=NOW, through=final.seq))
        s.go(final, e.RunAdopted(by=MIRA, at=NOW, source="elsewhere"))
        s.go(final, late_result)
    for run in (timed, busy):
        edit: dict[str, Any] = {"args": b"{}", "digest": "d2", "ruling": TIMED, "by": MIRA}
        s.go(run, *verbs.revise(run, 1, now=NOW, **edit))
        s.go(run, *verbs.say(run, "Stop.", by=MIRA, now=NOW, supersede=True))
        s.go(run, *settling.settle(run, 1, Rejected(), by=MIRA, now=NOW))
        s.go(run, *settling.settle(run, 1, APPROVE, by=MIRA, now=NOW))
        s.go(run, *settling.cancel(run, by=MIRA, now=NOW))
        s.go(run, *settling.sweep(run, now=late(run)))
        s.go(run, late_result)
        waiting = s.go(run, *settling.settle(run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5000))
        s.go(waiting, *settling.undo(waiting, 1, by=MIRA, now=NOW))
        s.go(waiting, *settling.sweep(waiting, now=NOW + 5000))
    s.go(busy, takeover)
    ready = s.go(started(), answer(started(), "a"))
    first = s.go(ready, *verbs.start_calls(ready, [start(call(ready))]))
    s.go(first, *verbs.void_attempt(first, "1.0", attempt=1, why="not sent"))
    both = begin(s.go(started(), answer(started(), "a", "b")))
    for ref in ("1.0", "1.1"):
        events = verbs.doubt_call(both, ref, attempt=1, why="?", ruling=TIMED, now=NOW)
        both = s.go(both, *events)
    s.go(both, *verbs.say(both, "Well?", by=MIRA, now=NOW, supersede=True))
    for ending in ("", "broken"):
        ended = s.go(both, *settling.cancel(both, by=MIRA, now=NOW, error=ending))
        s.go(ended, *settling.sweep(ended, now=late(ended)))
    for error in ("", "broken"):
        s.go(started(), *settling.cancel(started(), by=MIRA, now=NOW, error=error))
    s.go(started(), answer(started()), PAID)
    for run in (timed, busy):
        tell_of_others(s, run)
    many = held("d", ruling=MANY)
    for run in (many, begin(held("d", ruling=MANY, ready=("r",)))):
        tell_of_people(s, run)
    tell_of_bodies(s)
    return s


def tell_of_others(s: Stories, run: Run) -> None:
    """What may happen beside the calls of a turn."""
    s.go(run, *verbs.command(run, Call(ref="", tool="refund"), by=MIRA, now=NOW))
    s.go(run, e.RunAdopted(by=MIRA, at=NOW, source="elsewhere"))
    # A strand that waits to be spoken to does nothing.
    beside = s.go(run, e.StrandOpened(strand="item.2"))
    changed = s.go(beside, e.StrandChanged(strand="item.2", data=VALUE))
    s.go(changed, e.StrandClosed(strand="item.2"))


def tell_of_people(s: Stories, run: Run) -> None:
    """What several persons do who are asked, and time."""
    voted = s.go(run, *settling.settle(run, 1, APPROVE, by=MIRA, now=NOW))
    s.go(voted, *settling.undo(voted, 1, by=MIRA, now=NOW))
    s.go(voted, *settling.settle(voted, 1, APPROVE, by=ANN, now=NOW))
    s.go(voted, *settling.sweep(voted, now=NOW + HOUR))
    mira, bob = unrecorded(MIRA), unrecorded(Principal(id="bob"))
    s.go(run, *reassign(run, 1, to=bob, by=mira, now=NOW))
    s.go(run, e.GrantGiven(hold=1, grant=GRANT))


def tell_of_bodies(s: Stories) -> None:
    """What the body of a call does."""
    run = executing("d")
    made = {"name": "reserve", "digest": "s", "effect": "once"}
    busy = s.go(run, *bodies.start_step(run, "1.0", attempt=1, **made))
    done = s.go(busy, *bodies.finish_step(busy, "1.0", attempt=1, outcome=DONE))
    asking = put(done, QUESTION)
    answer_given = s.go(asking, *settling.settle(asking, 1, answered(1), by=MIRA, now=NOW))
    s.go(answer_given, *bodies.continue_call(answer_given, start(call(answer_given))))
    s.go(busy, *bodies.park(busy, "1.0", attempt=1, why="?", again=True))
    for verdict in (APPROVE, answered(1)):
        doubt = step_doubted(busy)
        s.go(doubt, *settling.settle(doubt, 1, verdict, by=MIRA, now=NOW))


STORIES = tell_stories()
WITNESSED = {(type(event), status_of(run)) for run, event in STORIES.steps if run is not None}
CELLS = list(product(TYPES, Status))


def test_the_table_knows_every_event_and_every_status():
    assert set(LEGAL) == set(TYPES)
    assert set(TRANSITIONS) == set(Status)
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELLED} == FINAL
    assert {Status.RUNNING, Status.SUSPENDED} == OPEN


@pytest.mark.parametrize(
    "kind, status", [(kind, status) for kind, status in CELLS if status in LEGAL[kind]]
)
def test_a_legal_event_really_happens_in_that_status(kind: type[e.Event], status: Status):
    assert (kind, status) in WITNESSED


IN_STATUS: dict[Status, Run] = {
    Status.RUNNING: asked("d"),
    Status.SUSPENDED: held("d"),
    Status.COMPLETED: completed(),
    Status.FAILED: failed(),
    Status.CANCELLED: cancelled(started()),
}


def an(kind: type[e.Event]) -> e.Event:
    return next(event for _, event in STORIES.steps if type(event) is kind)


@pytest.mark.parametrize(
    "kind, status", [(kind, status) for kind, status in CELLS if status not in LEGAL[kind]]
)
def test_an_event_is_refused_in_every_other_status(kind: type[e.Event], status: Status):
    run = IN_STATUS[status]
    assert status_of(run) is status

    illegal(run, an(kind), match="starts once" if kind is e.RunStarted else "not legal while")


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind is not e.RunStarted])
def test_nothing_but_its_start_begins_a_run(kind: type[e.Event]):
    illegal(None, an(kind), match="cannot be the first entry")


def test_a_run_has_an_entry():
    illegal(None, match="no run")


def test_a_run_goes_by_an_id_from_which_its_holds_can_be_named():
    illegal(None, begun("1"), match="does not begin with")


def test_statuses_are_announced_only_as_the_table_allows():
    told = {
        (run.told, apply(run, event).told)
        for run, event in STORIES.steps
        if run is not None and apply(run, event).told is not run.told
    }

    allowed = {(before, after) for before, exits in TRANSITIONS.items() for after in exits}
    assert told == allowed


def test_a_status_is_announced_once():
    illegal(held("d"), e.RunSuspended(), match="already")
    illegal(asked("d"), e.RunResumed(), match="already")


STEPS = (e.StepFinished, e.StepVoided)


def event_of(kind: type[e.Event], run: Run) -> e.Event:
    """An event that is right in all but, perhaps, the state of the call."""
    row = call(run)
    begun_before = row.state in (
        CallState.STARTED,
        CallState.DOUBTED,
        CallState.WAITING,
        CallState.ANSWERED,
    )
    place: dict[str, Any] = {"call": "1.0", "attempt": row.attempt}
    by_kind: dict[type[e.Event], Callable[[], e.Event]] = {
        e.CallStarted: lambda: attempt(row),
        e.CallContinued: lambda: continued(row),
        e.StepStarted: lambda: step(row),
        e.StepFinished: lambda: e.StepFinished(**place, step=row.step, outcome=DONE),
        e.StepVoided: lambda: e.StepVoided(**place, step=row.step, why="?"),
        e.BodyParked: lambda: e.BodyParked(**place, why="?"),
        e.AttemptVoided: lambda: e.AttemptVoided(**place, why="?"),
        e.CallDoubted: lambda: e.CallDoubted(**place, why="?"),
        e.CallFinished: lambda: e.CallFinished(
            call="1.0", attempt=row.attempt if begun_before else 0, outcome=DONE
        ),
    }
    return by_kind[kind]()


MOVES = list(product(CALL_MOVES, CallState))


@pytest.mark.parametrize("kind, state", MOVES)
def test_a_call_moves_as_the_table_says_and_not_otherwise(kind: type[e.Event], state: CallState):
    run = in_state(state, hold=False, stepping=kind in STEPS)
    event = event_of(kind, run)

    if state in CALL_MOVES[kind]:
        assert call(apply(run, event)).state is CALL_MOVES[kind][state]
    else:
        illegal(run, event, match=f"is not legal for the call 1.0 while {state}")


@pytest.mark.parametrize("kind", CALL_MOVES)
def test_a_call_of_a_turn_that_is_over_does_not_move(kind: type[e.Event]):
    event = replace(event_of(kind, in_state(CallState.READY, hold=False)), call="9.9")

    illegal(asked("d"), event, match="of a turn that is over")


@pytest.mark.parametrize("then, state", list(product(HOLD_MOVES, CallState)))
def test_a_hold_takes_its_call_where_the_table_says(then: Then, state: CallState):
    run = in_state(state, hold=False)
    in_doubt = InDoubt(attempt=1, worker="w", why="?")
    event = {
        "start": opened(run, ask=in_doubt if state is CallState.DOUBTED else Approval()),
        "outcome": wondered(run, then="outcome", step=0),
        "continue": wondered(run),
    }[then]

    if state in HOLD_MOVES[then]:
        assert call(apply(run, event)).state is HOLD_MOVES[then][state]
    else:
        illegal(run, event, match=f"HoldOpened is not legal for the call 1.0 while {state}")


ASKS: dict[str, Ask] = {
    "approval": Approval(),
    "in_doubt": InDoubt(attempt=1, worker="w", why="?"),
    "question": QUESTION,
    "sign_in": SignIn(provider="mail"),
    "consent": Consent(provider="mail"),
    "external": EXTERNAL,
    "delegation": DELEGATION,
}


def test_the_table_of_asks_knows_every_one():
    assert set(THENS) == set(ASK_KINDS.values()) == set(ASKS)


@pytest.mark.parametrize("kind, then", list(product(THENS, HOLD_MOVES)))
def test_an_ask_does_for_its_call_only_what_it_can(kind: str, then: Then):
    state = {"start": CallState.READY, "outcome": CallState.READY, "continue": CallState.STARTED}
    run = in_state(CallState.DOUBTED if kind == "in_doubt" else state[then], hold=False)
    step = 1 if then == "continue" else 0
    event = opened(run, ask=ASKS[kind], then=then, step=step)

    if then in THENS[kind]:
        assert apply(run, event).holds[0].kind == kind
    elif kind == "in_doubt":
        illegal(run, event, match="not legal for the call")
    else:
        illegal(run, event, match="is not what a hold")


@pytest.mark.parametrize("state", CallState)
def test_only_a_call_that_is_held_is_edited_or_let_go(state: CallState):
    run = in_state(state, hold=True)

    if state is CallState.HELD:
        assert call(apply(run, revised(run))).state is CallState.HELD
    else:
        illegal(run, revised(run), match=f"is not legal for the call 1.0 while {state}")
    if state in (CallState.HELD, CallState.DOUBTED):
        assert call(apply(run, settled(run, APPROVE))).state is CallState.APPROVED
    else:
        illegal(run, settled(run, APPROVE), match=f"not legal for the call 1.0 while {state}")


@pytest.mark.parametrize("state", CallState)
def test_only_a_body_that_waits_is_answered(state: CallState):
    run = in_state(state, hold=True)
    run = replace(run, holds=(replace(run.holds[0], then="continue", kind="question", step=1),))

    if state in (CallState.WAITING, CallState.DOUBTED):
        assert call(apply(run, settled(run, answered(1)))).state is CallState.ANSWERED
    else:
        illegal(run, settled(run, answered(1)), match=f"not legal for the call 1.0 while {state}")


def test_every_state_of_a_call_but_the_last_has_a_way_out():
    left = {
        state for moves in CALL_MOVES.values() for state, to in moves.items() if state is not to
    }

    assert left == set(CallState) - {CallState.DONE}


def test_nothing_follows_while_the_status_stays():
    for run in IN_STATUS.values():
        assert epilogue(run) == []


def test_a_change_of_status_is_announced():
    approved = apply(held("d"), settled(held("d"), APPROVE))
    only_held = apply(asked("d"), opened(asked("d")))

    assert epilogue(approved) == [e.RunResumed()]
    assert epilogue(only_held) == [e.RunSuspended()]


def test_a_run_that_is_to_end_ends_when_nothing_is_left():
    ending = e.CancelRequested(by=MIRA, at=NOW, reason="enough")

    assert epilogue(apply(started(), ending)) == [e.RunCancelled(reason="enough")]
    assert epilogue(apply(started(), replace(ending, error="x"))) == [e.RunFailed(error="x")]
    assert epilogue(apply(executing("d"), ending)) == []


def stuck(run: Run) -> None:
    with pytest.raises(IllegalEvent, match="never go on"):
        epilogue(run)


def test_no_run_is_left_running_with_nothing_to_do():
    stuck(apply(started(), answer(started())))


def test_no_call_is_left_waiting_for_nobody():
    rejected = apply(held("d", "e"), settled(held("d", "e"), Rejected()))
    busy = begin(asked("d", "e"))

    stuck(rejected)
    stuck(apply(busy, e.CallDoubted(call="1.0", attempt=1, why="?")))


def test_no_call_is_left_to_start_in_a_run_that_is_to_end():
    stuck(apply(asked("d"), e.CancelRequested(by=MIRA, at=NOW)))


def test_siblings_that_need_nobody_run_while_others_wait():
    run = held("d", ready=("r",))

    assert status_of(run) is Status.RUNNING
    assert [row.ref for row in startable(run)] == ["1.1"]
    run = finish(begin(run), "1.1")
    assert status_of(run) is Status.SUSPENDED
    assert not has_work(run)


def test_nothing_could_start_in_a_run_that_ends_or_has_ended():
    run = apply(asked("d"), e.CancelRequested(by=MIRA, at=NOW))

    assert startable(run) == []
    assert startable(completed()) == []
    assert not any(strand_due(completed(), strand) for strand in completed().strands)


def test_a_late_result_changes_nothing_but_the_count_of_entries():
    event = e.LateResult(call="1.0", attempt=1, outcome=DONE)

    for run in IN_STATUS.values():
        assert apply(run, event) == replace(run, seq=run.seq + 1)


def test_erasing_a_run_leaves_nothing_in_its_state_that_somebody_has_said():
    run = cancelled(started())
    said = replace(run, ending_why="Jiro was fired")

    erased = apply(said, e.RunErased(by=MIRA, at=NOW, through=run.seq))

    assert erased == replace(run, ending_why="", seq=run.seq + 1)


@pytest.mark.parametrize("through", [-1, 0, completed().seq + 1, completed().seq + 7])
def test_only_what_was_there_before_can_be_erased(through: int):
    with pytest.raises(IllegalEvent, match="there before"):
        apply(completed(), e.RunErased(by=MIRA, at=NOW, through=through))


def test_an_event_that_erases_says_what():
    assert list(e.EntryRedacted(entry=4, by=MIRA, at=NOW).erases) == [4]
    assert list(e.RunErased(through=3, by=MIRA, at=NOW).erases) == [1, 2, 3]
