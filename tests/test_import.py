"""What `import sayso` costs: every process that resumes a run pays it."""

import inspect
import subprocess
import sys

import msgspec

from sayso.domain.events import AnyEvent
from sayso.domain.run import Run

HEAVY = {
    "anthropic",
    "cel_expr_python",
    "click",
    "cryptography",
    "httpx2",
    "jsonschema",
    "openai",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "pydantic_ai",
    "referencing",
    "rich",
    "yaml",
}


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = "import sys, sayso; print(*{name.partition('.')[0] for name in sys.modules})"

    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    ).stdout

    assert HEAVY.isdisjoint(printed.decode().split())


def test_no_annotation_has_to_be_compiled_to_read_a_journal() -> None:
    seen: set[type] = set()

    def visit(found: object) -> None:
        if isinstance(found, msgspec.inspect.StructType):
            if found.cls in seen:
                return
            seen.add(found.cls)
            for field in found.fields:
                visit(field.type)
        for name in ("types", "item_type", "item_types", "key_type", "value_type"):
            inside = getattr(found, name, ())
            for one in inside if isinstance(inside, tuple) else (inside,):
                visit(one)

    for kind in (AnyEvent, Run):
        visit(msgspec.inspect.type_info(kind))

    # `from __future__ import annotations` makes text of them, and every start compiles that again.
    texts = [
        (one.__name__, name)
        for one in seen
        for name, hint in inspect.get_annotations(one).items()
        if isinstance(hint, str)
    ]
    assert len(seen) > 60
    assert not texts
