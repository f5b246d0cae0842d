r"""A rendering as lines for a terminal.

Our own lines begin at the left; every line that has anything of an argument is indented, and what
it begins with is ours:

    Arguments: 2 (48 bytes)             ours
      amount: 12400.0  = EUR 12,400.00  a name of one word, or in quotes, or `[0]`
      memo: text, 9 lines
        | Dear Jiro,                    a line of a text
        : and more of it                the rest of the line above
        ... 5 lines are folded;         a fold
        - written as numbers: 1 mark    a note
    Files: 1, as they were [...]        ours
      path names the file "pay.sh", 9 bytes  a file, with its size and digest

So no argument can draw a line of ours, or of another argument. Lines are broken here, at
`columns`, because a terminal that breaks them would begin the rest of one at the left.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from sayso.domain.glyph import pieces
from sayso.domain.rendering import By, File, Part, Rendering
from sayso.domain.value import Value

COLUMNS = 100
COLUMNS_MIN = 36
"""What the deepest indent and the widest character need; narrower is broken by the terminal."""
DEPTH_DRAWN = 10
"""Whatever is deeper is indented no further, and says its depth."""
HEAD, TAIL = 12, 4
"""How many lines, or items, of something folded are drawn from its beginning and its end."""
_INDENT = "  "
_BY: dict[By, str] = {
    "agent": "The agent's own words, which nobody has checked:",
    "tool": "Words of the tool or a rule:",
}


class Drawn(Value, frozen=True, kw_only=True):
    """A line."""

    text: str
    frame: bool = False
    """It is ours: nothing in it is of an argument."""


def render_text(rendering: Rendering, *, columns: int = COLUMNS, full: bool = False) -> str:
    """Draw a rendering for a terminal of so many columns; with `full`, nothing is folded."""
    return "\n".join(line.text for line in draw(rendering, columns=columns, full=full))


def draw(rendering: Rendering, *, columns: int = COLUMNS, full: bool = False) -> Iterator[Drawn]:
    """Draw a rendering line by line."""
    pen = _Pen(columns=max(columns, COLUMNS_MIN), full=full)
    count = len(rendering.parts)
    head = f"Arguments: {count or 'none'} ({rendering.bytes:,} bytes)"
    if not rendering.inspectable:
        head = f"NOT ARGUMENTS, but {rendering.bytes:,} bytes that cannot be read as such"
    yield from pen.ours(head)
    for part in rendering.parts:
        yield from pen.part(part, 0)
    if rendering.files:
        count = len(rendering.files)
        yield from pen.ours(f"Files: {count}, as they were when this was asked")
    for file in rendering.files:
        yield from pen.file(file)
    for by, heading in _BY.items():
        said = [words.part for words in rendering.words if words.by == by]
        if said:
            yield from pen.ours(heading)
        for part in said:
            yield from pen.part(part, 0)


class _Pen:
    """Draws parts of a rendering."""

    def __init__(self, *, columns: int, full: bool) -> None:
        self._columns = columns
        self._full = full

    def ours(self, text: str) -> Iterator[Drawn]:
        for line in wrap(text, self._columns):
            yield Drawn(text=line, frame=True)

    def part(self, part: Part, depth: int) -> Iterator[Drawn]:
        indent = _INDENT * (min(depth, DEPTH_DRAWN) + 1)
        deep = f"({depth}) " if depth > DEPTH_DRAWN else ""
        label = f"{deep}{part.name}: "
        if part.kind in ("object", "list"):
            yield from self._broken(indent, "", f"{label}{_count(part)}")
            yield from self._notes(part, indent)
            yield from self._many(part, depth)
            return
        value = _in_one(part)
        one = f"{label}{value}" + (f"  = {part.formatted}" if part.formatted else "")
        if value and sum(width for _, width in pieces(one)) <= self._columns - len(indent):
            yield Drawn(text=f"{indent}{one}")
        else:
            yield from self._broken(indent, "", f"{label}{_measure(part)}")
            yield from self._rows(part, indent + _INDENT)
        yield from self._notes(part, indent)

    def file(self, file: File) -> Iterator[Drawn]:
        yield from self._broken(_INDENT, "", f"{file.name} names the file {file}")

    def _rows(self, part: Part, indent: str) -> Iterator[Drawn]:
        lines = [line for row in part.rows for line in self._broken(indent, "| ", row)]
        if part.fold is None or self._full or len(lines) <= HEAD + TAIL:
            yield from lines
            return
        yield from lines[:HEAD]
        left = f"... {len(lines) - HEAD - TAIL:,} lines are folded; the whole has {part.fold}"
        yield from self._broken(indent, "", left)
        yield from lines[-TAIL:]

    def _many(self, part: Part, depth: int) -> Iterator[Drawn]:
        left = 0 if part.fold is None or self._full else len(part.parts) - HEAD - TAIL
        for at, inner in enumerate(part.parts):
            if at < HEAD or at >= HEAD + left:
                yield from self.part(inner, depth + 1)
            elif at == HEAD:
                indent = _INDENT * (min(depth, DEPTH_DRAWN) + 2)
                said = f"... {left:,} are folded; the whole has {part.fold}"
                yield from self._broken(indent, "", said)

    def _notes(self, part: Part, indent: str) -> Iterator[Drawn]:
        said = [f"its schema calls it: {part.title}"] if part.title else []
        said += [f"its schema says: {part.description}"] if part.description else []
        for note in [*said, *part.notes]:
            yield from self._broken(indent + _INDENT, "- ", note)

    def _broken(self, indent: str, gutter: str, row: str) -> Iterator[Drawn]:
        """Break a line where the terminal would, and mark what is the rest of it."""
        start, line, used = f"{indent}{gutter}", "", 0
        for piece, width in pieces(row):
            if used + width > self._columns - len(start):
                yield Drawn(text=f"{start}{line}")
                start, line, used = f"{indent}{': ' if gutter else '  : '}", "", 0
            line += piece
            used += width
        yield Drawn(text=f"{start}{line}" if line else start.rstrip())


def _in_one(part: Part) -> str:
    """Give what fits beside a name; empty if it needs lines of its own."""
    if part.kind != "text":
        return part.rows[0] if part.kind != "bytes" else ""
    (row, *more) = part.rows
    # A quote inside would look like the end of it, and what follows like something else.
    return "" if more or '"' in row else f'"{row}"'


def _count(part: Part) -> str:
    unit = {"object": ("entry", "entries"), "list": ("item", "items")}[part.kind]
    count = len(part.parts)
    return f"{part.kind}, {count:,} {unit[count != 1]}" if count else f"{part.kind}, empty"


def _measure(part: Part) -> str:
    count = len(part.rows)
    return f"{part.kind}, {count:,} line{'s' if count > 1 else ''}"
