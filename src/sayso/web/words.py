"""The words that people read: what is asked, what becomes of it, and how long there is.

All text that is not in a template is here, so that there is one place to say a thing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sayso.domain.hold import Decision
from sayso.domain.value import CLOCK
from sayso.store.views import HoldView, moment

SOON_S = 20 * 60
"""From here on a deadline is drawn as near."""
MINUTE, HOUR, DAY = 60, 3600, 86400
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
    return decision.word.capitalize()


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
    return f"{length_s:.1f} s" if length_s >= 0.05 else "no time at all"  # noqa: PLR2004


def outcome_line(hold: HoldView) -> str:
    """Say what became of a hold: `Approved by jonas, 16 Nov 2026, 09:14 UTC, slack`."""
    decision = hold.decision
    if decision is None:
        return hold.status.capitalize()
    at, where = moment(decision.at), decision.channel
    who = "in nobody's name" if decision.by == CLOCK else f"by {decision.by}"
    return f"{said(decision)} {who}, {clock(at)}, {where}"


FILTERS: dict[str, Any] = {
    "clock": clock,
    "iso": iso,
    "kind_word": kind_word,
    "seconds": seconds,
}
GLOBALS: dict[str, Any] = {
    "time_left": time_left,
    "risk_bars": risk_bars,
    "decided": decided,
    "said": said,
    "lasting": lasting,
    "outcome_line": outcome_line,
    "SOON_S": SOON_S,
}
