import json
from pathlib import Path

import pytest

from sayso import Agent, PolicyFile, answer, approve, ask_user, tool
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say
from tests.cli.conftest import PATIENCE_S, finish

POLICY = """\
version: 3
rules:
  - name: big payments
    tool: pay
    when: args.amount > 1000
    approvers: [user:ann]
    within: 4h
    risk: high
    why: "It is a lot \\e[2J."
  - tool: delete_*
    forbid: Nothing is deleted.
"""
RIGHT = """\
tests:
  - name: much
    tool: pay
    args: {amount: 2000}
    expect: hold
    approvers: [user:ann]
  - {tool: pay, args: {amount: 20}, expect: proceed}
  - {tool: delete_all, expect: forbid}
"""
WRONG = """\
  - name: "too \\e[2J little"
    tool: pay
    args: {amount: 1}
    expect: hold
  - {tool: pay, args: {amount: 2000}, expect: hold, approvers: [user:bob]}
"""


@pytest.fixture
def policy(tmp_path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + RIGHT)
    return path


@pytest.fixture
def held(tmp_path, policy) -> Path:
    """A store with a hold by the policy and the tool's flag, one by the flag, and a question."""

    @tool(approval=True, effect="once")
    def pay(amount: int) -> str:
        return "paid"

    script = [call("pay", {"amount": 2000}), call("pay", {"amount": 20})]
    script += [call("ask_user", {"question": "Which account?"}), say("Paid.")]
    agent = Agent("teller", model=ScriptedModel(script), tools=[pay, ask_user()])
    path = tmp_path / "pay.db"
    with Sayso(path, agents=[agent], policy=PolicyFile(policy)) as app:
        run = app.start("teller", "Pay", by="mira", id="run_1")
        app.decide(run.wait(timeout=PATIENCE_S).holds[0], approve(), by="ann")
        edited = run.wait(timeout=PATIENCE_S).holds[0]
        app.decide(edited, approve({"amount": 3000}), by="mira")
        app.decide(run.wait(timeout=PATIENCE_S).holds[0], approve(), by="ann")
        app.decide(run.wait(timeout=PATIENCE_S).holds[0], answer("mine"), by="mira")
        run.wait(final=True, timeout=PATIENCE_S)
    return path


def test_what_is_as_expected_is_exit_0(run_cli, policy):
    tried = run_cli("policy", "test", policy)

    assert tried.returncode == 0, tried.stderr
    lines = tried.stdout.splitlines()
    assert lines[0].split() == ["line", "example", "expected", "found"]
    assert [line.split()[0] for line in lines[1:4]] == ["ok"] * 3
    assert "hold for user:ann (big payments: It is a lot \\u{1b}[2J.)" in lines[1]
    assert lines[3].endswith("forbid (Nothing is deleted.)")
    assert lines[4].startswith(f"{policy}, version 3+")
    assert lines[4].endswith(": 3 as expected.")


def test_what_is_not_as_expected_is_exit_1(run_cli, policy):
    policy.write_text(POLICY + RIGHT + WRONG)

    tried = run_cli("policy", "test", policy)

    assert tried.returncode == 1
    lines = tried.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["ok"] * 3 + ["WRONG"] * 2
    assert "too \\u{1b}[2J little" in lines[4]
    assert lines[4].endswith("proceed")
    assert "hold for user:bob" in lines[5]
    assert "hold for user:ann" in lines[5]
    assert lines[6].endswith(": 2 of 5 wrong.")


def test_the_examples_may_be_in_a_file_of_their_own(run_cli, policy, tmp_path):
    policy.write_text(POLICY)
    cases = tmp_path / "cases.yaml"
    cases.write_text("tests: [{tool: pay, args: {amount: 1}, expect: forbid}]")

    tried = run_cli("policy", "test", policy, "--cases", cases)

    assert tried.returncode == 1
    assert "1 of 1 wrong" in tried.stdout


