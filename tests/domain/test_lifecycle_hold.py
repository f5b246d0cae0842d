"""What `apply` refuses of holds and decisions, one guard after another."""

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import CallState
from sayso.domain.hold import (
    Answered,
    Approved,
    Errored,
    Expired,
    InDoubt,
    Rejected,
    Verdict,
    Withdrawn,
    resolve_approvers,
)
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import Status
from sayso.domain.standing import equal_refusal, says_yes, status_of
from sayso.domain.value import CLOCK, Principal

from .build import (
    AGENT,
    ANN,
    APPROVE,
    MIRA,
    NOW,
    asked,
    call,
    commit,
    decided,
    doubted,
    executing,
    held,
    start,
)
from .forge import (
    HOUR,
    TIMED,
    VALUE,
    attempt,
    illegal,
    opened,
    revised,
    settled,
    the_hold,
)


def test_a_hold_is_about_the_call_as_it_is():
    run = asked("d")

    illegal(run, opened(run, digest="x"), match="as it is")
    illegal(run, opened(run, version=3, digest="x"), match="as it is")
    illegal(run, opened(run, version=0), match="as it is")


def test_a_call_whose_tool_has_changed_is_asked_about_under_a_new_digest():
    run = commit(held("d"), settled(held("d"), APPROVE))

    run = commit(run, opened(run, version=2, digest="d2"))

    assert (call(run).digest, call(run).version) == ("d2", 2)
    assert the_hold(run, 2).digest == "d2"
    illegal(decided(run, 2, APPROVE), attempt(call(run), digest="d"), match="not what may start")


@pytest.mark.parametrize("n", [0, 2, -1])
def test_holds_are_numbered_one_after_another(n: int):
    run = asked("d")

    illegal(run, opened(run, hold=n), match="not the next")


def test_a_call_has_one_open_hold():
    run = doubted(executing("d"))
    ask = InDoubt(attempt=1, worker="w", why="?")

    illegal(run, opened(run, ask=ask), match="open hold")


def test_only_a_call_in_doubt_is_asked_about_as_one():
    run = asked("d")
    in_doubt = apply(executing("d"), e.CallDoubted(call="1.0", attempt=1, why="?"))

    illegal(run, opened(run, ask=InDoubt(attempt=1, worker="w", why="?")), match="only a call in")
    illegal(in_doubt, opened(in_doubt), match="only a call in")


def test_silence_never_lets_a_call_in_doubt_start_again():
    in_doubt = apply(executing("d"), e.CallDoubted(call="1.0", attempt=1, why="?"))
    ruling = Require(on_silence="approve", within_ms=5)
    ask = InDoubt(attempt=1, worker="w", why="?")

    illegal(in_doubt, opened(in_doubt, ask=ask, ruling=ruling), match="silence never")


def test_nobody_is_asked_for_leave_in_a_run_that_is_to_end():
    run = apply(asked("d"), e.CancelRequested(by=MIRA, at=NOW))

    illegal(run, opened(run), match="to end")


def test_a_suspension_is_opened_by_one_append():
    run = asked("d", "e", "f")
    one = opened(run)
    two = opened(run, "1.1", hold=2)

    after = apply_all(run, [one, two])

    assert [hold.suspension for hold in after.holds] == [1, 1]
    for wrong in (0, 1, 3):
        message = apply(after, e.MessageReceived(by=MIRA, text="x"))
        illegal(message, opened(message, "1.2", suspension=wrong), match="never grows")
    illegal(run, replace(one, suspension=0), match="never grows")
    illegal(run, one, replace(two, suspension=0), match="never grows")
    assert apply(after, opened(after, "1.2")).suspensions == 2


def test_an_edit_is_the_next_version():
    run = held("d")

    for version in (0, 1, 3):
        illegal(run, revised(run, version=version), match="cannot become")
    after = apply(run, revised(run))
    assert (call(after).digest, call(after).version) == ("d2", 2)
    assert (the_hold(after).digest, the_hold(after).version) == ("d2", 2)
    assert the_hold(after).revised == after.seq


def test_what_may_not_be_edited_is_not_edited():
    run = held("d", ruling=Require(editable=False))
    in_doubt = doubted(executing("d"))

    illegal(run, revised(run), match="cannot become")
    illegal(in_doubt, revised(in_doubt), match="cannot become")


def test_an_edit_never_buys_time():
    run = held("d", ruling=TIMED)
    deadline = NOW + HOUR

    illegal(run, revised(run, deadline=None), match="buys time")
    illegal(run, revised(run, deadline=deadline + 1), match="buys time")
    assert the_hold(apply(run, revised(run, deadline=deadline - 1))).deadline == deadline - 1


@pytest.mark.parametrize("by", [ANN, AGENT, CLOCK])
def test_nobody_edits_or_decides_who_may_not(by: Principal):
    run = held("d")

    illegal(run, revised(run, by=by), match="may not decide")
    for verdict in (APPROVE, Rejected(), Errored(message="x"), Answered(value=VALUE)):
        illegal(run, settled(run, verdict, by=by), match="may not decide")


def test_nobody_edits_or_decides_after_the_deadline():
    run = held("d", ruling=TIMED)
    deadline = NOW + HOUR

    illegal(run, revised(run, at=deadline), match="past its deadline")
    illegal(run, settled(run, APPROVE, at=deadline, effective_at=deadline), match="past its")
    assert apply(run, settled(run, APPROVE, at=deadline - 1)).holds == ()


