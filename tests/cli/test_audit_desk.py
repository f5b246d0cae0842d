"""Sealing, exporting and erasing from a terminal."""

import csv
import io
import json

import pytest

from sayso.errors import NotAllowed
from sayso.sync import Sayso
from tests.cli.conftest import finish
from tests.cli.test_audit import tamper


def remove_run(store, name: str) -> None:
    for statement in (
        f"delete from waiting where run = (select k from runs where id = '{name}')",
        f"delete from holds where run = (select k from runs where id = '{name}')",
        f"delete from journal where run = (select k from runs where id = '{name}')",
        f"delete from runs where id = '{name}'",
    ):
        tamper(store, statement)


def test_a_sealed_store_passes_and_says_so(run_cli, store, tmp_path):
    out = tmp_path / "seals"
    sealed = run_cli("audit", "seal", store, "--out", out)
    again = run_cli("audit", "seal", store, "--out", out)
    key = run_cli("audit", "key", store).stdout.strip()

    checked = run_cli("audit", "verify", store, "--seals", out, "--key", key)

    assert "seal 1 at " in sealed.stdout
    assert sealed.stdout.endswith("covers 24 entries, up to position 24.\n")
    assert again.stdout == f"{store}: nothing is new since the last seal.\n"
    assert len(out.read_text().splitlines()) == 1
    assert checked.returncode == 0
    assert checked.stdout == (
        f"{store}: 24 entries in 3 runs, all as written; 1 seal covers 24 of them.\n"
    )


def test_a_removed_run_is_found_against_the_seal(run_cli, store, tmp_path):
    out = tmp_path / "seals"
    unsealed = tmp_path / "unsealed.db"
    unsealed.write_bytes(store.read_bytes())
    remove_run(unsealed, "run_2")
    run_cli("audit", "seal", store, "--out", out)
    remove_run(store, "run_2")

    alone = run_cli("audit", "verify", unsealed)
    checked = run_cli("audit", "verify", store)
    tamper(store, "delete from seals")
    cut = run_cli("audit", "verify", store)
    compared = run_cli("audit", "verify", store, "--seals", out)

    assert alone.returncode == 0
    assert checked.returncode == 1
    assert "entries were removed: seal 1 covers 24 entries" in checked.stdout
    assert cut.returncode == 0
    assert compared.returncode == 1
    assert "seal 1 is not in the store any more" in compared.stdout
    assert "entries were removed" in compared.stdout


def test_another_key_is_not_trusted(run_cli, store):
    run_cli("audit", "seal", store)

    checked = run_cli("audit", "verify", store, "--key", "ab" * 32)
    wrong = run_cli("audit", "verify", store, "--key", "ab")

    assert checked.returncode == 1
    assert "signed with a key that is not trusted here" in checked.stdout
    assert wrong.returncode == 2
    assert "64 hexadecimal digits" in wrong.stderr


def test_a_seal_is_printed_as_json(run_cli, store):
    seal = json.loads(run_cli("audit", "seal", store, "--json").stdout)
    nothing = run_cli("audit", "seal", store, "--json")
    report = json.loads(run_cli("audit", "verify", store, "--json").stdout)

    assert (seal["n"], seal["first"], seal["last"], seal["count"]) == (1, 1, 24, 24)
    assert seal["key"] == run_cli("audit", "key", store).stdout.strip()
    assert json.loads(nothing.stdout) is None
    assert (report["seals"], report["sealed"], report["refused"]) == (1, 24, 0)


def test_decisions_are_exported_as_json_lines(run_cli, store):
    exported = run_cli("audit", "export", store)

    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [(line["run"], line["what"], line["by"]) for line in lines] == [
        ("run_1", "approved", "mira"),
        ("run_2", "approved", "mira"),
    ]
    assert lines[0]["note"] == "as agreed\x9b31m"
    assert exported.stdout.isascii()
    assert "Jiro" not in exported.stdout


