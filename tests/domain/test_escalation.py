"""Who is asked as well as time goes by, what silence means then, and how long a yes is good."""

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Returned
from sayso.domain.guard import Before, ItemAt, Since, conditions_of
from sayso.domain.hold import Approval, Consent, Expired, Rung, SignIn
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.people import PERSON, Basis, Person, StandIn, recorded
from sayso.domain.question import Question
from sayso.domain.ruling import Escalation, Require, require
from sayso.domain.run import Run
from sayso.domain.value import Principal
from sayso.errors import HoldExpired, NotAllowed

from .build import (
    ANN,
    APPROVE,
    CHILD,
    DELEGATION,
    EXTERNAL,
    MIRA,
    NOW,
    answer,
    asked,
    asking,
    begin,
    blocked,
    call,
    commit,
    decided,
    doubted,
    executing,
    held,
    put,
    start,
    started,
    step_doubted,
)
from .forge import HOUR, illegal, opened, revised, settled, the_hold, wondered

BOB, CY = Principal(id="bob"), Principal(id="cy")
LADDER = require(escalate=[("1h", "user:ann"), ("2h", ["owner", "user:bob"])])
ESCALATES = require(within="1h", on_silence="escalate", escalate_to="user:ann")


def swept(run: Run, now: int) -> Run:
    return commit(run, *settling.sweep(run, now=now))


def said(run: Run, by: Principal, now: int = NOW) -> Run:
    return commit(run, *settling.settle(run, 1, APPROVE, by=by, now=now))


def test_a_hold_knows_when_others_are_asked():
    run = held("d", ruling=LADDER)

    assert the_hold(run).ladder == (
        Rung(at=NOW + HOUR, to=("user:ann",)),
        Rung(at=NOW + 2 * HOUR, to=("user:mira", "user:bob")),
    )
    assert run.due_at == NOW + HOUR


def test_each_is_asked_at_their_time():
    run = held("d", ruling=LADDER)

    assert settling.sweep(run, now=NOW + HOUR - 1) == []
    with pytest.raises(NotAllowed):
        said(run, ANN)
    first = swept(run, NOW + HOUR)
    assert the_hold(first).approvers == ("user:mira", "user:ann")
    assert first.due_at == NOW + 2 * HOUR
    second = swept(first, NOW + 2 * HOUR)
    assert the_hold(second).approvers == ("user:mira", "user:ann", "user:bob")
    assert second.due_at is None
    for who in (MIRA, ANN, BOB):
        assert call(said(second, who)).state is CallState.APPROVED


def test_several_rungs_that_are_due_are_taken_at_once_and_each_in_its_time():
    run = held("d", "e", ruling=LADDER)
    now = NOW + 3 * HOUR

    events = settling.sweep(run, now=now)

    assert [(event.hold, event.at) for event in events if isinstance(event, e.HoldEscalated)] == [
        (1, NOW + HOUR),
        (1, NOW + 2 * HOUR),
        (2, NOW + HOUR),
        (2, NOW + 2 * HOUR),
    ]
    assert conditions_of(run, events) == tuple(
        Since(at=NOW + hours * HOUR, hold=n) for n in (1, 2) for hours in (1, 2)
    )
    assert the_hold(commit(run, *events)).ladder == ()


def test_nobody_else_is_asked_once_it_is_decided():
    run = decided(held("d", ruling=LADDER), 1, APPROVE, undo_ms=5000)

    assert settling.escalate(run, now=NOW + HOUR) == []
    assert run.due_at == NOW + 5000
    escalated = e.HoldEscalated(hold=1, to=("user:ann",), at=NOW + HOUR)
    illegal(run, escalated, match="not open")
    back = commit(run, *settling.undo(run, 1, by=MIRA, now=NOW))
    assert the_hold(swept(back, NOW + HOUR)).approvers == ("user:mira", "user:ann")


@pytest.mark.parametrize("change", [{"at": NOW}, {"to": ("user:eve",)}, {"at": NOW + 2 * HOUR}])
def test_only_the_next_rung_is_taken(change: dict[str, object]):
    run = held("d", ruling=LADDER)
    event = e.HoldEscalated(hold=1, to=("user:ann",), at=NOW + HOUR)

    illegal(run, replace(event, **change), match="not to be escalated")
    illegal(apply(run, event), event, match="not to be escalated")
    illegal(held("d"), event, match="not to be escalated")


