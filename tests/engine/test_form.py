import json
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing.exceptions import Unresolvable

from sayso.domain.digest import encode_value
from sayso.domain.question import Question
from sayso.engine.form import (
    ANSWER_BYTES_MAX,
    DEPTH_MAX,
    DRAFT,
    PARTS_MAX,
    PROBLEMS_MAX,
    _read,
    _steps,
    check_any_answer,
    check_form,
    check_schema,
    make_form_question,
)
from sayso.errors import BadAnswer, BadQuestion
from tests.domain.test_digest import values

ORDER: dict[str, Any] = {
    "$schema": DRAFT,
    "$id": "https://example.com/order",
    "type": "object",
    "properties": {
        "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
        "email": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "odd": {"type": "string", "format": "no-such-format"},
        "slug": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
        "size": {"enum": ["s", "m"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "home": {"$ref": "#/$defs/a~1place"},
        "any": {"$ref": "#/$defs/any"},
    },
    "required": ["amount"],
    "additionalProperties": False,
    "$defs": {
        "a/place": {"type": "object", "properties": {"zip": {"type": "string"}}},
        "any": True,
    },
}


def problems(schema: Any, value: Any, *, sensitive: bool = False) -> list[tuple[str, str]]:
    question = make_form_question("What?", schema=schema, sensitive=sensitive)
    try:
        kept = check_any_answer(question, encode_value(value))
    except BadAnswer as error:
        return error.problems
    assert kept == encode_value(value)
    return []


def field(schema: Any) -> Any:
    return {"type": "object", "properties": {"x": schema}}


def test_an_answer_that_fits_is_kept():
    order = {
        "amount": 0.3,
        "email": "ann@example.com",
        "day": "2026-11-16",
        "at": "2026-11-16T09:30:00Z",
        "odd": "anything",
        "slug": "a-b",
        "size": "m",
        "note": None,
        "tags": ["a", "b"],
        "home": {"zip": "1"},
        "any": [1],
    }

    assert problems(ORDER, order) == []


@pytest.mark.parametrize(
    "part, path, message",
    [
        ({"amount": "1"}, "/amount", "this must be of type number"),
        ({"amount": True}, "/amount", "this must be of type number"),
        ({"amount": 0}, "/amount", "this must be more than 0"),
        ({"amount": 0.005}, "/amount", "this must be a multiple of 0.01"),
        ({"email": "ann"}, "/email", "this is not in the format email"),
        ({"day": "2026-02-30"}, "/day", "this is not in the format date"),
        ({"at": "2026-11-16T09:30:00"}, "/at", "this is not in the format date-time"),
        ({"slug": "A"}, "/slug", "this does not fit the pattern ^[a-z]+(-[a-z]+)*$"),
        ({"size": "l"}, "/size", 'this must be "s" or "m"'),
        ({"note": "long"}, "/note", "this must have at most 3 characters"),
        ({"note": 3}, "/note", "this fits none of the alternatives"),
        ({"tags": ["a", 3]}, "/tags/1", "this must be of type string"),
        ({"tags": ["a", "a"]}, "/tags", "this has the same item twice"),
        ({"home": {"zip": 1}}, "/home/zip", "this must be of type string"),
        ({"a/b": 1}, "/a~1b", "the form has no such field"),
    ],
)
def test_a_problem_says_which_field(part: Any, path: str, message: str):
    assert problems(ORDER, {"amount": 1, **part}) == [(path, message)]


def test_what_is_missing_is_said_at_its_own_place():
    assert problems(ORDER, {}) == [("/amount", "this is missing")]
    assert problems({"required": ["a", "b"]}, {"a": 1}) == [("/b", "this is missing")]


@pytest.mark.parametrize(
    "schema, good, bad",
    [
        ({"multipleOf": 0.1}, [0.3, 10**400, 1e300, "x", True], [0.35]),
        ({"multipleOf": 7}, [7 * 10**400, 14.0], [10**400, 1e300]),
        ({"uniqueItems": True}, [[1, True, "1"], "x", [[1], [2]]], [[1, 1.0], [{"a": 1}] * 2]),
        ({"uniqueItems": False}, [[1, 1]], []),
        ({"pattern": "b"}, ["abc", 3], ["a", ""]),
        ({"type": "integer"}, [1, 1.0], [1.5, "1", True]),
        ({"type": ["string", "null"]}, ["", None], [1]),
        ({"const": {"a": [1]}}, [{"a": [1.0]}], [{"a": [True]}, 1]),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, [1, 2], [3]),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, [1], [2, 0]),
        ({"not": {"const": 1}}, [2], [1]),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, ["ab", 1], ["a"]),
        ({"propertyNames": {"pattern": "^a"}}, [{"ab": 1}], [{"b": 1}]),
        ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}], [{"a": 1}]),
        ({"prefixItems": [{"type": "null"}], "items": False}, [[None]], [[1], [None, 1]]),
        (False, [], [1, None]),
    ],
)
def test_keywords_mean_what_json_schema_says(schema: Any, good: list[Any], bad: list[Any]):
    assert [value for value in good if problems(field(schema), {"x": value})] == []
    assert [value for value in bad if not problems(field(schema), {"x": value})] == []


