import importlib
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sayso import cli
from sayso.cli import main
from tests.cli.conftest import finish


def _walk(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _walk(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(_walk(main))


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


def test_help_lists_every_command_once_and_first_what_people_need():
    shown = CliRunner().invoke(main, ["--help"], prog_name="sayso").stdout

    found = re.findall(r"^  ([\w-]+) +[A-Z]", shown.partition("\nSee it work:\n")[2], re.MULTILINE)
    modules = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    assert found[:5] == ["demo", "inbox", "ls", "show", "approve"]
    assert len(found) == len(set(found))
    assert {name.replace("-", "_") for name in found} == {
        name for name in modules if isinstance(_command_in(name), click.Command)
    }


@pytest.mark.parametrize(
    "group", sorted({path[:-1] for path in COMMANDS if len(path) > 1}), ids=str
)
def test_no_help_in_a_list_is_cut_off(group):
    shown = CliRunner().invoke(main, [*group, "--help"], prog_name="sayso").stdout

    assert "..." not in shown.partition("\nCommands:\n")[2]


def _command_in(module):
    return getattr(importlib.import_module(f"sayso.cli.{module}"), module, None)


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
