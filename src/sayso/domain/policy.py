"""Which calls need whom, by when, and what silence means: rules, and the policy they make up.

Rule: a condition that raises, or answers anything but True or False, counts as "ask a person".
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from sayso.domain.ruling import Forbid, Require, Ruling, at_risk, require, strictest
from sayso.domain.value import Principal, Value
from sayso.errors import BadPolicy, describe


class CallFacts(Value, frozen=True, kw_only=True):
    """What a rule may know of a call."""

    tool: str
    args: Any
    by: Principal
    agent: str
    project: str
    run_id: str
    risk: str = "medium"
    lineage: tuple[str, ...] = ()
    """The agents above the one that asks for it, the root's first."""


Condition = Callable[[CallFacts], object]


class Rule:
    """Demands people for some calls: those of matching tools for which `when` is true."""

    def __init__(
        self,
        tool: str = "*",
        *,
        when: Condition | None = None,
        forbid: str | None = None,
        approvers: Iterable[str] | None = None,
        quorum: int = 1,
        reject_quorum: int = 1,
        not_requester: bool = False,
        within: str | float | None = None,
        on_silence: str = "reject",
        start_by: str | float | None = None,
        remind_every: str | float | None = None,
        escalate_after: str | float | None = None,
        escalate_to: Iterable[str] | None = None,
        escalate: Iterable[tuple[str | float, str | Iterable[str]]] = (),
        on_reject: str = "tell",
        risk: str | None = None,
        title: str = "",
        why: str = "",
        editable: bool = True,
        resolve: str = "",
        siblings: str = "",
        name: str = "",
    ) -> None:
        if not tool or not isinstance(tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadPolicy(f"a rule names a tool, or '*' for all, not {tool!r}")
        if when is not None and not callable(when):
            raise BadPolicy(f"the condition of the rule for {tool!r} cannot be called")
        if forbid is not None and (not isinstance(forbid, str) or not forbid):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadPolicy(f"forbid of the rule for {tool!r} says why, not {forbid!r}")
        self.tool = tool
        self.when = when
        self.name = name or tool
        self.ruling: Require | Forbid = (
            Forbid(why=forbid)
            if forbid is not None
            else require(
                approvers=approvers,
                quorum=quorum,
                reject_quorum=reject_quorum,
                not_requester=not_requester,
                within=within,
                on_silence=on_silence,
                start_by=start_by,
                remind_every=remind_every,
                escalate_after=escalate_after,
                escalate_to=escalate_to,
                escalate=escalate,
                risk=risk or "medium",
                title=title,
                why=why,
                editable=editable,
                on_reject=on_reject,
                rule=self.name,
                resolve=resolve,
                siblings=siblings,
            )
        )

    def names(self, tool: str) -> bool:
        """Tell whether it is about a tool, whatever its condition says of a call."""
        return fnmatchcase(tool, self.tool)

    def on(self, facts: CallFacts) -> Require | Forbid | None:
        """Rule on a call; None if this rule has nothing to say about it."""
        if not self.names(facts.tool):
            return None
        if self.when is None:
            return self.ruling
        try:
            applies: object = self.when(facts)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever breaks must not open the gate.
            return _suspicious(self, f"its condition failed: {describe(error)}")
        if applies is True:
            return self.ruling
        if applies is False:
            return None
        kind = type(applies).__name__
        if isinstance(applies, Coroutine):
            applies.close()  # Nobody will await it; Python would warn of that.
        return _suspicious(self, f"its condition answered {kind}, not a bool")


class Policy:
    """All rules of an app. The most strict ruling wins."""

    def __init__(self, *rules: Rule, version: str = "1") -> None:
        for rule in rules:
            if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadPolicy(f"{rule!r} is not a Rule: write Policy(Rule(...), Rule(...))")
        self.rules = rules
        self.version = version

    def now(self) -> Policy:
        """Give the policy as it is now. One that is read from a file may be another one later, so
        whoever rules on a call and writes down the version asks once for both.
        """
        return self

    def on(self, facts: CallFacts, *others: Ruling) -> Ruling:
        """Rule on a call; `others` are rulings from elsewhere, such as the tool's own flag."""
        # Each rule has arguments of its own: one that changes them must not fool the next.
        each = (rule.on(_copy(facts)) for rule in self.rules)
        found = [ruling for ruling in each if ruling is not None]
        ruling = strictest(*others, *found)
        return at_risk(ruling, facts.risk) if isinstance(ruling, Require) else ruling


def _suspicious(rule: Rule, why: str) -> Require:
    base = Require(rule=rule.name) if isinstance(rule.ruling, Forbid) else rule.ruling
    return msgspec.structs.replace(base, why=f"The rule {rule.name!r} could not be applied: {why}.")


def _copy(facts: CallFacts) -> CallFacts:
    from copy import deepcopy

    return msgspec.structs.replace(facts, args=deepcopy(facts.args))
