"""`sayso handover`: let somebody else decide."""

from __future__ import annotations

import click

from sayso.cli.complete import HOLD
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import say
from sayso.cli.ls import hold_json
from sayso.cli.plain import plain
from sayso.domain.hold import name_approvers


@click.command(short_help="Hand a request over to somebody else.")
@click.argument("id", type=HOLD)
@click.option("--to", required=True, metavar="WHO", help="The id of the person.")
@click.option("--note", default="", help="What they should know.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def handover(desk: Desk, *, id: str, to: str, note: str, as_json: bool) -> None:
    """Hand over what you are asked to somebody else, who may decide it in your place.

    \b
    Examples:
      sayso handover hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --to jonas --note 'your customer'
    """  # noqa: D301
    now = await desk.reassign(id, to=to, note=note)
    say(f"Handed over: {plain(now.id)} asks {plain(name_approvers(now.approvers))}.")
    if as_json:
        click.echo(hold_json(now))
