import enum
import math
import sys
from collections import OrderedDict, namedtuple
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sayso.domain import digest
from sayso.domain.digest import (
    BYTES_MAX,
    DEPTH_MAX,
    DIGITS_MAX,
    ask_digest,
    call_digest,
    canonical,
    decode_value,
    encode_value,
    request_digest,
    same_but_for_order,
    suspension_digest,
)
from sayso.errors import BadValue

from .nasty import ACCEPTED, DEEP, REFUSED

integers = st.integers() | st.integers(min_value=-(10**60), max_value=10**60)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def exact(value: Any) -> object:
    """The value with its types, so that 1, 1.0 and True, or 0.0 and -0.0, are told apart."""
    match value:
        case dict():
            return {key: exact(child) for key, child in value.items()}
        case list():
            return [exact(child) for child in value]
        case _:
            return type(value), repr(value)


@given(values)
def test_what_was_encoded_is_decoded_unchanged(value: Any):
    assert exact(decode_value(encode_value(value))) == exact(value)


@given(values)
def test_encoding_is_a_fixed_point(value: Any):
    data = encode_value(value)

    assert encode_value(decode_value(data)) == data
    assert canonical(data) == data


def test_a_value_from_outside_has_only_one_text():
    assert canonical(' { "b": 1.0,\n"a": [] } ') == b'{"a":[],"b":1.0}'


few = st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, False, None, "1", "", "a", "null"])
alike = st.recursive(
    few,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=3,
)


@given(alike, alike)
@example(12400, 12400.0)
@example(0.0, -0.0)
@example(1, True)
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@example([[], []], [[[]]])
@example("é", "e\u0301")
@example(9007199254740993, 9007199254740992)
def test_two_values_have_the_same_bytes_only_if_they_are_the_same(one: Any, two: Any):
    assert (encode_value(one) == encode_value(two)) == (exact(one) == exact(two))


def test_the_bytes_are_what_we_say_they_are():
    value = {"b": [1, 1.5, None], "a": {"ü": "\u2028", "A": True}, "": -0.0}

    assert encode_value(value) == '{"":-0.0,"a":{"A":true,"ü":"\u2028"},"b":[1,1.5,null]}'.encode()


def test_an_integer_and_a_float_of_the_same_size_are_different_bytes():
    assert encode_value(12400) == b"12400"
    assert encode_value(12400.0) == b"12400.0"
    assert encode_value(1e16) == b"1e+16"


def test_what_has_no_float_in_it_is_written_as_the_rest_is():
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    parts = [text[at : at + 10_000] for at in range(0, len(text), 10_000)]
    names = [*text[::97], "", "ab", "a", "b\uffff", "b\U00010000"]
    for value in (*parts, dict.fromkeys(names, True), [10**99, -(10**99), 2**64, -1, (), {}]):
        whole, end = encode_value([value, 0.5]), b",0.5]"

        assert b"[" + encode_value(value) + end == whole


def test_a_tuple_is_a_list():
    assert encode_value((1, (2,))) == b"[1,[2]]"


@given(st.integers(min_value=10**15, max_value=10**400))
def test_integers_are_exact_however_big(number: int):
    assert decode_value(encode_value(number)) == number
    assert decode_value(encode_value(-number)) == -number


@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_on_digits_is_the_same_in_both_directions(sign: int):
    most = sign * (10**DIGITS_MAX - 1)

    assert decode_value(encode_value(most)) == most
    with pytest.raises(BadValue, match="digits"):
        encode_value(most + sign)
    with pytest.raises(BadValue, match="digits"):
        decode_value(str(most)[:-1] + "99")


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Loud:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


Pair = namedtuple("Pair", "a b")  # noqa: PYI024

