"""How much of everything is done."""

from __future__ import annotations

import msgspec


class Size(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int
    cycles: int
    """In a round, one after another."""
    cycles_at_once: int
    """In a round, 64 at a time."""
    history_cycles: int
    few: int
    """Parked runs to compare with."""
    many: int
    pending_few: int
    """Holds with one deadline to compare with."""
    pending: int
    parked: int
    """Runs in a database,"""
    due: int
    """of which so many have one deadline."""
    pending_real: bool
    """Whether an agent asks for each of them, rather than being copied from one that did."""
    decisions: int
    """Of as many holds."""
    looks: int
    """How often a list is read, or a parked run resumed."""
    cold: int
    wakes: int
    idle_s: float
    polite_cycles: int
    http_cycles: int
    """Requests in a round."""
    readers: int
    """Of one run, over HTTP."""
    keys: int
    """Pressed in a browser."""
    busy_cycles: int
    patience_s: float
    """With a loop that is busy and starves the writer."""


NORMAL = Size(
    rounds=9,
    cycles=100,
    cycles_at_once=640,
    history_cycles=10,
    few=1_000,
    many=10_000,
    pending_few=1_000,
    pending=100_000,
    parked=100_000,
    due=10_000,
    pending_real=False,
    decisions=500,
    looks=200,
    cold=15,
    wakes=200,
    idle_s=5,
    polite_cycles=300,
    http_cycles=160,
    readers=1_000,
    keys=20,
    busy_cycles=15,
    patience_s=10,
)
LARGE = msgspec.structs.replace(
    NORMAL, many=100_000, pending_real=True, parked=1_000_000, due=100_000
)
QUICK = Size(
    rounds=1,
    cycles=5,
    cycles_at_once=64,
    history_cycles=1,
    few=60,
    many=120,
    pending_few=100,
    pending=1_000,
    parked=1_000,
    due=400,
    pending_real=False,
    decisions=20,
    looks=5,
    cold=1,
    wakes=5,
    idle_s=0.2,
    polite_cycles=5,
    http_cycles=16,
    readers=20,
    keys=3,
    busy_cycles=1,
    patience_s=1,
)
