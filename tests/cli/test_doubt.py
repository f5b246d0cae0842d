"""`sayso doubt`: a call in doubt as a card, and as JSON."""

import json
from pathlib import Path

import pytest

from sayso import Agent, approve, fail, tool
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say

from .conftest import PATIENCE_S


@pytest.fixture
def doubted(tmp_path: Path) -> tuple[Path, str, str]:
    """A store with a payment in doubt; the hold that let it start, and the one that asks."""

    @tool(approval=True, effect="once")
    def pay(amount: float, recipient: str) -> str:
        raise ConnectionResetError("the line went dead \x1b[2J")

    asked = {"amount": 12400.0, "recipient": "Jiro \x1b[2J\u202e"}
    model = ScriptedModel([call("pay", asked), say("x")])
    path = tmp_path / "pay.db"
    with Sayso(path, agents=[Agent("teller", model=model, tools=[pay])]) as app:
        run = app.start("teller", "Pay", by="mira")
        first = run.wait(timeout=PATIENCE_S).holds[0]
        app.decide(first, approve(), by="mira", note="as agreed\x9b31m")
        (hold,) = run.wait(timeout=PATIENCE_S).holds
        assert app.doubt(hold).hold == hold
    return path, first.id, hold.id


def test_the_card_says_what_is_known_and_what_can_be_said(run_cli, doubted):
    path, _, hold = doubted

    shown = run_cli("doubt", hold, "--db", path)

    assert shown.returncode == 0
    for part in (
        f"{hold}: Did pay happen?",
        "the line went dead",
        "approved by mira",
        "as agreed",
        "amount: 12400.0",
        "is gone",
        "answer(value)",
        "approve()",
        "reject('why')",
        "fail('why')",
    ):
        assert part in shown.stdout, part
    assert not set(shown.stdout) & {"\x1b", "\u202e", "\x9b"}


def test_the_card_as_json_has_the_very_bytes(run_cli, doubted):
    path, _, hold = doubted

    shown = run_cli("doubt", hold, "--db", path, "--json").stdout

    found = json.loads(shown)
    assert '"args":{"amount":12400.0,' in shown
    assert shown.isascii()
    assert (found["hold"], found["worker_is"], found["may_live"]) == (hold, "gone", False)
    assert found["decisions"][0]["note"] == "as agreed\x9b31m"
    assert [one["say"] for one in found["choices"]][1] == "approve()"


def test_a_doubt_that_is_settled_says_how(run_cli, doubted):
    path, _, hold = doubted
    with Sayso(path, work=False) as app:
        app.decide(hold, fail("who knows"), by="mira")

    shown = run_cli("doubt", hold, "--db", path).stdout

    assert "It is settled: errored by mira" in shown
    assert "answer(value)" not in shown


def test_what_is_no_doubt_is_refused_in_one_line(run_cli, doubted):
    path, first, _ = doubted
    for name in (first, "hold_nope.1"):
        said = run_cli("doubt", name, "--db", path)

        assert said.returncode == 2
        assert said.stderr.count("\n") == 1
