"""Votes: several persons decide, each of them once."""

from typing import Any

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.adopting import Lore, adopt
from sayso.domain.apply_holds import missing
from sayso.domain.call import Call, CallState
from sayso.domain.codec import decode_votes, encode_votes
from sayso.domain.hold import (
    Approved,
    Decision,
    Rejected,
    Verdict,
    Withdrawn,
    fail,
)
from sayso.domain.hold import answer as answered
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.people import Authority, Basis, Person, StandIn, recorded, unrecorded
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.domain.value import SAYSO, Principal
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    NotAllowed,
    NotUnderstood,
    WrongVerdict,
)

from .build import (
    ANN,
    APPROVE,
    MIRA,
    NOW,
    QUESTION,
    answer,
    begin,
    begun,
    call,
    commit,
    doubted,
    executing,
    held,
    started,
)
from .forge import HOUR, illegal, opened, revised, settled, the_hold
from .test_lifecycle import ASKS

BOB, CY = Principal(id="bob"), Principal(id="cy")
NO = Rejected(reason="no")
TWO = Require(approvers=("anyone",), quorum=2)
FINANCE = Require(approvers=("role:finance",), quorum=2)
EYES = Require(approvers=("anyone",), not_requester=True)


def of_finance(name: str, *, rev: int = 1, **more: Any) -> Authority:
    return recorded(Person(id=name, roles=("finance",), **more), rev, now=NOW)


def standing_in(name: str, *, of: str, roles: tuple[str, ...] = ()) -> Authority:
    stand_in = StandIn(of=of, until=NOW + HOUR)
    person = Person(id=name, roles=roles, stands_in=(stand_in,))
    return recorded(person, 4, now=NOW, others=[(Person(id=of, roles=("finance",)), 5)])


def said(
    run: Run, by: Principal | Authority, verdict: Verdict = APPROVE, n: int = 1, **more: Any
) -> Run:
    return commit(run, *settling.settle(run, n, verdict, by=by, now=NOW, **more))


def cast(run: Run, by: Principal, verdict: Verdict = APPROVE, **changes: Any) -> e.VoteCast:
    """A vote that was put together by hand."""
    made = settled(run, verdict, by=by, **changes)
    return e.VoteCast(hold=1, version=made.version, decision=made.decision)


def test_it_takes_as_many_persons_as_the_quorum_says():
    run = held("d", ruling=replace(TWO, quorum=3))

    for by in (ANN, BOB):
        run = said(run, by)
        assert call(run).state is CallState.HELD
    run = said(run, CY)

    assert call(run).state is CallState.APPROVED
    assert run.holds == ()


def test_a_vote_says_what_a_decision_says_and_counts_at_once():
    run = held("d", ruling=FINANCE)

    events = settling.settle(
        run, 1, APPROVE, by=of_finance("ann"), now=NOW + 1, undo_ms=500, key="k", note="n"
    )

    decision = Decision(
        verdict=APPROVE,
        by=ANN,
        at=NOW + 1,
        effective_at=NOW + 1,
        digest="d",
        key="k",
        note="n",
        right="role:finance",
        basis=(Basis(person="ann", rev=1),),
    )
    assert events == [e.VoteCast(hold=1, version=1, decision=decision)]
    assert the_hold(commit(run, *events)).votes == (decision,)


def test_the_last_word_rests_on_the_records_of_all_who_have_voted():
    run = said(held("d", ruling=FINANCE), of_finance("ann"))
    before = (Basis(person="ann", rev=1), Basis(person="bob", rev=2))

    events = settling.settle(run, 1, APPROVE, by=of_finance("bob", rev=2), now=NOW, basis=before)

    last = events[0]
    assert isinstance(last, e.HoldSettled)
    assert set(last.decision.basis) == set(before)
    assert len(last.decision.basis) == 2


def test_nobody_votes_twice():
    run = said(held("d", ruling=TWO), ANN)

    with pytest.raises(
        AlreadyDecided, match=r"ann has approved it already.* it takes 1 more"
    ) as no:
        said(run, ANN)

    assert "it takes 1 more" in str(no.value)
    assert no.value.decision == the_hold(run).votes[0]
    illegal(run, cast(run, ANN), match="has voted")
    illegal(run, settled(run, APPROVE, by=ANN), match="takes more than that: 1 more")


