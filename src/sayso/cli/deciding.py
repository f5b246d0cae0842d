"""Deciding several requests, each for itself, and saying what became of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import click

from sayso.cli.desk import UNDO_S, Desk
from sayso.cli.ending import FAILED, check_open, code_of, say, told
from sayso.cli.ls import hold_json
from sayso.cli.plain import plain
from sayso.domain.hold import VERDICT_WORDS, Approved, Verdict, name_approvers
from sayso.errors import SaysoError
from sayso.store.views import HoldView, moment


class Outcome(NamedTuple):
    """What is to become of a request, and how that is told."""

    verdict: Verdict
    reason: str = ""
    undo: bool = True
    even_if_alive: bool = False
    as_json: bool = False


async def see(desk: Desk, ids: tuple[str, ...]) -> list[HoldView]:
    """Look at requests that are to be decided; if one of them is not open, nothing is."""
    holds = [await desk.hold(one) for one in dict.fromkeys(ids)]
    for hold in holds:
        check_open(hold)
    return holds


async def decide_each(desk: Desk, holds: list[HoldView], outcome: Outcome) -> None:
    """Decide requests one by one: one that cannot be decided leaves the others be. It ends with
    the code that all failures have in common.
    """
    codes: set[int] = set()
    for hold in holds:
        try:
            now = await decide(desk, hold, outcome)
        except SaysoError as error:
            if len(holds) == 1:
                raise
            codes.add(code_of(error))
            say(f"{plain(hold.id)}: {told(error)}")
            continue
        say(became(hold, now, outcome.verdict))
        if outcome.as_json:
            click.echo(hold_json(now))
    if codes:
        raise click.exceptions.Exit(codes.pop() if len(codes) == 1 else FAILED)


async def decide(desk: Desk, hold: HoldView, outcome: Outcome) -> HoldView:
    """Decide one request as it was shown."""
    return await desk.decide(
        hold,
        outcome.verdict,
        note=outcome.reason,
        undo_s=UNDO_S if outcome.undo else None,
        even_if_alive=outcome.even_if_alive,
    )


def became(before: HoldView, now: HoldView, verdict: Verdict) -> str:
    """Say what became of a request in a sentence, and how to stop it while that is possible."""
    word = VERDICT_WORDS[type(verdict)].capitalize()
    changed = isinstance(verdict, Approved) and verdict.args is not None
    what = f"{word} with changes." if changed else f"{word}."
    if now.status == "open":
        who = plain(name_approvers(now.approvers))
        if now.version != before.version and not now.votes:
            return f"Changed, and not decided: it now asks {who}."
        return f"{what} It takes {now.missing} more of {who}."
    if now.decision is None or now.decision.effective_at <= now.decision.at:
        return what
    rest = (moment(now.decision.effective_at) - datetime.now(UTC)).total_seconds()
    return f"{what} Takes effect in {max(round(rest), 0)} s, `sayso undo {now.id}` to stop it."
