"""Runs are moved from one store to another by two commands."""

import json
import subprocess

import pytest

from sayso.store.keyring import new_key
from sayso.sync import Sayso

from .conftest import PATIENCE_S, SAYSO, environment


@pytest.fixture
def keys() -> dict[str, str]:
    return {"SAYSO_KEYS": new_key()}


@pytest.fixture
def other(tmp_path):
    """An empty store."""
    path = tmp_path / "other.db"
    with Sayso(path, work=False):
        pass
    return path


def test_a_run_is_exported_and_adopted(run_cli, store, other, tmp_path, keys):
    file = tmp_path / "run.json"

    said = run_cli("export", "run_3", "--db", store, "-o", file, **keys)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    assert file.stat().st_mode & 0o777 == 0o600
    said = run_cli("adopt", file, "--db", other, **keys)

    assert (said.returncode, said.stdout, said.stderr) == (0, "run_3\n", "")
    with Sayso(store, work=False) as here, Sayso(other, work=False) as there:
        assert there.run("run_3").view().holds == here.run("run_3").view().holds
    assert run_cli("audit", "verify", other).returncode == 0
    assert "service:cli" in run_cli("show", other, "run_3").stdout


def test_a_run_goes_through_a_pipe(run_cli, store, other, keys):
    exported = run_cli("export", "run_1", "--db", store, **keys).stdout

    said = subprocess.run(
        [SAYSO, "adopt", "-", "--db", other],
        input=exported,
        env=environment(**keys),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert (said.returncode, said.stdout) == (0, "run_1\n")
    assert "completed" in run_cli("show", other).stdout


def test_of_two_processes_that_adopt_a_run_one_wins(store, other, tmp_path, run_cli, keys):
    file = tmp_path / "run.json"
    run_cli("export", "run_3", "--db", store, "-o", file, **keys)

    both = [
        subprocess.Popen(
            [SAYSO, "adopt", file, "--db", other],
            env=environment(**keys),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = sorted((one.communicate(timeout=PATIENCE_S), one.returncode) for one in both)

    (lost, failed), (won, succeeded) = said
    assert (won, succeeded) == (("run_3\n", ""), 0)
    assert (lost[0], failed) == ("", 2)
    assert lost[1] == "sayso: the run 'run_3' exists already\n"
    assert run_cli("audit", "verify", other).returncode == 0


def test_what_cannot_be_adopted_is_said_in_one_line(run_cli, store, other, tmp_path, keys):
    file = tmp_path / "run.json"
    run_cli("export", "run_3", "--db", store, "-o", file, **keys)
    edited, nonsense = tmp_path / "edited.json", tmp_path / "nonsense.json"
    edited.write_text(json.dumps({**json.loads(file.read_text()), "run": "run_4"}))
    nonsense.write_text("{")

    for path, env, what in [
        (edited, keys, "edited"),
        (file, {"SAYSO_KEYS": new_key()}, "other keys"),
        (nonsense, keys, "not JSON"),
    ]:
        said = run_cli("adopt", path, "--db", other, **env)
        assert (said.returncode, said.stdout) == (2, "")
        assert what in said.stderr
        assert len(said.stderr.splitlines()) == 1
    assert run_cli("show", other).stdout == ""


def test_an_export_replaces_no_file_and_makes_no_store(run_cli, store, tmp_path, keys):
    file = tmp_path / "run.json"
    file.write_text("mine")

    assert run_cli("export", "run_3", "--db", store, "-o", file, **keys).returncode == 2
    assert run_cli("export", "run_9", "--db", store, **keys).returncode == 2
    assert run_cli("adopt", file, "--db", tmp_path / "none.db", **keys).returncode == 2

    assert file.read_text() == "mine"
    assert not (tmp_path / "none.db").exists()
