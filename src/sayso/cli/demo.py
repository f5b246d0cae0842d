"""`sayso demo`: agents ask, their process is killed, and they go on in another one."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click

from sayso.cli.demo_agent import RUN_ID, store_path
from sayso.cli.demo_check import Story, surprises
from sayso.cli.plain import plain
from sayso.cli.show import print_run

NOT_AS_PROMISED = 1
_PAGES = ("fastapi", "uvicorn", "jinja2", "multipart", "httpx2", "cryptography")
"""What the pages need."""


@click.command(short_help="Watch agents be killed, decided on and resumed.")
@click.option("--headless", is_flag=True, help="Decide by script, check everything, ask nothing.")
@click.option("--plain", "in_terminal", is_flag=True, help="In the terminal: no server, no pages.")
@click.option("--no-browser", is_flag=True, help="Open no browser; print the address.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where the pages are; else wherever there is room.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the store and the payments in DIR.",
)
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    headless: bool,
    in_terminal: bool,
    no_browser: bool,
    port: int,
    keep: Path | None,
) -> None:
    """Watch agents stop for a person, lose their process, and carry on in another one.

    The inbox opens with requests of every kind. After your first decision the agents' process is
    killed in front of you; you decide the next one all the same, and a new process carries on from
    where the first one stopped. The payment is made once, or not at all.
    It needs no network and no key. Exits with 1 if anything is not as promised.

    \b
    Examples:
      sayso demo
      sayso demo --plain
      sayso demo --headless
      sayso demo --keep /tmp/pay && sayso audit verify /tmp/pay/demo.db
    """  # noqa: D301
    if not in_terminal and (missing := [name for name in _PAGES if find_spec(name) is None]):
        said = f"{missing[0]} is missing, so there are no pages: pip install 'sayso[server,oauth]'"
        click.echo(f"{said}\nIn the terminal, then.", err=True)
        in_terminal = True
    with _directory(keep) as directory:
        story = _play(
            directory, in_terminal=in_terminal, headless=headless, port=port, opens=not no_browser
        )
        if story is None:
            click.echo("\nYou left before the agents could go on. Nothing was paid.")
            return
        click.echo()
        print_run(story.row, story.journal)
        found = surprises(story)
        for claim in found:
            click.secho(f"NOT AS PROMISED: {plain(claim)}", fg="red", err=True)
        click.echo(f"\npayments made: {len(story.payments)}")
        if not (headless or in_terminal):
            click.echo("The inbox has ended with the demo. For your own: sayso serve --help")
        if keep is not None:
            click.echo(f"Kept: look again with `sayso show {plain(store_path(keep))} {RUN_ID}`.")
    if found:
        ctx.exit(NOT_AS_PROMISED)


def _play(
    directory: Path, *, in_terminal: bool, headless: bool, port: int, opens: bool
) -> Story | None:
    if in_terminal:
        from sayso.cli.demo_plain import play_plain

        return play_plain(directory, headless=headless)
    from sayso.cli.demo_pages import play_pages

    return play_pages(directory, headless=headless, port=port, opens=opens)


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
