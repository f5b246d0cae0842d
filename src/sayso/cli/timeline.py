"""A run's journal as lines for people: when, what, and who."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from sayso.cli.plain import drawn
from sayso.domain import events as e
from sayso.domain.call import Call
from sayso.domain.recorded import Recorded
from sayso.domain.rendering import By, render
from sayso.engine.story import Story, clock, here

_COLOURS = {
    "approved": "green",
    "answered": "green",
    "completed": "green",
    "held": "yellow",
    "in doubt": "yellow",
    "suspended": "yellow",
    "errored": "red",
    "failed": "red",
    "late": "red",
    "rejected": "red",
}
_INDENT = 6
"""Arguments begin below the time."""


class Timeline:
    """Draws the entries of one run. With `full`, no argument is folded."""

    def __init__(self, *, full: bool = False) -> None:
        self._story = Story()
        self._full = full

    def lines(self, journal: Iterable[Recorded]) -> Iterator[str]:
        """Give a line an entry, with arguments below it, and one for each day: a run may wait for
        weeks.
        """
        day = ""
        for entry in journal:
            if day != (day := f"{here(entry.at):%Y-%m-%d %Z}"):
                yield click.style(f"      {day}", dim=True)
            word, text = self._story.describe(entry)
            shown = click.style(f"{word:<10}", fg=_COLOURS.get(word))
            yield f"{entry.seq:>4}  {clock(entry.at)}  {shown}  {text}"
            yield from self._args(entry)

    def _args(self, entry: Recorded) -> Iterator[str]:
        match entry.event:
            case e.TurnTaken(calls=calls):
                pass
            case e.CommandReceived(call=call):
                calls = (call,)
            case e.HoldRevised(args=args, operands=operands):
                calls = (Call(ref="", tool="", args=args, operands=operands),)
            case e.HoldOpened(operands=operands) if operands:
                calls = (Call(ref="", tool="", operands=operands),)
            case _:
                calls = ()
        for call in calls:
            if len(calls) > 1:
                yield f"{' ' * _INDENT}{self._story.named(call.ref)}"
            words: list[tuple[By, str, str]] = [("agent", "wrote instead", call.text)]
            # They are listed where somebody is asked about them.
            files = () if call.ref else call.operands
            shown = render(bytes(call.args), words=words, operands=files)
            frame = bool(shown.words) or not shown.inspectable
            yield from drawn(shown, _INDENT, frame=frame, full=self._full)
