import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Declined, Failed, Returned, Unknown
from sayso.domain.hold import (
    Answered,
    Approved,
    Decision,
    Errored,
    Expired,
    InDoubt,
    Rejected,
    Verdict,
    Withdrawn,
    answer,
    approve,
    fail,
)
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import status_of
from sayso.domain.value import CLOCK, Principal
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    HoldExpired,
    NotAllowed,
    NotWhatWasShown,
    RunFinished,
    RunWaiting,
    UnknownHold,
    WrongVerdict,
)

from . import build
from .build import (
    AGENT,
    ANN,
    APPROVE,
    DONE,
    MIRA,
    NO,
    NOW,
    asked,
    begin,
    call,
    cancelled,
    commit,
    decided,
    doubted,
    executing,
    finish,
    held,
    late,
    start,
    started,
)
from .forge import HOUR, TIMED, completed, the_hold


def types(events: list[e.Event]) -> list[type]:
    return [type(event) for event in events]


def outcome(events: list[e.Event], ref: str = "1.0") -> object:
    found = [event for event in events if isinstance(event, e.CallFinished) and event.call == ref]
    assert len(found) == 1
    return found[0].outcome


def revise(
    run: Run, n: int = 1, by: Principal = MIRA, ruling: Require | None = None
) -> list[e.Event]:
    return verbs.revise(
        run, n, args=b"{}", digest="d2", ruling=ruling or Require(), by=by, now=NOW + 1
    )


def test_a_message_to_a_running_run_is_news():
    run = asked("d")

    run = commit(run, *verbs.say(run, "Stop.", by=ANN, now=NOW, key="k"))

    assert run.strands[0].said > run.strands[0].seen


def test_a_message_to_a_run_that_waits_for_a_person_is_refused():
    with pytest.raises(RunWaiting) as refused:
        verbs.say(held("d", "e"), "Stop.", by=MIRA, now=NOW)

    assert refused.value.__dict__["holds"] == ["hold_1.1", "hold_1.2"]


def test_a_message_that_supersedes_withdraws_what_was_asked():
    run = held("d", "e")

    events = verbs.say(run, "Forget it.", by=MIRA, now=NOW, supersede=True)
    run = commit(run, *events)

    assert run.holds == ()
    assert outcome(events) == Declined(reason="superseded by a new message", by="mira")
    assert status_of(run) is Status.RUNNING


def test_a_message_that_supersedes_leaves_a_doubt_open():
    run = doubted(executing("d"))

    run = commit(run, *verbs.say(run, "Forget it.", by=MIRA, now=NOW, supersede=True))

    assert status_of(run) is Status.SUSPENDED
    assert run.strands[0].said > run.strands[0].seen


@pytest.mark.parametrize("run", [completed(), cancelled(started()), cancelled(executing("d"))])
def test_nothing_is_said_to_a_run_that_has_ended_or_is_to(run: Run):
    with pytest.raises(RunFinished):
        verbs.say(run, "Hello?", by=MIRA, now=NOW)


def test_a_turn_is_recorded_if_it_is_still_due():
    run = started()
    turn = build.answer(run, "d")

    assert verbs.take_turn(run, turn) == [turn]
    assert verbs.take_turn(commit(run, turn), turn) == []
    assert verbs.take_turn(run, replace(turn, turn=7)) == []
    assert verbs.take_turn(run, replace(turn, strand="side")) == []
    assert verbs.take_turn(cancelled(run), turn) == []


def test_a_run_is_complete_unless_there_is_news():
    run = started()
    after = apply(run, build.answer(run))
    told = apply(run, e.MessageReceived(by=MIRA, text="Wait."))
    interrupted = apply(told, replace(build.answer(told), seen=1))

    assert types(verbs.complete(after, b'"Paid."')) == [e.RunCompleted]
    assert verbs.complete(interrupted, b'"Paid."') == []
    assert verbs.complete(cancelled(executing("d")), b'"Paid."') == []
    assert verbs.complete(completed(), b'"Paid."') == []


