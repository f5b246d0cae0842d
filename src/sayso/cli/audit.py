"""`sayso audit`: check that a store is as it was written, and what else auditors ask for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.archive import is_archive, verify_archive
from sayso.cli.audit_export import export_command, refused_command
from sayso.cli.audit_retain import retain_command
from sayso.cli.audit_seal import key_command, seal_command
from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
from sayso.store.audit import Fault, Report
from sayso.store.base import PAGE_MAX, Store
from sayso.store.query import RunQuery

FAULTS_FOUND = 1
FAULTS_SHOWN = 20


@click.group(short_help="Check, seal and export what was decided.")
def audit() -> None:
    """Check that a store is as it was written, seal it, and say who decided what."""


for command in (export_command, key_command, refused_command, retain_command, seal_command):
    audit.add_command(command)


@audit.command("verify")
@store_argument()
@click.option(
    "--seals",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Seals that were kept elsewhere, as `sayso audit seal --out` writes them.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="A public key to trust, as `sayso audit key` prints it; else those of the store.",
)
@click.option(
    "--archives",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where archives are by now, if not where they were made.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as one JSON object.")
@click.pass_context
def verify_command(
    ctx: click.Context,
    *,
    store: Place,
    seals: Path | None,
    keys: tuple[str, ...],
    archives: Path | None,
    as_json: bool,
) -> None:
    """Check every journal of the STORE: its hash chain, that its rows say what it says, and every
    seal over it.

    It finds an entry that was edited, deleted or moved within a run. A run that was removed or
    hashed again, and an end that was cut off, are found as far as a seal covers them; whoever can
    write the store can cut its seals as well, and that takes --seals to find. Archives that runs
    have left for are read as well: one that is missing is a fault. An archive can be given in place
    of the STORE, and is then checked by itself.

    Exits with 0 if all is well, 1 if there are faults, 2 if the store cannot be read.

    \b
    Examples:
      sayso audit verify pay.db
      sayso audit verify pay.db --seals pay.seals --key 5f1c...
      sayso audit verify pay.db --json | jq .faults
      sayso audit verify old/sayso-20260816-3f2a91c4.jsonl.gz
    """  # noqa: D301
    if store.path is not None and is_archive(store.path):
        verify_archive(ctx, store.path, as_json=as_json)
        return
    report = asyncio.run(_verify(store, seals, keys, archives))
    if as_json:
        click.echo(json.dumps({"ok": report.ok, **msgspec.to_builtins(report)}))
    else:
        _print(store, report)
    if not report.ok:
        ctx.exit(FAULTS_FOUND)


async def _verify(
    place: Place, seals: Path | None, keys: tuple[str, ...], archives: Path | None
) -> Report:
    async with opened(place) as store, Sayso(store, work=False) as app:
        if not sys.stderr.isatty():
            return await app.audit.verify(seals=seals, keys=keys, archives=archives)
        runs = await _count(store)
        with click.progressbar(length=runs, label="Checking runs", file=sys.stderr) as bar:
            return await app.audit.verify(
                seals=seals,
                keys=keys,
                archives=archives,
                progress=lambda report: bar.update(report.runs - bar.pos),
            )


async def _count(store: Store) -> int:
    count, before = 0, None
    while page := await store.runs(RunQuery(before=before, limit=PAGE_MAX)):
        count += len(page)
        before = page[-1].id
    return count


def _print(place: Place, report: Report) -> None:
    name = plain(place)
    checked = f"{_many(report.entries, 'entry', 'entries')} in {_many(report.runs, 'run', 'runs')}"
    erased = f"; {_many(report.redacted, 'was', 'were')} erased" if report.redacted else ""
    if report.ok:
        sealed = (
            f"; {_many(report.seals, 'seal covers', 'seals cover')} {report.sealed:,} of them"
            if report.seals
            else ""
        )
        left = (
            f"; {_many(report.archived, 'run', 'runs')} in "
            f"{_many(report.archives, 'archive', 'archives')}"
            if report.archives
            else ""
        )
        click.echo(f"{name}: {checked}, all as written{erased}{sealed}{left}.")
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
