import pytest

from sayso.domain.hint import HOPS_MAX, Figure, entry_schema, item_schema, read_number, resolve

UNKNOWN = "is money, and its currency is not known"
EUR = {"format": "money", "currency": "EUR"}
CENTS = {"format": "money_minor", "currency": "EUR"}


@pytest.mark.parametrize(
    "value, schema, text",
    [
        (12400.0, EUR, "EUR 12,400.00"),
        (12400, EUR, "EUR 12,400.00"),
        ("12400.5", EUR, "EUR 12,400.50"),
        (-0.5, EUR, "EUR -0.50"),
        (1e16, EUR, "EUR 10,000,000,000,000,000.00"),
        (12400.0, {"format": "money", "currency": "JPY"}, "JPY 12,400"),
        (1.5, {"format": "money", "currency": "KWD"}, "KWD 1.500"),
        (5.0, {"format": "money", "currency": "code"}, "USD 5.00"),
        (1240005, CENTS, "EUR 12,400.05"),
        (-5, CENTS, "EUR -0.05"),
        (7, {"format": "money_minor", "currency": "JPY"}, "JPY 7"),
        (10_000, {}, "10,000"),
        (-12345.25, {}, "-12,345.25"),
        (9999.5, {}, ""),
        ("12345", {}, ""),
        (10**40, {}, ""),
        (5e-324, {}, ""),
        (1.7976931348623157e308, {}, ""),
    ],
)
def test_a_number_is_written_as_people_do(value, schema, text):
    assert read_number(value, schema, {"code": "USD"}) == Figure(text=text)


@pytest.mark.parametrize(
    "value, schema, figure",
    [
        (1.005, EUR, Figure(text="EUR 1.005", note="has more decimal places than EUR")),
        (5.0, {"format": "money"}, Figure(text="5.00", note=UNKNOWN)),
        (5, {"format": "money_minor"}, Figure(note=UNKNOWN)),
        (5.5, CENTS, Figure(note="is to be money, and is no such number")),
        ("5", CENTS, Figure(note="is to be money, and is no such number")),
        ("five", EUR, Figure(note="is to be money, and is no such number")),
        ("\u0665", EUR, Figure(note="is to be money, and is no such number")),
        (10**40, EUR, Figure(note="is to be money, and is no such number")),
    ],
)  # fmt: skip
def test_odd_money_is_noted(value, schema, figure):
    assert read_number(value, schema, {}) == figure


@pytest.mark.parametrize("code", ["eur", "EURO", "\u202eEU", 5, None])
def test_an_odd_currency_is_not_repeated(code):
    schema = {"format": "money", "currency": "code"}

    assert read_number(5, schema, {"code": code}).text == "5.00"


def test_references_and_optional_values_are_followed():
    root = {"$defs": {"a/b": {"title": "far", "format": "money"}}}
    optional = {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}], "title": "near"}

    assert resolve(optional, root)["title"] == "near"
    assert resolve(optional, root)["format"] == "money"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        "text",
        {"$ref": 5},
        {"$ref": "#/nowhere/at/all"},
        {"$ref": "http://elsewhere"},
        {"anyOf": "text"},
        {"anyOf": [{"title": "a"}, {"title": "b"}]},
        {"allOf": []},
    ],
)
def test_odd_schemas_say_nothing(schema):
    assert "title" not in resolve(schema, {"title": "root"})


def test_a_circle_of_references_ends():
    root = {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}

    assert resolve(root, root)["$ref"] == "#/a"
    assert HOPS_MAX > 2


def test_the_schema_of_what_is_inside_is_found():
    schema = {"properties": {"a": 1}, "additionalProperties": 2, "prefixItems": [3], "items": 4}

    assert [entry_schema(schema, key) for key in "ab"] == [1, 2]
    assert [item_schema(schema, at) for at in range(2)] == [3, 4]
    assert entry_schema({"properties": [], "additionalProperties": 2}, "a") == 2
    assert item_schema({"prefixItems": {}, "items": 4}, 0) == 4
