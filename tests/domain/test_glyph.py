"""What is shown of a text must be read back to it, show nothing that cannot be seen, and keep its
order on the screen: the last is tried with the Unicode rules for lines that run from left to right.
"""

import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.glyph import brief, inline, pieces, read_back, show
from tests.domain.nasty import ACCEPTED

ODD = (
    "\\u{}0a \u0301\u0338\u20dd\u034f\u0430\u03b1\u05d0\u05b8\u0627\u0665\u06f5\u200b\u202e\u2066"
    "\u3164\ufe0f\u1100\u1161\u212a\uff21\U0001d400\U000e0041\u0e33\u4e2d\uff1a\ue000\u0378\n\t\x1b"
)
TEXT = st.text(st.one_of(st.characters(codec=None, exclude_categories=()), st.sampled_from(ODD)))
SEEN = {"L", "M", "N", "P", "S"}
UNSEEN = ("FILLER", "SELECTOR", "JOINER", "BLANK", "INHERENT", "NULL NOTEHEAD")


def assert_seen(shown: str) -> None:
    for char in set(shown) - {" "}:
        name = unicodedata.name(char, "")
        assert unicodedata.category(char)[0] in SEEN, name
        assert name
        assert not any(word in name for word in UNSEEN if name != "BLANK SYMBOL"), name
        assert unicodedata.bidirectional(char) not in ("AN", "B", "S", "LRE", "RLO", "PDF", "FSI")


@pytest.mark.parametrize("plane", range(17))
def test_every_character_there_is_can_be_seen_and_read_back(plane):
    for start in range(plane * 0x10000, (plane + 1) * 0x10000, 0x1000):
        text = "".join(map(chr, range(start, start + 0x1000)))

        shown = inline(text)

        assert read_back(shown) == text
        assert_seen(shown)


@given(TEXT)
def test_whatever_is_shown_can_be_seen_and_read_back(text):
    shown = show(text)

    assert read_back("\n".join(shown.rows)) == read_back(inline(text)) == text
    for row in shown.rows:
        assert_seen(row)
        assert unicodedata.is_normalized("NFC", row)
        assert not row.endswith(" ")
        assert "".join(piece for piece, _ in pieces(row)) == row


@given(TEXT)
def test_without_right_to_left_nothing_runs_to_the_left(text):
    assert not {unicodedata.bidirectional(char) for char in inline(text, rtl=False)} & {"R", "AL"}
    assert read_back(inline(text, rtl=False)) == text


@pytest.mark.parametrize("shown", [r"\u{202e}", r"\\u{202e}", r"a\u{5c}u{5c}"])
def test_nobody_can_write_the_notation_by_hand(shown):
    assert inline(shown) != shown
    assert inline(shown).count(r"\u{") == inline(shown).count(r"\u{5c}")


