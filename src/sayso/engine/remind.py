"""Hearing of a hold again: "remind me in an hour". The deadline keeps running meanwhile.

Rule 1: it is a parcel and a mark on a notification, and nothing in the run's journal: nobody makes
a journal spin by putting things off.
Rule 2: only whom a hold asks is reminded of it, and only while it does. One reminder for a person
and a hold: a new one takes the place of the one before.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import msgspec

from sayso.domain.hold import read_id
from sayso.domain.ruling import duration_ms
from sayso.domain.value import Principal
from sayso.engine.parcel import LATER, Slip
from sayso.engine.parts import Parts
from sayso.engine.voters import asked
from sayso.errors import AlreadyDecided, BadPolicy, BadValue, NotAllowed, StaleItem, UnknownHold
from sayso.store.base import HoldFound, NewParcel
from sayso.store.shelf import Item
from sayso.store.views import hold_view, moment

READ = "read"
"""The kind of item that says that somebody has read a notification, or when they want to be told
of it again.
"""
AFTER_MS_MIN, AFTER_MS_MAX = 60_000, 31 * 24 * 3_600_000
"""How soon somebody can be reminded, and how late: a parcel keeps its run from being archived."""
TRIES_MAX = 20

When = datetime | timedelta | str | float
"""A time, or how long from now: `"1h"`, or a number of seconds."""


def read_when(when: When, now: int) -> int:
    """Give the store time that is meant. `BadValue` if it is too soon, too late or no time."""
    match when:
        case datetime():
            if when.tzinfo is None:
                raise BadValue(f"{when} has no time zone: nobody could say when it is")
            at = int(when.timestamp() * 1000)
        case timedelta():
            at = now + int(when.total_seconds() * 1000)
        case _:
            try:
                at = now + duration_ms(when)
            except BadPolicy as error:
                raise BadValue(str(error)) from None
    if not AFTER_MS_MIN <= at - now <= AFTER_MS_MAX:
        raise BadValue("somebody is reminded in a minute at the earliest, and within a month")
    return at


async def remind_later(parts: Parts, hold: str, when: When, by: Principal) -> datetime:
    """Have somebody told again of what they are asked; say when that is."""
    now = parts.store.now()
    at = read_when(when, now)
    place = read_id("hold", hold)
    found = None if place is None else await parts.store.hold(*place)
    if found is None:
        raise UnknownHold(f"there is no hold {hold!r}")
    who = await parts.records.authority(found.project, by)
    # A service may report what happens outside, and has nobody to be told.
    if who.by.kind != "person" or await asked(parts, found, who) is None:
        raise NotAllowed(f"{hold!r} does not ask {by}")
    if found.row.status != "open":
        raise AlreadyDecided(decision=hold_view(found).decision)
    if found.row.deadline is not None and found.row.deadline <= at:
        until = f"{moment(found.row.deadline):%Y-%m-%d %H:%M} UTC"
        raise BadValue(f"it is too late then: the time to decide {hold!r} is over at {until}")
    await _put_off(parts, found, hold, by, at)
    if "reminder" in parts.ledger.notices:
        slip = Slip(hold=hold, at=at, to=who.by.id)
        name = f"{LATER}:{hold}:{hashlib.sha256(who.by.id.encode()).hexdigest()[:32]}"
        data = msgspec.json.encode(slip)
        parcel = NewParcel(id=name, kind=LATER, due_at=at, data=data)
        await parts.store.outbox.put(found.project, found.row.run_id, parcel)
    return moment(at)


def is_read(item: Item | None, now: int) -> bool:
    """Tell whether a notification is nothing new to somebody: they have read it, or want to be told
    of it later.
    """
    return item is not None and (item.data == b"1" or now < int(item.data))


def read_name(by: Principal, hold: str) -> str:
    """Name the item that says what somebody has read of a hold."""
    return f"{by.id}/{hold}"


async def _put_off(parts: Parts, found: HoldFound, hold: str, by: Principal, at: int) -> None:
    """Have the notification new again from that time on, and not before."""
    shelf, name = parts.store.shelf, read_name(by, hold)
    for _ in range(TRIES_MAX):
        item = await shelf.get(found.project, READ, name)
        try:
            rev = 0 if item is None else item.rev
            await shelf.put(found.project, READ, name, str(at).encode(), rev=rev)
        except StaleItem:
            continue
        return
