"""What a grant covers, and what it never does.

Method: a table of limits and values by hand; and over random arguments: a grant without limits
covers exactly the bytes that were allowed.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.grant import Grant, Limit, item_id, may_be_granted, read_limits
from sayso.domain.ruling import Require
from sayso.domain.value import Principal
from sayso.errors import BadValue

NOW = 1_000


def grant(args: Any = None, **words: Any) -> Grant:
    given = encode_value({"amount": 5, "to": "jiro"} if args is None else args)
    words = {"limits": (), "until": NOW + 10, "agent": "teller", **words}
    return Grant(
        id="grant_1",
        tool="pay",
        tool_version="1",
        by=Principal(id="ann"),
        at=0,
        hold="hold_1.1",
        args=msgspec.Raw(given),
        **words,
    )


def covers(one: Grant, args: Any, **words: Any) -> bool:
    facts: Any = {"tool_version": "1", "runs": ("run_1", ""), "agent": "teller", **words}
    return one.covers(args=encode_value(args), **facts)


@pytest.mark.parametrize(
    "words, good",
    [
        ({}, True),
        ({"until": NOW}, False),
        ({"until": NOW + 1}, True),
        ({"uses_max": 1}, True),
        ({"uses_max": 1, "used": 1}, False),
        ({"uses_max": 2, "used": 1}, True),
        ({"revoked": 1}, False),
    ],
)
def test_a_grant_is_good_until_it_ends_is_used_up_or_revoked(words, good):
    assert grant(**words).is_good(NOW) is good


def test_it_is_for_one_version_of_the_tool_one_agent_and_maybe_one_run():
    same = {"amount": 5, "to": "jiro"}

    assert covers(grant(), same)
    assert not covers(grant(), same, tool_version="2")
    assert not covers(grant(), same, agent="other")
    assert covers(grant(run="run_0"), same, runs=("run_1", "run_0"))
    assert not covers(grant(run="run_0"), same)


@pytest.mark.parametrize(
    "limits, args, covered",
    [
        ("same", {"amount": 5, "to": "jiro"}, True),
        ("same", {"amount": 5.0, "to": "jiro"}, False),
        ("same", {"amount": 5}, False),
        ("same", {"amount": 5, "to": "jiro", "memo": ""}, False),
        ("any", {"amount": None, "to": [1]}, True),
        ("any", {"amount": 1}, False),
        ("any", {"amount": 1, "to": "", "memo": 1}, False),
        ({"amount": {"at_most": 5}}, {"amount": 5, "to": "jiro"}, True),
        ({"amount": {"at_most": 5}}, {"amount": 5.5, "to": "jiro"}, False),
        ({"amount": {"at_most": 5}}, {"amount": True, "to": "jiro"}, False),
        ({"amount": {"at_most": 5}}, {"amount": "1", "to": "jiro"}, False),
        ({"amount": {"at_least": 5}}, {"amount": 5, "to": "jiro"}, True),
        ({"amount": {"at_least": 5}}, {"amount": 4, "to": "jiro"}, False),
        ({"to": {"one_of": ("a", "b")}}, {"amount": 5, "to": "b"}, True),
        ({"to": {"one_of": ["a", 1]}}, {"amount": 5, "to": 1.0}, False),
        ({"to": "any"}, {"amount": 5, "to": {}}, True),
    ],
)
def test_limits_let_arguments_be_otherwise_and_nothing_else(limits, args, covered):
    then = {"amount": 5, "to": "jiro"}
    one = grant(then, limits=read_limits(limits, encode_value(then)))

    assert covers(one, args) is covered


def test_what_is_no_object_is_covered_by_nothing():
    assert not covers(grant([1]), [1])
    assert not covers(grant(), [1])


@pytest.mark.parametrize(
    "limits",
    [
        "all",
        7,
        {"who": "any"},
        {"amount": "some"},
        {"amount": {}},
        {"amount": {"at_most": 1, "at_least": 0}},
        {"amount": {"at_most": "1"}},
        {"amount": {"at_most": True}},
        {"amount": {"one_of": []}},
        {"amount": {"one_of": "ab"}},
        {"amount": {"under": 1}},
        {f"a{n}": "any" for n in range(51)},
    ],
    ids=str,
)
def test_a_limit_that_could_not_work_is_refused(limits):
    with pytest.raises(BadValue):
        read_limits(limits, encode_value({"amount": 5}))


@pytest.mark.parametrize(
    "ruling, may",
    [
        (Require(), True),
        (Require(risk="high"), True),
        (Require(risk="critical"), False),
        (Require(quorum=2), False),
        (Require(not_requester=True), False),
    ],
)
def test_one_standing_yes_is_never_more_than_one_yes(ruling, may):
    assert may_be_granted(ruling) is may


def test_the_grants_of_a_tool_stand_together():
    assert grant().item == item_id("pay", "grant_1") == "pay/grant_1"


NAMES = st.text(max_size=3)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(ARGS, ARGS)
def test_without_limits_it_covers_exactly_what_was_allowed(then, now):
    one = grant(then)

    assert covers(one, then)
    assert covers(one, now) == (encode_value(then) == encode_value(now))


@given(ARGS, ARGS)
def test_with_any_it_covers_the_same_names(then, now):
    one = grant(then, limits=read_limits("any", encode_value(then)))

    assert covers(one, now) == (set(decode_value(encode_value(now))) == set(then))


def test_a_limit_has_a_kind_that_is_known():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"arg":"a","kind":"like"}', type=Limit)
