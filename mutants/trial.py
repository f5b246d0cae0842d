"""Trying mutants: in a copy of the tree, never in the tree itself.

Rule 1: the same test passes in the copy before it is sabotaged; else its failure proves nothing.
Rule 2: a mutant is caught if a test ran and failed by what it found. Code that does not import, a
test that is not there, a fixture that breaks or a test that hangs has not caught anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import ROOT, Mutant, Rotten

TRIAL_S = 180
"""How long one test may take; a mutant that makes it hang is not caught."""
CLEAN_S = 900
"""How long all of them may take before anything is sabotaged."""
COPIED = ("src", "tests", "bench", "docs", "mutants", "pyproject.toml")
_BROKEN = re.compile(
    r"(SyntaxError|IndentationError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError)\b"
)
_HUNG = re.compile(r"Failed: Timeout\b")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant
    word: str
    """`caught`, `SURVIVED`, or what is wrong with the trial itself."""
    why: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the test has noticed."""
        return self.word == "caught"


@dataclass(frozen=True, kw_only=True)
class _Ran:
    code: int
    """Of pytest; -1 if it took too long."""
    passed: frozenset[str]
    failed: tuple[str, ...]
    """What each failed test said, its first line."""
    errors: tuple[str, ...]
    said: str


class Copy:
    """A copy of the tree, to be sabotaged and mended again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in COPIED:
            if (ROOT / name).is_dir():
                unwanted = shutil.ignore_patterns("__pycache__", "build", ".*")
                shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
            else:
                shutil.copy2(ROOT / name, folder / name)

    def check(self) -> None:
        """Raise `Rotten` unless Python imports the copy, and not another Sayso."""
        code = "import sayso; print(sayso.__file__)"
        command = [sys.executable, "-c", code]
        ran = subprocess.run(
            command, cwd=self._folder, env=self._env(), capture_output=True, text=True, check=False
        )
        if not ran.stdout.startswith(f"{self._folder}{os.sep}"):
            raise Rotten(f"Python does not import the copy: {ran.stdout or ran.stderr}")

    def try_clean(self, nodes: Sequence[str]) -> _Ran:
        """Run tests on the untouched copy."""
        return self._pytest(nodes, CLEAN_S)

    def try_mutant(self, mutant: Mutant) -> Verdict:
        """Sabotage the copy, run the test, and mend the copy again."""
        path = self._folder / mutant.path
        before = time.monotonic()
        whole = path.read_text(encoding="utf-8")
        try:
            path.write_text(mutant.apply(whole), encoding="utf-8")
            word, why = _judge(self._pytest(["-x", mutant.node], TRIAL_S))
        except Rotten as error:
            word, why = "ROTTEN", str(error)
        finally:
            path.write_text(whole, encoding="utf-8")
        return Verdict(mutant=mutant, word=word, why=why, seconds=time.monotonic() - before)

    def _pytest(self, args: Sequence[str], timeout_s: float) -> _Ran:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            report = Path(name, "report.xml")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += ["-p", "no:xdist", f"--junitxml={report}"]
            command += [f"--basetemp={Path(name, 'base')}", *args]
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._env(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                said, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                # With all that it has started: a test of ours may have processes of its own.
                os.killpg(process.pid, 9)
                said, _ = process.communicate()
                return _Ran(code=-1, passed=frozenset(), failed=(), errors=(), said=said)
            return _read(report, process.returncode, said)

    def _env(self) -> dict[str, str]:
        # Without bytecode: a change that leaves size and second alone would not be seen.
        more = {"PYTHONPATH": str(self._folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **more}


def check_clean(copy: Copy, nodes: Sequence[str]) -> dict[str, str]:
    """Run every test once on the untouched copy; say what is wrong with those that do not pass."""
    copy.check()
    if not nodes or copy.try_clean(nodes).code == 0:
        return {}
    # One at a time, to say which.
    found: dict[str, str] = {}
    for node in nodes:
        one = copy.try_clean([node])
        if one.code != 0 or not one.passed:
            found[node] = one.said.strip().splitlines()[-1] if one.said.strip() else "nothing ran"
    return found


def _judge(ran: _Ran) -> tuple[str, str]:
    if ran.code == -1:
        return "HUNG", f"no end within {TRIAL_S} seconds"
    if ran.code == 0:
        return "SURVIVED", f"{len(ran.passed)} passed"
    if ran.code != 1 or not ran.failed:
        last = ran.said.strip().splitlines()[-1:] or [""]
        return "BROKEN", f"pytest ended with {ran.code}: {(*ran.errors, *last)[0]}"
    if all(_BROKEN.search(said) for said in ran.failed):
        return "BROKEN", ran.failed[0]
    if all(_HUNG.search(said) for said in ran.failed):
        return "HUNG", ran.failed[0]
    telling = [one for one in ran.failed if not _BROKEN.search(one) and not _HUNG.search(one)]
    return "caught", telling[0]


def _read(report: Path, code: int, said: str) -> _Ran:
    cases = ET.parse(report).iter("testcase") if report.exists() else ()
    passed: set[str] = set()
    failed: list[str] = []
    errors: list[str] = []
    for case in cases:
        failures = [_first_line(one) for one in case.findall("failure")]
        broken = [_first_line(one) for one in case.findall("error")]
        failed += failures
        errors += broken
        if not failures and not broken and case.find("skipped") is None:
            passed.add(f"{case.get('classname')}::{case.get('name')}")
    return _Ran(
        code=code, passed=frozenset(passed), failed=tuple(failed), errors=tuple(errors), said=said
    )


def _first_line(element: ET.Element) -> str:
    return (element.get("message") or "").strip().split("\n", 1)[0]