def test_a_person_by_two_identities_counts_once():
    ann = Person(id="ann", roles=("finance",), identities=("slack:U1",))
    run = said(held("d", ruling=FINANCE), recorded(ann, 1, now=NOW))

    with pytest.raises(AlreadyDecided):
        said(run, recorded(ann, 1, now=NOW, via="slack:U1"))
    assert the_hold(run).votes[0].assurance == ""


def test_a_vote_by_an_identity_that_was_nobodys_is_known_again():
    run = said(held("d", ruling=TWO), Principal(id="slack:U1"))

    with pytest.raises(AlreadyDecided):
        said(run, recorded(Person(id="ann", identities=("slack:U1",)), 1, now=NOW))
    assert call(said(run, ANN)).state is CallState.APPROVED


@pytest.mark.parametrize("first", ["ann", "bob"])
def test_who_stands_in_and_who_is_stood_in_for_count_once(first: str):
    people = {"ann": of_finance("ann"), "bob": standing_in("bob", of="ann")}
    run = said(held("d", ruling=FINANCE), people.pop(first))
    (second,) = people.values()

    with pytest.raises(AlreadyDecided):
        said(run, second)
    # Nor is it believed of an event that says so.
    other: dict[str, Any] = {"right": "role:finance", "basis": (Basis(person="x", rev=1),)}
    of: dict[str, Any] = {"of": "ann"} if second.by == BOB else {}
    illegal(run, cast(run, second.by, **other, **of), match="has voted")
    illegal(run, settled(run, APPROVE, by=second.by, **other, **of), match="1 more")


def test_two_who_stand_in_for_one_count_once():
    run = said(held("d", ruling=FINANCE), standing_in("bob", of="ann"))

    with pytest.raises(AlreadyDecided):
        said(run, standing_in("cy", of="ann"))


def test_a_stand_in_by_a_right_of_their_own_counts_on_their_own():
    run = said(held("d", ruling=FINANCE), of_finance("ann"))

    run = said(run, standing_in("bob", of="ann", roles=("finance",)))

    assert call(run).state is CallState.APPROVED


def test_one_no_decides():
    run = said(held("d", ruling=TWO), ANN)

    assert call(said(run, BOB, NO)).state is CallState.DONE
    # Also of one who has said yes.
    assert call(said(run, ANN, NO)).state is CallState.DONE


def test_it_takes_as_many_to_say_no_as_the_rule_says():
    run = held("d", ruling=replace(TWO, reject_quorum=2))

    run = said(said(run, ANN, NO), BOB)

    assert call(run).state is CallState.HELD
    with pytest.raises(AlreadyDecided, match="ann has rejected it already"):
        said(run, ANN)
    with pytest.raises(AlreadyDecided, match="bob has approved it already"):
        said(run, BOB, NO)
    assert call(said(run, CY, NO)).state is CallState.DONE
    assert call(said(run, CY)).state is CallState.APPROVED


def test_a_quorum_to_say_no_is_none_to_say_yes():
    run = held("d", ruling=Require(approvers=("anyone",), reject_quorum=2))

    assert call(said(run, ANN)).state is CallState.APPROVED


def test_a_vote_is_taken_back_by_whoever_cast_it():
    run = said(said(held("d", ruling=replace(TWO, quorum=3)), ANN), BOB)

    events = settling.undo(run, 1, by=ANN, now=NOW + 1)

    assert events == [e.VoteUndone(hold=1, person="ann", by=ANN, at=NOW + 1)]
    assert [vote.by for vote in the_hold(commit(run, *events)).votes] == [BOB]
    with pytest.raises(CannotUndo):
        settling.undo(run, 1, by=CY, now=NOW)
    undone = replace(events[0], person="ann", by=BOB)
    illegal(run, undone, match="by whoever cast it")
    illegal(run, replace(events[0], person="cy", by=CY), match="has not voted")
    assert apply(run, replace(events[0], by=SAYSO))
    illegal(started(), events[0], match="not open")


def test_who_took_a_vote_back_may_say_something_else():
    run = said(held("d", ruling=TWO), ANN)
    run = commit(run, *settling.undo(run, 1, by=ANN, now=NOW))

    assert call(said(said(run, ANN), BOB)).state is CallState.APPROVED


