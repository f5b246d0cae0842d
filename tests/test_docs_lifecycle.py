"""The page about the lifecycle says what the state machine does."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "docs" / "lifecycle.py"
PAGE = SCRIPT.parent / "reference" / "lifecycle.md"


def check(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60
    )


def test_the_page_is_what_the_tables_say():
    done = check(SCRIPT)

    assert done.returncode == 0, done.stdout


def test_a_page_that_is_not_true_is_found_out(tmp_path: Path):
    script = tmp_path / "lifecycle.py"
    script.write_bytes(SCRIPT.read_bytes())
    page = tmp_path / "reference" / "lifecycle.md"

    assert check(script).returncode == 1

    page.parent.mkdir()
    page.write_text(PAGE.read_text(encoding="utf-8").replace("yes", "no", 1), encoding="utf-8")
    assert check(script).returncode == 1