@pytest.mark.parametrize(
    "schema, why",
    [
        ("{", "not JSON"),
        ("true", "not an object"),
        ({"type": "string"}, "describes an object"),
        ({"type": ["object", "null"]}, "describes an object"),
        (field({"type": "colour"}), "at /properties/x/type"),
        (field({"minimum": "1"}), "at /properties/x/minimum"),
        (field([]), "at /properties/x"),
        ({"properties": 3}, "at /properties"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "another draft"),
        (field({"$schema": DRAFT}), "only the top"),
        (field({"$id": "https://example.com"}), "only the top"),
        (field({"$ref": "https://example.com/schema"}), "not a part of it"),
        (field({"$ref": "file:///etc/passwd"}), "not a part of it"),
        (field({"$ref": "#/$defs/none"}), "not a part of it"),
        ({"x-hidden": {"pattern": "(?=a)"}, **field({"$ref": "#/x-hidden"})}, "not a part of it"),
        (field({"$ref": 3}), "not a part of it"),
        (field({"$dynamicRef": "#x"}), "$dynamicRef"),
        (field({"$anchor": "x"}), "$anchor"),
        (field({"unevaluatedProperties": False}), "unevaluatedProperties"),
        ({"patternProperties": {"(a+)+$": True}}, "patternProperties"),
        ({"$ref": "#"}, "contains itself"),
        (field({"items": {"$ref": "#/properties/x"}}), "contains itself"),
        (field({"pattern": "(?=a)"}), "not supported"),
        (field({"pattern": "a" * 301}), "more than 300"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, why: str):
    with pytest.raises(BadQuestion) as caught:
        make_form_question("What?", schema=schema)

    assert why in str(caught.value)


def test_a_schema_can_be_checked_alone():
    check_schema(json.dumps(ORDER))
    check_schema(json.dumps({**ORDER, "$schema": DRAFT + "#"}))

    for text in ("[]", "no JSON", json.dumps({"type": 3})):
        with pytest.raises(BadQuestion):
            check_schema(text)


def nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"properties": {"x": schema}}
    return schema


def doubled(levels: int) -> Any:
    defs = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/0", "$defs": {**defs, str(levels): {}}}


def test_a_schema_is_neither_too_deep_nor_too_large():
    check_schema(json.dumps(nested(DEPTH_MAX)))
    check_schema(json.dumps(doubled(4)))

    with pytest.raises(BadQuestion, match="deeper"):
        check_schema(json.dumps(nested(DEPTH_MAX + 1)))
    with pytest.raises(BadQuestion, match="more than 2,000 parts"):
        check_schema(json.dumps(doubled(9)))
    with pytest.raises(BadQuestion, match="more than 2,000 parts"):
        check_schema(json.dumps({"anyOf": [{}] * PARTS_MAX}))


@pytest.mark.parametrize(
    "schema, value",
    [
        (field({"items": {"allOf": [{"type": "number"}] * 500}}), [1] * 2000),
        (field({"items": {"enum": list(range(5000))}}), [4999] * 2000),
        (
            {"$defs": {"c": {"const": [list(range(5000))]}}, "not": {"$ref": "#/$defs/c"}}
            | field({"allOf": [{"$ref": "#/$defs/c"}] * 20}),
            [list(range(5000))],
        ),
        (field({"allOf": [{"uniqueItems": True}] * 50}), [{"a": n} for n in range(3000)]),
        (field({"pattern": "([ab]*a[ab]{200})x"}), "ab" * 30_000),
    ],
)
def test_an_answer_that_takes_too_long_is_refused(schema: Any, value: Any):
    assert problems(schema, {"x": value}) == [("", "this is too large to be checked")]


def test_thousands_of_unlike_things_are_compared_quickly():
    assert problems(field({"uniqueItems": True}), {"x": [{"a": n} for n in range(5000)]}) == []


def test_an_answer_is_not_too_large():
    assert problems({}, {"x": "a" * (ANSWER_BYTES_MAX - 8)}) == []
    assert "too many" in problems({}, {"x": "a" * ANSWER_BYTES_MAX})[0][1]


def test_there_are_not_too_many_problems():
    found = problems(field({"items": {"type": "string"}}), {"x": [1] * 1000})

    assert len(found) == PROBLEMS_MAX
    assert len(problems({"additionalProperties": False}, dict.fromkeys("abc" * 9, 1))) == 3
    many = {str(n): 1 for n in range(1000)}
    assert len(problems({"additionalProperties": False}, many)) == PROBLEMS_MAX
    assert len(problems({"additionalProperties": False}, {"k" * 5000: 1})[0][0]) < 300


SECRET = "hunter2"


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"additionalProperties": {"type": "number"}},
        {"propertyNames": {"maxLength": 2}},
        {"maxProperties": 0},
        {"not": {}},
        {"anyOf": [{"additionalProperties": False}, {"required": ["x"]}]},
        {"required": ["x"]},
        {"dependentRequired": {SECRET[:7]: ["x"]}},
        {"const": {}},
        {"enum": [{}]},
    ],
)
def test_no_problem_repeats_a_sensitive_answer(schema: Any):
    found = problems(schema, {SECRET: {SECRET: SECRET}}, sensitive=True)

    assert found
    assert SECRET not in repr(found)


