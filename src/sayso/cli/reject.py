"""`sayso reject`: no, and why."""

from __future__ import annotations

import click

from sayso.cli.asking import ask, is_terminal
from sayso.cli.complete import HOLD
from sayso.cli.deciding import Outcome, decide_each, see
from sayso.cli.desk import Desk, at_desk
from sayso.domain.hold import reject as no_to


@click.command(short_help="Reject requests.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=HOLD)
@click.option("--reason", help="Why. The agent is told.")
@click.option("--no-undo", is_flag=True, help="It counts at once.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def reject(
    desk: Desk, *, ids: tuple[str, ...], reason: str | None, no_undo: bool, as_json: bool
) -> None:
    """Reject what is asked. The agent is told the reason. For five seconds `sayso undo` takes it
    back.

    \b
    Examples:
      sayso reject hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --reason 'not before Friday' --store pay.db
    """  # noqa: D301
    if reason is None and not is_terminal():
        raise click.UsageError("say why: --reason 'not before Friday'")
    holds = await see(desk, ids)
    if reason is None:
        reason = await ask("Why? ")
    outcome = Outcome(no_to(reason), undo=not no_undo, as_json=as_json)
    await decide_each(desk, holds, outcome)
