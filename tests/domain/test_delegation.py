"""A run that waits for another run: only that one's end settles it."""

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Failed, Outcome, Returned
from sayso.domain.hold import Answered, Errored, Rejected, Verdict, Withdrawn, answer, fail
from sayso.domain.lifecycle import apply
from sayso.domain.ruling import Require
from sayso.domain.run import Status, with_hold
from sayso.domain.standing import status_of
from sayso.domain.value import CLOCK, SAYSO, Principal
from sayso.errors import NotAllowed

from .build import (
    CHILD,
    DELEGATION,
    DONE,
    MIRA,
    NOW,
    QUESTION,
    asking,
    begun,
    blocked,
    call,
    cancelled,
    child_ended,
    commit,
    decided,
    executing,
    held,
    started,
)
from .forge import HOUR, completed, illegal, opened, revised, settled, the_hold, wondered

OTHER = replace(DELEGATION, run="run_d")
CHILDS = Principal(kind="agent", id=CHILD)


def test_a_run_waits_for_the_run_that_works_for_it():
    run = asking(DELEGATION)

    assert the_hold(run).child == CHILD
    assert status_of(run) is Status.SUSPENDED
    assert run.due_at is None


@pytest.mark.parametrize("verdict", [answer("found"), fail("clerk failed: broken")])
def test_the_end_of_the_child_lets_the_body_go_on(verdict: Verdict):
    run = child_ended(asking(DELEGATION), 1, verdict, turns=3)

    assert call(run).state is CallState.ANSWERED
    assert run.spent == 3
    assert status_of(run) is Status.RUNNING


@pytest.mark.parametrize(
    "verdict, becomes",
    [
        (answer("found"), Returned(value=msgspec.Raw(b'"found"'))),
        (fail("broken"), Failed(error="Errored", message="broken")),
    ],
)
def test_the_end_of_the_child_may_be_the_outcome(verdict: Verdict, becomes: Outcome):
    run = blocked(DELEGATION)

    events = settling.settle_child(run, 1, verdict, child=CHILD, now=NOW, turns=2)

    finished = events[-1]
    assert isinstance(finished, e.CallFinished)
    assert finished.outcome == becomes
    assert commit(run, *events).spent == 2


def test_what_the_child_decided_is_recorded_as_its_own():
    (event,) = settling.settle_child(
        asking(DELEGATION), 1, answer(1), child=CHILD, now=NOW, turns=5
    )

    assert isinstance(event, e.HoldSettled)
    assert (event.decision.by, event.decision.channel, event.turns) == (CHILDS, "engine", 5)


@pytest.mark.parametrize("by", [MIRA, SAYSO, CLOCK, CHILDS, Principal(id=CHILD)])
def test_nobody_settles_it_but_the_end_of_the_child(by: Principal):
    run = asking(DELEGATION)
    assert the_hold(run).approvers == ()
    # Not even if somebody were named.
    named = replace(the_hold(run), approvers=("anyone", f"agent:{CHILD}"))
    run = with_hold(run, named)

    for verdict in (answer(1), Rejected(), fail("x")):
        with pytest.raises(NotAllowed, match=CHILD):
            settling.settle(run, 1, verdict, by=by, now=NOW)
        if by != CHILDS:
            illegal(run, settled(run, verdict, by=by), match="settled by the end")
    illegal(run, revised(run, by=by), match="settled by the end|cannot become")


def test_the_end_of_another_run_settles_nothing():
    run = asking(DELEGATION)

    assert settling.settle_child(run, 1, answer(1), child="run_x", now=NOW, turns=1) == []
    assert settling.settle_child(run, 2, answer(1), child=CHILD, now=NOW, turns=1) == []
    question = asking(QUESTION)
    assert settling.settle_child(question, 1, answer(1), child=CHILD, now=NOW, turns=1) == []
    over = child_ended(run, 1, answer(1))
    assert settling.settle_child(over, 1, answer(1), child=CHILD, now=NOW, turns=1) == []


