"""`sayso rules`: what is always allowed, by whom, and until when."""

from __future__ import annotations

import json
from typing import Any

import click

from sayso.cli.approve import allow
from sayso.cli.complete import HOLD
from sayso.cli.deciding import see
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import say
from sayso.cli.ls import hold_json
from sayso.cli.plain import plain
from sayso.domain.digest import decode_value
from sayso.domain.glyph import brief
from sayso.domain.grant import Grant
from sayso.domain.hold import approve
from sayso.engine.grants import Always
from sayso.errors import BadValue, NotAllowed
from sayso.store.views import moment


@click.group(short_help="List, add and revoke what is always allowed.")
def rules() -> None:
    """List, add and revoke standing permissions: a yes that goes for later calls, too.

    \b
    Examples:
      sayso rules ls --store pay.db
      sayso rules add hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --until 1d --store pay.db
      sayso rules revoke grant_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db
    """  # noqa: D301


@rules.command("ls", short_help="List what is always allowed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@at_desk
async def list_rules(desk: Desk, *, as_json: bool) -> None:
    """List what is always allowed now. At a server this is for operators.

    \b
    Examples:
      sayso rules ls --store pay.db
      sayso rules ls --json | jq -r .id
    """  # noqa: D301
    found = await desk.grants()
    for grant in found:
        click.echo(json.dumps(_shown(grant)) if as_json else _line(grant))
    if not found:
        say("Nothing is always allowed.")


@rules.command("add", short_help="Approve a request, and later ones like it.")
@click.argument("id", type=HOLD)
@click.option("--any", "anything", is_flag=True, help="Later calls may have any arguments.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=LIMIT",
    help="What an argument may be: memo=any, amount='{\"at_most\": 100}'. The others stay as now.",
)
@click.option("--run", "of_run", is_flag=True, help="Only in this run, and those below it.")
@click.option("--until", default="30d", show_default=True, help="For how long, as in 1h, 1d.")
@click.option("--uses", type=click.IntRange(min=1), help="How often it can be used.")
@click.option("--note", default="", help="Why, for the record.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def add_rule(
    desk: Desk,
    *,
    id: str,
    anything: bool,
    limits: tuple[str, ...],
    of_run: bool,
    until: str,
    uses: int | None,
    note: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Approve a request, and let later calls like it pass. It counts at once; `sayso rules revoke`
    ends it. It is not to be had for what is critical, or takes several people.

    \b
    Examples:
      sayso rules add hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --run --store pay.db
      sayso rules add hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --limit 'amount={"at_most": 100}'
    """  # noqa: D301
    if anything and limits:
        raise click.UsageError("--any or --limit: one of them")
    always = Always(
        args="any" if anything else _limits(limits) if limits else "same",
        scope="run" if of_run else "project",
        until=until,
        uses=uses,
        note=note,
    )
    (hold,) = await see(desk, (id,))
    if not hold.grantable:
        raise NotAllowed(f"there is no standing yes to {id!r}: it takes a person each time")
    say(f"Always, {_scope(always)}:")
    await allow([hold], approve(), yes=yes)
    now = await desk.decide(hold, approve(), note=note, always=always)
    say("Approved, and so is what comes like it; `sayso rules ls` lists it.")
    if as_json:
        click.echo(hold_json(now))


@rules.command("revoke", short_help="End what was always allowed.")
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def revoke_rule(desk: Desk, *, id: str, as_json: bool) -> None:
    """End a standing permission at once. Calls that have started under it go on.

    \b
    Examples:
      sayso rules revoke grant_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db
    """  # noqa: D301
    grant = await desk.revoke(id)
    say(f"Revoked: {plain(grant.tool)} is asked about again.")
    if as_json:
        click.echo(json.dumps(_shown(grant)))


def _limits(given: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        name, equals, limit = one.partition("=")
        try:
            found[name] = limit if limit == "any" else decode_value(limit)
        except BadValue:
            equals = ""
        if not equals or not name:
            raise click.UsageError(f"{one!r} is no limit: amount='{{\"at_most\": 100}}', memo=any")
    return found


def _scope(always: Always) -> str:
    where = "in this run" if always.scope == "run" else "in all of the project"
    match always.args:
        case "same":
            what = "with the same arguments"
        case "any":
            what = "with any arguments"
        case limits:
            what = f"with {json.dumps(limits)}, and the same else"
    uses = "" if always.uses is None else f", {always.uses} times"
    return f"{where}, {what}, for {always.until}{uses}"


def _line(grant: Grant) -> str:
    used = f"{grant.used} of {grant.uses_max}" if grant.uses_max else str(grant.used)
    where = f"in {grant.run}" if grant.run else "everywhere"
    until = f"until {moment(grant.until):%Y-%m-%d %H:%M} UTC"
    head = plain(f"{grant.id}  {grant.tool}  by {grant.by}  {until}  used {used}  {where}")
    return head + (f"  {brief(grant.note)}" if grant.note else "")


def _shown(grant: Grant) -> dict[str, object]:
    return {
        "id": grant.id,
        "tool": grant.tool,
        "by": grant.by.id,
        "at": moment(grant.at).isoformat(),
        "until": moment(grant.until).isoformat(),
        "hold_id": grant.hold,
        "run": grant.run or None,
        "agent": grant.agent or None,
        "uses_max": grant.uses_max,
        "used": grant.used,
        "revoked_at": None if grant.revoked is None else moment(grant.revoked).isoformat(),
        "note": grant.note,
    }
