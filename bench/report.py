"""What was measured: one row a figure, with its ratio, its target, and whether that is met."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec


class Row(msgspec.Struct, kw_only=True):
    """One line of the table."""

    name: str
    figure: str
    ratio: float | None = None
    to: str = ""
    """What the ratio is a ratio to."""
    target: str = ""
    met: bool | None = None
    """None: there is no target, the line is there to be read."""


class Report:
    """The rows so far, printed as they come."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self._about = ""

    @contextmanager
    def about(self, store: str) -> Iterator[None]:
        """Put the name of a store before every row."""
        self._about = f"{store}: "
        try:
            yield
        finally:
            self._about = ""

    def head(self, text: str) -> None:
        print(f"\n{text}", flush=True)

    def add(self, row: Row) -> None:
        row.name = self._about + row.name
        self.rows.append(row)
        ratio = "" if row.ratio is None else f"{row.ratio:.2f} x {row.to}"
        met = {True: "met", False: "NOT MET", None: ""}[row.met]
        line = f"  {row.name:<46} {row.figure:>22}  {ratio:<30} {row.target:<24} {met}"
        print(line.rstrip(), flush=True)

    def plain(self, name: str, figure: str) -> None:
        self.add(Row(name=name, figure=figure))

    def below(self, name: str, value: float, unit: str, most: float) -> None:
        """Report a figure that must not be above its target."""
        self.add(
            Row(
                name=name,
                figure=f"{number(value)} {unit}".strip(),
                target=f"at most {number(most)} {unit}".strip(),
                met=value <= most,
            )
        )

    def ratio(
        self,
        name: str,
        figure: str,
        ratio: float,
        to: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """Report a figure by its ratio to another one of the same run."""
        target, met = "", None
        if most is not None:
            target, met = f"at most {most:g} x", ratio <= most
        if least is not None:
            target, met = f"at least {least:g} x", ratio >= least
        self.add(Row(name=name, figure=figure, ratio=ratio, to=to, target=target, met=met))

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"  ({text})", flush=True)

    def end(self) -> None:
        aimed = [row for row in self.rows if row.met is not None]
        print(f"\n{sum(bool(row.met) for row in aimed)} of {len(aimed)} targets met.")
        for row in aimed:
            if not row.met:
                ratio = "" if row.ratio is None else f" = {row.ratio:.2f} x {row.to}"
                print(f"  not met: {row.name}: {row.figure}{ratio}, wanted {row.target}")

    def write(self, path: Path) -> None:
        rows = [msgspec.to_builtins(row) for row in self.rows]
        text = json.dumps({"rows": rows, "notes": self.notes}, indent=1)
        path.write_text(text + "\n", encoding="utf-8")


def number(value: float) -> str:
    """Write a number with about three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"
