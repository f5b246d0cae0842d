import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.policy import CallFacts, Policy, Rule
from sayso.domain.ruling import (
    BATCHES,
    RISKS,
    SILENCES,
    Forbid,
    Proceed,
    Require,
    Ruling,
    anyone,
    at_risk,
    duration_ms,
    owner,
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


def test_a_role_is_refused_until_there_are_roles():
    with pytest.raises(BadPolicy, match="there are no roles yet; name people"):
        Rule("pay", approvers=["role:finance"])


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


def test_silence_gives_no_answer():
    with pytest.raises(BadPolicy, match="silence is no answer"):
        require(within="1h", on_silence="approve", answered=True)
    assert require(within="1h", on_silence="fail", answered=True).on_silence == "fail"


def test_people_whom_both_rules_name_may_decide():
    one = require(approvers=[user("ann"), user("bob")], rule="one")
    two = require(approvers=[user("bob"), user("cy")], rule="two")

    assert required(strictest(one, two)).approvers == ("user:bob",)
    assert required(strictest(one, two)).rule == "one, two"


def test_rules_without_an_approver_in_common_forbid():
    ruling = strictest(require(approvers=[user("ann")]), require(approvers=[user("bob")]))

    assert isinstance(ruling, Forbid)


@pytest.mark.parametrize(
    "one, two, both",
    [
        ([], [], ()),
        ([], [user("ann")], ("user:ann",)),
        ([user("ann")], [], ("user:ann",)),
        ([anyone], [user("ann")], ("user:ann",)),
        ([user("ann")], [anyone], ("user:ann",)),
        ([anyone], [], ("anyone",)),
        ([], [anyone], ("anyone",)),
        ([anyone], [anyone], ("anyone",)),
        ([owner], [owner, user("ann")], ("owner",)),
    ],
)
def test_a_rule_that_names_nobody_leaves_it_to_the_other(
    one: list[str], two: list[str], both: tuple[str, ...]
):
    ruling = strictest(Require(approvers=tuple(one)), Require(approvers=tuple(two)))

    assert required(ruling).approvers == both


def test_the_shorter_time_and_the_stricter_silence_win():
    slow = require(within="2h", on_silence="approve", risk="low")
    fast = require(within="1h", on_silence="fail", risk="high")

    both = required(strictest(slow, fast))

    assert (both.within_ms, both.on_silence, both.risk) == (3_600_000, "fail", "high")
    assert required(strictest(slow, require())).within_ms == 7_200_000
    assert required(strictest(require(), require())).within_ms is None


@pytest.mark.parametrize("one", [*SILENCES, "escalate"])
@pytest.mark.parametrize("two", [*SILENCES, "escalate"])
def test_silence_approves_only_if_every_rule_says_so(one: str, two: str):
    both = required(strictest(Require(on_silence=one), Require(on_silence=two)))

    assert (both.on_silence == "approve") == (one == two == "approve")


def test_what_one_rule_closes_the_other_does_not_open():
    closed = require(editable=False, on_reject="cancel", title="A", why="B")

    for both in (strictest(closed, require()), strictest(require(), closed)):
        ruling = required(both)
        assert (ruling.editable, ruling.on_reject) == (False, "cancel")
        assert (ruling.title, ruling.why) == ("A", "B")
    open_to_all = required(strictest(require(), require()))
    assert (open_to_all.editable, open_to_all.on_reject) == (True, "tell")


approvers = st.sampled_from([(), ("owner",), ("anyone",), ("user:ann",), ("user:ann", "user:bob")])
requires = st.builds(
    Require,
    approvers=approvers,
    within_ms=st.none() | st.integers(1, 5),
    on_silence=st.sampled_from(SILENCES),
    risk=st.sampled_from(RISKS),
    editable=st.booleans(),
    on_reject=st.sampled_from(["tell", "cancel"]),
    quorum=st.sampled_from([1, 1, 1, 2]),
    not_requester=st.sampled_from([False, False, True]),
)
rulings = st.just(Proceed()) | st.just(Forbid(why="never")) | requires


def allows(ruling: Require, who: str) -> bool:
    return not ruling.approvers or anyone in ruling.approvers or who in ruling.approvers


@given(st.lists(rulings, max_size=4))
def test_no_ruling_ever_loosens_another(given_rulings: list[Ruling]):
    result = strictest(*given_rulings)

    if any(isinstance(one, Forbid) for one in given_rulings):
        assert isinstance(result, Forbid)
    demands = [one for one in given_rulings if isinstance(one, Require)]
    if not demands:
        return
    assert not isinstance(result, Proceed)
    if isinstance(result, Forbid):
        return
    for one in demands:
        assert not unenforced(one)
        assert RISKS.index(result.risk) >= RISKS.index(one.risk)
        assert one.within_ms is None or (result.within_ms or 9) <= one.within_ms
        assert result.on_silence != "approve" or one.on_silence == "approve"
        assert one.editable or not result.editable
        assert one.on_reject == "tell" or result.on_reject == "cancel"
        for who in (owner, user("ann"), user("bob"), user("eve")):
            assert allows(one, who) or not allows(result, who)


@given(rulings, rulings)
def test_whether_a_call_may_start_does_not_depend_on_the_order_of_rules(one: Ruling, two: Ruling):
    forth, back = strictest(one, two), strictest(two, one)

    assert type(forth) is type(back)
    if isinstance(forth, Require):
        assert isinstance(back, Require)
        assert set(forth.approvers) == set(back.approvers)
        assert (forth.within_ms, forth.on_silence) == (back.within_ms, back.on_silence)


@pytest.mark.parametrize(
    "ruling", [Require(quorum=2), Require(quorum=0), Require(not_requester=True)]
)
def test_what_cannot_be_enforced_is_forbidden_rather_than_let_go_with_less(ruling: Require):
    assert isinstance(Policy().on(facts(), ruling), Forbid)
    assert unenforced(ruling)
    assert not unenforced(Require())


@pytest.mark.parametrize("one", [user("ann"), owner, anyone])
def test_one_approver_need_not_be_put_in_a_list(one: str):
    assert require(approvers=one).approvers == (one,)


@pytest.mark.parametrize(
    "setup",
    [
        {"approvers": []},
        {"approvers": ["ann"]},
        {"approvers": ["user:"]},
        {"approvers": "ann"},
        {"approvers": 5},
        {"approvers": ["role:finance"]},
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


@pytest.mark.parametrize(
    "text, ms",
    [
        ("1ms", 1),
        ("30s", 30_000),
        ("1.5s", 1500),
        ("4h", 14_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        (30, 30_000),
        (0.5, 500),
        (0.001, 1),
        ("36600d", 36_600 * 86_400_000),
    ],
)
def test_durations_are_read(text: str | float, ms: int):
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "30",
        "30 s",
        "1 0s",
        "-1s",
        "+1s",
        "1,5s",
        "1e3s",
        "1S",
        "1y",
        "1h30",
        "1h-30m",
        "٣s",
        "0s",
        "0.5ms",
        "36601d",
        "9" * 400 + "d",
        0,
        -1,
        0.0001,
        float("nan"),
        float("inf"),
        1e300,
        True,
        None,
        [],
        timedelta(hours=1),
    ],
)
def test_what_is_not_a_duration_is_refused(text: Any):
    with pytest.raises(BadPolicy):
        duration_ms(text)


@given(st.text(alphabet="0123456789.smhdw +-", max_size=8) | st.floats() | st.integers())
def test_anything_is_a_duration_of_use_or_refused(text: str | float):
    with suppress(BadPolicy):
        assert duration_ms(text) >= 1


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
