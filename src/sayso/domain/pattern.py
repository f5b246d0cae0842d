r"""Patterns: regular expressions that take no longer than the text is long.

A pattern may come from a model, and the text from anybody; the usual engine backtracks, so that a
few characters of `(a+)+$` can stop a process for ever. Telling bad patterns from good ones by their
looks refuses common ones such as `[a-z]+(-[a-z]+)*`. This one follows all paths at once instead.

Rule 1: the syntax is the part of ECMAScript's that needs no backtracking, which is what JSON Schema
and browsers use: `\d` and `\w` are ASCII, and `$` is the end of the text and nothing else.
Rule 2: what it does not know it refuses; it never guesses.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from sayso.errors import BadQuestion

PATTERN_MAX = 300
PARTS_MAX = 500
"""How many parts a pattern has with its repetitions written out."""
DEPTH_MAX = 20
_REPEAT_MAX = 1000
_CODE_END = 0x110000

_Set = tuple[int, ...]
"""Where membership changes: the first code point inside, the first outside, and so on."""


def _set(ranges: Iterable[tuple[int, int]]) -> _Set:
    """Make a set of ranges that include both of their ends."""
    found: list[int] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1]:
            found[-1] = max(found[-1], high + 1)
        else:
            found += [low, high + 1]
    return tuple(found)


def _other(one: _Set) -> _Set:
    """Make the set of everything else."""
    edges = one[1:] if one[0] == 0 else (0, *one)
    return edges[:-1] if edges[-1] == _CODE_END else (*edges, _CODE_END)


def _ranges(one: _Set) -> list[tuple[int, int]]:
    return [(low, high - 1) for low, high in zip(one[::2], one[1::2], strict=True)]


_DIGIT = _set([(0x30, 0x39)])
_WORD = _set([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACE = _set(
    [(ord(char), ord(char)) for char in " \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"]
    + [(0x09, 0x0D), (0x2000, 0x200A)]
)
_ANY = _other(_set((ord(char), ord(char)) for char in "\n\r\u2028\u2029"))
_CLASSES = {
    "d": _DIGIT,
    "D": _other(_DIGIT),
    "w": _WORD,
    "W": _other(_WORD),
    "s": _SPACE,
    "S": _other(_SPACE),
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_PLAIN = frozenset("^$\\.*+?()[]{}|/-")
"""What a backslash makes a plain character."""


class _One(msgspec.Struct, frozen=True):
    chars: _Set


class _Edge(msgspec.Struct, frozen=True):
    char: str


class _Row(msgspec.Struct, frozen=True):
    parts: tuple[_Part, ...]


class _Either(msgspec.Struct, frozen=True):
    parts: tuple[_Part, ...]


class _Repeat(msgspec.Struct, frozen=True):
    part: _Part
    least: int
    most: int | None


_Part = _One | _Edge | _Row | _Either | _Repeat


class _Reader:
    """Reads a pattern, or refuses it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def read(self) -> _Part:
        part = self._either()
        if self._at < len(self._text):
            raise self._bad("there is a ) without its (")
        return part

    def _either(self) -> _Part:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._bad(f"its groups are nested deeper than {DEPTH_MAX}")
        rows = [self._row()]
        while self._take("|"):
            rows.append(self._row())
        self._depth -= 1
        return rows[0] if len(rows) == 1 else _Either(tuple(rows))

    def _row(self) -> _Part:
        parts: list[_Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Row(tuple(parts))

    def _repeated(self, part: _Part) -> _Part:
        found = re.compile(r"([*+?])|\{([0-9]{1,4})(,([0-9]{1,4})?)?\}").match(self._text, self._at)
        if found is None:
            return part
        if isinstance(part, _Edge):
            raise self._bad("^ and $ cannot be repeated")
        self._at = found.end()
        self._take("?")  # As few as possible: that is another match, and never another answer.
        if found[1]:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[1]]
        else:
            least = int(found[2])
            most = least if found[3] is None else int(found[4]) if found[4] else None
        if max(least, most or 0) > _REPEAT_MAX:
            raise self._bad(f"it repeats something more than {_REPEAT_MAX} times")
        if most is not None and least > most:
            raise self._bad("a repetition has its larger number first")
        return _Repeat(part, least, most)

    def _atom(self) -> _Part:
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return _One(self._class())
            case ".":
                return _One(_ANY)
            case "^" | "$":
                return _Edge(char)
            case "\\":
                return _One(self._escape())
            case "*" | "+" | "?":
                raise self._bad(f"there is nothing that {char} could repeat")
            case "{" | "}" | "]":
                raise self._bad(f"a plain {char} needs a backslash before it")
            case _:
                return _One(_set([(ord(char), ord(char))]))

    def _group(self) -> _Part:
        if self._take("?") and not self._take(":"):
            raise self._bad("groups that begin with (? are not supported, other than (?:...)")
        part = self._either()
        if not self._take(")"):
            raise self._bad("there is a ( without its )")
        return part

    def _class(self) -> _Set:
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            low = self._member()
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 :][:1] != "]":
                self._at += 1
                high = self._member()
                if _size(low) != 1 or _size(high) != 1:
                    raise self._bad("a range in [...] goes from one character to another")
                if low[0] > high[0]:
                    raise self._bad("a range in [...] has its larger end first")
                ranges.append((low[0], high[0]))
            else:
                ranges += _ranges(low)
        if not ranges:
            raise self._bad("[] has no characters")
        found = _set(ranges)
        if negated and found == (0, _CODE_END):
            raise self._bad("a [^...] has no characters")
        return _other(found) if negated else found

    def _member(self) -> _Set:
        char = self._next("there is a [ without its ]")
        if char == "[":
            raise self._bad("a plain [ needs a backslash before it")
        return self._escape() if char == "\\" else _set([(ord(char), ord(char))])

    def _escape(self) -> _Set:
        char = self._next("it ends in a backslash")
        if char in _CLASSES:
            return _CLASSES[char]
        if char in "xu":
            length = 2 if char == "x" else 4
            digits = self._text[self._at : self._at + length]
            if not re.fullmatch(rf"[0-9A-Fa-f]{{{length}}}", digits):
                raise self._bad(f"\\{char} needs {length} hexadecimal digits")
            self._at += length
            char = chr(int(digits, 16))
        elif char in _CONTROLS:
            char = _CONTROLS[char]
        elif char not in _PLAIN:
            raise self._bad(f"\\{char} is not supported")
        return _set([(ord(char), ord(char))])

    def _next(self, otherwise: str = "") -> str:
        if self._at >= len(self._text):
            raise self._bad(otherwise)
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, char: str) -> bool:
        taken = self._text[self._at : self._at + 1] == char
        self._at += taken
        return taken

    def _bad(self, why: str) -> BadQuestion:
        return BadQuestion(f"the pattern {self._text!r} cannot be used: {why}")


