import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.question import (
    KINDS,
    LENGTH_MAX,
    LENGTH_PATTERN_MAX,
    OPTION_MAX,
    OPTIONS_MAX,
    QUESTION_BYTES_MAX,
    SCHEMA_BYTES_MAX,
    TEXT_MAX,
    Option,
    Problem,
    Question,
    check_answer,
    is_day,
    is_moment,
    make_question,
)
from sayso.errors import BadAnswer, BadQuestion, BadValue, Refused

from .nasty import REFUSED
from .test_digest import values

COLOURS = ["red", {"value": "blue", "label": "Blue"}, Option(value="green")]


def no_check(_text: str) -> None:
    """Stands where the engine's check of schemas stands."""


def named(question: Question, value: Any) -> list[Problem]:
    """Stands where the engine's check of forms stands: a form with a name."""
    return [] if "name" in value else [("/name", "this is missing")]


def ask(kind: str, **fields: Any) -> Question:
    if kind in ("choice", "choices"):
        fields.setdefault("options", COLOURS)
    if kind == "form":
        fields.setdefault("schema", {"type": "object"})
    return make_question("Which?", kind=kind, check_schema=no_check, form=named, **fields)


def fits(question: Question, value: Any) -> bool:
    try:
        check_answer(question, encode_value(value), form=named)
    except BadAnswer as error:
        assert error.problems
        return False
    return True


questions = st.sampled_from(
    [
        *map(ask, KINDS),
        ask("text", length_min=1, length_max=5, pattern="[a-c]+"),
        ask("choices", picks_min=1, picks_max=2),
        ask("number", number_min=-1, number_max=10, whole=True),
    ]
)
answers = st.one_of(
    values,
    st.sampled_from(["red", "blue", "abc", "2026-11-16", {"name": "Ann"}]),
    st.lists(st.sampled_from(["red", "blue", "green", "pink"]), max_size=4),
)


@given(questions, answers)
def test_an_answer_is_accepted_for_good_or_is_a_bad_answer(question: Question, value: Any):
    data = encode_value(value)
    try:
        kept = check_answer(question, data, form=named)
    except BadAnswer as error:
        assert error.problems
        return

    assert kept == data
    assert check_answer(question, kept, form=named) == kept


@given(questions, st.binary(max_size=20))
def test_any_bytes_are_an_answer_or_a_bad_answer(question: Question, data: bytes):
    try:
        kept = check_answer(question, data, form=named)
    except BadAnswer:
        return

    assert decode_value(kept) == decode_value(data)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_value_is_no_answer(kind: str, name: str):
    with pytest.raises(BadAnswer):
        check_answer(ask(kind), REFUSED[name], form=named)


def test_bytes_become_the_only_bytes():
    kept = check_answer(ask("form"), b' {"name": "Ann", "age": 3} ', form=named)

    assert kept == b'{"age":3,"name":"Ann"}'


@given(questions)
def test_a_question_is_read_back_as_it_was(question: Question):
    assert msgspec.json.decode(msgspec.json.encode(question), type=Question) == question


@pytest.mark.parametrize(
    "kind, fields, good, bad",
    [
        ("text", {}, ["", "x", "a" * LENGTH_MAX], [None, 1, True, [], {}, "a" * (LENGTH_MAX + 1)]),
        ("text", {"length_min": 2, "length_max": 3}, ["ab", "abc", "é́"], ["a", "abcd"]),
        ("text", {"pattern": "a+"}, ["a", "a" * LENGTH_PATTERN_MAX], ["ab", "ba", "a\n", ""]),
        ("text", {"pattern": "a+"}, [], ["a" * (LENGTH_PATTERN_MAX + 1)]),
        ("choice", {}, ["red", "blue"], ["Blue", "pink", "", None, 0, ["red"], {}]),
        ("choices", {}, [[], ["red"], ["green", "red", "blue"]], ["red", {}, None, 1]),
        ("choices", {}, [], [["pink"], ["red", "red"], [["red"]], [{}], [None]]),
        ("choices", {"picks_min": 2}, [["red", "blue"]], [["red"], []]),
        ("choices", {"picks_max": 1}, [["red"], []], [["red", "blue"]]),
        ("yes_no", {}, [True, False], [1, 0, None, "yes", "true", [], {}]),
        ("number", {}, [0, -1, 1.5, 10**400], [True, False, "1", None, [], {}]),
        ("number", {"whole": True}, [3, -3], [3.0, 3.5]),
        ("number", {"number_min": 0, "number_max": 9.5}, [0, 9.5, -0.0], [-0.1, 9.6, 10**400]),
        ("date", {}, ["2026-11-16", "2024-02-29"], ["2026-02-29", "2026-1-1", "", 1, None, []]),
        ("date", {}, ["2026-11-16T09:30:00+01:00", "2026-11-16T09:30:00.5Z"], []),
        ("date", {}, [], ["2026-11-16T09:30:00", "2026-11-16 09:30:00Z", "2026-11-16T25:00:00Z"]),
        ("date", {}, [], ["٢٠٢٦-11-16", "20261116", "2026-W47-1", "0000-01-01", "2026-11-16\n"]),
        ("form", {}, [{"name": 1}], [{}, [], None, "name", ["name"]]),
    ],
)
def test_answers_fit_or_do_not(kind: str, fields: Any, good: list[Any], bad: list[Any]):
    question = ask(kind, **fields)

    assert [value for value in good if not fits(question, value)] == []
    assert [value for value in bad if fits(question, value)] == []


