"""The words that holds are found by.

Rule: both sides are folded alike, what is kept and what is looked for, so that no store needs to
know of letters. What a call would be executed with is never among them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.hold import hold_id, request_id
from sayso.errors import BadValue, SaysoError
from sayso.store.base import HoldRow

SEARCH_MAX = 200
"""No search has more characters."""
SEARCH_WORDS_MAX = 10


def fold(text: str) -> str:
    """Make one of all the ways to write the same: large and small, composed or not."""
    if text.isascii():
        return text.lower()
    # Twice: folding can take apart what the first composing has put together.
    composed = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", composed)


def join_words(title: str, *others: str) -> str:
    """Make what a row keeps: a line each, the title's first."""
    return "\n".join([" ".join(fold(text).split()) for text in (title, *others)])


def words_of(asked: bytes, first: bytes, tool: str, agent: str) -> str:
    """Make what a row keeps of the entry that asked last, and the first of its run. Nothing of what
    cannot be read: that is for an audit to find, and keeps nobody from opening the store.
    """
    try:
        opened, started = codec.decode_event(asked), codec.decode_event(first)
    except (SaysoError, ValueError, TypeError):
        return ""
    if not isinstance(opened, e.HoldOpened | e.HoldRevised) or not isinstance(
        started, e.RunStarted
    ):
        return ""
    return join_words(opened.ruling.title, tool, agent, str(started.by))


def without_title(words: str) -> str:
    """Leave out the first line: what the entry said that has been erased."""
    _, end, others = words.partition("\n")
    return end + others


def read_search(text: str | None) -> tuple[str, ...]:
    """Read what somebody typed to search: words with blanks between. `BadValue` if it cannot be
    looked for; nothing at all is no search.
    """
    if text is None:
        return ()
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"a search is text, not {type(text).__name__}")
    if len(text) > SEARCH_MAX:
        raise BadValue(f"a search has at most {SEARCH_MAX} characters, not {len(text):,}")
    words = tuple(dict.fromkeys(fold(text).split()))
    check_search(words)
    return words


def check_search(words: Sequence[str]) -> None:
    """Refuse words that no list could be searched by."""
    if len(words) > SEARCH_WORDS_MAX:
        raise BadValue(f"a search has at most {SEARCH_WORDS_MAX} words, not {len(words)}")
    if sum(map(len, words)) > SEARCH_MAX:
        raise BadValue(f"a search has at most {SEARCH_MAX} characters")
    for word in words:
        if fold(word).split() != [word]:
            raise BadValue(f"{word!r} is not a word to search by: it has blanks, or is not folded")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadValue(f"{word!r} is not text: half a character is missing") from None


def has_words(search: Sequence[str], row: HoldRow) -> bool:
    """Tell whether every word occurs in what a hold is found by, or in one of its ids."""
    if not search:
        return True
    ids = hold_id(row.run_id, row.n), row.run_id, request_id(row.run_id, row.suspension)
    found_by = "\n".join((row.words or "", *map(fold, ids)))
    return all(word in found_by for word in search)


def is_of_ids(word: str) -> bool:
    """Tell whether a word can be in the id of a hold or a request without being in the run's: it
    has what stands before or after that, or is a part of it.
    """
    return "_" in word or "." in word or word.isdigit() or word in "hold" or word in "req"
