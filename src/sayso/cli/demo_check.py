"""What must be true after `sayso demo`, checked one by one against files and journal."""

from __future__ import annotations

from typing import Any

import msgspec

from sayso.cli.demo_agent import ASKED, Payment
from sayso.domain import events as e
from sayso.domain.call import call_id
from sayso.domain.digest import decode_value
from sayso.domain.hold import VERDICT_WORDS, Approved, Decision, Verdict
from sayso.domain.recorded import Recorded
from sayso.store.audit import Report
from sayso.store.base import RunRow
from sayso.store.views import HoldView

SIGKILL = 9


class Story(msgspec.Struct, kw_only=True):
    """Everything that the demo saw on its way."""

    who: str
    verdict: Verdict
    """What was said at the terminal."""
    before: dict[str, Any]
    """What the first agent process said before it was killed."""
    killed_with: int
    shown: HoldView
    """The request after the kill, as it was shown."""
    decided: HoldView
    second: Decision | None
    """What the second click was told, if it was refused."""
    resumed_pid: int
    resumed: dict[str, Any]
    again: dict[str, Any]
    """What the last agent process said, which had nothing left to do."""
    payments: list[Payment]
    row: RunRow
    journal: list[Recorded]
    report: Report


def surprises(story: Story) -> list[str]:
    """Give the claims that do not hold; none if all is well."""
    claims = {**_about_the_wait(story), **_about_the_decision(story), **_about_the_end(story)}
    return [claim for claim, holds in claims.items() if not holds]


def _about_the_wait(story: Story) -> dict[str, bool]:
    shown = story.shown
    return {
        "the agent stopped before it was killed": story.before["status"] == "suspended",
        "it asked for exactly one thing": story.before["holds"] == [shown.id],
        "its process ended by SIGKILL": story.killed_with == -SIGKILL,
        "the request outlived it": shown.status == "open" and shown.decision is None,
        "the request is what the model asked for": shown.args == {**ASKED, "currency": "USD"},
    }


def _about_the_decision(story: Story) -> dict[str, bool]:
    decided, decision = story.decided, story.decided.decision
    if decision is None:
        return {"the decision was recorded": False}
    word, args = _said(story)
    edited = args != story.shown.args
    return {
        f"the decision is {story.who}'s": (decision.by.id, decision.by.kind)
        == (story.who, "person"),
        f"the decision is: {word}": decision.word == word,
        "it carries the digest of what is decided on": decision.digest == decided.digest,
        "an edit makes another version with another digest": edited
        == (decided.digest != story.shown.digest)
        == (decided.version == story.shown.version + 1),
        "the arguments are those decided on": decided.args == args,
        "the second click was refused and told what stands": story.second == decision,
    }


def _about_the_end(story: Story) -> dict[str, bool]:
    word, args = _said(story)
    payment = Payment(**args, key=call_id(story.row.id, "1.0"), pid=story.resumed_pid)
    expected = [payment] if word == "approved" else []
    finished = {"status": "completed", "error": None}
    return {
        f"exactly {len(expected)} payments, as decided, by the new process": story.payments
        == expected,
        "the run is completed": story.row.status == "completed",
        "the new process completed it": finished.items() <= story.resumed.items(),
        "another resume changed nothing": story.again == story.resumed,
        "the call started as often as it was allowed to": _count(story, e.CallStarted)
        == len(expected),
        "the call has one outcome": _count(story, e.CallFinished) == 1,
        "one request, one decision": _count(story, e.HoldOpened) == 1
        and _count(story, e.HoldSettled) == 1,
        "every chain of the store verifies": story.report.ok and story.report.entries > 0,
        "the journal has no gap": [entry.seq for entry in story.journal]
        == list(range(1, story.row.seq + 1)),
    }


def _said(story: Story) -> tuple[str, Any]:
    """Give what was said in one word, and about which arguments."""
    edit = story.verdict.args if isinstance(story.verdict, Approved) else None
    args = story.shown.args if edit is None else decode_value(bytes(edit))
    return VERDICT_WORDS[type(story.verdict)], args


def _count(story: Story, kind: type[e.Event]) -> int:
    return sum(isinstance(entry.event, kind) for entry in story.journal)
