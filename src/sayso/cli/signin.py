"""`sayso signin` and `sayso consent`: what a person allows at a provider, from the terminal."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import click

from sayso.cli.complete import HOLD
from sayso.cli.deciding import Outcome, decide_each, see
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import FAILED, said, say
from sayso.cli.ls import hold_json
from sayso.domain.hold import Answered, Approved, reject
from sayso.errors import WaitTimeout
from sayso.store.views import HoldView

WITHIN = timedelta(minutes=15)
"""For how long the address is good."""
LOOK_S = 1.0


@click.command(short_help="Sign in where an agent needs you to.")
@click.argument("id", type=HOLD)
@click.option("--browser", is_flag=True, help="Open the address in your browser as well.")
@click.option("--no-wait", is_flag=True, help="Print the address, and wait for nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def signin(desk: Desk, *, id: str, browser: bool, no_wait: bool, as_json: bool) -> None:
    """Print the address at which you sign in, with a code for your phone, and wait until you have.
    It is yours alone, and good for 15 minutes.

    \b
    Examples:
      sayso signin hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --url https://pay.example.com
    """  # noqa: D301
    (hold,) = await see(desk, (id,))
    await send(desk, hold, browser=browser, wait=not no_wait, as_json=as_json)


async def send(desk: Desk, hold: HoldView, *, browser: bool, wait: bool, as_json: bool) -> None:
    """Send somebody to where they sign in, and wait for them."""
    url = await desk.sign_in_url(hold.id)
    if not as_json or not wait:
        click.echo(url)
    else:
        say(url)
    if sys.stderr.isatty():
        _draw_code(url)
    if browser:
        click.launch(url)
    if not wait:
        return
    say("Waiting until you have signed in there; Ctrl-C decides nothing.")
    now = await _wait(desk, hold)
    if as_json:
        click.echo(hold_json(now))
    assert now.decision is not None, "it is not open any more"
    say(f"It was {said(now.decision)}.")
    if not isinstance(now.decision.verdict, Approved | Answered):
        raise click.exceptions.Exit(FAILED)


async def _wait(desk: Desk, hold: HoldView) -> HoldView:
    end = datetime.now(UTC) + WITHIN
    while datetime.now(UTC) < end:
        now = await desk.hold(hold.id)
        if now.status != "open":
            return now
        await desk.changed(LOOK_S)
    raise WaitTimeout("nobody came back in 15 minutes: start again")


def _draw_code(url: str) -> None:
    try:
        import segno
    except ModuleNotFoundError:
        say("(pip install 'sayso[cli]' draws it as a code for your phone)")
        return
    segno.make(url, error="l").terminal(out=sys.stderr, compact=True)


@click.command(short_help="Allow or deny what an agent may do at a provider.")
@click.argument("id", type=HOLD)
@click.option("--allow/--deny", "allow", default=None, help="Go to the provider; or say no.")
@click.option("--reason", default="", help="Why not. The agent is told.")
@click.option("--browser", is_flag=True, help="Open the address in your browser as well.")
@click.option("--no-wait", is_flag=True, help="Print the address, and wait for nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def consent(
    desk: Desk,
    *,
    id: str,
    allow: bool | None,
    reason: str,
    browser: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Say whether an agent may do more at a provider than you have allowed so far. A yes is given
    at the provider itself: it prints the address and waits.

    \b
    Examples:
      sayso consent hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --allow --url https://pay.example.com
      sayso consent hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --deny --reason 'not my calendar'
    """  # noqa: D301
    if allow is None:
        raise click.UsageError("say --allow or --deny")
    (hold,) = await see(desk, (id,))
    if allow:
        await send(desk, hold, browser=browser, wait=not no_wait, as_json=as_json)
    else:
        await decide_each(desk, [hold], Outcome(reject(reason), as_json=as_json))
