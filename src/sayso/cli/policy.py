"""`sayso policy`: try a policy file out, and say why a call was held."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from sayso.agents.policy_case import Case, Tried, try_case
from sayso.agents.policy_file import load_cases, load_policy
from sayso.cli.held import Held, read_held
from sayso.cli.opened import Place, opened, store_option
from sayso.cli.plain import plain
from sayso.domain.glyph import brief

MISMATCH = 1
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(short_help="Try a policy file out; say why a call was held.")
def policy() -> None:
    """Try a policy file out, and say why a call was held.

    \b
    Examples:
      sayso policy test policy.yaml
      sayso policy explain hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --store pay.db
    """  # noqa: D301


@policy.command("test", short_help="Rule on example calls by a policy file.")
@click.argument("file", type=FILE)
@click.option("--cases", type=FILE, help="A file with the example calls; else FILE has them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object an example call.")
@click.pass_context
def test_command(ctx: click.Context, file: Path, cases: Path | None, as_json: bool) -> None:  # noqa: FBT001
    """Rule on example calls by the policy in FILE, and compare with what they expect.

    The examples are below `tests:`, each with a tool, its args and what to expect: proceed, hold or
    forbid. Only the rules of FILE are asked, not the flags of tools nor rules in Python.

    Exits with 0 if all is as expected, 1 if something is not, 2 if a file cannot be used or has no
    examples.

    \b
    Examples:
      sayso policy test policy.yaml
      sayso policy test policy.yaml --cases cases.yaml
    """  # noqa: D301
    loaded = load_policy(file)
    tried = [try_case(loaded, case) for case in load_cases(cases or file)]
    if not tried:
        # Nothing that was tried and nothing that was wrong look alike to a script.
        raise click.UsageError(f"{str(cases or file)!r} has no example calls below `tests:`")
    for line in map(_as_json, tried) if as_json else _table(tried):
        click.echo(line)
    wrong = sum(not one.ok for one in tried)
    if not as_json:
        all_well = f"{len(tried)} as expected" if not wrong else f"{wrong} of {len(tried)} wrong"
        click.echo(f"{plain(file)}, version {plain(loaded.version)}: {all_well}.")
    if wrong:
        ctx.exit(MISMATCH)


@policy.command("explain", short_help="Say why a call was held.")
@click.argument("hold")
@store_option("The store that the hold is in.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain_command(hold: str, store: Place, as_json: bool) -> None:  # noqa: FBT001
    """Say why HOLD was opened: which rules, by which version of the policy, and who is asked.

    All of it is from the journal, so it is what counted then, whatever the policy says now.

    \b
    Examples:
      sayso policy explain hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --store pay.db
    """  # noqa: D301
    held = asyncio.run(_held(hold, store))
    if as_json:
        click.echo(json.dumps(held.fields()))
        return
    click.echo(f"{plain(held.id)}: {brief(held.what)}")
    for name, value in held.fields().items():
        shown = _shown(value)
        if name not in ("id", "what") and shown:
            click.echo(f"  {name.replace('_', ' '):<15} {brief(shown)}")


async def _held(hold: str, place: Place) -> Held:
    async with opened(place) as store:
        return await read_held(store, hold)


def _shown(value: str | bool | tuple[str, ...] | None) -> str:  # noqa: FBT001
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return ", ".join(value)
        case _:
            return value or ""


def _table(tried: list[Tried]) -> list[str]:
    rows = [("", "line", "example", "expected", "found")]
    rows += [
        (
            "ok" if one.ok else "WRONG",
            str(one.case.line),
            brief(one.case.name, 50),
            _said(one.case),
            _said(one) + _because(one),
        )
        for one in tried
    ]
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, wide, strict=False)]
        if row[0] == "WRONG":
            cells[0] = click.style(cells[0], fg="red")
        lines.append("  ".join([*cells, row[4]]).rstrip())
    return lines


def _said(one: Case | Tried) -> str:
    word = one.found if isinstance(one, Tried) else one.expect
    many = f"{one.quorum} of " if one.quorum is not None and one.quorum > 1 else ""
    who = brief(" or ".join(one.approvers or ())) or ("them" if many else "")
    eyes = ", but not who asked" if one.not_requester else ""
    return f"{word}{f' for {many}{who}' if who else ''}{eyes}"


def _because(one: Tried) -> str:
    said = f"{one.rule}: {one.why}" if one.rule and one.why else one.rule or one.why
    return f" ({brief(said)})" if said else ""


def _as_json(one: Tried) -> str:
    return json.dumps(
        {
            "ok": one.ok,
            "line": one.case.line,
            "name": one.case.name,
            "expect": one.case.expect,
            "approvers_expected": one.case.approvers,
            "quorum_expected": one.case.quorum,
            "not_requester_expected": one.case.not_requester,
            "found": one.found,
            "approvers": one.approvers,
            "quorum": one.quorum,
            "not_requester": one.not_requester,
            "rule": one.rule,
            "why": one.why,
        }
    )
