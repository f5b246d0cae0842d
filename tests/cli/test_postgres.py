"""Every command on a store in PostgreSQL, named in every way there is."""

import base64
import json

import pytest
from click.testing import CliRunner, Result

from sayso import Agent, approve, tool
from sayso.cli import main
from sayso.store.keyring import VARIABLE as KEYS
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say
from tests.cli.conftest import PATIENCE_S

RING = f"k1:{base64.b64encode(bytes(32)).decode()}"


def _fill(url: str) -> None:
    """Put in two finished runs, one that waits, and one whose call is in doubt."""

    @tool(approval=True, effect="once")
    def pay(amount: float, recipient: str) -> str:
        if amount > 1000:
            raise TimeoutError("no answer")
        return f"paid {recipient}"

    def turn(messages):
        asked = {"amount": float(messages[0].text), "recipient": "Jiro"}
        return call("pay", asked) if len(messages) == 1 else say("Paid.")

    with Sayso(url, agents=[Agent("teller", model=ScriptedModel(turn), tools=[pay])]) as app:
        for name, amount in (("run_1", 5), ("run_2", 6), ("run_3", 7), ("run_4", 5000)):
            run = app.start("teller", str(amount), by="mira", id=name)
            (hold,) = run.wait(timeout=PATIENCE_S).holds
            if name != "run_3":
                app.decide(hold, approve(), by="mira")
                run.wait(final=name != "run_4", timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def pay(postgres) -> str:
    """The address of a store that tests only look at."""
    url = postgres.database()
    _fill(url)
    return url


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0, **env: str) -> Result:
        given = {KEYS: RING, "SAYSO_STORE": None, **env}
        said = CliRunner().invoke(main, args, env=given, prog_name="sayso")
        assert said.exit_code == code, said.output
        return said

    return run


def test_what_is_in_a_database_is_shown(run, pay, tmp_path):
    listed = run("show", pay).stdout
    by_option = run("show", "--store", pay, "run_1").stdout
    by_environment = run("show", "run_1", SAYSO_STORE=pay).stdout

    assert [line.split()[0] for line in listed.splitlines()] == ["run_4", "run_3", "run_2", "run_1"]
    assert by_option == by_environment
    assert "approved" in by_option
    assert run("show", pay, "run_1", SAYSO_STORE="nowhere.db").stdout == by_option
    assert list(tmp_path.iterdir()) == []


def test_what_auditors_ask_of_a_database(run, pay):
    report = json.loads(run("audit", "verify", pay, "--json").stdout)
    assert (report["ok"], report["runs"]) == (True, 4)
    assert "all as written" in run("audit", "verify", SAYSO_STORE=pay).stdout

    key = run("audit", "key", pay).stdout.strip()
    assert "covers" in run("audit", "seal", pay, "--out", "pay.seals").stdout
    run("audit", "verify", pay, "--seals", "pay.seals", "--key", key)

    lines = run("audit", "export", "--store", pay).stdout.splitlines()
    assert [json.loads(line)["what"] for line in lines].count("approved") == 3
    assert run("audit", "refused", pay).stdout == ""
    erased = run("audit", "retain", pay, "--older-than", "90d", "--dry-run", "--json").stdout
    assert json.loads(erased)["runs"] == 0


def test_holds_of_a_database_are_explained(run, pay):
    doubt = json.loads(run("doubt", "hold_4.2", "--db", pay, "--json").stdout)
    held = json.loads(run("policy", "explain", "hold_3.1", "--store", pay, "--json").stdout)

    assert (doubt["tool"], doubt["status"]) == ("pay", "open")
    assert (held["tool_flag"], held["status"]) == (True, "open")


def test_a_run_leaves_a_database_and_comes_into_another(run, pay, postgres):
    other = postgres.database()
    run("migrate", other)

    run("export", "run_3", "--store", pay, "-o", "run.json")
    run("adopt", "run.json", SAYSO_STORE=other)

    assert "run_3" in run("show", other).stdout
    assert "all as written" in run("audit", "verify", other).stdout


