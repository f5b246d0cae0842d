"""`sayso remind`: be told again later."""

from __future__ import annotations

import click

from sayso.cli.complete import HOLD
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import say
from sayso.cli.ls import hold_json
from sayso.cli.plain import plain
from sayso.domain.ruling import duration_ms
from sayso.errors import BadPolicy


@click.command(short_help="Be told of a request again later.")
@click.argument("id", type=HOLD)
@click.argument("after", metavar="TIME")
@click.option("--json", "as_json", is_flag=True, help="Print the request as JSON.")
@at_desk
async def remind(desk: Desk, *, id: str, after: str, as_json: bool) -> None:
    """Have yourself told again of what you are asked, after a TIME such as 30m, 1h or 2d. Its
    deadline keeps running.

    \b
    Examples:
      sayso remind hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 1h --store pay.db
    """  # noqa: D301
    try:
        in_s = duration_ms(after) / 1000
    except BadPolicy as error:
        raise click.UsageError(str(error)) from None
    at = await desk.remind(id, in_s)
    hold = await desk.hold(id)
    late = hold.deadline is not None and hold.deadline <= at
    over = "; it will be over by then" if late else ""
    say(f"You are told of {plain(id)} again at {at:%Y-%m-%d %H:%M:%S} UTC{over}.")
    if as_json:
        click.echo(hold_json(hold))
