import re
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sayso.domain.pattern import DEPTH_MAX, PARTS_MAX, PATTERN_MAX, Pattern, read_pattern
from sayso.errors import BadQuestion

atoms = st.sampled_from(
    [
        r"a",
        r"b",
        r"c",
        r".",
        r"[ab]",
        r"[^a]",
        r"[a-c]",
        r"\d",
        r"\D",
        r"\w",
        r"\s",
        r"(?:)",
        r"^",
        r"$",
        r"[\d-]",
        r"[^\sb]",
        r"\.",
        r"\x61",
        r"\u0062",
        r"\t",
    ]
)
repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}", "*?", "+?", "{1,2}?"])


def grow(inner: Any) -> Any:
    group = inner.map(lambda text: f"({text})")
    return (
        st.lists(inner, min_size=2, max_size=3).map("".join)
        | st.lists(group, min_size=2, max_size=3).map("|".join)
        | st.tuples(group, repeats).map("".join)
    )


patterns = st.recursive(atoms, grow, max_leaves=6)
texts = st.text(alphabet="abc1 .-\t", max_size=8)


def as_python(pattern: str) -> re.Pattern[str]:
    # Python's `$` also matches before a last newline, and its `\d` takes every script's digits.
    # A dollar in a class, or an escaped one, is only a dollar.
    parts = re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", pattern, re.DOTALL)
    with warnings.catch_warnings():
        # It warns of what a class may mean in some Python to come.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile("".join(r"\Z" if part == "$" else part for part in parts), re.ASCII)


@settings(max_examples=300)
@given(patterns, texts)
def test_a_pattern_says_what_the_usual_engine_says(pattern: str, text: str):
    assert Pattern(pattern).fits(text) == bool(as_python(pattern).fullmatch(text))
    assert Pattern(pattern).occurs(text) == bool(as_python(pattern).search(text))


def test_a_pattern_occurs_before_the_end_and_a_tab_is_written_as_one():
    assert Pattern(r"a\tb").occurs("a\tb and more")
    assert not Pattern(r"a\tb").occurs("atb")


@given(st.text(alphabet="ab01,-^$\\.*+?()[]{}|:dxu", max_size=12), texts)
def test_any_text_is_a_pattern_or_is_refused(pattern: str, text: str):
    try:
        found = Pattern(pattern)
    except BadQuestion:
        return

    assert found.fits(text) == bool(as_python(pattern).fullmatch(text))


@pytest.mark.parametrize(
    "pattern, text",
    [
        (r"[a-z0-9]+(?:-[a-z0-9]+)*", "a-common-slug"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "ann@example.com"),
        (r"^[A-Z]{2}\d{2}( ?\d{4}){4}$", "DE12 3456 7890 1234 5678"),
        (r"\/\-\\\{\}", "/-\\{}"),
        (r"[-a]+[a-]", "-a-"),
        (r"[\]\[^]+", "[]^"),
        ("", ""),
        ("é|\U0001f600", "\U0001f600"),
        (r"[\s\S]\S", "\nx"),
        (r"[\u0000-a]", "A"),
        ("[^\U0010ffff]", "a"),
    ],
)
def test_common_patterns_fit(pattern: str, text: str):
    assert read_pattern(pattern).fits(text)


def test_an_end_is_the_end_and_digits_are_ascii():
    assert not Pattern("^a$").occurs("a\n")
    assert not Pattern(r"\d").occurs("٣")
    assert not Pattern(".").occurs("\u2028")
    assert Pattern(r"\s").fits("\u00a0")


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("a" * (PATTERN_MAX + 1), "more than 300"),
        ("a)", "without its ("),
        ("(a", "without its )"),
        ("(" * (DEPTH_MAX + 1) + ")" * (DEPTH_MAX + 1), "nested deeper"),
        ("*a", "nothing that *"),
        ("a**", "nothing that *"),
        ("a*+", "nothing that +"),
        ("^*", "cannot be repeated"),
        ("a{2,1}", "larger number first"),
        ("a{1001}", "more than 1000 times"),
        ("a{1001,}", "more than 1000 times"),
        ("a{b}", "needs a backslash"),
        ("a}", "needs a backslash"),
        ("a]", "needs a backslash"),
        ("(?=a)", "not supported"),
        ("(?<!a)", "not supported"),
        ("(?P<n>a)", "not supported"),
        (r"(a)\1", "not supported"),
        (r"\b", "not supported"),
        (r"\p{L}", "not supported"),
        ("\\", "ends in a backslash"),
        (r"\x6", "2 hexadecimal"),
        (r"\u00g0", "4 hexadecimal"),
        ("[]", "no characters"),
        (r"[^\s\S]", "no characters"),
        ("[a", "without its ]"),
        ("[a-", "without its ]"),
        ("[[a]", "needs a backslash"),
        (r"[\d-z]", "one character to another"),
        (r"[a-\d]", "one character to another"),
        ("[z-a]", "larger end first"),
        (f"a{{{PARTS_MAX}}}", "parts"),
        ("((((){1000}){1000}){1000}){1000}", "parts"),
    ],
)
def test_what_is_not_supported_is_refused(pattern: str, why: str):
    with pytest.raises(BadQuestion, match=re.escape(why)):
        read_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+x", "(a|a)*x", "(a|aa)+x", "a*a*a*a*a*a*a*x", "(.*)*(.*)*x", "(a?){99}a{99}x"]
)
def test_no_pattern_takes_for_ever(pattern: str):
    # With an engine that backtracks, the first of these alone would outlast the test's time limit.
    assert not Pattern(pattern).fits("a" * 2000)
    assert not Pattern(pattern).occurs("a" * 2000)
    assert Pattern(pattern).size <= 2 * PARTS_MAX