def _size(one: _Set) -> int:
    return sum(high - low + 1 for low, high in _ranges(one))


_DONE = 0


class Pattern:
    """A pattern that is ready to be used."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_MAX:
            raise BadQuestion(f"a pattern has {len(text)} characters, more than {PATTERN_MAX}")
        self._text = text
        self._parts = 0
        # Each state is a set of characters and the state after it, an edge and the state after it,
        # or the states that are reached without a character.
        self._states: list[tuple[_Set | str | None, tuple[int, ...]]] = [(None, ())]
        self._start = self._build(_Reader(text).read(), _DONE)

    @property
    def size(self) -> int:
        """Say how many states it has: the work for each character of a text, at most."""
        return len(self._states)

    def fits(self, text: str) -> bool:
        """Tell whether it describes the whole text."""
        return self._run(text, anywhere=False)

    def occurs(self, text: str) -> bool:
        """Tell whether it describes some part of the text."""
        return self._run(text, anywhere=True)

    def _build(self, part: _Part, then: int) -> int:
        """Add the states of a part, back to front, and give its first one."""
        # Parts are counted, not states: a million empty groups have no states at all.
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise BadQuestion(f"the pattern {self._text!r} has more than {PARTS_MAX} parts")
        match part:
            case _One():
                return self._add(part.chars, then)
            case _Edge():
                return self._add(part.char, then)
            case _Row():
                for one in reversed(part.parts):
                    then = self._build(one, then)
                return then
            case _Either():
                return self._add(None, *[self._build(one, then) for one in part.parts])
            case _:
                return self._build_repeat(part, then)

    def _build_repeat(self, part: _Repeat, then: int) -> int:
        first = then
        if part.most is None:
            first = self._add(None)
            self._states[first] = (None, (self._build(part.part, first), then))
        else:
            for _ in range(part.most - part.least):
                first = self._add(None, self._build(part.part, first), then)
        for _ in range(part.least):
            first = self._build(part.part, first)
        return first

    def _add(self, what: _Set | str | None, *then: int) -> int:
        self._states.append((what, then))
        return len(self._states) - 1

    def _run(self, text: str, *, anywhere: bool) -> bool:
        known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        begin = frozenset([self._start])
        here = self._reach(begin, first=True, last=not text)
        for at, char in enumerate(text):
            if anywhere and _DONE in here:
                return True
            last = at + 1 == len(text)
            # Texts repeat themselves, so most steps have been taken before.
            step = None if last else known.get((here, char))
            if step is None:
                moved = self._move(here, ord(char))
                step = self._reach(moved | begin if anywhere else moved, first=False, last=last)
                if not last:
                    known[here, char] = step
            here = step
            if not here and not anywhere:
                return False
        return _DONE in here

    def _move(self, states: frozenset[int], code: int) -> frozenset[int]:
        found: set[int] = set()
        for state in states:
            what, then = self._states[state]
            if isinstance(what, tuple) and bisect_right(what, code) % 2:
                found.update(then)
        return frozenset(found)

    def _reach(self, states: frozenset[int], *, first: bool, last: bool) -> frozenset[int]:
        """Give what can be reached without a character; only sets and the end are kept."""
        stack = list(states)
        seen = set(states)
        kept: set[int] = set()
        while stack:
            state = stack.pop()
            what, then = self._states[state]
            if isinstance(what, tuple) or state == _DONE:
                kept.add(state)
            elif what is None or (first if what == "^" else last):
                new = set(then) - seen
                seen |= new
                stack.extend(new)
        return frozenset(kept)


@lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    """Read a pattern, or raise `BadQuestion` saying what is not supported."""
    return Pattern(text)