@given(values)
def test_any_value_fits_or_has_problems(value: Any):
    question = make_form_question("What?", schema=ORDER)

    assert all(path.startswith("/") or not path for path, _ in check_form(question, value))


@given(values)
def test_any_value_is_a_schema_or_is_refused(value: Any):
    for schema in (value, field(value), {"properties": {"x": value}, "required": value}):
        try:
            check_schema(encode_value(schema).decode())
        except BadQuestion:
            continue

        question = Question(text="What?", kind="form", schema=encode_value(schema).decode())
        check_form(question, {"x": 1})


KEYWORDS = """
    type enum const pattern format items required minimum multipleOf maxLength anyOf oneOf not if
    then $ref $defs properties uniqueItems minItems contains minContains dependentRequired
    dependentSchemas additionalProperties propertyNames prefixItems
"""
keywords = st.sampled_from(KEYWORDS.split())
words = st.sampled_from(
    [
        "type",
        "enum",
        "const",
        "pattern",
        "format",
        "items",
        "required",
        "minimum",
        "multipleOf",
        "maxLength",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "$ref",
        "$defs",
        "properties",
        "uniqueItems",
        "minItems",
        "contains",
        "minContains",
        "dependentRequired",
        "dependentSchemas",
        "additionalProperties",
        "propertyNames",
        "prefixItems",
    ]
)
words = st.sampled_from(["string", "object", "#", "#/properties/x", "a*", "date-time", "x", ""])
plain = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | words
schemas = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keywords, schemas, max_size=4), values)
def test_no_schema_raises_anything_else(schema: Any, value: Any):
    text = encode_value(field(schema)).decode()
    try:
        check_schema(text)
    except BadQuestion:
        return

    check_form(Question(text="What?", kind="form", schema=text), {"x": value})


def test_a_schema_that_was_written_by_hand_lets_no_answer_pass():
    question = Question(text="What?", kind="form", schema='{"type": 3}')

    with pytest.raises(BadAnswer, match="describes an object"):
        check_any_answer(question, b"{}")


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch):
    tried: list[object] = []

    def refuse(*args: Any) -> None:
        # Counted, because the library would take any error for a failed download.
        tried.append(args)
        raise OSError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    url = "http://127.0.0.1:9/schema"

    for schema in ({"$ref": url}, {"$schema": url}, field({"$id": url, "$ref": "#/x"})):
        with pytest.raises(BadQuestion):
            check_schema(json.dumps(schema))
    assert problems({"$id": url, **field({"type": "string"})}, {"x": 1})
    # And if one slipped through, what checks forms knows no way out.
    _steps.set([0])
    with pytest.raises(Unresolvable):
        _read("{}").validator.evolve(schema={"$ref": url}).is_valid({})
    assert tried == []


def test_the_library_is_imported_only_for_forms():
    program = (
        "import sys; from sayso.engine.form import make_form_question, check_any_answer;"
        "check_any_answer(make_form_question('Why?'), b'1' if 0 else b'\"x\"');"
        "assert 'jsonschema' not in sys.modules;"
        "make_form_question('What?', schema={});"
        "assert 'jsonschema' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