BAD_OBJECTS: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": [math.inf],
    "minus infinity": {"a": -math.inf},
    "bytes": b"a",
    "bytearray": bytearray(b"a"),
    "set": {1},
    "frozenset": frozenset(),
    "object": object(),
    "loud object": Loud(),
    "class": dict,
    "function": print,
    "generator": (n for n in ()),
    "range": range(3),
    "complex": 1j,
    "decimal": Decimal("1.10"),
    "datetime": datetime(2026, 11, 15, tzinfo=UTC),
    "string enum": Colour.RED,
    "integer enum": {"a": [Number.ONE]},
    "string subclass": Text("a"),
    "dict subclass": OrderedDict(a=1),
    "named tuple": Pair(1, 2),
    "integer key": {1: "a"},
    "endless integer key": {10**5000: "a"},
    "float key": {1.0: "a"},
    "None key": {None: 1},
    "boolean key": {True: 1},
    "tuple key": {(1,): 1},
    "loud key": {Loud(): 1},
    "enum key": {Colour.RED: 1},
    "string subclass key": {Text("a"): 1},
    "mixed keys": {"a": 1, 2: 2},
    "lone surrogate": "\ud800",
    "lone surrogate inside": [{"a": "x\udfff"}],
    "lone surrogate in a key": {"\udc00": 1},
    "surrogate pair in two": "\ud83d\ude00",
    "too many digits": 10**DIGITS_MAX,
    "far too many digits": -(10**100_000),
    "too long": "a" * BYTES_MAX,
    "too long in UTF-8": "é" * (BYTES_MAX // 2),
    "too many parts": [None] * BYTES_MAX,
}


@pytest.mark.parametrize("name", BAD_OBJECTS)
def test_what_is_not_json_is_refused(name: str):
    with pytest.raises(BadValue):
        encode_value(BAD_OBJECTS[name])


def test_a_value_that_holds_itself_is_refused():
    inside: list[Any] = []
    inside.append({"again": inside})
    wide: list[Any] = []
    wide.extend([wide] * 10_000)

    for circular in (inside, wide):
        with pytest.raises(BadValue):
            encode_value(circular)
        circular.clear()