def test_problems_say_where():
    with pytest.raises(BadAnswer) as caught:
        check_answer(ask("choices"), b'["red","pink","red"]')

    assert caught.value.problems == [
        ("/1", "this is not the value of an option"),
        ("/2", "this is chosen twice"),
    ]
    assert "/1: this is not" in str(caught.value)
    assert isinstance(caught.value, Refused)


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [SECRET * 9999, [SECRET], {SECRET: SECRET}, [SECRET] * 200])
def test_no_message_repeats_the_answer(kind: str, value: Any):
    fields = {"text": {"pattern": "x"}}.get(kind, {})

    with pytest.raises(BadAnswer) as caught:
        check_answer(ask(kind, sensitive=True, **fields), encode_value(value), form=named)

    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_form_cannot_be_answered_where_none_can_be_checked():
    with pytest.raises(BadAnswer, match="cannot be checked here"):
        check_answer(ask("form"), b"{}")


def test_a_pattern_that_cannot_be_used_lets_no_answer_pass():
    with pytest.raises(BadAnswer, match="cannot be used"):
        check_answer(Question(text="Which?", pattern="(?=x)"), b'"x"')


def test_the_kind_is_what_was_given():
    assert make_question("Why?").kind == "text"
    assert make_question("Which?", options=COLOURS).kind == "choice"
    assert make_question("Which?", options=[]).kind == "text"
    assert make_question("What?", schema="{}", check_schema=no_check).kind == "form"


def test_options_are_read_in_three_ways():
    question = make_question("Which?", options=iter(COLOURS))

    assert question.options == (
        Option(value="red"),
        Option(value="blue", label="Blue"),
        Option(value="green"),
    )
    assert [option.shown for option in question.options] == ["red", "Blue", "green"]


def test_a_schema_keeps_the_order_of_its_fields():
    schema = {"properties": {"zip": {}, "city": {}}}

    assert ask("form", schema=schema).schema == '{"properties":{"zip":{},"city":{}}}'
    assert ask("form", schema='{ "b":1,"a":2}').schema == '{ "b":1,"a":2}'


def test_a_schema_is_checked_by_whoever_can():
    def refuse(_text: str) -> None:
        raise BadQuestion("no")

    with pytest.raises(BadQuestion, match="no"):
        make_question("What?", schema={}, check_schema=refuse)