def test_what_one_append_asks_is_one_suspension():
    run = asked("d", "e")
    requests = [
        verbs.HoldRequest(ref="1.0", ruling=TIMED, policy_version="2", duplicate_of="0.1"),
        verbs.HoldRequest(ref="1.1", ruling=Require(approvers=("user:ann",))),
    ]

    one, two = verbs.open_holds(run, requests, now=NOW)

    assert isinstance(one, e.HoldOpened)
    assert isinstance(two, e.HoldOpened)
    assert (one.hold, two.hold) == (1, 2)
    assert (one.suspension, two.suspension) == (1, 1)
    assert (one.deadline, two.deadline) == (NOW + HOUR, None)
    assert (one.approvers, two.approvers) == (("user:mira",), ("user:ann",))
    assert (one.policy_version, one.duplicate_of) == ("2", "0.1")


def test_a_call_whose_tool_has_changed_is_asked_about_as_a_new_version():
    run = decided(held("d"), 1, APPROVE)
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), digest="d2", tool_version="2")

    run = commit(run, *verbs.open_holds(run, [request], now=NOW))

    assert (the_hold(run, 2).version, the_hold(run, 2).digest) == (2, "d2")
    assert status_of(run) is Status.SUSPENDED


def test_a_hold_is_never_opened_for_a_call_that_is_not_there():
    with pytest.raises(AssertionError):
        verbs.open_holds(asked("d"), [verbs.HoldRequest(ref="1.9", ruling=Require())], now=NOW)


def test_an_edit_asks_about_something_else():
    run = commit(held("d"), *revise(held("d"), ruling=Require(approvers=("user:ann",))))

    hold = the_hold(run)
    assert (hold.version, hold.digest, hold.approvers) == (2, "d2", ("user:ann",))
    with pytest.raises(NotAllowed):
        settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)


@pytest.mark.parametrize(
    "before, within, after",
    [
        (None, None, None),
        (None, 500, NOW + 501),
        (1000, None, NOW + 1000),
        (1000, 500, NOW + 501),
        (1000, 5000, NOW + 1000),
    ],
)
def test_an_edit_never_buys_time(before: int | None, within: int | None, after: int | None):
    run = held("d", ruling=Require(within_ms=before))

    run = commit(run, *revise(run, ruling=Require(within_ms=within)))

    assert the_hold(run).deadline == after


def test_an_edit_is_refused_to_whoever_may_not_decide():
    run = held("d")

    for by in (ANN, AGENT):
        with pytest.raises(NotAllowed):
            revise(run, by=by)
    with pytest.raises(UnknownHold):
        revise(run, n=9)


def test_what_may_not_be_edited_is_not():
    for run in (held("d", ruling=Require(editable=False)), doubted(executing("d"))):
        with pytest.raises(WrongVerdict, match="may not be edited"):
            revise(run)


def test_only_what_was_shown_is_decided():
    run = held("d")
    edited = commit(run, *revise(run))

    settling.check_shown(run, 1, "d")
    settling.check_shown(run, 1, None)
    settling.check_shown(edited, 1, "d2")
    for before, digest in ((run, "x"), (run, ""), (edited, "d"), (edited, None)):
        with pytest.raises(NotWhatWasShown):
            settling.check_shown(before, 1, digest)
    with pytest.raises(UnknownHold):
        settling.check_shown(run, 2, "d")


def test_an_approved_call_may_start():
    run = held("d")

    run = commit(run, *settling.settle(run, 1, APPROVE, by=MIRA, now=NOW))

    assert call(run).state is CallState.APPROVED
    assert status_of(run) is Status.RUNNING


