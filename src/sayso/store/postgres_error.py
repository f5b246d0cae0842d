"""What PostgreSQL says when it cannot, in our own words. None of them has a password in it."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from sayso.errors import (
    BadValue,
    CommitUnknown,
    NotKeeper,
    SaysoError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreMoved,
    StoreNewer,
    StoreReadOnly,
)
from sayso.store.origin import restored

_BUSY = {"55P03", "57014", "40P01", "40001", "53300", "55006"}
"""Locked for too long, cancelled by a time limit, given up for another one, no connection left."""
_NOT_TEXT = {"22P05", "22021"}
_GONE = "08"
_DAMAGED = {"XX001", "XX002", "42P01", "42883", "42703", "42704"}
"""Pages that cannot be read, or a part of the schema that is not there."""
_OUR_OWN = "SY"
"""What our own functions say. In which of them it was is nobody else's concern."""
_SIGN_IN = {"28P01", "28000"}
_OPENING: Mapping[str, str] = {
    "28P01": "it does not take the user and the password: put them right in the address",
    "28000": "it does not let this user in: look at its pg_hba.conf, and at how it wants TLS",
    "3D000": "it has no such database: make it with `createdb`, or name another one",
    "53300": "it has as many connections as it allows: allow more, or open fewer stores",
    "57P03": "it is starting or stopping: try again in a moment",
}

_PASSING = {"53300", "57P03"}
"""What others end by going away, or by being there at last."""


def translate(error: BaseException, name: str, *, password: str = "") -> SaysoError:
    """Say what went wrong with a store while it was used."""
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, psycopg.DataError) and not state:
        return BadValue(f"it cannot be kept: {error}")
    if isinstance(error, UnicodeEncodeError):
        return BadValue("it cannot be kept: there is half a character in it")
    return from_state(state, said(error, password), name)


def from_state(state: str, text: str, name: str) -> SaysoError:
    """Say what an SQLSTATE means."""
    if state.startswith(_OUR_OWN):
        text = text.partition(" CONTEXT:")[0]
    if state in _BUSY:
        return StoreBusy(f"{name!r} was kept by others for too long ({text}); nothing was written")
    if state in _NOT_TEXT:
        return BadValue(f"it cannot be kept: {text}")
    if state in _DAMAGED:
        return StoreDamaged(f"{name!r} is damaged, or not all there: {text}")
    match state:
        case "SY010":
            return StoreMoved(text)
        case "53100":
            return StoreFull(f"the disk of {name!r} is full; nothing was written")
        case "SY009":
            return restored(name, text)
        case "25006":
            return StoreReadOnly(f"{name!r} cannot be written to: {text}")
        case "SY007":
            return StoreNewer(f"{name!r} was brought up by a newer Sayso: {text}; upgrade this one")
        case "SY008":
            return NotKeeper(f"{text} in {name!r}: use an address with that role")
        case "42501":
            return StoreReadOnly(f"this user may not do that in {name!r}: {text}; grant it")
        case "":
            return StoreError(f"{name!r} cannot be reached: {text}")
        case _:
            return StoreError(f"{name!r} could not do it: {text}")


def unreachable(error: BaseException, name: str, password: str = "") -> StoreError:
    """Say why a store could not be opened."""
    text = said(error, password)
    state = getattr(error, "sqlstate", None) or _guess(text)
    if state in _OPENING:
        kind = StoreBusy if state in _PASSING else StoreError
        return kind(f"{name!r} cannot be opened: {_OPENING[state]}")
    if state:
        found = from_state(state, text, name)
        return found if isinstance(found, StoreError) else StoreError(str(found))
    return StoreError(f"{name!r} cannot be reached: {text}; is it running, and the address right?")


def lost(error: BaseException, name: str, password: str = "") -> CommitUnknown:
    """Say that a connection was cut while a write was under way."""
    return CommitUnknown(
        f"{name!r} did not say whether the write was committed: {said(error, password)}"
    )


def said(error: BaseException, password: str = "") -> str:
    """Give the first line of what was said, without the password."""
    text = str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = " ".join(lines[:2])
    return line.replace(password, "***") if password else line


def _guess(text: str) -> str:
    """Find out what a connection was refused for: libpq gives its state in words alone."""
    words = {
        "password authentication failed": "28P01",
        "no password supplied": "28P01",
        "pg_hba.conf": "28000",
        "Peer authentication failed": "28000",
        "too many clients": "53300",
        "remaining connection slots": "53300",
        "is starting up": "57P03",
        "is shutting down": "57P03",
    }
    if "database" in text and "does not exist" in text:
        return "3D000"
    if "role" in text and "does not exist" in text:
        return "28P01"
    return next((state for word, state in words.items() if word in text), "")
