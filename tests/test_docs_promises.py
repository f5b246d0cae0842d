"""The tables of promises and of threats name tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "what-is-promised.md"
THREATS = PAGE.with_name("threat-model.md")
NAMED = sorted(
    {
        found
        for page in (PAGE, THREATS)
        for found in re.findall(
            r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")
        )
    }
)


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


def test_every_threat_is_answered_by_name() -> None:
    text = THREATS.read_text(encoding="utf-8")
    rows = {line[2:5]: line for line in text.splitlines() if re.match(r"\| T\d\d ", line)}

    assert sorted(rows) == [f"T{n:02}" for n in range(1, 34)]
    assert [row for row in rows.values() if not re.search(r"`tests/[^|]*\|$", row)] == []
