"""Which calls need whom, by when, and what silence means.

Rule 1: the most strict ruling wins; a rule can never loosen what another demands.
Rule 2: a condition that raises, or answers anything but True or False, counts as "ask a person".
Rule 3: a combination that could not work is refused when the policy is made, not when it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from sayso.domain.value import Principal, Tagged, Value
from sayso.errors import BadPolicy, describe

Risk = Literal["low", "medium", "high", "critical"]
Silence = Literal["reject", "approve", "fail", "cancel"]
RISKS: tuple[Risk, ...] = ("low", "medium", "high", "critical")
SILENCES: tuple[Silence, ...] = ("reject", "approve", "fail", "cancel")
_RISK_ORDER: dict[str, int] = {risk: order for order, risk in enumerate(RISKS)}
HIGH = frozenset({"high", "critical"})
YEARS_MAX_MS = 100 * 366 * 86_400_000

BATCHES = frozenset(
    {
        ("each", "run"),
        ("each", "halt"),
        ("each", "hold"),
        ("each", "in_order"),
        ("together", "run"),
        ("together", "hold"),
        ("latest", "run"),
    }
)
"""How the calls of one turn are decided, and what the others do meanwhile; nothing else works."""

owner = "owner"
"""The approver who started the root run. The default."""
anyone = "anyone"
"""Any person of the project."""


def user(name: str) -> str:
    """Name one person as an approver."""
    return f"user:{name}"


def service(name: str) -> str:
    """Name a service that reports what happens outside. It never approves anything."""
    return f"service:{name}"


class Proceed(Tagged, frozen=True, kw_only=True, tag="proceed"):
    """The call may start."""


class Forbid(Tagged, frozen=True, kw_only=True, tag="forbid"):
    """The call must not start, whoever says so."""

    why: str


class Require(Tagged, frozen=True, kw_only=True, tag="require"):
    """The call may start once these people have said so."""

    approvers: tuple[str, ...] = ()
    """Who may say so; empty names nobody in particular, and so the owner."""
    quorum: int = 1
    within_ms: int | None = None
    """How long people have; None waits for ever."""
    on_silence: str = "reject"
    remind_every_ms: int | None = None
    escalate_after_ms: int | None = None
    escalate_to: tuple[str, ...] = ()
    not_requester: bool = False
    risk: str = "medium"
    title: str = ""
    why: str = ""
    editable: bool = True
    schema: str = ""
    undo_ms: int | None = None
    on_reject: str = "tell"
    rule: str = ""
    """Which rule asked for this."""
    resolve: str = ""
    """How the calls of its turn are to be decided; empty: as the agent says."""
    siblings: str = ""


Ruling = Proceed | Require | Forbid


def require(
    *,
    approvers: Iterable[str] | None = None,
    within: str | float | None = None,
    on_silence: str = "reject",
    risk: str = "medium",
    title: str = "",
    why: str = "",
    editable: bool = True,
    on_reject: str = "tell",
    rule: str = "",
    resolve: str = "",
    siblings: str = "",
    outside: bool = False,
    answered: bool = False,
) -> Require:
    """Make a `Require`, refusing what could not work. `outside`: services may be named, too, as for
    something that happens outside. `answered`: it takes an answer, which silence cannot give.
    """
    who = _named(approvers)
    if approvers is not None and not who:
        raise BadPolicy("a ruling needs at least one approver: nobody could ever say so")
    kinds = "user|service" if outside else "user"
    for one in who:
        if str(one).startswith("role:"):
            raise BadPolicy(f"{one!r}: there are no roles yet; name people, as in 'user:ann'")
        if one not in (owner, anyone) and not re.fullmatch(rf"(?:{kinds}):.+", str(one)):
            raise BadPolicy(f"{one!r} is not an approver: use owner, anyone or user('name')")
    if (resolve or siblings) and (resolve or "each", siblings or "run") not in BATCHES:
        known = ", ".join(f"{one}/{other}" for one, other in sorted(BATCHES))
        raise BadPolicy(f"resolve={resolve!r} with siblings={siblings!r}: use one of {known}")
    if risk not in RISKS:
        raise BadPolicy(f"{risk!r} is not a risk: use one of {', '.join(RISKS)}")
    if on_silence not in SILENCES:
        raise BadPolicy(f"{on_silence!r} is not a silence: use one of {', '.join(SILENCES)}")
    if on_silence == "approve" and answered:
        raise BadPolicy("silence is no answer: use on_silence='reject', 'fail' or 'cancel' here")
    if on_silence == "approve" and risk in HIGH:
        raise BadPolicy(f"silence must not approve a call of {risk} risk")
    for text in (title, why):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadPolicy(f"title and why are for people to read: {text!r} is no text")
    if on_reject not in ("tell", "cancel"):
        raise BadPolicy(f"on_reject is 'tell' or 'cancel', not {on_reject!r}")
    within_ms = None if within is None else duration_ms(within)
    if on_silence != "reject" and within_ms is None:
        raise BadPolicy(f"on_silence={on_silence!r} needs `within`: silence without end is no end")
    return Require(
        approvers=who,
        within_ms=within_ms,
        on_silence=on_silence,
        risk=risk,
        title=title,
        why=why,
        editable=editable,
        on_reject=on_reject,
        rule=rule,
        resolve=resolve,
        siblings=siblings,
    )


def _named(approvers: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(approvers, str):
        return (approvers,)  # One approver, who need not be put in a list.
    try:
        return () if approvers is None else tuple(approvers)
    except TypeError:
        raise BadPolicy(
            f"{approvers!r} are not approvers: use a list of owner, anyone or user('name')"
        ) from None


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
        within: str | float | None = None,
        on_silence: str = "reject",
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
                within=within,
                on_silence=on_silence,
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
        each = (
            rule.on(msgspec.structs.replace(facts, args=deepcopy(facts.args)))
            for rule in self.rules
        )
        found = [ruling for ruling in each if ruling is not None]
        ruling = strictest(*others, *found)
        return at_risk(ruling, facts.risk) if isinstance(ruling, Require) else ruling


def at_risk(ruling: Require, risk: str) -> Require:
    """Raise a ruling to the risk of its tool; silence never approves what is of high risk."""
    highest = max((ruling.risk, risk), key=lambda one: _RISK_ORDER.get(one, len(RISKS)))
    silence = ruling.on_silence
    if highest not in ("low", "medium") and silence == "approve":
        silence = "reject"
    return msgspec.structs.replace(ruling, risk=highest, on_silence=silence)


def strictest(*rulings: Ruling) -> Ruling:
    """Combine rulings: forbidden by one is forbidden; required by several is required by each."""
    strict: Ruling = Proceed()
    for ruling in rulings:
        strict = _stricter(strict, _enforceable(ruling))
    return strict


def unenforced(ruling: Require) -> str:
    """Name a demand that can be written down and is not enforced yet; empty if there is none."""
    if ruling.quorum != 1:
        return f"a quorum of {ruling.quorum}"
    return "an approver who is not the requester" if ruling.not_requester else ""


def _enforceable(ruling: Ruling) -> Ruling:
    # To hold the call without the demand would be to let it go with less than was demanded.
    if isinstance(ruling, Require) and (demand := unenforced(ruling)):
        return Forbid(
            why=f"the rule {ruling.rule!r} demands {demand}, which cannot be enforced yet"
        )
    return ruling


def _stricter(one: Ruling, two: Ruling) -> Ruling:
    if isinstance(one, Forbid) or isinstance(two, Proceed):
        return one
    if isinstance(two, Forbid) or isinstance(one, Proceed):
        return two
    return _both(one, two)


def _both(one: Require, two: Require) -> Ruling:
    # Only people whom both name may decide; if there are none, nobody may.
    common = common_approvers(one.approvers, two.approvers)
    if common is None:
        return Forbid(why=f"the rules {one.rule!r} and {two.rule!r} name no approver in common")
    withins = [ms for ms in (one.within_ms, two.within_ms) if ms is not None]
    silences = {one.on_silence, two.on_silence}
    silence = next((s for s in ("fail", "cancel") if s in silences), "reject")
    # Both of one of them: half of each may be no way to decide a turn.
    batch = two if two.resolve or two.siblings else one
    both = msgspec.structs.replace(
        one,
        approvers=common,
        within_ms=min(withins, default=None),
        on_silence="approve" if silences == {"approve"} else silence,
        title=two.title or one.title,
        why=two.why or one.why,
        editable=one.editable and two.editable,
        on_reject="cancel" if "cancel" in (one.on_reject, two.on_reject) else "tell",
        resolve=batch.resolve,
        siblings=batch.siblings,
        rule=", ".join(dict.fromkeys(name for name in (one.rule, two.rule) if name)),
    )
    return at_risk(both, two.risk)


def common_approvers(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...] | None:
    """Name those whom both name; None if there is nobody."""
    if not two or (anyone in two and one):
        return one
    if not one or anyone in one:
        return two
    return tuple(who for who in one if who in two) or None


def _suspicious(rule: Rule, why: str) -> Require:
    base = Require(rule=rule.name) if isinstance(rule.ruling, Forbid) else rule.ruling
    return msgspec.structs.replace(base, why=f"The rule {rule.name!r} could not be applied: {why}.")


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(text: str | float) -> int:
    """Read a duration: '30s', '4h', '2d', '1h30m', or a number of seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        ms = text * 1000
    else:
        parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])", str(text))
        if "".join(n + unit for n, unit in parts) != str(text).replace(" ", ""):
            raise BadPolicy(f"{text!r} is not a duration: write '30s', '4h', '2d' or '1h30m'")
        ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    # Less than a millisecond would be over before anybody is asked.
    if not 1 <= ms <= YEARS_MAX_MS:
        raise BadPolicy(f"{text!r} is not a duration between a millisecond and a hundred years")
    return int(ms)
