from hypothesis import given
from hypothesis import strategies as st

from sayso.cli.plain import drawn, plain
from sayso.domain.glyph import brief, read_back
from sayso.domain.rendering import render

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANYTHING)
def test_whatever_comes_in_only_printable_characters_come_out(text):
    assert plain(text).isprintable()


@given(ANYTHING)
def test_no_two_texts_are_printed_alike(text):
    assert read_back(plain(text)) == text


def test_a_special_character_is_written_as_its_number():
    assert plain("a\x1b[31m\n\u202eb\ud800") == r"a\u{1b}[31m\u{a}\u{202e}b\u{d800}"


def test_long_text_says_how_much_is_left_out():
    assert brief("x" * 200, 10) == "x" * 10 + " [190 more characters]"
    assert brief("x" * 10, 10) == "x" * 10


def test_arguments_are_drawn_as_wide_as_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = render(b'{"a":"' + b"x" * 100 + b'"}')

    assert list(drawn(shown, 3)) == [
        "   Arguments: 1 (108 bytes)",
        "     a: text, 1 line",
        "       | " + "x" * 71,
        "       : " + "x" * 29,
    ]
    assert list(drawn(shown, 3, frame=False)) == list(drawn(shown, 3))[1:]
