"""How the calls of one turn are decided, and what the others do meanwhile."""

from itertools import product

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Declined
from sayso.domain.hold import Rejected, SignIn, Verdict, Withdrawn, answer
from sayso.domain.lifecycle import apply_all
from sayso.domain.ruling import BATCHES, Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import has_work, startable, status_of
from sayso.errors import WrongVerdict

from .build import (
    APPROVE,
    MIRA,
    NOW,
    QUESTION,
    begin,
    blocked,
    call,
    cancelled,
    commanded,
    commit,
    decided,
    finish,
    late,
    put,
    start,
    started,
)
from .build import answer as turn_of
from .forge import illegal, opened, revised, the_hold

RESOLVES = ("each", "together", "latest", "all")
SIBLINGS = ("run", "halt", "hold", "in_order", "stop")


def batch(*holds: Require | None, resolve: str = "each", siblings: str = "run") -> Run:
    """A run whose turn was decided so: a ruling for each call that needs somebody."""
    run = started()
    digests = [f"d{n}" for n in range(len(holds))]
    turn = turn_of(run, *digests, resolve=resolve, siblings=siblings)
    after = apply_all(run, [turn])
    requests = [
        verbs.HoldRequest(ref=f"1.{n}", ruling=ruling)
        for n, ruling in enumerate(holds)
        if ruling is not None
    ]
    return commit(run, turn, *verbs.open_holds(after, requests, now=NOW, resolve=resolve))


def able(run: Run) -> list[str]:
    return [row.ref for row in startable(run)]


@pytest.mark.parametrize("resolve, siblings", list(product(RESOLVES, SIBLINGS)))
def test_only_what_works_is_a_way_to_decide_a_turn(resolve: str, siblings: str):
    run = started()
    turn = turn_of(run, "d", resolve=resolve, siblings=siblings)

    if (resolve, siblings) in BATCHES:
        strand = commit(run, turn).strands[0]
        assert (strand.resolve, strand.siblings) == (resolve, siblings)
    else:
        illegal(run, turn, match="no way to decide")


def test_siblings_start_while_one_is_held():
    assert able(batch(Require(), None, siblings="run")) == ["1.1"]


def test_calls_of_a_turn_that_may_be_halted_start_one_after_another():
    run = batch(None, None, None, siblings="halt")

    assert able(run) == ["1.0"]
    assert able(begin_first(run)) == []
    assert able(finish(begin_first(run))) == ["1.1"]


def test_a_call_that_asks_halts_those_after_it():
    run = finish(begin_first(batch(None, None, None, None, siblings="halt")))
    run = blocked(run=begin_first(run), ref="1.1")

    assert [row.state for row in run.strands[0].calls[2:]] == [CallState.DONE] * 2
    assert status_of(run) is Status.SUSPENDED
    asking = verbs.halt(run, "1.0")
    assert asking == []


def test_only_a_turn_that_says_so_is_halted():
    run = begin_first(batch(None, None))

    assert verbs.halt(run, "1.0") == []
    assert verbs.halt(run, "c1") == []


def test_a_body_that_asks_withdraws_what_was_asked_before_if_the_latest_counts():
    run = begin_first(batch(None, Require(), resolve="latest"))
    run = put(run, QUESTION)

    assert [hold.call for hold in run.holds] == ["1.0"]
    assert call(run, "1.1").state is CallState.DONE


def test_bodies_that_ask_leave_each_other_alone_even_if_the_latest_counts():
    run = begin_first(begin_first(batch(None, None, resolve="latest")))
    run = put(run, QUESTION)

    run = put(run, QUESTION, ref="1.1")

    assert [hold.call for hold in run.holds] == ["1.0", "1.1"]
    assert {call(run, ref).state for ref in ("1.0", "1.1")} == {CallState.WAITING}


