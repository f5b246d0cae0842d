"""`sayso audit`: check that a store is as it was written."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click
import msgspec

from sayso.cli.opened import STORE, opened
from sayso.cli.plain import plain
from sayso.store.audit import Fault, Report, verify
from sayso.store.base import PAGE_MAX, RunQuery, Store

FAULTS_FOUND = 1
FAULTS_SHOWN = 20


@click.group(short_help="Check that no journal was changed.")
def audit() -> None:
    """Check that a store is as it was written."""


@audit.command("verify")
@click.argument("store", type=STORE)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as one JSON object.")
@click.pass_context
def verify_command(ctx: click.Context, store: Path, as_json: bool) -> None:  # noqa: FBT001
    """Check every journal of the STORE: its hash chain, and that its rows say what it says.

    It finds an entry that was edited, deleted or moved within a run. Whoever can write the file can
    still remove a whole run, or hash a whole run again: that takes a copy elsewhere to find.

    Exits with 0 if all is well, 1 if there are faults, 2 if the store cannot be read.

    \b
    Examples:
      sayso audit verify pay.db
      sayso audit verify pay.db --json | jq .faults
    """  # noqa: D301
    report = asyncio.run(_verify(store))
    if as_json:
        click.echo(json.dumps({"ok": report.ok, **msgspec.to_builtins(report)}))
    else:
        _print(store, report)
    if not report.ok:
        ctx.exit(FAULTS_FOUND)


async def _verify(path: Path) -> Report:
    async with opened(path) as store:
        if not sys.stderr.isatty():
            return await verify(store)
        runs = await _count(store)
        with click.progressbar(length=runs, label="Checking runs", file=sys.stderr) as bar:
            return await verify(store, lambda report: bar.update(report.runs - bar.pos))


async def _count(store: Store) -> int:
    count, before = 0, None
    while page := await store.runs(RunQuery(before=before, limit=PAGE_MAX)):
        count += len(page)
        before = page[-1].id
    return count


def _print(path: Path, report: Report) -> None:
    name = plain(path)
    checked = f"{_many(report.entries, 'entry', 'entries')} in {_many(report.runs, 'run', 'runs')}"
    erased = f"; {_many(report.redacted, 'was', 'were')} erased" if report.redacted else ""
    if report.ok:
        click.echo(f"{name}: {checked}, all as written{erased}.")
        return
    faults = _many(len(report.faults), "fault", "faults")
    click.echo(click.style(f"{name}: {faults} in {checked}{erased}.", fg="red"))
    for fault in report.faults[:FAULTS_SHOWN]:
        click.echo(f"  {_line(fault)}")
    more = len(report.faults) - FAULTS_SHOWN
    if more > 0:
        click.echo(f"  and {more:,} more; --json prints them all")


def _line(fault: Fault) -> str:
    where = plain(fault.run_id) if fault.run_id else "the store"
    entry = f", entry {fault.seq}" if fault.seq else ""
    return f"{where}{entry}: {plain(fault.what)}"


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
