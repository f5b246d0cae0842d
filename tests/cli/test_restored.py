"""A store that was copied is let work again by one command."""

import json
import shutil

import pytest

from sayso.errors import StoreRestored
from sayso.sync import Sayso


@pytest.fixture
def copy(store, tmp_path):
    """A copy of a store, beside the original."""
    path = tmp_path / "copy.db"
    shutil.copy(store, path)
    return path


def test_a_copy_is_let_work_again(run_cli, copy):
    with Sayso(copy, work=False) as app, pytest.raises(StoreRestored):
        app.people.put("ann", roles=["finance"])
    assert run_cli("show", copy).returncode == 0
    assert "warning  origin: the store was restored" in run_cli("doctor", "--store", copy).stdout

    said = run_cli("restored", copy)

    assert said.returncode == 0
    assert "epoch 2." in said.stderr
    assert "origin: the store was restored" not in run_cli("doctor", "--store", copy).stdout
    assert run_cli("audit", "verify", copy).returncode == 0


def test_a_store_that_is_itself_is_left_alone(run_cli, store):
    said = run_cli("restored", store)
    as_json = run_cli("restored", store, "--json")
    anyway = run_cli("restored", store, "--anyway", "--json")

    assert (said.returncode, said.stdout) == (0, "")
    assert "nothing shows that it was restored" in said.stderr
    assert json.loads(as_json.stdout) is None
    assert json.loads(anyway.stdout)["epoch"] == 2


@pytest.mark.parametrize("what", ["nowhere.db", "."])
def test_what_is_no_store_is_refused(run_cli, what):
    said = run_cli("restored", what)

    assert said.returncode == 2
    assert f"'{what}'" in said.stderr


def test_an_app_says_which_tools_act_once(run_cli, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay.py").write_text("from sayso import Sayso\n\napp = Sayso('none.db')\n")

    said = run_cli("restored", copy, "--app", "pay:app")

    assert said.returncode == 0, said.stderr
    assert not (tmp_path / "none.db").exists()
