"""A run as the HTTP API tells it, as lines for people: what happened, who decided, and how long it
waited for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from sayso.cli.card import broken, span
from sayso.cli.desk import Desk
from sayso.cli.plain import plain
from sayso.domain.glyph import brief

_COLOURS = {
    "hold.settled": "green",
    "hold.opened": "yellow",
    "run.suspended": "yellow",
    "run.completed": "green",
    "run.failed": "red",
    "call.doubted": "yellow",
}
_SECONDS_SHOWN = 1.0


async def story_lines(desk: Desk, id: str, *, as_json: bool, **_: object) -> None:
    """Print a run."""
    events = await desk.events(id)
    for line in map(json.dumps, events) if as_json else story(events):
        click.echo(line)


def story(events: list[dict[str, Any]]) -> Iterator[str]:
    """Give a line an event, and one for each day. The end of a wait says how long it was."""
    day, since = "", dict[str, datetime]()
    for event in events:
        at = datetime.fromisoformat(event["at"]).astimezone()
        if day != (day := f"{at:%Y-%m-%d %Z}"):
            yield click.style(f"      {day}", dim=True)
        kind, data = str(event["type"]), event["data"]
        waited = _waited(kind, data, at, since)
        text = " ".join(word for word in (_said(data), waited) if word)
        head = f"{event['seq']:>4}  {at:%H:%M:%S}  "
        word = click.style(f"{plain(kind):<15}", fg=_COLOURS.get(kind))
        first, *more = broken(text, len(head) + 17)
        yield f"{head}{word}  {first.lstrip()}".rstrip()
        yield from more


def _waited(kind: str, data: Any, at: datetime, since: dict[str, datetime]) -> str:
    """Say how long somebody was waited for, where that ends."""
    match kind:
        case "hold.opened":
            since[str(data.get("hold_id"))] = at
        case "run.suspended":
            since["run"] = at
        case "hold.settled" | "run.resumed":
            began = since.pop("run" if kind == "run.resumed" else str(data.get("hold_id")), at)
            if (at - began).total_seconds() >= _SECONDS_SHOWN:
                return f"after {span(at - began)}"
        case _:
            pass
    return ""


def _said(data: Any) -> str:
    decision = data.get("decision")
    if decision is not None:
        why = decision["reason"] or decision["note"]
        said = f"{decision['verdict']} by {decision['by']['id']}, {decision['channel']}"
        return plain(f"{data['hold_id']} {said}") + (f": {brief(why)}" if why else "")
    if calls := data.get("calls"):
        return brief(", ".join(f"{one['tool']} {json.dumps(one['args'])}" for one in calls))
    names = ("hold_id", "call_id", "kind", "agent", "text", "input", "output", "error", "reason")
    parts = [data[name] for name in names if data.get(name)]
    if (outcome := data.get("outcome")) is not None:
        parts += [outcome["is"], outcome.get("message") or outcome.get("reason") or ""]
    return brief(" ".join(one if isinstance(one, str) else json.dumps(one) for one in parts))
