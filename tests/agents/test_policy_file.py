"""A policy in a file: it rules as the same rules in Python, or is refused with line and key."""

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, example, given
from hypothesis import strategies as st

from sayso import CallFacts, Forbid, Policy, Principal, Proceed, Require, Rule, load_policy, user
from sayso.agents.policy_case import try_case
from sayso.agents.policy_file import KEYS, load_cases
from sayso.agents.policy_yaml import BYTES_MAX, NODES_MAX
from sayso.domain.ruling import RISKS, SILENCES, role
from sayso.errors import BadPolicy

WHOLE = """\
# Who is asked, and when.
version: 7
rules:
  - name: big payments
    tool: pay
    when: args.amount > 1000
    approvers: [user:ann, "user:bob"]
    within: 4h
    on_silence: fail
    on_reject: cancel
    risk: high
    title: A big payment
    why: >
      It is
      a lot.
    editable: false
    resolve: together
    siblings: hold
  - tool: refund
    approvers: role:finance
    quorum: 2
    reject_quorum: 3
    not_requester: true
    within: 1d
    start_by: 90
    remind_every: 1h
    escalate_after: 2h
    escalate_to: [role:lead]
    escalate:
      - after: 4h
        to: user:cfo
      - {after: 8h, to: [role:board, user:ceo]}
  - tool: delete_*
    forbid: Nothing is deleted.
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str | bytes, name: str = "policy.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def facts(tool: str = "pay", risk: str = "medium", **args: Any) -> CallFacts:
    by = Principal(id="mira")
    return CallFacts(
        tool=tool, args=args, by=by, agent="teller", project="p", run_id="run_1", risk=risk
    )


def test_every_argument_of_a_rule_can_be_written():
    assert set(KEYS) == set(inspect.signature(Rule).parameters)


def test_a_file_says_what_rules_in_python_say(write):
    policy = load_policy(write(WHOLE))

    same = Policy(
        Rule(
            "pay",
            when=lambda call: call.args["amount"] > 1000,
            approvers=[user("ann"), user("bob")],
            within="4h",
            on_silence="fail",
            on_reject="cancel",
            risk="high",
            title="A big payment",
            why="It is a lot.\n",
            editable=False,
            resolve="together",
            siblings="hold",
            name="big payments",
        ),
        Rule(
            "refund",
            approvers=[role("finance")],
            quorum=2,
            reject_quorum=3,
            not_requester=True,
            within="1d",
            start_by=90,
            remind_every="1h",
            escalate_after="2h",
            escalate_to=[role("lead")],
            escalate=[("4h", user("cfo")), ("8h", [role("board"), user("ceo")])],
        ),
        Rule("delete_*", forbid="Nothing is deleted."),
    )
    assert policy.rules[1].ruling == same.rules[1].ruling
    for one in (facts(amount=1001), facts(amount=1000), facts("delete_all"), facts("look")):
        assert policy.on(one) == same.on(one)


def test_the_version_says_which_file_it_was(write):
    one = load_policy(write(WHOLE)).version
    two = load_policy(write(WHOLE.replace("1000", "2000"))).version

    assert one.startswith("7+")
    assert two.startswith("7+")
    assert one != two
    assert load_policy(write(WHOLE)).version == one


@pytest.mark.parametrize(
    "text, version",
    [("'a b'", "a b"), ("1.10", "1.10"), ("2026-07-01", "2026-07-01"), ("010", "010")],
)
def test_a_version_is_kept_as_it_is_written(write, text, version):
    policy = load_policy(write(f"version: {text}\nrules: []"))

    assert policy.version.partition("+")[0] == version


def test_rules_in_python_stand_beside_it_and_the_most_strict_wins(write):
    path = write("rules: [{tool: pay, approvers: [user:ann, user:bob], within: 4h}]")

    both = load_policy(path, Rule("pay", approvers=[user("bob")]), Rule("look", forbid="no"))
    ruling = both.on(facts())

    assert isinstance(ruling, Require)
    assert (ruling.approvers, ruling.within_ms) == (("user:bob",), 4 * 3_600_000)
    assert both.on(facts("look")) == Forbid(why="no")


@pytest.mark.parametrize(
    "when, applies",
    [
        ("tool == 'pay'", True),
        ("args.amount >= 1000.5 && args.amount < 9007199254740993", True),
        ("args.to.name.startsWith('Ji')", True),
        ("'x' in args.tags", True),
        ("args.tags.exists(tag, tag == 'y')", False),
        ("has(args.note) && args.note != ''", False),
        ("args.nothing == null", True),
        ("by.id == 'mira' && by.kind == 'person'", True),
        ("agent == 'teller' && project == 'p' && run_id == 'run_1' && risk == 'medium'", True),
        ("args.yes", True),
        ("args.to.name.matches('^J.*o$')", True),
    ],
)
def test_a_condition_knows_the_call(write, when, applies):
    policy = load_policy(write(yaml.safe_dump({"rules": [{"tool": "pay", "when": when}]})))
    call = facts(amount=2**53, to={"name": "Jiro"}, tags=["x"], nothing=None, yes=True)

    ruling = policy.on(call)

    assert isinstance(ruling, Require if applies else Proceed), ruling
    if applies:
        assert "could not be applied" not in ruling.why


@pytest.mark.parametrize(
    "when, args",
    [
        ("args.amount > 1000", {}),
        ("args.amount > 1000", {"amount": "a lot"}),
        ("args.amount > 1000", {"amount": None}),
        ("args.amount > 1000", {"amount": 2**64}),
        ("args.amount > 1000", {"amount": 1, "other": "\ud800"}),
        ("args.flag", {"flag": "false"}),
        ("args.flag", {"flag": ""}),
        ("args.flag", {"flag": 0}),
        ("args.flag", {"flag": 1}),
        ("args.flag", {"flag": None}),
        ("args.flag", {"flag": []}),
        ("args.flag", {}),
        ("args.text.matches(args.text)", {"text": "["}),
        ("args.l.all(x, args.l.all(y, args.l.all(z, x + y + z >= 0)))", {"l": list(range(400))}),
        ("by.name == 'mira'", {}),
    ],
)
def test_a_condition_that_gives_no_bool_asks_a_person(write, when, args):
    rule = {"tool": "pay", "when": when, "approvers": "user:ann", "name": "big"}
    policy = load_policy(write(yaml.safe_dump({"rules": [rule]})))

    ruling = policy.on(facts(**args))

    assert isinstance(ruling, Require)
    assert ruling.approvers == ("user:ann",)
    assert "The rule 'big' could not be applied" in ruling.why


def test_what_a_condition_gives_instead_of_a_bool_is_not_told(write):
    policy = load_policy(write("rules: [{when: args.password}]"))

    ruling = policy.on(facts(password="hunter2"))

    assert isinstance(ruling, Require)
    assert "it gives string, not true or false" in ruling.why
    assert "hunter2" not in ruling.why


REFUSED = [
    # What is there, line, key, and a part of what is said.
    ("", 1, None, "the file is empty"),
    ("# nothing\n", 1, None, "the file is empty"),
    ("version: 1", 1, "rules", "a policy has rules"),
    ("- tool: pay", 1, None, "no mapping"),
    ("rules: {tool: pay}", 1, "rules", "no list"),
    ("rules:\n- pay", 2, "rules", "no mapping"),
    ("rules: []\nrulez: []", 2, "rulez", "unknown key"),
    ("rules:\n- tool: pay\n  wen: 'true'", 3, "wen", "unknown key"),
    ("rules:\n- tool: pay\n  risk: low\n  tool: get", 4, "tool", "twice, first on line 2"),
    ("rules: []\nrules: []", 2, "rules", "twice"),
    ("rules:\n- tool: no", 2, "tool", "put it in quotes"),
    ("rules:\n- tool: 5", 2, "tool", "put it in quotes"),
    ("rules:\n- tool: ''", 2, "tool", "names a tool"),
    ("rules:\n- tool: [pay]", 2, "tool", "no text"),
    ("rules:\n- why: 2026-01-01", 2, "why", "put it in quotes"),
    ("rules:\n- why:\n", 2, "why", "no value"),
    ("rules:\n- why: ~", 2, "why", "put it in quotes"),
    ('rules:\n- why: "\\ud800"', 2, "why", "surrogate"),
    ("rules:\n- editable: no", 2, "editable", "true or false"),
    ("rules:\n- editable: 'true'", 2, "editable", "true or false"),
    ("rules:\n- editable: [true]", 2, "editable", "true or false"),
    ("rules:\n- within: 0600", 2, "within", "not a duration"),
    ("rules:\n- within: 1:30", 2, "within", "not a duration"),
    ("rules:\n- within: 1_000", 2, "within", "not a duration"),
    ("rules:\n- within: 0x10", 2, "within", "not a duration"),
    ("rules:\n- within: .inf", 2, "within", "not a duration"),
    ("rules:\n- within: -5", 2, "within", "not a duration"),
    ("rules:\n- within: 4 hours", 2, "within", "not a duration"),
    ("rules:\n- within: 0", 2, "within", "between a millisecond"),
    ("rules:\n- within: true", 2, "within", "put it in quotes"),
    ("rules:\n- risk: extreme", 2, "risk", "not a risk"),
    ("rules:\n- on_silence: maybe\n  within: 1h", 2, "on_silence", "not a silence"),
    ("rules:\n- tool: x\n  on_silence: fail", 3, "on_silence", "needs `within`"),
    (
        "rules:\n- within: 1h\n  on_silence: approve\n  risk: high",
        3,
        "on_silence",
        "silence must not approve",
    ),
    ("rules:\n- on_reject: shout", 2, "on_reject", "'tell' or 'cancel'"),
    ("rules:\n- resolve: together\n  siblings: halt", 2, "resolve", "use one of"),
    ("rules:\n- siblings: sing", 2, "siblings", "use one of"),
    ("rules:\n- risk: extreme\n  on_reject: shout", 2, "risk", "not a risk"),
    ("rules:\n- approvers: []", 2, "approvers", "at least one approver"),
    ("rules:\n- approvers: ann", 2, "approvers", "not an approver"),
    ("rules:\n- approvers: [role:]", 2, "approvers", "without a space"),
    ("rules:\n- approvers: [role: finance]", 2, "approvers", "write role:finance"),
    ("rules:\n- quorum: two", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: 2.0", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: '2'", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: 0x2", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: 02", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: [2]", 2, "quorum", "a whole number"),
    ("rules:\n- quorum: 0", 2, "quorum", "from 1 to 20"),
    ("rules:\n- quorum: 2", 2, "quorum", "can never be reached"),
    ("rules:\n- approvers: role:x\n  reject_quorum: 21", 3, "reject_quorum", "from 1 to 20"),
    ("rules:\n- not_requester: yes", 2, "not_requester", "true or false"),
    ("rules:\n- not_requester: true", 2, "not_requester", "others than the owner"),
    ("rules:\n- start_by: soon", 2, "start_by", "not a duration"),
    ("rules:\n- remind_every: 30s", 2, "remind_every", "a minute at least"),
    ("rules:\n- escalate_after: 1h", 2, "escalate_after", "go together"),
    ("rules:\n- escalate_to: role:lead", 2, "escalate_to", "go together"),
    ("rules:\n- escalate: 4h", 2, "escalate", "no list"),
    ("rules:\n- escalate:\n  - 4h", 3, "escalate", "no mapping"),
    ("rules:\n- escalate:\n  - after: 4h", 3, "to", "after how long, and to whom"),
    ("rules:\n- escalate:\n  - to: user:ann", 3, "after", "after how long, and to whom"),
    ("rules:\n- escalate:\n  - after: 4h\n    to: ann", 3, "escalate", "not an approver"),
    ("rules:\n- escalate:\n  - {after: 4h, to: user:a, by: x}", 3, "by", "unknown key"),
    ("rules:\n- approvers: [service:bank]", 2, "approvers", "not an approver"),
    ("rules:\n- approvers: [user: ann]", 2, "approvers", "without a space"),
    ("rules:\n- approvers:\n  - user:ann\n  - no", 4, "approvers", "put it in quotes"),
    ("rules:\n- forbid: ''", 2, "forbid", "says why"),
    ("rules:\n- forbid: never\n  approvers: owner", 3, "approvers", "nobody is asked"),
    ("rules:\n- when: true", 2, "when", "put it in quotes"),
    ("rules:\n- when: ''", 2, "when", "not CEL"),
    ("rules:\n- when: argz.x > 1", 2, "when", "undeclared reference to 'argz.x'"),
    ("rules:\n- when: now() > 1", 2, "when", "undeclared reference to 'now'"),
    ("rules:\n- when: tool > 1", 2, "when", "no matching overload"),
    ("rules:\n- when: args.x >", 2, "when", "Syntax error"),
    ("rules:\n- when: tool", 2, "when", "gives string"),
    ("rules:\n- when: '1'", 2, "when", "gives int"),
    ("rules:\n- when: |\n    tool == 'x' &&\n    nope", 4, "when", "'nope', at its line 2"),
    ("rules:\n- when: " + "(" * 40 + "true" + ")" * 40, 2, "when", "recursion limit"),
    ("rules:\n- when: " + " || ".join(["true"] * 700), 2, "when", "longer than 4000"),
    ("rules: []\nversion:", 2, "version", "no value"),
    ("rules: []\nversion: ''", 2, "version", "empty"),
    ("rules: []\nversion: no", 2, "version", "put it in quotes"),
    ("rules: []\nversion: [1]", 2, "version", "no text"),
    ("rules: []\nno: 1", 2, "no", "put it in quotes"),
    ("rules: []\n1: 1", 2, "1", "put it in quotes"),
    ("rules: []\n? [a]\n: 1", 2, None, "not a collection"),
    ("base: &b {}\n<<: *b", 1, "base", "unknown key"),
    ("rules:\n- &b {tool: pay}\n- <<: *b", 3, "rules", "merged"),
    ("rules:\n\t- tool: pay", 2, None, "'\\t' that cannot start"),
    ("rules: [", 1, None, "not YAML"),
    ("rules: []\n---\nrules: []", 2, None, "another document"),
    ("rules: *nobody", 1, None, "undefined alias"),
    ("rules: !!python/object/apply:os.system [ls]", 1, "rules", "no list"),
    ("rules: !rules []", 1, "rules", "no list"),
    ("rules: []\n\x01", 2, None, "special characters"),
    ('rules: "\\U99999999"', 1, None, "not YAML"),
    (b"rules: []\n# \xff", 2, None, "not UTF-8"),
    ("rules: []".encode("utf-16"), 1, None, "not UTF-8"),
    ("[" * 50_000, 1, None, "nested too deeply"),
    ("#" * (BYTES_MAX + 1), 1, None, "larger than 256 KiB"),
    ("rules: &r [*r]", 1, "rules", "no mapping"),
    ("rules: []\ntests: [{tool: x, expect: hold, args: &a {a: *a}}]", 2, "a", "deeper than"),
    ("rules: []\ntests:\n- tool: x", 3, "expect", "needs it"),
    ("rules: []\ntests:\n- {tool: x, expect: maybe}", 3, "expect", "none of proceed"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, risk: odd}", 3, "risk", "none of low"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, args: [1]}", 3, "args", "mapping"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, args: {n: 010}}", 3, "n", "quotes"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, args: {n: 1e5}}", 3, "n", "quotes"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, args: {n: no}}", 3, "n", "quotes"),
    ("rules: []\ntests:\n- {tool: x, expect: proceed, approvers: owner}", 3, "approvers", "nobody"),
    ("rules: []\ntests:\n- {tool: x, expect: hold, approvers: ann}", 3, "approvers", "not an"),
]


@pytest.mark.parametrize("text, line, key, said", REFUSED, ids=[repr(r[0])[:60] for r in REFUSED])
def test_what_cannot_be_used_is_refused_with_line_and_key(write, text, line, key, said):
    path = write(text)

    with pytest.raises(BadPolicy) as refused:
        load_policy(path)

    message = str(refused.value)
    assert (refused.value.line, refused.value.key) == (line, key), message
    assert message.startswith(f"{path}:{line}: ")
    assert said in message
    assert "\n" not in message


def test_aliases_are_followed_so_far_and_no_further(write):
    people = "tests: []\nrules:\n- approvers: &people [user:ann, user:bob]\n- approvers: *people"
    bomb = "rules: []\ntests: [{tool: x, expect: hold, args: {a: &a0 [x, x, x, x, x, x, x, x, x]"
    for n in range(9):
        bomb += f", b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]"

    shared = load_policy(write(people))
    with pytest.raises(BadPolicy, match=f"more than {NODES_MAX} values"):
        load_policy(write(f"{bomb}}}}}]"))

    assert [rule.ruling.approvers for rule in shared.rules] == [("user:ann", "user:bob")] * 2


@pytest.mark.parametrize("make", [lambda path: path, lambda path: path / "policy.yaml"])
def test_a_file_that_cannot_be_read_is_no_policy(tmp_path, make):
    with pytest.raises(BadPolicy, match="cannot be read"):
        load_policy(make(tmp_path))


@pytest.mark.parametrize("module", ["yaml", "cel_expr_python.cel"])
def test_without_the_extra_it_says_which_one_it_takes(write, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(BadPolicy, match=r'pip install "sayso\[policy\]"'):
        load_policy(write(WHOLE))


def test_a_mark_at_the_beginning_does_not_matter(write):
    assert load_policy(write(b"\xef\xbb\xbfrules: []")).rules == ()


def test_examples_are_read_as_json_would_be(write):
    path = write(
        "tests:\n"
        "- name: one\n"
        "  tool: pay\n"
        "  args: {n: 12, f: 1.5, b: true, x: null, s: 'no', l: [-1, text], m: {a: b}}\n"
        "  by: ann\n"
        "  agent: a\n"
        "  project: p\n"
        "  risk: high\n"
        "  expect: hold\n"
        "  approvers: user:ann\n"
        "- {tool: look, expect: proceed}\n"
    )

    one, two = load_cases(path)

    assert one.facts.args == {
        "n": 12, "f": 1.5, "b": True, "x": None, "s": "no", "l": [-1, "text"], "m": {"a": "b"},
    }  # fmt: skip
    assert (one.name, one.line, one.expect, one.approvers) == ("one", 2, "hold", ("user:ann",))
    assert (one.facts.by.id, one.facts.agent, one.facts.risk) == ("ann", "a", "high")
    assert (two.name, two.facts.args, two.approvers) == ("look", {}, None)


def test_a_file_without_examples_has_none(write):
    assert load_cases(write("rules: []")) == []


def test_an_example_is_right_if_word_and_approvers_are(write):
    rules = "[{tool: pay, approvers: [user:ann, user:bob]}, {tool: ask}, {tool: x, forbid: y}]"
    policy = load_policy(write(f"rules: {rules}"))
    cases = load_cases(
        write(
            "tests:\n"
            "- {tool: pay, expect: hold}\n"
            "- {tool: pay, expect: hold, approvers: [user:bob, user:ann]}\n"
            "- {tool: pay, expect: hold, approvers: [user:ann]}\n"
            "- {tool: pay, expect: proceed}\n"
            "- {tool: ask, expect: hold, approvers: owner}\n"
            "- {tool: look, expect: hold}\n"
            "- {tool: x, expect: forbid}\n"
            "- {tool: x, expect: hold}\n",
            "cases.yaml",
        )
    )

    right = [True, True, False, False, True, False, True, False]
    assert [try_case(policy, case).ok for case in cases] == right


def test_an_example_may_say_how_many_are_asked(write):
    path = write(
        "rules:\n- {tool: pay, approvers: role:finance, quorum: 2, not_requester: true}\n"
        "tests:\n"
        "- {tool: pay, expect: hold, quorum: 2, not_requester: true}\n"
        "- {tool: pay, expect: hold, quorum: 1}\n"
        "- {tool: pay, expect: hold, not_requester: false}\n"
    )

    tried = [try_case(load_policy(path), case) for case in load_cases(path)]

    assert [one.ok for one in tried] == [True, False, False]
    assert (tried[0].quorum, tried[0].not_requester) == (2, True)
    for word in ("quorum: 2", "not_requester: true"):
        with pytest.raises(BadPolicy, match="nobody is asked where proceed is expected"):
            load_cases(write(f"rules: []\ntests:\n- {{tool: x, expect: proceed, {word}}}"))


CONDITIONS: dict[str, Any] = {
    "args.n > 10": lambda call: call.args["n"] > 10,
    "tool == 'pay' || args.n == 3": lambda call: call.tool == "pay" or call.args["n"] == 3,
    "args.s.startsWith('a')": lambda call: call.args["s"].startswith("a"),
    "risk in ['high', 'critical']": lambda call: call.risk in ("high", "critical"),
    "has(args.gone)": lambda call: "gone" in call.args,
    "args.gone == 1": lambda call: call.args["gone"] == 1,
    "args.n": lambda call: call.args["n"],
    "size(args.s) > 3": lambda call: len(call.args["s"]) > 3,
}
WHO = st.sampled_from(["owner", "anyone", "user:ann", "user:bob", "role:x", "ann", "no"])
COMMON = {
    "tool": st.sampled_from(["*", "pay", "p*", "look", "no", "1"]),
    "when": st.sampled_from(sorted(CONDITIONS)),
    "name": st.text(max_size=8),
}
ASKING = {
    **COMMON,
    "approvers": st.lists(WHO, max_size=3),
    "within": st.sampled_from(["4h", "1h30m", "2 d", "0s", "x", 30, 1.5, 0, 1e17]),
    "on_silence": st.sampled_from([*SILENCES, "maybe"]),
    "quorum": st.sampled_from([0, 1, 2, 21]),
    "reject_quorum": st.sampled_from([0, 1, 2, 21]),
    "not_requester": st.booleans(),
    "start_by": st.sampled_from(["4h", 30, "x"]),
    "remind_every": st.sampled_from(["4h", 30, "x"]),
    "escalate_after": st.sampled_from(["1h", 30, "9h"]),
    "escalate_to": st.lists(WHO, max_size=2),
    "on_reject": st.sampled_from(["tell", "cancel", "no"]),
    "risk": st.sampled_from([*RISKS, "odd"]),
    "title": st.text(max_size=8),
    "why": st.text(max_size=8),
    "editable": st.booleans(),
    "resolve": st.sampled_from(["each", "together", "latest", "all"]),
    "siblings": st.sampled_from(["run", "hold", "halt", "in_order"]),
}
WORKING = {
    **{key: value for key, value in ASKING.items() if not key.startswith("escalate")},
    "approvers": st.lists(st.sampled_from(["anyone", "user:ann", "user:bob"]), min_size=1),
    "within": st.sampled_from(["4h", "2 d", 30, 1.5]),
    "on_silence": st.just("reject"),
    "on_reject": st.sampled_from(["tell", "cancel"]),
    "risk": st.sampled_from(RISKS),
    "resolve": st.just("each"),
    "quorum": st.just(1),
    "reject_quorum": st.just(1),
    "not_requester": st.just(False),
    "start_by": st.sampled_from(["4h", 30]),
    "remind_every": st.sampled_from(["4h", 60]),
}
RULES = st.lists(
    st.one_of(
        st.fixed_dictionaries({}, optional=WORKING),
        st.fixed_dictionaries({}, optional=WORKING),
        st.fixed_dictionaries({}, optional=ASKING),
        st.fixed_dictionaries({"forbid": st.text(max_size=8)}, optional=COMMON),
    ),
    max_size=4,
)


def in_python(rules: list[dict[str, Any]]) -> Policy | None:
    try:
        made = [
            Rule(**{**rule, "when": CONDITIONS[rule["when"]]} if "when" in rule else rule)
            for rule in rules
        ]
    except BadPolicy:
        return None
    return Policy(*made)


def in_yaml(path: Path, rules: list[dict[str, Any]]) -> Policy | None:
    path.write_text(yaml.safe_dump({"rules": rules}), encoding="utf-8")
    try:
        return load_policy(path)
    except BadPolicy as error:
        assert error.line
        assert error.key
        return None


def said(ruling: Any) -> Any:
    # How a condition broke is told in other words.
    why = getattr(ruling, "why", "")
    return str(ruling).replace(repr(why), "...") if "could not be applied" in why else ruling


@given(
    rules=RULES,
    tool=st.sampled_from(["pay", "look", "play"]),
    risk=st.sampled_from(RISKS),
    n=st.integers(-100, 100),
    s=st.text(max_size=5),
)
def test_a_file_rules_exactly_as_the_same_rules_in_python(
    tmp_path_factory, rules, tool, risk, n, s
):
    path = tmp_path_factory.getbasetemp() / "same.yaml"

    one, two = in_python(rules), in_yaml(path, rules)

    event(f"refused: {one is None}")
    assert (one is None) == (two is None)
    if one is not None and two is not None:
        call = facts(tool, risk, n=n, s=s)
        assert said(two.on(call)) == said(one.on(call))


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.lists(st.sampled_from([*WHOLE.splitlines(keepends=True), "&a ", "*a", "\t", "? ", "[{"]))
        .map("".join)
        .map(str.encode),
    )
)
@example(b'"\\')
@example(b"%YAML 99999999999999999999.1\n---\n")
@example(b"!<tag:yaml.org,2002:map> rules: []")
def test_whatever_is_in_a_file_it_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)

    try:
        load_policy(path)
    except BadPolicy as refused:
        assert refused.line