def test_the_last_vote_may_be_taken_back_in_time_and_leaves_the_others():
    run = said(held("d", ruling=TWO), ANN)
    run = said(run, BOB, undo_ms=5000)

    assert the_hold(run).decision is not None
    with pytest.raises(NotAllowed):
        settling.undo(run, 1, by=ANN, now=NOW)
    back = commit(run, *settling.undo(run, 1, by=BOB, now=NOW))
    assert [vote.by for vote in the_hold(back).votes] == [ANN]
    after = commit(run, *settling.sweep(run, now=NOW + 5000))
    assert call(after).state is CallState.APPROVED


def test_no_vote_is_cast_on_what_is_decided():
    run = said(said(held("d", ruling=TWO), ANN), BOB, undo_ms=5000)

    with pytest.raises(AlreadyDecided):
        said(run, CY)
    illegal(run, cast(run, CY), match="not open")


def test_an_edit_voids_the_votes():
    run = said(held("d", ruling=TWO), ANN)
    edit = verbs.revise(run, 1, args=b"{}", digest="d2", ruling=TWO, by=BOB, now=NOW)

    run = commit(run, *edit)

    assert the_hold(run).votes == ()
    assert call(said(run, ANN)).state is CallState.HELD
    assert call(said(said(run, ANN), BOB)).state is CallState.APPROVED


def test_an_edit_may_take_more_or_fewer_persons():
    run = said(held("d", ruling=TWO), ANN)
    one = Require(approvers=("anyone",))

    fewer = commit(run, *verbs.revise(run, 1, args=b"{}", digest="d2", ruling=one, by=ANN, now=NOW))

    assert call(said(fewer, ANN)).state is CallState.APPROVED


@pytest.mark.parametrize(
    "change, match",
    [
        ({"effective_at": NOW + 5}, "counts at once"),
        ({"digest": "other"}, "version and digest"),
        ({"verdict": answered(1)}, "settles hold 1, and is no vote"),
        ({"verdict": NO}, "settles hold 1, and is no vote"),
        ({"verdict": Withdrawn()}, "settles hold 1, and is no vote"),
        ({"verdict": Approved(args=QUESTION.default or answered(1).value)}, "another version"),
        ({"by": Principal(kind="service", id="bank")}, "may not decide"),
        ({"right": "role:lead", "basis": (Basis(person="bob", rev=1),)}, "as role:lead"),
    ],
)
def test_only_what_counts_with_others_is_a_vote(change: dict[str, Any], match: str):
    run = said(held("d", ruling=TWO), ANN)
    vote = cast(run, BOB)
    vote = replace(vote, decision=replace(vote.decision, **change))
    run = held("d", ruling=replace(TWO, quorum=3))

    illegal(run, vote, match=match)
    illegal(run, replace(cast(run, BOB), version=2), match="version and digest")


def test_the_vote_that_is_enough_is_a_decision():
    run = said(held("d", ruling=TWO), ANN)

    illegal(run, cast(run, BOB), match="settles hold 1, and is no vote")
    assert missing(the_hold(run), cast(run, BOB).decision) == 0


def test_a_hold_is_settled_with_its_quorum_only():
    run = held("d", ruling=replace(TWO, quorum=3, reject_quorum=2))

    illegal(run, settled(run, APPROVE), match="2 more")
    illegal(run, settled(run, NO), match="1 more")
    assert apply(run, settled(run, Withdrawn())).holds == ()


def test_a_right_that_no_record_gives_is_refused():
    run = held("d", ruling=replace(FINANCE, quorum=1))
    basis = (Basis(person="ann", rev=1),)

    for change in (
        {"right": "role:finance"},
        {"right": "role:lead", "basis": basis},
        {"right": "role:finance", "basis": basis, "by": Principal(kind="service", id="x")},
    ):
        illegal(run, settled(run, APPROVE, **{"by": ANN, **change}), match="may not decide")
    fine = settled(run, APPROVE, by=ANN, right="role:finance", basis=basis)
    assert call(apply(run, fine)).state is CallState.APPROVED