def test_the_doctor_looks_a_database_over_and_leaves_it_be(run, pay, postgres):
    said = run("doctor", "--store", pay).stdout
    assert "keeps what it has acknowledged" in said
    assert run("doctor", SAYSO_STORE=pay).stdout == said
    empty = postgres.database()
    assert "no store of Sayso" in run("doctor", "--store", empty, code=1).stdout
    assert _schemas(postgres, empty) == []


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("audit", "verify"),
        ("audit", "seal"),
        ("audit", "key"),
        ("audit", "export"),
        ("audit", "refused"),
        ("audit", "retain", "--older-than", "1d"),
        ("doubt", "hold_1.1"),
        ("policy", "explain", "hold_1.1"),
        ("export", "run_1"),
    ],
    ids=" ".join,
)
def test_looking_at_a_database_makes_no_store(run, postgres, command):
    url = postgres.database()

    said = run(*command, "--store", url, code=2)

    assert "there is no store of Sayso" in said.stderr
    assert _schemas(postgres, url) == []


def _schemas(postgres, url: str) -> list:
    name = url.partition("///")[2].partition("?")[0]
    return postgres.execute("select 1 from pg_namespace where nspname = 'sayso'", name)


@pytest.mark.parametrize(
    "args, word",
    [
        (("show",), "name the store"),
        (("show", "postgresql://ann:s3cret-word@127.0.0.1:1/pay"), "running"),
        (("show", "postgresql://ann:s3cret-word@x@y/pay"), "%40"),
        (("show", "postgres:/ann:s3cret-word@x/pay"), "postgresql://"),
        (("show", "mysql://ann:s3cret-word@x/pay"), "kind of store"),
        (("show", "memory:"), "memory"),
        (("show", "nowhere.db"), "does not exist"),
        (("show", "."), "is no file"),
        (("show", "a", "b", "postgresql://ann:s3cret-word@x/pay"), "does not exist"),
        (("migrate", "postgresql://ann:s3cret-word@127.0.0.1:1/pay"), "running"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1][:12],
)
def test_a_store_that_is_named_wrong_is_said_so_without_the_password(run, args, word):
    said = run(*args, code=2)

    assert word in said.stderr
    assert "s3cret-word" not in said.stderr + said.stdout
    assert "Traceback" not in said.stderr


def test_too_many_arguments_are_not_repeated(run, tmp_path):
    (tmp_path / "pay.db").touch()

    said = run("audit", "verify", "--store", "pay.db", "postgresql://a:s3cret-word@x/p", code=2)

    assert "too many" in said.stderr
    assert "s3cret-word" not in said.stderr


def test_a_bad_variable_is_named(run):
    assert "SAYSO_STORE" in run("show", SAYSO_STORE="nowhere.db", code=2).stderr


def test_a_store_is_migrated_and_says_how_far_it_is(run, postgres):
    url = postgres.database()

    pending = run("migrate", url, "--check", code=1)
    assert "version 0 of" in pending.stdout
    assert _schemas(postgres, url) == []
    made = run("migrate", url)
    assert "brought from version 0 to" in made.stdout
    assert "migration 1 of" in made.stderr
    assert "nothing is pending" in run("migrate", "--check", SAYSO_STORE=url).stdout
    assert "already" in run("migrate", url).stdout


def test_roles_are_given_their_rights(run, postgres):
    url, name = postgres.database(), postgres.schema()
    postgres.execute(f"create role {name}_app; create role {name}_keeper")

    said = run("migrate", url, "--app-role", f"{name}_app", "--keeper-role", f"{name}_keeper")

    assert f"{name}_app and {name}_keeper may use it" in said.stdout
    assert "create role" in run("migrate", url, "--app-role", "nobody_x", code=2).stderr
    assert "--check" in run("migrate", url, "--app-role", f"{name}_app", "--check", code=2).stderr


def test_a_file_is_migrated_and_has_no_roles(run, tmp_path):
    with Sayso(tmp_path / "pay.db", work=False):
        pass

    assert "nothing is pending" in run("migrate", "pay.db", "--check").stdout
    assert "already" in run("migrate", "sqlite:///pay.db").stdout
    assert "no roles" in run("migrate", "pay.db", "--app-role", "ann", code=2).stderr
    (tmp_path / "other.db").write_bytes(b"x" * 100)
    assert "is not a database" in run("migrate", "other.db", "--check", code=2).stderr


def test_a_store_of_an_older_sayso_is_shown_only_once_it_was_migrated(run, postgres):
    url = postgres.database()
    run("migrate", url)
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute("update sayso.store set version = 1, since = 1", name)

    assert "sayso migrate" in run("show", url, code=2).stderr
    assert "sayso migrate" in run("doctor", "--store", url).stdout
