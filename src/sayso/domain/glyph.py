r"""Text that anybody may have written, made exact to look at.

Rule 1: a character that cannot be seen, moves others, or passes for another one is written as its
number, `\u{202e}`. Nothing else in what is shown has a backslash before `u{`, so nobody can write
the notation by hand, and the text can always be read back: two texts are never shown alike.
Rule 2: what the Unicode tables of this Python do not know is written as its number, too.
Rule 3: right-to-left letters keep their order on the screen: whatever follows them and has no
direction of its own is written as its number, so that no digit can change places with them.

What this cannot know: the standard library has no list of look-alikes and no scripts, so scripts
are read from the names of characters, and a look-alike is found by what gives it away: another
script inside of one word or address, or a form that Unicode itself calls compatible with a plain
one. A word that is wholly of another script, letters of one script that look alike (`l` and `I`),
and Japanese and Chinese signs that do, are shown as they are; of the first, `scripts` tells.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from sayso.domain.value import Value

SPACES_MAX = 16
"""How many spaces in a row are shown as spaces."""
MARKS_MAX = 3
"""How many marks one letter carries; more would reach into the lines above and below."""

_PADDING = re.compile(f" {{{SPACES_MAX + 1},}}")
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
_DIRECTIONS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
_MARKS = frozenset("\u200e\u200f\u061c")
"""They change the direction as well, and have that of a letter."""
_BY_CATEGORY = {"Cc": "control", "Zs": "space"}
_UNSEEN = (
    "FILLER",
    "SELECTOR",
    "PATTERN BLANK",
    "VOWEL INHERENT",
    "JOINER",
    "NULL NOTEHEAD",
)
"""What is in the names of characters that show nothing, and that no category gives away."""
_ALIKE_TAGS = frozenset(("font", "wide", "compat", "initial", "medial", "final", "isolated"))
_PLAIN_TAGS = _ALIKE_TAGS | {"small", "vertical", "noBreak"}
_KEPT = frozenset("\u00b5\u0e33\u0eb3")
"""Letters that only history makes compatible with others: micro, and `am` in Thai and Lao."""
_WIDE_KEPT = frozenset("\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f")
"""Punctuation that belongs among Chinese and Japanese letters, and nowhere else."""
_PUNCTUATION = frozenset(
    "\u01c0\u01c3\u0589\u05c3\u2010\u2011\u2043\u2044\u2212\u2215\u2216\u2223\u2236\u23aa\u2502"
    "\u2758\u29f5\u29f8\u29f9\ua789"
)
"""Signs that pass for `| ! : - / \\` in addresses, paths and options."""
_ODD_LATIN = ("SCRIPT", "ALPHA", "IOTA", "SMALL CAPITAL")
_EAST_ASIAN = frozenset(("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL"))
_TOGETHER = _EAST_ASIAN | {"LATIN"}
"""Scripts that are written together in one word."""
_INHERITED = frozenset(("COMBINING", "VEDIC"))
_SCRIPT_NAMES = {"IDEOGRAPHIC": "CJK", "KANGXI": "CJK"}

REASONS = {
    "control": "control",
    "direction": "direction",
    "invisible": "invisible",
    "space": "unusual space",
    "look-alike": "look-alike",
    "mark": "combining mark",
    "notation": "backslash",
}
"""Why a character is written as its number, in words."""


class Shown(Value, frozen=True, kw_only=True):
    """A text as it is shown."""

    rows: tuple[str, ...]
    """Its lines. Put together with line feeds and read back, they are the text."""
    escaped: tuple[tuple[str, int], ...] = ()
    """Why characters are written as their numbers, and how many; see `REASONS`."""
    scripts: tuple[str, ...] = ()
    """The scripts it has letters or digits of, beside the Latin."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about it."""
        said: list[str] = []
        if self.escaped:
            counts = ", ".join(f"{count} {REASONS[why]}" for why, count in self.escaped)
            said.append(f"written as numbers: {counts}")
        if self.scripts:
            said.append(f"has letters or digits that are {' and '.join(self.scripts)}")
        return tuple(said)


