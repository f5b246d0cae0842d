"""The steps of a body: each is taken once, in its order, by whoever owns the body."""

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import CallState, Declined, Failed, Outcome, Returned, Unknown
from sayso.domain.hold import (
    Approved,
    Expired,
    InDoubt,
    Rejected,
    Verdict,
    Withdrawn,
    answer,
    fail,
)
from sayso.domain.lifecycle import apply, epilogue
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import status_of
from sayso.errors import IllegalEvent, WrongVerdict

from .build import (
    DONE,
    MIRA,
    NOW,
    QUESTION,
    WORKER,
    asked,
    asking,
    call,
    cancelled,
    commit,
    decided,
    executing,
    finish,
    late,
    parked,
    resumed,
    step_doubted,
    stepped,
    stepping,
)
from .forge import TIMED, attempt, continued, illegal, opened, settled, step, the_hold

MADE = {"name": "reserve", "digest": "s", "effect": "once"}


def finished(run: Run, **changes: object) -> e.StepFinished:
    row = call(run)
    event = e.StepFinished(call="1.0", attempt=row.attempt, step=row.step, outcome=DONE)
    return replace(event, **changes)


def outcomes(events: list[e.Event]) -> list[Outcome]:
    return [ev.outcome for ev in events if isinstance(ev, e.StepFinished | e.CallFinished)]


def test_steps_are_taken_one_after_another():
    run = executing("d")

    for number in (0, 2):
        illegal(run, step(call(run), step=number), match="not the next")
    one = stepping(run)
    illegal(one, step(call(one)), match="not the next")
    two = stepped(stepped(run))
    assert (call(two).step, call(two).stepping) == (2, False)


def test_a_step_with_an_outcome_is_not_taken_again():
    run = stepped()

    illegal(run, step(call(run), step=1), match="not the next")
    illegal(run, finished(run), match="not under way")
    voided = e.StepVoided(call="1.0", attempt=1, step=1, why="?")
    illegal(run, voided, match="not under way")


def test_only_the_attempt_that_counts_takes_steps():
    run = stepping()

    for number in (0, 2):
        illegal(executing("d"), step(call(executing("d")), attempt=number), match="not the one")
        illegal(run, finished(run, attempt=number), match="not the one")
        voided = e.StepVoided(call="1.0", attempt=number, step=1, why="?")
        illegal(run, voided, match="not the one")


def test_an_outcome_belongs_to_the_step_under_way():
    run = stepping(stepped())

    for number in (1, 3):
        illegal(run, finished(run, step=number), match="not under way")
    assert not call(apply(run, finished(run))).stepping


def test_a_body_that_no_longer_counts_takes_no_step():
    run = resumed(parked(executing("d")))

    assert bodies.start_step(run, "1.0", attempt=1, **MADE) == []
    assert bodies.start_step(run, "9.9", attempt=1, **MADE) == []
    assert bodies.start_step(asked("d"), "1.0", attempt=0, **MADE) == []
    assert len(bodies.start_step(run, "1.0", attempt=2, **MADE)) == 1
    assert bodies.finish_step(stepping(run), "1.0", attempt=1, outcome=DONE) == []
    assert bodies.finish_step(run, "1.0", attempt=2, outcome=DONE) == []


def test_no_step_begins_in_a_run_that_is_to_end_but_one_that_has_begun_ends():
    run = cancelled(executing("d"))

    assert bodies.start_step(run, "1.0", attempt=1, **MADE) == []
    illegal(run, step(call(run)), match="to end")
    inside = cancelled(stepping())
    inside = commit(inside, *bodies.finish_step(inside, "1.0", attempt=1, outcome=DONE))
    assert status_of(inside) is Status.RUNNING
    assert finish(inside).final == "cancelled"


def test_a_step_that_did_nothing_is_taken_again_under_its_own_number():
    run = apply(stepping(), e.StepVoided(call="1.0", attempt=1, step=1, why="not sent"))

    assert (call(run).step, call(run).stepping) == (0, False)
    assert call(apply(run, step(call(run)))).step == 1


def test_steps_and_asks_are_counted_together():
    run = asking(QUESTION, run=stepped())
    run = resumed(decided(run, 1, answer(1)))

    assert call(stepped(run)).step == 3


def test_a_step_that_may_have_happened_is_put_to_a_person():
    run = step_doubted(stepping(stepped()))

    hold = the_hold(run)
    assert (hold.kind, hold.step, hold.then, hold.digest) == ("in_doubt", 2, "start", "s")
    assert not hold.editable
    assert call(run).state is CallState.DOUBTED
    assert call(run).digest == "d"
    assert status_of(run) is Status.SUSPENDED


def test_whoever_loses_sight_of_a_call_in_the_middle_of_a_step_asks_about_the_step():
    run = stepping()

    events = verbs.doubt_call(run, "1.0", attempt=1, why="?", ruling=Require(), now=NOW)

    opened_hold = events[1]
    assert isinstance(opened_hold, e.HoldOpened)
    assert opened_hold.ask == InDoubt(attempt=1, worker=WORKER, why="?", step=1)
    assert call(decided(commit(run, *events), 1, Approved())).state is CallState.ANSWERED


def test_only_a_step_under_way_is_in_doubt():
    made = {"why": "?", "ruling": Require(), "digest": "s", "now": NOW}

    assert bodies.doubt_step(stepped(), "1.0", attempt=1, **made) == []
    assert bodies.doubt_step(stepping(), "1.0", attempt=2, **made) == []
    doubt = e.CallDoubted(call="1.0", attempt=1, why="?")
    between, inside = apply(stepped(), doubt), apply(stepping(), doubt)
    ask = InDoubt(attempt=1, worker="w", why="?", step=1)
    illegal(between, opened(between, ask=ask), match="not in doubt")
    illegal(inside, opened(inside, ask=replace(ask, step=2)), match="not in doubt")
    illegal(inside, opened(inside, ask=replace(ask, step=0)), match="looked into first")
    illegal(inside, opened(inside, ask=ask, version=2), match="one version")


