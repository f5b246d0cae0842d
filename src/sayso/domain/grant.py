"""Grants: standing permissions, each for calls of one tool that are like one somebody allowed.

Rule 1: what a grant does not speak of must be as it was when it was given.
Rule 2: a grant is worth what whoever gave it could allow now, and never more than one person's yes:
it is no way around a quorum, four eyes, or a critical call.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.ruling import Require
from sayso.domain.value import Principal, Value
from sayso.errors import BadValue

GRANT = "grant"
"""The kind of item that a grant is."""
LIMITS_MAX = 50
USES_MAX = 1_000_000

Kind = Literal["any", "at_most", "at_least", "one_of"]


class Limit(Value, frozen=True, kw_only=True):
    """What an argument may be."""

    arg: str
    kind: Kind
    value: msgspec.Raw = msgspec.Raw(b"null")

    def allows(self, found: Any) -> bool:
        """Tell whether an argument may be this."""
        limit: Any = decode_value(bytes(self.value))
        if self.kind == "any":
            return True
        if self.kind == "one_of":
            return encode_value(found) in [encode_value(one) for one in limit]
        if isinstance(found, bool) or not isinstance(found, int | float):
            return False
        return found <= limit if self.kind == "at_most" else found >= limit


class Grant(Value, frozen=True, kw_only=True):
    """A standing permission."""

    id: str
    tool: str
    tool_version: str
    by: Principal
    at: int
    until: int
    hold: str
    """The hold whose decision it came of."""
    args: msgspec.Raw
    """What was allowed then."""
    limits: tuple[Limit, ...] = ()
    """What may be otherwise."""
    run: str = ""
    """The only run that it is for, with the runs below it; empty: all of the project."""
    agent: str = ""
    """The only agent that it is for."""
    uses_max: int | None = None
    used: int = 0
    revoked: int | None = None
    revoked_by: Principal | None = None
    note: str = ""

    @property
    def item(self) -> str:
        """The id of its item: those of a tool stand together."""
        return item_id(self.tool, self.id)

    def is_good(self, now: int) -> bool:
        """Tell whether it can be used at all."""
        left = self.uses_max is None or self.used < self.uses_max
        return self.revoked is None and now < self.until and left

    def covers(self, *, tool_version: str, args: bytes, runs: Iterable[str], agent: str) -> bool:
        """Tell whether it speaks of a call, of the last of these runs."""
        if tool_version != self.tool_version or agent != self.agent:
            return False
        if self.run and self.run not in tuple(runs):
            return False
        return self._like(decode_value(args))

    def _like(self, found: Any) -> bool:
        then: Any = decode_value(bytes(self.args))
        if not isinstance(found, dict) or not isinstance(then, dict):
            return False
        now, before = cast("dict[str, Any]", found), cast("dict[str, Any]", then)
        limits = {limit.arg: limit for limit in self.limits}
        return all(_allowed(limits.get(name), now, before, name) for name in {*now, *before})


def _allowed(limit: Limit | None, now: dict[str, Any], before: dict[str, Any], name: str) -> bool:
    if name not in now or (limit is None and name not in before):
        return False
    if limit is not None:
        return limit.allows(now[name])
    # As bytes: 1, 1.0 and True are not the same thing to allow.
    return encode_value(now[name]) == encode_value(before[name])


def item_id(tool: str, grant: str) -> str:
    """Name the item of a grant."""
    return f"{tool}/{grant}"


def may_be_granted(ruling: Require) -> bool:
    """Tell whether one person's standing yes may stand for what a ruling demands."""
    return ruling.quorum == 1 and not ruling.not_requester and ruling.risk != "critical"


def read_limits(given: Mapping[str, Any] | str, args: bytes) -> tuple[Limit, ...]:
    """Read what the arguments of later calls may be: `any` lets them be anything; what a mapping
    does not name must stay the same.
    """
    names: Any = decode_value(args)
    if given == "any":
        return tuple(Limit(arg=str(name), kind="any") for name in names)
    if given == "same":
        return ()
    if not isinstance(given, Mapping):
        raise BadValue(f"the arguments of a grant are 'same', 'any' or limits, not {given!r}")
    if len(given) > LIMITS_MAX:
        raise BadValue(f"a grant has at most {LIMITS_MAX} limits, not {len(given)}")
    return tuple(_limit(name, limit, names) for name, limit in given.items())


def _limit(name: str, limit: Any, names: Mapping[str, Any]) -> Limit:
    if name not in names:
        known = ", ".join(names)
        raise BadValue(f"the call has no argument {name!r} to be limited; it has: {known}")
    if limit == "any":
        return Limit(arg=name, kind="any")
    said = cast("dict[Any, Any]", limit) if isinstance(limit, dict) else {}
    if len(said) == 1:
        ((kind, value),) = said.items()
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind in ("at_most", "at_least") and number:
            return Limit(arg=name, kind=kind, value=msgspec.Raw(encode_value(value)))
        if kind == "one_of" and isinstance(value, list | tuple) and value:
            several = list(cast("list[Any]", value))
            return Limit(arg=name, kind="one_of", value=msgspec.Raw(encode_value(several)))
    raise BadValue(
        f"{limit!r} is no limit of {name!r}: use 'any', {{'at_most': 100}}, {{'at_least': 1}} or "
        "{'one_of': [...]}"
    )
