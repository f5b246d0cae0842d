"""The words that people read: what is asked, what becomes of it, and how long there is.

All text that is not in a template is here, so that there is one place to say a thing.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from sayso.domain.digest import decode_value
from sayso.domain.glyph import inline, show
from sayso.domain.hold import Approved, Decision, Expired, name_approvers
from sayso.domain.value import Principal
from sayso.errors import HoldExpired, KeyReused, NotWhatWasShown, SaysoError
from sayso.store.views import HoldView, moment
from sayso.web.scope import scope_rows

SOON_S = 20 * 60
"""From here on a deadline is drawn as near."""
MINUTE, HOUR, DAY = 60, 3600, 86400
_HOLD = re.compile(r"\b(no|such|this|the|a) hold\b")
RISKS = ("low", "medium", "high", "critical")
KINDS = {
    "approval": "Approval",
    "question": "Question",
    "sign_in": "Sign-in",
    "consent": "Consent",
    "external": "Waiting outside",
    "in_doubt": "In doubt",
    "delegation": "Sub-agent",
}


def kind_word(kind: str) -> str:
    """Say what kind of thing is asked."""
    return KINDS.get(kind, kind.replace("_", " ").capitalize())


def time_left(seconds: float) -> str:
    """Say how long there is: `8:31`, `41 min`, `3 h 05 min`, `2 days`."""
    left = max(0, int(seconds))
    if left >= 2 * DAY:
        return f"{left // DAY} days"
    if left >= HOUR:
        return f"{left // HOUR} h {left % HOUR // MINUTE:02d} min"
    minutes = left // MINUTE
    return f"{minutes} min" if left >= 10 * MINUTE else f"{minutes}:{left % MINUTE:02d}"


def clock(at: datetime) -> str:
    """Say when something was, for people: `16 Nov 2026, 09:14 UTC`."""
    there = at.astimezone(UTC)
    return f"{there.day} {there:%b %Y, %H:%M} UTC"


def iso(at: datetime) -> str:
    """Say when something was, for programs."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def risk_bars(risk: str) -> int:
    """Say how many of four bars a risk has."""
    return RISKS.index(risk) + 1 if risk in RISKS else 0


def decided(hold: HoldView) -> str:
    """Say in a word what became of a hold."""
    return hold.status.capitalize() if hold.decision is None else said(hold.decision)


def said(decision: Decision) -> str:
    """Say in a word what somebody has decided."""
    return "Given up" if decision.word == "errored" else decision.word.capitalize()


def seconds(at: datetime) -> str:
    """Say when something was, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def lasting(length_s: float) -> str:
    """Say how long something was: `0.4 s`, `12 s`, `8 min 04 s`, `3 h 05 min`, `2 days 4 h`."""
    whole = max(0, int(length_s))
    if whole >= DAY:
        days = whole // DAY
        return f"{days} day{'' if days == 1 else 's'} {whole % DAY // HOUR} h"
    if whole >= HOUR:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    if whole >= MINUTE:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s"
    if whole >= 10:  # noqa: PLR2004
        return f"{whole} s"
    return f"{length_s:.1f} s" if length_s >= 0.05 else "less than 0.1 s"  # noqa: PLR2004


def outcome_line(hold: HoldView) -> str:
    """Say what became of a hold: `Approved by jonas, 16 Nov 2026, 09:14 UTC, slack`."""
    if hold.decision is None:
        return hold.status.capitalize()
    return f"{said(hold.decision)} {by_words(hold.decision)}"


def ends(hold: HoldView) -> str:
    """Say what happens at the end of the time that people have: `Rejects itself in`."""
    match hold.ruling.on_silence:
        case "approve":
            return "Approves itself in"
        case "answer":
            return "Answers itself in"
        case "fail":
            return "Run fails in"
        case "cancel":
            return "Run stops in"
        case _:
            by_kind = {"approval": "Rejects itself in", "in_doubt": "Is declined in"}
            return by_kind.get(hold.kind, "Continues without an answer in")


def by_words(decision: Decision) -> str:
    """Say who decided, when and where: `by jonas, 16 Nov 2026, 09:14 UTC, web`."""
    at = clock(moment(decision.at))
    if decision.by.kind == "clock":
        return at
    stands = f" for {inline(decision.of)}" if decision.of else ""
    where = place(decision.channel)
    return ", ".join(part for part in (f"by {inline(str(decision.by))}{stands}", at, where) if part)


def by_who(decision: Decision) -> str:
    """Say who decided, if anybody did: ` by jonas`."""
    return "" if decision.by.kind == "clock" else f" by {inline(str(decision.by))}"


def silence_words(verdict: Expired) -> str:
    """Say what nobody's decision has led to."""
    return {
        "approve": "Nobody decided in time, so it was approved, as its rule says.",
        "answer": "Nobody answered in time, so its default is the answer.",
        "fail": "Nobody decided in time, so the run has failed, as its rule says.",
        "cancel": "Nobody decided in time, so the run was stopped, as its rule says.",
    }.get(verdict.silence, "Nobody decided in time, so it was rejected.")


