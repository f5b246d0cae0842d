"""Text from journals, made safe to print.

A model, a tool or a person may have put anything into a journal: escape sequences that move the
cursor, colour a line, or turn its direction around. On a terminal that is how a request is made to
look like another one.
"""

from __future__ import annotations


def plain(text: object) -> str:
    r"""Write every character that is not printable as its number, `\u{1b}`."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in str(text))


def brief(text: object, chars_max: int = 160) -> str:
    """Make text plain, and say how much of it is left out if it is long."""
    whole = str(text)
    left_out = len(whole) - chars_max
    if left_out <= 0:
        return plain(whole)
    return f"{plain(whole[:chars_max])} [{left_out:,} more characters]"
