import json
import re

import msgspec
import pytest

from sayso import reject
from sayso.cli.demo_agent import PATIENCE_S, payments
from sayso.cli.demo_check import surprises
from sayso.cli.demo_plain import _approve, _play
from sayso.cli.demo_process import child, hear
from sayso.store.audit import Fault
from tests.cli.conftest import finish

PROMPT = r"Approve \(y\), edit the amount \(e\) or reject \(n\)\?"

# Runs in every process of the demo: the network and the extras are out of reach.
NOTHING_BUT_THE_CORE = """
import sys

EXTRAS = {"anthropic", "cryptography", "openai", "pydantic_ai", "rich"}

def refuse(event, args):
    # A tuple is an address on the network; a text is a socket among the files.
    dials = event in ("socket.connect", "socket.bind") and isinstance(args[1], tuple)
    if dials or event == "socket.getaddrinfo":
        raise RuntimeError("the demo wants the network")
    if event == "import" and args[0].partition(".")[0] in EXTRAS:
        raise RuntimeError(f"the demo wants {args[0]}")

sys.addaudithook(refuse)
"""


def test_headless_pays_once_and_leaves_nothing_behind(run_cli, tmp_path):
    said = run_cli("demo", "--plain", "--headless", TMPDIR=str(tmp_path))

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.endswith("\npayments made: 1\n")
    killed = re.search(r"kill -9 (\d+)\n +Process (\d+) is gone \(signal 9\)", said.stdout)
    assert killed
    assert killed[1] == killed[2]
    assert re.search(r"jonas is told: approved by mira at [\d:.]+ on digest", said.stdout)
    assert not list(tmp_path.iterdir())


def test_headless_needs_no_network_no_key_and_no_extra(run_cli, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NOTHING_BUT_THE_CORE)

    said = run_cli("demo", "--plain", "--headless", PYTHONPATH=str(tmp_path), OPENAI_API_KEY="")

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.endswith("\npayments made: 1\n")


def test_what_is_kept_can_be_looked_at_and_verified(run_cli, tmp_path):
    said = run_cli("demo", "--plain", "--headless", "--keep", tmp_path / "kept")

    store = tmp_path / "kept" / "demo.db"
    (paid,) = payments(tmp_path / "kept")
    assert f"A new process, {paid.pid}, has carried on" in said.stdout
    assert (paid.amount, paid.recipient, paid.key) == (200.0, "Jiro", "run_demo.1.0")
    assert run_cli("audit", "verify", store).returncode == 0
    assert run_cli("show", store, "run_demo").stdout.strip() in said.stdout


def test_a_directory_in_use_is_not_kept_in(run_cli, tmp_path):
    (tmp_path / "mine").touch()

    said = run_cli("demo", "--plain", "--headless", "--keep", tmp_path)

    assert said.returncode == 2
    assert "is not empty" in said.stderr


def test_a_person_approves(terminal, tmp_path):
    child = terminal("demo", "--plain", "--keep", tmp_path / "kept")
    child.expect(r"kill -9 \d+")
    child.expect(PROMPT)
    child.sendline("y")
    printed, code = finish(child)

    assert code == 0
    assert "payments made: 1" in printed
    assert "approved by mira" in printed
    assert [paid.amount for paid in payments(tmp_path / "kept")] == [200.0]


def test_a_person_edits_after_a_mistake(terminal, tmp_path):
    child = terminal("demo", "--plain", "--keep", tmp_path / "kept")
    child.expect(PROMPT)
    child.sendline("e")
    child.expect("New amount")
    child.sendline("-5")
    child.expect("is not in the range")
    child.expect("New amount")
    child.sendline("nan")
    child.expect("That cannot be")
    child.expect(PROMPT)
    child.sendline("maybe")
    child.expect("is not one of")
    child.expect(PROMPT)
    child.sendline("e")
    child.expect("New amount")
    child.sendline("12.5")
    printed, code = finish(child)

    assert code == 0
    assert "payments made: 1" in printed
    assert "The edit is version 2" in printed
    assert [paid.amount for paid in payments(tmp_path / "kept")] == [12.5]


def test_a_person_rejects(terminal, tmp_path):
    child = terminal("demo", "--plain", "--keep", tmp_path / "kept")
    child.expect(PROMPT)
    child.sendline("n")
    child.expect("Why not")
    child.sendline("too much")
    printed, code = finish(child)

    assert code == 0
    assert "payments made: 0" in printed
    assert "Not paid: too much." in printed
    assert "jonas is told: rejected by mira" in printed
    assert not payments(tmp_path / "kept")


