"""What looking a store over finds: facts, each with a level and what to do about it.

Rule: looking changes nothing. What cannot be told is a note, and never taken for well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from sayso.errors import BadKeys
from sayso.store.keyring import VARIABLE, KeyRing
from sayso.store.origin import Origin

Level = Literal["ok", "note", "warning", "problem"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "problem")
"""From well to wrong. A note asks for nothing, a warning for a look, a problem for a change."""
BEHIND_MAX_MS = 1000
"""How far behind the last entry a clock may be: time servers put clocks right by less."""
NAMES_MAX = 5


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check has found."""

    name: str
    """The check, such as `clock`."""
    level: Level
    text: str
    """What there is, and what to do about it."""
    run_id: str = ""
    """The run that it is about, if it is about one."""


class WorkerFact(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as the store knows it."""

    id: str
    state: Literal["alive", "silent", "dead"]
    """`silent`: not heard of for its lease, and not proven dead."""
    runs: int
    """How many running runs it owns."""


def look_at_workers(workers: Sequence[WorkerFact], free: int) -> Finding:
    """Judge the workers; `free` is how many runs are running and have no owner."""
    alive = [one for one in workers if one.state == "alive"]
    silent = [one for one in workers if one.state == "silent"]
    stuck = free + sum(one.runs for one in workers if one.state != "alive")
    if silent:
        return _found(
            "warning",
            f"{_many(len(silent), 'worker was', 'workers were')} not heard of for a whole lease: "
            f"{_names(silent)}, with {_many(stuck, 'run', 'runs')}. Look whether "
            "the process hangs; once it has ended, another worker takes its runs over.",
        )
    if stuck and not alive:
        return _found(
            "warning",
            f"nobody works here, and {_many(stuck, 'run', 'runs')} could go on: start a process "
            "that has their agents.",
        )
    dead = [one for one in workers if one.state == "dead" and one.runs]
    if dead:
        return _found(
            "note",
            f"{_many(len(dead), 'worker', 'workers')} died with runs: "
            f"{_names(dead)}. Another one takes them over by itself.",
        )
    return _found("ok", f"{_many(len(alive), 'worker', 'workers')} at work, all heard of.")


def look_at_move(moved_to: str) -> list[Finding]:
    """Say that all of a store was moved to the one with this name; nothing if there is none."""
    text = f"it was moved to {moved_to!r}: use that one; what is here can only be read."
    return [Finding(name="store", level="warning", text=text)] if moved_to else []


def look_at_clock(now: int, last_at: int) -> Finding:
    """Compare store time with that of the last entry, in milliseconds."""
    behind = last_at - now
    if behind > BEHIND_MAX_MS:
        text = (
            f"the clock is {behind / 1000:,.0f} seconds behind the last entry: set it right. Until "
            "it has caught up, deadlines come late."
        )
        return Finding(name="clock", level="problem", text=text)
    return Finding(name="clock", level="ok", text="store time is not behind the last entry.")


def look_at_origin(origin: Origin) -> Finding:
    """Judge where a store comes from."""
    if not origin.fault:
        text = f"the store is the one that was last worked on (epoch {origin.epoch:,})."
        return Finding(name="origin", level="ok", text=text)
    text = f"the store was restored or copied ({origin.fault}): run `sayso restored` on it."
    return Finding(name="origin", level="warning", text=text)


def look_for_keys(
    path: str | None, env: Mapping[str, str] = os.environ, *, shared: bool = False
) -> Finding:
    """Judge the key ring of a store in a file, of one in memory, or of one that machines share."""
    try:
        ring = KeyRing.look(path, env)
    except BadKeys as error:
        return Finding(name="keys", level="problem", text=f"the keys cannot be used: {error}.")
    if ring is not None:
        return Finding(name="keys", level="ok", text=f"the key ring is {ring!r}.")
    if shared:
        text = f"there are no keys yet: set {VARIABLE}, to the same on every machine."
    elif path is None:
        text = f"there are no keys but those of this process; set {VARIABLE} to keep some."
    else:
        text = (
            f"there are no keys yet: {path + '.keys'!r} is made when the first is needed. Keep a "
            f"copy of it elsewhere, or set {VARIABLE}."
        )
    return Finding(name="keys", level="note", text=text)


def _found(level: Level, text: str) -> Finding:
    return Finding(name="workers", level=level, text=text)


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _names(workers: Sequence[WorkerFact]) -> str:
    left_out = len(workers) - NAMES_MAX
    shown = ", ".join(one.id for one in workers[:NAMES_MAX])
    return f"{shown} and {left_out:,} more" if left_out > 0 else shown
