"""`sayso demo`: an agent is killed while it waits for a person, and goes on in another process.

The demo itself is the person's side: it opens the same store, decides, and never runs the agent.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sayso.cli.demo_agent import HINTS, RUN_ID, WISH, make_teller, payments, store_path
from sayso.cli.demo_check import Story, surprises
from sayso.cli.opened import opened
from sayso.cli.plain import drawn, plain
from sayso.cli.show import print_run, read_run
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
NOT_AS_PROMISED = 1

Choose = Callable[[HoldView], Verdict]
"""How the person at the terminal, or a script, comes to a verdict."""


@click.command(short_help="Watch an agent be killed, decided on and resumed.")
@click.option("--headless", is_flag=True, help="Approve by script, check everything, ask nothing.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the store and the payments in DIR.",
)
@click.pass_context
def demo(ctx: click.Context, headless: bool, keep: Path | None) -> None:  # noqa: FBT001
    """Watch an agent stop for a person, lose its process, and carry on in another one.

    An agent is asked to pay. It stops, because paying needs a person, and its process is killed.
    You approve, edit or reject; a new process carries on; the payment is made once, or not at all.
    It needs no network and no key. Exits with 1 if anything is not as promised.

    \b
    Examples:
      sayso demo
      sayso demo --headless
      sayso demo --keep /tmp/pay && sayso audit verify /tmp/pay/demo.db
    """  # noqa: D301
    with _directory(keep) as directory:
        story = _play(directory, _approve if headless else _ask)
        click.echo()
        print_run(story.row, story.journal)
        found = surprises(story)
        for claim in found:
            click.secho(f"NOT AS PROMISED: {plain(claim)}", fg="red", err=True)
        click.echo(f"\npayments made: {len(story.payments)}")
        if keep is not None:
            click.echo(f"Kept: look again with `sayso show {plain(store_path(keep))} {RUN_ID}`.")
    if found:
        ctx.exit(NOT_AS_PROMISED)


def _play(directory: Path, choose: Choose) -> Story:
    # Without a worker: whatever is paid is paid by the agent's own process.
    with Sayso(store_path(directory), agents=[make_teller(directory)], work=False) as app:
        before, killed_with = _stop_and_kill(directory)
        shown = app.run(RUN_ID).view().holds[0]
        _say(3, "The request is still there:")
        _show_request(shown)
        verdict, decided = _decide(app, shown, choose)
        resumed_pid, resumed = _resume(directory)
        _say(5, f"A new process, {resumed_pid}, has carried on. The agent says:")
        click.echo(f"   {plain(resumed['output'])}")
        second = _click_again(app, shown)
        _, again = _resume(directory)
        click.echo("   And one more process has resumed the run: there was nothing left to do.")
    row, journal, report = asyncio.run(_read(directory))
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
    _say(1, f'{WHO} asks the teller agent: "{WISH}"')
    with _agent("start", directory) as process:
        before = _hear(process)
        click.echo(f"   The agent runs as process {process.pid}. It wants to call process_payment,")
        click.echo(f"   which needs a person. The run is {before['status']}.")
        _say(2, f"Its process is killed now: kill -9 {process.pid}")
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
        _say(4, f"Recorded: {_told(decided.decision)}.")
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


def _resume(directory: Path) -> tuple[int, dict[str, Any]]:
    with _agent("resume", directory) as process:
        said = _hear(process)
        if process.wait() != 0:
            raise SaysoError(f"the agent's process ended with code {process.returncode}")
        return process.pid, said


def _click_again(app: Sayso, shown: HoldView) -> Decision | None:
    _say(6, f"A double click: {OTHER} still has the request on the screen, and approves it, too.")
    try:
        app.decide(shown, approve(), by=OTHER, channel="terminal")
    except AlreadyDecided as error:
        click.echo(f"   {OTHER} is told: {_told(error.decision)} already.")
        return error.decision
    return None


async def _read(directory: Path) -> tuple[RunRow, list[Recorded], Report]:
    async with opened(store_path(directory)) as store:
        row, journal = await read_run(store, RUN_ID)
        return row, journal, await verify(store)


def _told(decision: Decision | None) -> str:
    if decision is None:
        return "no decision"
    when = clock(decision.at)
    return f"{decision.word} by {plain(decision.by)} at {when} on digest {short(decision.digest)}"


@contextmanager
def _agent(what: str, directory: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run the agent in a process of its own, out of reach of the terminal's Ctrl-C."""
    command = [sys.executable, "-P", "-m", "sayso.cli.demo_agent", what, str(directory)]
    with subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter.
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _hear(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SaysoError(f"the agent's process ended with code {process.wait()}, saying nothing")
    return json.loads(line)


@contextmanager
def _directory(keep: Path | None) -> Generator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sayso-demo-") as made:
            yield Path(made)
        return
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise click.UsageError(f"{str(keep)!r} is not empty: name a new directory to --keep")
    yield keep


def _say(number: int, text: str) -> None:
    click.echo()
    click.secho(f"{number}. {text}", bold=True)