def test_siblings_that_hold_wait_for_the_one_that_is_held():
    run = batch(Require(), None, None, siblings="hold")

    assert able(run) == []
    assert status_of(run) is Status.SUSPENDED
    assert verbs.start_calls(run, [start(call(run, "1.1"))]) == []
    assert able(decided(run, 1, APPROVE)) == ["1.0", "1.1", "1.2"]
    assert able(decided(run, 1, Rejected())) == ["1.1", "1.2"]


def test_siblings_that_hold_wait_for_all_that_are_held():
    run = decided(batch(Require(), Require(), None, siblings="hold"), 1, APPROVE)

    assert able(run) == []
    assert status_of(run) is Status.SUSPENDED
    assert able(decided(run, 2, APPROVE)) == ["1.0", "1.1", "1.2"]


def test_siblings_that_hold_wait_for_what_is_executed_elsewhere():
    run = started()
    turn = turn_of(run, "d", "e", siblings="hold")
    after = apply_all(run, [turn])
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=QUESTION, then="outcome")
    run = commit(run, turn, *verbs.open_holds(after, [request], now=NOW))

    assert able(run) == []
    assert able(decided(run, 1, answer(1))) == ["1.1"]


def test_siblings_that_hold_do_not_wait_for_one_that_asks_after_it_began():
    run = batch(None, None, siblings="hold")
    run = commit(run, *verbs.start_calls(run, [start(call(run))]))

    assert able(put(run, QUESTION)) == ["1.1"]
    assert able(blocked(run=run)) == ["1.1"]


def test_calls_in_order_start_one_after_another():
    run = batch(None, Require(), None, siblings="in_order")

    assert able(run) == ["1.0"]
    both = [start(call(run, ref)) for ref in ("1.0", "1.2")]
    events = verbs.start_calls(run, both)
    assert [ev.call for ev in events if isinstance(ev, e.CallStarted)] == ["1.0"]
    run = commit(run, *events)
    assert able(run) == []
    assert has_work(run)
    run = finish(run)
    assert able(run) == []
    assert status_of(run) is Status.SUSPENDED
    run = decided(run, 1, APPROVE)
    assert able(run) == ["1.1"]
    assert able(finish(begin_first(run), "1.1")) == ["1.2"]


def begin_first(run: Run) -> Run:
    return commit(run, *verbs.start_calls(run, [start(startable(run)[0])]))


def test_calls_in_order_wait_for_a_body_that_asks():
    run = put(begin_first(batch(None, None, siblings="in_order")), QUESTION)

    assert able(run) == []
    run = decided(run, 1, answer(1))
    assert able(run) == []
    assert status_of(run) is Status.RUNNING


def test_calls_that_wait_for_each_other_are_declined_when_the_run_is_cancelled():
    for siblings in ("hold", "in_order"):
        assert cancelled(batch(Require(), None, siblings=siblings)).final == "cancelled"


def together(*rulings: Require | None) -> Run:
    return batch(*rulings, resolve="together", siblings="hold")


def test_what_is_decided_together_is_not_decided_alone():
    run = together(Require(), Require(), None)

    for verdict in (APPROVE, Rejected()):
        with pytest.raises(WrongVerdict, match=r"resume\('req_1.1'"):
            settling.settle(run, 1, verdict, by=MIRA, now=NOW)
    events = settling.settle(run, 1, APPROVE, by=MIRA, now=NOW, whole=True)
    run = commit(run, *events)
    run = commit(run, *settling.settle(run, 2, APPROVE, by=MIRA, now=NOW, whole=True))
    assert able(run) == ["1.0", "1.1", "1.2"]


@pytest.mark.parametrize(
    "approvers, common",
    [
        ([("user:ann", "user:bob"), ("user:bob", "user:cy")], ("user:bob",)),
        ([("anyone",), ("user:ann", "user:bob")], ("user:ann", "user:bob")),
        ([("owner", "user:ann"), ("user:mira",)], ("user:mira",)),
        ([(), ("anyone",)], ("user:mira",)),
        ([("anyone",), ("anyone",)], ("anyone",)),
    ],
)
def test_what_is_decided_together_is_decided_by_those_who_may_decide_each(approvers, common):
    run = together(*[Require(approvers=named) for named in approvers])

    assert [(hold.together, hold.approvers) for hold in run.holds] == [(True, common)] * 2


