"""`sayso doctor`, as people use it: stores left by one program, and programs that have changed."""

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from sayso import approve
from sayso.store.keyring import VARIABLE
from sayso.store.migrate import APPLICATION_ID, released
from sayso.sync import Sayso
from tests.cli.conftest import PATIENCE_S, SAYSO, environment, finish

PROGRAM = """
import sayso.sync
from sayso import Agent, Sayso, tool
from sayso.testing import ScriptedModel, call, say

@tool(approval=True, effect="once"{more})
async def pay(amount: float, recipient: str) -> str:
    raise RuntimeError("nobody runs this")

teller = Agent("teller", model=ScriptedModel([say("x")]), tools=[{tools}])
app = Sayso("{store}", agents=[teller])

def make() -> Sayso:
    return Sayso("{store}", agents=[teller])

class Inner:
    app = app

synchronous = sayso.sync.Sayso("{store}", agents=[teller])

number = 7
"""


@pytest.fixture
def look(tmp_path):
    """Run the doctor where a program is; its directory is nobody else's."""
    tmp_path.chmod(0o700)

    def run(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SAYSO, "doctor", *map(str, args)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            env=environment(**env),
            timeout=PATIENCE_S,
        )

    return run


@pytest.fixture
def program(tmp_path):
    def write(store: object, tools: str = "pay", more: str = "") -> Path:
        path = tmp_path / "paying.py"
        path.write_text(PROGRAM.format(store=store, tools=tools, more=more))
        return path

    return write


def test_a_healthy_store_and_its_app_are_fine(look, program, store):
    program(store)

    said = look("paying:app")

    assert said.returncode == 0, said.stdout
    assert "problem" not in said.stdout
    assert said.stdout.splitlines()[-1].endswith("1 open run looked at.")
    assert said.stderr == ""
    assert not store.with_name("pay.db.keys").exists()


@pytest.mark.parametrize("name", ["paying:make", "paying:Inner.app", "paying:synchronous"])
def test_an_app_is_found_wherever_it_is(look, program, store, name):
    program(store)

    assert look(name).returncode == 0


def test_a_run_that_cannot_go_on_is_a_problem(look, program, store):
    program(store, tools="")

    said = look("paying:app")

    assert said.returncode == 1
    assert said.stdout.startswith("problem  tool: run_3: run_3.1.0 calls 'pay', which 'teller'")


def test_a_copy_of_a_store_is_held_against_an_app(look, program, store, tmp_path):
    program(tmp_path / "elsewhere.db", more=', version="2"')

    said = look("paying:app", "--store", store)

    assert said.returncode == 0
    assert "note     version: run_3: run_3.1.0 was asked for with version '1'" in said.stdout
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_store_alone_is_looked_over(look, store):
    said = look("--store", store)
    same = look("--db", store)

    assert said.returncode == same.returncode == 0
    assert "note     agent: no agents are known here, so 1 open run was not held" in said.stdout


def test_json_has_the_whole_report(look, program, store):
    program(store, tools="")

    said = look("paying:app", "--json")

    report = json.loads(said.stdout)
    assert said.returncode == 1
    assert (report["ok"], report["runs"], report["left_out"]) == (False, 1, {})
    names = {one["name"]: one["level"] for one in report["findings"]}
    assert names["tool"] == "problem"
    assert {"sqlite", "journal_mode", "synchronous", "mode", "quick_check"} <= names.keys()


def test_a_file_that_others_may_read_is_a_problem(look, store):
    store.chmod(0o644)

    said = look("--store", store)

    assert said.returncode == 1
    assert f"chmod 600 {store}" in said.stdout


def test_an_app_that_is_looked_at_does_no_work(look, program, store):
    program(store)
    before = entries_of(store)
    with Sayso(store, work=False) as app:
        app.decide(app.holds()[0], approve(), by="mira")
    decided = entries_of(store)

    said = look("paying:app")

    assert said.returncode == 0
    assert "nobody works here, and 1 run could go on" in said.stdout
    assert before < decided == entries_of(store)


def entries_of(path: Path) -> int:
    conn = apsw.Connection(str(path))
    found = conn.execute("select count(*) from journal").get
    conn.close()
    return found


def test_a_store_that_is_not_there_yet_is_not_made(look, program, tmp_path):
    program(tmp_path / "new.db")

    said = look("paying:app")

    assert said.returncode == 0
    assert "note     store: there is no store at" in said.stdout
    assert "ok       effect:" in said.stdout
    assert "memory" not in said.stdout
    assert not (tmp_path / "new.db").exists()