def test_silence_that_escalates_gives_the_others_as_much_time():
    run = held("d", ruling=ESCALATES)

    hold = the_hold(run)
    assert (hold.deadline, hold.on_silence) == (NOW + 2 * HOUR, "reject")
    assert run.due_at == NOW + HOUR
    later = swept(run, NOW + HOUR)
    assert later.due_at == NOW + 2 * HOUR
    assert call(said(later, ANN, NOW + 2 * HOUR - 1)).state is CallState.APPROVED
    with pytest.raises(HoldExpired):
        said(later, ANN, NOW + 2 * HOUR)
    after = swept(later, NOW + 2 * HOUR)
    assert call(after).state is CallState.DONE
    assert len(after.refusals) == 1


def test_a_sweep_that_comes_too_late_says_whom_time_brought_in_and_rejects():
    run = held("d", ruling=ESCALATES)

    events = settling.sweep(run, now=NOW + 5 * HOUR)

    # Who comes late is told that it has expired, and not that they were never asked.
    assert isinstance(events[0], e.HoldEscalated)
    assert isinstance(events[1], e.HoldSettled)
    assert events[1].decision.verdict == Expired(silence="reject")


def test_an_edit_leaves_the_time_of_each_rung_where_it_was():
    run = held("d", ruling=LADDER)
    now = NOW + HOUR // 2

    run = commit(
        run, *verbs.revise(run, 1, args=b"{}", digest="d2", ruling=LADDER, by=MIRA, now=now)
    )

    assert [rung.at for rung in the_hold(run).ladder] == [NOW + HOUR, NOW + 2 * HOUR]


def test_an_edit_asks_those_again_whose_time_had_come():
    run = swept(held("d", ruling=LADDER), NOW + HOUR)
    now = NOW + HOUR + 1

    run = commit(
        run, *verbs.revise(run, 1, args=b"{}", digest="d2", ruling=LADDER, by=ANN, now=now)
    )

    assert the_hold(run).approvers == ("user:mira",)
    assert the_hold(swept(run, now)).approvers == ("user:mira", "user:ann")


def test_an_edit_never_buys_time_for_silence_that_escalates():
    run = held("d", ruling=ESCALATES)
    now = NOW + HOUR // 2

    run = commit(
        run, *verbs.revise(run, 1, args=b"{}", digest="d2", ruling=ESCALATES, by=MIRA, now=now)
    )

    assert the_hold(run).deadline == NOW + 2 * HOUR
    assert the_hold(run).on_silence == "reject"


def test_a_doubt_is_escalated_like_anything_else():
    run = doubted(executing("d"), ruling=LADDER)

    assert the_hold(swept(run, NOW + HOUR)).approvers == ("user:mira", "user:ann")


def test_what_another_run_works_on_is_never_escalated():
    run = executing("d")
    ask = wondered(run, ask=DELEGATION, approvers=())

    illegal(run, replace(ask, ruling=LADDER), match="decided by nobody")
    assert the_hold(apply(run, ask)).child == CHILD


DEFAULTED = Question(text="How much?", default=msgspec.Raw(b'{"n": 1}'))
SILENT = require(within="1h", on_silence="answer", answered=True)


def test_silence_answers_with_the_default():
    run = blocked(DEFAULTED, ruling=SILENT)

    events = settling.sweep(run, now=NOW + HOUR)

    settled_, finished = events[:2]
    assert isinstance(settled_, e.HoldSettled)
    assert settled_.decision.verdict == Expired(silence="answer", answer=DEFAULTED.default)
    assert isinstance(finished, e.CallFinished)
    assert finished.outcome == Returned(value=msgspec.Raw(b'{"n": 1}'))


