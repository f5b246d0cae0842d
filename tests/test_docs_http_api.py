"""The page about every route says what the service does."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "docs" / "http_api.py"
PAGE = SCRIPT.parent / "reference" / "http-api.md"


def check(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60
    )


def test_the_page_is_what_the_service_says():
    done = check(SCRIPT)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_that_is_not_true_is_found_out(tmp_path: Path):
    script = tmp_path / "http_api.py"
    script.write_bytes(SCRIPT.read_bytes())
    page = tmp_path / "reference" / "http-api.md"
    page.parent.mkdir()
    page.write_text(PAGE.read_text(encoding="utf-8").replace("| 404 |", "| 403 |", 1))

    assert check(script).returncode == 1
