"""The command line: `sayso`. One small module a command, each imported when it is asked for.

Rule 1: standard output is data, standard error is words about it.
Rule 2: what comes out of a journal goes through `plain` before it reaches a terminal.
Rule 3: an error is one line that says what to do. SAYSO_DEBUG=1 shows where it came from.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from io import TextIOWrapper
from typing import Any

import click

from sayso.cli.advice import explain

CANNOT = 2
"""Exit code: it could not be done. Click uses the same for a wrong command line."""
INTERRUPTED = 130

_GROUPS: dict[str, tuple[str, ...]] = {
    "See it work": ("demo",),
    "Decide": (
        "inbox",
        "ls",
        "show",
        "approve",
        "reject",
        "answer",
        "signin",
        "consent",
        "undo",
        "handover",
        "remind",
        "rules",
        "watch",
        "run",
        "open",
        "completion",
    ),
    "Run an app": ("serve", "worker", "token", "policy", "doctor", "desk-key"),
    "Look into what happened": ("doubt", "audit"),
    "Look after stores": ("migrate", "jobs", "move", "archive", "restored", "export", "adopt"),
}
"""What people look for together, the most frequent first."""
_COMMANDS = tuple(name for group in _GROUPS.values() for name in group)


class _Sayso(click.Group):
    """The commands, and what becomes of their errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = cmd_name.replace("-", "_")
        found: click.Command = getattr(importlib.import_module(f"sayso.cli.{module}"), module)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # As wide in every group, so that all of them read as one list.
        width = max(map(len, _COMMANDS))
        for title, names in _GROUPS.items():
            found = [(name.ljust(width), self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, one.get_short_help_str()) for name, one in found if one])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.Abort, KeyboardInterrupt):
            click.echo("\nsayso: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            # The one place where there is nobody left to tell but the person at the terminal.
            if os.environ.get("SAYSO_DEBUG") == "1" or _is_closed_pipe(error):
                raise
            click.echo(f"sayso: {explain(error)}", err=True)
            ctx.exit(CANNOT)


def _is_closed_pipe(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        from importlib.metadata import version

        click.echo(f"sayso {version('sayso')}")
        ctx.exit()


@click.group(
    cls=_Sayso,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="SAYSO_DEBUG=1 shows the traceback of an error, NO_COLOR=1 prints without colours.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Durable human-in-the-loop for AI agents.

    \b
    Examples:
      sayso demo                      watch agents be killed, decided on and resumed
      sayso serve pay:app --open      serve the inbox and the API of the app in pay.py
      sayso inbox --store pay.db      decide what waits for you, one by one
      sayso approve HOLD              approve it, once you have seen it
      sayso show pay.db RUN           print what happened in a run
      sayso doctor pay:app            look a store and an app over
      sayso COMMAND --help            all of a command, with examples
    """  # noqa: D301 - Click's mark for lines that stay as they are.
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
