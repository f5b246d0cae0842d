"""A request as people read it in a terminal: what is asked, of whom, until when, and exactly what
would be executed.

Rule: whatever comes out of a journal goes through `plain`, and lines are broken here: a terminal
that breaks one would begin the rest of it at the left, where our own words stand.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click

from sayso.cli.ending import said
from sayso.cli.plain import drawn, plain
from sayso.domain.drawing import COLUMNS, COLUMNS_MIN
from sayso.domain.glyph import brief, pieces
from sayso.domain.hold import Consent, SignIn, name_approvers
from sayso.domain.question import Question
from sayso.domain.rendering import SHORT, render
from sayso.store.views import HoldView

_COLOURS = {"low": "green", "medium": "blue", "high": "yellow", "critical": "red"}
_BARS = {"low": "▂", "medium": "▂▄", "high": "▂▄▆", "critical": "▂▄▆█"}
_LABEL = 10
_SOON = timedelta(minutes=20)
_BY_SECONDS = 10
"""Under so many minutes, seconds matter."""
_SILENCE = {
    "reject": "rejects itself",
    "approve": "approves itself",
    "answer": "goes on with its default",
    "fail": "the run fails",
    "cancel": "the run is cancelled",
    "escalate": "goes on to others",
}


def card(hold: HoldView, *, full: bool = False, now: datetime | None = None) -> Iterator[str]:
    """Draw a request, as wide as the terminal."""
    yield from broken(click.style(brief(hold.title), bold=True), 0)
    yield from broken(plain(hold.id), 2)
    for name, value in _facts(hold, now or datetime.now(UTC)):
        yield from labelled(name, value)
    yield from drawn(hold.shown, 0, full=full)
    yield from _choices(hold)
    if hold.decision is not None:
        yield from broken(f"It is {hold.status}: {said(hold.decision)}", 0)


def _facts(hold: HoldView, now: datetime) -> Iterator[tuple[str, str]]:
    yield "risk", risk_of(hold)
    yield "kind", hold.kind.replace("_", " ")
    yield "tool", plain(hold.tool)
    yield "agent", f"{plain(hold.agent)}, {plain(hold.run_id)}"
    yield "asks", plain(name_approvers(hold.approvers))
    if hold.quorum > 1:
        yield "needs", f"{hold.quorum} different people, {hold.missing} more"
    if hold.not_requester:
        yield "four eyes", "not who asked for the call"
    if hold.together:
        yield "together", f"with all of {plain(hold.request_id)}, or not at all"
    if hold.duplicate_of:
        yield "REPEATS", f"the call in doubt {plain(hold.duplicate_of)}"
    if hold.doubt:
        yield "IN DOUBT", brief(hold.doubt, 400)
    if not hold.editable:
        yield "fixed", "its arguments cannot be changed"
    if isinstance(hold.ask, SignIn | Consent):
        yield "sign in", plain(f"at {hold.ask.provider}: {', '.join(hold.ask.scopes) or 'nothing'}")
    if hold.status == "open":
        yield "left", left(hold, now)
    yield "digest", f"{short(hold.digest)}, version {hold.version}"


def short(digest: str) -> str:
    """Write enough of a digest to compare it by eye."""
    return plain(digest[:SHORT])


def labelled(name: str, value: str) -> Iterator[str]:
    """Write a name and what belongs to it; the rest of a long one stands below."""
    first, *more = broken(value, 2 + _LABEL + 1)
    yield f"  {name:<{_LABEL}} {first.lstrip()}"
    yield from more


def risk_of(hold: HoldView) -> str:
    """Write a risk as a word, with a shape and a colour where those can be seen."""
    word = plain(hold.risk)
    encoding = (sys.stdout.encoding or "").lower()
    bars = _BARS.get(word, "") if sys.stdout.isatty() and encoding.startswith("utf") else ""
    return click.style(f"{bars} {word}".strip(), fg=_COLOURS.get(word))


def left(hold: HoldView, now: datetime) -> str:
    """Say what happens when, if nobody decides."""
    if hold.deadline is None:
        return "waits for as long as it takes"
    rest = hold.deadline - now
    what = _SILENCE.get(hold.ruling.on_silence, "ends")
    said = f"{what} in {span(rest)}" if rest > timedelta() else f"{what} now"
    return click.style(said, fg="red") if rest < _SOON else said


def span(time: timedelta) -> str:
    """Write how long something takes: `8:31`, `3 h 59 min`, `2 d 4 h`."""
    seconds = max(int(time.total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < _BY_SECONDS:
        return f"{minutes}:{seconds % 60:02}"
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60:02} min"
    return f"{days} d {hours % 24} h"


def _choices(hold: HoldView) -> Iterator[str]:
    question = hold.question
    if question is None or hold.status != "open":
        return
    for at, (shown, about) in enumerate(choices_of(question), 1):
        yield from broken(f"{at}  {brief(shown)}" + (f": {brief(about)}" if about else ""), 2)


def choices_of(question: Question) -> list[tuple[str, str]]:
    """List what a question can be answered with, and what is said about each."""
    if question.kind == "yes_no":
        return [("yes", ""), ("no", "")]
    return [(option.shown, option.description) for option in question.options]


def changes(hold: HoldView, args: bytes) -> list[str]:
    """Give what other arguments than those shown change, as lines that begin with `-` and `+`."""
    before, after = (_by_path(one) for one in (hold.args_json.encode(), args))
    found: list[str] = []
    for path in dict.fromkeys((*before, *after)):
        if before.get(path) != after.get(path):
            found += _marked("-", "red", path, before) + _marked("+", "green", path, after)
    return found


def _by_path(args: bytes) -> dict[str, tuple[str, ...]]:
    return {line.path: line.part.rows or (line.part.kind,) for line in render(args).lines()}


def _marked(mark: str, colour: str, path: str, values: dict[str, tuple[str, ...]]) -> list[str]:
    if path not in values:
        return []
    first, *more = values[path]
    lines = [*broken(f"{path}: {first}", 2), *(row for one in more for row in broken(one, 6))]
    return [click.style(f"{mark} {line[2:]}", fg=colour) for line in lines]


def markdown(hold: HoldView) -> str:
    """Write a request as Markdown in which nothing of a journal is markup."""
    title = re.sub(r"([^\w\s])", r"\\\1", brief(hold.title))
    _, *lines = (click.unstyle(line) for line in card(hold, full=True))
    text = "\n".join(lines)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=2) + 1)
    return f"# {title}\n\n{max(fence, '```', key=len)}text\n{text}\n{max(fence, '```', key=len)}"


def columns() -> int:
    """Say how wide the terminal is."""
    return max(shutil.get_terminal_size((COLUMNS, 0)).columns, COLUMNS_MIN)


def broken(text: str, indent: int) -> Iterator[str]:
    """Break text between words at the terminal's width, or within a word that is wider."""
    room, line, used = columns() - indent, "", 0
    plain_text = click.unstyle(text)
    if _width(plain_text) <= room:
        yield " " * indent + text
        return
    for word in plain_text.split(" "):
        if line and used + 1 + _width(word) > room:
            yield " " * indent + line
            line, used = "", 0
        for piece, width in pieces(f" {word}" if line else word):
            if used + width > room:
                yield " " * indent + line
                line, used = "", 0
            line += piece
            used += width
    yield " " * indent + line


def _width(text: str) -> int:
    return sum(width for _, width in pieces(text))