def test_silence_never_takes_a_step_again():
    run = step_doubted(ruling=replace(TIMED, on_silence="approve"))

    assert the_hold(run).on_silence == "reject"
    events = settling.sweep(run, now=late(run))
    assert outcomes(events) == [Unknown(reason="nobody looked into it in time")]
    doubt = apply(stepping(), e.CallDoubted(call="1.0", attempt=1, why="?"))
    ask = InDoubt(attempt=1, worker="w", why="?", step=1)
    ruling = replace(TIMED, on_silence="approve")
    illegal(doubt, opened(doubt, ask=ask, ruling=ruling), match="silence never")


def test_a_person_lets_a_step_be_taken_again():
    run = step_doubted()

    events = settling.settle(run, 1, Approved(), by=MIRA, now=NOW)
    run = commit(run, *events)

    assert [type(event) for event in events] == [e.HoldSettled, e.StepVoided]
    assert call(run).state is CallState.ANSWERED
    assert (call(run).step, call(run).stepping, call(run).approved) == (0, False, False)
    assert call(stepping(resumed(run))).step == 1


@pytest.mark.parametrize(
    "verdict, becomes",
    [
        (answer(1), Returned(value=msgspec.Raw(b"1"))),
        (fail("the bank is gone"), Unknown(reason="the bank is gone")),
        (Rejected(reason="it did not happen"), Declined(reason="it did not happen", by="mira")),
    ],
)
def test_a_person_settles_what_became_of_a_step(verdict: Verdict, becomes: Outcome):
    run = step_doubted()

    events = settling.settle(run, 1, verdict, by=MIRA, now=NOW)
    after = commit(run, *events)

    assert outcomes(events) == [becomes]
    told = [event.why for event in events if isinstance(event, e.StepFinished)]
    assert told == ["mira looked into it"]
    assert call(after).state is CallState.ANSWERED
    assert (call(after).step, call(after).stepping) == (1, False)
    assert after.doubts == ()
    assert not after.ending


@pytest.mark.parametrize("verdict", [Withdrawn(), Expired(silence="approve")])
def test_a_doubt_about_a_step_is_not_withdrawn(verdict: Verdict):
    run = step_doubted()

    with pytest.raises(WrongVerdict):
        settling.settle(run, 1, verdict, by=MIRA, now=NOW)
    illegal(run, settled(run, Withdrawn()), match="cannot be withdrawn")
    superseded = commit(run, *verbs.say(run, "Well?", by=MIRA, now=NOW, supersede=True))
    assert status_of(superseded) is Status.SUSPENDED


@pytest.mark.parametrize(
    "verdict, step_becomes, call_becomes",
    [
        (answer(1), Returned(value=msgspec.Raw(b"1")), None),
        (Rejected(reason="no"), Declined(reason="no", by="mira"), None),
        (fail("gone"), Unknown(reason="gone"), Unknown(reason="gone")),
    ],
)
def test_a_doubt_about_a_step_outlives_cancelling(
    verdict: Verdict, step_becomes: Outcome, call_becomes: Outcome | None
):
    run = cancelled(step_doubted())
    assert status_of(run) is Status.SUSPENDED

    with pytest.raises(WrongVerdict, match="cannot be run again"):
        settling.settle(run, 1, Approved(), by=MIRA, now=NOW)
    events = settling.settle(run, 1, verdict, by=MIRA, now=NOW)

    cut = Failed(error="Cancelled", message="the run was to end: enough")
    assert outcomes(events) == [step_becomes, call_becomes or cut]
    after = commit(run, *events)
    assert after.final == "cancelled"
    assert bool(after.doubts) is (call_becomes is not None)


def test_a_step_may_come_in_doubt_while_the_run_is_ending():
    run = step_doubted(cancelled(stepping()))

    assert status_of(run) is Status.SUSPENDED
    assert decided(run, 1, answer(1)).final == "cancelled"


def test_a_doubt_about_a_step_expires_while_the_run_is_ending():
    run = cancelled(step_doubted(ruling=TIMED))

    events = settling.sweep(run, now=late(run))

    unknown = Unknown(reason="nobody looked into it in time")
    assert outcomes(events) == [unknown, unknown]
    assert commit(run, *events).final == "cancelled"


def test_a_yes_that_takes_effect_after_cancelling_takes_no_step_and_strands_nothing():
    run = cancelled(decided(step_doubted(), 1, Approved(), undo_ms=5000))

    events = settling.sweep(run, now=NOW + 5000)

    assert [type(event) for event in events] == [e.DecisionEffective, e.StepVoided, e.CallFinished]
    assert commit(run, *events).final == "cancelled"


def test_a_settled_doubt_always_says_what_became_of_the_step():
    run = step_doubted()

    silent = apply(run, settled(run, answer(1)))

    illegal(silent, continued(call(silent)), match="cannot go on")
    with pytest.raises(IllegalEvent, match="never go on"):
        epilogue(silent)


def test_a_call_started_anew_after_a_doubt_keeps_the_steps_it_has_taken():
    between = apply(stepped(), e.CallDoubted(call="1.0", attempt=1, why="?"))
    between = apply(between, opened(between, ask=InDoubt(attempt=1, worker="w", why="?")))
    run = apply(between, settled(between, Approved()))

    run = apply(run, attempt(call(run)))

    illegal(run, step(call(run), step=1), match="not the next")
    assert call(apply(run, step(call(run)))).step == 2
