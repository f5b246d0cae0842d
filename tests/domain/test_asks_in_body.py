"""What a body asks, how it is answered, and who may go on with it."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import CallState, Failed
from sayso.domain.hold import (
    Approval,
    Approved,
    Rejected,
    Verdict,
    Withdrawn,
    answer,
    fail,
)
from sayso.domain.lifecycle import apply, apply_all, epilogue
from sayso.domain.ruling import Require
from sayso.domain.run import Status
from sayso.domain.standing import status_of
from sayso.errors import IllegalEvent

from .build import (
    ANN,
    DONE,
    EXTERNAL,
    MIRA,
    NOW,
    QUESTION,
    asked,
    asking,
    call,
    cancelled,
    commit,
    decided,
    doubted,
    executing,
    finish,
    held,
    late,
    parked,
    put,
    resumed,
    start,
    started,
    stepped,
    stepping,
)
from .build import answer as turn_of
from .forge import TIMED, continued, illegal, opened, revised, settled, the_hold, wondered


def test_a_call_that_asks_in_its_body_waits():
    run = asking(QUESTION)

    assert call(run).state is CallState.WAITING
    assert call(run).step == 1
    assert status_of(run) is Status.SUSPENDED
    hold = the_hold(run)
    assert (hold.then, hold.step, hold.digest, hold.version) == ("continue", 1, "q0", 1)
    assert call(run).digest == "d"


@pytest.mark.parametrize("verdict", [answer(200), Rejected(reason="no"), fail("who knows")])
def test_a_body_goes_on_whatever_is_said(verdict: Verdict):
    run = decided(asking(QUESTION), 1, verdict)

    assert call(run).state is CallState.ANSWERED
    assert status_of(run) is Status.RUNNING
    assert run.refusals == ()


def test_a_body_goes_on_when_nobody_answers_in_time():
    run = asking(QUESTION, ruling=TIMED)

    run = commit(run, *settling.sweep(run, now=late(run)))

    assert call(run).state is CallState.ANSWERED


def test_a_body_goes_on_when_its_question_is_withdrawn():
    run = asking(QUESTION)

    run = commit(run, *verbs.say(run, "Never mind.", by=MIRA, now=NOW, supersede=True))

    assert call(run).state is CallState.ANSWERED
    assert not run.holds


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_body_goes_on_after_the_last_of_its_answers(order: tuple[int, ...]):
    run = asking(QUESTION, Approval(), EXTERNAL)
    assert {hold.suspension for hold in run.holds} == {1}
    assert {hold.step for hold in run.holds} == {1}

    for n in order[:-1]:
        run = decided(run, n, Approved() if n == 2 else answer(n))
        assert call(run).state is CallState.WAITING
        assert status_of(run) is Status.SUSPENDED
        illegal(run, continued(call(run)), match="CallContinued is not legal while suspended")
        assert bodies.continue_call(run, start(call(run))) == []
    run = decided(run, order[-1], Rejected())

    assert call(run).state is CallState.ANSWERED
    assert call(resumed(run)).state is CallState.STARTED


def test_an_answer_that_can_be_undone_is_waited_for():
    run = decided(asking(QUESTION, QUESTION), 1, answer(1))
    run = decided(run, 2, answer(2), undo_ms=5000)

    assert call(run).state is CallState.WAITING
    run = commit(run, *settling.sweep(run, now=NOW + 5000))
    assert call(run).state is CallState.ANSWERED


def test_what_a_body_asks_belongs_to_its_next_place():
    run = executing("d")

    for place in (0, 2):
        illegal(run, wondered(run, step=place), match="not at step")
    after = stepped(run)
    illegal(after, wondered(after, step=1), match="not at step")
    assert call(apply(after, wondered(after))).step == 2


def test_all_that_a_body_asks_at_one_place_is_asked_in_one_append():
    run = executing("d", "e")
    one = wondered(run)
    two = replace(one, hold=2)
    after = apply_all(run, [one, two])
    assert len(after.holds_of("1.0")) == 2

    illegal(run, one, replace(two, step=2), match="not at step")
    later = commit(run, one)
    more = replace(wondered(later), step=1)
    illegal(later, more, match="has an open hold")
    apart = commit(later, e.MessageReceived(by=MIRA, text="Hm."))
    illegal(apart, replace(more, suspension=1), match="never grows")


def test_an_answer_is_never_mixed_with_an_outcome():
    run = executing("d")
    one = wondered(run, then="outcome", step=0)
    two = replace(wondered(run), hold=2)

    illegal(run, one, two, match="not at step")
    illegal(run, one, replace(two, step=0), match="has an open hold")
    illegal(run, replace(two, hold=1), replace(one, hold=2), match="while waiting")


def test_nothing_is_asked_in_the_middle_of_a_step():
    run = stepping()

    illegal(run, wondered(run, step=2), match="looked into first")
    illegal(run, wondered(run, then="outcome", step=0), match="looked into first")
    with pytest.raises(IllegalEvent, match="looked into first"):
        put(run, QUESTION)


def test_what_a_call_asks_has_one_version_and_is_not_edited():
    run = asking(Approval())

    illegal(executing("d"), wondered(executing("d"), version=2), match="one version")
    assert not the_hold(run).editable
    illegal(run, revised(run), match="cannot become")


def test_nothing_is_asked_in_a_run_that_is_to_end():
    run = cancelled(executing("d"))
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=QUESTION, then="continue", step=1)

    assert bodies.ask(run, "1.0", requests=[request], attempt=1, now=NOW) == []
    illegal(run, wondered(run), match="to end")


def test_a_body_that_no_longer_counts_asks_nothing():
    run = resumed(decided(asking(QUESTION), 1, answer(1)))
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=QUESTION, then="continue", step=2)

    assert bodies.ask(run, "1.0", requests=[request], attempt=1, now=NOW) == []
    assert bodies.ask(run, "9.9", requests=[request], attempt=2, now=NOW) == []
    assert bodies.ask(asked("d"), "1.0", requests=[request], attempt=0, now=NOW) == []
    assert len(bodies.ask(run, "1.0", requests=[request], attempt=2, now=NOW)) == 1


def test_whoever_continues_a_body_owns_it():
    answered = decided(asking(QUESTION), 1, answer(1))

    run = resumed(answered, worker="w2")

    assert (call(run).attempt, call(run).worker) == (2, "w2")
    assert bodies.continue_call(run, start(call(run))) == []
    for number in (0, 1, 3):
        illegal(answered, continued(call(answered), attempt=number), match="cannot go on")
    late_result = verbs.finish_call(run, "1.0", attempt=1, outcome=DONE)
    assert [type(event) for event in late_result] == [e.LateResult]
    assert call(finish(run)).state is CallState.DONE


@pytest.mark.parametrize("run", [executing("d"), asking(QUESTION), asked("d"), held("d")])
def test_only_a_body_with_its_answers_is_continued(run):
    assert bodies.continue_call(run, start(call(run))) == []
    assert bodies.continue_call(run, replace(start(call(run)), ref="9.9")) == []


def test_nothing_is_continued_in_a_run_that_is_to_end():
    run = decided(asking(QUESTION), 1, answer(1))
    ending = apply(run, e.CancelRequested(by=MIRA, at=NOW))

    assert bodies.continue_call(ending, start(call(ending))) == []
    illegal(ending, continued(call(ending)), match="to end")
    with pytest.raises(IllegalEvent, match="never go on"):
        epilogue(ending)


def test_a_body_that_waits_when_its_run_is_cancelled_is_cut_short():
    run = asking(QUESTION, QUESTION)

    events = settling.cancel(run, by=ANN, now=NOW, reason="enough")

    finished = [event for event in events if isinstance(event, e.CallFinished)]
    message = "the run was to end: enough"
    assert [event.outcome for event in finished] == [Failed(error="Cancelled", message=message)]
    assert finished[0].attempt == 1
    assert commit(run, *events).final == "cancelled"


def test_a_body_that_could_go_on_when_its_run_is_cancelled_is_cut_short():
    run = decided(asking(QUESTION), 1, answer(1))

    assert cancelled(run).final == "cancelled"
    assert cancelled(parked(executing("d"))).final == "cancelled"


def test_a_no_inside_a_body_may_end_the_run():
    run = asking(QUESTION, QUESTION, ruling=Require(on_reject="cancel"))

    run = decided(run, 1, Rejected(reason="stop"))

    assert run.final == "cancelled"


@pytest.mark.parametrize("silence, final", [("fail", "failed"), ("cancel", "cancelled")])
def test_silence_inside_a_body_may_end_the_run(silence: str, final: str):
    run = asking(QUESTION, QUESTION, ruling=replace(TIMED, on_silence=silence))

    assert commit(run, *settling.sweep(run, now=late(run))).final == final


def test_a_body_is_parked_and_goes_on_from_the_journal():
    run = parked(stepped())

    assert call(run).state is CallState.ANSWERED
    assert status_of(run) is Status.RUNNING
    assert call(run).voids == 1
    run = resumed(run, worker="w2")
    assert (call(run).attempt, call(run).step) == (2, 1)


def test_only_the_attempt_that_counts_is_parked():
    run = executing("d")

    for number in (0, 2):
        illegal(run, e.BodyParked(call="1.0", attempt=number, why="?"), match="not the one")
        assert bodies.park(run, "1.0", attempt=number, why="?") == []
    assert bodies.park(asking(QUESTION), "1.0", attempt=1, why="?") == []


def test_a_body_in_the_middle_of_a_step_is_not_just_parked():
    run = stepping()

    illegal(run, e.BodyParked(call="1.0", attempt=1, why="?"), match="looked into first")
    with pytest.raises(IllegalEvent, match="looked into first"):
        parked(run)
    again = parked(run, again=True)
    assert (call(again).step, call(again).stepping) == (0, False)
    assert call(again).state is CallState.ANSWERED


def test_a_body_parked_in_a_run_that_is_to_end_is_over():
    between = cancelled(stepped())
    inside = cancelled(stepping())

    assert not between.final
    assert parked(between).final == "cancelled"
    assert parked(inside, again=True).final == "cancelled"


def test_a_body_that_has_taken_steps_does_not_start_again_from_nothing():
    voided = e.AttemptVoided(call="1.0", attempt=1, why="?")

    illegal(stepped(), voided, match="goes on from them")
    illegal(stepping(), voided, match="goes on from them")


def test_a_body_in_doubt_as_a_whole_is_started_again_by_a_person_only():
    run = doubted(stepped())
    assert the_hold(run).step == 0

    run = decided(run, 1, Approved())

    assert call(run).state is CallState.APPROVED
    assert call(run).step == 1


def test_a_body_is_never_asked_about_as_held():
    run = asking(QUESTION)

    illegal(run, opened(run), match="while waiting")


def test_withdrawing_one_of_several_questions_leaves_the_others():
    run = asking(QUESTION, QUESTION)

    run = apply(run, settled(run, Withdrawn()))

    assert call(run).state is CallState.WAITING
    assert [hold.n for hold in run.holds] == [2]


def test_what_a_body_asks_may_withdraw_what_was_asked_before():
    run = started()
    run = commit(run, turn_of(run, "d", "e", resolve="latest"))
    run = commit(run, *verbs.start_calls(run, [start(call(run, "1.1"))]))
    run = commit(run, opened(run, "1.0"))

    run = put(run, QUESTION, ref="1.1")

    assert [hold.call for hold in run.holds] == ["1.1"]
    assert call(run, "1.0").state is CallState.DONE
