"""`sayso audit retain`: erase what old runs say."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
from sayso.domain.lifecycle import FINAL
from sayso.domain.value import Principal
from sayso.store.base import PAGE_MAX, Store
from sayso.store.query import RunQuery

if TYPE_CHECKING:
    from sayso.engine.retain import Retained

SOME_LEFT = 1
_WHO = Principal(kind="service", id="cli")
"""Whoever can write the store: the journal cannot know more than that."""


@click.command("retain", short_help="Erase what old runs say.")
@store_argument()
@click.option(
    "--older-than", required=True, metavar="AGE", help="How long ago they ended, such as 90d."
)
@click.option("--project", help="Of one project.")
@click.option("--by", "person", help="Who does it; without it, the command line.")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
@click.pass_context
def retain_command(
    ctx: click.Context,
    *,
    store: Place,
    older_than: str,
    project: str | None,
    person: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Erase what is said in runs of the STORE that ended longer ago than AGE, and cannot be undone.

    What agents and people said, arguments, answers and reasons are gone. That the runs were there,
    who decided what and when, and every hash remain, and `sayso audit verify` still passes. Runs
    that are not finished are left alone. It can be interrupted and done again.

    Exits with 0 if all is done, 1 if a run could not be erased.

    \b
    Examples:
      sayso audit retain pay.db --older-than 90d --dry-run
      sayso audit retain pay.db --older-than 90d
    """  # noqa: D301
    by = _WHO if person is None else Principal(id=person)
    done = asyncio.run(_retain(store, older_than, project, by, dry_run=dry_run))
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, **msgspec.to_builtins(done)}))
    else:
        _print(store, done, dry_run=dry_run)
    if done.left:
        ctx.exit(SOME_LEFT)


def _print(place: Place, done: Retained, *, dry_run: bool) -> None:
    runs = f"{done.runs:,} run{'' if done.runs == 1 else 's'}"
    would = "would be" if dry_run else ("was" if done.runs == 1 else "were")
    click.echo(f"{plain(place)}: {runs} with {done.entries:,} entries {would} erased.")
    for run_id in done.left:
        click.echo(f"  {plain(run_id)} could not be erased: try again, or use a newer Sayso")


async def _retain(
    place: Place, older_than: str, project: str | None, by: Principal, *, dry_run: bool
) -> Retained:
    async with opened(place) as store, Sayso(store, work=False) as app:
        if not sys.stderr.isatty():
            return await app.audit.retain(older_than, by=by, project=project, dry_run=dry_run)
        length = await _count(store, project)
        with click.progressbar(length=length, label="Looking at runs", file=sys.stderr) as bar:
            return await app.audit.retain(
                older_than,
                by=by,
                project=project,
                dry_run=dry_run,
                progress=lambda done: bar.update(done.looked_at - bar.pos),
            )


async def _count(store: Store, project: str | None) -> int:
    count = 0
    for status in FINAL:
        before = None
        while page := await store.runs(
            RunQuery(project=project, status=status.value, before=before, limit=PAGE_MAX)
        ):
            count += len(page)
            before = page[-1].id
    return count