def test_a_long_list_that_holds_itself_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch):
    looked_at = 0
    check_one = digest._check_one

    def counting(item: object) -> None:
        nonlocal looked_at
        looked_at += 1
        check_one(item)

    monkeypatch.setattr(digest, "_check_one", counting)
    wide: list[Any] = []
    wide.extend([wide] * (BYTES_MAX // 2))

    with pytest.raises(BadValue, match="parts"):
        encode_value(wide)
    wide.clear()

    assert looked_at < 5


def test_a_value_that_is_shared_many_times_over_is_bounded():
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]

    with pytest.raises(BadValue, match="parts"):
        encode_value(value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_has_a_limit_of_our_own():
    assert decode_value(encode_value(nested(DEPTH_MAX))) == nested(DEPTH_MAX)
    for depth in (DEPTH_MAX + 1, DEEP):
        with pytest.raises(BadValue, match="nested"):
            encode_value(nested(depth))


@pytest.mark.parametrize("blank", [b"", b" "])
def test_what_is_read_is_not_nested_deeper_either(blank: bytes):
    with pytest.raises(BadValue, match="nested"):
        decode_value(blank + b"[" * (DEPTH_MAX + 2) + b"]" * (DEPTH_MAX + 2))


def test_a_limit_on_bytes_can_be_chosen():
    assert encode_value("abc", bytes_max=5) == b'"abc"'
    assert decode_value(b'"abc"', bytes_max=5) == "abc"
    with pytest.raises(BadValue, match="more than 4"):
        encode_value("abc", bytes_max=4)
    with pytest.raises(BadValue, match="more than 4"):
        decode_value(b'"abc"', bytes_max=4)


def test_text_counts_by_its_bytes_and_not_by_its_characters():
    with pytest.raises(BadValue, match="bytes"):
        decode_value('"' + "é" * (BYTES_MAX // 2) + '"')


@pytest.mark.parametrize("name", REFUSED)
def test_text_without_a_single_reading_is_refused(name: str):
    with pytest.raises(BadValue):
        decode_value(REFUSED[name])


@pytest.mark.parametrize("name", ACCEPTED)
def test_text_that_only_looks_dangerous_is_data(name: str):
    data = ACCEPTED[name]

    value = decode_value(data)

    assert exact(decode_value(encode_value(value))) == exact(value)
    assert exact(decode_value(data.decode())) == exact(value)


def test_text_with_a_lone_surrogate_is_refused_before_it_is_parsed():
    with pytest.raises(BadValue):
        decode_value('"\ud800"')


@given(st.binary(max_size=60))
@example(b"[" * DEEP)
def test_any_bytes_are_a_value_or_refused(data: bytes):
    try:
        value = decode_value(data)
    except BadValue:
        return

    assert exact(decode_value(encode_value(value))) == exact(value)


fragments = st.lists(
    st.sampled_from(
        [
            '{"a":',
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            "\\u",
            "d800",
            "\\",
            "1",
            "e4",
            "00",
            "-",
            ".",
            "NaN",
            "null",
            "true",
            '"a"',
            "�",
            "\x00",
            " ",
            "Infinity",
            '"\\u0061"',
        ]
    ),
    max_size=12,
).map("".join)


@given(fragments)
def test_any_text_that_is_nearly_json_is_a_value_or_refused(text: str):
    try:
        value = decode_value(text)
    except BadValue:
        return

    assert canonical(text) == encode_value(value)


@given(values | fragments)
@example({"a": "[" * DEPTH_MAX})
@example('{"a":1,"a":1}')
@example('{"b":1,"a":{"d":1,"c":2}}')
@example('"\\u0061"')
@example("1e5")
@example("-0")
def test_what_we_wrote_is_read_as_anything_else_is(given: Any):
    data = given.encode() if isinstance(given, str) else encode_value(given)

    def read(data: bytes) -> object:
        try:
            return exact(decode_value(data))
        except BadValue:
            return BadValue

    # We never write a blank at the end.
    assert read(data) == read(data + b" ")


@given(values, st.data())
def test_a_cut_or_changed_text_is_a_value_or_refused(value: Any, data: st.DataObject):
    good = encode_value(value)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + data.draw(st.binary(max_size=2)) + good[at + 1 :]

    try:
        found = decode_value(changed)
    except BadValue:
        return

    assert canonical(changed) == encode_value(found)


CALL: dict[str, Any] = {
    "project": "p",
    "run": "run_1",
    "version": 1,
    "tool": "pay",
    "tool_version": "1",
    "args": b'{"amount":200}',
}


@pytest.mark.parametrize(
    "one, two, same",
    [
        (b"[1,2]", b"[2,1]", True),
        (b'{"a":[{"b":[1,2]},3]}', b'{"a":[3,{"b":[2,1]}]}', True),
        (b"[1,1,2]", b"[1,2,2]", False),
        (b'{"a":[1]}', b'{"b":[1]}', False),
        (b"1", b"1.0", False),
        (b"[1,2]", b"[2,true]", False),
        (b'{"a":1}', b'{"a":true}', False),
        (b"[1]", b"[1]", True),
    ],
)
def test_values_may_be_the_same_but_for_the_order_of_lists(one, two, same):
    assert same_but_for_order(one, two) is same


def test_a_call_digest_names_the_call_and_nothing_else():
    assert call_digest(**CALL) == call_digest(**CALL)
    assert call_digest(**CALL) == (
        "66a6a6804478d7a59a7951690476cbad7956187aea64ab1fd68869fbbb1255bc"
    )


@pytest.mark.parametrize(
    "field, other",
    [
        ("project", "q"),
        ("run", "run_2"),
        ("version", 2),
        ("tool", "payx"),
        ("tool_version", "2"),
        ("args", b'{"amount":200.0}'),
    ],
)
def test_a_change_of_anything_shown_is_another_digest(field: str, other: object):
    assert call_digest(**CALL) != call_digest(**CALL | {field: other})


def test_parts_cannot_be_shifted_into_each_other():
    moved = CALL | {"tool": "pa", "tool_version": "y1"}

    assert call_digest(**CALL) != call_digest(**moved)
    assert request_digest("ab", "c") != request_digest("a", "bc")
    assert request_digest("a", b"") != request_digest("a")


def test_digests_of_different_things_never_meet():
    assert request_digest("a") != suspension_digest(request_id="a", members=[])


def test_a_suspension_digest_covers_its_members_in_order():
    one = suspension_digest(request_id="req_1.1", members=["a", "b"])

    assert one == suspension_digest(request_id="req_1.1", members=["a", "b"])
    assert one != suspension_digest(request_id="req_1.1", members=["b", "a"])
    assert one != suspension_digest(request_id="req_1.1", members=["a"])
    assert one != suspension_digest(request_id="req_1.2", members=["a", "b"])


ASKED = {"project": "p", "run": "run_1", "call": "1.0", "step": 2, "ask": b'{"is":"question"}'}


@pytest.mark.parametrize(
    "field, other",
    [
        ("project", "q"),
        ("run", "run_2"),
        ("call", "1.1"),
        ("step", 3),
        ("ask", b'{"is":"external"}'),
    ],
)
def test_what_is_asked_elsewhere_or_otherwise_has_another_digest(field: str, other: object):
    assert ask_digest(**ASKED) == ask_digest(**ASKED)  # pyright: ignore[reportArgumentType]
    assert ask_digest(**{**ASKED, field: other}) != ask_digest(**ASKED)  # pyright: ignore[reportArgumentType]