def show(text: str, *, rtl: bool = True) -> Shown:
    """Show a text by its lines. Without `rtl`, right-to-left letters are numbers as well."""
    found: Counter[str] = Counter()
    scripts: set[str] = set()
    rows = [_row(row, found, scripts, rtl=rtl) for row in text.split("\n")]
    return Shown(
        rows=tuple(rows),
        escaped=tuple([(why, found[why]) for why in REASONS if found[why]]),
        scripts=tuple([name if name == "CJK" else name.title() for name in sorted(scripts)]),
    )


def inline(text: str, *, rtl: bool = True) -> str:
    r"""Show a text in one line; a line feed is `\u{a}`."""
    return number("\n").join(show(text, rtl=rtl).rows)


def brief(text: object, chars_max: int = 160) -> str:
    """Show a text in one line, and say how much of it is left out if it is long."""
    whole = str(text)
    left_out = len(whole) - chars_max
    if left_out <= 0:
        return inline(whole)
    return f"{inline(whole[:chars_max])} [{left_out:,} more characters]"


def read_back(shown: str) -> str:
    """Make the text again of what was shown of it."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), shown)


def number(char: str) -> str:
    """Write a character as its number."""
    return f"\\u{{{ord(char):x}}}"


def pieces(row: str) -> Iterator[tuple[str, int]]:
    """Take a shown line apart where it may be broken, with the columns that each piece takes."""
    at = 0
    while at < len(row):
        found = _ESCAPED.match(row, at)
        piece = row[at] if found is None else found[0]
        at += len(piece)
        yield piece, _columns(piece)


def _columns(piece: str) -> int:
    if len(piece) > 1 or piece.isascii():
        return len(piece)
    if unicodedata.category(piece) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(piece) in ("W", "F") else 1


def _row(row: str, found: Counter[str], scripts: set[str], *, rtl: bool) -> str:
    if row.isascii() and row.isprintable() and not _padded(row) and "\\u{" not in row:
        return row  # Nearly all of what there is to show.
    reasons = [_alone(char) for char in row]
    has = {_script(char) for char in set(row) if not _alone(char)} - {""}
    _keep_wide(row, reasons, has)
    if not (len(has) <= 1 or _TOGETHER.issuperset(has)):
        _mark_mixed(row, reasons)
    _mark_padding(row, reasons)
    _mark_notation(row, reasons)
    _mark_direction(row, reasons, rtl=rtl)
    # Last: a mark must not be drawn over the notation of the letter that it belongs to.
    _mark_marks(row, reasons)
    found.update(why for why in reasons if why)
    scripts |= has - {"LATIN"}
    drawn = zip(row, reasons, strict=True)
    return "".join([number(char) if why else char for char, why in drawn])


def _padded(row: str) -> bool:
    return row.endswith(" ") or " " * (SPACES_MAX + 1) in row


@functools.lru_cache(maxsize=8192)
def _alone(char: str) -> str:
    """Say why a character is written as its number wherever it stands; empty if it is not."""
    if " " <= char <= "~":
        return ""
    category = unicodedata.category(char)
    direction = unicodedata.bidirectional(char)
    if direction in _DIRECTIONS or char in _MARKS:
        return "direction"
    if category[0] in "CZ":
        return _BY_CATEGORY.get(category, "invisible")
    name = unicodedata.name(char, "")
    if not name or any(word in name for word in _UNSEEN):
        return "invisible"
    if direction == "AN":
        # These digits change the order of what stands between them, without any letter.
        return "direction"
    # A class of 1 is drawn across its letter: it would look struck out.
    if category == "Me" or unicodedata.combining(char) == 1:
        return "mark"
    return "look-alike" if _alike(char, category, name) else ""


def _alike(char: str, category: str, name: str) -> bool:
    """Tell whether a character passes for another one."""
    if char in _PUNCTUATION or unicodedata.normalize("NFC", char) != char:
        return True
    if name.startswith(("HANGUL CHOSEONG", "HANGUL JUNGSEONG", "HANGUL JONGSEONG")):
        # They join to syllables that look like the ordinary ones.
        return True
    if name.startswith("LATIN ") and any(word in name for word in _ODD_LATIN):
        return True
    tag = unicodedata.decomposition(char).partition(">")[0].removeprefix("<")
    if category[0] in "LN" and tag in _ALIKE_TAGS:
        return char not in _KEPT
    compatible = unicodedata.normalize("NFKC", char)
    return tag in _PLAIN_TAGS and len(compatible) == 1 and compatible.isascii()


@functools.lru_cache(maxsize=8192)
def _script(char: str) -> str:
    """Name the script of a letter, mark or digit by its name; empty if it goes with any."""
    if char.isascii():
        return "LATIN" if char.isalpha() else ""
    category = unicodedata.category(char)
    name = unicodedata.name(char, "")
    if not name or (category[0] not in "LM" and category != "Nd"):
        return ""
    if name.endswith((" SIGN", " INDICATOR")) and category[0] == "L":
        return ""  # Of a unit or a number, such as micro.
    word = name.removeprefix("HALFWIDTH ").replace("-", " ").partition(" ")[0]
    return "" if word in _INHERITED else _SCRIPT_NAMES.get(word, word)


def _keep_wide(row: str, reasons: list[str], scripts: set[str]) -> None:
    if not _EAST_ASIAN.isdisjoint(scripts):
        for at, char in enumerate(row):
            if char in _WIDE_KEPT:
                reasons[at] = ""


def _mark_mixed(row: str, reasons: list[str]) -> None:
    for word in _words(row):
        found = [_script(row[at]) for at in word]
        named = [script for script in found if script]
        if len(set(named)) <= 1 or _TOGETHER.issuperset(named):
            continue
        own = "LATIN" if "LATIN" in named else named[0]
        for at, script in zip(word, found, strict=True):
            if script not in ("", own):
                reasons[at] = reasons[at] or "look-alike"


def _words(row: str) -> Iterator[range]:
    """Find words, and addresses as one word each: what is read as one name."""
    at, end = 0, len(row)
    while at < end:
        start = at
        while at < end and (_in_word(row[at]) or (at > start and row[at] in ".@-")):
            at += 1
        chunk = row[start:at]
        if any(char in chunk for char in ".@_"):
            yield range(start, at)
        else:
            # A hyphen alone joins words of two languages in some.
            for part in re.finditer("[^-]+", chunk):
                yield range(start + part.start(), start + part.end())
        at += at == start


def _in_word(char: str) -> bool:
    # What cannot be seen parts no word.
    category = unicodedata.category(char)
    return category[0] in "LMN" or category == "Cf" or char == "_"


def _mark_padding(row: str, reasons: list[str]) -> None:
    for found in _PADDING.finditer(row):
        for at in range(found.start() + SPACES_MAX, found.end()):
            reasons[at] = "space"
    if row.endswith(" "):
        reasons[-1] = "space"


def _mark_notation(row: str, reasons: list[str]) -> None:
    for found in re.finditer(r"\\u\{", row):
        reasons[found.start()] = "notation"


def _mark_direction(row: str, reasons: list[str], *, rtl: bool) -> None:
    """Let nothing follow a right-to-left letter that would be drawn before it."""
    turned = [unicodedata.bidirectional(char) in ("R", "AL") for char in row]
    if True not in turned:
        return
    if not rtl:
        reasons[:] = [why or "direction" * turn for why, turn in zip(reasons, turned, strict=True)]
        return
    for at in [at for at, turn in enumerate(turned) if turn and not reasons[at]]:
        after = at + 1
        while after < len(row) and unicodedata.bidirectional(row[after]) == "NSM":
            after += 1
        beyond = after
        while beyond < len(row) and row[beyond] == " " and not reasons[beyond]:
            beyond += 1
        if after == len(row) or (beyond < len(row) and turned[beyond] and not reasons[beyond]):
            continue
        if unicodedata.bidirectional(row[after]) != "L":
            reasons[after] = reasons[after] or "direction"


def _mark_marks(row: str, reasons: list[str]) -> None:
    """Keep marks only where they stand in order over a letter that is shown."""
    at = 0
    if not any(unicodedata.category(char)[0] == "M" for char in set(row)):
        return
    while at < len(row):
        base = at
        at += 1
        while at < len(row) and unicodedata.category(row[at])[0] == "M":
            at += 1
        cluster = row[base:at]
        whole = unicodedata.category(row[base])[0] in "LN" and not reasons[base]
        whole = whole and unicodedata.normalize("NFC", cluster) == cluster
        stacked = 0
        for mark in range(base + (unicodedata.category(row[base])[0] != "M"), at):
            stacked += unicodedata.category(row[mark]) == "Mn"
            whole = whole and not reasons[mark] and stacked <= MARKS_MAX
            if not whole:
                reasons[mark] = reasons[mark] or "mark"
