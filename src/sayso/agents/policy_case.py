"""Example calls of a policy: what it should say of them, and what it says."""

from __future__ import annotations

from typing import Any

import msgspec

from sayso.agents.policy_yaml import Source, line_of
from sayso.domain.policy import CallFacts, Policy
from sayso.domain.ruling import RISKS, Forbid, Proceed, Require, require
from sayso.domain.value import Principal, Value
from sayso.errors import BadPolicy

EXPECTED = ("proceed", "hold", "forbid")
_KEYS = ("name", "tool", "args", "by", "agent", "project", "risk", "expect", "approvers")


class Case(Value, frozen=True, kw_only=True):
    """An example call, and what a policy should say of it."""

    name: str
    line: int
    facts: CallFacts
    expect: str
    """One of `EXPECTED`."""
    approvers: tuple[str, ...] | None = None
    """Who should be asked; None if the example does not say."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says of an example call."""

    case: Case
    found: str
    approvers: tuple[str, ...]
    rule: str
    why: str

    @property
    def ok(self) -> bool:
        """Tell whether that is what was expected."""
        case = self.case
        asked = case.approvers is None or set(case.approvers) == set(self.approvers)
        return case.expect == self.found and asked


def try_case(policy: Policy, case: Case) -> Tried:
    """Ask a policy about an example call."""
    match policy.on(case.facts):
        case Proceed():
            return Tried(case=case, found="proceed", approvers=(), rule="", why="")
        case Forbid(why=why):
            return Tried(case=case, found="forbid", approvers=(), rule="", why=why)
        case Require() as ruling:
            asked = ruling.approvers or ("owner",)
            return Tried(case=case, found="hold", approvers=asked, rule=ruling.rule, why=ruling.why)


def read_cases(source: Source, node: Any) -> list[Case]:
    """Read example calls."""
    return [_case(source, one) for one in source.items(node, "tests")]


def _case(source: Source, node: Any) -> Case:
    found = source.mapping(node, "tests", _KEYS)
    for key in ("tool", "expect"):
        if key not in found:
            raise source.refusal(node, key, "an example call needs it")
    texts = {
        key: source.text(found[key], key)
        for key in ("name", "tool", "by", "agent", "project", "risk", "expect")
        if key in found
    }
    for key, known in (("risk", RISKS), ("expect", EXPECTED)):
        if key in texts and texts[key] not in known:
            said = f"{texts[key]!r} is none of {', '.join(known)}"
            raise source.refusal(found[key], key, said)
    return Case(
        name=texts.get("name") or texts["tool"],
        line=line_of(node),
        facts=CallFacts(
            tool=texts["tool"],
            args=_args(source, found),
            by=Principal(id=texts.get("by", "someone")),
            agent=texts.get("agent", "agent"),
            project=texts.get("project", "default"),
            run_id="run_example",
            risk=texts.get("risk", "medium"),
        ),
        expect=texts["expect"],
        approvers=_approvers(source, found, texts["expect"]),
    )


def _args(source: Source, found: dict[str, Any]) -> Any:
    if "args" not in found:
        return {}
    if found["args"].id != "mapping":
        raise source.refusal(found["args"], "args", "arguments are a mapping of names")
    return source.value(found["args"], "args")


def _approvers(source: Source, found: dict[str, Any], expect: str) -> tuple[str, ...] | None:
    if "approvers" not in found:
        return None
    node = found["approvers"]
    if expect != "hold":
        raise source.refusal(node, "approvers", f"nobody is asked where {expect} is expected")
    nodes = source.items(node, "approvers") if node.id == "sequence" else [node]
    names = [source.text(one, "approvers") for one in nodes]
    try:
        return require(approvers=names).approvers
    except BadPolicy as error:
        raise source.refusal(node, "approvers", str(error)) from None
