"""`sayso move` as people use it."""

import json
import shutil

import pytest
from click.testing import CliRunner

from sayso.cli import main
from sayso.errors import BadSetup
from sayso.store.keyring import make_secret_file, new_key
from sayso.sync import Sayso
from tests.cli.conftest import finish


@pytest.fixture
def database(postgres):
    url = postgres.database()
    yield url
    name = url.partition("///")[2].partition("?")[0]
    postgres.execute(f"drop database {name} with (force)")


def test_a_store_is_moved_into_a_database_and_back(run_cli, store, database, tmp_path):
    shown = run_cli("show", store, "--json").stdout
    there, back = run_cli("move", f"sqlite:///{store}", database), tmp_path / "back.db"

    assert there.returncode == 0, there.stderr
    assert "3 runs" in there.stdout
    assert "journal carried:" in there.stderr
    assert "journal compared:" in there.stderr
    moved = run_cli("move", database, back, "--json")
    assert json.loads(moved.stdout)["rows"]["runs"] == 3
    assert run_cli("show", back, "--json").stdout == shown
    assert run_cli("audit", "verify", back).returncode == 0


def test_what_was_moved_is_read_and_no_longer_worked_on(run_cli, store, tmp_path):
    run_cli("move", store, tmp_path / "new.db")

    assert "run_3" in run_cli("show", store).stdout
    again = run_cli("move", store, tmp_path / "other.db")
    assert again.returncode == 2
    assert "already" in again.stderr
    said = run_cli("audit", "seal", store)
    assert said.returncode == 2
    assert "was moved to" in said.stderr
    assert "sayso move --undo" in said.stderr


def test_it_is_undone_until_somebody_has_worked_there(run_cli, store, tmp_path):
    new = tmp_path / "new.db"
    run_cli("move", store, new)

    undone = run_cli("move", "--undo", store, new)

    assert undone.returncode == 0, undone.stderr
    with Sayso(store, work=False) as app:
        assert app.run("run_3").view().status == "suspended"
    run_cli("move", store, tmp_path / "newer.db")
    with Sayso(tmp_path / "newer.db", work=False) as app:
        app.cancel("run_3", by="mira")
    late = run_cli("move", "--undo", store, tmp_path / "newer.db")
    assert late.returncode == 2
    assert "was worked on since" in late.stderr


def test_a_store_with_a_worker_is_not_moved_and_nothing_is_made(run_cli, store, tmp_path):
    with Sayso(store):
        said = run_cli("move", store, tmp_path / "new.db")

    assert said.returncode == 2
    assert "at work" in said.stderr
    assert not (tmp_path / "new.db").exists()


def test_the_keys_have_to_be_there_first(run_cli, store, database, tmp_path):
    key = new_key()
    make_secret_file(tmp_path / "pay.db.keys", key)

    for env in ({}, {"SAYSO_KEYS": new_key()}):
        said = run_cli("move", store, database, **env)

        assert said.returncode == 2
        assert f'export SAYSO_KEYS="$SAYSO_KEYS $(cat {store}.keys)"' in said.stderr
        assert key not in said.stderr
    assert run_cli("move", store, database, SAYSO_KEYS=f"{new_key()} {key}").returncode == 0


def test_keys_beside_the_new_file_will_do(run_cli, store, tmp_path):
    make_secret_file(tmp_path / "pay.db.keys", new_key())
    assert run_cli("move", store, tmp_path / "new.db").returncode == 2

    shutil.copy(tmp_path / "pay.db.keys", tmp_path / "new.db.keys")

    assert run_cli("move", store, tmp_path / "new.db").returncode == 0


@pytest.mark.parametrize(
    "args, said",
    [
        (("nothing.db", "new.db"), "there is no store in"),
        (("mysql://x/y", "new.db"), "not a kind of store"),
        (("memory:", "new.db"), "cannot be moved"),
    ],
)
def test_what_is_no_store_is_refused_and_nothing_is_made(run_cli, tmp_path, args, said):
    found = run_cli("move", args[0], tmp_path / args[1])

    assert found.returncode == 2
    assert said in found.stderr
    assert not (tmp_path / args[1]).exists()


def test_a_terminal_shows_how_far_it_is(terminal, store, tmp_path):
    text, code = finish(terminal("move", store, tmp_path / "new.db"))

    assert code == 0
    assert "journal compared" in text
    assert "100%" in text


@pytest.mark.parametrize(
    "meant", ["host=h password=s3cret", "host=h Password = s3cret", "postgres:u:s3cret@h/db"]
)
def test_what_is_meant_as_a_database_becomes_no_file_and_is_not_repeated(
    tmp_path, store, monkeypatch, meant
):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for args in (["move", store, meant], ["move", meant, "new.db"], ["show", meant]):
        said = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="sayso")

        assert said.exit_code == 2
        assert "postgresql://user@host/name" in " ".join(said.output.split())
        assert "s3cret" not in said.output
    with pytest.raises(BadSetup, match="postgresql://user@host/name"):
        Sayso(meant).__enter__()
    assert list(folder.iterdir()) == []
