import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.filter import FILTER_MAX, KEYS, KINDS, Filter, read_filter
from sayso.domain.ruling import RISKS
from sayso.domain.value import Value
from sayso.errors import BadFilter

HOUR = 3_600_000
NAME = st.from_regex(r"[a-z.]{1,10}", fullmatch=True)


class Request(Value, frozen=True, kw_only=True):
    risk: str = "high"
    agent: str = "teller"
    tool: str = "shop.refund"
    kind: str = "approval"
    run_id: str = "run_7f3a"


def fits(text: str, waited_ms: int = HOUR, **fields: str) -> bool:
    return read_filter(text).fits(Request(**fields), waited_ms=waited_ms)


def test_nothing_shows_everything():
    assert read_filter("  ") == Filter()
    assert read_filter("").search is None
    assert fits("", 0)


def test_words_are_for_the_search_and_keys_are_not():
    found = read_filter('refund risk:high  "Nordwind GmbH" jiro')

    assert found.search == "refund Nordwind GmbH jiro"
    assert found.risks == ("high",)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("risk:high", True),
        ("risk:low", False),
        ("RISK:High", True),
        ("risk:low risk:high", True),
        ("risk:<=medium", False),
        ("risk:<=high", True),
        ("risk:<high", False),
        ("risk:<critical", True),
        ("risk:<low", False),
        ("risk:>=high", True),
        ("risk:>medium", True),
        ("risk:>high", False),
        ("risk:>critical", False),
        ("agent:teller", True),
        ("agent:Teller", True),
        ("agent:tell", False),
        ("agent:tell*", True),
        ("tool:shop.*", True),
        ("tool:shop.refund", True),
        ("tool:pay", False),
        ("tool:pay tool:shop.*", True),
        ("kind:approval", True),
        ("kind:question", False),
        ("kind:sign-in kind:approval", True),
        ("run:7f", True),
        ("run:run_7f3a", True),
        ("run:3a", False),
        ("older:1h", True),
        ("older:61m", False),
        ("older:1m older:2h", False),
        ("risk:high agent:other", False),
    ],
)
def test_a_key_compares_what_it_names(text, shown):
    assert fits(text) is shown


def test_what_is_in_quotes_may_have_blanks_and_colons():
    assert read_filter('"10:30"').words == ("10:30",)
    assert fits('agent:"my bot"', agent="my bot")


@pytest.mark.parametrize(
    "text, near",
    [
        ("rsik:high", "'risk'"),
        ("toool:x", "'tool'"),
        ("kind:aproval", "'approval'"),
        ("risk:hihg", "'high'"),
        ("risk:>=hihg", "'high'"),
    ],
)
def test_what_is_not_known_is_refused_and_names_what_is_near(text, near):
    with pytest.raises(BadFilter, match=f"did you mean {near}"):
        read_filter(text)


@pytest.mark.parametrize(
    "text",
    [
        '"open',
        'a"b',
        '"a"b',
        "older:soon",
        "agent:*",
        'tool:""',
        "risk:",
        "run:",
        "run:run_",
        "x" * (FILTER_MAX + 1),
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(BadFilter):
        read_filter(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_filter(text)
    except BadFilter:
        return

    assert all(word and not word.isspace() for word in found.words)
    assert set(found.risks) <= {*RISKS, ""}
    assert set(found.kinds) <= set(KINDS)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["agent", "tool"]), st.from_regex(r"[a-z.]{1,10}", fullmatch=True)
        )
    )
)
def test_a_filter_made_of_what_a_request_has_shows_it(pairs):
    text = " ".join(f"{key}:{value}" for key, value in pairs)
    last = dict(pairs)

    assert fits(text, **last)
    assert set(KEYS) == {"agent", "kind", "older", "risk", "run", "tool"}