def test_whoever_interrupts_decides_nothing(terminal, tmp_path, run_cli):
    child = terminal("demo", "--plain", "--keep", tmp_path / "kept")
    child.expect(PROMPT)
    child.sendintr()
    printed, code = finish(child)

    shown = run_cli("show", tmp_path / "kept" / "demo.db", "run_demo")
    assert code == 130
    assert "interrupted" in printed
    assert shown.stdout.startswith("run_demo: suspended")


def test_a_payment_too_many_is_reported_and_fails(terminal, tmp_path):
    child = terminal("demo", "--plain", "--keep", tmp_path / "kept")
    child.expect(PROMPT)
    stray = {"amount": 200.0, "recipient": "Jiro", "currency": "USD", "key": "?", "pid": 1}
    (tmp_path / "kept" / "payments.jsonl").write_text(json.dumps(stray) + "\n")
    child.sendline("y")
    printed, code = finish(child)

    assert code == 1
    assert "NOT AS PROMISED: exactly 1 payment" in printed
    assert "payments made: 2" in printed


def test_an_agent_that_cannot_start_is_reported_and_fails(run_cli, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'demo_agent' in str(sys.orig_argv): sys.exit(3)\n"
    )

    said = run_cli("demo", "--plain", "--headless", PYTHONPATH=str(tmp_path))

    assert said.returncode == 2
    assert "saying nothing" in said.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    return _play(tmp_path_factory.mktemp("demo"), _approve)


def test_a_good_story_has_no_surprises(story):
    assert surprises(story) == []


def twist(story, name):
    payment = story.payments[0]
    decision = story.decided.decision
    replace = msgspec.structs.replace
    return {
        "paid twice": {"payments": [payment, payment]},
        "not paid": {"payments": []},
        "paid more": {"payments": [replace(payment, amount=20_000.0)]},
        "paid by the wrong process": {"payments": [replace(payment, pid=1)]},
        "not suspended": {"before": {**story.before, "status": "running"}},
        "ended by itself": {"killed_with": 0},
        "decided by another": {"who": "jonas"},
        "decided otherwise": {"verdict": reject()},
        "decided on something else": {
            "decided": replace(story.decided, decision=replace(decision, digest="0" * 64))
        },
        "no decision": {"decided": replace(story.decided, decision=None)},
        "second click accepted": {"second": None},
        "second click told otherwise": {"second": replace(decision, at=1)},
        "not completed": {"row": replace(story.row, status="suspended")},
        "resumed into a failure": {"resumed": {**story.resumed, "status": "failed"}},
        "second resume did something": {"again": {**story.resumed, "output": "Paid again."}},
        "journal with a gap": {"journal": story.journal[1:]},
        "journal with two starts": {"journal": [*story.journal, story.journal[6]]},
        "broken chain": {"report": replace(story.report, faults=[Fault(run_id="r", what="x")])},
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "paid twice", "not paid", "paid more", "paid by the wrong process", "not suspended",
        "ended by itself", "decided by another", "decided otherwise", "decided on something else",
        "no decision", "second click accepted", "second click told otherwise", "not completed",
        "resumed into a failure", "second resume did something", "journal with a gap",
        "journal with two starts", "broken chain",
    ],
)  # fmt: skip
def test_every_surprise_is_noticed(story, name):
    assert surprises(msgspec.structs.replace(story, **twist(story, name)))


def test_without_a_person_the_pages_are_driven_over_http(run_cli, tmp_path):
    said = run_cli("demo", "--headless", "--keep", tmp_path / "kept")

    assert (said.returncode, said.stderr) == (0, "")
    assert re.search(r"kill -9 (\d+)\n +Process \1 is gone \(signal 9\)", said.stdout)
    assert "409: approved by mira already." in said.stdout
    assert "billing: Nobody knows whether it was done." in said.stdout
    assert "\npayments made: 1\n" in said.stdout
    (paid,) = payments(tmp_path / "kept")
    assert f"A new process, {paid.pid}, carries on" in said.stdout
    assert run_cli("audit", "verify", tmp_path / "kept" / "demo.db").returncode == 0


def test_the_server_ends_with_the_demo_however_that_ends(tmp_path):
    with child("sayso.cli.demo_server", str(tmp_path), "0") as server:
        assert hear(server)["url"].startswith("http://127.0.0.1:")
        assert server.stdin is not None
        server.stdin.close()  # As when a terminal is closed, and the demo is killed by that.

        assert server.wait(PATIENCE_S) == 0