def asked(hold: HoldView) -> str:
    """Say whom a hold asks."""
    return inline(name_approvers(hold.approvers))


def outcome_words(hold: HoldView, before: HoldView) -> str:
    """Say what a decision has done."""
    if hold.status != "open":
        edited = hold.version > before.version
        return f"{decided(hold)}{' with changes' if edited else ''}."
    if hold.version > before.version and not hold.votes:
        return f"Changed. Now it asks {asked(hold)}."
    yes = [vote for vote in hold.votes if isinstance(vote.verdict, Approved)]
    if len(yes) < len(hold.votes):
        return f"Your no is counted: {len(hold.votes) - len(yes)} of {hold.reject_quorum}."
    return f"Your yes is counted: {len(yes)} of {hold.quorum}."


def too_late(error: SaysoError, me: Principal) -> str:
    """Say why a decision does not count any more, and whose stands."""
    decision: Decision | None = getattr(error, "decision", None)
    if isinstance(error, NotWhatWasShown):
        return "This request was changed after you had opened it. Look at it again."
    if isinstance(error, KeyReused):
        return "This form was sent before, and said something else then. Look at what stands."
    if isinstance(error, HoldExpired):
        return "Too late: the time for this request is over."
    if decision is None:
        return "Too late: the run that asks has ended."
    if decision.by == me:
        return f"You have {decision.word} this already, {clock(moment(decision.at))}."
    return f"{inline(str(decision.by))} has {decision.word} this already, {by_when(decision)}."


def by_when(decision: Decision) -> str:
    """Say when and where something was decided."""
    where = place(decision.channel)
    return ", ".join(part for part in (clock(moment(decision.at)), where) if part)


def place(channel: str) -> str:
    """Say where something was decided; nothing if that is nowhere that people are."""
    return CHANNELS.get(channel, channel)


def plainly(text: str) -> str:
    """Give what an error says in the word that people know a hold by."""
    return _HOLD.sub(r"\1 request", text)


def exact(text: object) -> str:
    """Give any text in one line, with nothing in it that hides or moves."""
    return inline(str(text))


def is_odd(text: object) -> bool:
    """Tell whether something in a text hides, moves, or passes for something else."""
    return bool(show(str(text)).escaped)


def lines(text: str) -> str:
    """Give any text with its lines, and with nothing in it that hides or moves."""
    return "\n".join(show(text).rows)


def pretty(value: Any) -> str:
    """Give any JSON value as text to look at."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def raw_json(data: Any) -> Any:
    """Parse JSON bytes that we have written ourselves."""
    return None if data is None else decode_value(bytes(data))


SAID = {
    "handed-over": "Handed over.",
    "reminded": "You will be reminded.",
    "stopped": "The run is stopped.",
}
"""What a page says after a form that leads away from what it was about."""
LATER = {"1h": "in an hour", "4h": "in four hours", "1d": "in a day", "7d": "in a week"}
"""When somebody can have themselves reminded."""
CHANNELS = {
    "web": "web",
    "http": "API",
    "cli": "command line",
    "library": "a program",
    "clock": "",
    "slack": "Slack",
    "oauth": "where they signed in",
    "engine": "",
}

FILTERS: dict[str, Any] = {
    "clock": clock,
    "exact": exact,
    "iso": iso,
    "kind_word": kind_word,
    "lines": lines,
    "moment": moment,
    "place": place,
    "plainly": plainly,
    "pretty": pretty,
    "raw_json": raw_json,
    "seconds": seconds,
}
GLOBALS: dict[str, Any] = {
    "asked": asked,
    "by_words": by_words,
    "decided": decided,
    "LATER": LATER,
    "ends": ends,
    "is_odd": is_odd,
    "risk_bars": risk_bars,
    "said": said,
    "lasting": lasting,
    "outcome_line": outcome_line,
    "silence_words": silence_words,
    "time_left": time_left,
    "scope_rows": scope_rows,
    "SOON_S": SOON_S,
}
