"""What can be asked of a store: which runs, and which holds."""

from __future__ import annotations

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
    """Which holds to list, oldest first."""

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
    after: str | None = None
    """The `key` of the last hold of the page before."""
    limit: int = 50
