"""`sayso desk-key`: the keys by which desks sign what people decide."""

from __future__ import annotations

from pathlib import Path

import click

from sayso.engine.signing import DeskKey

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("desk-key", short_help="Make and look at the keys of desks.")
def desk_key() -> None:
    """Make and look at the keys of desks.

    A process that decides signs with its key, Sayso(sign_with=DeskKey.load("desk.key")). Workers
    then count only what is signed, Sayso(trust=["deskpub_..."]).

    \b
    Examples:
      sayso desk-key new desk.key
      sayso desk-key show desk.key
    """  # noqa: D301


@desk_key.command(short_help="Make a new key.")
@click.argument("file", type=_FILE)
def new(file: Path) -> None:
    """Make a new private key in FILE, which must not be there, and print its public text.

    \b
    Examples:
      sayso desk-key new desk.key
    """  # noqa: D301
    click.echo(DeskKey.new(file).public)


@desk_key.command(short_help="Print the public text of a key.")
@click.argument("file", type=_FILE)
def show(file: Path) -> None:
    """Print the public text of the private key in FILE: what workers are told to trust.

    \b
    Examples:
      sayso desk-key show desk.key
    """  # noqa: D301
    click.echo(DeskKey.load(file).public)
