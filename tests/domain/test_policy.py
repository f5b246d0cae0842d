import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from sayso.domain.policy import CallFacts, Policy, Rule
from sayso.domain.ruling import (
    BATCHES,
    Forbid,
    Proceed,
    Require,
    Ruling,
    anyone,
    at_risk,
    require,
    service,
    strictest,
    user,
)
from sayso.errors import BadPolicy

from .build import MIRA


def facts(tool: str = "pay", risk: str = "medium", **args: Any) -> CallFacts:
    return CallFacts(
        tool=tool, args=args, by=MIRA, agent="teller", project="p", run_id="run_1", risk=risk
    )


def required(ruling: Ruling | None) -> Require:
    assert isinstance(ruling, Require)
    return ruling


def test_a_policy_in_python_is_the_same_later():
    policy = Policy(Rule("pay"), version="3")

    assert policy.now() is policy


def test_without_a_rule_a_call_proceeds():
    assert Policy().on(facts()) == Proceed()


def test_a_rule_demands_people_for_its_tool_only():
    policy = Policy(Rule("pay"))

    assert isinstance(policy.on(facts("pay")), Require)
    assert policy.on(facts("look")) == Proceed()


@pytest.mark.parametrize(
    "pattern, tool, applies",
    [
        ("*", "anything", True),
        ("pay_*", "pay_invoice", True),
        ("pay_*", "repay_invoice", False),
        ("pay", "PAY", False),
        ("pay?", "pays", True),
        ("pay", "pay\n", False),
    ],
)
def test_a_rule_names_tools_by_pattern(pattern: str, tool: str, applies: bool):
    assert isinstance(Policy(Rule(pattern)).on(facts(tool)), Require) is applies


def test_a_rule_may_look_at_the_arguments():
    rule = Rule("pay", when=lambda call: call.args["amount"] > 1000)
    ban = Rule("pay", when=lambda call: call.args["amount"] > 1000, forbid="too much")

    assert rule.on(facts(amount=1001)) == rule.ruling
    assert Policy(rule).on(facts(amount=1000)) == Proceed()
    assert Policy(ban).on(facts(amount=1001)) == Forbid(why="too much")
    assert Policy(ban).on(facts(amount=1000)) == Proceed()


async def later(_: CallFacts) -> bool:
    return False


def broken(_: CallFacts) -> bool:
    raise LookupError("no such account")


ODD_CONDITIONS: list[Callable[[CallFacts], object]] = [
    broken,
    lambda call: call.args["missing"],
    lambda _: None,
    lambda _: "False",
    lambda _: "",
    lambda _: 0,
    lambda _: 1,
    lambda _: 0.0,
    lambda _: [],
    lambda _: Proceed(),
    lambda _: NotImplemented,
    later,
]


@pytest.mark.parametrize("when", ODD_CONDITIONS)
def test_a_condition_that_answers_neither_true_nor_false_asks_a_person(
    when: Callable[[CallFacts], object],
):
    ruling = required(
        Policy(Rule("pay", when=when, approvers=[user("ann")], name="big")).on(facts())
    )

    assert ruling.approvers == ("user:ann",)
    assert ruling.rule == "big"
    assert "could not be applied" in ruling.why


@pytest.mark.parametrize("when", ODD_CONDITIONS)
def test_a_ban_whose_condition_is_broken_asks_a_person(when: Callable[[CallFacts], object]):
    ruling = required(Policy(Rule("pay", when=when, forbid="never")).on(facts()))

    assert ruling.rule == "pay"
    assert "could not be applied" in ruling.why


def test_a_condition_that_has_to_be_awaited_leaves_nothing_behind():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Policy(Rule("pay", when=later)).on(facts())
        gc.collect()

    assert not caught


def test_a_broken_condition_says_how_it_broke():
    assert "LookupError: no such account" in required(Rule("pay", when=broken).on(facts())).why


def test_a_ban_stands_whoever_says_so():
    policy = Policy(
        Rule("pay", approvers=[anyone]), Rule("pay", forbid="not on Sundays"), Rule("*")
    )

    assert policy.on(facts()) == Forbid(why="not on Sundays")
    assert policy.on(facts(), Require(), Proceed()) == Forbid(why="not on Sundays")


def test_rulings_from_elsewhere_count_as_much_as_rules():
    assert Policy().on(facts(), Require(title="tool")) == Require(title="tool")
    assert Policy(Rule("pay")).on(facts(), Forbid(why="tool")) == Forbid(why="tool")


def test_a_call_of_a_risky_tool_is_of_that_risk():
    assert required(Policy(Rule("pay", risk="low")).on(facts(risk="critical"))).risk == "critical"
    assert Policy().on(facts(risk="critical")) == Proceed()