@pytest.mark.parametrize("kind", ["question", "external", "sign_in"])
def test_only_approvals_take_several(kind: str):
    run = executing("d")
    then = "start" if kind == "sign_in" else "continue"
    run = run if then == "continue" else apply(started(), answer(started(), "d"))
    event = opened(run, ask=ASKS[kind], then=then, step=1 if then == "continue" else 0)

    for ruling in (Require(quorum=2), Require(reject_quorum=2)):
        illegal(run, replace(event, ruling=ruling), match="a quorum is for approvals")


def test_four_eyes_keep_out_who_asked_for_the_call():
    run = held("d", ruling=EYES)

    with pytest.raises(NotAllowed, match="others than who asked for it"):
        said(run, MIRA)
    with pytest.raises(NotAllowed, match="others than who asked for it"):
        verbs.revise(run, 1, args=b"{}", digest="e", ruling=EYES, by=MIRA, now=NOW)
    illegal(run, settled(run, APPROVE, by=MIRA), match="others than who asked")
    illegal(run, revised(run, ruling=EYES, by=MIRA), match="others than who asked")
    assert call(said(run, ANN)).state is CallState.APPROVED


def test_four_eyes_know_who_asked_by_every_name_and_by_whoever_stands_in():
    run = held("d", ruling=EYES)
    as_mira = Person(id="m", identities=("mira",))

    for who in (recorded(as_mira, 1, now=NOW), standing_in("bob", of="mira")):
        with pytest.raises(NotAllowed, match="others than who asked"):
            said(run, who)
    basis = (Basis(person="bob", rev=1),)
    forged = settled(run, APPROVE, by=BOB, of="mira", right="anyone", basis=basis)
    illegal(run, forged, match="others than who asked")


def test_four_eyes_keep_out_who_made_it_what_it_is():
    run = held("d", ruling=EYES)
    run = commit(run, *verbs.revise(run, 1, args=b"{}", digest="d2", ruling=EYES, by=ANN, now=NOW))

    for who in (ANN, MIRA):
        with pytest.raises(NotAllowed, match="others than who asked"):
            said(run, who)
        illegal(run, settled(run, APPROVE, by=who), match="others than who asked")
    assert call(said(run, BOB)).state is CallState.APPROVED


def test_four_eyes_keep_out_who_invoked_the_command():
    run = started()
    made = calls_of(run)
    ask = opened(made, "c1", ruling=EYES, approvers=("anyone",))
    run = commit(made, ask)

    for who in (ANN, MIRA):
        with pytest.raises(NotAllowed, match="others than who asked"):
            said(run, who)
    assert call(said(run, BOB), "c1").state is CallState.APPROVED


def calls_of(run: Run) -> Run:
    command = verbs.command(run, Call(ref="", tool="refund", digest="c"), by=ANN, now=NOW)
    return commit(run, *command)


def test_without_four_eyes_who_asked_may_decide():
    assert call(said(held("d", ruling=Require()), MIRA)).state is CallState.APPROVED


def test_a_doubt_takes_as_many_to_run_it_again():
    run = doubted(executing("d"), ruling=TWO)

    voted = said(run, ANN)

    assert call(voted).state is CallState.DOUBTED
    assert call(said(voted, BOB)).state is CallState.APPROVED
    assert call(said(voted, BOB, NO)).state is CallState.DONE
    # That it has happened, or that nobody knows, runs nothing: one who has looked may say so.
    for verdict in (answered(1), fail("who knows")):
        assert call(said(voted, ANN, verdict)).state is CallState.DONE


def joint(*rulings: Require, siblings: str = "run") -> Run:
    run = started()
    turn = answer(run, *(f"d{n}" for n in range(len(rulings))), siblings=siblings)
    after = apply_all(run, [turn])
    requests = [verbs.HoldRequest(ref=f"1.{n}", ruling=ruling) for n, ruling in enumerate(rulings)]
    return commit(run, turn, *verbs.open_holds(after, requests, now=NOW, resolve="together"))


def all_said(run: Run, by: Principal | Authority, verdict: Verdict = APPROVE) -> Run:
    """The run after somebody decided all that is to be decided together."""
    before, found = run, list[e.Event]()
    for hold in before.holds:
        events = settling.settle(run, hold.n, verdict, by=by, now=NOW, whole=True, alone=False)
        run = apply_all(run, events)
        found += events
    return commit(before, *found, *settling.follow(before, run, found))


