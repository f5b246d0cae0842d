"""`sayso archive`: finished runs leave a store for files; and checking such a file by itself."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
from sayso.domain.value import Principal
from sayso.errors import BadArchive
from sayso.store.archive_file import MAGIC, check_archive

if TYPE_CHECKING:
    from sayso.engine.archive import Archived

SOME_LEFT = 1
CHANGED = 1
_WHO = Principal(kind="service", id="cli")
"""Whoever can write the store: nobody can know more than that."""


@click.command("archive", short_help="Have old finished runs leave for files.")
@store_argument()
@click.option(
    "--before", required=True, metavar="AGE", help="How long ago they ended, such as 90d."
)
@click.option(
    "--to",
    required=True,
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="The directory to write files to.",
)
@click.option("--project", help="Of one project.")
@click.option("--dry-run", is_flag=True, help="Only say what would leave.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
@click.pass_context
def archive(
    ctx: click.Context,
    *,
    store: Place,
    before: str,
    to: Path,
    project: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Have runs of the STORE that ended longer ago than AGE leave for compressed files.

    A file has all of a run in it, and every chain in it was read back before anything is cut. The
    store keeps its seals whole without the runs, knows which file each of them is in, and takes
    their idempotency keys for used. Keep the files: `sayso audit verify` misses one that is gone.
    A thread leaves as a whole, or not at all. It can be interrupted and done again.

    Exits with 0 if all is done, 1 if a run could not leave.

    \b
    Examples:
      sayso archive pay.db --before 90d --to old --dry-run
      sayso archive pay.db --before 90d --to old
      sayso audit verify old/sayso-20260816-3f2a91c4.jsonl.gz
    """  # noqa: D301
    done = asyncio.run(_archive(store, before, to, project, dry_run=dry_run))
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, **msgspec.to_builtins(done)}))
    else:
        _print(store, done, dry_run=dry_run)
    if done.left:
        ctx.exit(SOME_LEFT)


async def _archive(
    place: Place, before: str, to: Path, project: str | None, *, dry_run: bool
) -> Archived:
    def show(done: Archived) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done.runs:,} of {done.looked_at:,} finished runs", nl=False, err=True)

    async with opened(place) as store, Sayso(store, work=False) as app:
        done = await app.audit.archive(
            before, to, by=_WHO, project=project, dry_run=dry_run, progress=show
        )
    if sys.stderr.isatty():
        click.echo(err=True)
    return done


def _print(place: Place, done: Archived, *, dry_run: bool) -> None:
    runs = f"{done.runs:,} run{'' if done.runs == 1 else 's'}"
    have = "would leave" if dry_run else ("has left" if done.runs == 1 else "have left")
    click.echo(f"{plain(place.name)}: {runs} with {done.entries:,} entries {have}.")
    for file in done.files:
        click.echo(f"  {plain(file)}")
    for run_id in done.left:
        click.echo(f"  {plain(run_id)} could not leave yet: try again later")


def is_archive(path: Path) -> bool:
    """Tell whether a file is an archive rather than a store."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def verify_archive(ctx: click.Context, path: Path, *, as_json: bool) -> None:
    """Check every chain in an archive, and print what there is."""
    try:
        found = check_archive(path)
    except BadArchive as error:
        if as_json:
            click.echo(json.dumps({"ok": False, "faults": [{"what": str(error)}]}))
        else:
            click.echo(click.style(plain(error), fg="red"))
        ctx.exit(CHANGED)
    if as_json:
        click.echo(json.dumps({"ok": True, **msgspec.to_builtins(found)}))
        return
    click.echo(
        f"{plain(path)}: {found.entries:,} entries in {found.runs:,} runs, all as written; "
        f"sha256 {found.sha256}. Whether they are those that have left, "
        f"`sayso audit verify {plain(found.head.store)}` says."
    )
