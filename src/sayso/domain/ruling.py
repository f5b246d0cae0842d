"""Rulings: what a call needs before it may start, and how several rulings become one.

Rule 1: the most strict ruling wins; no ruling can loosen what another demands.
Rule 2: a combination that could not work is refused when the ruling is made, not when it is used.
"""

import re
from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from sayso.domain.value import Tagged, Value
from sayso.errors import BadPolicy

Risk = Literal["low", "medium", "high", "critical"]
Silence = Literal["reject", "approve", "answer", "fail", "cancel", "escalate"]
RISKS: tuple[Risk, ...] = ("low", "medium", "high", "critical")
SILENCES: tuple[Silence, ...] = ("reject", "approve", "answer", "fail", "cancel", "escalate")
_RISK_ORDER: dict[str, int] = {risk: order for order, risk in enumerate(RISKS)}
HIGH = frozenset({"high", "critical"})
YEARS_MAX_MS = 100 * 366 * 86_400_000
QUORUM_MAX = 20
ESCALATIONS_MAX = 10
REMIND_MIN_MS = 60_000

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
OPERATOR = "role:operator"
"""Who may do to any run of the project what its owner may."""


def user(name: str) -> str:
    """Name one person as an approver."""
    return f"user:{name}"


def role(name: str) -> str:
    """Name everybody who has a role as approvers."""
    return f"role:{name}"


def service(name: str) -> str:
    """Name a service that reports what happens outside. It never approves anything."""
    return f"service:{name}"


class Proceed(Tagged, frozen=True, kw_only=True, tag="proceed"):
    """The call may start."""


class Forbid(Tagged, frozen=True, kw_only=True, tag="forbid"):
    """The call must not start, whoever says so."""

    why: str


class Escalation(Value, frozen=True, kw_only=True):
    """Who is asked as well once a hold has waited for so long."""

    after_ms: int
    to: tuple[str, ...]


class Require(Tagged, frozen=True, kw_only=True, tag="require"):
    """The call may start once these people have said so."""

    approvers: tuple[str, ...] = ()
    """Who may say so; empty names nobody in particular, and so the owner."""
    quorum: int = 1
    """How many different persons must say yes."""
    within_ms: int | None = None
    """How long people have; None waits for ever."""
    on_silence: str = "reject"
    remind_every_ms: int | None = None
    escalate_after_ms: int | None = None
    escalate_to: tuple[str, ...] = ()
    """Who is asked as well after that time."""
    not_requester: bool = False
    """Neither whoever asked for the call, nor who stands in for them, nor who edited it."""
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
    reject_quorum: int = 1
    """How many different persons must say no."""
    start_by_ms: int | None = None
    """How long a yes is good for: a call that has not started by then is asked about again."""
    chain: tuple[Escalation, ...] = ()
    """Who is asked after those of `escalate_to`, each later than the one before."""

    @property
    def escalations(self) -> tuple[Escalation, ...]:
        """Who is asked as well as time goes by, the earliest first."""
        if self.escalate_after_ms is None:
            return self.chain
        return (Escalation(after_ms=self.escalate_after_ms, to=self.escalate_to), *self.chain)


Ruling = Proceed | Require | Forbid