def test_a_store_that_cannot_be_opened_is_a_problem_and_hides_no_other(look, program, tmp_path):
    (tmp_path / "diary.db").write_bytes(b"Dear diary, " * 1000)
    program(tmp_path / "diary.db", more=', risk="high"')

    said = look("paying:app")

    assert said.returncode == 1
    assert "problem  store: the store cannot be opened:" in said.stdout
    assert "risk:" in said.stdout


def test_keys_that_others_may_read_are_a_problem(look, store):
    keys = store.with_name("pay.db.keys")
    keys.write_text("k1:x\n")
    keys.chmod(0o644)

    said = look("--store", store)

    assert said.returncode == 1
    assert "problem  keys: the keys cannot be used:" in said.stdout
    assert look("--store", store, **{VARIABLE: "nonsense"}).returncode == 1


def test_the_store_beside_is_the_one_that_is_looked_at(look, store, tmp_path):
    nothing = look()
    for suffix in ("", ".mark"):
        Path(f"{store}{suffix}").rename(tmp_path / f"sayso.db{suffix}")

    assert nothing.returncode == 2
    assert "name an app" in nothing.stderr
    assert look().returncode == 0


@pytest.mark.parametrize(
    "name, said",
    [
        ("paying", "does not name an app"),
        ("paying:", "does not name an app"),
        ("paying.py", "it is a file: --store paying.py"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("paying:nothing", "is nothing, not a Sayso"),
        ("paying:number", "is int, not a Sayso"),
    ],
)
def test_what_names_no_app_is_a_wrong_command_line(look, program, store, name, said):
    program(store)

    found = look(name)

    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "line, said",
    [
        ("raise RuntimeError('no \\x1b[2J luck')", "cannot be imported: RuntimeError: no \\u{1b}"),
        ("import sys; sys.exit(0)", "cannot be imported: RuntimeError: paying raised SystemExit"),
        ("import no_such_package", "there is no module 'no_such_package'"),
        ("def app(): raise ValueError('not today')", "cannot be imported: ValueError: not today"),
    ],
)
def test_a_program_that_does_not_import_is_a_wrong_command_line(look, tmp_path, line, said):
    (tmp_path / "paying.py").write_text(f"{line}\n")

    found = look("paying:app")

    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_an_older_store_is_left_as_it_is_unless_somebody_says_so(look, program, tmp_path):
    path = tmp_path / "old.db"
    conn = apsw.Connection(str(path))
    conn.execute(released()[0])
    conn.pragma("application_id", APPLICATION_ID)
    conn.pragma("user_version", 1)
    conn.close()
    path.chmod(0o600)
    program(path)

    said = look("paying:app")

    assert said.returncode == 0
    assert "warning  schema: the store has schema 1" in said.stdout
    assert "effect:" in said.stdout
    assert version_of(path) == 1
    assert "ok       schema:" in look("paying:app", "--upgrade").stdout
    assert version_of(path) == len(released())


def version_of(path: Path) -> int:
    conn = apsw.Connection(str(path))
    found = conn.pragma("user_version")
    conn.close()
    return found


def test_text_from_a_journal_is_shown_plainly(look, program, store):
    program(store, tools="")
    store.rename(store.with_name("pay\x1b[2J.db"))

    said = look("paying:app", "--store", store.with_name("pay\x1b[2J.db"))

    assert "\x1b" not in said.stdout


def test_on_a_terminal_there_is_a_progress_bar(terminal, store):
    printed, code = finish(terminal("doctor", "--store", store))

    assert code == 0
    assert "Looking at runs" in printed
    assert "100%" in printed


def test_many_findings_of_one_kind_are_cut_short(look, program, tmp_path):
    store = tmp_path / "many.db"
    program(store)
    leave = f"""
import asyncio, sys
sys.path.insert(0, {str(tmp_path)!r})
from sayso.testing import ScriptedModel, call, say
import paying

async def main():
    paying.teller._given_model = ScriptedModel(
        [call("pay", {{"amount": 1, "recipient": "x"}}), say("x")]
    )
    async with paying.make() as app:
        for _ in range(25):
            await (await app.start("teller", "Pay", by="mira")).wait(timeout=20)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", leave], check=True, timeout=PATIENCE_S)
    program(store, tools="")

    said = look("paying:app")

    assert said.returncode == 1
    assert said.stdout.count("problem  tool:") == 20
    assert "tool: 5 more; --json prints them" in said.stdout
    assert len(json.loads(look("paying:app", "--json").stdout)["findings"]) > 25
