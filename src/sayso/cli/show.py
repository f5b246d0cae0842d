"""`sayso show`: what happened in a run, from its journal."""

from __future__ import annotations

import asyncio
import json
import re

import click

from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
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


@click.command(short_help="Print what happened in a run, or list the runs.")
@store_argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, in full.")
@click.option("--full", is_flag=True, help="Fold no argument, however long it is.")
def show(store: Place, run: str | None, as_json: bool, full: bool) -> None:  # noqa: FBT001
    """Print the journal of RUN as a timeline. Without RUN, list the newest runs of the STORE.

    \b
    Examples:
      sayso show pay.db
      sayso show pay.db run_01m7gsgdyhk6a2nvs95zdh5eb6
      sayso show pay.db run_01m7gsgdyhk6a2nvs95zdh5eb6 --json | jq .type
      sayso show --store postgresql://db.internal/pay run_01m7gsgdyhk6a2nvs95zdh5eb6
    """  # noqa: D301
    asyncio.run(_show(store, run, as_json=as_json, full=full))


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
