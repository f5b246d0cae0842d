"""`sayso demo --plain`: the demo in a terminal, with nothing but the core.

It is the person's side: it opens the same store, decides, and never runs the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sayso.cli.demo_agent import HINTS, RUN_ID, WISH, make_teller, payments, store_path
from sayso.cli.demo_check import Story
from sayso.cli.demo_process import agent_process, hear, say
from sayso.cli.opened import opened
from sayso.cli.plain import drawn, plain
from sayso.cli.show import read_run
from sayso.domain.hold import Decision, Verdict, approve, reject
from sayso.domain.recorded import Recorded
from sayso.engine.story import clock, short
from sayso.errors import AlreadyDecided, BadValue, SaysoError
from sayso.store.audit import Report, verify
from sayso.store.base import RunRow
from sayso.store.views import HoldView
from sayso.sync import Sayso

_AMOUNT = click.FloatRange(min=0, min_open=True)
WHO, OTHER = "mira", "jonas"
_DOUBLE_CLICK = (
    f"A double click: {OTHER} still has the request on the screen, and approves it, too."
)

Choose = Callable[[HoldView], Verdict]
"""How the person at the terminal, or a script, comes to a verdict."""


def play_plain(directory: Path, *, headless: bool) -> Story:
    """Play it in a terminal; give what was seen."""
    return _play(directory, _approve if headless else _ask)


def _play(directory: Path, choose: Choose) -> Story:
    # Without a worker: whatever is paid is paid by the agent's own process.
    with Sayso(store_path(directory), agents=[make_teller(directory)], work=False) as app:
        before, killed_with = _stop_and_kill(directory)
        shown = app.run(RUN_ID).view().holds[0]
        say(3, "The request is still there:")
        _show_request(shown)
        verdict, decided = _decide(app, shown, choose)
        resumed_pid, resumed = resume(directory)
        say(5, f"A new process, {resumed_pid}, has carried on. The agent says:")
        click.echo(f"   {plain(resumed['output'])}")
        say(6, _DOUBLE_CLICK)
        second = click_again(app, shown)
        _, again = resume(directory)
        click.echo("   And one more process has resumed the run: there was nothing left to do.")
    row, journal, report = asyncio.run(read_story(directory))
    return Story(
        who=WHO,
        verdict=verdict,
        before=before,
        killed_with=killed_with,
        shown=shown,
        decided=decided,
        second=second,
        resumed_pid=resumed_pid,
        resumed=resumed,
        again=again,
        payments=payments(directory),
        row=row,
        journal=journal,
        report=report,
    )


def _stop_and_kill(directory: Path) -> tuple[dict[str, Any], int]:
    say(1, f'{WHO} asks the teller agent: "{WISH}"')
    with agent_process("start", directory) as process:
        before = hear(process)
        click.echo(f"   The agent runs as process {process.pid}. It wants to call process_payment,")
        click.echo(f"   which needs a person. The run is {before['status']}.")
        say(2, f"Its process is killed now: kill -9 {process.pid}")
        process.kill()
        killed_with = process.wait()
    click.echo(f"   Process {process.pid} is gone (signal {-killed_with}). Nothing runs the agent.")
    return before, killed_with


def _show_request(hold: HoldView) -> None:
    click.echo(f"   {plain(hold.title)}, risk {hold.risk}")
    _print_args(hold)
    who = " or ".join(plain(one.removeprefix("user:")) for one in hold.approvers)
    click.echo(f"   {who} may decide. Digest of exactly this: {short(hold.digest)}")


def _print_args(hold: HoldView) -> None:
    for line in drawn(hold.show(HINTS), 3):
        click.echo(line)


def _decide(app: Sayso, shown: HoldView, choose: Choose) -> tuple[Verdict, HoldView]:
    while True:
        try:
            verdict = choose(shown)
            decided = app.decide(shown, verdict, by=WHO, channel="terminal")
        except BadValue as error:
            click.secho(f"   That cannot be: {plain(error)}", fg="red")
            continue
        say(4, f"Recorded: {_told(decided.decision)}.")
        if decided.version > shown.version:
            click.echo(f"   The edit is version {decided.version}:")
            _print_args(decided)
        return verdict, decided


def _approve(hold: HoldView) -> Verdict:
    del hold
    return approve()


def _ask(hold: HoldView) -> Verdict:
    question = f"   You are {WHO}. Approve (y), edit the amount (e) or reject (n)?"
    match click.prompt(question, type=click.Choice(["y", "e", "n"]), show_choices=False):
        case "y":
            return approve()
        case "e":
            amount = click.prompt("   New amount", type=_AMOUNT)
            return approve(args={**hold.args, "amount": amount})
        case _:
            return reject(click.prompt("   Why not", default="", show_default=False))


def resume(directory: Path) -> tuple[int, dict[str, Any]]:
    """Have a new process go on with the payment; give its pid and what it says."""
    with agent_process("resume", directory) as process:
        said = hear(process)
        if process.wait() != 0:
            raise SaysoError(f"the agent's process ended with code {process.returncode}")
        return process.pid, said


def click_again(app: Sayso, shown: HoldView) -> Decision | None:
    """Approve what is decided already; give what one is told then."""
    try:
        app.decide(shown, approve(), by=OTHER, channel="terminal")
    except AlreadyDecided as error:
        click.echo(f"   {OTHER} is told: {_told(error.decision)} already.")
        return error.decision
    return None


async def read_story(directory: Path) -> tuple[RunRow, list[Recorded], Report]:
    """Read the run of the payment, and check the whole store."""
    async with opened(store_path(directory)) as store:
        row, journal = await read_run(store, RUN_ID)
        return row, journal, await verify(store)


def _told(decision: Decision | None) -> str:
    if decision is None:
        return "no decision"
    when = clock(decision.at)
    return f"{decision.word} by {plain(decision.by)} at {when} on digest {short(decision.digest)}"
