"""`sayso show`: what happened in a run, from its journal."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast

import click

from sayso.cli.card import card, markdown
from sayso.cli.desk import Desk, desk_options, is_remote, with_desk
from sayso.cli.ls import hold_json
from sayso.cli.opened import STORE, Place, opened, split_place
from sayso.cli.plain import plain
from sayso.cli.story import story_lines
from sayso.cli.timeline import Timeline
from sayso.domain import codec
from sayso.domain.recorded import Recorded
from sayso.errors import UnknownRun
from sayso.store.base import RunRow, Store
from sayso.store.journal import read_journal, recorded
from sayso.store.query import RunQuery
from sayso.store.views import moment

RUNS_SHOWN = 50
_SPECIAL = re.compile(r"[^\x20-\x7e]")


@click.command(short_help="Print a request, or what happened in a run, or list the runs.")
@click.argument("names", nargs=-1, metavar="[STORE] [ID]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, in full.")
@click.option("--md", "as_md", is_flag=True, help="Print a request as Markdown.")
@click.option("--full", is_flag=True, help="Fold no argument, however long it is.")
@click.option("--db", type=STORE, hidden=True)
@desk_options
def show(
    *,
    names: tuple[str, ...],
    as_json: bool,
    as_md: bool,
    full: bool,
    db: Place | None,
    **given: Any,
) -> None:
    """Print the request ID: what is asked, of whom, until when, and exactly what would be executed.
    If ID is a run, print its journal as a timeline. Without ID, list the newest runs of the STORE.

    \b
    Examples:
      sayso show hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --url https://pay.example.com
      sayso show pay.db
      sayso show pay.db run_01m7gsgdyhk6a2nvs95zdh5eb6
      sayso show pay.db run_01m7gsgdyhk6a2nvs95zdh5eb6 --json | jq .type
      sayso show --store postgresql://db.internal/pay run_01m7gsgdyhk6a2nvs95zdh5eb6
    """  # noqa: D301
    given["store"] = given["store"] or db
    if not is_remote(given, names) and given["app"] is None:
        given["store"], rest = split_place(given["store"], list(names), 1)
        names = tuple(rest)
    wanted = names[0] if names else None
    if given["store"] is None and len(names) != 1:
        raise click.UsageError("name a request or a run; `sayso ls` lists what waits for you")
    if wanted is not None and (wanted.startswith("hold_") or given["store"] is None):
        command = story_lines if wanted.startswith("run_") else _request
        with_desk(command, given)(wanted, as_json=as_json, as_md=as_md, full=full)
        return
    if as_md:
        raise click.UsageError("--md prints a request, and this is none")
    asyncio.run(_show(cast("Place", given["store"]), wanted, as_json=as_json, full=full))


async def _request(desk: Desk, id: str, *, as_json: bool, as_md: bool, full: bool) -> None:
    hold = await desk.hold(id)
    if as_json:
        click.echo(hold_json(hold))
    elif as_md:
        click.echo(markdown(hold))
    else:
        for line in card(hold, full=full):
            click.echo(line)


async def _show(place: Place, run_id: str | None, *, as_json: bool, full: bool) -> None:
    async with opened(place) as store:
        if run_id is None:
            rows = await store.runs(RunQuery(limit=RUNS_SHOWN))
            for row in rows:
                click.echo(_row_json(row) if as_json else _row_line(row))
            if len(rows) == RUNS_SHOWN:
                click.echo(f"These are the newest {RUNS_SHOWN} runs.", err=True)
        else:
            row, journal = await read_run(store, run_id)
            if as_json:
                for entry in journal:
                    click.echo(_entry_json(entry))
            else:
                print_run(row, journal, full=full)


async def read_run(store: Store, run_id: str) -> tuple[RunRow, list[Recorded]]:
    """Read a run's row and journal."""
    row = await store.load(run_id)
    if row is None:
        raise UnknownRun(f"there is no run {run_id!r} in {store.name!r}")
    return row, [recorded(entry) for entry in await read_journal(store, run_id)]


def print_run(row: RunRow, journal: list[Recorded], *, full: bool = False) -> None:
    """Print a run as people read it."""
    click.echo(f"{plain(row.id)}: {row.status}, agent {plain(row.agent)}")
    for line in Timeline(full=full).lines(journal):
        click.echo(line)


def _row_line(row: RunRow) -> str:
    return f"{plain(row.id)}  {row.status:<9}  {row.seq:>5} entries  {plain(row.agent)}"


def _row_json(row: RunRow) -> str:
    fields = ("id", "project", "agent", "thread", "status", "seq", "owner")
    return json.dumps({name: getattr(row, name) for name in fields})


def _entry_json(entry: Recorded) -> str:
    head = json.dumps({"seq": entry.seq, "at": moment(entry.at).isoformat(), "type": entry.type})
    event = b"null" if entry.event is None else codec.encode_event(entry.event)
    # As it was written: to parse a number and write it again might change it.
    return f'{head[:-1]}, "event": {_SPECIAL.sub(_escape, event.decode())}}}'


def _escape(found: re.Match[str]) -> str:
    """Write a character as JSON does in pure ASCII: it can only be inside of a string."""
    return re.sub("(....)", r"\\u\1", found[0].encode("utf-16-be").hex())
