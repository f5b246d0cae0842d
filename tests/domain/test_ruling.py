"""Rulings: what is refused when one is made, and that two of them are never looser than one."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso.domain.policy import Rule
from sayso.domain.ruling import (
    ESCALATIONS_MAX,
    QUORUM_MAX,
    RISKS,
    SILENCES,
    Escalation,
    Forbid,
    Proceed,
    Require,
    Ruling,
    anyone,
    at_risk,
    duration_ms,
    duration_text,
    owner,
    require,
    role,
    strictest,
    user,
)
from sayso.errors import BadPolicy

HOUR = 3_600_000
ANN, BOB, CY = user("ann"), user("bob"), user("cy")
FINANCE, LEAD = role("finance"), role("lead")


def required(ruling: Ruling | None) -> Require:
    assert isinstance(ruling, Require)
    return ruling


def rung(hours: int, *to: str) -> Escalation:
    return Escalation(after_ms=hours * HOUR, to=to)


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


def both_of(one: Require, two: Require) -> Require:
    """Two rulings as one, whichever comes first."""
    forth, back = required(strictest(one, two)), required(strictest(two, one))
    assert forth == replace(back, rule=forth.rule)
    return forth


def test_a_combination_takes_as_many_as_the_stricter_one():
    one = require(approvers=[FINANCE], quorum=3, reject_quorum=2, start_by="2h", remind_every="1h")
    two = require(approvers=[FINANCE], quorum=2, reject_quorum=3, start_by="1h", remind_every="2h")

    both = both_of(one, two)

    assert (both.quorum, both.reject_quorum) == (3, 2)
    assert (both.start_by_ms, both.remind_every_ms) == (HOUR, HOUR)


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_four_eyes_of_one_rule_are_four_eyes_of_both(flags: tuple[bool, bool]):
    one, two = (require(approvers=[FINANCE], not_requester=flag) for flag in flags)

    assert both_of(one, two).not_requester


def test_persons_who_are_left_can_always_say_no():
    one = require(approvers=[ANN, BOB, CY], reject_quorum=2)
    two = require(approvers=[ANN, user("dan")])

    assert both_of(one, two).reject_quorum == 1
    assert both_of(one, replace(two, reject_quorum=2)).reject_quorum == 1


@pytest.mark.parametrize(
    "one, two",
    [
        (require(approvers=[ANN, BOB], quorum=2), require(approvers=[BOB, CY], quorum=2)),
        (require(approvers=[ANN, BOB], quorum=2), require(approvers=[BOB])),
        (require(approvers=[owner, ANN], not_requester=True), require(approvers=[owner, BOB])),
        (require(approvers=[owner, ANN, BOB], quorum=2), Require(not_requester=True, quorum=3)),
    ],
)
def test_what_nobody_could_ever_allow_is_forbidden(one: Require, two: Require):
    for ruling in (strictest(one, two), strictest(two, one)):
        assert isinstance(ruling, Forbid)
        assert "nobody can allow it" in ruling.why


@pytest.mark.parametrize("one", [Require(quorum=2), Require(not_requester=True)])
def test_a_ruling_made_by_hand_that_nobody_could_satisfy_is_forbidden(one: Require):
    assert isinstance(strictest(one), Forbid)
    assert isinstance(strictest(Require(), one), Forbid)
    assert required(strictest(Require(approvers=(FINANCE,)), one)).approvers == (FINANCE,)


def test_whom_time_brings_in_must_be_named_by_both():
    one = require(approvers=[ANN], escalate_after="1h", escalate_to=[BOB, CY])
    two = require(approvers=[ANN, BOB])

    assert both_of(one, two).escalations == (rung(1, BOB),)


def test_whom_both_bring_in_is_asked_when_the_later_one_asks_them():
    one = require(approvers=[ANN], escalate_after="1h", escalate_to=BOB)
    two = require(approvers=[ANN], escalate_after="4h", escalate_to=BOB)

    assert both_of(one, two).escalations == (rung(4, BOB),)


def test_anyone_is_anybody_from_the_time_on_that_they_are_asked():
    one = require(approvers=[ANN], escalate_after="1h", escalate_to=BOB)
    two = require(approvers=[ANN], escalate_after="4h", escalate_to=anyone)

    assert both_of(one, two).escalations == (rung(4, BOB),)
    assert both_of(one, require(approvers=anyone)).escalations == (rung(1, BOB),)


def test_a_ladder_of_both_has_all_its_rungs():
    one = require(approvers=[ANN], escalate=[("1h", BOB), ("2h", LEAD)])

    assert both_of(one, require()).escalations == (rung(1, BOB), rung(2, LEAD))
    assert both_of(one, one).escalations == (rung(1, BOB), rung(2, LEAD))
    found = both_of(one, require(approvers=[ANN, BOB], escalate=[("3h", LEAD), ("5h", CY)]))
    assert found.escalations == (rung(1, BOB), rung(3, LEAD))


def test_nobody_is_brought_in_after_the_end():
    one = require(approvers=[ANN], escalate=[("1h", BOB), ("2h", LEAD)])

    assert both_of(one, require(within="2h")).escalations == (rung(1, BOB),)
    assert both_of(one, require(within="1h")).escalations == ()


ESCALATES = require(approvers=[ANN], within="1h", on_silence="escalate", escalate_to=LEAD)


def test_silence_that_escalates_is_a_no_after_twice_the_time():
    both = both_of(ESCALATES, require())

    assert (both.within_ms, both.on_silence) == (2 * HOUR, "reject")
    assert both.escalations == (rung(1, LEAD),)
    assert strictest(ESCALATES) == ESCALATES
    assert both_of(ESCALATES, ESCALATES).escalations == (rung(1, LEAD),)


def test_silence_that_escalates_never_has_more_time_than_the_other_rule_gives():
    soon = require(approvers=anyone, within="90m", on_silence="approve", risk="low")
    sooner = require(approvers=anyone, within="1h", on_silence="fail")

    both = both_of(ESCALATES, soon)
    assert (both.within_ms, both.on_silence) == (90 * 60_000, "reject")
    assert both.escalations == (rung(1, LEAD),)
    both = both_of(ESCALATES, sooner)
    assert (both.within_ms, both.on_silence, both.escalations) == (HOUR, "fail", ())
    by_hand = Require(on_silence="escalate")
    assert both_of(by_hand, require()).within_ms is None


ORDER = ("fail", "cancel", "reject", "answer", "approve")


@pytest.mark.parametrize("one", SILENCES)
@pytest.mark.parametrize("two", SILENCES)
def test_the_stricter_silence_wins(one: str, two: str):
    both = required(strictest(Require(on_silence=one), Require(on_silence=two)))

    meant = ["reject" if silence == "escalate" else silence for silence in (one, two)]
    assert both.on_silence == min(meant, key=ORDER.index)


NAMES = (owner, ANN, BOB, LEAD)
named = st.lists(st.sampled_from((*NAMES, anyone)), max_size=3, unique=True).map(tuple)
some = st.lists(st.sampled_from((*NAMES, anyone)), min_size=1, max_size=2, unique=True).map(tuple)
ladders = st.lists(st.tuples(st.integers(1, 6), some), max_size=3, unique_by=lambda one: one[0])


@st.composite
def requirements(draw: st.DrawFn) -> Require:
    within = draw(st.none() | st.integers(1, 8))
    wanted = sorted(draw(ladders))
    steps = [Escalation(after_ms=ms, to=to) for ms, to in wanted if ms < (within or 99)]
    silence = draw(st.sampled_from(SILENCES))
    if silence == "escalate":
        within = within or 3
        steps = [Escalation(after_ms=within, to=draw(some))]
    risk = draw(st.sampled_from(RISKS))
    made = Require(
        approvers=draw(named),
        quorum=draw(st.sampled_from([1, 1, 1, 2])),
        reject_quorum=draw(st.sampled_from([1, 1, 2])),
        not_requester=draw(st.sampled_from([False, False, True])),
        within_ms=within,
        on_silence=silence,
        start_by_ms=draw(st.none() | st.integers(1, 5)),
        escalate_after_ms=steps[0].after_ms if steps else None,
        escalate_to=steps[0].to if steps else (),
        chain=tuple(steps[1:]),
        editable=draw(st.booleans()),
        on_reject=draw(st.sampled_from(["tell", "cancel"])),
    )
    return at_risk(made, risk)


rulings = st.just(Proceed()) | st.just(Forbid(why="never")) | requirements()


def end_of(ruling: Require) -> int:
    if ruling.within_ms is None:
        return 99
    return ruling.within_ms * (2 if ruling.on_silence == "escalate" else 1)


def deciders(ruling: Require, at: int, *, alone: bool = True) -> set[str]:
    """Who may decide a call when it has waited for so long, of those who are named anywhere."""
    if at >= end_of(ruling):
        return set()
    names = {*ruling.approvers}
    if not names and alone:
        names = {owner}
    if not names:
        return {*NAMES, "user:eve"}
    names.update(name for step in ruling.escalations if step.after_ms <= at for name in step.to)
    if anyone in names:
        return {*NAMES, "user:eve"}
    return names


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
        assert RISKS.index(result.risk) >= RISKS.index(one.risk)
        assert end_of(result) <= end_of(one)
        assert result.on_silence != "approve" or one.on_silence == "approve"
        assert one.editable or not result.editable
        assert one.on_reject == "tell" or result.on_reject == "cancel"
        assert result.quorum >= one.quorum
        assert result.reject_quorum <= one.reject_quorum
        assert result.not_requester >= one.not_requester
        assert one.start_by_ms is None or (result.start_by_ms or 99) <= one.start_by_ms
        for at in range(20):
            # One that names nobody leaves it to the others, if one of them does.
            alone = not any(each.approvers or each.escalations for each in demands)
            assert deciders(result, at) <= deciders(one, at, alone=alone)


def meaning(ruling: Ruling) -> object:
    """What a ruling comes to, without the order of what it names."""
    if not isinstance(ruling, Require):
        return type(ruling)
    when = tuple(frozenset(deciders(ruling, at)) for at in range(20))
    same = replace(
        ruling,
        approvers=(),
        escalate_after_ms=None,
        escalate_to=(),
        chain=(),
        within_ms=end_of(ruling),
        on_silence="reject" if ruling.on_silence == "escalate" else ruling.on_silence,
    )
    return same, when


@given(rulings, rulings)
def test_which_rule_comes_first_makes_no_difference(one: Ruling, two: Ruling):
    assert meaning(strictest(one, two)) == meaning(strictest(two, one))


@given(requirements())
def test_a_rule_that_is_there_twice_is_there_once(one: Require):
    assert meaning(strictest(one, one)) == meaning(strictest(one))


@given(rulings, rulings, rulings)
def test_how_rules_are_put_together_makes_no_difference(one: Ruling, two: Ruling, three: Ruling):
    at_once = strictest(one, two, three)
    first, last = strictest(strictest(one, two), three), strictest(one, strictest(two, three))

    # In parts it may be forbidden sooner: a part that nobody can satisfy is never taken up again.
    for in_parts in (first, last):
        if isinstance(at_once, Forbid):
            assert isinstance(in_parts, Forbid)
        elif not isinstance(in_parts, Forbid):
            assert meaning(in_parts) == meaning(at_once)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"quorum": 0}, "from 1 to 20"),
    ({"quorum": QUORUM_MAX + 1, "approvers": [FINANCE]}, "from 1 to 20"),
    ({"quorum": True, "approvers": [FINANCE]}, "from 1 to 20"),
    ({"quorum": 2.0, "approvers": [FINANCE]}, "from 1 to 20"),
    ({"reject_quorum": 0}, "reject_quorum is a number"),
    ({"reject_quorum": "2"}, "reject_quorum is a number"),
    ({"quorum": 2}, "a quorum of 2 of 1"),
    ({"quorum": 2, "approvers": [ANN]}, "a quorum of 2 of 1"),
    ({"quorum": 3, "approvers": [owner, ANN]}, "a quorum of 3 of 2"),
    ({"quorum": 2, "approvers": [ANN, ANN]}, "a quorum of 2 of 1"),
    ({"reject_quorum": 2, "approvers": [ANN]}, "a reject_quorum of 2 of 1"),
    ({"quorum": 2, "approvers": [owner, ANN], "not_requester": True}, "a quorum of 2 of 1"),
    ({"quorum": 2, "approvers": [FINANCE], "answered": True}, "an answer is one person's"),
    ({"reject_quorum": 2, "approvers": [FINANCE], "answered": True}, "an answer is one person's"),
    ({"not_requester": True}, "others than the owner"),
    ({"not_requester": True, "approvers": [owner]}, "others than the owner"),
    ({"not_requester": 1, "approvers": [ANN]}, "True or False"),
    ({"not_requester": None}, "True or False"),
    ({"start_by": "soon"}, "not a duration"),
    ({"start_by": 0}, "not a duration"),
    ({"remind_every": "59s"}, "a minute at least"),
    ({"remind_every": "often"}, "not a duration"),
    ({"escalate_after": "1h"}, "go together"),
    ({"escalate_to": BOB}, "go together"),
    ({"escalate_after": "1h", "escalate_to": []}, "go together"),
    ({"escalate_after": "1h", "escalate_to": "bob"}, "not an approver"),
    ({"escalate_after": "1h", "escalate_to": ["service:bank"]}, "not an approver"),
    ({"escalate_after": "1h", "escalate_to": 5}, "are not approvers"),
    ({"escalate_after": "later", "escalate_to": BOB}, "not a duration"),
    ({"escalate": 5}, "a list of pairs"),
    ({"escalate": "4h"}, "a list of pairs"),
    ({"escalate": [("4h",)]}, "a list of pairs"),
    ({"escalate": [("4h", BOB, CY)]}, "a list of pairs"),
    ({"escalate": {"4h": BOB}}, "a list of pairs"),
    ({"escalate": [("4h", [])]}, "names whom it goes to"),
    ({"escalate": [("4h", None)]}, "names whom it goes to"),
    ({"escalate": [("4h", "bob")]}, "not an approver"),
    ({"escalate": [("4h", BOB), ("4h", CY)]}, "one after another"),
    ({"escalate": [("4h", BOB), ("2h", CY)]}, "one after another"),
    ({"escalate_after": "4h", "escalate_to": BOB, "escalate": [("2h", CY)]}, "one after another"),
    ({"escalate": [(n + 1, BOB) for n in range(ESCALATIONS_MAX + 1)]}, "10 at most"),
    ({"escalate": [("4h", BOB)], "within": "4h"}, "would never come"),
    ({"escalate_after": "4h", "escalate_to": BOB, "within": "2h"}, "would never come"),
    ({"on_silence": "escalate", "escalate_to": BOB}, "needs `within`"),
    ({"on_silence": "escalate", "within": "1h"}, "takes escalate_to"),
    (
        {"on_silence": "escalate", "within": "1h", "escalate_to": BOB, "escalate_after": "1h"},
        "takes escalate_to",
    ),
    (
        {"on_silence": "escalate", "within": "1h", "escalate_to": BOB, "escalate": [("1h", CY)]},
        "takes escalate_to",
    ),
    ({"on_silence": "answer", "within": "1h"}, "is for questions"),
    ({"on_silence": "answer", "answered": True}, "needs `within`"),
    ({"on_silence": "answer", "within": "1h", "answered": True, "outside": True}, "questions"),
    ({"approvers": ["role:"]}, "not an approver"),
    ({"approvers": ["role: finance"]}, "not an approver"),
    ({"approvers": ["role:finance "]}, "not an approver"),
]


@pytest.mark.parametrize("setup, said", REFUSED)
def test_a_ruling_that_could_not_work_is_refused_when_it_is_made(setup: dict[str, Any], said: str):
    with pytest.raises(BadPolicy, match=said):
        require(**setup)


@pytest.mark.parametrize("setup, said", [one for one in REFUSED if "answered" not in one[0]])
def test_a_rule_refuses_what_a_ruling_refuses(setup: dict[str, Any], said: str):
    with pytest.raises(BadPolicy, match=said):
        Rule("pay", **setup)


def test_what_a_ruling_says_is_what_was_asked_for():
    made = require(
        approvers=[FINANCE],
        quorum=QUORUM_MAX,
        reject_quorum=2,
        not_requester=True,
        within="8h",
        start_by="30m",
        remind_every="1m",
        escalate_after="1h",
        escalate_to=LEAD,
        escalate=iter([("4h", [CY, ANN])]),
    )

    assert made == Require(
        approvers=(FINANCE,),
        quorum=20,
        reject_quorum=2,
        not_requester=True,
        within_ms=8 * HOUR,
        start_by_ms=HOUR // 2,
        remind_every_ms=60_000,
        escalate_after_ms=HOUR,
        escalate_to=(LEAD,),
        chain=(rung(4, CY, ANN),),
    )
    assert made.escalations == (rung(1, LEAD), rung(4, CY, ANN))
    assert Rule("pay", approvers=[FINANCE], quorum=2, name="").ruling == require(
        approvers=[FINANCE], quorum=2, rule="pay"
    )


def test_the_first_rung_may_be_one_of_a_list():
    made = require(escalate=[("1h", BOB), ("2h", CY)])

    assert (made.escalate_after_ms, made.escalate_to) == (HOUR, (BOB,))
    assert made.escalations == (rung(1, BOB), rung(2, CY))
    assert Require(chain=(rung(2, CY),)).escalations == (rung(2, CY),)
    assert require().escalations == ()


def test_silence_escalates_when_its_time_is_up():
    assert ESCALATES.escalations == (rung(1, LEAD),)
    assert ESCALATES.within_ms == HOUR


@pytest.mark.parametrize(
    "setup",
    [
        {"quorum": 2, "approvers": [ANN], "escalate_after": "1h", "escalate_to": BOB},
        {"quorum": 2, "approvers": [FINANCE]},
        {"quorum": 2, "approvers": [anyone]},
        {"quorum": 2, "approvers": [owner, ANN]},
        {"not_requester": True, "approvers": [ANN]},
        {"not_requester": True, "escalate_after": "1h", "escalate_to": BOB},
        {"on_silence": "answer", "within": "1h", "answered": True},
    ],
)
def test_a_ruling_that_could_work_is_made(setup: dict[str, Any]):
    assert required(strictest(require(**setup))) == require(**setup)


@pytest.mark.parametrize("one", [user("ann"), owner, anyone])
def test_one_approver_need_not_be_put_in_a_list(one: str):
    assert require(approvers=one).approvers == (one,)


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
    assert duration_ms(duration_text(ms)) == ms


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
