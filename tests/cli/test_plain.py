from hypothesis import given
from hypothesis import strategies as st

from sayso.cli.plain import brief, plain

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANYTHING)
def test_whatever_comes_in_only_printable_characters_come_out(text):
    assert plain(text).isprintable()


@given(ANYTHING)
def test_printable_text_stays_as_it_is(text):
    kept = "".join(char for char in text if char.isprintable())

    assert plain(kept) == kept


def test_a_special_character_is_written_as_its_number():
    assert plain("a\x1b[31m\n\u202eb\ud800") == r"a\u{1b}[31m\u{a}\u{202e}b\u{d800}"


def test_long_text_says_how_much_is_left_out():
    assert brief("x" * 200, 10) == "x" * 10 + " [190 more characters]"
    assert brief("x" * 10, 10) == "x" * 10
