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

_COMMANDS = (
    "adopt",
    "answer",
    "approve",
    "archive",
    "audit",
    "completion",
    "consent",
    "demo",
    "desk-key",
    "doctor",
    "doubt",
    "export",
    "handover",
    "inbox",
    "ls",
    "migrate",
    "move",
    "open",
    "policy",
    "reject",
    "remind",
    "restored",
    "rules",
    "run",
    "serve",
    "show",
    "signin",
    "token",
    "undo",
    "watch",
    "worker",
)


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
      sayso demo                      watch an agent be killed, decided on and resumed
      sayso inbox                     decide what waits for you, one by one
      sayso ls                        list what waits for you
      sayso approve HOLD              approve it, once you have seen it
      sayso show pay.db               list the runs of a store
      sayso show pay.db RUN           print what happened in a run
      sayso doubt HOLD --store pay.db print what is known of a call in doubt
      sayso audit verify pay.db       check that no journal was changed
      sayso audit export pay.db       write who decided what
      sayso export RUN --store pay.db write a whole run as signed JSON
      sayso adopt FILE --store pay.db take in a run from another store
      sayso move pay.db postgresql:// move a whole store into a database
      sayso archive pay.db --before 90d --to old
      sayso restored pay.db           let a store that was restored work again
      sayso policy test policy.yaml   try a policy file out
      sayso doctor pay:app            look a store and an app over
      sayso worker pay:app            work on what an app's agents have to do
      sayso migrate STORE             bring the schema of a database up
      sayso desk-key new desk.key     make a key that signs what people decide
      sayso serve pay:app             serve the API over HTTP
      sayso token create NAME         make a token for the API
    """  # noqa: D301 - Click's mark for lines that stay as they are.
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character still shows the rest.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
