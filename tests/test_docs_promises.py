"""The table of promises names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "what-is-promised.md"
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8"))


def test_every_line_names_what_proves_it() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]

    assert len(rows) > 20
    assert [row for row in rows[1:] if not re.search(r"`(tests/|make bench)[^|]*\|$", row)] == []


@pytest.mark.parametrize("path, name", NAMED)
def test_what_is_named_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }

    assert found
    assert not name or name in found
