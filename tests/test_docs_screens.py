"""The tour of the inbox has its pictures, all of them small, and no others."""

import re
from pathlib import Path

from docs.screens import FOLDER, PICTURES
from tests.browser.screens import SCREENS

MOST, BYTES_MAX = 12, 150 * 1024
NAMED = re.compile(r"!\[([^\]]+)\]\(([^)]+\.png)\)")


def shown() -> dict[str, str]:
    """What the pages name: the words for whoever does not see a picture, by its file."""
    text = "".join(page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md"))
    return {name: words for words, name in NAMED.findall(text)}


def test_every_picture_that_is_named_is_there_and_every_one_there_is_named() -> None:
    there = {path.name for path in FOLDER.glob("*.png")}

    assert there == PICTURES.keys() == shown().keys()
    assert len(there) <= MOST


def test_every_picture_is_of_a_state_that_tests_look_at() -> None:
    assert {state for state, _, _ in PICTURES.values()} <= SCREENS.keys()


def test_every_picture_is_small_and_said_in_words() -> None:
    sizes = {path.name: path.stat().st_size for path in Path(FOLDER).glob("*.png")}

    assert {name: size for name, size in sizes.items() if size > BYTES_MAX} == {}
    assert all(len(words.split()) > 3 for words in shown().values())