@pytest.mark.parametrize(
    "approvers",
    [
        [("user:ann",), ("user:bob",)],
        [("user:ann",), ()],
        [("user:ann", "user:bob"), ("user:bob", "user:cy"), ("user:cy", "user:ann")],
        [("user:ann",), ("user:bob",), ("anyone",)],
    ],
)
def test_what_nobody_could_decide_together_is_decided_one_by_one(approvers):
    rulings = [Require(approvers=named, within_ms=n + 1) for n, named in enumerate(approvers)]

    run = together(*rulings)

    assert [hold.approvers for hold in run.holds] == [
        named or ("user:mira",) for named in approvers
    ]
    assert not any(hold.together for hold in run.holds)
    assert all(hold.editable for hold in run.holds)
    assert [hold.deadline for hold in run.holds] == [NOW + n + 1 for n in range(len(rulings))]


def test_what_is_decided_together_has_the_earliest_deadline():
    run = together(Require(within_ms=5000), Require(within_ms=1000), Require())

    assert {hold.deadline for hold in run.holds} == {NOW + 1000}
    assert all(hold.together for hold in run.holds)
    events = settling.sweep(run, now=late(run))
    assert len([event for event in events if isinstance(event, e.HoldSettled)]) == 3


def test_what_is_decided_together_has_no_deadline_if_nothing_of_it_has():
    assert {hold.deadline for hold in together(Require(), Require()).holds} == {None}


def test_what_is_decided_together_is_not_edited():
    run = together(Require(), Require())

    assert not any(hold.editable for hold in run.holds)
    with pytest.raises(WrongVerdict, match="may not be edited"):
        verbs.revise(run, 1, args=b"{}", digest="x", ruling=Require(), by=MIRA, now=NOW)
    illegal(run, revised(run), match="cannot become")


def test_one_alone_is_decided_alone():
    run = together(Require(within_ms=1000), None)

    assert not the_hold(run).together
    assert the_hold(run).editable
    assert call(decided(run, 1, APPROVE)).state is CallState.APPROVED


def test_of_several_questions_only_the_latest_is_asked():
    run = batch(Require(), None, Require(), resolve="latest")

    assert [hold.call for hold in run.holds] == ["1.2"]
    assert call(run, "1.0").state is CallState.DONE
    assert able(run) == ["1.1"]


def test_a_later_question_withdraws_the_earlier_ones():
    run = batch(Require(), None, None, resolve="latest")
    request = verbs.HoldRequest(ref="1.1", ruling=Require())

    events = verbs.open_holds(run, [request], now=NOW, resolve="latest")
    run = commit(run, *events)

    verdicts = [ev.decision.verdict for ev in events if isinstance(ev, e.HoldSettled)]
    assert verdicts == [Withdrawn(reason="superseded by a later question")]
    outcomes = [ev.outcome for ev in events if isinstance(ev, e.CallFinished)]
    assert outcomes == [Declined(reason="superseded by a later question", by="service:sayso")]
    assert [hold.call for hold in run.holds] == ["1.1"]


def test_a_question_declined_for_a_later_one_says_so():
    run = started()
    turn = turn_of(run, "d", "e", resolve="latest")
    after = apply_all(run, [turn])
    requests = [verbs.HoldRequest(ref=f"1.{n}", ruling=Require()) for n in (0, 1)]

    events = verbs.open_holds(after, requests, now=NOW, resolve="latest")

    assert events[0] == e.CallFinished(
        call="1.0", outcome=Declined(reason="a later question counts")
    )


def test_no_question_withdraws_nothing():
    run = batch(Require(), None, resolve="latest")

    assert verbs.open_holds(run, [], now=NOW, resolve="latest") == []


