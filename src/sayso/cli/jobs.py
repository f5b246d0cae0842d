"""`sayso jobs`: jobs of a queue that failed and are held, and offering them again."""

from __future__ import annotations

import asyncio
import json
import sys

import click
import msgspec

from sayso.cli.opened import Place, opened, store_option
from sayso.cli.plain import plain
from sayso.store.base import Store
from sayso.store.queue import HeldJob, Queue
from sayso.store.views import moment

FOUND = 1
"""Exit code: jobs are held, or some of those named are not."""
_STORE = store_option("The store.")


@click.group(short_help="List failed jobs, and offer them again.")
def jobs() -> None:
    """List the jobs of a database that failed and are held, and offer them again.

    A job says that a run has work. Its run is found without it, only later; so a held job is the
    trace of a fault, and no work that is lost. `sayso doctor` warns of them.

    \b
    Examples:
      sayso jobs list --store postgresql://sayso@db.internal/pay
      sayso jobs requeue 17 18 --store postgresql://sayso@db.internal/pay
      sayso jobs requeue --all --store postgresql://sayso@db.internal/pay
    """  # noqa: D301


@jobs.command("list", short_help="List jobs that failed, and why.")
@_STORE
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a job.")
@click.pass_context
def list_jobs(ctx: click.Context, *, store: Place, as_json: bool) -> None:
    """List the jobs that failed and are held, oldest first, a hundred at most, each with its id,
    when that was, its agent, its run, and why it failed.

    Exits with 0 if there is none, 1 if there are some, 2 if it cannot be told.

    \b
    Examples:
      sayso jobs list --store postgresql://sayso@db.internal/pay
      sayso jobs list --store postgresql://sayso@db.internal/pay --json
    """  # noqa: D301
    held = asyncio.run(_held(store))
    for one in held:
        click.echo(json.dumps(msgspec.to_builtins(one)) if as_json else _line(one))
    if held:
        ctx.exit(FOUND)


@jobs.command(short_help="Offer failed jobs again.")
@click.argument("ids", type=click.IntRange(min=1), nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All that are held now, each once.")
@_STORE
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
@click.pass_context
def requeue(
    ctx: click.Context, *, ids: tuple[int, ...], every: bool, store: Place, as_json: bool
) -> None:
    """Offer held jobs again: those with these IDs, or --all. Mend first what `sayso jobs list`
    names, or they fail again.

    Exits with 0 if all of them were held and are offered now, 1 if some were not held, 2 if it
    cannot be done.

    \b
    Examples:
      sayso jobs requeue 17 18 --store postgresql://sayso@db.internal/pay
      sayso jobs requeue --all --store postgresql://sayso@db.internal/pay
    """  # noqa: D301
    if every == bool(ids):
        raise click.UsageError("name the jobs, or say --all")
    offered, missed = asyncio.run(_requeue(store, ids))
    if as_json:
        click.echo(json.dumps({"ok": not missed, "requeued": offered, "not_held": missed}))
    else:
        click.echo(
            f"{offered:,} {'job is' if offered == 1 else 'jobs are'} offered again", err=True
        )
        if missed:
            click.echo(f"not held, or not there: {', '.join(map(str, missed))}", err=True)
    if missed:
        ctx.exit(FOUND)


async def _held(place: Place) -> list[HeldJob]:
    async with opened(place) as store:
        return await _queue(store).held()


async def _requeue(place: Place, ids: tuple[int, ...]) -> tuple[int, list[int]]:
    """Offer jobs again, all if none is named; say how many, and which were not held."""
    async with opened(place) as store:
        queue = _queue(store)
        if not ids:
            offered = await queue.requeue_all(_show)
            if offered and sys.stderr.isatty():
                click.echo(err=True)
            return offered, []
        missed = [one for one in dict.fromkeys(ids) if not await queue.requeue(one)]
        return len(set(ids)) - len(missed), missed


def _show(offered: int, held: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{offered:,} of {held:,} jobs", nl=False, err=True)


def _queue(store: Store) -> Queue:
    if store.queue is None:
        raise click.UsageError(
            "a file has no queue, and no jobs: workers look into it by themselves"
        )
    return store.queue


def _line(one: HeldJob) -> str:
    words = [str(one.id), f"{moment(one.since):%Y-%m-%d %H:%M}", one.agent, one.run_id, one.why]
    return plain("  ".join(word for word in words if word))