def test_a_default_is_kept_as_bytes():
    assert ask("number", default=3).default == msgspec.Raw(b"3")
    assert ask("yes_no", default=False).default == msgspec.Raw(b"false")
    assert ask("form", default={"name": "Ann"}).default == msgspec.Raw(b'{"name":"Ann"}')


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"text": ""}, "needs a text"),
        ({"text": " \n"}, "needs a text"),
        ({"text": 3}, "Expected `str`"),
        ({"text": "\ud800"}, "surrogates"),
        ({"text": "a" * (TEXT_MAX + 1)}, "more than 10,000"),
        ({"kind": "colour"}, "use one of text, choice"),
        ({"kind": 3}, "use one of text, choice"),
        ({"kind": "choice"}, "needs options"),
        ({"kind": "choices", "options": []}, "needs options"),
        ({"kind": "form"}, "needs schema"),
        ({"options": "red"}, "options are a list"),
        ({"options": {"red": "Red"}}, "options are a list"),
        ({"options": 3}, "options are a list"),
        ({"options": [3]}, "an option is"),
        ({"options": [None]}, "an option is"),
        ({"options": [{"label": "Red"}]}, "`value`"),
        ({"options": [{"value": "red", "icon": "r"}]}, "`icon`"),
        ({"options": [""]}, "needs a value"),
        ({"options": [Option(value=" ")]}, "needs a value"),
        ({"options": [Option(value=3)]}, "Expected `str`"),  # pyright: ignore[reportArgumentType]
        ({"options": ["red", "red"]}, "the same value"),
        ({"options": ["a" * (OPTION_MAX + 1)]}, "an option's value has 1,001"),
        ({"options": [{"value": "a", "label": "a" * 1001}]}, "an option's label has 1,001"),
        ({"options": [{"value": "a", "description": "a" * 1001}]}, "description has 1,001"),
        ({"options": [str(n) for n in range(OPTIONS_MAX + 1)]}, "more than 100 options"),
        ({"options": [f"{n}" * 300 for n in range(100, 199)]}, "bytes, more than"),
        ({"options": ["red"], "kind": "text"}, "'text' takes no options"),
        ({"options": ["red"], "schema": "{}"}, "'choice' takes no schema"),
        ({"kind": "yes_no", "length_max": 3}, "takes no length_max"),
        ({"kind": "text", "number_min": 0}, "takes no number_min"),
        ({"kind": "choice", "options": ["a"], "picks_max": 1}, "takes no picks_max"),
        ({"kind": "form", "schema": "{}", "placeholder": "x"}, "takes no placeholder"),
        ({"placeholder": "a" * 1001}, "the placeholder has 1,001"),
        ({"sensitive": "yes"}, "Expected `bool`"),
        ({"sensitive": object()}, "cannot be asked like this"),
        ({"length_min": 2, "length_max": 1}, "length_min is 2"),
        ({"length_min": -1}, "not negative"),
        ({"length_max": -1}, "not negative"),
        ({"length_max": LENGTH_MAX + 1}, "length_max is 50,001"),
        ({"length_max": LENGTH_PATTERN_MAX + 1, "pattern": "a"}, "length_max is 5,001"),
        ({"pattern": "(a"}, "without its )"),
        ({"kind": "number", "number_min": 2, "number_max": 1}, "between 2 and 1"),
        ({"kind": "number", "number_min": 1.2, "number_max": 1.8, "whole": True}, "1.2 and 1.8"),
        ({"kind": "number", "number_min": float("nan")}, "exactly"),
        ({"kind": "number", "number_max": float("inf")}, "exactly"),
        ({"kind": "number", "number_max": 2**60 + 1}, "exactly"),
        ({"kind": "number", "number_max": 10**400}, "out of range"),
        ({"kind": "number", "number_max": True}, "Expected `float"),
        ({"kind": "choices", "options": ["a"], "picks_min": 2}, "picks_min is 2"),
        ({"kind": "choices", "options": ["a"], "picks_max": 2}, "picks_max is 2"),
        ({"schema": "not JSON"}, "not JSON"),
        ({"schema": "[]"}, "not an object"),
        ({"schema": 3}, "neither"),
        ({"schema": {"a": {1, 2}}}, "set"),
        ({"schema": '{"a":1,"a":2}'}, "same key twice"),
        ({"schema": {"a": "a" * SCHEMA_BYTES_MAX}}, "more than 32,768"),
        ({"default": 3}, "default is no answer"),
        ({"default": object()}, "default is no answer"),
        ({"default": "a" * 20_000}, "default is no answer"),
        ({"kind": "form", "schema": {}, "default": {}}, "default is no answer"),
        ({"kind": "choice", "options": ["a"], "default": "b"}, "default is no answer"),
    ],
)
def test_what_nobody_could_answer_is_not_asked(fields: Any, why: str):
    with pytest.raises(BadQuestion, match=re.escape(why)) as caught:
        make_question(**{"text": "Which?", "check_schema": no_check, "form": named, **fields})

    assert isinstance(caught.value, BadValue)


def test_a_form_cannot_be_asked_for_where_no_schema_can_be_checked():
    with pytest.raises(BadQuestion, match="no schema can be checked"):
        make_question("What?", schema={})


def test_a_question_stays_small():
    question = make_question("a" * TEXT_MAX, options=["a" * OPTION_MAX])

    assert len(msgspec.json.encode(question)) < QUESTION_BYTES_MAX


offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=offsets))
def test_every_date_is_a_date(moment: datetime):
    assert is_day(moment.date().isoformat())
    assert is_moment(moment.isoformat())
    assert is_moment(moment.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z"))
