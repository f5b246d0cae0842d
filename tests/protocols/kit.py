"""Journals of real runs, and what is told of them, with short names for the ids in it."""

from __future__ import annotations

import re
from typing import Any

from sayso.domain.recorded import Recorded
from sayso.protocols.ai_sdk_suspension import Chunk


def short(chunks: list[Chunk], *, data: bool = False) -> list[Chunk]:
    """Give chunks with short ids; without the suspensions, whose content has tests of its own."""
    found = [one for one in chunks if data or one["type"] != "data-suspension"]
    return [_short(one) for one in found]


def kinds(chunks: list[Chunk]) -> list[str]:
    return [one["type"] for one in chunks]


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"(run|hold|msg|req|said)_[0-9a-z]+\.", r"\1.", value)
    return value


def until(entries: list[Recorded], kind: str) -> int:
    """Say how many entries there are up to the first of a kind."""
    return next(index for index, one in enumerate(entries, 1) if one.type == kind)
