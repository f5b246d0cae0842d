"""Filters: what somebody types to see some of the requests.

    refund risk:high agent:teller tool:shop.* kind:question run:7f3a older:1h

Rule 1: plain words are for a search by words; what has a key in front is compared here. All of it
must fit; of one key that is said twice, either.
Rule 2: what is not understood is refused, and says what is near: a filter that silently shows
everything, or nothing, hides a request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Protocol

from sayso.domain.hold import ASK_KINDS
from sayso.domain.ruling import RISKS, duration_ms
from sayso.domain.value import Value
from sayso.errors import BadFilter, BadPolicy

FILTER_MAX = 500
"""No filter has more characters."""
KEYS = ("agent", "kind", "older", "risk", "run", "tool")
KINDS = tuple(sorted(ASK_KINDS.values()))
_TOKEN = re.compile(r'(?:([A-Za-z_]+):)?(?:"([^"]*)"|([^\s"]*))(?=\s|$)')
_RISK = re.compile(r"(<=|>=|<|>)?([a-z]+)")


class Filterable(Protocol):
    """What a filter looks at: a hold, as people see it."""

    @property
    def risk(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def run_id(self) -> str: ...


class Filter(Value, frozen=True, kw_only=True):
    """What to show. An empty one shows everything."""

    words: tuple[str, ...] = ()
    """For a search: `app.holds(search=filter.search)`."""
    risks: tuple[str, ...] = ()
    """Any of these: `risk:>=high` is two, and `risk:>critical` is `""`, which no request has."""
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """The beginnings of ids of runs."""
    older_ms: int | None = None
    """Only what has waited for so long."""

    @property
    def search(self) -> str | None:
        """The words, as a search takes them; None if there are none."""
        return " ".join(self.words) or None

    def fits(self, hold: Filterable, *, waited_ms: int) -> bool:
        """Tell whether a hold that has waited for so long is to be shown, its words aside."""
        return (
            _any(self.risks, hold.risk)
            and _any(self.kinds, hold.kind)
            and _like(self.agents, hold.agent)
            and _like(self.tools, hold.tool)
            and (not self.runs or hold.run_id.startswith(self.runs))
            and (self.older_ms is None or waited_ms >= self.older_ms)
        )


def read_filter(text: str) -> Filter:
    """Read what somebody typed, or raise `BadFilter` saying what is near. In quotes, blanks and
    colons are a part of what is looked for.
    """
    if len(text) > FILTER_MAX:
        raise BadFilter(f"a filter has at most {FILTER_MAX} characters, not {len(text):,}")
    words: list[str] = []
    found: dict[str, list[str]] = {key: [] for key in KEYS}
    for key, value in _tokens(text):
        if not key:
            words += value.split()
        elif key in found:
            found[key] += _READ[key](value)
        else:
            raise BadFilter(
                f"{key!r} is no key of a filter{_near(key, KEYS)}; to look for the word itself, "
                f'put it in quotes: "{key}:{value}"'
            )
    return Filter(
        words=tuple(words),
        risks=tuple(found["risk"]),
        agents=tuple(found["agent"]),
        tools=tuple(found["tool"]),
        kinds=tuple(found["kind"]),
        runs=tuple(found["run"]),
        older_ms=max(map(int, found["older"]), default=None),
    )


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    rest = text.strip()
    while rest:
        token = _TOKEN.match(rest)
        if token is None:
            raise BadFilter(f"{rest!r} cannot be read: a quote in it does not end, or has no blank")
        key, quoted, plain = token.groups()
        found.append(((key or "").lower(), plain if quoted is None else quoted))
        rest = rest[token.end() :].lstrip()
    return found


def _risk(value: str) -> list[str]:
    read = _RISK.fullmatch(value.lower())
    order: Sequence[str] = RISKS
    if read is None or read[2] not in order:
        name = value.lstrip("<=>")
        raise BadFilter(f"{name!r} is no risk{_near(name, order)}; use {', '.join(order)}")
    at = order.index(read[2])
    match read[1]:
        case "<=":
            return list(order[: at + 1])
        case "<":
            return list(order[:at]) or [""]
        case ">=":
            return list(order[at:])
        case ">":
            return list(order[at + 1 :]) or [""]
        case _:
            return [read[2]]


def _kind(value: str) -> list[str]:
    name = value.lower().replace("-", "_")
    if name not in KINDS:
        raise BadFilter(f"{value!r} is no kind of request{_near(name, KINDS)}")
    return [name]


def _run(value: str) -> list[str]:
    if value in ("", "run_"):
        raise BadFilter("a run to filter by is named by how its id begins")
    return [value if value.startswith("run_") else f"run_{value}"]


def _older(value: str) -> list[str]:
    try:
        return [str(duration_ms(value))]
    except BadPolicy:
        raise BadFilter(f"{value!r} is no time: write older:30s, older:5m, older:1h") from None


def _name(value: str) -> list[str]:
    if not value.strip("*"):
        raise BadFilter("a name to filter by has letters in it")
    return [value]


_READ = {
    "agent": _name,
    "kind": _kind,
    "older": _older,
    "risk": _risk,
    "run": _run,
    "tool": _name,
}


def _any(wanted: tuple[str, ...], found: str) -> bool:
    return not wanted or found in wanted


def _like(wanted: tuple[str, ...], found: str) -> bool:
    """Tell whether a name is one of these; a star at the end stands for whatever follows."""
    lower = found.lower()
    return not wanted or any(
        lower.startswith(one[:-1].lower()) if one.endswith("*") else lower == one.lower()
        for one in wanted
    )


def _near(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""
