"""How soon one thread of a process that serves or works lets another one run.

A busy event loop keeps Python's lock for up to 5 ms at a time, for which the thread that commits
waits, and so does whoever waits for the commit. It is the process that is set, so the library does
not do this inside of somebody's program.
"""

from __future__ import annotations

import sys

SWITCH_S = 0.0005


def take_turns() -> None:
    """Have threads take shorter turns."""
    sys.setswitchinterval(SWITCH_S)