@pytest.mark.parametrize("risk", ["high", "critical", "cosmic"])
def test_silence_never_approves_what_is_of_high_risk(risk: str):
    policy = Policy(Rule("pay", within="1h", on_silence="approve"))

    assert required(policy.on(facts())).on_silence == "approve"
    assert required(policy.on(facts(risk=risk))).on_silence == "reject"
    assert at_risk(Require(on_silence="cancel"), risk).on_silence == "cancel"


@pytest.mark.parametrize(
    "setup",
    [
        {"approvers": []},
        {"approvers": ["ann"]},
        {"approvers": ["user:"]},
        {"approvers": "ann"},
        {"approvers": 5},
        {"approvers": ["role:"]},
        {"approvers": [1]},
        {"approvers": [None]},
        {"approvers": ["user:ann\nuser:bob"]},
        {"risk": "extreme"},
        {"risk": "HIGH"},
        {"on_silence": "escalate"},
        {"on_silence": "escalate", "within": "1h"},
        {"on_silence": None},
        {"on_silence": "approve"},
        {"on_silence": "approve", "within": "1h", "risk": "high"},
        {"on_silence": "approve", "within": "1h", "risk": "critical"},
        {"on_silence": "fail"},
        {"on_silence": "cancel"},
        {"on_reject": "retry"},
        {"within": "soon"},
        {"within": 0},
        {"within": -1},
        {"within": True},
        {"when": "amount > 1000"},
        {"when": False},
        {"tool": ""},
        {"tool": None},
        {"tool": 5},
        {"forbid": True},
        {"forbid": ""},
        {"title": 5},
        {"why": None},
    ],
)
def test_a_rule_that_could_not_work_is_refused_when_it_is_made(setup: dict[str, Any]):
    with pytest.raises(BadPolicy):
        Rule(**setup)


def test_a_policy_is_made_of_rules():
    with pytest.raises(BadPolicy):
        Policy(lambda _: True)  # pyright: ignore[reportArgumentType]
    assert Policy(version="7").version == "7"


class _Panic(BaseException):
    pass


def test_whatever_a_condition_raises_asks_a_person_but_an_interrupt_goes_through() -> None:
    facts = CallFacts(tool="pay", args={}, by=MIRA, agent="a", project="p", run_id="run_1")

    def panic(_: CallFacts) -> bool:
        raise _Panic

    def interrupt(_: CallFacts) -> bool:
        raise KeyboardInterrupt

    assert isinstance(Rule("pay", when=panic).on(facts), Require)
    with pytest.raises(KeyboardInterrupt):
        Rule("pay", when=interrupt).on(facts)


def test_a_service_may_be_named_only_for_what_happens_outside():
    assert require(approvers=[service("bank")], outside=True).approvers == ("service:bank",)
    assert require(approvers=[user("ann")], outside=True).approvers == ("user:ann",)
    for outside in (False, True):
        for one in ("agent:bank", "service:", "bank", "clock:clock"):
            with pytest.raises(BadPolicy, match="not an approver"):
                require(approvers=[one], outside=outside)
    with pytest.raises(BadPolicy, match="not an approver"):
        require(approvers=[service("bank")])
    with pytest.raises(BadPolicy, match="not an approver"):
        Rule("pay", approvers=[service("bank")])


@pytest.mark.parametrize("resolve", ["", "each", "together", "latest", "all"])
@pytest.mark.parametrize("siblings", ["", "run", "halt", "hold", "in_order", "stop"])
def test_only_what_works_is_a_way_to_decide_a_turn(resolve: str, siblings: str):
    if (resolve or "each", siblings or "run") in BATCHES:
        made = require(resolve=resolve, siblings=siblings)
        assert (made.resolve, made.siblings) == (resolve, siblings)
        ruling = Rule("pay", resolve=resolve, siblings=siblings).ruling
        assert isinstance(ruling, Require)
        assert (ruling.resolve, ruling.siblings) == (resolve, siblings)
    else:
        with pytest.raises(BadPolicy, match="use one of"):
            require(resolve=resolve, siblings=siblings)


WAYS = [("", ""), ("", "in_order"), ("together", ""), ("together", "hold"), ("latest", "run")]


@pytest.mark.parametrize("one", WAYS)
@pytest.mark.parametrize("two", WAYS)
def test_two_rules_never_make_a_way_that_does_not_work(one: tuple[str, str], two: tuple[str, str]):
    rulings = [require(resolve=resolve, siblings=siblings) for resolve, siblings in (one, two)]

    both = strictest(*rulings)

    assert isinstance(both, Require)
    assert (both.resolve, both.siblings) == (two if any(two) else one)
    assert (both.resolve or "each", both.siblings or "run") in BATCHES
