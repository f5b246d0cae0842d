"""What the documentation says is tried out: every example runs, every link leads somewhere, every
file that is named exists.

An example runs alone, in an empty directory. One that begins with `# name.py` is a program, and
the programs of a page run one after another in one directory, as whoever follows the page would.
An example marked `python no-run` is only compiled; that is for those that need a network. A file
that begins with `# name.yaml` is there for all examples of its page.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sayso
import sayso.testing
from sayso import SaysoError, errors

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
NAMED = re.compile(r"`((?:src|tests|docs|bench)/[\w./-]+)`")
PROGRAM = re.compile(r"# (\w+\.py)\n")
FILE = re.compile(r"# (\w+\.yaml)\n")
PATIENCE_S = 60


def examples(kind: str) -> Iterator[tuple[Path, int, str]]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match[1] == kind:
                yield page, text.count("\n", 0, match.start()) + 2, match[2]


def blocks(kind: str) -> list:
    return [
        pytest.param(page, line, text, id=f"{name(page)}:{line}")
        for page, line, text in examples(kind)
        if not PROGRAM.match(text)
    ]


def programs() -> dict[Path, list[tuple[str, str]]]:
    found: dict[Path, list[tuple[str, str]]] = {}
    for page, _, text in examples("python"):
        if title := PROGRAM.match(text):
            found.setdefault(page, []).append((title[1], text))
    return found


def lay_out(page: Path, directory: Path) -> None:
    for one, _, text in examples("yaml"):
        if one == page and (title := FILE.match(text)):
            (directory / title[1]).write_text(text, encoding="utf-8")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def compiled(page: Path, line: int, text: str):
    # With the lines before it, so that a traceback names the line of the page.
    return compile("\n" * (line - 1) + text, name(page), "exec")


@pytest.mark.parametrize("page, line, text", blocks("python"))
def test_an_example_runs(page, line, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay_out(page, tmp_path)

    exec(compiled(page, line, text), {"__name__": "__main__"})


@pytest.mark.parametrize("page", programs(), ids=name)
def test_the_programs_of_a_page_run(page, tmp_path):
    # Whoever learns tries things again, and must not be told off for it.
    times = 2 if page.parent.name == "tutorial" else 1
    lay_out(page, tmp_path)
    for title, text in programs()[page] * times:
        (tmp_path / title).write_text(text)

        said = subprocess.run(
            [sys.executable, title],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

        assert said.returncode == 0, f"{title}: {said.stderr}"


@pytest.mark.parametrize("page, line, text", blocks("python no-run"))
def test_an_example_that_needs_a_network_at_least_compiles(page, line, text):
    compiled(page, line, text)


@pytest.mark.parametrize("page, line, text", blocks("console"))
def test_a_command_succeeds(page, line, text, tmp_path):
    commands = [shown[2:] for shown in text.splitlines() if shown.startswith("$ ")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    lay_out(page, tmp_path)

    said = subprocess.run(
        ["sh", "-e", "-c", "\n".join(commands)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert commands
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    local = [link for link in LINK.findall(text) if "://" not in link]

    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_are_named_exist(page):
    named = NAMED.findall(page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_can_be_reached_from_the_index():
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = LINK.findall(page.read_text(encoding="utf-8"))
        waiting += [page.parent / link for link in links if "://" not in link]

    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(map(name, pages - reached)) == []


def test_the_architecture_names_every_module():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "sayso"
    modules = {
        path.name
        for path in source.rglob("*.py")
        if path.name != "__init__.py" and path.parent.name != "contract"
    }

    assert sorted(module for module in modules if f"`{module}`" not in text) == []


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    public = [*sayso.__all__, *sayso.testing.__all__]

    assert [name for name in public if not re.search(rf"`@?{name}\b", text)] == []


@pytest.mark.parametrize("kind, called", [(sayso.Sayso, "app"), (sayso.RunHandle, "run")])
def test_every_method_is_in_the_reference(kind, called):
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    public = [
        name
        for base in kind.__mro__[:-1]
        for name, thing in vars(base).items()
        if name[0] != "_" and (callable(thing) or isinstance(thing, property))
        if not isinstance(thing, type)
    ]

    assert public
    assert [name for name in public if not re.search(rf"`{called}\.{name}\b", text)] == []


def test_every_error_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    public = [kind for kind in vars(errors).values() if isinstance(kind, type)]

    assert [
        kind.__name__
        for kind in public
        if issubclass(kind, SaysoError) and not re.search(rf"\b{kind.__name__}\b", text)
    ] == []
