"""What somebody may do, as the records of their project say."""

import pytest

from sayso.domain.hold import may_decide
from sayso.domain.people import (
    Authority,
    Basis,
    Person,
    Right,
    StandIn,
    recorded,
    resolve_names,
    unrecorded,
)
from sayso.domain.ruling import OPERATOR
from sayso.domain.value import CLOCK, Principal

from .build import AGENT, ANN, MIRA

NOW = 1000
SERVICE = Principal(kind="service", id="bank")
ANN_SELF = Person(
    id="ann", name="Ann", roles=("finance", "operator"), identities=("mail:ann@x", "slack:U1")
)
BOB = Person(id="bob", roles=("lead",), stands_in=(StandIn(of="ann", since=500, until=2000),))


def standing_in(now: int = NOW, *, other: Person = ANN_SELF) -> Authority:
    return recorded(BOB, 3, now=now, others=[(other, 7)])


def test_a_person_without_a_record_goes_by_their_name():
    basis = (Basis(person="ann", rev=0),)

    who = unrecorded(ANN, basis=basis)

    assert who.names == ("user:ann", "anyone")
    assert who.right(["user:ann"]) == Right(name="user:ann", basis=basis)
    assert (who.active, who.via, who.also, who.name) == (True, "", (), "")


def test_who_is_no_member_is_not_just_anyone():
    who = unrecorded(ANN, member=False)

    assert who.names == ("user:ann",)
    assert who.right(["anyone"]) is None


@pytest.mark.parametrize("by", [SERVICE, AGENT, CLOCK])
def test_what_is_no_person_goes_by_what_it_is(by: Principal):
    who = unrecorded(by)

    assert who.names == (f"{by.kind}:{by.id}",)
    assert who.right(["anyone", f"user:{by.id}", f"role:{by.id}"]) is None


def test_a_record_says_by_what_names_somebody_is_meant():
    who = recorded(ANN_SELF, 7, now=NOW, via="slack:U1")

    assert who.by == ANN
    assert who.names == (
        "user:ann",
        "user:mail:ann@x",
        "user:slack:U1",
        "role:finance",
        "role:operator",
        "anyone",
    )
    assert {right.basis for right in who.rights} == {(Basis(person="ann", rev=7),)}
    assert {right.of for right in who.rights} == {""}
    assert (who.also, who.via, who.name) == (ANN_SELF.identities, "slack:U1", "Ann")


def test_who_is_shut_out_is_meant_by_nothing():
    who = recorded(Person(id="ann", roles=("finance",), active=False), 7, now=NOW)

    assert not who.active
    assert who.names == ()
    assert not may_decide(("user:ann", "role:finance", "anyone"), who)


@pytest.mark.parametrize("now, is_ann", [(499, False), (500, True), (1999, True), (2000, False)])
def test_a_stand_in_has_anothers_rights_in_time_only(now: int, is_ann: bool):
    right = standing_in(now).right(["role:finance"])

    assert (right is not None) == is_ann


def test_a_right_of_a_stand_in_rests_on_both_records():
    right = standing_in().right(["role:finance", "user:ann"])

    assert right == Right(
        name="user:ann",
        of="ann",
        basis=(Basis(person="bob", rev=3, until=2000), Basis(person="ann", rev=7)),
    )


def test_a_stand_in_is_an_operator_and_anyone_by_themselves_only():
    who = standing_in()

    assert who.right([OPERATOR]) is None
    assert [right.of for right in who.rights if right.name == "anyone"] == [""]


def test_nobody_stands_in_for_who_is_shut_out_or_unknown():
    gone = Person(id="ann", roles=("finance",), active=False)

    assert standing_in(other=gone).right(["role:finance", "user:ann"]) is None
    assert recorded(BOB, 3, now=NOW).right(["role:finance", "user:ann"]) is None


def test_standing_in_is_not_handed_on():
    boss = Person(id="cy", stands_in=(StandIn(of="bob", until=9000),))

    who = recorded(boss, 1, now=NOW, others=[(BOB, 3), (ANN_SELF, 7)])

    assert who.right(["role:lead"]) is not None
    assert who.right(["role:finance"]) is None


def test_ones_own_right_comes_before_a_stand_ins():
    both = Person(id="bob", roles=("audit",), stands_in=BOB.stands_in)

    who = recorded(both, 3, now=NOW, others=[(ANN_SELF, 7)])

    right = who.right(["role:finance", "role:audit"])
    assert right is not None
    assert (right.name, right.of) == ("role:audit", "")
    assert who.right(["role:none"]) is None
    assert who.right([]) is None


def test_a_person_is_one_by_every_name_and_with_whom_they_stand_in_for():
    ann, bob = recorded(ANN_SELF, 7, now=NOW), standing_in()

    assert ann.is_one_of(["ann"])
    assert ann.is_one_of(["x", "slack:U1"])
    assert not ann.is_one_of(["bob", ""])
    assert bob.is_one_of(["ann"])
    assert not standing_in(2000).is_one_of(["ann"])
    assert not bob.is_one_of([])


def test_the_owner_is_named_by_name_and_once():
    assert resolve_names((), MIRA) == ("user:mira",)
    assert resolve_names(("owner", "user:mira", "role:x"), MIRA) == ("user:mira", "role:x")
    assert resolve_names((), SERVICE) == ("service:bank",)


def test_a_service_reports_what_happens_outside_and_decides_nothing():
    assert may_decide(("service:bank",), SERVICE, "external")
    assert not may_decide(("service:bank",), SERVICE)
    assert not may_decide(("agent:mira",), AGENT, "external")
    assert may_decide(("role:finance",), recorded(ANN_SELF, 7, now=NOW))
    assert not may_decide(("role:finance",), ANN)
