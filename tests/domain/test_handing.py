"""Handing over what one is asked: what the verb refuses, and `apply` refuses as well."""

from typing import Any

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.call import CallState
from sayso.domain.handing import reassign
from sayso.domain.lifecycle import apply
from sayso.domain.people import Authority, Basis, Person, StandIn, recorded, unrecorded
from sayso.domain.ruling import OPERATOR, Require
from sayso.domain.run import Run
from sayso.domain.value import Principal
from sayso.errors import AlreadyDecided, HoldExpired, NotAllowed, UnknownHold, WrongVerdict

from .build import AGENT, ANN, APPROVE, CHILD, DELEGATION, MIRA, NOW, asking, call, commit, held
from .forge import HOUR, illegal, started, the_hold

BOB, CY = Principal(id="bob"), Principal(id="cy")
NAMED = Require(approvers=("user:ann",))
FINANCE = Require(approvers=("role:finance",))
PAIR = Require(approvers=("user:ann", "user:bob"), quorum=2)


def person(name: str, *roles: str, **more: Any) -> Authority:
    return recorded(Person(id=name, roles=roles, **more), 1, now=NOW)


def stand_in(name: str, of: str, *roles: str) -> Authority:
    made = Person(id=name, stands_in=(StandIn(of=of, until=NOW + HOUR),))
    return recorded(made, 1, now=NOW, others=[(Person(id=of, roles=roles), 2)])


ANN_, BOB_, CY_ = unrecorded(ANN), unrecorded(BOB), unrecorded(CY)
BOSS = person("boss", "operator")


def handed(run: Run, by: Authority, to: Authority, **more: Any) -> Run:
    return commit(run, *reassign(run, 1, to=to, by=by, now=NOW, **more))


def asks(run: Run) -> tuple[str, ...]:
    return the_hold(run).approvers


def by_hand(by: Principal, to: str, instead_of: str, **more: Any) -> e.HoldReassigned:
    return e.HoldReassigned(hold=1, by=by, instead_of=instead_of, to=to, at=NOW, **more)


def test_who_is_asked_by_name_may_name_somebody_else():
    run = held("d", ruling=NAMED)

    events = reassign(run, 1, to=CY_, by=ANN_, now=NOW, note="I am away.")

    assert events == [by_hand(ANN, "user:cy", "user:ann", note="I am away.")]
    after = commit(run, *events)
    assert asks(after) == ("user:cy",)
    with pytest.raises(NotAllowed):
        settling.settle(after, 1, APPROVE, by=ANN, now=NOW)
    assert call(commit(after, *settling.settle(after, 1, APPROVE, by=CY, now=NOW))).state


def test_others_who_are_asked_stay_asked():
    run = held("d", ruling=PAIR)

    assert asks(handed(run, ANN_, CY_)) == ("user:cy", "user:bob")


def test_what_is_handed_over_may_be_handed_over_again():
    run = handed(held("d", ruling=NAMED), ANN_, BOB_)

    assert asks(handed(run, BOB_, CY_)) == ("user:cy",)


def test_who_is_one_of_many_may_name_one_of_the_same_many():
    run = held("d", ruling=FINANCE)
    ann, cy = person("ann", "finance"), person("cy", "finance")

    events = reassign(run, 1, to=cy, by=ann, now=NOW)

    basis = (Basis(person="ann", rev=1),)
    assert events == [by_hand(ANN, "user:cy", "role:finance", right="role:finance", basis=basis)]
    assert asks(commit(run, *events)) == ("user:cy",)
    assert asks(handed(run, ann, ann)) == ("user:ann",)
    for to in (BOB_, person("bob", "legal")):
        with pytest.raises(NotAllowed, match="it asks role:finance"):
            reassign(run, 1, to=to, by=ann, now=NOW)


def test_who_is_one_of_many_speaks_for_no_others():
    run = held("d", ruling=Require(approvers=("role:finance", "role:legal", "user:dan")))
    ann = person("ann", "finance")

    for to in (person("cy", "legal"), stand_in("cy", "dan")):
        with pytest.raises(NotAllowed, match="cannot be handed over"):
            reassign(run, 1, to=to, by=ann, now=NOW)
    basis = (Basis(person="ann", rev=1),)
    for instead_of in ("role:legal", "user:dan"):
        event = by_hand(ANN, "user:cy", instead_of, right="role:finance", basis=basis)
        illegal(run, event, match="is not asked as")


def test_anyone_may_name_anybody_of_the_project():
    run = held("d", ruling=Require(approvers=("anyone",)))

    assert asks(handed(run, ANN_, CY_)) == ("user:cy",)
    with pytest.raises(NotAllowed, match="no person who may decide"):
        reassign(run, 1, to=unrecorded(CY, member=False), by=ANN_, now=NOW)


