"""`sayso audit list`: who decided what, as lines to read or cells to count."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.audit_export import putter
from sayso.cli.audit_verify import told, verify
from sayso.cli.card import broken
from sayso.cli.ending import ended_by, say
from sayso.cli.opened import Place, opened, store_option
from sayso.cli.plain import plain
from sayso.domain.filter import Filter, read_filter
from sayso.domain.glyph import brief
from sayso.engine.evidence import Line
from sayso.errors import Unknown
from sayso.store.views import HoldView

LIST = "list"
FAULTS_FOUND = 1


@click.command(LIST, short_help="List who decided what.")
@click.argument("filter", nargs=-1)
@store_option("The store.")
@click.option("--project", help="Of one project.")
@click.option("--verify", "verified", is_flag=True, help="Check the whole store as well.")
@click.option("--csv", "as_csv", is_flag=True, help="Print cells for a spreadsheet.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def list_command(
    *,
    filter: tuple[str, ...],
    store: Place,
    project: str | None,
    verified: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List all that people decided in a store, or time did, in the order of the commits. FILTER is
    that of `sayso ls`; its words are looked for in who, what, tool, channel and ids.

    With --verify it ends with 1 if anything in the store is not as it was written.

    \b
    Examples:
      sayso audit list --store pay.db
      sayso audit mira tool:pay --store pay.db
      sayso audit --verify --csv --store pay.db
    """  # noqa: D301
    if as_csv and as_json:
        raise click.UsageError("--csv or --json: one of them")
    with ended_by():
        wanted = read_filter(" ".join(filter))
        asyncio.run(_print(store, wanted, project, "csv" if as_csv else "json" * as_json))
        if not verified:
            return
        report = asyncio.run(verify(store))
        for line in told(store, report):
            say(line)
    if not report.ok:
        raise click.exceptions.Exit(FAULTS_FOUND)


async def _print(place: Place, wanted: Filter, project: str | None, kind: str) -> None:
    async with opened(place) as store, Sayso(store, work=False) as app:
        put = putter("csv", sys.stdout) if kind == "csv" else None
        async for line in _wanted(app, wanted, project):
            if put is not None:
                put(line)
            elif kind:
                click.echo(json.dumps(msgspec.to_builtins(line)))
            else:
                by = f" by {plain(line.channel)}" if line.channel else ""
                note = f": {brief(line.note)}" if line.note else ""
                what = plain(f"{line.what} {line.tool} {line.hold or line.run}")
                for part in broken(f"{line.at}  {plain(line.by)}  {what}{by}{note}", 0):
                    click.echo(part)


async def _wanted(app: Sayso, wanted: Filter, project: str | None) -> AsyncIterator[Line]:
    seen: dict[str, HoldView | None] = {}
    plain_words = msgspec.structs.replace(wanted, words=()) == Filter()
    async for line in app.audit.export(project=project):
        if not _has_words(line, wanted.words):
            continue
        if plain_words:
            yield line
            continue
        if line.hold not in seen:
            seen.clear()  # Those of a run stand together, more often than not.
            seen[line.hold] = await _look(app, line.hold)
        hold = seen[line.hold]
        age = (datetime.now(UTC) - datetime.fromisoformat(line.at)).total_seconds()
        if hold is not None and wanted.fits(hold, waited_ms=int(age * 1000)):
            yield line


async def _look(app: Sayso, hold: str) -> HoldView | None:
    try:
        return await app.hold(hold) if hold else None
    except Unknown:
        return None


def _has_words(line: Line, words: tuple[str, ...]) -> bool:
    fields = (line.by, line.name, line.what, line.tool, line.channel, line.hold, line.run)
    text = "\n".join((*fields, line.meaning)).casefold()
    return all(word.casefold() in text for word in words)