def test_a_question_that_silence_answered_was_not_refused():
    run = asked("d")
    ask = verbs.HoldRequest(ref="1.0", ruling=SILENT, ask=DEFAULTED, then="outcome", digest="q")
    run = commit(run, *verbs.open_holds(run, [ask], now=NOW))

    assert swept(run, NOW + HOUR).refusals == ()
    refused = commit(
        asked("d"),
        *verbs.open_holds(
            asked("d"), [replace(ask, ruling=require(within="1h", answered=True))], now=NOW
        ),
    )
    assert len(swept(refused, NOW + HOUR).refusals) == 1


def test_a_body_goes_on_with_what_silence_answered():
    run = asking(DEFAULTED, ruling=SILENT)

    assert call(swept(run, NOW + HOUR)).state is CallState.ANSWERED


def test_silence_answers_only_what_has_a_default():
    run = executing("d")

    for ask in (Question(text="How much?"), EXTERNAL):
        event = wondered(run, ask=ask, ruling=SILENT, deadline=NOW + HOUR)
        illegal(run, event, match="silence answers")
    illegal(asked("d"), opened(asked("d"), ruling=SILENT), match="silence answers")
    illegal(held("d"), revised(held("d"), ruling=SILENT), match="silence answers")


def test_silence_answers_nothing_but_the_default():
    run = blocked(DEFAULTED, ruling=SILENT)
    clock = {"by": Principal(kind="clock", id="clock"), "at": NOW + HOUR}

    for verdict in (
        Expired(silence="answer"),
        Expired(silence="answer", answer=msgspec.Raw(b'{"n": 2}')),
        Expired(silence="reject", answer=DEFAULTED.default),
        Expired(silence="reject"),
    ):
        event = settled(run, verdict, **clock, effective_at=NOW + HOUR)
        illegal(run, event, match="silence means 'answer' here")
    plain = blocked(DEFAULTED, ruling=require(within="1h", answered=True))
    event = settled(
        plain,
        Expired(silence="reject", answer=DEFAULTED.default),
        **clock,
        effective_at=NOW + HOUR,
    )
    illegal(plain, event, match="silence means 'reject' here")


GOOD_FOR = Require(start_by_ms=HOUR)


def test_a_yes_is_good_for_as_long_as_the_rule_says():
    run = decided(held("d", ruling=GOOD_FOR), 1, APPROVE, now=NOW + 7)

    assert call(run).start_by == NOW + 7 + HOUR
    events = verbs.start_calls(run, [start(call(run))])
    assert conditions_of(run, events) == (Before(at=NOW + 7 + HOUR),)
    assert call(decided(held("d"), 1, APPROVE)).start_by is None


def test_a_yes_is_good_from_when_it_counts():
    run = decided(held("d", ruling=GOOD_FOR), 1, APPROVE, undo_ms=5000)

    assert call(run).start_by is None
    assert call(swept(run, NOW + 9000)).start_by == NOW + 5000 + HOUR


def test_a_call_that_is_asked_about_again_waits_for_a_new_yes():
    run = decided(held("d", ruling=GOOD_FOR), 1, APPROVE)
    again = commit(run, *verbs.open_holds(run, [request(Require())], now=NOW))

    assert call(again).start_by is None
    assert call(decided(again, 2, APPROVE)).start_by is None
    longer = commit(run, *verbs.open_holds(run, [request(GOOD_FOR)], now=NOW))
    assert call(decided(longer, 2, APPROVE, now=NOW + HOUR)).start_by == NOW + 2 * HOUR


def request(ruling: Require) -> verbs.HoldRequest:
    return verbs.HoldRequest(ref="1.0", ruling=ruling)


@pytest.mark.parametrize("ask", [SignIn(provider="mail"), Consent(provider="mail")])
def test_a_sign_in_buys_no_time(ask: SignIn | Consent):
    run = decided(held("d", ruling=GOOD_FOR), 1, APPROVE)
    signing = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=ask)

    run = commit(run, *verbs.open_holds(run, [signing], now=NOW))

    assert call(run).start_by == NOW + HOUR
    assert call(decided(run, 2, APPROVE)).start_by == NOW + HOUR


