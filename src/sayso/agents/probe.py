"""Probes: functions that ask a tool's target whether a call happened.

Rule: a probe takes what it needs of the tool's arguments, by name. One further parameter, or one
annotated `Context`, is given the context of the call, whose `key` is what to look for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from sayso.agents.signature import is_context, read_parameters
from sayso.engine.ports import Context
from sayso.errors import BadTool


class Probe:
    """How to call one probe."""

    def __init__(self, tool: str, fn: Callable[..., Any], arguments: frozenset[str]) -> None:
        if not callable(fn):
            raise BadTool(f"the probe of the tool {tool!r} cannot be called")
        self.fn = fn
        self._taken: set[str] = set()
        self._takes_all = False
        self._context = ""
        for parameter in read_parameters(fn, f"probe of {tool}"):
            self._place(parameter, tool, arguments)

    def kwargs(self, ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make the keyword arguments of one call of the probe."""
        taken = {
            name: value
            for name, value in arguments.items()
            if self._takes_all or name in self._taken
        }
        return taken | {self._context: ctx} if self._context else taken

    def _place(self, parameter: inspect.Parameter, tool: str, arguments: frozenset[str]) -> None:
        name = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            self._takes_all = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadTool(f"the probe of the tool {tool!r} takes {parameter}: use names")
        elif name in arguments:
            self._taken.add(name)
        elif not self._context or is_context(parameter.annotation):
            self._context = name
        elif parameter.default is parameter.empty:
            raise BadTool(
                f"the probe of the tool {tool!r} wants {name!r}, which the tool does not have"
            )
