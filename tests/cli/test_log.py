"""Lines of logs: what they say of runs and errors, and what they never say."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sayso.cli import main
from sayso.cli.log import JsonLines, TextLines

from .conftest import SAYSO

ROOT = Path(__file__).parents[2]


def record(message="%s is left alone", *args, error=None, **extra):
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.getLogger("sayso").makeRecord(
        "sayso", logging.WARNING, "loop.py", 7, message, args or ("run_1",), info, extra=extra
    )
    made.created = 1_700_000_000.25
    return made


def raised():
    try:
        try:
            raise LookupError("hunter2")
        except LookupError as error:
            raise ValueError("hunter2") from error
    except ValueError as error:
        return error


def test_a_line_of_json_says_what_it_is_about():
    line = JsonLines().format(record(run_id="run_1", hold_id="hold_1.2", args_of="hunter2"))

    assert json.loads(line) == {
        "at": "2023-11-14T22:13:20.250+00:00",
        "level": "warning",
        "logger": "sayso",
        "message": "run_1 is left alone",
        "run_id": "run_1",
        "hold_id": "hold_1.2",
    }


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
def test_what_is_said_cannot_look_like_a_line_of_its_own(lines):
    line = lines.format(record("%s", "gone\n2026-01-01 00:00:00 INFO sayso: all is well\x1b[2J"))

    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


@pytest.mark.parametrize("lines", [JsonLines(), TextLines()])
def test_of_an_error_there_are_types_and_places_and_no_messages(lines):
    said = record(error=raised())
    logging.Formatter().format(said)  # Somebody else's, who has put it down for all.
    line = lines.format(said)

    assert "ValueError" in line
    assert "LookupError" in line
    assert "test_log.py" in line
    assert "hunter2" not in line


def test_a_line_of_json_is_one_line_whatever_is_in_it():
    line = JsonLines().format(record("%s", "a\nb\x1b[31m\u2028", error=raised()))

    assert len(line.splitlines()) == 1
    assert json.loads(line)["error"] == "ValueError"


def test_lines_of_text_cannot_move_the_cursor():
    assert "\x1b" not in TextLines().format(record("%s", "\x1b[31m"))


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_processes_can_be_told_to_log_json(command):
    shown = CliRunner().invoke(main, [command, "--help"])

    assert "--log [text|json]" in shown.output


def test_a_worker_that_takes_a_run_over_logs_its_id_as_json(tmp_path):
    """The first one is killed inside of a call, by itself."""
    (tmp_path / "work.py").write_text(
        """
import os, signal, sys
from sayso import Agent, Sayso, tool
from sayso.testing import ScriptedModel, call, say

@tool(effect="none")
def look():
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)
    return "seen"

def turns(messages):
    return call("look") if len(messages) == 1 else say("done")

app = Sayso("work.db", agents=[Agent("a", model=ScriptedModel(turns), tools=[look])])

async def main():
    async with app:
        await (await app.start("a", "hunter2", by="mira", id="run_one")).wait(final=True)

if __name__ == "__main__":
    import asyncio
    asyncio.run(main())
""",
        encoding="utf-8",
    )
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    died = subprocess.run(
        [sys.executable, "work.py"], cwd=tmp_path, env={**env, "DIE": "1"}, timeout=60
    )
    assert died.returncode < 0

    done = subprocess.run(
        [SAYSO, "worker", "work:app", "--log", "json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["run_id"] for line in lines if "taken over" in line["message"]] == ["run_one"]
    assert "hunter2" not in done.stderr