def test_many_are_not_handed_over_to_one():
    ann, cy = person("ann", "finance"), person("cy", "finance")
    basis = (Basis(person="ann", rev=1),)

    for more in ({"quorum": 2}, {"reject_quorum": 2}):
        run = held("d", ruling=replace(FINANCE, **more))
        with pytest.raises(WrongVerdict, match="asks several persons"):
            reassign(run, 1, to=cy, by=ann, now=NOW)
        event = by_hand(ANN, "user:cy", "role:finance", right="role:finance", basis=basis)
        illegal(run, event, match="not handed over to one person")


def test_who_is_asked_already_is_not_asked_in_place_of_another():
    run = held("d", ruling=PAIR)

    assert reassign(run, 1, to=BOB_, by=ANN_, now=NOW) == []
    assert reassign(run, 1, to=ANN_, by=ANN_, now=NOW) == []
    by_identity = held("d", ruling=replace(PAIR, approvers=("user:ann", "user:mail:bob")))
    bob = person("bob", identities=("mail:bob",))
    assert reassign(by_identity, 1, to=bob, by=ANN_, now=NOW) == []


def test_a_stand_in_may_be_asked_for_good():
    run = held("d", ruling=NAMED)

    assert asks(handed(run, ANN_, stand_in("bob", "ann"))) == ("user:bob",)


def test_a_stand_in_hands_over_what_they_stand_in_for():
    run = held("d", ruling=NAMED)

    events = reassign(run, 1, to=CY_, by=stand_in("bob", "ann"), now=NOW)

    made = events[0]
    assert isinstance(made, e.HoldReassigned)
    assert (made.by, made.right, made.of) == (BOB, "user:ann", "ann")
    assert asks(commit(run, *events)) == ("user:cy",)


def test_an_operator_hands_over_to_somebody_who_is_asked():
    run = held("d", ruling=Require(approvers=("role:finance", "role:legal")))

    events = reassign(run, 1, to=person("cy", "legal"), by=BOSS, now=NOW)

    basis = (Basis(person="boss", rev=1),)
    boss = Principal(id="boss")
    assert events == [by_hand(boss, "user:cy", "role:legal", right=OPERATOR, basis=basis)]
    assert asks(commit(run, *events)) == ("role:finance", "user:cy")
    with pytest.raises(NotAllowed, match="it asks role:finance or role:legal"):
        reassign(run, 1, to=CY_, by=BOSS, now=NOW)


def test_an_operator_who_is_asked_as_one_may_do_the_same():
    run = held("d", ruling=Require(approvers=(OPERATOR, "role:legal")))

    assert asks(handed(run, BOSS, person("cy", "legal"))) == (OPERATOR, "user:cy")


def test_an_operator_leaves_a_quorum_alone():
    run = held("d", ruling=PAIR)

    with pytest.raises(WrongVerdict, match="several persons"):
        reassign(run, 1, to=stand_in("cy", "ann"), by=BOSS, now=NOW)
    event = by_hand(
        Principal(id="boss"),
        "user:cy",
        "user:ann",
        right=OPERATOR,
        basis=(Basis(person="boss", rev=1),),
    )
    illegal(run, event, match="not handed over to one person")


def test_nobody_else_hands_anything_over():
    run = held("d", ruling=NAMED)
    gone = person("boss", "operator", active=False)

    for by in (BOB_, unrecorded(AGENT), gone, person("ann", active=False)):
        with pytest.raises(NotAllowed):
            reassign(run, 1, to=CY_, by=by, now=NOW)
    illegal(run, by_hand(BOB, "user:cy", "user:ann"), match="may not decide")
    basis = (Basis(person="bob", rev=1),)
    for event in (
        by_hand(BOB, "user:cy", "user:ann", right=OPERATOR),
        by_hand(replace(BOB, kind="service"), "user:cy", "user:ann", right=OPERATOR, basis=basis),
    ):
        illegal(run, event, match="may not decide")


def test_it_is_handed_over_to_a_person_who_may_act():
    run = held("d", ruling=NAMED)

    for to in (unrecorded(AGENT), person("cy", active=False)):
        with pytest.raises(NotAllowed, match="no person who may decide"):
            reassign(run, 1, to=to, by=ANN_, now=NOW)
    illegal(run, by_hand(ANN, "role:finance", "user:ann"), match="cannot be handed over")
    illegal(run, by_hand(ANN, "user:cy", "anyone"), match="cannot be handed over")


def test_four_eyes_are_not_handed_over_to_who_asked():
    run = held("d", ruling=replace(NAMED, not_requester=True))

    for to in (unrecorded(MIRA), stand_in("cy", "mira"), person("m", identities=("mira",))):
        with pytest.raises(NotAllowed, match="who asked for it"):
            reassign(run, 1, to=to, by=ANN_, now=NOW)
    illegal(run, by_hand(ANN, "user:mira", "user:ann"), match="others than who asked")


def test_who_asked_may_hand_over_as_an_operator_what_they_may_not_decide():
    run = held("d", ruling=Require(approvers=("role:finance",), not_requester=True))
    mira = person("mira", "finance", "operator")

    assert asks(handed(run, mira, person("cy", "finance"))) == ("user:cy",)