def require(
    *,
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
    for one in who:
        _check_approver(one, outside=outside)
    _check_choices(risk=risk, on_silence=on_silence, on_reject=on_reject)
    if (resolve or siblings) and (resolve or "each", siblings or "run") not in BATCHES:
        known = ", ".join(f"{one}/{other}" for one, other in sorted(BATCHES))
        raise BadPolicy(f"resolve={resolve!r} with siblings={siblings!r}: use one of {known}")
    for text in (title, why):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadPolicy(f"title and why are for people to read: {text!r} is no text")
    within_ms = None if within is None else duration_ms(within)
    _check_silence(on_silence, risk, within_ms, answered=answered, outside=outside)
    ladder = _ladder(escalate_after, escalate_to, escalate, within_ms, on_silence)
    four_eyes = _flag(not_requester, "not_requester")
    most = _at_most(who, ladder, not_requester=four_eyes)
    _check_quorum(quorum, reject_quorum, most, answered=answered)
    return Require(
        approvers=who,
        quorum=quorum,
        reject_quorum=reject_quorum,
        not_requester=four_eyes,
        within_ms=within_ms,
        on_silence=on_silence,
        start_by_ms=None if start_by is None else duration_ms(start_by),
        remind_every_ms=None if remind_every is None else _reminding(remind_every),
        escalate_after_ms=ladder[0].after_ms if ladder else None,
        escalate_to=ladder[0].to if ladder else (),
        chain=ladder[1:],
        risk=risk,
        title=title,
        why=why,
        editable=editable,
        on_reject=on_reject,
        rule=rule,
        resolve=resolve,
        siblings=siblings,
    )


def _check_approver(one: object, *, outside: bool = False) -> None:
    kinds = "user|role|service" if outside else "user|role"
    # What has a blank at its end looks like what has none, and names nobody.
    if one not in (owner, anyone) and not re.fullmatch(rf"(?:{kinds}):\S(?:.*\S)?", str(one)):
        raise BadPolicy(f"{one!r} is not an approver: use owner, anyone, user('x'), role('x')")


def _check_choices(*, risk: str, on_silence: str, on_reject: str) -> None:
    if risk not in RISKS:
        raise BadPolicy(f"{risk!r} is not a risk: use one of {', '.join(RISKS)}")
    if on_silence not in SILENCES:
        raise BadPolicy(f"{on_silence!r} is not a silence: use one of {', '.join(SILENCES)}")
    if on_reject not in ("tell", "cancel"):
        raise BadPolicy(f"on_reject is 'tell' or 'cancel', not {on_reject!r}")


def _check_silence(
    on_silence: str, risk: str, within_ms: int | None, *, answered: bool, outside: bool
) -> None:
    if on_silence == "approve" and answered:
        raise BadPolicy("silence is no answer: use on_silence='reject', 'fail' or 'cancel' here")
    if on_silence == "answer" and not (answered and not outside):
        raise BadPolicy("on_silence='answer' is for questions: nothing else has an answer")
    if on_silence == "approve" and risk in HIGH:
        raise BadPolicy(f"silence must not approve a call of {risk} risk")
    if on_silence != "reject" and within_ms is None:
        raise BadPolicy(f"on_silence={on_silence!r} needs `within`: silence without end is no end")


def _ladder(
    after: str | float | None,
    to: Iterable[str] | None,
    more: Iterable[tuple[str | float, str | Iterable[str]]],
    within_ms: int | None,
    on_silence: str,
) -> tuple[Escalation, ...]:
    """Read who is asked as well as time goes by."""
    who, steps = _named(to), _steps(more)
    found: list[Escalation] = []
    if on_silence == "escalate":
        if not who or after is not None or steps:
            raise BadPolicy("on_silence='escalate' takes escalate_to, and its time from `within`")
        assert within_ms is not None, "silence has an end"
        found = [Escalation(after_ms=within_ms, to=who)]
    elif (after is None) != (not who):
        raise BadPolicy("escalate_after and escalate_to go together: after how long, and to whom")
    elif after is not None:
        found = [Escalation(after_ms=duration_ms(after), to=who)]
    found += [Escalation(after_ms=duration_ms(ms), to=_named(names)) for ms, names in steps]
    for one in found:
        if not one.to:
            raise BadPolicy("an escalation names whom it goes to")
        for name in one.to:
            _check_approver(name)
    times = [one.after_ms for one in found]
    if times != sorted(set(times)) or len(found) > ESCALATIONS_MAX:
        raise BadPolicy(f"escalations come one after another, {ESCALATIONS_MAX} at most")
    if on_silence != "escalate" and within_ms is not None and times and times[-1] >= within_ms:
        raise BadPolicy("an escalation after the end of `within` would never come")
    return tuple(found)


def _steps(
    more: Iterable[tuple[str | float, str | Iterable[str]]],
) -> list[tuple[str | float, str | Iterable[str]]]:
    try:
        steps = list(more)
    except TypeError:
        steps = [more]  # It is shown to be none below.
    for step in steps:
        if not isinstance(step, tuple | list) or len(step) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]  # noqa: PLR2004
            raise BadPolicy(f"escalate is a list of pairs such as ('4h', role('x')), not {step!r}")
    return steps  # pyright: ignore[reportReturnType]


