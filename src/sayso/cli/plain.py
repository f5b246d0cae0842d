"""Text from journals, made safe to print.

A model, a tool or a person may have put anything into a journal: escape sequences that move the
cursor, colour a line, or turn its direction around. On a terminal that is how a request is made to
look like another one. What is shown of any text is for `sayso.domain.glyph` to say.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from sayso.domain.drawing import COLUMNS, draw
from sayso.domain.glyph import inline
from sayso.domain.rendering import Rendering


def plain(text: object) -> str:
    r"""Write text in one line, and what could deceive as its number, `\u{1b}`."""
    return inline(str(text))


def drawn(
    shown: Rendering, indent: int, *, frame: bool = True, full: bool = False
) -> Iterator[str]:
    """Draw arguments as wide as the terminal; without `frame`, none of the lines around them."""
    columns = shutil.get_terminal_size((COLUMNS, 0)).columns - indent
    for line in draw(shown, columns=columns, full=full):
        if frame or not line.frame:
            yield " " * indent + line.text
