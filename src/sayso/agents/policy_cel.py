"""Conditions in CEL, the Common Expression Language. No other module knows the library.

Rule 1: what is wrong with a condition is found when it is compiled: names, types, syntax.
Rule 2: the library gives errors as values, and a text is true in Python. So nothing but a BOOL is
an answer; all else is raised, which the rule takes for "ask a person".
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from sayso.domain.policy import CallFacts
from sayso.errors import BadPolicy

SOURCE_MAX = 4000
"""How long a condition may be; a longer one is for Python."""
SAID_MAX = 200
"""How much is kept of what the library says: it may quote arguments at any length."""


class CelCondition:
    """A condition of a rule, compiled."""

    def __init__(self, source: str) -> None:
        if len(source) > SOURCE_MAX:
            raise BadPolicy(f"the condition is longer than {SOURCE_MAX} characters")
        self.source = source
        cel = _library()
        try:
            self._compiled = _environment().compile(source)
        except (RuntimeError, TypeError, ValueError) as error:
            raise _refusal(str(error)) from None
        found = self._compiled.return_type()
        if found not in (cel.Type.BOOL, cel.Type.DYN):
            raise BadPolicy(f"the condition gives {found.name().lower()}, not true or false")
        self._bool, self._error = cel.Type.BOOL, cel.Type.ERROR

    def __repr__(self) -> str:
        return f"<condition {self.source!r}>"

    def __call__(self, facts: CallFacts) -> bool:
        """Say whether the rule applies; raise `ValueError` if that cannot be said."""
        found = self._compiled.eval(
            data={
                "tool": facts.tool,
                "args": facts.args,
                "by": {"id": facts.by.id, "kind": facts.by.kind},
                "agent": facts.agent,
                "project": facts.project,
                "run_id": facts.run_id,
                "risk": facts.risk,
            }
        )
        kind = found.type()
        if kind == self._error:
            raise ValueError(str(found.value())[:SAID_MAX])
        if kind != self._bool:
            # Not what it gives: that is an argument, which may be a secret.
            raise ValueError(f"it gives {kind.name().lower()}, not true or false")
        answer: bool = found.value()
        return answer


def _library() -> Any:
    try:
        return import_module("cel_expr_python.cel")
    except ImportError:
        raise BadPolicy('a condition needs an extra: pip install "sayso[policy]"') from None


@cache
def _environment() -> Any:
    cel = _library()
    text = cel.Type.STRING
    variables = dict.fromkeys(("tool", "agent", "project", "run_id", "risk"), text)
    maps = {"args": cel.Type.Map(text, cel.Type.DYN), "by": cel.Type.Map(text, text)}
    return cel.NewEnv(variables={**variables, **maps})


def _refusal(said: str) -> BadPolicy:
    """Make one line of what the compiler says, and keep the line of the condition it means."""
    found = re.search(r"<input>:([0-9]+):([0-9]+): (.*)", said)
    if found is None:
        first = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", said.partition("\n")[0])
        return BadPolicy(f"the condition cannot be compiled: {first[:SAID_MAX]}", line=1)
    what = re.sub(r" \(in container ''\)| expecting \{.*| \[INVALID_ARGUMENT\]$", "", found[3])
    where = f"column {found[2]}" if found[1] == "1" else f"line {found[1]}, column {found[2]}"
    message = f"the condition is not CEL: {what[:SAID_MAX]}, at its {where}"
    return BadPolicy(message, line=int(found[1]))