def test_a_decision_carries_what_an_auditor_asks():
    run = held("d")

    events = settling.settle(
        run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5, channel="inbox", key="k", note="ok"
    )

    decision = Decision(
        verdict=APPROVE,
        by=MIRA,
        at=NOW,
        effective_at=NOW + 5,
        digest="d",
        channel="inbox",
        key="k",
        note="ok",
    )
    assert events == [e.HoldSettled(hold=1, version=1, decision=decision)]


@pytest.mark.parametrize("undo_ms, after_ms", [(HOUR - 1, HOUR - 1), (HOUR + 1, HOUR)])
def test_a_decision_counts_from_the_deadline_on_at_the_latest(undo_ms: int, after_ms: int):
    run = decided(held("d", ruling=TIMED), 1, APPROVE, undo_ms=undo_ms)

    assert run.due_at == NOW + after_ms


def test_a_rejected_call_is_declined_and_the_model_goes_on():
    run = held("d")

    events = settling.settle(run, 1, Rejected(reason="too much"), by=MIRA, now=NOW)

    assert outcome(events) == Declined(reason="too much", by="mira")
    assert [event.why for event in events if isinstance(event, e.CallFinished)] == [""]
    assert status_of(commit(run, *events)) is Status.RUNNING


def test_a_rejection_without_a_reason_still_has_one():
    assert outcome(settling.settle(held("d"), 1, Rejected(), by=MIRA, now=NOW)) == Declined(
        reason="rejected", by="mira"
    )


def test_a_rejection_may_end_the_run():
    run = held("d", "e", ruling=Require(on_reject="cancel"))

    run = commit(run, *settling.settle(run, 1, Rejected(reason="stop"), by=MIRA, now=NOW))

    assert run.final == "cancelled"


def test_a_no_to_a_doubt_never_ends_the_run():
    run = doubted(executing("d"), ruling=Require(on_reject="cancel"))

    run = decided(run, 1, Rejected(reason="it did not happen"))

    assert not run.ending


def test_a_second_decision_is_told_what_stands():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    with pytest.raises(AlreadyDecided) as refused:
        settling.settle(run, 1, Rejected(), by=MIRA, now=NOW)

    assert refused.value.decision.verdict == APPROVE


def test_a_late_decision_is_told_that_nobody_decided_in_time():
    run = held("d", ruling=Require(within_ms=1000, on_silence="cancel"))

    with pytest.raises(HoldExpired) as refused:
        settling.settle(run, 1, APPROVE, by=MIRA, now=NOW + 1000)

    assert refused.value.decision.verdict == Expired(silence="cancel")
    assert refused.value.decision.by == CLOCK
    assert settling.settle(run, 1, APPROVE, by=MIRA, now=NOW + 999)


@pytest.mark.parametrize("by", [ANN, AGENT, CLOCK, Principal(kind="service", id="mira")])
def test_whoever_may_not_decide_is_refused(by: Principal):
    with pytest.raises(NotAllowed):
        settling.settle(held("d"), 1, APPROVE, by=by, now=NOW)


def test_a_hold_that_is_not_open_is_unknown():
    run = decided(held("d"), 1, APPROVE)

    for n in (1, 2):
        with pytest.raises(UnknownHold):
            settling.settle(run, n, APPROVE, by=MIRA, now=NOW)


@pytest.mark.parametrize(
    "verdict",
    [answer(1), fail("x"), Expired(silence="approve"), Withdrawn(), approve({"amount": 1})],
)
def test_a_verdict_that_does_not_answer_is_refused(verdict: Verdict):
    with pytest.raises(WrongVerdict):
        settling.settle(held("d"), 1, verdict, by=MIRA, now=NOW)


@pytest.mark.parametrize("verdict", [Expired(silence="approve"), Withdrawn(), approve({"a": 1})])
def test_a_doubt_is_not_settled_by_silence_or_other_arguments(verdict: Verdict):
    with pytest.raises(WrongVerdict):
        settling.settle(doubted(executing("d")), 1, verdict, by=MIRA, now=NOW)


