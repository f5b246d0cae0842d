"""`sayso completion`: the script by which a shell completes commands, ids and titles."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sayso.errors import BadSetup


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete commands, options and the ids of what waits for you; zsh
    and fish show the titles, too.

    \b
    Examples:
      sayso completion bash >> ~/.bashrc
      sayso completion zsh > ~/.zfunc/_sayso
      sayso completion fish > ~/.config/fish/completions/sayso.fish
    """  # noqa: D301
    found = get_completion_class(shell)
    if found is None:
        raise BadSetup(f"there is no completion for {shell}")
    root = ctx.find_root()
    click.echo(found(root.command, {}, "sayso", "_SAYSO_COMPLETE").source())
