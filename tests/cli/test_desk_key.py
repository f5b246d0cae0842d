"""`sayso desk-key`: keys that only their owner reads, and the texts that workers are given."""

from pathlib import Path

from sayso import DeskKey


def test_a_new_key_prints_what_workers_are_told(run_cli, tmp_path: Path):
    path = tmp_path / "desk.key"
    made = run_cli("desk-key", "new", path)

    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == DeskKey.load(path).public
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in made.stdout
    assert run_cli("desk-key", "show", path).stdout == made.stdout


def test_a_key_that_is_there_is_not_replaced(run_cli, tmp_path: Path):
    path = tmp_path / "desk.key"
    run_cli("desk-key", "new", path)
    before = path.read_text()

    again = run_cli("desk-key", "new", path)

    assert (again.returncode, path.read_text()) == (2, before)
    assert "is there already" in again.stderr


def test_a_key_that_others_may_read_is_not_shown(run_cli, tmp_path: Path):
    path = tmp_path / "desk.key"
    run_cli("desk-key", "new", path)
    path.chmod(0o644)

    shown = run_cli("desk-key", "show", path)

    assert (shown.returncode, shown.stdout) == (2, "")
    assert "chmod 600" in shown.stderr


def test_a_file_that_is_no_key_is_refused(run_cli, tmp_path: Path):
    path = tmp_path / "other"
    path.write_text("secret words")
    path.chmod(0o600)

    shown = run_cli("desk-key", "show", path)

    assert shown.returncode == 2
    assert "no key of a desk" in shown.stderr
    assert "secret words" not in shown.stderr
