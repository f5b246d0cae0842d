"""What a JSON Schema tells about how to show a value: names, and which numbers are money.

A schema may come from anywhere, so it is a hint and nothing more: what is odd in it is passed over,
and what it makes of a value is shown beside the value, never instead of it.

Money is `{"format": "money", "currency": C}` for a number, or a text, of whole units, and
`{"format": "money_minor", "currency": C}` for an integer of the smallest (cents). `C` is a code of
three capital letters, or the name of the argument beside it that has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from sayso.domain.value import Value

HOPS_MAX = 16
"""How many references and alternatives are followed to one value's hints."""
DIGITS_SHOWN = 30
"""How many digits are grouped; nobody reads more as one number."""
GROUPED_MIN = 10_000
_CODE = re.compile("[A-Z]{3}")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PLACES_USUAL = 2
_PLACES: dict[str, int] = {
    **dict.fromkeys(["CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
}

Schema = Mapping[str, Any]
"""A JSON Schema, or a part of one."""
NO_SCHEMA: Schema = {}


class Figure(Value, frozen=True, kw_only=True):
    """What a number means, in the form that people read."""

    text: str = ""
    note: str = ""


def resolve(schema: Any, root: Schema) -> Schema:
    """Follow references and lone alternatives to what a schema says. What is nearest wins."""
    found: dict[str, Any] = {}
    for _ in range(HOPS_MAX):
        if not isinstance(schema, Mapping):
            return found
        schema = cast("Schema", schema)
        found = {**schema, **found}
        reference = schema.get("$ref")
        schema = _refer(reference, root) if isinstance(reference, str) else _only(schema)
    return found


def entry_schema(schema: Schema, key: str) -> Any:
    """Give the schema of an object's entry."""
    entries = schema.get("properties")
    if isinstance(entries, Mapping) and key in entries:
        return cast("Schema", entries)[key]
    return schema.get("additionalProperties")


def item_schema(schema: Schema, at: int) -> Any:
    """Give the schema of a list's item."""
    first = schema.get("prefixItems")
    if isinstance(first, list) and at < len(cast("list[Any]", first)):
        return cast("list[Any]", first)[at]
    return schema.get("items")


def text_of(schema: Schema, key: str) -> str:
    """Give a text of a schema; empty if it is none."""
    text = schema.get(key)
    return text if isinstance(text, str) else ""


def read_number(value: float | str, schema: Schema, beside: Mapping[str, Any]) -> Figure:
    """Read a number as its schema says, or else in groups of three if it is long."""
    kind = text_of(schema, "format")
    if kind in ("money", "money_minor"):
        return _money(value, text_of(schema, "currency"), beside, minor=kind == "money_minor")
    number = _exact(value) if not isinstance(value, str) else None
    if number is None or abs(number) < GROUPED_MIN:
        return Figure()
    return Figure(text=f"{number:,f}")


def _refer(reference: str, root: Schema) -> Any:
    """Follow a JSON Pointer inside the schema; None if it leads nowhere."""
    steps = reference.removeprefix("#").split("/")[1:]
    found: Any = root if reference.startswith("#/") else None
    for step in steps:
        if not isinstance(found, Mapping):
            return None
        found = cast("Schema", found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _only(schema: Schema) -> Any:
    """Give the one alternative that is not null, as an optional value has it."""
    for word in ("anyOf", "oneOf", "allOf"):
        some = schema.get(word)
        if isinstance(some, list):
            real = [one for one in cast("list[Any]", some) if one != {"type": "null"}]
            return real[0] if len(real) == 1 else None
    return None


def _money(value: float | str, named: str, beside: Mapping[str, Any], *, minor: bool) -> Figure:
    number = _exact(value)
    if number is None or (minor and not isinstance(value, int)):
        return Figure(note="is to be money, and is no such number")
    code = named if _CODE.fullmatch(named) else beside.get(named)
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        # Cents of what has no name could be of anything.
        whole = "" if minor else _grouped(number, _PLACES_USUAL)[0]
        return Figure(text=whole, note="is money, and its currency is not known")
    places = _PLACES.get(code, _PLACES_USUAL)
    if minor:
        sign, digits, _ = number.as_tuple()
        number = Decimal((sign, digits, -places))
    text, decimals = _grouped(number, places)
    odd = f"has more decimal places than {code}" if decimals > places else ""
    return Figure(text=f"{code} {text}", note=odd)


def _exact(value: float | str) -> Decimal | None:
    """Read a number exactly; None if it is none, or longer than anybody reads."""
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return None
    if len(text) > DIGITS_SHOWN:
        return None
    number = Decimal(text)
    return number if -DIGITS_SHOWN < number.adjusted() < DIGITS_SHOWN else None


def _grouped(number: Decimal, places: int) -> tuple[str, int]:
    """Write a number in groups of three, with so many decimal places or more, and say how many."""
    whole, _, decimals = f"{number:,f}".partition(".")
    kept = decimals.rstrip("0").ljust(places, "0")
    return f"{whole}.{kept}".rstrip("."), len(kept)