def test_what_is_decided_together_takes_the_same_number_for_each():
    run = joint(replace(TWO, reject_quorum=2), Require(approvers=("anyone",), not_requester=True))

    for hold in run.holds:
        assert (hold.quorum, hold.reject_quorum, hold.not_requester) == (2, 1, True)
        assert hold.together
    voted = all_said(run, ANN)
    assert [len(hold.votes) for hold in voted.holds] == [1, 1]
    after = all_said(voted, BOB)
    assert {call(after, ref).state for ref in ("1.0", "1.1")} == {CallState.APPROVED}
    with pytest.raises(WrongVerdict, match="decided with all others"):
        said(run, ANN)


def test_a_vote_on_what_is_decided_together_is_taken_back_together():
    run = all_said(joint(TWO, TWO), ANN)

    events = settling.undo(run, 2, by=ANN, now=NOW)

    assert [event.hold for event in events if isinstance(event, e.VoteUndone)] == [1, 2]
    assert all(not hold.votes for hold in commit(run, *events).holds)


@pytest.mark.parametrize(
    "rulings",
    [
        (
            Require(approvers=("user:ann", "user:bob"), quorum=2),
            Require(approvers=("user:bob", "user:cy"), quorum=2),
        ),
        (
            Require(approvers=("owner", "user:ann"), not_requester=True),
            Require(approvers=("owner", "user:bob")),
        ),
        (Require(approvers=("user:ann",)), Require(approvers=("user:bob",))),
        (
            Require(
                approvers=("user:ann",), quorum=2, escalate_after_ms=5, escalate_to=("user:bob",)
            ),
            Require(approvers=("user:ann",)),
        ),
    ],
)
def test_what_too_few_could_decide_together_is_decided_one_by_one(rulings: tuple[Require, ...]):
    run = joint(*rulings)

    assert [hold.together for hold in run.holds] == [False, False]
    assert [hold.quorum for hold in run.holds] == [ruling.quorum for ruling in rulings]


def test_nobody_is_brought_in_for_one_of_those_decided_together():
    late = replace(
        TWO, within_ms=HOUR, on_silence="escalate", escalate_after_ms=HOUR, escalate_to=("user:x",)
    )
    run = joint(late, late)

    assert [hold.ladder for hold in run.holds] == [(), ()]
    assert [(hold.on_silence, hold.deadline) for hold in run.holds] == [("reject", NOW + HOUR)] * 2


def test_a_run_that_is_to_end_lets_nobody_vote_yes():
    run = doubted(executing("d"), ruling=TWO)
    run = commit(run, *settling.cancel(run, by=MIRA, now=NOW))

    with pytest.raises(WrongVerdict, match="being cancelled"):
        said(run, ANN)
    assert said(run, ANN, NO).final == "cancelled"


def test_votes_are_withdrawn_with_their_hold():
    run = said(held("d", ruling=TWO), ANN)

    run = commit(run, *settling.cancel(run, by=MIRA, now=NOW))

    assert run.final == "cancelled"


def test_time_decides_whatever_was_voted():
    run = said(held("d", ruling=replace(TWO, within_ms=5)), ANN)

    run = commit(run, *settling.sweep(run, now=NOW + 5))

    assert call(run).state is CallState.DONE


def test_a_run_from_elsewhere_brings_no_votes():
    events: list[e.Event] = [begun()]
    run = commit(None, *events)
    turn = answer(run, "d")
    ask = opened(apply(run, turn), ruling=TWO, approvers=("anyone",))
    run = commit(run, turn, ask)
    run = said(run, ANN)

    adopted = e.RunAdopted(by=MIRA, at=NOW, source="elsewhere")
    found = adopt(run, Lore([*events, turn, ask]), adopted)

    undone = [event for event in found if isinstance(event, e.VoteUndone)]
    assert [(event.person, event.by) for event in undone] == [("ann", SAYSO)]
    assert the_hold(commit(run, *found)).votes == ()


def test_a_call_under_way_elsewhere_takes_as_many_to_run_it_again():
    ladder = replace(TWO, not_requester=True, escalate_after_ms=5, escalate_to=("user:x",))
    run = started()
    turn = answer(run, "d")
    ask = opened(apply(run, turn), ruling=ladder, approvers=("anyone",))
    run = commit(run, turn, ask)
    run = said(said(run, ANN), BOB)
    run = begin(run)

    adopted = e.RunAdopted(by=MIRA, at=NOW, source="elsewhere")
    hold = the_hold(commit(run, *adopt(run, Lore([turn, ask]), adopted)), 2)

    assert (hold.kind, hold.quorum, hold.not_requester) == ("in_doubt", 2, True)
    assert [rung.to for rung in hold.ladder] == [("user:x",)]


