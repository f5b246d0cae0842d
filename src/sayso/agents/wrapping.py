"""Secrets in what pydantic dumps: found by their types, and put in the open for the vault.

Rule: pydantic hides a secret in JSON and hands it over in Python, so what it dumps as the one is
looked at beside the other. A secret that is found in neither way is refused by `schema.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sayso.domain.secret import OPEN, Secret
from sayso.errors import BadValue


def wrap(plain: Any, live: Any) -> Any:
    """Give `plain`, a JSON dump, with each secret of `live`, the same in Python, in the open."""
    if is_secret(live):
        return {OPEN: reveal(live)}
    if isinstance(live, Mapping) and isinstance(plain, dict):
        inner = list(cast("Mapping[Any, Any]", live).values())
        entries = cast("dict[str, Any]", plain).items()
        if len(inner) != len(entries):
            return cast("Any", plain)
        return {key: wrap(one, two) for (key, one), two in zip(entries, inner, strict=True)}
    if isinstance(live, set | frozenset) and any(map(is_secret, cast("set[Any]", live))):
        raise BadValue("a set has no order in which its secrets could be kept: take a list")
    if isinstance(live, list | tuple) and isinstance(plain, list):
        items, twins = cast("list[Any]", plain), list(cast("list[Any]", live))
        if len(items) == len(twins):
            return [wrap(one, two) for one, two in zip(items, twins, strict=True)]
    return cast("Any", plain)


def is_write_only(schema: Any) -> bool:
    """Tell whether a JSON Schema has anything in it that may be written and never read."""
    if isinstance(schema, list):
        return any(is_write_only(one) for one in cast("list[Any]", schema))
    if not isinstance(schema, dict):
        return False
    found = cast("dict[str, Any]", schema)
    return found.get("writeOnly") is True or any(is_write_only(one) for one in found.values())


def is_secret(value: Any) -> bool:
    """Tell whether a value is a secret: ours, or one of pydantic's."""
    return isinstance(value, Secret) or callable(getattr(value, "get_secret_value", None))


def reveal(value: Any) -> Any:
    """Give what a secret hides, as JSON has it."""
    if isinstance(value, Secret):
        return value.reveal()
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value.get_secret_value())