def _at_most(
    who: tuple[str, ...], ladder: tuple[Escalation, ...], *, not_requester: bool
) -> int | None:
    """Say how many different persons can ever decide; None if nobody knows."""
    named = {*(who or (owner,)), *(name for step in ladder for name in step.to)}
    if anyone in named or any(name.startswith("role:") for name in named):
        return None
    # The owner is one person, and so is everybody who is named. Whoever owns a run has asked for
    # what it does.
    return len(named - {owner} if not_requester else named)


def enough(quorum: int, who: tuple[str, ...]) -> bool:
    """Tell whether so many persons can be found among these, as far as their names tell."""
    most = _at_most(who, (), not_requester=False)
    return most is None or most >= quorum


def _check_quorum(quorum: int, reject_quorum: int, most: int | None, *, answered: bool) -> None:
    if most == 0:
        raise BadPolicy("not_requester asks others than the owner: name somebody, or anyone")
    for number, word in ((quorum, "quorum"), (reject_quorum, "reject_quorum")):
        if type(number) is not int or not 1 <= number <= QUORUM_MAX:
            raise BadPolicy(f"{word} is a number from 1 to {QUORUM_MAX}, not {number!r}")
        if number > 1 and answered:
            raise BadPolicy(f"a {word} is for approvals: an answer is one person's")
        if most is not None and most < number:
            raise BadPolicy(f"a {word} of {number} of {most} person(s) can never be reached")


def _flag(value: object, word: str) -> bool:
    if not isinstance(value, bool):
        raise BadPolicy(f"{word} is True or False, not {value!r}")
    return value


def _reminding(every: str | float) -> int:
    ms = duration_ms(every)
    if ms < REMIND_MIN_MS:
        raise BadPolicy(f"remind_every is a minute at least: {every!r} would only tire people")
    return ms


