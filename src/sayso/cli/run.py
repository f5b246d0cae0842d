"""`sayso run`: the timeline of a run, from a store or a server."""

from __future__ import annotations

import click

from sayso.cli.desk import Desk, at_desk
from sayso.cli.story import story_lines


@click.command(short_help="Print the timeline of a run.")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one event a line, as the API does.")
@at_desk
async def run(desk: Desk, *, run: str, as_json: bool) -> None:
    """Print what happened in RUN: its turns and calls, who decided what and where, and for how long
    it waited. `sayso show STORE RUN` prints the journal itself.

    \b
    Examples:
      sayso run run_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db
      sayso run run_01m7gsgdyhk6a2nvs95zdh5eb6 --url https://pay.example.com --json
    """  # noqa: D301
    await story_lines(desk, run, as_json=as_json)
