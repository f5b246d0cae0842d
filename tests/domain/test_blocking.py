"""Calls whose outcome is what somebody answers."""

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Declined, Failed, Outcome, Returned
from sayso.domain.hold import Answered, Approved, Rejected, Verdict, answer, fail
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import status_of
from sayso.errors import AlreadyDecided, WrongVerdict

from .build import (
    APPROVE,
    DONE,
    EXTERNAL,
    MIRA,
    NOW,
    QUESTION,
    asked,
    asking,
    blocked,
    call,
    cancelled,
    commanded,
    commit,
    decided,
    executing,
    held,
    late,
)
from .forge import TIMED, illegal, revised, settled, the_hold, wondered

LATE = Declined(reason="nobody decided in time")


def outcome(events: list[e.Event]) -> Outcome:
    found = [event for event in events if isinstance(event, e.CallFinished)]
    assert len(found) == 1
    return found[0].outcome


def client_side(run: Run) -> Run:
    """A call that whoever started the run executes: it never starts here."""
    request = verbs.HoldRequest(
        ref="1.0", ruling=Require(), ask=replace(EXTERNAL, client=True), then="outcome", digest="q"
    )
    return commit(run, *verbs.open_holds(run, [request], now=NOW))


def test_a_call_that_blocks_waits_and_does_not_execute():
    run = blocked()

    assert call(run).state is CallState.WAITING
    assert status_of(run) is Status.SUSPENDED
    assert (the_hold(run).then, the_hold(run).step) == ("outcome", 0)
    assert call(run).digest == "d"


@pytest.mark.parametrize(
    "verdict, becomes",
    [
        (answer(200), Returned(value=msgspec.Raw(b"200"))),
        (Rejected(reason="no"), Declined(reason="no", by="mira")),
        (Rejected(), Declined(reason="rejected", by="mira")),
        (fail("the bank is gone"), Failed(error="Errored", message="the bank is gone")),
    ],
)
@pytest.mark.parametrize("ask", [QUESTION, EXTERNAL])
def test_what_is_answered_is_the_outcome(ask, verdict: Verdict, becomes: Outcome):
    run = blocked(ask)

    events = settling.settle(run, 1, verdict, by=MIRA, now=NOW)

    assert outcome(events) == becomes
    finished = events[-1]
    assert isinstance(finished, e.CallFinished)
    assert (finished.attempt, finished.why) == (1, "")
    after = commit(run, *events)
    assert call(after).state is CallState.DONE
    assert status_of(after) is Status.RUNNING
    assert [one.digest for one in after.refusals] == (
        [call(run).digest] if isinstance(verdict, Rejected) else []
    )
    assert after.doubts == ()


@pytest.mark.parametrize("ask, refused", [(QUESTION, ["d"]), (EXTERNAL, [])])
def test_silence_refuses_a_question_but_nothing_that_happens_outside(ask, refused: list[str]):
    run = blocked(ask, ruling=TIMED)

    after = commit(run, *settling.sweep(run, now=late(run)))

    assert [one.digest for one in after.refusals] == refused


def test_a_command_that_is_declined_may_be_given_again():
    run = commanded(asked("d"))
    start = verbs.Start(ref="c1", digest="c", worker="w", tick=1, timeout_ms=1)
    run = commit(run, *verbs.start_calls(run, [start]))

    after = decided(blocked(run=run, ref="c1"), 1, Rejected())

    assert after.refusals == ()


def test_a_sealed_answer_is_an_outcome_only_as_it_may_be_seen():
    run = blocked()
    sealed = Answered(value=msgspec.Raw(b'"***"'), sealed="c2VhbGVk")

    assert outcome(settling.settle(run, 1, sealed, by=MIRA, now=NOW)) == Returned(
        value=msgspec.Raw(b'"***"')
    )


@pytest.mark.parametrize("silence", ["reject", "approve"])
def test_silence_is_no_answer(silence: str):
    run = blocked(ruling=replace(TIMED, on_silence=silence))

    events = settling.sweep(run, now=late(run))

    assert outcome(events) == LATE
    assert call(commit(run, *events)).state is CallState.DONE


@pytest.mark.parametrize("silence, final", [("fail", "failed"), ("cancel", "cancelled")])
def test_silence_may_end_the_run(silence: str, final: str):
    run = blocked(ruling=replace(TIMED, on_silence=silence))

    assert commit(run, *settling.sweep(run, now=late(run))).final == final


def test_a_question_that_is_withdrawn_declines_its_call():
    run = blocked()

    events = verbs.say(run, "Never mind.", by=MIRA, now=NOW, supersede=True)

    assert outcome(events) == Declined(reason="superseded by a new message", by="mira")
    assert cancelled(run).final == "cancelled"


def test_an_answer_that_can_be_undone_is_no_outcome_yet():
    run = decided(blocked(), 1, answer(1), undo_ms=5000)

    assert call(run).state is CallState.WAITING
    with pytest.raises(AlreadyDecided):
        settling.settle(run, 1, answer(2), by=MIRA, now=NOW)
    events = settling.sweep(run, now=NOW + 5000)
    assert outcome(events) == Returned(value=msgspec.Raw(b"1"))


def test_a_yes_is_no_outcome():
    run = blocked()

    with pytest.raises(WrongVerdict, match="answer"):
        settling.settle(run, 1, Approved(), by=MIRA, now=NOW)


def test_the_result_of_an_attempt_that_blocks_is_late():
    run = blocked()

    events = verbs.finish_call(run, "1.0", attempt=1, outcome=DONE)

    assert [type(event) for event in events] == [e.LateResult]
    assert call(commit(run, *events)).state is CallState.WAITING


def test_a_call_that_blocks_has_no_outcome_while_it_is_asked_about():
    run = blocked()

    illegal(run, e.CallFinished(call="1.0", attempt=1, outcome=DONE), match="open hold")
    illegal(run, revised(run), match="cannot become")
    illegal(run, wondered(run, then="outcome", step=0), match="while waiting")


def test_a_call_that_is_executed_elsewhere_never_starts_here():
    run = client_side(asked("d"))
    assert (call(run).state, call(run).attempt) == (CallState.WAITING, 0)

    run = decided(run, 1, answer("sent"))

    assert (call(run).state, call(run).attempt) == (CallState.DONE, 0)


def test_a_call_that_is_executed_elsewhere_may_need_leave_first():
    run = decided(held("d"), 1, APPROVE)

    run = client_side(run)

    assert call(run).state is CallState.WAITING
    assert call(decided(run, 2, answer("sent"))).state is CallState.DONE


def test_an_attempt_that_did_not_count_is_no_bar_to_asking():
    run = executing("d")
    run = client_side(commit(run, *verbs.void_attempt(run, "1.0", attempt=1, why="not sent")))

    assert call(decided(run, 1, answer("sent"))).state is CallState.DONE


def test_an_outcome_that_waits_is_of_the_attempt_that_asked():
    run = replace(blocked(), holds=())

    illegal(run, e.CallFinished(call="1.0", attempt=0, outcome=DONE), match="not of attempt 1")
    body = replace(asking(QUESTION), holds=())
    illegal(body, e.CallFinished(call="1.0", attempt=0, outcome=DONE), match="not of attempt 1")


def test_the_question_of_a_call_is_settled_as_it_was_shown():
    run = blocked()

    illegal(run, settled(run, answer(1), digest="d"), match="binds the version")