def test_a_decision_binds_what_was_shown():
    run = apply(held("d"), revised(held("d")))

    illegal(run, settled(run, APPROVE, digest="d"), match="binds the version")
    illegal(run, replace(settled(run, APPROVE), version=1), match="binds the version")
    assert call(apply(run, settled(run, APPROVE))).state is CallState.APPROVED


def test_other_arguments_are_not_approved_along_the_way():
    run = held("d")

    illegal(run, settled(run, Approved(args=VALUE)), match="another version")


def test_a_second_decision_is_refused():
    run = held("d")
    first = settled(run, APPROVE)
    waiting = apply(run, settled(run, APPROVE, effective_at=NOW + 5))

    illegal(run, first, settled(run, Rejected()), match="not open")
    illegal(waiting, settled(run, Rejected()), match="not open")
    illegal(waiting, settled(run, APPROVE), match="not open")
    illegal(waiting, revised(waiting), match="not open")
    illegal(run, replace(first, hold=2), match="not open")
    illegal(run, replace(revised(run), hold=2), match="not open")


def test_expiry_is_nobodys_decision():
    run = held("d", ruling=TIMED)
    at = NOW + HOUR
    expiry = settled(run, Expired(silence="reject"), by=CLOCK, at=at, effective_at=at)

    assert apply(run, expiry).holds == ()
    for by in (MIRA, AGENT, Principal(kind="clock", id="another")):
        by_other = replace(expiry, decision=replace(expiry.decision, by=by))
        illegal(run, by_other, match="nobody's decision")


def test_nothing_expires_before_its_deadline_or_without_one():
    timed, untimed = held("d", ruling=TIMED), held("d")
    early = NOW + HOUR - 1
    expired = Expired(silence="reject")

    illegal(timed, settled(timed, expired, by=CLOCK, at=early), match="not before the deadline")
    illegal(untimed, settled(untimed, expired, by=CLOCK, at=2 * early), match="not before the")


def test_silence_means_what_the_ruling_said():
    run = held("d", ruling=TIMED)
    at = NOW + HOUR
    expiry = settled(run, Expired(silence="approve"), by=CLOCK, at=at, effective_at=at)

    illegal(run, expiry, match="silence means 'reject'")


def test_a_question_may_be_withdrawn_even_when_it_is_decided():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    after = apply(run, settled(run, Withdrawn(), by=ANN))

    assert after.holds == ()
    assert call(after).state is CallState.HELD


def test_a_doubt_is_not_withdrawn():
    run = doubted(executing("d"))

    illegal(run, settled(run, Withdrawn()), match="cannot be withdrawn")


def test_a_decision_counts_from_when_it_is_effective():
    run = held("d")
    waiting = apply(run, settled(run, APPROVE, effective_at=NOW + 5))

    assert call(waiting).state is CallState.HELD
    assert status_of(waiting) is Status.SUSPENDED
    assert call(apply(waiting, e.DecisionEffective(hold=1))).state is CallState.APPROVED


def test_only_a_decision_that_waits_takes_effect_or_is_undone():
    run = held("d")
    undone = e.DecisionUndone(hold=1, by=MIRA, at=NOW)

    for n in (1, 2):
        illegal(run, e.DecisionEffective(hold=n), match="no decision")
        illegal(run, replace(undone, hold=n), match="no decision")


def test_a_decision_is_undone_by_whoever_made_it_and_in_time():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    illegal(run, e.DecisionUndone(hold=1, by=ANN, at=NOW), match="whoever made it")
    illegal(run, e.DecisionUndone(hold=1, by=MIRA, at=NOW + 5000), match="whoever made it")
    after = apply(run, e.DecisionUndone(hold=1, by=MIRA, at=NOW + 4999))
    assert the_hold(after) == the_hold(held("d"))


def test_a_no_is_remembered_and_counted():
    run = decided(held("d", "d", "e"), 1, Rejected())
    assert equal_refusal(run, "e") is None
    run = decided(run, 2, Rejected())

    refusal = equal_refusal(run, "d")

    assert refusal is not None
    assert (refusal.times, refusal.hold) == (2, 2)
    assert len(decided(run, 3, Rejected()).refusals) == 2


def test_a_no_to_an_edited_call_or_to_a_doubt_or_a_withdrawal_is_no_refusal_of_the_call():
    edited = apply(held("d"), revised(held("d")))
    in_doubt = doubted(executing("d"))

    assert decided(edited, 1, Rejected()).refusals == ()
    assert decided(in_doubt, 1, Rejected()).refusals == ()
    assert apply(held("d"), settled(held("d"), Withdrawn())).refusals == ()


@pytest.mark.parametrize(
    "verdict, yes",
    [
        (APPROVE, True),
        (Approved(args=VALUE), True),
        (Rejected(), False),
        (Answered(value=VALUE), False),
        (Errored(message="x"), False),
        (Withdrawn(), False),
        (Expired(silence="approve"), True),
        (Expired(silence="reject"), False),
        (Expired(silence="fail"), False),
        (Expired(silence="cancel"), False),
        (Expired(silence="Approve"), False),
    ],
)
def test_only_an_approval_says_yes(verdict: Verdict, yes: bool):
    assert says_yes(verdict) is yes


def test_everybody_named_by_the_ruling_may_decide():
    run = asked("d")
    ruling = Require(approvers=("owner", "user:ann"))
    approvers = resolve_approvers(ruling, run.by)
    run = commit(run, opened(run, ruling=ruling, approvers=approvers))

    assert apply(run, settled(run, APPROVE, by=ANN)).holds == ()
    assert apply(run, settled(run, APPROVE, by=MIRA)).holds == ()
    assert start(call(run)).digest == "d"
