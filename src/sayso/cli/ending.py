"""How the commands for people end: what was refused, in words and as an exit code."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

import click

from sayso import errors
from sayso.cli.advice import explain
from sayso.cli.plain import plain
from sayso.domain.glyph import brief
from sayso.domain.hold import Decision, Expired, Rejected, Withdrawn
from sayso.store.views import HoldView, moment

DONE, FAILED, USAGE, DECIDED, OVER, NOT_ALLOWED, NOT_FOUND = range(7)
"""Exit codes: done; an error; a wrong command line; somebody else has decided; it is too late, or
the run was cancelled; not allowed; no such thing.
"""
_CODES: dict[type[BaseException], int] = {
    errors.BadFilter: USAGE,
    errors.HoldExpired: OVER,
    errors.RunFinished: OVER,
    errors.RunArchived: OVER,
    errors.AlreadyDecided: DECIDED,
    errors.NotAllowed: NOT_ALLOWED,
    errors.Unauthenticated: NOT_ALLOWED,
    errors.Unknown: NOT_FOUND,
}


def code_of(error: BaseException) -> int:
    """Give the exit code of an error."""
    if isinstance(error, errors.AlreadyDecided) and is_over(error.decision):
        return OVER
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), FAILED)


def is_over(decision: Decision) -> bool:
    """Tell whether nobody decided: it was withdrawn, or its time has passed."""
    return isinstance(decision.verdict, Withdrawn | Expired)


@contextmanager
def ended_by() -> Generator[None]:
    """End the command with the code of what it is refused."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except Exception as error:
        if os.environ.get("SAYSO_DEBUG") == "1":
            raise
        say(f"sayso: {told(error)}")
        raise click.exceptions.Exit(code_of(error)) from None


def told(error: Exception) -> str:
    """Say in one line what went wrong, and who decided what if that is why."""
    if isinstance(error, errors.AlreadyDecided):
        return f"too late: it was {said(error.decision)}"
    return explain(error)


def said(decision: Decision) -> str:
    """Say what was decided: what, by whom, when, and why."""
    why = decision.note
    match decision.verdict:
        case Expired():
            return f"decided by nobody in time, at {_when(moment(decision.at))}"
        case Rejected(reason=reason) | Withdrawn(reason=reason):
            why = reason or why
        case _:
            pass
    how = f" by {plain(decision.channel)}" if decision.channel else ""
    because = f": {brief(why)}" if why else ""
    return f"{decision.word} by {plain(decision.by)} at {_when(moment(decision.at))}{how}{because}"


def check_open(hold: HoldView) -> None:
    """Raise what deciding a hold would, if it is decided already."""
    if hold.status == "open":
        return
    assert hold.decision is not None, "a hold that is not open has a decision"
    kind = errors.HoldExpired if isinstance(hold.decision.verdict, Expired) else None
    raise (kind or errors.AlreadyDecided)(decision=hold.decision)


def say(text: str) -> None:
    """Say words about what is done."""
    click.echo(text, err=True)


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
