import json
import re
import subprocess

from tests.cli.conftest import SAYSO, environment, finish


def test_a_run_is_shown_as_a_timeline_that_says_who_decided_what(run_cli, store):
    shown = run_cli("show", store, "run_1")

    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert lines[0] == "run_1: completed, agent teller"
    assert [line.split()[2] for line in lines if re.match(" *[0-9]+  ", line)] == [
        "started", "turn", "held", "suspended", "approved", "resumed", "call", "call", "turn",
        "completed",
    ]  # fmt: skip
    assert "hold 1 by mira, library, digest" in shown.stdout


def test_nothing_from_a_journal_reaches_the_terminal_unescaped(terminal, store):
    printed, code = finish(terminal("show", store, "run_1", NO_COLOR="1"))

    assert code == 0
    assert r"\u{1b}]0;owned\u{7}" in printed
    assert all(line.isprintable() for line in printed.split("\r\n"))


def test_arguments_are_below_the_turn_that_asks_for_them(run_cli, store):
    lines = run_cli("show", store, "run_1").stdout.splitlines()

    (turn,) = [at for at, line in enumerate(lines) if "call 1.0, pay" in line and "turn 1" in line]
    assert lines[turn + 1] == "        amount: 200.0"
    assert lines[turn + 2] == r'        recipient: "Jiro \u{1b}[2J\u{202e}"'
    assert lines[turn + 3].startswith("          - written as numbers: ")


def test_without_a_run_the_runs_are_listed(run_cli, store):
    listed = run_cli("show", store)

    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [
        ["run_3", "suspended"],
        ["run_2", "completed"],
        ["run_1", "completed"],
    ]


def test_json_has_every_entry_in_full_and_in_ascii(run_cli, store):
    shown = run_cli("show", store, "run_1", "--json").stdout
    listed = run_cli("show", store, "--json").stdout

    entries = [json.loads(line) for line in shown.splitlines()]
    assert shown.isascii()
    assert all(line.isprintable() for line in shown.splitlines())
    assert [entry["seq"] for entry in entries] == list(range(1, 11))
    assert entries[0]["event"]["input"] == "Pay \x1b]0;owned\x07 him"
    assert entries[1]["event"]["calls"][0]["args"]["recipient"] == "Jiro \x1b[2J\u202e"
    assert json.loads(listed.splitlines()[0])["id"] == "run_3"


def test_an_unknown_run_is_one_line_with_advice(run_cli, store):
    shown = run_cli("show", store, "run_\x1b")

    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.splitlines() == [shown.stderr.strip()]
    assert "`sayso show STORE` lists the runs" in shown.stderr
    assert shown.stderr.strip().isprintable()


def test_a_reader_that_goes_away_is_no_error(store):
    command = f"{SAYSO} show {store} run_1 | true"
    said = subprocess.run(
        ["sh", "-c", command], capture_output=True, env=environment(), timeout=60, text=True
    )

    assert said.stderr == ""
