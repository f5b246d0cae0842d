"""What can be asked of a store: which runs, and which holds."""

from __future__ import annotations

import re
from typing import Literal

import msgspec


class RunQuery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which runs to list, newest first."""

    project: str | None = None
    status: str | None = None
    agent: str | None = None
    thread: str | None = None
    before: str | None = None
    """Go on after the run with this id, exclusive."""
    limit: int = 50


class HoldQuery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which holds to list, by when they were opened: oldest first, unless it says otherwise."""

    project: str | None = None
    status: Literal["open", "settled", "any"] = "open"
    """`open` includes those decided and not yet effective."""
    who: tuple[str, ...] | None = None
    """Only holds that one of these may decide; None: all."""
    search: tuple[str, ...] = ()
    """Only holds in whose words or ids (hold, run, request) each of these occurs, as part of a word
    or whole. They are folded, have no blanks, and no character in them means anything else.
    """
    run_id: str | None = None
    suspension: int | None = None
    newest: bool = False
    """Newest first."""
    after: str | None = None
    """The `key` of the last hold of the page before, in the same order."""
    limit: int = 50

    def follows(self, place: tuple[int, int], after: tuple[int, int]) -> bool:
        """Tell whether a place comes after another in the order that is asked for."""
        return place < after if self.newest else place > after


class Asked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Somebody who is told that a hold waits for them."""

    run_id: str
    """Empty if it is of no run that there is."""
    n: int
    who: str
    fits: bool
    """Whether that hold is open, and says of them that they may decide it."""
    place: tuple[int, int, int]
    """Where the next page goes on."""


def turn(sql: str) -> str:
    """Turn a statement that lists holds around: from the newest on, down from a place."""
    return re.sub(_ORDER, r"order by \1 desc, \2 desc", sql.replace(") > (", ") < ("))


_ORDER = r"order by ([\w.]+), ([\w.]+)"
