"""`sayso restored`: let a store that was restored from a backup, or copied, work again."""

from __future__ import annotations

import asyncio
import json
import sys

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.imported import APP
from sayso.cli.opened import Place, store_argument
from sayso.cli.plain import plain
from sayso.domain.value import Principal
from sayso.engine.restore import Restored, recover
from sayso.given import open_store
from sayso.wired import only_looking

_WHO = Principal(kind="service", id="cli")
"""Whoever can write the store: the journal cannot know more than that."""
_EVERY = 100
"""After how many runs to say how far it is."""


@click.command(short_help="Let a store that was restored work again.")
@store_argument()
@click.option("--app", type=APP, help="Whose tools are known: fewer questions are asked.")
@click.option("--anyway", is_flag=True, help="Even if nothing shows that it was restored.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
def restored(*, store: Place, app: Sayso | None, anyway: bool, as_json: bool) -> None:
    """Let a STORE that was restored from a backup, or copied, work again. It is a path or the
    address of a database.

    What was approved when the backup was made is asked again, and what was under way is in doubt:
    both may have happened since. Runs that wait for people are left as they are. A run whose model
    is asked next goes on by itself; those are printed, a line each.

    Stop every process that works on the store, and on the one that it is a copy of, before. Being
    interrupted, and run again, is fine.

    \b
    Examples:
      sayso restored pay.db --app pay:app
      sayso restored postgresql://sayso@db/pay
      sayso restored pay.db --anyway          a disk was put back, and the store cannot know
    """  # noqa: D301
    done = asyncio.run(_recover(store, app, anyway=anyway))
    if as_json:
        click.echo(json.dumps(None if done is None else msgspec.to_builtins(done)))
        return
    if done is None:
        click.echo(
            f"{plain(store.name)}: nothing shows that it was restored; --anyway acts as if.",
            err=True,
        )
        return
    for run_id in done.due_runs:
        click.echo(run_id)
    click.echo(
        f"{plain(store.name)}: epoch {done.epoch:,}. {done.runs:,} unfinished runs, "
        f"{done.quarantined:,} of them under quarantine with {done.asked:,} new questions; "
        f"{done.due:,} go on by themselves.",
        err=True,
    )


async def _recover(place: Place, app: Sayso | None, *, anyway: bool) -> Restored | None:
    store = await open_store(place.where, make=False, recovers=True)
    try:
        if not anyway and not (await store.origin()).fault:
            return None
        looking = Sayso(store, work=False) if app is None else only_looking(app, store)
        async with looking:
            parts = looking._open_parts  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            return await recover(parts, by=_WHO, progress=_tell)
    finally:
        await store.close()


def _tell(found: Restored) -> None:
    if sys.stderr.isatty() and found.runs % _EVERY == 0:
        click.echo(f"\r{found.runs:,} runs", nl=False, err=True)