def test_what_is_no_verdict_at_all_is_refused():
    with pytest.raises(WrongVerdict, match=r"str does not answer 'hold_.*': use approve\(\), rej"):
        settling.settle(held("d"), 1, "yes", by=MIRA, now=NOW)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "verdict, becomes",
    [
        (Answered(value=msgspec.Raw(b"1")), Returned(value=msgspec.Raw(b"1"))),
        (Errored(message="the bank is gone"), Unknown(reason="the bank is gone")),
        (Rejected(reason="it did not happen"), Declined(reason="it did not happen", by="mira")),
    ],
)
def test_a_person_settles_what_became_of_a_call_in_doubt(verdict: Verdict, becomes: object):
    run = doubted(executing("d"))

    events = settling.settle(run, 1, verdict, by=MIRA, now=NOW)

    assert outcome(events) == becomes
    finished = next(event for event in events if isinstance(event, e.CallFinished))
    assert (finished.attempt, finished.why) == (1, "mira looked into it")


def test_a_call_in_doubt_starts_again_only_by_a_new_decision():
    run = decided(doubted(executing("d")), 1, APPROVE)

    run = begin(run)

    assert call(run).attempt == 2


def test_a_decision_can_be_undone_in_time_by_whoever_made_it():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    undone = commit(run, *settling.undo(run, 1, by=MIRA, now=NOW + 4999))

    assert the_hold(undone).decision is None
    with pytest.raises(NotAllowed):
        settling.undo(run, 1, by=ANN, now=NOW)
    with pytest.raises(CannotUndo):
        settling.undo(run, 1, by=MIRA, now=NOW + 5000)


def test_without_a_decision_there_is_nothing_to_undo():
    for run in (held("d"), decided(held("d"), 1, APPROVE)):
        with pytest.raises(CannotUndo):
            settling.undo(run, 1, by=MIRA, now=NOW)


def test_nothing_is_due_too_soon():
    timed = held("d", ruling=TIMED)
    waiting = decided(timed, 1, APPROVE, undo_ms=5000)

    assert settling.sweep(timed, now=NOW + HOUR - 1) == []
    assert settling.sweep(waiting, now=NOW + 4999) == []
    assert settling.sweep(held("d"), now=NOW + 1000 * HOUR) == []


def test_a_decision_takes_effect():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    run = commit(run, *settling.sweep(run, now=NOW + 5000))

    assert call(run).state is CallState.APPROVED


def test_a_rejection_takes_effect_with_its_consequences():
    run = decided(held("d"), 1, Rejected(reason="no"), undo_ms=5000)

    events = settling.sweep(run, now=NOW + 5000)

    assert types(events) == [e.DecisionEffective, e.CallFinished]
    assert outcome(events) == Declined(reason="no", by="mira")


def test_a_decided_hold_does_not_expire():
    run = held("d", ruling=Require(within_ms=1000))
    run = decided(run, 1, APPROVE, undo_ms=5000, now=NOW + 998)

    assert settling.sweep(run, now=NOW + 999) == []
    assert types(settling.sweep(run, now=NOW + 1000)) == [e.DecisionEffective]


@pytest.mark.parametrize(
    "silence, final, declined",
    [
        ("reject", "", Declined(reason="nobody decided in time")),
        ("fail", "failed", Declined(reason="nobody decided in time")),
        ("cancel", "cancelled", Declined(reason="nobody decided in time")),
        ("unheard of", "", Declined(reason="nobody decided in time")),
    ],
)
def test_silence_means_what_the_ruling_says(silence: str, final: str, declined: Declined):
    run = held("d", "e", ruling=Require(within_ms=1000, on_silence=silence))

    events = settling.sweep(run, now=late(run))

    assert outcome(events) == declined
    assert commit(run, *events).final == final


def test_silence_may_approve():
    run = held("d", ruling=Require(within_ms=1000, on_silence="approve"))

    run = commit(run, *settling.sweep(run, now=late(run)))

    assert call(run).state is CallState.APPROVED


