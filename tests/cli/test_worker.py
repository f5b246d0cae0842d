"""`sayso worker` as it is run in production: a process that is sent signals."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sayso import Agent, approve
from sayso.errors import BadSetup
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, say
from sayso.wired import only_working
from tests.cli.conftest import PATIENCE_S, SAYSO, environment

PROGRAM = """
import asyncio
import gc
import sys
from pathlib import Path
from sayso import Agent, Sayso, tool
from sayso.testing import ScriptedModel, call, say

@tool(approval=True, effect="once")
async def pay(amount: float) -> str:
    Path("busy").touch()
    while amount > 100 and not Path("go").exists():
        await asyncio.sleep(0.01)
    frozen = gc.get_freeze_count() > 10_000
    Path("paid").write_text(f"{sys.getswitchinterval()} {gc.get_threshold()[0]} {frozen}")
    return "paid"

def answer(messages):
    return call("pay", {"amount": float(messages[0].text)}) if len(messages) == 1 else say("Paid.")

teller = Agent("teller", model=ScriptedModel(answer), tools=[pay])
app = Sayso("here.db", agents=[teller])
desk = Sayso("here.db", agents=[teller], work=False)
idle = Sayso("here.db")
number = 7
"""


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "paying.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(params=["file", "database"])
def store(request, place) -> str:
    if request.param == "file":
        return f"sqlite:///{place / 'pay.db'}"
    cluster = request.getfixturevalue("postgres")
    user, database = cluster.schema(), cluster.database().partition("///")[2].partition("?")[0]
    cluster.execute(f"create role {user} superuser login")
    # Whoever has a password that nobody asks for can still give it away.
    return f"postgresql://{user}:s3cret-word@/{database}?host={cluster.data}"


@contextmanager
def working(place: Path, *args: str, command: str = "worker") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [SAYSO, command, "paying:app", *args],
        cwd=place,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _until(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.01)


def _start(store: object, amount: int) -> str:
    """Start a run, wait for its worker to ask, and say yes."""
    teller = Agent("teller", model=ScriptedModel([say("nobody asks it here")]))
    with Sayso(store, agents=[teller], work=False) as desk:
        run = desk.start("teller", str(amount), by="mira")
        (hold,) = run.wait(timeout=PATIENCE_S).holds
        desk.decide(hold, approve(), by="mira")
        return run.id


def _status(store: object, run_id: str) -> str:
    with Sayso(store, work=False) as desk:
        return desk.run(run_id).wait(final=True, timeout=PATIENCE_S).status


def test_a_worker_says_what_it_is_works_and_drains(place, store):
    with Sayso(store, work=False):
        pass
    with working(place, "--store", store, "--runs", "5") as worker:
        ready = worker.stdout.readline()
        run_id = _start(store, 10)
        status = _status(store, run_id)
        worker.send_signal(signal.SIGTERM)
        rest, words = worker.communicate(timeout=PATIENCE_S)

    assert ready.startswith("worker_")
    assert ready.endswith(": teller\n")
    assert "pay.db" in ready or "postgresql://test_" in ready
    assert "s3cret-word" not in ready + rest + words
    assert rest == ""
    assert status == "completed"
    assert worker.returncode == 0, words


@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")])
def test_threads_take_short_turns_in_a_process_that_serves_or_works(place, command):
    with working(place, *command[1:], command=command[0]) as process:
        process.stdout.readline()
        assert _status(place / "here.db", _start(place / "here.db", 10)) == "completed"

    assert (place / "paid").read_text() == "0.0005 10000 True"


def test_a_worker_waits_for_the_call_under_way(place):
    with working(place) as worker:
        worker.stdout.readline()
        run_id = _start(place / "here.db", 500)
        _until(place / "busy")
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        (place / "go").touch()
        _, words = worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode == 0, words
    assert (place / "paid").exists()
    assert run_id


@pytest.mark.parametrize("drain, code", [("0.05", 1), ("100", -signal.SIGINT)])
def test_a_call_that_takes_too_long_is_cut_off_and_said_so(place, drain, code):
    """After --drain, or at once if somebody insists."""
    with working(place, "--drain", drain) as worker:
        worker.stdout.readline()
        run_id = _start(place / "here.db", 500)
        _until(place / "busy")
        worker.send_signal(signal.SIGINT)
        if code < 0:
            end = time.monotonic() + PATIENCE_S
            while worker.poll() is None:
                assert time.monotonic() < end
                worker.send_signal(signal.SIGINT)
                time.sleep(0.05)
        _, words = worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode in ((1,) if code == 1 else (130, code)), words
    assert ("cut off" if code > 0 else "interrupted") in words
    assert not (place / "paid").exists()
    with Sayso(place / "here.db", work=False) as desk:
        assert desk.run(run_id).view().status == "running"


def test_a_worker_ends_when_its_store_is_for_newer_code(place, postgres):
    url = postgres.database()
    with working(place, "--store", url) as worker:
        worker.stdout.readline()
        name = url.partition("///")[2].partition("?")[0]
        postgres.execute("update sayso.store set version = 99, since = 99", name)
        _, words = worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode == 2
    assert "was brought up by a newer Sayso" in words.splitlines()[-1]
    assert "Traceback" not in words


@pytest.mark.parametrize(
    "name, word",
    [
        ("nothing:app", "no module 'nothing'"),
        ("paying:nothing", "not a Sayso"),
        ("paying:number", "not a Sayso"),
        ("paying", "module:app"),
        ("paying:desk", "work=False"),
        ("paying:idle", "no agents"),
    ],
)
def test_what_cannot_work_is_told_why(place, name, word):
    said = subprocess.run(
        [SAYSO, "worker", name],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert said.returncode == 2
    assert word in said.stderr
    assert said.stdout == ""
    assert "Traceback" not in said.stderr
    assert not (place / "here.db").exists()


def test_the_command_line_outweighs_the_app():
    from sayso import Sayso as Asynchronous

    app = Asynchronous("a.db", agents=[Agent("a", model=ScriptedModel([say("x")]))])

    other = only_working(app, "b.db", runs=3, drain_s=7.0)

    assert (other._bounds.runs_max, other._drain_s, other._where) == (3, 7.0, "b.db")
    assert (app._bounds.runs_max, app._drain_s, app._where) == (200, 30.0, "a.db")
    with pytest.raises(BadSetup):
        only_working(Asynchronous("a.db", work=False), runs=None, drain_s=None)