def test_what_a_body_asks_buys_no_time_for_another_start():
    run = begin(decided(held("d", ruling=GOOD_FOR), 1, APPROVE))

    assert call(put(run, Approval())).start_by == NOW + HOUR
    voided = verbs.void_attempt(run, "1.0", attempt=1, why="not sent")
    assert call(commit(run, *voided)).start_by == NOW + HOUR
    stepping = step_doubted(
        commit(
            run,
            e.StepStarted(call="1.0", attempt=1, step=1, name="s", digest="s", effect="once"),
        )
    )
    assert call(stepping).start_by == NOW + HOUR
    assert call(doubted(run)).start_by is None


def test_a_start_rests_on_the_records_of_those_who_allowed_it():
    run = decided(held("d"), 1, APPROVE)
    basis = (Basis(person="bob", rev=3, until=NOW + 9), Basis(person="ann", rev=7))

    events = verbs.start_calls(run, [replace(start(call(run)), basis=basis)])

    assert conditions_of(run, events) == (
        ItemAt(kind=PERSON, id="bob", rev=3),
        Before(at=NOW + 9),
        ItemAt(kind=PERSON, id="ann", rev=7),
    )
    assert conditions_of(started(), events)


TIMED = Require(approvers=("role:finance",), quorum=2, within_ms=HOUR)
FINANCE = Person(id="ann", roles=("finance",))
STAND_IN = Person(id="bob", stands_in=(StandIn(of="ann", until=NOW + 60),))


def test_a_vote_must_be_committed_in_time_and_on_the_records_it_rests_on():
    run = held("d", ruling=TIMED)
    who = recorded(STAND_IN, 3, now=NOW, others=[(FINANCE, 7)])

    events = settling.settle(run, 1, APPROVE, by=who, now=NOW)

    assert isinstance(events[0], e.VoteCast)
    expected = (
        Before(at=NOW + HOUR, hold=1),
        ItemAt(kind=PERSON, id="bob", rev=3),
        Before(at=NOW + 60),
        ItemAt(kind=PERSON, id="ann", rev=7),
    )
    assert conditions_of(run, events) == expected
    edit = verbs.revise(run, 1, args=b"{}", digest="d2", ruling=TIMED, by=who, now=NOW)
    assert conditions_of(run, edit) == expected
    handed = e.HoldReassigned(
        hold=1,
        by=BOB,
        instead_of="role:finance",
        to="user:cy",
        at=NOW,
        basis=edit[0].basis if isinstance(edit[0], e.HoldRevised) else (),
    )
    assert conditions_of(run, [handed]) == expected


def test_the_last_vote_rests_on_all_records():
    run = held("d", ruling=TIMED)
    run = commit(run, *settling.settle(run, 1, APPROVE, by=recorded(FINANCE, 7, now=NOW), now=NOW))
    cy = recorded(Person(id="cy", roles=("finance",)), 9, now=NOW)

    events = settling.settle(run, 1, APPROVE, by=cy, now=NOW, basis=(Basis(person="ann", rev=7),))

    assert conditions_of(run, events) == (
        Before(at=NOW + HOUR, hold=1),
        ItemAt(kind=PERSON, id="cy", rev=9),
        ItemAt(kind=PERSON, id="ann", rev=7),
    )


def test_a_vote_that_is_taken_back_waits_for_nothing():
    run = held("d", ruling=TIMED)
    run = commit(run, *settling.settle(run, 1, APPROVE, by=recorded(FINANCE, 7, now=NOW), now=NOW))

    assert conditions_of(run, settling.undo(run, 1, by=ANN, now=NOW)) == ()


def test_what_is_not_open_yet_is_escalated_at_no_time():
    events = [e.HoldEscalated(hold=1, to=("user:ann",), at=NOW)]

    assert conditions_of(started(), events) == ()


def test_a_rung_may_lie_behind_another_of_a_longer_chain():
    run = started()
    turn = answer(run, "d")
    ladder = Require(
        escalate_after_ms=5,
        escalate_to=("user:ann",),
        chain=(Escalation(after_ms=9, to=("role:lead",)),),
    )
    after = apply_all(run, [turn])

    run = commit(run, turn, *verbs.open_holds(after, [request(ladder)], now=NOW))

    assert [rung.at for rung in the_hold(run).ladder] == [NOW + 5, NOW + 9]
