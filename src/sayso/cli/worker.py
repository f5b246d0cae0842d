"""`sayso worker`: a process that only works."""

from __future__ import annotations

import asyncio
import sys

import click

from sayso.app import Sayso
from sayso.cli.imported import APP
from sayso.cli.log import Form, log_option, log_to_stderr
from sayso.cli.opened import Place, store_option
from sayso.cli.plain import plain
from sayso.cli.turns import take_turns
from sayso.wired import only_working, works_for

CUT_OFF = 1
"""Exit code: calls were still under way when its time was over."""


@click.command(short_help="Work on what an app's agents have to do.")
@click.argument("app", type=APP)
@store_option("The store; else that of the app.", of_app=True)
@click.option("--runs", type=click.IntRange(min=1), help="How many runs to work on at a time.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for calls under way at the end; 30 unless the app says otherwise.",
)
@log_option
@click.pass_context
def worker(
    ctx: click.Context,
    *,
    app: Sayso,
    store: Place | None,
    runs: int | None,
    drain: float | None,
    form: Form,
) -> None:
    """Work on the runs of the APP until SIGTERM or SIGINT: take no new one then, wait for the calls
    under way, and end. It needs no address: whoever shares the store gives it work.

    It prints one line when it is at work: its id, the store, and the agents. Any number of them may
    share a store. A second SIGINT waits for nothing.

    Exits with 0 if nothing was cut off, 1 if calls still were under way after --drain (others look
    into them), 2 if it cannot work, which is also so once a newer Sayso has migrated the store in a
    way that this one cannot follow.

    \b
    Examples:
      sayso worker pay:app
      sayso worker pay:app --store postgresql://sayso@db.internal/pay --runs 50
      sayso worker pay:app --drain 120
    """  # noqa: D301
    where = None if store is None else store.where
    working = only_working(app, where, runs=runs, drain_s=drain)
    log_to_stderr(form)
    take_turns()

    def tell(worker_id: str) -> None:
        agents = ", ".join(map(plain, works_for(working)))
        click.echo(f"{worker_id} works on {plain(working.store.name)}: {agents}")
        sys.stdout.flush()

    if not asyncio.run(working.serve(tell)):
        click.echo("sayso: calls were cut off; another worker looks into them", err=True)
        ctx.exit(CUT_OFF)
