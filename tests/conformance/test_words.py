"""The page for people who know one of the five systems names nothing that there is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import sayso
from sayso import Context, HoldView, Instance, Planner, Rule, RunHandle, RunView, Sayso, errors
from sayso.agents.tools import make_tool
from sayso.domain.events import AnyEvent
from sayso.domain.question import make_question
from sayso.domain.ruling import require

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "coming-from-another-system.md"
OWNERS = {
    "app": Sayso,
    "ctx": Context,
    "hold": HoldView,
    "me": Instance,
    "run": RunHandle,
    "view": RunView,
}
HERE = [line.split(" | ")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
CODE = [span for cell in HERE[1:] for span in re.findall(r"`([^`]+)`", cell)]
ENTRIES = {str(one.__struct_config__.tag).rpartition(".")[0] for one in get_args(AnyEvent)}


@pytest.mark.parametrize("owner", OWNERS)
def test_what_is_named_of_something_is_there(owner: str):
    named = {name for span in CODE for name in re.findall(rf"\b{owner}\.(\w+)", span)}

    assert named
    missing = {name for name in named if not hasattr(OWNERS[owner], name)}
    assert {f"{owner}.{name}" for name in missing} - ENTRIES == set()


def test_what_is_called_or_raised_is_public():
    called = {name for span in CODE for name in re.findall(r"(?<![\w.])(\w+)\(", span)}
    raised = {span for span in CODE if re.fullmatch(r"[A-Z]\w+", span)}

    assert {"approve", "question", "Rule"} <= called
    assert {"UnknownHold", "BudgetSpent", "Machine"} <= raised
    known = {*sayso.__all__, *vars(errors)}
    assert (called | raised) - known == set()


def test_what_is_set_can_be_set():
    named = {name for span in CODE for name in re.findall(r"(\w+)=", span)}
    methods = (*vars(Sayso).values(), *vars(RunHandle).values())
    takers = (make_tool, require, make_question, Planner, Rule, Sayso, *methods)
    known = {
        name for taker in takers if callable(taker) for name in inspect.signature(taker).parameters
    }

    assert {"siblings", "resolve", "within", "length_max"} <= named
    assert named - known == set()
