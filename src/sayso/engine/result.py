"""What a tool returned, made into bytes.

Rule: by then the effect has happened, so a result that cannot be kept is never an error. The model
is told that the tool ran and why its result is not there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sayso.domain.digest import encode_value
from sayso.errors import BadValue

WHY_MAX = 500


def keep_result(result: Any) -> bytes:
    """Encode a result; if that is not possible, encode a note that says so."""
    try:
        return encode_value(result)
    except BadValue:
        pass
    try:
        from pydantic_core import to_jsonable_python

        # NaN would silently become null: a person reading the journal could not tell.
        plain = to_jsonable_python(result, inf_nan_mode="constants", fallback=_fallback)
        return encode_value(plain)
    except Exception as error:  # noqa: BLE001 - serialisers are the tool's own code.
        why = str(error)[:WHY_MAX].encode("utf-8", "replace").decode()
    return encode_value({"sayso": f"the tool ran; its result cannot be kept as JSON: {why}"})


def _fallback(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be kept as JSON")