def test_json_has_one_line_an_example(run_cli, policy):
    policy.write_text(POLICY + RIGHT + WRONG)

    tried = run_cli("policy", "test", policy, "--json")

    found = [json.loads(line) for line in tried.stdout.splitlines()]
    assert tried.returncode == 1
    assert [one["ok"] for one in found] == [True, True, True, False, False]
    assert found[0]["rule"] == "big payments"
    assert (found[0]["found"], found[0]["approvers"]) == ("hold", ["user:ann"])


def test_what_is_wrong_is_red_on_a_terminal(terminal, policy):
    policy.write_text(POLICY + RIGHT + WRONG)

    printed, code = finish(terminal("policy", "test", policy))

    assert code == 1
    assert "\x1b[31mWRONG" in printed


@pytest.mark.parametrize("text", ["rules: []", "rules: []\ntests: []"])
def test_no_examples_at_all_is_exit_2(run_cli, policy, text):
    policy.write_text(text)

    tried = run_cli("policy", "test", policy)

    assert tried.returncode == 2
    assert "has no example calls" in tried.stderr


@pytest.mark.parametrize(
    "text, said",
    [
        ("rules:\n- tool: pay\n  risk: odd", ":3: risk: 'odd' is not a risk"),
        ("rules: []\ntests:\n- tool: pay\n  expekt: hold", ":4: expekt: unknown key"),
        ("rules: [", ":1: not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_exit_2_and_one_line(run_cli, policy, text, said):
    policy.write_text(text)

    tried = run_cli("policy", "test", policy)

    assert tried.returncode == 2
    assert tried.stdout == ""
    assert tried.stderr.startswith(f"sayso: {policy}{said}")
    assert tried.stderr.count("\n") == 1


def explained(run_cli, hold: str, path: Path) -> dict[str, str]:
    said = run_cli("policy", "explain", hold, "--db", path)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    return {"": lines[0], **{line[:17].strip(): line[17:].strip() for line in lines[1:]}}


def test_explain_says_why_a_call_was_held(run_cli, held):
    said = explained(run_cli, "hold_1.1", held)

    assert said[""] == "hold_1.1: may pay start?"
    assert said["rule"] == "big payments"
    assert said["tool flag"] == "yes"
    assert said["why"] == "It is a lot \\u{1b}[2J."
    assert said["policy version"].startswith("3+")
    assert said["approvers"] == "user:ann"
    assert said["risk"] == "high"
    assert said["on silence"] == "reject"
    assert said["edited"] == "no"
    assert (said["status"], said["decision"]) == ("settled", "approved by ann")


def test_explain_says_what_holds_after_an_edit(run_cli, held):
    said = explained(run_cli, "hold_1.2", held)

    assert (said["rule"], said["tool flag"], said["edited"]) == ("big payments", "yes", "yes")


def test_explain_knows_what_no_rule_demands(run_cli, held):
    said = explained(run_cli, "hold_1.3", held)

    assert said[""] == "hold_1.3: ask_user asks a question"
    assert "rule" not in said
    assert said["tool flag"] == "no"


def test_explain_as_json(run_cli, held):
    said = json.loads(run_cli("policy", "explain", "hold_1.1", "--db", held, "--json").stdout)

    assert said["rule"] == ["big payments"]
    assert said["tool_flag"] is True
    assert said["why"] == "It is a lot \x1b[2J."
    assert said["approvers"] == ["user:ann"]


@pytest.mark.parametrize("hold", ["hold_1.9", "hold_2.1", "run_1", "hold_1.01", ""])
def test_explain_of_what_is_no_hold_is_exit_2_and_one_line(run_cli, held, hold):
    said = run_cli("policy", "explain", hold, "--db", held)

    assert said.returncode == 2
    assert said.stderr.startswith(f"sayso: there is no hold {hold!r}")
    assert said.stderr.count("\n") == 1
