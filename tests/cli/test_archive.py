"""`sayso archive`, and checking what it wrote."""

import json

import pytest


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old"
    path.mkdir()
    return path


def test_old_runs_leave_and_are_checked_with_the_store_and_alone(run_cli, store, old):
    dry = run_cli("archive", store, "--before", "1ms", "--to", old, "--dry-run")
    assert "2 runs" in dry.stdout
    assert "would leave" in dry.stdout
    assert not list(old.iterdir())

    left = run_cli("archive", store, "--before", "1ms", "--to", old, "--json")

    assert left.returncode == 0, left.stderr
    (path,) = old.iterdir()
    assert json.loads(left.stdout)["files"] == [str(path)]
    whole = run_cli("audit", "verify", store)
    assert whole.returncode == 0
    assert "2 runs in 1 archive" in whole.stdout
    alone = run_cli("audit", "verify", path)
    assert alone.returncode == 0
    assert "in 2 runs, all as written" in alone.stdout
    shown = run_cli("show", store, "run_1")
    assert shown.returncode == 2
    assert f"was archived to {str(path)!r}" in shown.stderr


def test_an_archive_that_was_changed_or_is_gone_is_a_fault(run_cli, store, old):
    run_cli("archive", store, "--before", "1ms", "--to", old)
    (path,) = old.iterdir()
    path.write_bytes(path.read_bytes()[:-40])

    assert run_cli("audit", "verify", path).returncode == 1
    assert run_cli("audit", "verify", store).returncode == 1
    path.unlink()
    missed = run_cli("audit", "verify", store)
    assert missed.returncode == 1
    assert "is missing, with 2 runs in it" in missed.stdout


def test_bad_input_changes_nothing(run_cli, store, old, tmp_path):
    for args in (("--before", "soon", "--to", old), ("--before", "1d", "--to", tmp_path / "no")):
        said = run_cli("archive", store, *args)

        assert said.returncode == 2
        assert "Traceback" not in said.stderr
    assert run_cli("audit", "verify", store).returncode == 0
    assert "3 runs" in run_cli("audit", "verify", store).stdout
