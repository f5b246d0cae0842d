"""Logs of processes that serve or work: lines for people, or JSON a line.

Rule: a line says which run and which hold it is about, and never what was said in it. Of an error
it has the type and the place in the code: its message may have arguments in it.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

import click

from sayso.cli.plain import plain

Form = Literal["text", "json"]
IDS = ("run_id", "hold_id")
FRAMES_MAX = 50

log_option = click.option(
    "--log",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How lines of the log are written to stderr.",
)

_Error = tuple[type[BaseException], BaseException, TracebackType | None]


class TextLines(logging.Formatter):
    """Lines that are safe to print, whatever is in them."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write a record. What another formatter has made of its error is not for here."""
        record = copy.copy(record)
        record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name.
        """Write what a record says in one line: another one would look like a record."""
        return plain(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name.
        """Write of an error only what it is and where, a line for each place."""
        return "\n".join([plain(line) for line in _stack(ei)])


class JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        found: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: one for name in IDS if (one := getattr(record, name, None))}
        if record.exc_info and record.exc_info[0] is not None:
            found["error"] = record.exc_info[0].__name__
            found["stack"] = _stack(record.exc_info)
        return json.dumps(found)


def log_to_stderr(form: Form) -> None:
    """Have everything of this process that is worth it written to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("sayso").setLevel(logging.INFO)


def _stack(error: _Error) -> list[str]:
    """Say where an error came from, and by which others: their types, and no messages."""
    found: list[str] = []
    one: BaseException | None = error[1]
    while one is not None and len(found) < FRAMES_MAX:
        found.append(type(one).__name__)
        frames = traceback.extract_tb(one.__traceback__, limit=-FRAMES_MAX)
        found += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return found[:FRAMES_MAX]