def test_when_silence_ends_the_run_the_rest_is_withdrawn():
    run = held("d", "e", ruling=Require(within_ms=1000, on_silence="fail"))

    events = settling.sweep(run, now=late(run))

    verdicts = [event.decision.verdict for event in events if isinstance(event, e.HoldSettled)]
    reason = "nobody decided hold_1.1 in time"
    assert verdicts == [Expired(silence="fail"), Withdrawn(reason=reason)]


def test_a_rejection_that_ends_the_run_leaves_nothing_to_sweep():
    run = held("d", "e", ruling=Require(within_ms=6000, on_reject="cancel"))
    run = decided(run, 1, Rejected(reason="stop"), undo_ms=5000)

    run = commit(run, *settling.sweep(run, now=NOW + 6000))

    assert run.final == "cancelled"


def test_a_doubt_that_nobody_looked_into_stays_unknown():
    run = doubted(executing("d"), ruling=Require(within_ms=1000))

    events = settling.sweep(run, now=late(run))

    assert outcome(events) == Unknown(reason="nobody looked into it in time")
    assert commit(run, *events).doubts == (("d", "1.0"),)


def test_silence_never_starts_a_call_in_doubt_again():
    run = doubted(executing("d"), ruling=Require(within_ms=1000, on_silence="approve"))

    events = settling.sweep(run, now=late(run))

    assert isinstance(outcome(events), Unknown)


def test_a_doubt_in_a_run_that_is_to_end_expires_too():
    run = cancelled(doubted(executing("d"), ruling=Require(within_ms=1000, on_silence="cancel")))
    assert status_of(run) is Status.SUSPENDED

    run = commit(run, *settling.sweep(run, now=late(run)))

    assert run.final == "cancelled"


def test_calls_that_may_start_are_started():
    run = decided(held("d", "e", ready=("r",)), 1, APPROVE)
    starts = [start(call(run, ref)) for ref in ("1.0", "1.1", "1.2")]

    events = verbs.start_calls(run, [*starts, replace(starts[0], ref="9.9")])

    refs = [event.call for event in events if isinstance(event, e.CallStarted)]
    assert refs == ["1.0", "1.2"]
    assert call(commit(run, *events)).worker == build.WORKER


def test_a_call_is_not_started_on_another_digest():
    run = decided(held("d"), 1, APPROVE)

    with pytest.raises(NotWhatWasShown):
        verbs.start_calls(run, [replace(start(call(run)), digest="x")])


def test_nothing_is_started_that_has_started_or_in_a_run_that_is_to_end():
    run = executing("d")
    ending = apply(asked("d"), e.CancelRequested(by=MIRA, at=NOW))

    assert verbs.start_calls(run, [start(call(run))]) == []
    assert verbs.start_calls(ending, [start(call(ending))]) == []


def test_the_result_of_the_attempt_under_way_counts():
    run = executing("d")

    events = verbs.finish_call(run, "1.0", attempt=1, outcome=DONE, why="a probe")

    assert events == [e.CallFinished(call="1.0", attempt=1, outcome=DONE, why="a probe")]


@pytest.mark.parametrize(
    "run, ref, attempt",
    [
        (executing("d"), "1.0", 2),
        (executing("d"), "1.0", 0),
        (executing("d"), "9.9", 1),
        (asked("d"), "1.0", 0),
        (finish(executing("d")), "1.0", 1),
        (doubted(executing("d")), "1.0", 1),
        (completed(), "1.0", 1),
    ],
)
def test_any_other_result_is_late(run: Run, ref: str, attempt: int):
    events = verbs.finish_call(run, ref, attempt=attempt, outcome=Failed(message="x"))

    assert types(events) == [e.LateResult]
    assert status_of(apply_all(run, events)) is status_of(run)


