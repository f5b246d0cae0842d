"""`sayso approve`: yes to exactly what is shown.

Rule 1: what is approved is what was printed: the decision carries its digest, and one about
something that has changed since is refused.
Rule 2: without a terminal nobody is asked, so somebody has to have said --yes; for what is critical
that is not enough.
"""

from __future__ import annotations

import difflib
import json
from typing import Any, cast

import click

from sayso.cli.asking import ask, confirm, edit, is_terminal
from sayso.cli.card import card, changes
from sayso.cli.complete import HOLD
from sayso.cli.deciding import Outcome, decide_each, see
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import say
from sayso.cli.plain import plain
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.hold import Approved
from sayso.domain.hold import approve as yes_to
from sayso.errors import BadValue
from sayso.store.views import HoldView

CRITICAL = "critical"


@click.command(short_help="Approve requests.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=HOLD)
@click.option("--reason", default="", help="Why, for the record.")
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=VALUE",
    help="With this in place of an argument: amount=150, items.0.note=later, tags:='[1]'.",
)
@click.option("--edit", "editor", is_flag=True, help="Change the arguments in your editor first.")
@click.option("--yes", is_flag=True, help="Ask nothing. Not for what is critical.")
@click.option("--no-undo", is_flag=True, help="It counts at once.")
@click.option("--even-if-alive", is_flag=True, help="Run a call in doubt again all the same.")
@click.option("--full", is_flag=True, help="Fold no argument, however long it is.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def approve(
    desk: Desk,
    *,
    ids: tuple[str, ...],
    reason: str,
    sets: tuple[str, ...],
    editor: bool,
    yes: bool,
    no_undo: bool,
    even_if_alive: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Approve what is asked. It prints the tool, the risk, the exact arguments and what you change
    of them, and asks once. For five seconds `sayso undo` takes it back.

    \b
    Examples:
      sayso approve hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --store pay.db
      sayso approve hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --set amount=150 --reason 'as agreed'
      sayso approve hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --edit
      sayso ls 'risk:<=medium' --json | jq -r .id | xargs sayso approve --yes
    """  # noqa: D301
    if (sets or editor) and len(ids) > 1:
        raise click.UsageError("the arguments of one request are changed at a time")
    holds = await see(desk, ids)
    verdict = changed(holds[0], sets, editor=editor) if sets or editor else yes_to()
    await allow(holds, verdict, yes=yes, full=full)
    outcome = Outcome(
        verdict, reason=reason, undo=not no_undo, even_if_alive=even_if_alive, as_json=as_json
    )
    await decide_each(desk, holds, outcome)


async def allow(
    holds: list[HoldView], verdict: Approved, *, yes: bool = False, full: bool = False
) -> None:
    """Show what would be approved, and have somebody say so; else nothing is decided."""
    critical = [hold for hold in holds if hold.risk == CRITICAL]
    if critical and len(holds) > 1:
        raise click.UsageError(f"{critical[0].id} is critical: approve it by itself")
    if critical and (yes or not is_terminal()):
        raise click.UsageError(
            f"{critical[0].id} is critical, and --yes does not do: run `sayso approve "
            f"{critical[0].id}` in a terminal, look at it, and type what it asks for"
        )
    if not yes and not is_terminal():
        raise click.UsageError("nobody can be asked here: say --yes, or run it in a terminal")
    for hold in holds:
        for line in card(hold, full=full):
            say(line)
        if verdict.args is not None:
            say("Changes:")
            for line in changes(hold, bytes(verdict.args)) or ["  none"]:
                say(line)
    if yes:
        return
    if critical:
        tool = plain(critical[0].tool)
        typed = await ask(f"It is critical. Type {tool} to approve it: ", fresh=True)
        agreed = typed == critical[0].tool
    else:
        what = "this" if len(holds) == 1 else f"all {len(holds)}"
        agreed = await confirm(f"Approve {what}?")
    if not agreed:
        say("Nothing is decided.")
        raise click.exceptions.Exit(1)


def changed(hold: HoldView, sets: tuple[str, ...] = (), *, editor: bool = True) -> Approved:
    """Read what to approve in place of what was asked."""
    if not isinstance(hold.args, dict):
        raise BadValue(f"{hold.id!r} has no arguments that could be changed")
    args: Any = decode_value(hold.args_json)
    for one in sets:
        set_value(args, one)
    if editor:
        about = [plain(hold.title), plain(hold.id), "Lines like this one are left out."]
        text = json.dumps(args, indent=2, ensure_ascii=False, sort_keys=True)
        args = decode_value(edit(text, about))
    if not isinstance(args, dict):
        raise BadValue("the arguments of a call are one JSON object")
    same = encode_value(args) == hold.args_json.encode()
    return yes_to() if same else yes_to(args=cast("dict[str, Any]", args))


def set_value(args: Any, text: str) -> None:
    """Put a value in place of one of the arguments: `name=value`, or `name:=json`. A text stays a
    text; anything else is JSON.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} sets nothing: write --set name=value")
    as_json = path.endswith(":")
    *way, last = path.removesuffix(":").split(".")
    into = args
    for name in way:
        into = into[_key(into, name)]
    key = _key(into, last)
    if isinstance(into[key], str) and not as_json:
        into[key] = value
        return
    try:
        into[key] = decode_value(value)
    except BadValue:
        raise click.UsageError(
            f"{last!r} is no text, and {value!r} is no JSON: for a text write {path}:='\"...\"'"
        ) from None


def _key(into: Any, name: str) -> Any:
    if isinstance(into, list) and name.isdecimal() and int(name) < len(cast("list[Any]", into)):
        return int(name)
    if isinstance(into, dict) and name in into:
        return name
    known = [str(one) for one in cast("dict[Any, Any]", into)] if isinstance(into, dict) else []
    near = difflib.get_close_matches(name, known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else f"; it has: {', '.join(known) or 'none'}"
    raise click.UsageError(f"there is no argument {name!r}{hint}")
