"""`sayso doubt`: what is known of a call in doubt, and what can be said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
import msgspec

from sayso.cli.opened import Place, opened, store_option
from sayso.cli.plain import drawn, plain
from sayso.domain.call import Outcome
from sayso.domain.glyph import brief
from sayso.domain.hold import Decision
from sayso.store.doubt import DoubtView, read_doubt
from sayso.store.views import moment

_SPECIAL = re.compile(r"[^\x20-\x7e]")


@click.command(short_help="Print what is known of a call in doubt.")
@click.argument("hold")
@store_option("The store that the hold is in.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--full", is_flag=True, help="Fold no argument, however long it is.")
def doubt(hold: str, store: Place, as_json: bool, full: bool) -> None:  # noqa: FBT001
    """Print all that is known of the call that HOLD asks about, and what can be said.

    A call is in doubt if it was started, and nobody heard how it ended.

    \b
    Examples:
      sayso doubt hold_01m7gsgdyhk6a2nvs95zdh5eb6.2 --store pay.db
      sayso doubt hold_01m7gsgdyhk6a2nvs95zdh5eb6.2 --store pay.db --json | jq .may_live
    """  # noqa: D301
    view = asyncio.run(_read(hold, store))
    if as_json:
        click.echo(_json(view))
        return
    for line in _card(view, full=full):
        click.echo(line)


async def _read(hold: str, place: Place) -> DoubtView:
    async with opened(place) as store:
        return await read_doubt(store, hold)


def _card(view: DoubtView, *, full: bool) -> Iterator[str]:
    hold = view.hold
    yield f"{plain(hold.id)}: {brief(hold.title)}"
    for name, value in _facts(view):
        if value:
            yield f"  {name:<10} {brief(value, 400)}"
    yield "Shown and decided:"
    yield from drawn(hold.shown, 2, full=full)
    if hold.status != "open" and hold.decision is not None:
        yield f"It is {hold.status}: {brief(_said(hold.decision))}"
        return
    yield f"Say one of these, as {brief(' or '.join(hold.approvers))}:"
    for choice in view.choices:
        yield f"  {choice.say:<14} {choice.means}"
        if choice.refused:
            yield f"  {'':<14} Refused now: {brief(choice.refused, 600)}"


def _facts(view: DoubtView) -> list[tuple[str, str]]:
    life = view.life
    seen = f", last heard of {_at(life.seen_at)}" if life.seen_at else ""
    where = f" on {life.host}" if life.host else ""
    within = "" if view.timeout is None else f", with a timeout of {view.timeout}"
    started = "" if view.started_at is None else f"{_at(view.started_at)}{within}"
    taken = {"dead": "it was proven dead", "lease": "it was not heard of for its lease"}
    facts = [
        ("why", view.why),
        ("tool", f"{view.hold.tool}, attempt {view.attempt}"),
        ("step", view.step),
        ("key", view.key),
        ("digest", f"{view.hold.digest}, version {view.hold.version}"),
        *(("decided", _said(one)) for one in view.decisions),
        ("started", started),
        ("worker", f"{view.worker}{where} is {life.state}{seen}"),
        ("taken over", taken.get(view.proof, view.proof)),
        ("probe", view.probe),
        *(("LATE", f"{_at(one.at)}: {_outcome(one.outcome)}") for one in view.late),
        ("alive", "the attempt may still be under way" if view.may_live else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _said(decision: Decision) -> str:
    note = f" ({decision.note})" if decision.note else ""
    alive = ", even if it is alive" if decision.even_if_alive else ""
    return f"{decision.word} by {decision.by} at {_ms(decision.at)}{alive}{note}"


def _outcome(outcome: Outcome) -> str:
    text = msgspec.json.encode(outcome).decode()
    return f"{type(outcome).__name__} {text}"


def _at(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def _ms(at: int) -> str:
    return _at(moment(at))


def _json(view: DoubtView) -> str:
    hold = view.hold
    shown: dict[str, Any] = {
        "hold": hold.id,
        "run": hold.run_id,
        "call": hold.call_id,
        "status": hold.status,
        "tool": hold.tool,
        # The very bytes: to parse a number and write it again might change it.
        "args": msgspec.Raw(hold.args_json.encode()) if hold.args is not None else None,
        "digest": hold.digest,
        "version": hold.version,
        "approvers": hold.approvers,
        "attempt": view.attempt,
        "why": view.why,
        "key": view.key,
        "decisions": view.decisions,
        "started_at": view.started_at,
        "timeout_ms": None if view.timeout is None else view.timeout.total_seconds() * 1000,
        "worker": view.worker,
        "host": view.life.host,
        "worker_is": view.life.state,
        "seen_at": view.life.seen_at,
        "proof": view.proof,
        "probe": view.probe,
        "step": view.step,
        "late": [{"at": one.at, "outcome": one.outcome} for one in view.late],
        "may_live": view.may_live,
        "choices": [
            {"say": one.say, "means": one.means, "refused": one.refused} for one in view.choices
        ],
    }
    return _SPECIAL.sub(_escape, msgspec.json.encode(shown).decode())


def _escape(found: re.Match[str]) -> str:
    """Write a character as JSON does in pure ASCII: it can only be inside of a string."""
    return re.sub("(....)", r"\\u\1", found[0].encode("utf-16-be").hex())
