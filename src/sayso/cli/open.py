"""`sayso open`: the page of a request."""

from __future__ import annotations

from urllib.parse import quote

import click

from sayso.cli.complete import HOLD
from sayso.cli.desk import Desk, at_desk


@click.command(short_help="Print the address of a request's page, or go there.")
@click.argument("id", type=HOLD)
@click.option("--browser", is_flag=True, help="Open it in your browser as well.")
@at_desk
async def open(desk: Desk, *, id: str, browser: bool) -> None:  # noqa: A001 - the command's name.
    """Print the address of the page on which a request is decided. Looking decides nothing.

    \b
    Examples:
      sayso open hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --url https://pay.example.com
    """  # noqa: D301
    if not desk.web:
        raise click.UsageError("a store has no pages: say --url, where `sayso serve` runs")
    hold = await desk.hold(id)
    url = f"{desk.web}/r/{quote(hold.id, safe='')}"
    click.echo(url)
    if browser:
        click.launch(url)
