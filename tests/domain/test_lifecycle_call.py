"""What `apply` refuses of turns, calls and ends, one guard after another."""

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState, Unknown
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.run import Run
from sayso.domain.standing import strand_due

from .build import (
    APPROVE,
    DONE,
    MIRA,
    NO,
    NOW,
    answer,
    asked,
    begin,
    call,
    calls,
    commit,
    decided,
    doubted,
    executing,
    finish,
    held,
    started,
)
from .forge import (
    PAID,
    attempt,
    illegal,
    in_state,
    opened,
)


def test_a_turn_is_taken_once():
    run = started()

    illegal(commit(run, answer(run, "d")), answer(run, "d"), match="not due")
    illegal(run, replace(answer(run), turn=2), match="not due")


def test_a_turn_waits_for_the_outcome_of_every_call():
    run = finish(begin(asked("d", "e")), "1.0")

    illegal(run, answer(run), match="not due")
    assert commit(finish(run, "1.1"), answer(run), PAID).final


def test_a_turn_belongs_to_a_strand():
    run = started()

    illegal(run, replace(answer(run), strand="side"), match="no strand")
    illegal(run, e.MessageReceived(by=MIRA, text="x", strand="side"), match="no strand")


def test_a_turn_has_not_seen_what_comes_after_it():
    run = started()

    illegal(run, replace(answer(run, "d"), seen=2), match="nothing after itself")


def test_a_turn_has_seen_what_the_one_before_has():
    run = commit(started(), e.MessageReceived(by=MIRA, text="x"))
    run = finish(begin(commit(run, answer(run, "d"))))

    illegal(run, replace(answer(run), seen=1), match="nothing after itself")


@pytest.mark.parametrize("refs", [("1.1",), ("2.0",), ("1.0", "1.0"), ("1.0", "1.2"), ("",)])
def test_a_call_goes_by_its_place(refs: tuple[str, ...]):
    run = started()
    wrong = tuple(replace(calls(1, "d")[0], ref=ref) for ref in refs)

    illegal(run, replace(answer(run), calls=wrong), match="goes by its turn")


def test_what_was_said_after_the_turn_was_asked_for_is_news():
    run = commit(started(), e.MessageReceived(by=MIRA, text="x"))
    run = apply(run, replace(answer(run), seen=1))

    assert strand_due(run, run.strands[0])
    illegal(run, PAID, match="something open")


def test_a_call_starts_on_the_digest_that_was_approved():
    run = decided(held("d"), 1, APPROVE)

    illegal(run, attempt(call(run), digest="x"), match="not what may start")
    assert call(apply(run, attempt(call(run)))).state is CallState.STARTED


@pytest.mark.parametrize("number", [0, 2, -1])
def test_attempts_are_numbered_one_after_another(number: int):
    run = asked("d")

    illegal(run, attempt(call(run), attempt=number), match="not what may start")


def test_a_call_is_not_started_twice():
    run = executing("d")

    illegal(run, attempt(call(run)), match="not legal for the call")


def test_nothing_starts_in_a_run_that_is_to_end():
    run = apply(asked("d"), e.CancelRequested(by=MIRA, at=NOW))

    illegal(run, attempt(call(run)), match="to end")


def test_an_outcome_is_of_the_attempt_under_way():
    run = executing("d")

    for number in (0, 2):
        outcome = e.CallFinished(call="1.0", attempt=number, outcome=DONE)
        illegal(run, outcome, match="not of attempt 1")
    in_doubt = replace(doubted(run), holds=())
    illegal(in_doubt, e.CallFinished(call="1.0", outcome=DONE), match="not of attempt 1")


def test_an_outcome_of_a_call_that_is_not_under_way_names_no_attempt():
    run = asked("d")
    again = commit(executing("d"), e.AttemptVoided(call="1.0", attempt=1, why="?"))

    for before in (run, again):
        outcome = e.CallFinished(call="1.0", attempt=1, outcome=NO)
        illegal(before, outcome, match="not of attempt")
        assert call(apply(before, replace(outcome, attempt=0))).state is CallState.DONE


def test_a_call_has_one_outcome():
    run = finish(executing("d"))

    illegal(run, e.CallFinished(call="1.0", attempt=1, outcome=DONE), match="not legal for the")


def test_a_call_with_an_open_hold_has_no_outcome_yet():
    run, in_doubt = held("d"), doubted(executing("d"))

    illegal(run, e.CallFinished(call="1.0", outcome=NO), match="open hold")
    illegal(in_doubt, e.CallFinished(call="1.0", attempt=1, outcome=DONE), match="open hold")


def test_only_the_attempt_under_way_is_voided_or_doubted():
    run = executing("d")

    for number in (0, 2):
        illegal(run, e.AttemptVoided(call="1.0", attempt=number, why="?"), match="not the one")
        illegal(run, e.CallDoubted(call="1.0", attempt=number, why="?"), match="not the one")


def test_an_approval_outlives_an_attempt_that_did_not_count():
    voided = e.AttemptVoided(call="1.0", attempt=1, why="?")
    approved = begin(decided(held("d"), 1, APPROVE))

    assert call(apply(approved, voided)).state is CallState.APPROVED
    assert call(apply(executing("d"), voided)).state is CallState.READY


def test_an_approval_does_not_outlive_a_new_hold():
    run = decided(held("d"), 1, APPROVE)

    assert call(run).approved
    assert not call(apply(run, opened(run))).approved


def test_an_outcome_that_nobody_knows_is_remembered():
    run = finish(executing("d"), outcome=Unknown(reason="?"))

    assert run.doubts == (("d", "1.0"),)
    assert finish(executing("d")).doubts == ()


def test_a_run_is_cancelled_once():
    run = apply(started(), e.CancelRequested(by=MIRA, at=NOW))

    illegal(run, e.CancelRequested(by=MIRA, at=NOW), match="already")


def test_a_run_is_not_complete_while_something_is_open():
    run = started()

    illegal(run, PAID, match="something open")
    for before in (asked("d"), executing("d"), begin(held("d", ready=("r",)))):
        illegal(before, PAID, match="something open")
    ending = apply(run, e.CancelRequested(by=MIRA, at=NOW))
    illegal(ending, PAID, match="something open")
    nobody_asked = in_state(CallState.HELD, hold=False)
    illegal(nobody_asked, PAID, match="something open")


@pytest.mark.parametrize("end", [e.RunFailed(error="x"), e.RunCancelled()])
def test_a_run_ends_only_as_it_was_to(end: e.Event):
    right = e.CancelRequested(by=MIRA, at=NOW, error="x" if isinstance(end, e.RunFailed) else "")
    wrong = replace(right, error="" if right.error else "x")

    illegal(started(), end, match="ends as it was to")
    illegal(apply(started(), wrong), end, match="ends as it was to")
    assert apply_all(started(), [right, end]).final


@pytest.mark.parametrize("run", [executing("d"), asked("d"), in_state(CallState.HELD, hold=False)])
def test_a_run_does_not_end_before_all_it_has_started_is_over(run: Run):
    run = apply(run, e.CancelRequested(by=MIRA, at=NOW))

    illegal(run, e.RunCancelled(), match="once all it has started is over")
