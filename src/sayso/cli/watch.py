"""`sayso watch`: a line for everything that is asked and decided, as it happens."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import click
from msgspec.structs import replace

from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import said, say, told
from sayso.cli.ls import hold_json, listed, whose
from sayso.cli.plain import plain
from sayso.domain.filter import Filter, read_filter
from sayso.domain.glyph import brief
from sayso.errors import NotAllowed, Unknown, Unreachable
from sayso.store.views import HoldView

LOOK_S = 15.0
"""How often the list is looked at although nothing is told of."""
AWAY_S, AWAY_MAX_S = 1.0, 30.0
RECENT_MAX = 10_000
"""How many requests are remembered at least, so that none is told of as new when more comes of it
later.
"""
EXEC_S = 60.0
_MARKS = {"asked": "?", "approved": "✓", "answered": "✓", "rejected": "✗", "undone": "▸"}
_COLOURS = {"asked": "yellow", "approved": "green", "answered": "green", "rejected": "red"}


class Event(NamedTuple):
    """Something that happened to a request."""

    what: str
    """`asked`, `changed`, `undone`, or what was decided in a word."""
    hold: HoldView


@click.command(short_help="Print what is asked and decided, as it happens.")
@click.argument("filter", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="What asks others, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--bell", is_flag=True, help="Ring the terminal's bell when something is asked.")
@click.option(
    "--exec",
    "command",
    metavar="CMD",
    help="Run this for every event, without a shell: the event is in SAYSO_EVENT, SAYSO_HOLD and "
    "SAYSO_TITLE, and as JSON on its standard input.",
)
@at_desk
async def watch(
    desk: Desk,
    *,
    filter: tuple[str, ...],
    everyone: bool,
    as_json: bool,
    bell: bool,
    command: str | None,
) -> None:
    """Print a line for every request that comes, changes, is decided or taken back, until Ctrl-C.
    A lost connection is taken up again, and what happened meanwhile is told then. Of very much at
    once, what comes and is decided between two looks may be left out; the audit has it.

    \b
    Examples:
      sayso watch --store pay.db
      sayso watch 'risk:>=high' --bell --url https://pay.example.com
      sayso watch --json | jq -r .what
      sayso watch --exec 'notify-send Sayso'
    """  # noqa: D301
    wanted = read_filter(" ".join(filter))
    try:
        argv = [] if command is None else shlex.split(command)
    except ValueError as error:
        raise click.UsageError(f"--exec: {error}") from None
    view = whose(everyone=everyone)
    known: dict[str, HoldView] | None = None
    moved = frozenset[str]()
    recent: dict[str, None] = {}
    away = 0.0
    while True:
        try:
            # Before the list is looked at: what comes after that is told.
            moved |= await desk.changed(LOOK_S)
            now = {one.id: one async for one in listed(desk, wanted, view=view)}
            events = [] if known is None else await _between(desk, known, now)
            if known is not None:
                passed = moved - now.keys() - recent.keys()
                events += await _passed(desk, wanted, view, passed)
        except Unreachable as error:
            if not away:
                say(f"{told(error)}; trying again")
            away = min(max(away * 2, AWAY_S), AWAY_MAX_S)
            await asyncio.sleep(away)
            continue
        if known is None:
            waiting = sum(one.status == "open" for one in now.values())
            say(f"{waiting} waiting; Ctrl-C ends this.")
        elif away:
            say("The server is back.")
        away, known, moved = 0.0, now, frozenset[str]()
        for name in (*now, *(event.hold.id for event in events)):
            recent[name] = None
        while len(recent) > max(RECENT_MAX, len(now)):
            del recent[next(iter(recent))]
        for event in events:
            click.echo(_json(event) if as_json else _line(event))
            if bell and event.what == "asked":
                click.echo("\a", nl=False, err=True)
            if argv:
                await _run(argv, event)
        sys.stdout.flush()


async def _between(
    desk: Desk, before: dict[str, HoldView], now: dict[str, HoldView]
) -> list[Event]:
    """Say what happened between two looks."""
    found: list[Event] = []
    for name, old in before.items():
        if name in now:
            continue
        try:
            hold = await desk.hold(name)
        except (NotAllowed, Unknown):
            continue  # It asks somebody else by now.
        if hold.decision is not None and old.status == "open":
            found.append(Event(hold.decision.word, hold))
    for name, hold in now.items():
        old = before.get(name)
        if old is None:
            found.append(Event("asked", hold))
        elif old.status != hold.status:
            what = "undone" if hold.decision is None else hold.decision.word
            found.append(Event(what, hold))
        elif old.digest != hold.digest:
            found.append(Event("changed", hold))
    return found


async def _passed(desk: Desk, wanted: Filter, view: str, names: Iterable[str]) -> list[Event]:
    """Say what came and was decided between two looks."""
    found: list[Event] = []
    for name in sorted(names):
        try:
            if (await desk.hold(name)).decision is None:
                continue  # It asks somebody else, or is of no interest.
        except (NotAllowed, Unknown):
            continue
        only = replace(wanted, words=(*wanted.words, name))
        async for hold in listed(desk, only, view=view, status="any"):
            if hold.id == name and hold.decision is not None:
                found += [Event("asked", hold), Event(hold.decision.word, hold)]
    return found


def _line(event: Event) -> str:
    hold = event.hold
    mark = _MARKS.get(event.what, "!")
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        mark = "-"
    what = click.style(f"{mark} {event.what:<9}", fg=_COLOURS.get(event.what))
    who = "" if hold.decision is None else f"  {said(hold.decision)}"
    now = datetime.now().astimezone()
    return f"{now:%H:%M:%S}  {what}  {plain(hold.id)}  {brief(hold.title, 80)}{who}"


def _json(event: Event) -> str:
    return f'{{"what": {json.dumps(event.what)}, "hold": {hold_json(event.hold)}}}'


async def _run(argv: list[str], event: Event) -> None:
    env = {
        **os.environ,
        "SAYSO_EVENT": event.what,
        "SAYSO_HOLD": event.hold.id,
        "SAYSO_TITLE": plain(event.hold.title),
    }
    try:
        child = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.PIPE, env=env)
    except OSError as error:
        say(f"{plain(argv[0])} cannot be run: {error.strerror}")
        return
    try:
        await asyncio.wait_for(child.communicate(_json(event).encode()), EXEC_S)
    except TimeoutError:
        child.kill()
        await child.wait()
        say(f"{plain(argv[0])} took longer than {EXEC_S:.0f} s, and was ended")
    if child.returncode:
        say(f"{plain(argv[0])} ended with {child.returncode}")
