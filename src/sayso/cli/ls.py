"""`sayso ls`: the requests that wait, or were decided."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import click

from sayso.cli.card import broken, columns, left, risk_of
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import said, say
from sayso.cli.plain import plain
from sayso.domain.filter import Filter, read_filter
from sayso.domain.glyph import brief
from sayso.store.views import HoldView

PAGE = 200
SCANNED_MAX = 20_000
"""How many requests are looked at for those that a filter lets through."""
WIDE = 100


def whose(*, mine: bool = False, team: bool = False, everyone: bool = False) -> str:
    """Say which of three flags was given; together they would mean nothing."""
    if mine + team + everyone > 1:
        raise click.UsageError("--mine, --team or --all: one of them")
    return "mine" if mine else "team" if team else "all" if everyone else ""


async def listed(
    desk: Desk, filter: Filter, *, view: str = "", status: str = "open"
) -> AsyncIterator[HoldView]:
    """Give the requests that a filter lets through, the oldest first: those that ask one by name
    (`mine`), as one of several (`team`), both, or `all` there are.
    """
    me = f"user:{await desk.who()}" if view in ("mine", "team") else ""
    after, scanned = None, 0
    while scanned < SCANNED_MAX:
        page = await desk.page(
            search=filter.search, status=status, everyone=view == "all", after=after, limit=PAGE
        )
        now = datetime.now(UTC)
        for hold in page:
            waited = int((now - hold.opened_at).total_seconds() * 1000)
            by_name = me in hold.approvers
            if (not me or by_name == (view == "mine")) and filter.fits(hold, waited_ms=waited):
                yield hold
        after, scanned = page.next, scanned + len(page)
        if after is None:
            return
    say(f"These are of the oldest {SCANNED_MAX:,}: a filter with words finds the others.")


@click.command(short_help="List the requests that wait for you.")
@click.argument("filter", nargs=-1)
@click.option("--mine", is_flag=True, help="Only those that ask you by name.")
@click.option("--team", is_flag=True, help="Only those that ask you as one of several.")
@click.option("--all", "everyone", is_flag=True, help="Those that ask others, too.")
@click.option("--decided", is_flag=True, help="Those that were decided.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@at_desk
async def ls(
    desk: Desk,
    *,
    filter: tuple[str, ...],
    mine: bool,
    team: bool,
    everyone: bool,
    decided: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the requests that wait for you, the oldest first.

    FILTER is words and keys: risk:high, risk:<=medium, agent:x, tool:shop.*, kind:question,
    run:7f3a, older:1h.

    \b
    Examples:
      sayso ls --store pay.db
      sayso ls 'risk:>=high' older:1h --url https://pay.example.com
      sayso ls --all --json | jq -r .id
      sayso ls --decided tool:refund
    """  # noqa: D301
    wanted = read_filter(" ".join(filter))
    view = whose(mine=mine, team=team, everyone=everyone)
    count = 0
    async for hold in _found(desk, wanted, view=view, decided=decided):
        if count == limit:
            say(f"There are more than {limit}: say --limit, or filter them.")
            return
        count += 1
        for line in [hold_json(hold)] if as_json else _lines(hold):
            click.echo(line)
    if not count:
        what = "was decided" if decided else "waits"
        whom = "" if view == "all" else f" for {plain(await desk.who())}"
        more = "" if view == "all" else "; --all shows what asks others"
        say(f"Nothing {what}{whom}{' like this' if filter else ''}{more}.")


async def _found(
    desk: Desk, wanted: Filter, *, view: str, decided: bool
) -> AsyncIterator[HoldView]:
    if decided:
        async for hold in listed(desk, wanted, view=view, status="settled"):
            yield hold
    async for hold in listed(desk, wanted, view=view):
        # A store has it open for as long as its decision can be undone; it waits for nobody.
        if decided == (hold.status != "open"):
            yield hold


def _lines(hold: HoldView) -> Iterator[str]:
    now = datetime.now(UTC)
    when = left(hold, now) if hold.status == "open" else _decided(hold)
    if not sys.stdout.isatty():
        fields = [hold.id, hold.risk, hold.kind, hold.agent, hold.tool, click.unstyle(when)]
        yield "\t".join([plain(one) for one in [*fields, brief(hold.title)]])
        return
    kind = "" if hold.kind == "approval" else f"  {hold.kind.replace('_', ' ')}"
    about = f"{risk_of(hold)}{kind}  {plain(hold.agent)}  {when}"
    if columns() >= WIDE:
        yield f"{plain(hold.id)}  {click.style(brief(hold.title, 60), bold=True)}"
        yield f"    {about}"
        return
    yield from broken(click.style(brief(hold.title), bold=True), 0)
    yield from broken(about, 2)
    yield from broken(plain(hold.id), 2)


def _decided(hold: HoldView) -> str:
    return "" if hold.decision is None else said(hold.decision)


def hold_json(hold: HoldView) -> str:
    """Write a request as the HTTP API does, in one line of ASCII."""
    import json

    from sayso.server.wire import hold_out

    return json.dumps(hold_out(hold).model_dump(mode="json"))
