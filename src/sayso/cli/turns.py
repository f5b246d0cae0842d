"""How a process that serves or works shares its time: among its threads, and with the collector.

A busy event loop keeps Python's lock for up to 5 ms at a time, for which the thread that commits
waits, and so does whoever waits for the commit. And the collector of circles comes by so often that
a tenth of a busy event loop's time goes to it, with hardly anything there to collect. It is the
process that is set, so the library does not do this inside of somebody's program.
"""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.0005
YOUNG_MAX = 10_000
"""How many objects more than before bring the collector by: some megabytes of them."""


def take_turns() -> None:
    """Have threads take shorter turns, and the collector fewer of them."""
    sys.setswitchinterval(SWITCH_S)
    # What was imported by now is there for good.
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
