"""Limits that keep every file and function small enough to be read in one sitting."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sayso"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

files = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", files, ids=[str(path.relative_to(SOURCE)) for path in files])
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    too_long = [
        f"{node.name}: {length} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert len(text.splitlines()) <= FILE_LINES_MAX
    assert not too_long
