"""`sayso undo`: take a decision back while it does not count yet."""

from __future__ import annotations

import click

from sayso.cli.complete import HOLD
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import say
from sayso.cli.ls import hold_json
from sayso.cli.plain import plain


@click.command(short_help="Take your decision back.")
@click.argument("id", type=HOLD)
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def undo(desk: Desk, *, id: str, as_json: bool) -> None:
    """Take your own decision back before it counts, or your vote before it is settled.

    \b
    Examples:
      sayso undo hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --store pay.db
    """  # noqa: D301
    now = await desk.undo(id)
    say(f"Taken back: {plain(now.id)} waits again.")
    if as_json:
        click.echo(hold_json(now))