def test_a_call_that_will_not_start_is_declined():
    run = asked("d")

    assert outcome(verbs.decline(run, "1.0", NO)) == NO
    assert verbs.decline(run, "9.9", NO) == []
    assert verbs.decline(executing("d"), "1.0", NO) == []
    assert verbs.decline(held("d"), "1.0", NO) == []


def test_an_attempt_that_did_nothing_lets_the_call_start_again():
    run = executing("d")

    run = commit(run, *verbs.void_attempt(run, "1.0", attempt=1, why="not sent"))

    assert call(begin(run)).attempt == 2
    assert verbs.void_attempt(run, "1.0", attempt=1, why="not sent") == []


def test_an_attempt_that_did_nothing_is_the_end_of_its_call_in_a_run_that_is_to_end():
    run = cancelled(executing("d"))

    events = verbs.void_attempt(run, "1.0", attempt=1, why="not sent")

    assert outcome(events) == Declined(reason="the run was to end: enough")
    assert commit(run, *events).final == "cancelled"


def test_a_call_in_doubt_is_put_to_a_person():
    run = executing("d")

    events = verbs.doubt_call(
        run, "1.0", attempt=1, why="its worker died", ruling=Require(), now=NOW, probe="no answer"
    )

    opened = events[1]
    assert isinstance(opened, e.HoldOpened)
    assert opened.ask == InDoubt(
        attempt=1, worker=build.WORKER, why="its worker died", probe="no answer"
    )
    assert status_of(commit(run, *events)) is Status.SUSPENDED


def test_only_the_attempt_under_way_is_in_doubt():
    run = finish(executing("d"))

    assert verbs.doubt_call(run, "1.0", attempt=1, why="?", ruling=Require(), now=NOW) == []


def test_cancelling_withdraws_what_is_asked_and_declines_what_has_not_started():
    run = held("d", ready=("r",))

    events = settling.cancel(run, by=ANN, now=NOW, reason="enough")

    assert outcome(events, "1.0") == Declined(reason="enough", by="ann")
    assert outcome(events, "1.1") == Declined(reason="enough", by="ann")
    assert commit(run, *events).final == "cancelled"


def test_cancelling_withdraws_a_decision_that_is_not_effective_yet():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)

    run = cancelled(run)

    assert run.final == "cancelled"


def test_cancelling_waits_for_what_has_started():
    run = cancelled(executing("d"))
    assert status_of(run) is Status.RUNNING
    assert not run.final

    assert finish(run).final == "cancelled"


def test_a_run_may_end_as_failed():
    run = commit(
        executing("d"), *settling.cancel(executing("d"), by=CLOCK, now=NOW, error="broken")
    )

    assert finish(run).final == "failed"


def test_cancelling_twice_changes_nothing():
    assert settling.cancel(cancelled(executing("d")), by=MIRA, now=NOW) == []


def test_a_finished_run_cannot_be_cancelled():
    with pytest.raises(RunFinished):
        settling.cancel(completed(), by=MIRA, now=NOW)


def test_a_doubt_outlives_cancelling():
    run = cancelled(doubted(executing("d")))
    assert status_of(run) is Status.SUSPENDED

    with pytest.raises(WrongVerdict, match="cannot be run again"):
        settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)
    assert decided(run, 1, answer(1)).final == "cancelled"


def test_a_yes_that_takes_effect_after_cancelling_starts_nothing_and_strands_nothing():
    run = decided(doubted(executing("d")), 1, APPROVE, undo_ms=5000)
    run = cancelled(run)

    events = settling.sweep(run, now=NOW + 5000)
    run = commit(run, *events)

    assert outcome(events) == Declined(reason="the run was to end: enough")
    assert run.final == "cancelled"


def test_an_approval_is_what_was_shown_and_nothing_else():
    run = commit(held("d"), *revise(held("d")))

    with pytest.raises(WrongVerdict, match="another version"):
        settling.settle(run, 1, Approved(args=msgspec.Raw(b"{}")), by=MIRA, now=NOW)