def test_decisions_are_exported_as_csv(run_cli, store, tmp_path):
    out = tmp_path / "decisions.csv"
    exported = run_cli("audit", "export", store, "--format", "csv", "--out", out)
    printed = run_cli("audit", "export", store, "--format", "csv", "--run", "run_2")
    again = run_cli("audit", "export", store, "--format", "csv", "--out", out)

    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert exported.stdout == ""
    assert exported.stderr == f"{out}: 2 lines\n"
    assert out.stat().st_mode & 0o777 == 0o600
    assert [row["meaning"] for row in rows] == ["approved pay", "approved pay"]
    assert rows[0]["note"] == r"as agreed\u{9b}31m"
    assert [row["run"] for row in csv.DictReader(io.StringIO(printed.stdout))] == ["run_2"]
    assert again.returncode == 2
    assert "name another file" in again.stderr


def test_an_export_is_of_some_time_and_project(run_cli, store):
    for options in (
        ["--since", "2999-01-01"],
        ["--until", "1999-01-01"],
        ["--until", "1999-01-01T12:00:00+02:00"],
        ["--project", "other"],
        ["--run", "run_3"],
    ):
        assert run_cli("audit", "export", store, *options).stdout == ""
    assert run_cli("audit", "export", store, "--since", "1999-01-01").stdout
    wrong = run_cli("audit", "export", store, "--since", "yesterday")
    assert wrong.returncode == 2
    assert "'yesterday' is not a date: write 2026-01-31" in wrong.stderr


def test_old_runs_are_erased_and_the_store_still_passes(run_cli, store, tmp_path):
    run_cli("audit", "seal", store, "--out", tmp_path / "seals")
    young = run_cli("audit", "retain", store, "--older-than", "90d")
    dry = run_cli("audit", "retain", store, "--older-than", "1ms", "--dry-run")
    wet = run_cli("audit", "retain", store, "--older-than", "1ms", "--by", "noor")
    again = json.loads(run_cli("audit", "retain", store, "--older-than", "1ms", "--json").stdout)

    checked = run_cli("audit", "verify", store, "--seals", tmp_path / "seals")

    assert young.stdout == f"{store}: 0 runs with 0 entries were erased.\n"
    assert dry.stdout == f"{store}: 2 runs with 20 entries would be erased.\n"
    assert wet.stdout == f"{store}: 2 runs with 20 entries were erased.\n"
    assert again == {"dry_run": False, "looked_at": 2, "runs": 0, "entries": 0, "left": []}
    assert checked.returncode == 0
    assert "20 were erased; 1 seal covers 24 of them." in checked.stdout
    shown = run_cli("show", store, "run_1").stdout
    assert "entries 1 to 10 by noor: older than 1ms" in shown
    assert "Jiro" not in shown


def test_an_age_that_is_none_is_refused(run_cli, store):
    wrong = run_cli("audit", "retain", store, "--older-than", "soon")

    assert wrong.returncode == 2
    assert "'soon' is not a duration" in wrong.stderr


def test_who_was_refused_is_listed(run_cli, store):
    with Sayso(store, work=False) as app, pytest.raises(NotAllowed):
        app.cancel("run_3", by="eve \x1b[2J")

    listed = run_cli("audit", "refused", store)
    (line,) = run_cli("audit", "refused", store, "--json").stdout.splitlines()

    assert r"eve \u{1b}[2J  cancel  run_3  NotAllowed: " in listed.stdout
    assert json.loads(line)["attempt"]["by"] == "eve \x1b[2J"
    assert line.isascii()
    assert run_cli("audit", "refused", store, "--project", "other").stdout == ""


def test_on_a_terminal_there_is_a_progress_bar(terminal, store, tmp_path):
    exported, code = finish(terminal("audit", "export", store, "--out", tmp_path / "x"))
    retained, also = finish(terminal("audit", "retain", store, "--older-than", "1ms"))

    assert (code, also) == (0, 0)
    assert "Reading the journal" in exported
    assert "100%" in exported
    assert "2 lines" in exported
    assert "Looking at runs" in retained
    assert "100%" in retained


def test_looking_makes_no_key(run_cli, store):
    for command in ("verify", "export", "refused"):
        run_cli("audit", command, store)

    assert not store.with_name("pay.db.keys").exists()
