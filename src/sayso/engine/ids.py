"""Ids: time-ordered, so that keys grow at one end, and random, so that none can be guessed."""

from __future__ import annotations

import os
import re

from sayso.errors import BadValue, UnknownRun

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_BITS, _RANDOM_BITS = 48, 80
_PAIRS = [one + other for one in _ALPHABET for other in _ALPHABET]
_RUN_ID = re.compile(r"run_[A-Za-z0-9_-]{1,80}", re.ASCII)


def new_id(prefix: str, now: int) -> str:
    """Make an id: a prefix, the time in milliseconds, 80 random bits."""
    number = ((now & ((1 << _TIME_BITS) - 1)) << _RANDOM_BITS) | int.from_bytes(os.urandom(10))
    text = "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])
    return f"{prefix}_{text}"


def check_run_id(text: str) -> str:
    """Accept a run id chosen by a caller, or refuse it."""
    if not is_run_id(text):
        raise BadValue(f"{text!r} is not a run id: 'run_' and up to 80 letters, digits, _ or -")
    return text


def look_up(text: str) -> str:
    """Accept what may be the id of a run; `UnknownRun` if no run is ever called that."""
    if not is_run_id(text):
        raise UnknownRun(f"there is no run {text!r}")
    return text


def is_run_id(text: object) -> bool:
    """Tell whether a run may be called this."""
    return isinstance(text, str) and _RUN_ID.fullmatch(text) is not None


def entry_ids(count: int) -> list[bytes]:
    """Make the ids by which a writer recognises its own entries."""
    drawn = os.urandom(8 * count)
    return [drawn[index : index + 8] for index in range(0, 8 * count, 8)]
