"""Parked runs by the thousand, without an agent: the journal of a real one, under other ids.

The store writes them as it writes any run. That the writes are those that the engine would have
made is proved each time, on runs that it did make.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.digest import call_digest
from sayso.engine.ids import new_id
from sayso.engine.write import make_write
from sayso.store.base import Entry, HoldFound, RunRow, Store, Write
from sayso.store.journal import decode, read_journal
from sayso.store.rows import take_steps

BATCH = 500


async def load(store: Store, pattern: list[e.Event], count: int, *, later_ms: int = 0) -> list[str]:
    """Park so many runs like this one; give their ids. Their deadline is later than its by this."""
    ids = [new_id("run", store.now()) for _ in range(count)]
    for start in range(0, count, BATCH):
        writes = [_like(pattern, one, later_ms) for one in ids[start : start + BATCH]]
        await store.append(*writes)
    return ids


async def read_pattern(store: Store, run_id: str) -> list[e.Event]:
    """Read the events of a parked run."""
    events = [decode(entry) for entry in await read_journal(store, run_id)]
    return [event for event in events if event is not None]


def _like(pattern: list[e.Event], run_id: str, later_ms: int = 0) -> Write:
    """Make the write that parks a run of this id as the pattern is parked."""
    started, taken, opened, suspended = pattern
    assert isinstance(started, e.RunStarted)
    assert isinstance(taken, e.TurnTaken)
    assert isinstance(opened, e.HoldOpened)
    (call,) = taken.calls
    digest = call_digest(
        project=started.project,
        run=run_id,
        version=opened.version,
        tool=call.tool,
        tool_version=call.tool_version,
        args=bytes(call.args),
    )
    deadline = None if opened.deadline is None else opened.deadline + later_ms
    events = [
        replace(started, run=run_id),
        replace(taken, calls=(replace(call, digest=digest),)),
        replace(opened, digest=digest, deadline=deadline),
        suspended,
    ]
    return make_write(b"", take_steps(None, events), owner="")


async def prove(real: Store, loaded: Store, pattern: list[e.Event], run_ids: list[str]) -> None:
    """Load runs that the engine has parked elsewhere, and compare all that is kept of them."""
    await loaded.append(*[_like(pattern, one) for one in run_ids])
    for run_id in run_ids:
        expected, found = await _kept(real, run_id), await _kept(loaded, run_id)
        assert found == expected, f"the runs that are loaded are not like real ones: {found}"


async def _kept(store: Store, run_id: str) -> list[object]:
    row, hold = await store.load(run_id), await store.hold(run_id, 1)
    assert row is not None
    assert hold is not None
    journal = await read_journal(store, run_id)
    return [_plain(row), _plain(hold), [_plain(entry) for entry in journal]]


def _plain(one: RunRow | HoldFound | Entry) -> object:
    """Leave out what is drawn by lot, follows from that, or says when it was written."""
    found = msgspec.to_builtins(one)
    for each in (found, found.get("opened", {}), found.get("args", {})):
        for name in _DRAWN & each.keys():
            del each[name]
    return found


_DRAWN = frozenset({"id", "hash", "last", "position", "salt", "key"})
