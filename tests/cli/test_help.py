import re
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from sayso.cli import main
from tests.cli.conftest import finish

COMMANDS = [(), ("demo",), ("show",), ("audit", "verify"), ("export",), ("adopt",)]
COMMANDS += [("policy", "test"), ("policy", "explain"), ("doctor",)]
COMMANDS += [("desk-key", "new"), ("desk-key", "show")]
COMMANDS += [("doubt",), ("worker",), ("migrate",)]
COMMANDS += [("doubt",), ("move",), ("archive",), ("serve",), ("token", "create")]
COMMANDS += [("ls",), ("approve",), ("reject",), ("answer",), ("inbox",), ("watch",), ("undo",)]
COMMANDS += [("remind",)]
COMMANDS += [("signin",), ("consent",), ("handover",), ("open",), ("run",), ("completion",)]
COMMANDS += [("rules", "ls"), ("rules", "add"), ("rules", "revoke"), ("audit", "list")]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(c) or "sayso" for c in COMMANDS])
def test_help_has_examples_that_name_the_command(command):
    # In this process: forty of their own would say nothing more.
    long, short = (
        CliRunner().invoke(main, [*command, option], prog_name="sayso")
        for option in ("--help", "-h")
    )

    assert long.exit_code == 0
    assert "Examples:\n" in long.stdout
    assert re.search(rf"^ +{' '.join(('sayso', *command))} ", long.stdout, re.MULTILINE)
    assert short.stdout == long.stdout


def test_help_lists_the_commands(run_cli):
    shown = run_cli("--help").stdout

    listed = shown.partition("Commands:\n")[2]
    found = re.findall(r"^  ([\w-]+) ", listed, re.MULTILINE)
    names = ["adopt", "answer", "approve", "archive", "audit", "completion", "consent", "demo"]
    names += ["desk-key", "doctor", "doubt", "export", "handover", "inbox", "ls", "migrate"]
    names += [
        "move",
        "open",
        "policy",
        "reject",
        "remind",
        "restored",
        "rules",
        "run",
        "serve",
        "show",
    ]
    names += ["signin", "token", "undo", "watch", "worker"]
    assert found == names


def test_the_version_is_the_one_installed(run_cli):
    assert run_cli("--version").stdout == f"sayso {version('sayso')}\n"


@pytest.mark.parametrize("args", [("nope",), ("show",), ("audit", "verify", "--nope")], ids=str)
def test_a_wrong_command_line_is_exit_2_without_a_traceback(run_cli, args):
    said = run_cli(*args)

    assert said.returncode == 2
    assert "Traceback" not in said.stderr
    assert "Error:" in said.stderr


def test_a_traceback_is_shown_to_whoever_asks_for_it(run_cli, store):
    plain = run_cli("show", store, "run_nobody")
    debug = run_cli("show", store, "run_nobody", SAYSO_DEBUG="1")

    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr
    assert "UnknownRun" in debug.stderr


def test_colours_are_for_terminals_that_want_them(terminal, run_cli, store):
    coloured, _ = finish(terminal("show", store, "run_1"))
    wanted_none, _ = finish(terminal("show", store, "run_1", NO_COLOR="1"))
    piped = run_cli("show", store, "run_1").stdout

    assert "\x1b[" in coloured
    assert "\x1b" not in wanted_none
    assert "\x1b" not in piped


def test_a_terminal_that_lacks_a_character_shows_the_rest(run_cli, tmp_path, store):
    said = run_cli("show", store, "run_žů", PYTHONIOENCODING="latin-1")

    assert said.returncode == 2
    assert r"run_\u017e\u016f" in said.stderr
