"""Forms by schema: what is shown, and what is read back from it."""

from __future__ import annotations

from typing import Any

import pytest

from sayso.domain.digest import decode_value, encode_value
from sayso.web.form import Field, fill_in, make_fields, read_fields

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "title": "Amount"},
        "count": {"type": "integer"},
        "currency": {"enum": ["EUR", "USD"]},
        "to": {"type": "string"},
        "memo": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "day": {"type": "string", "format": "date"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"$ref": "#/$defs/address"},
        "rest": {},
    },
    "required": ["amount", "count", "to"],
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "no": {"type": "integer"}},
            "required": ["street"],
        }
    },
}
ARGS = (
    b'{"address":{"no":9007199254740993,"street":"Long~/road"},"amount":12400.0,'
    b'"count":9007199254740993,"currency":"EUR","day":"2026-11-16","memo":null,'
    b'"rest":{"a":[1,2.50]},"sure":false,"tags":["x","y"],"to":"Nord\\nwind"}'
)


def fields(args: bytes = ARGS) -> tuple[Field, ...]:
    return make_fields(SCHEMA, decode_value(args), "a")


def sent(some: tuple[Field, ...]) -> dict[str, str]:
    """Send a form as a browser does: with both characters at the ends of lines."""
    found: dict[str, str] = {}
    for one in some:
        if one.kind not in ("object", "secret"):
            found[one.name] = one.text.replace("\n", "\r\n")
        found |= sent(one.fields)
    return found


def test_what_nobody_touched_keeps_its_very_bytes() -> None:
    reading = read_fields(fields(), sent(fields()))

    assert encode_value(reading.value) == encode_value(decode_value(ARGS))
    assert not reading.changed
    assert not reading.problems


def test_each_type_has_its_control() -> None:
    assert {one.name: one.kind for one in fields()} == {
        "a/amount": "number",
        "a/count": "integer",
        "a/currency": "choice",
        "a/to": "long",
        "a/memo": "text",
        "a/day": "date",
        "a/sure": "choice",
        "a/tags": "lines",
        "a/address": "object",
        "a/rest": "json",
    }


@pytest.mark.parametrize(
    "name, typed, expected",
    [
        ("a/amount", "11900", b'"amount":11900,'),
        ("a/amount", " 11900.50 ", b'"amount":11900.5,'),
        ("a/count", "9007199254740995", b'"count":9007199254740995,'),
        ("a/currency", '"USD"', b'"currency":"USD"'),
        ("a/to", "Süd\r\nwind", '"to":"Süd\\nwind"'.encode()),
        ("a/memo", "thanks", b'"memo":"thanks"'),
        ("a/sure", "true", b'"sure":true'),
        ("a/tags", "x\r\n\r\n z ", b'"tags":["x","z"]'),
        ("a/tags", "", b'"tags":[]'),
        ("a/address/street", "", b'"street":""'),
        ("a/address/no", "", b'"address":{"street"'),
        ("a/rest", "[1.0]", b'"rest":[1.0]'),
    ],
)
def test_what_was_typed_is_read_exactly(name: str, typed: str, expected: bytes) -> None:
    reading = read_fields(fields(), {**sent(fields()), name: typed})

    assert expected in encode_value(reading.value)
    assert reading.changed == {name}
    assert not reading.problems


@pytest.mark.parametrize(
    "name, typed",
    [
        ("a/amount", "1,200"),
        ("a/amount", ""),
        ("a/amount", "NaN"),
        ("a/amount", "true"),
        ("a/count", "12.0"),
        ("a/count", "1e3"),
        ("a/currency", '"GBP"'),
        ("a/day", "16.11.2026"),
        ("a/rest", '{"a":1,"a":2}'),
    ],
)
def test_what_does_not_fit_is_said_at_its_field_and_kept(name: str, typed: str) -> None:
    posted = {**sent(fields()), name: typed}
    reading = read_fields(fields(), posted)
    again = {one.name: one for one in fill_in(fields(), posted, reading.problems)}

    assert list(reading.problems) == [name]
    assert again[name].text == typed
    assert again[name].error


def test_what_cannot_be_seen_is_edited_by_its_number() -> None:
    args = rb'{"amount":1,"count":1,"to":"ok\u200b\u202egpj\u0000"}'
    to = next(one for one in fields(args) if one.name == "a/to")

    assert (to.kind, to.text) == ("json", '"ok\\u200b\\u202egpj\\u0000"')


def test_a_secret_is_never_in_a_form_and_stays() -> None:
    mark = {"$sealed": "0123456789abcdef"}
    made = make_fields(SCHEMA, {"amount": 1, "count": 1, "to": mark}, "a")
    reading = read_fields(made, {**sent(made), "a/to": "guess"})

    assert reading.value["to"] == mark
    assert not reading.changed


def test_what_a_form_needs_is_missing_until_it_is_there() -> None:
    made = make_fields(SCHEMA, {}, "a")
    reading = read_fields(made, sent(made))
    begun = read_fields(made, {**sent(made), "a/address/no": "1"})

    assert set(reading.problems) == {"a/amount", "a/count", "a/to"}
    assert "a/address/street" in begun.problems


def test_what_is_not_sent_stays() -> None:
    reading = read_fields(fields(), {})

    assert encode_value(reading.value) == encode_value(decode_value(ARGS))