def test_a_turn_is_decided_one_way_and_the_next_another():
    run = batch(Require(), None, siblings="hold")
    run = finish(begin(decided(run, 1, Rejected())), "1.1")
    run = commit(run, turn_of(run, "f", "g"))

    assert run.strands[0].siblings == "run"
    run = commit(run, opened(run, "2.0"))
    assert able(run) == ["2.1"]
    assert replace(run.strands[0]).resolve == "each"


def test_a_sign_in_is_nothing_that_is_decided_together():
    run = started()
    turn = turn_of(run, "d", "e", "f", resolve="together", siblings="hold")
    after = apply_all(run, [turn])
    requests = [
        verbs.HoldRequest(ref="1.0", ruling=Require(within_ms=5000)),
        verbs.HoldRequest(ref="1.1", ruling=Require(within_ms=10), ask=SignIn(provider="mail")),
        verbs.HoldRequest(ref="1.2", ruling=Require()),
    ]
    run = commit(run, turn, *verbs.open_holds(after, requests, now=NOW, resolve="together"))

    assert [hold.together for hold in run.holds] == [True, False, True]
    assert [hold.deadline for hold in run.holds] == [NOW + 5000, NOW + 10, NOW + 5000]
    assert [hold.suspension for hold in run.holds] == [1, 1, 1]
    assert call(decided(run, 2, APPROVE), "1.1").state is CallState.APPROVED
    two = commit(
        started(), turn, *verbs.open_holds(after, requests[:2], now=NOW, resolve="together")
    )
    assert not any(hold.together for hold in two.holds)


def test_what_is_decided_together_is_taken_back_together():
    run = batch(Require(), Require(), resolve="together")
    for hold in run.holds:
        run = commit(
            run,
            *settling.settle(run, hold.n, APPROVE, by=MIRA, now=NOW, undo_ms=5000, whole=True),
        )

    run = commit(run, *settling.undo(run, run.holds[0].n, by=MIRA, now=NOW + 1))

    assert [hold.decision for hold in run.holds] == [None, None]


@pytest.mark.parametrize(
    "silences, means", [(("approve", "reject"), "reject"), (("approve", "approve"), "approve")]
)
def test_silence_means_one_thing_for_what_is_decided_together(silences, means):
    rulings = [Require(within_ms=9, on_silence=silence) for silence in silences]

    run = batch(*rulings, resolve="together")

    assert [hold.on_silence for hold in run.holds] == [means, means]


def test_a_new_question_leaves_alone_what_is_decided_already():
    run = batch(Require(), None, resolve="latest")
    run = commit(run, *settling.settle(run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5000))

    events = verbs.supersede(run, now=NOW + 1)

    assert events == []


def at_once(run: Run, verdict: Verdict) -> Run:
    events: list[e.Event] = []
    after = run
    for hold in run.holds:
        told = settling.settle(after, hold.n, verdict, by=MIRA, now=NOW, whole=True, alone=False)
        events += told
        after = apply_all(after, told)
    return commit(run, *events, *settling.follow(run, after, events))


def test_a_no_to_all_is_a_no_to_each_even_if_it_ends_the_run():
    run = at_once(together(*[Require(on_reject="cancel")] * 3), Rejected(reason="no"))

    assert run.final == "cancelled"
    assert len(run.refusals) == 3


def test_a_yes_to_all_lets_all_start():
    assert able(at_once(together(Require(), Require()), APPROVE)) == ["1.0", "1.1"]


def test_what_is_not_effective_yet_has_no_consequences():
    run = together(Require(), Require())
    told = settling.settle(
        run, 1, Rejected(), by=MIRA, now=NOW, whole=True, alone=False, undo_ms=1000
    )

    assert settling.follow(run, apply_all(run, told), told) == []
    assert settling.follow(run, run, [e.RunResumed()]) == []


def test_a_call_that_is_over_with_one_answer_is_not_ended_twice():
    run = commanded(started())
    run = commit(run, *verbs.start_calls(run, [start(call(run, "c1"))]))
    run = put(run, QUESTION, QUESTION, ref="c1", ruling=Require(on_reject="cancel"))

    assert at_once(run, Rejected()).final == "cancelled"
