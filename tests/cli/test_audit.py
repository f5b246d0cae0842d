import json

import apsw
import pytest

from tests.cli.conftest import finish


def tamper(path, statement: str) -> None:
    """Change the file behind everybody's back, as whoever has it can."""
    conn = apsw.Connection(str(path))
    for (trigger,) in conn.execute("select name from sqlite_schema where type = 'trigger'"):
        conn.execute(f"drop trigger {trigger}")
    conn.execute(statement)
    conn.close()


def test_an_untouched_store_passes(run_cli, store):
    checked = run_cli("audit", "verify", store)

    assert checked.returncode == 0
    assert checked.stdout == f"{store}: 24 entries in 3 runs, all as written.\n"
    assert checked.stderr == ""


def test_an_edited_entry_is_named(run_cli, store):
    tamper(
        store,
        "update journal set payload = cast(replace(cast(payload as text), 'mira', 'mara') as blob)"
        " where seq = 5 and run = (select k from runs where id = 'run_2')",
    )

    checked = run_cli("audit", "verify", store)

    assert checked.returncode == 1
    assert f"{store}: 1 fault in " in checked.stdout
    assert "run_2, entry 5: entry 5 of 'run_2' was changed after it was written" in checked.stdout


def test_a_deleted_entry_is_found(run_cli, store):
    tamper(
        store,
        "delete from journal where seq = 6 and run = (select k from runs where id = 'run_1')",
    )

    checked = run_cli("audit", "verify", store)

    assert checked.returncode == 1
    assert "run_1, entry 6" in checked.stdout


def test_json_has_the_whole_report(run_cli, store):
    good = json.loads(run_cli("audit", "verify", store, "--json").stdout)
    tamper(store, "update journal set at = at + 1 where seq = 2")

    bad = run_cli("audit", "verify", store, "--json")

    assert (good["ok"], good["runs"], good["entries"], good["faults"]) == (True, 3, 24, [])
    assert bad.returncode == 1
    report = json.loads(bad.stdout)
    assert report["ok"] is False
    assert {(fault["run_id"], fault["seq"]) for fault in report["faults"]} == {
        ("run_1", 2),
        ("run_2", 2),
        ("run_3", 2),
    }


def test_many_faults_are_cut_short(run_cli, store):
    tamper(store, "update runs set status = 'failed'")
    for n in range(30):
        tamper(store, _copy_of_a_run(n))

    checked = run_cli("audit", "verify", store)

    assert checked.returncode == 1
    assert "more; --json prints them all" in checked.stdout
    assert len(checked.stdout.splitlines()) == 22


def _copy_of_a_run(n: int) -> str:
    columns = "project, agent, thread, status, owner, due_at, seq, at, fold, hash, last, state"
    return (
        f"insert into runs (id, {columns})"
        f" select 'run_copy{n}', {columns} from runs where id = 'run_1'"
    )


def test_on_a_terminal_there_is_a_progress_bar(terminal, store):
    printed, code = finish(terminal("audit", "verify", store))

    assert code == 0
    assert "Checking runs" in printed
    assert "100%" in printed
    assert "all as written" in printed


@pytest.mark.parametrize("content", [b"", b"Dear diary, " * 1000], ids=["empty", "text"])
def test_what_is_no_store_is_left_alone(run_cli, tmp_path, content):
    path = tmp_path / "x.db"
    path.write_bytes(content)

    checked = run_cli("audit", "verify", path)

    assert checked.returncode == 2
    assert checked.stdout == ""
    assert "name the store that `Sayso(...)` was opened with" in checked.stderr
    assert len(checked.stderr.splitlines()) == 1
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_of_a_newer_version_is_refused(run_cli, store):
    tamper(store, "pragma user_version = 999")

    checked = run_cli("audit", "verify", store)

    assert checked.returncode == 2
    assert "newer" in checked.stderr


def test_a_store_that_is_not_there_is_not_made(run_cli, tmp_path):
    checked = run_cli("audit", "verify", tmp_path / "none.db")

    assert checked.returncode == 2
    assert not list(tmp_path.iterdir())