@pytest.mark.parametrize(
    "text",
    [
        "Pay Jiro 200 dollars.",
        r"C:\temp\new",
        r'grep "a\.b" \\host',
        "Việt Nam, Yorùbá ẹ́",
        "Привет, мир! IP-адрес",
        "नमस्ते दुनिया",
        "ราคาน้ำ",
        "Tシャツを買う（三枚）",
        "金额：100",
        "שלום לך",
        "don’t – “x” … 5 µm, ½",
        "    indented(code)",
        "한국어 text",
        "ｶﾌﾞｼｷ",
        "a_b-c",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert show(text).rows == (text,)
    assert not show(text).escaped


@pytest.mark.parametrize(
    "text, shown, why",
    [
        ("p\u0430ypal.com", r"p\u{430}ypal.com", "look-alike"),
        ("\u0440\u0430\u0443.com", r"\u{440}\u{430}\u{443}.com", "look-alike"),
        ("\u0440\u0430\u0443-x_y", r"\u{440}\u{430}\u{443}-x_y", "look-alike"),
        ("\u03b1\u0430", r"α\u{430}", "look-alike"),
        ("p\u200b\u0430y", r"p\u{200b}\u{430}y", "invisible"),
        ("p\u09eay", r"p\u{9ea}y", "look-alike"),
        ("ha\u02bbi", r"ha\u{2bb}i", "look-alike"),
        ("\u212a", r"\u{212a}", "look-alike"),
        ("\uff21", r"\u{ff21}", "look-alike"),
        ("x\uff1ay", r"x\u{ff1a}y", "look-alike"),
        ("\U0001d400", r"\u{1d400}", "look-alike"),
        ("\ufb01", r"\u{fb01}", "look-alike"),
        ("a\u2024b", r"a\u{2024}b", "look-alike"),
        ("\u0261o", r"\u{261}o", "look-alike"),
        ("\u1100\u1161", r"\u{1100}\u{1161}", "look-alike"),
        ("https:\u2215\u2215x", r"https:\u{2215}\u{2215}x", "look-alike"),
        ("\ufe8e", r"\u{fe8e}", "look-alike"),
        ("e\u0301", r"e\u{301}", "mark"),
        ("\u0301", r"\u{301}", "mark"),
        ("-\u0323", r"-\u{323}", "mark"),
        ("a\u0336", r"a\u{336}", "mark"),
        ("1\u20e3", r"1\u{20e3}", "mark"),
        ("x" + "\u0323" * 4, "x" + "\u0323" * 3 + r"\u{323}", "mark"),
        ("x\u034f\u0323", r"x\u{34f}\u{323}", "mark"),
        ("\u2764\ufe0f", "\u2764" + r"\u{fe0f}", "invisible"),
        ("\u3164", r"\u{3164}", "invisible"),
        ("a\U0001bc9d", r"a\u{1bc9d}", "invisible"),
        ("\U000e0041", r"\u{e0041}", "invisible"),
        ("\ue000\u0378\ud800", r"\u{e000}\u{378}\u{d800}", "invisible"),
        ("a\u2028b", r"a\u{2028}b", "invisible"),
        ("a\u00a0b", r"a\u{a0}b", "space"),
        ("a ", r"a\u{20}", "space"),
        ("a" + " " * 17 + "b", "a" + " " * 16 + r"\u{20}b", "space"),
        ("\t\x1b[2J\r", r"\u{9}\u{1b}[2J\u{d}", "control"),
        ("\u202ea\u200f", r"\u{202e}a\u{200f}", "direction"),
        ("\u0661-\u0662", r"\u{661}-\u{662}", "direction"),
        ("\u05d0 1", "\u05d0" + r"\u{20}1", "direction"),
        ("\u05d0\u05b8-", "\u05d0\u05b8" + r"\u{2d}", "direction"),
        (r"\u{41}", r"\u{5c}u{41}", "notation"),
    ],
)
def test_what_could_deceive_is_written_as_its_number(text, shown, why):
    assert inline(text) == shown
    assert why in dict(show(text).escaped)


def test_a_letter_may_follow_right_to_left_letters_of_its_own_accord():
    assert inline("\u05d0\u4e2d") == "\u05d0" + r"\u{4e2d}"  # Mixed inside of a word.
    assert inline("\u05d0\U0001f1e6") == "\u05d0\U0001f1e6"  # It has a direction of its own.


def test_a_line_feed_is_a_new_line_or_a_number():
    assert show("a\n\nb").rows == ("a", "", "b")
    assert inline("a\nb") == r"a\u{a}b"


def test_the_notes_say_what_was_found():
    assert show("p\u0430ypal \x1b \u4e2d").notes == (
        "written as numbers: 1 control, 1 look-alike",
        "has letters or digits that are CJK and Cyrillic",
    )
    assert show("plain").notes == ()


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_what_programs_have_stumbled_over_is_read_back(data):
    text = data.decode()

    assert read_back(inline(text)) == text


def test_a_piece_knows_how_wide_it_is():
    shown = "a\u4e2d" + "\u0e19\u0e49" + r"\u{1b}"

    assert [width for _, width in pieces(shown)] == [1, 2, 1, 0, 6]


def on_screen(text: str) -> str:
    """Order a line that runs from left to right as a display does (UAX #9, without brackets)."""
    kinds = [unicodedata.bidirectional(char) for char in text]
    strong = "L"
    for at, kind in enumerate(kinds):
        if kind == "NSM":
            kinds[at] = kinds[at - 1] if at else "L"
        elif kind in ("L", "R", "AL"):
            strong = kind
        elif kind == "EN" and strong == "AL":
            kinds[at] = "AN"
    kinds = ["R" if kind == "AL" else kind for kind in kinds]
    for at in range(1, len(kinds) - 1):
        around = (kinds[at - 1], kinds[at + 1])
        if (kinds[at] in ("ES", "CS") and around == ("EN", "EN")) or (
            kinds[at] == "CS" and around == ("AN", "AN")
        ):
            kinds[at] = around[0]
    strong = "L"
    for at, kind in enumerate(kinds):
        if kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            kinds[at] = "L"
        elif kind not in ("EN", "AN"):
            kinds[at] = "ON"
    sides = ["L", *["R" if kind in ("EN", "AN") else kind for kind in kinds], "L"]
    levels = []
    for at, kind in enumerate(kinds, start=1):
        if kind == "ON":
            before = next(side for side in reversed(sides[:at]) if side != "ON")
            after = next(side for side in sides[at + 1 :] if side != "ON")
            levels.append(1 if before == after == "R" else 0)
        else:
            levels.append({"L": 0, "R": 1}.get(kind, 2))
    order = list(range(len(text)))
    for level in (2, 1):
        for high, run in itertools.groupby(range(len(text)), key=lambda at: levels[at] >= level):
            places = list(run)
            if high:
                order[places[0] : places[-1] + 1] = order[places[0] : places[-1] + 1][::-1]
    return "".join(text[at] for at in order)


def test_no_two_texts_look_alike_on_a_screen_that_turns_right_to_left_text():
    alphabet = "\u05d0\u0628\u0661\u06f21 -.a"
    texts = ["".join(chars) for n in range(5) for chars in itertools.product(alphabet, repeat=n)]

    seen = {on_screen(f'"{inline(text)}"') for text in texts}

    assert len(seen) == len(texts)
    # The check itself can fail: as they are, these do look alike.
    assert on_screen("\u05d0 1") == on_screen("1 \u05d0")


def test_what_is_long_says_how_much_is_left_out():
    assert brief("a\nb") == "a\\u{a}b"
    assert brief("abcdef", 4) == "abcd [2 more characters]"
