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
_KEYS = ("name", "tool", "args", "by", "agent", "project", "risk", "expect")
_OF_HOLD = ("approvers", "quorum", "not_requester")
"""What an example may say of how a person is asked."""


class Case(Value, frozen=True, kw_only=True):
    """An example call, and what a policy should say of it."""

    name: str
    line: int
    facts: CallFacts
    expect: str
    """One of `EXPECTED`."""
    approvers: tuple[str, ...] | None = None
    """Who should be asked; None if the example does not say."""
    quorum: int | None = None
    """How many of them have to say yes; None if the example does not say."""
    not_requester: bool | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says of an example call."""

    case: Case
    found: str
    approvers: tuple[str, ...]
    rule: str
    why: str
    quorum: int = 1
    not_requester: bool = False

    @property
    def ok(self) -> bool:
        """Tell whether that is what was expected."""
        case = self.case
        asked = case.approvers is None or set(case.approvers) == set(self.approvers)
        many = case.quorum in (None, self.quorum)
        eyes = case.not_requester in (None, self.not_requester)
        return case.expect == self.found and asked and many and eyes


def try_case(policy: Policy, case: Case) -> Tried:
    """Ask a policy about an example call."""
    match policy.on(case.facts):
        case Proceed():
            return Tried(case=case, found="proceed", approvers=(), rule="", why="")
        case Forbid(why=why):
            return Tried(case=case, found="forbid", approvers=(), rule="", why=why)
        case Require() as ruling:
            asked = ruling.approvers or ("owner",)
            return Tried(
                case=case,
                found="hold",
                approvers=asked,
                rule=ruling.rule,
                why=ruling.why,
                quorum=ruling.quorum,
                not_requester=ruling.not_requester,
            )


def read_cases(source: Source, node: Any) -> list[Case]:
    """Read example calls."""
    return [_case(source, one) for one in source.items(node, "tests")]


def _case(source: Source, node: Any) -> Case:
    found = source.mapping(node, "tests", (*_KEYS, *_OF_HOLD))
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
    expect = texts["expect"]
    for key in _OF_HOLD:
        if key in found and expect != "hold":
            raise source.refusal(found[key], key, f"nobody is asked where {expect} is expected")
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
        expect=expect,
        approvers=_approvers(source, found),
        quorum=source.whole(found["quorum"], "quorum") if "quorum" in found else None,
        not_requester=(
            source.flag(found["not_requester"], "not_requester")
            if "not_requester" in found
            else None
        ),
    )


def _args(source: Source, found: dict[str, Any]) -> Any:
    if "args" not in found:
        return {}
    if found["args"].id != "mapping":
        raise source.refusal(found["args"], "args", "arguments are a mapping of names")
    return source.value(found["args"], "args")


def _approvers(source: Source, found: dict[str, Any]) -> tuple[str, ...] | None:
    if "approvers" not in found:
        return None
    node = found["approvers"]
    nodes = source.items(node, "approvers") if node.id == "sequence" else [node]
    names = [source.text(one, "approvers") for one in nodes]
    try:
        return require(approvers=names).approvers
    except BadPolicy as error:
        raise source.refusal(node, "approvers", str(error)) from None
