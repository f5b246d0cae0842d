from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.guard import Before, Condition, Since, conditions_of
from sayso.domain.hold import Rejected
from sayso.domain.ruling import Require
from sayso.domain.run import Run

from .build import ANN, APPROVE, MIRA, NOW, call, commit, decided, held, late, start, started

TIMED = Require(within_ms=5000, approvers=("anyone",))
DEADLINE = NOW + 5000


def of(run: Run, events: list[e.Event]) -> tuple[Condition, ...]:
    return conditions_of(run, events)


def test_a_decision_must_be_committed_before_the_deadline():
    run = held("d", ruling=TIMED)

    for verdict in (APPROVE, Rejected()):
        events = settling.settle(run, 1, verdict, by=ANN, now=NOW)
        assert of(run, events) == (Before(at=DEADLINE, hold=1),)


def test_a_decision_without_a_deadline_has_no_condition():
    run = held("d")

    assert of(run, settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)) == ()


def test_an_edit_must_be_committed_before_the_deadline():
    run = held("d", ruling=TIMED)
    events = verbs.revise(run, 1, args=b"{}", digest="d2", ruling=TIMED, by=ANN, now=NOW + 1)

    assert of(run, events) == (Before(at=DEADLINE, hold=1),)


def test_expiry_must_not_be_committed_before_the_deadline():
    run = held("d", "e", ruling=TIMED)

    conditions = of(run, settling.sweep(run, now=late(run)))

    assert conditions == (Since(at=DEADLINE, hold=1), Since(at=DEADLINE, hold=2))


def test_withdrawing_waits_for_no_time():
    run = held("d", ruling=TIMED)

    assert of(run, settling.cancel(run, by=MIRA, now=NOW)) == ()


def test_a_decision_takes_effect_no_sooner_than_it_said():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    assert of(run, settling.sweep(run, now=late(run))) == (Since(at=NOW + 5000, hold=1),)


def test_a_decision_must_be_undone_before_it_is_effective():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    assert of(run, settling.undo(run, 1, by=MIRA, now=NOW)) == (Before(at=NOW + 5000, hold=1),)


def test_an_expiry_that_nothing_announced_has_no_time_to_compare_with():
    run = held("d")
    timed = held("d", ruling=TIMED)

    assert of(run, settling.sweep(timed, now=late(timed))) == ()


def test_what_no_decision_waits_for_has_no_time_to_compare_with():
    assert (
        of(held("d"), [e.DecisionEffective(hold=1), e.DecisionUndone(hold=1, by=MIRA, at=1)]) == ()
    )


def test_a_hold_that_is_not_open_yet_or_any_more_has_no_condition():
    run = held("d", ruling=TIMED)
    events = settling.settle(run, 1, APPROVE, by=ANN, now=NOW)

    assert of(started(), events) == ()
    assert of(commit(run, *events), events) == ()


def test_other_events_have_no_conditions():
    run = held("d", ruling=TIMED)

    assert of(run, [e.RunSuspended(), e.MessageReceived(by=MIRA, text="hello")]) == ()


def test_a_start_under_a_grant_must_be_committed_before_its_end():
    run = decided(held("d"), 1, APPROVE)
    under = replace(start(call(run)), grant="grant_1", grant_until=NOW + 9)

    assert of(run, verbs.start_calls(run, [under])) == (Before(at=NOW + 9),)