def test_votes_are_read_back():
    votes = the_hold(said(held("d", ruling=FINANCE), of_finance("ann"))).votes

    assert decode_votes(encode_votes(votes)) == votes
    assert decode_votes(encode_votes(())) == ()
    with pytest.raises(NotUnderstood):
        decode_votes(encode_votes(votes)[:-1])


def told(*events: Any) -> Transcript:
    transcript = Transcript("run_1")
    for seq, event in enumerate(events, 1):
        transcript.add(seq, event)
    return transcript


def story() -> tuple[list[e.Event], Run]:
    run = started()
    turn = answer(run, "d")
    ask = opened(apply(run, turn), ruling=TWO, approvers=("anyone",))
    return [begun(), turn, ask], commit(run, turn, ask)


def persons(transcript: Transcript) -> list[str]:
    return [one.by.id for one in transcript.approvals.get("1.0", [])]


def test_a_transcript_knows_all_who_let_a_call_start():
    events, run = story()
    no = cast(run, CY, NO, effective_at=NOW)
    last = settled(run, APPROVE, by=BOB)

    whole = told(*events, cast(run, ANN), no, last)

    assert persons(whole) == ["ann", "bob"]
    assert [one.by.id for one in whole.votes_for(1, last.decision)] == ["ann"]
    assert whole.votes_for(2, last.decision) == []
    whole.add(whole.seq + 1, e.DecisionUndone(hold=1, by=BOB, at=NOW))
    assert persons(whole) == []
    whole.add(whole.seq + 1, last)
    assert persons(whole) == ["ann", "bob"]


def test_a_transcript_forgets_votes_that_do_not_count():
    events, run = story()
    last = settled(run, APPROVE, by=BOB)

    undone = e.VoteUndone(hold=1, person="ann", by=ANN, at=NOW)
    assert persons(told(*events, cast(run, ANN), undone, last)) == ["bob"]
    edit = revised(run, by=CY)
    edited = told(*events, cast(run, ANN), edit, last)
    assert persons(edited) == ["bob"]


def test_a_transcript_knows_who_was_asked_instead():
    events, _ = story()
    handed = e.HoldReassigned(hold=1, by=ANN, instead_of="user:ann", to="user:bob", at=NOW)
    again = replace(handed, by=BOB, instead_of="user:bob", to="user:cy")
    escalated = e.HoldEscalated(hold=1, to=("user:x",), at=NOW)

    assert told(*events, handed, escalated, again).handed == {
        "1.0": {"user:bob": "user:ann", "user:cy": "user:ann"}
    }
    erased = told(begun(), None, None, handed)
    assert erased.handed == {}


def test_who_may_not_decide_may_not_vote():
    run = held("d", ruling=FINANCE)

    with pytest.raises(NotAllowed, match="it asks role:finance"):
        said(run, ANN)
    gone = recorded(Person(id="ann", roles=("finance",), active=False), 1, now=NOW)
    with pytest.raises(NotAllowed, match="no longer active"):
        said(run, gone)
    assert unrecorded(ANN).right(["role:finance"]) is None


def test_the_identity_that_somebody_came_by_is_written_down():
    ann = Person(id="ann", identities=("slack:U1",))
    run = held("d", ruling=Require(approvers=("user:slack:U1",)))

    events = settling.settle(run, 1, APPROVE, by=recorded(ann, 3, now=NOW, via="slack:U1"), now=NOW)

    made = events[0]
    assert isinstance(made, e.HoldSettled)
    assert (made.decision.by, made.decision.assurance) == (ANN, "slack:U1")
    assert made.decision.right == "user:slack:U1"
    assert commit(run, *events)


def test_a_vote_has_to_be_in_time():
    run = held("d", ruling=replace(TWO, within_ms=HOUR))

    illegal(run, cast(run, ANN, at=NOW + HOUR, effective_at=NOW + HOUR), match="past its deadline")