def _named(approvers: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(approvers, str):
        return (approvers,)  # One approver, who need not be put in a list.
    try:
        return () if approvers is None else tuple(approvers)
    except TypeError:
        raise BadPolicy(
            f"{approvers!r} are not approvers: use a list of owner, anyone or user('name')"
        ) from None


def at_risk(ruling: Require, risk: str) -> Require:
    """Raise a ruling to the risk of its tool; silence never approves what is of high risk."""
    if ruling.risk == risk and ruling.on_silence != "approve":
        return ruling
    highest = max((ruling.risk, risk), key=lambda one: _RISK_ORDER.get(one, len(RISKS)))
    silence = ruling.on_silence
    if highest not in ("low", "medium") and silence == "approve":
        silence = "reject"
    return replace(ruling, risk=highest, on_silence=silence)


def strictest(*rulings: Ruling) -> Ruling:
    """Combine rulings: forbidden by one is forbidden; required by several is required by each."""
    strict: Ruling = Proceed()
    for ruling in rulings:
        strict = _stricter(strict, ruling)
    return _within_reach(strict) if isinstance(strict, Require) else strict


def _within_reach(ruling: Require) -> Ruling:
    """Forbid what would wait for persons who do not exist."""
    if ruling.quorum == ruling.reject_quorum == 1 and not ruling.not_requester:
        return ruling  # There is always one.
    most = _at_most(ruling.approvers, ruling.escalations, not_requester=ruling.not_requester)
    if most is not None and most < ruling.quorum:
        return Forbid(why=f"nobody can allow it: {ruling.rule!r} asks more persons than may say so")
    # As many as there are can always say no.
    fewer = _least(ruling.reject_quorum, most) or 1
    return ruling if fewer == ruling.reject_quorum else replace(ruling, reject_quorum=fewer)


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
    one, two = _spelled_out(one), _spelled_out(two)
    silences = {one.on_silence, two.on_silence}
    silence = next((s for s in ("fail", "cancel", "reject", "answer") if s in silences), "approve")
    within_ms = _least(one.within_ms, two.within_ms)
    ladder = _both_ladders(one, two, common, within_ms)
    # Both of one of them: half of each may be no way to decide a turn.
    batch = two if two.resolve or two.siblings else one
    both = replace(
        one,
        approvers=common,
        quorum=max(one.quorum, two.quorum),
        reject_quorum=min(one.reject_quorum, two.reject_quorum),
        not_requester=one.not_requester or two.not_requester,
        within_ms=within_ms,
        start_by_ms=_least(one.start_by_ms, two.start_by_ms),
        remind_every_ms=_least(one.remind_every_ms, two.remind_every_ms),
        escalate_after_ms=ladder[0].after_ms if ladder else None,
        escalate_to=ladder[0].to if ladder else (),
        chain=ladder[1:],
        on_silence=silence,
        title=two.title or one.title,
        why=two.why or one.why,
        editable=one.editable and two.editable,
        on_reject="cancel" if "cancel" in (one.on_reject, two.on_reject) else "tell",
        resolve=batch.resolve,
        siblings=batch.siblings,
        rule=", ".join(dict.fromkeys(name for name in (one.rule, two.rule) if name)),
    )
    return at_risk(both, two.risk)


def _spelled_out(ruling: Require) -> Require:
    """Say what silence that escalates means: a no after twice the time. Only so can it be compared
    with what others mean by theirs.
    """
    if ruling.on_silence != "escalate":
        return ruling
    within_ms = None if ruling.within_ms is None else ruling.within_ms * 2
    return replace(ruling, on_silence="reject", within_ms=within_ms)


def _both_ladders(
    one: Require, two: Require, common: tuple[str, ...], within_ms: int | None
) -> tuple[Escalation, ...]:
    """Ask of two rulings' people as time goes by those whom both name by then."""
    steps: dict[int, list[str]] = {}
    everybody = [name for each in (one, two) for step in each.escalations for name in step.to]
    for name in dict.fromkeys((*one.approvers, *two.approvers, *everybody)):
        times = _asked_from(one, name), _asked_from(two, name)
        if name in common or times[0] is None or times[1] is None:
            continue
        after = max(times[0], times[1])
        if after and (within_ms is None or after < within_ms):
            steps.setdefault(after, []).append(name)
    return tuple(Escalation(after_ms=after, to=tuple(to)) for after, to in sorted(steps.items()))


def _asked_from(ruling: Require, name: str) -> int | None:
    """Say after how long somebody of this name may decide; None: never."""
    if {name, anyone} & {*ruling.approvers}:
        return 0
    steps = (step.after_ms for step in ruling.escalations if {name, anyone} & {*step.to})
    # A rule that names nobody leaves it to the other one, but for whom it brings in later.
    return min(steps, default=None if ruling.approvers else 0)


def _least(*given: int | None) -> int | None:
    return min((ms for ms in given if ms is not None), default=None)


def common_approvers(one: tuple[str, ...], two: tuple[str, ...]) -> tuple[str, ...] | None:
    """Name those whom both name; None if there is nobody."""
    if not two or (anyone in two and one):
        return one
    if not one or anyone in one:
        return two
    return tuple(who for who in one if who in two) or None


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


def duration_text(ms: int) -> str:
    """Write a duration as `duration_ms` reads it."""
    found = ""
    for unit, size_ms in reversed(_UNITS_MS.items()):
        count, ms = divmod(ms, size_ms)
        found += f"{count}{unit}" if count else ""
    return found
