"""Bytes, not objects: how values become bytes, and what a person's decision is bound to.

Rule 1: a value is encoded once; what is shown, decided and executed are those bytes.
Rule 2: what has no single reading is refused: NaN, duplicate keys, lone surrogates, other types.
Rule 3: 12400 and 12400.0 are different values, and integers have no upper bound but `DIGITS_MAX`.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, cast

import msgspec

from sayso.errors import BadValue

BYTES_MAX = 256 * 1024
"""No argument, answer or result is larger; beyond this a person cannot judge it anyway."""
DEPTH_MAX = 100
DIGITS_MAX = 4000
"""Below the 4,300 digits at which Python itself refuses to convert an integer to text."""
_INTEGER_END = 10**DIGITS_MAX


def encode_value(value: Any, *, bytes_max: int = BYTES_MAX) -> bytes:
    """Encode a JSON value to its only bytes, or raise `BadValue` saying where it cannot be."""
    floats = _check(value)
    # Not everybody writes 1e+16 as we do. For all else there is one way, and this is a fast one.
    data = _ENCODER.encode(value).encode("utf-8") if floats else _OWN_ENCODER.encode(value)
    if len(data) > bytes_max:
        raise BadValue(f"this value has {len(data):,} bytes, more than {bytes_max:,}")
    return data


def decode_value(data: bytes | str, *, bytes_max: int = BYTES_MAX) -> Any:
    """Parse JSON strictly: anything that two parsers could read differently is `BadValue`."""
    try:
        data = data.encode("utf-8") if isinstance(data, str) else data
        if len(data) > bytes_max:
            raise BadValue(f"this JSON has {len(data):,} bytes, more than {bytes_max:,}")
        if (own := _read_own(data)) is not None:
            return own[0]
        value = _DECODER.decode(data.decode("utf-8"))
    except BadValue:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise BadValue(f"this is not JSON: {error or type(error).__name__}") from None
    _check(value)
    return value


def _read_own(data: bytes) -> tuple[Any] | None:
    """Parse what was written by us, or as we do but for the order of keys, as nearly all is that
    we read; None if it may not have been.

    What is written like this again has one reading: no key is there twice, and no number and no
    character was taken for another.
    """
    # How deep a value is, and how long its numbers are, is for `_check` to say of all others.
    if len(data) > DIGITS_MAX or data.count(b"[") + data.count(b"{") > DEPTH_MAX:
        return None
    try:
        value = _OWN_DECODER.decode(data)
    except ValueError:
        return None
    return (value,) if _AGAIN_ENCODER.encode(value) == data else None


def canonical(data: bytes | str) -> bytes:
    """Parse JSON from outside and encode it to its only bytes."""
    return encode_value(decode_value(data))


def same_but_for_order(one: bytes, two: bytes) -> bool:
    """Tell whether two encoded values differ at most in the order of lists: what is a set has no
    order of its own, and comes out in another one in each process.
    """
    if one == two:
        return True
    # As bytes: to Python, 1 and 1.0 and True are equal.
    return encode_value(_unordered(decode_value(one))) == encode_value(
        _unordered(decode_value(two))
    )


def call_digest(
    *,
    project: str,
    run: str,
    version: int,
    tool: str,
    tool_version: str,
    args: bytes,
    operands: bytes = b"",
) -> str:
    """Name exactly what a person is asked about; a decision carries this.

    `operands` are the files that the arguments name, as `operand.encode_pins` writes them.
    """
    parts = (project, run, str(version), tool, tool_version, args)
    return _sha256("sayso.call.1", *parts, *((operands,) if operands else ()))


def ask_digest(*, project: str, run: str, call: str, step: int, ask: bytes) -> str:
    """Name exactly what a call asks of a person, where it is not about the call itself."""
    return _sha256("sayso.ask.1", project, run, call, str(step), ask)


def suspension_digest(*, request_id: str, members: list[str]) -> str:
    """Name everything one suspension asks about."""
    return _sha256("sayso.suspension.1", request_id, *members)


def request_digest(*parts: str | bytes) -> str:
    """Name a request that carries an idempotency key, to tell a retry from another request."""
    return _sha256("sayso.request.1", *parts)


def _sha256(*parts: str | bytes) -> str:
    # Every part is preceded by its length, so that no two lists of parts hash alike.
    pieces: list[bytes] = []
    for part in parts:
        data = part.encode("utf-8") if isinstance(part, str) else part
        pieces += (len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def _check(value: Any) -> bool:
    """Refuse what cannot be encoded; tell whether there is a float in the rest."""
    floats = False
    # A stack rather than recursion, so that depth is our limit and not the interpreter's.
    stack: list[tuple[Any, int]] = [(value, 0)]
    count = 1
    while stack:
        item, depth = stack.pop()
        if depth > DEPTH_MAX:
            # A circular value ends here too.
            raise BadValue(f"this value is nested deeper than {DEPTH_MAX}")
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind is bool or item is None or (kind is str and item.isascii()):
            continue  # Nearly all of what there is to check.
        _check_one(item)
        floats = floats or kind is float
        if kind not in (dict, list, tuple):
            continue
        # Counted before they are looked at: a long list that holds itself must not fill memory.
        count += len(item)
        if count > BYTES_MAX:
            raise BadValue(f"this value has more than {BYTES_MAX:,} parts")
        children = item.values() if kind is dict else item
        stack += [(child, depth + 1) for child in children]
    return floats


def _check_one(item: Any) -> None:
    kind = type(item)  # pyright: ignore[reportUnknownVariableType]
    if kind is list or kind is tuple:
        return
    if kind is str:
        _check_text(item)
    elif kind is int:
        if not -_INTEGER_END < item < _INTEGER_END:
            raise BadValue(f"an integer has more than {DIGITS_MAX:,} digits")
    elif kind is float:
        if not math.isfinite(item):
            raise BadValue(f"{item!r} has no place in JSON")
    elif kind is dict:
        for key in item:
            if type(key) is not str:
                # Not the key itself: its text may be endless, or an error of its own.
                raise BadValue(f"a key of type {type(key).__name__} is not a string")
            if not key.isascii():
                _check_text(key)
    else:
        raise BadValue(f"a value of type {kind.__name__} cannot be kept as JSON")


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(child) for key, child in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        children = [_unordered(child) for child in cast("list[Any]", value)]
        return sorted(encode_value(child).decode() for child in children)
    return value


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadValue("a string has a lone surrogate, which is not a character") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadValue("an object has the same key twice")
    return found


def _constant(name: str) -> Any:
    raise BadValue(f"{name} has no place in JSON")


_ENCODER = json.JSONEncoder(
    sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":")
)
_OWN_DECODER = msgspec.json.Decoder()
_OWN_ENCODER = msgspec.json.Encoder(order="sorted")
_AGAIN_ENCODER = msgspec.json.Encoder()
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