def test_what_another_run_works_on_is_not_withdrawn():
    run = asking(DELEGATION, QUESTION)

    illegal(run, settled(run, Withdrawn()), match="cannot be withdrawn")
    run = commit(run, *verbs.say(run, "Never mind.", by=MIRA, now=NOW, supersede=True))
    assert [hold.child for hold in run.holds] == [CHILD]
    assert call(run).state is CallState.WAITING


def test_what_another_run_works_on_has_no_deadline():
    run = executing("d")

    illegal(run, wondered(run, ask=DELEGATION, deadline=NOW + HOUR), match="not left behind")


def test_cancelling_waits_for_the_child_and_the_sweeper_looks_after_it_at_once():
    run = cancelled(asking(DELEGATION, QUESTION))

    assert status_of(run) is Status.SUSPENDED
    assert not run.final
    assert run.due_at == 0
    assert settling.sweep(run, now=NOW) == []
    assert child_ended(run, 1, fail("clerk was cancelled")).final == "cancelled"


def test_cancelling_waits_for_every_child():
    run = cancelled(asking(DELEGATION, OTHER))

    run = child_ended(run, 2, fail("cancelled"))
    assert status_of(run) is Status.SUSPENDED
    assert run.due_at == 0
    run = child_ended(run, 1, answer("found after all"))

    assert run.final == "cancelled"
    assert run.spent == 6


def test_cancelling_waits_for_a_child_whose_end_is_the_outcome():
    run = cancelled(blocked(DELEGATION))
    assert run.due_at == 0

    assert child_ended(run, 1, answer("found")).final == "cancelled"


def test_a_body_waits_for_all_its_children():
    run = child_ended(asking(DELEGATION, OTHER), 2, answer(1), turns=4)
    assert call(run).state is CallState.WAITING

    run = child_ended(run, 1, answer(2), turns=5)

    assert call(run).state is CallState.ANSWERED
    assert run.spent == 9


def test_only_a_run_that_is_to_end_has_its_children_looked_after():
    question = asking(QUESTION, ruling=Require(within_ms=1000))

    assert question.due_at == NOW + 1000
    assert cancelled(executing("d")).due_at is None


def test_a_run_knows_whom_it_works_for():
    event = replace(
        begun(CHILD),
        root="run_r",
        parent="run_1",
        parent_call="1.0",
        parent_hold=1,
        lineage=("teller",),
        turns_max=7,
    )

    run = commit(None, event)

    assert (run.root, run.parent, run.parent_call) == ("run_r", "run_1", "1.0")
    assert (run.parent_hold, run.lineage, run.turns_max) == (1, ("teller",), 7)


def test_a_delegation_never_lets_a_call_start():
    run = started()

    illegal(held("d"), opened(held("d"), ask=DELEGATION), match="while held")
    assert run.spent == 0


def test_the_end_of_a_run_is_an_answer_or_says_why_there_is_none():
    failed = commit(started(), *settling.cancel(started(), by=CLOCK, now=NOW, error="broken"))
    stopped = cancelled(started())
    nameless = commit(started(), *settling.cancel(started(), by=MIRA, now=NOW))

    done = e.RunCompleted(output=msgspec.Raw(b'"Paid."'))
    turn = e.TurnTaken(turn=1, seen=1)
    assert settling.verdict_of(completed(), [turn, done]) == Answered(value=msgspec.Raw(b'"Paid."'))
    error = e.RunFailed(error="broken")
    assert settling.verdict_of(failed, [error]) == Errored(message="teller failed: broken")
    cancel = e.RunCancelled(reason="enough")
    assert settling.verdict_of(stopped, [cancel]) == Errored(message="teller was cancelled: enough")
    assert settling.verdict_of(nameless, [e.RunCancelled()]) == Errored(
        message="teller was cancelled: no reason was given"
    )


def test_nothing_else_changes_what_was_spent():
    run = decided(asking(QUESTION), 1, answer(1))

    assert run.spent == 0
    assert apply(run, e.LateResult(call="1.0", attempt=1, outcome=DONE)).spent == 0
