"""What `import sayso` costs: every process that resumes a run pays it."""

import ast
import graphlib
import inspect
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

import msgspec

import sayso
from sayso import Agent, Sayso, tool
from sayso.domain.events import AnyEvent
from sayso.domain.run import Run
from sayso.testing import ScriptedModel, call

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
    # Of the standard library, each dearer than any module of ours.
    "copy",
    "importlib.metadata",
    "ipaddress",
    "pathlib",
    "unicodedata",
    "urllib.parse",
}
IDLE = {
    "sayso.agents.models",
    "sayso.agents.probe",
    "sayso.domain.handing",
    "sayso.domain.pattern",
    "sayso.domain.plan",
    "sayso.domain.tree",
    "sayso.engine.cascade",
    "sayso.engine.courier",
    "sayso.engine.remind",
    "sayso.engine.window",
    "sayso.store.archive",
    "sayso.store.door",
    "sayso.store.outbox",
    "sayso.store.query",
    "sayso.store.seal",
    "sayso.store.words",
}
"""What resuming a run with one approved call has no use for."""
OURS_MAX = 128
"""Each module of ours is a four-hundredth of a bare process, or more."""
RESUME = """
import sys, asyncio, apsw
before = set(sys.modules)
from sayso import Agent, Sayso, approve, tool
from sayso.engine.ports import Answer

class Model:
    name = "fake"
    async def answer(self, prompt, emit):
        return Answer(text="Paid.")

@tool(approval=True)
def pay(amount: int) -> str:
    return "ok"

async def main():
    agent = Agent("teller", model=Model(), tools=[pay])
    async with Sayso(sys.argv[1], agents=[agent]) as app:
        hold = await app.decide(sys.argv[2], approve(), by="ann")
        assert (await app.run(hold.run_id).wait(final=True)).output == "Paid."

asyncio.run(main())
print(*(set(sys.modules) - before))
"""


async def test_resuming_a_run_imports_nothing_that_it_does_not_use(tmp_path) -> None:
    @tool(approval=True)
    def pay(amount: int) -> str:
        return "ok"

    agent = Agent("teller", model=ScriptedModel([call("pay", {"amount": 1})]), tools=[pay])
    async with Sayso(tmp_path / "pay.db", agents=[agent]) as app:
        run = await app.start("teller", "Pay.", by="ann")
        hold = (await run.wait()).holds[0]

    printed = subprocess.run(
        [sys.executable, "-c", RESUME, tmp_path / "pay.db", hold.id],
        capture_output=True,
        check=True,
    ).stdout
    found = set(printed.decode().split())

    assert "sayso.engine.loop" in found
    assert found & (HEAVY | IDLE) == set()
    assert len([name for name in found if name.startswith("sayso")]) <= OURS_MAX


def test_importing_the_package_imports_errors_alone() -> None:
    program = "import sys, sayso; print(*(one for one in sys.modules if one.startswith('sayso')))"

    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    ).stdout

    assert set(printed.decode().split()) == {"sayso", "sayso.errors"}


def test_every_public_name_is_found_where_the_package_says() -> None:
    assert sorted(sayso._LATER) == sorted(sayso.__all__)
    assert {name for name in sayso.__all__ if not hasattr(sayso, name)} == set()


def test_no_module_needs_another_that_needs_it() -> None:
    # Names are imported when they are first used, so any module may be the first.
    root = Path(sayso.__file__).parents[1]
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.glob("sayso/**/*.py")
    }
    needs = {name: _needs(path, files) for name, path in files.items()}

    assert list(graphlib.TopologicalSorter(needs).static_order())


def _needs(path: Path, known: Container[str]) -> set[str]:
    """List the modules of ours that are imported when this one is."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    # Its own package knows where all of its names are, and needs none of them.
    return {name for name in found if name in known and name != "sayso"}


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
