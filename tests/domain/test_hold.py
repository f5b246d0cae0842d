import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sayso.domain.hold import (
    Approved,
    Errored,
    HoldStatus,
    Rejected,
    answer,
    approve,
    check_silent_answer,
    fail,
    hold_id,
    may_decide,
    read_id,
    reject,
    request_id,
    resolve_approvers,
)
from sayso.domain.question import Question
from sayso.domain.ruling import Require
from sayso.domain.value import CLOCK, Principal
from sayso.errors import BadPolicy, BadValue

from .build import AGENT, ANN, APPROVE, MIRA, decided, held

runs = st.text(min_size=1, max_size=12).map("run_{}".format)


@given(runs, st.integers(1, 9_999_999_999))
@example("run_a.b", 1)
@example("run_run_1", 2)
@example("run_hold_1.7", 3)
@example("run_a\nb", 4)
def test_ids_of_holds_and_suspensions_are_read_back(run: str, n: int):
    assert read_id("hold", hold_id(run, n)) == (run, n)
    assert read_id("req", request_id(run, n)) == (run, n)


def test_an_id_is_read_as_what_it_is_and_nothing_else():
    assert read_id("hold", "hold_1.2") == ("run_1", 2)
    assert read_id("req", "hold_1.2") is None
    assert read_id("hold", "1.2") is None


@given(runs, runs, st.integers(1, 50), st.integers(1, 50))
def test_no_two_holds_share_an_id(one: str, two: str, n: int, m: int):
    assert (hold_id(one, n) == hold_id(two, m)) == ((one, n) == (two, m))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hold_",
        "hold_1",
        "hold_.1",
        "hold_1.",
        "hold_1.0",
        "hold_1.01",
        "hold_1.-1",
        "hold_1.+1",
        "hold_1.1 ",
        " hold_1.1",
        "hold_1.1\n",
        "hold_1.1_0",
        "hold_1.٣",
        "hold_1.²",
        "hold_1.1.",
        "hold_1.1e3",
        "hold_1.10000000000",
        "hold_1." + "9" * 5000,
        "HOLD_1.1",
        "req_1.1",
        "run_1.1",
        "1.1",
    ],
)
def test_what_is_not_the_id_of_a_hold_is_none(text: str):
    assert read_id("hold", text) is None


@given(st.text(max_size=20))
def test_any_text_is_an_id_or_none(text: str):
    for candidate in (text, f"hold_{text}", f"hold_{text}.1"):
        found = read_id("hold", candidate)
        assert found is None or hold_id(*found) == candidate


def test_an_approver_left_open_is_the_owner():
    assert resolve_approvers(Require(), MIRA) == ("user:mira",)
    assert resolve_approvers(Require(approvers=("owner", "user:ann")), MIRA) == (
        "user:mira",
        "user:ann",
    )
    assert resolve_approvers(Require(approvers=("anyone",)), MIRA) == ("anyone",)


def test_only_people_who_are_named_may_decide():
    assert may_decide(("user:mira",), MIRA)
    assert may_decide(("anyone",), ANN)
    assert not may_decide(("user:mira",), ANN)
    assert not may_decide((), MIRA)
    assert not may_decide(("mira", "user:mir", "user:", "user:MIRA"), MIRA)


@pytest.mark.parametrize("by", [AGENT, Principal(kind="service", id="mira"), CLOCK])
def test_nobody_but_a_person_ever_decides(by: Principal):
    assert not may_decide(("user:mira", "user:clock", "anyone"), by)


def test_a_verdict_is_made_in_the_words_people_use():
    assert approve() == Approved()
    assert approve({"b": 1, "a": 2.0}) == Approved(args=msgspec.Raw(b'{"a":2.0,"b":1}'))
    assert reject("too much") == Rejected(reason="too much")
    assert answer([1, "x"]).result() == [1, "x"]
    assert fail("nobody knows") == Errored(message="nobody knows")


def test_to_approve_with_nothing_is_not_to_approve_as_shown():
    assert approve({}) != approve()


def test_arguments_and_answers_that_cannot_be_kept_are_refused():
    with pytest.raises(BadValue):
        approve({"amount": float("nan")})
    with pytest.raises(BadValue):
        answer({1, 2})


def test_a_hold_says_where_it_stands():
    run = held("d")
    before = run.holds[0]
    after = decided(run, 1, APPROVE, undo_ms=5000).holds[0]

    assert before.status is HoldStatus.OPEN
    assert after.status is HoldStatus.DECIDED
    assert after.decision is not None
    assert after.decision.word == "approved"


def test_a_service_that_owns_a_run_is_not_the_person_of_its_name() -> None:
    named = resolve_approvers(Require(), Principal(kind="service", id="ops"))

    assert named == ("service:ops",)
    assert not may_decide(named, Principal(id="ops"))


def test_silence_answers_no_question_without_a_default() -> None:
    silent = Require(on_silence="answer")
    asked = Question(text="How much?")

    with pytest.raises(BadPolicy, match="this one has none"):
        check_silent_answer(asked, silent)
    check_silent_answer(asked, Require())
    check_silent_answer(msgspec.structs.replace(asked, default=msgspec.Raw(b"1")), silent)