def test_what_is_decided_together_is_not_handed_over():
    run = held("d", ruling=NAMED)
    run = replace(run, holds=(replace(run.holds[0], together=True),))

    with pytest.raises(WrongVerdict, match="handed over with none"):
        reassign(run, 1, to=CY_, by=ANN_, now=NOW)
    illegal(run, by_hand(ANN, "user:cy", "user:ann"), match="not handed over to one person")


def test_nobody_signs_in_for_somebody_else():
    run = held("d", ruling=NAMED)
    run = replace(run, holds=(replace(run.holds[0], kind="sign_in"),))

    with pytest.raises(WrongVerdict, match="nobody signs in for somebody else"):
        reassign(run, 1, to=CY_, by=ANN_, now=NOW)


def test_who_has_voted_takes_it_back_first():
    run = held("d", ruling=PAIR)
    run = commit(run, *settling.settle(run, 1, APPROVE, by=ANN, now=NOW))

    with pytest.raises(WrongVerdict, match="take that back first"):
        reassign(run, 1, to=CY_, by=ANN_, now=NOW)
    illegal(run, by_hand(ANN, "user:cy", "user:ann"), match="who has voted")
    run = commit(run, *settling.undo(run, 1, by=ANN, now=NOW))
    assert asks(handed(run, ANN_, CY_)) == ("user:cy", "user:bob")


def test_nobody_hands_over_what_somebody_has_voted_for_them():
    run = held("d", ruling=PAIR)
    run = commit(run, *settling.settle(run, 1, APPROVE, by=stand_in("dan", "ann"), now=NOW))

    with pytest.raises(WrongVerdict, match="take that back first"):
        reassign(run, 1, to=CY_, by=stand_in("eve", "ann"), now=NOW)
    basis = (Basis(person="eve", rev=1),)
    event = by_hand(
        Principal(id="eve"), "user:cy", "user:ann", right="user:ann", of="ann", basis=basis
    )
    illegal(run, event, match="who has voted")


@pytest.mark.parametrize("by", [ANN_, BOSS])
def test_what_is_decided_or_out_of_time_is_not_handed_over(by: Authority):
    run = held("d", ruling=replace(NAMED, within_ms=HOUR))
    waiting = commit(run, *settling.settle(run, 1, APPROVE, by=ANN, now=NOW, undo_ms=5000))

    with pytest.raises(AlreadyDecided):
        reassign(waiting, 1, to=ANN_, by=by, now=NOW)
    with pytest.raises(HoldExpired):
        reassign(run, 1, to=ANN_, by=by, now=NOW + HOUR)
    with pytest.raises(UnknownHold):
        reassign(started(), 1, to=ANN_, by=by, now=NOW)
    illegal(waiting, by_hand(ANN, "user:cy", "user:ann"), match="not open")
    late = replace(by_hand(ANN, "user:cy", "user:ann"), at=NOW + HOUR)
    illegal(run, late, match="past its deadline")
    basis = (Basis(person="boss", rev=1),)
    illegal(run, replace(late, right=OPERATOR, basis=basis), match="past its deadline")


def test_what_another_run_works_on_is_not_handed_over():
    run = asking(DELEGATION)

    for by in (unrecorded(MIRA), BOSS):
        with pytest.raises(NotAllowed, match=CHILD):
            reassign(run, 1, to=CY_, by=by, now=NOW)
    child = Principal(kind="agent", id=CHILD)
    illegal(run, by_hand(child, "user:cy", "user:mira"), match="is not asked as")
    basis = (Basis(person="boss", rev=1),)
    event = by_hand(ANN, "user:cy", "anyone", right=OPERATOR, basis=basis)
    illegal(run, event, match="cannot be handed over")


def test_handing_over_changes_nothing_else():
    run = held("d", ruling=replace(NAMED, within_ms=HOUR))

    after = apply(run, reassign(run, 1, to=CY_, by=ANN_, now=NOW)[0])

    assert the_hold(after).handed == (("user:cy", "user:ann"),)
    assert replace(the_hold(after), approvers=("user:ann",), handed=()) == the_hold(run)
    assert call(after).state is CallState.HELD


def test_who_is_asked_by_two_names_hands_over_neither_where_it_takes_two():
    both = stand_in("bob", "ann")

    for more in ({"quorum": 2}, {"reject_quorum": 2}):
        with pytest.raises(WrongVerdict, match="as ann as well, and would count twice"):
            reassign(held("d", ruling=replace(PAIR, **more)), 1, to=CY_, by=both, now=NOW)
    one = held("d", ruling=replace(PAIR, quorum=1))
    assert asks(handed(one, both, CY_)) == ("user:ann", "user:cy")
    assert asks(handed(held("d", ruling=PAIR), BOB_, CY_)) == ("user:ann", "user:cy")
    later = replace(PAIR, escalate_after_ms=HOUR, escalate_to=("role:lead",))
    with pytest.raises(WrongVerdict, match="as role:lead as well"):
        reassign(held("d", ruling=later), 1, to=CY_, by=person("ann", "lead"), now=NOW)
