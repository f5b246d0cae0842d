"""The door log: who was refused what. The port, and the chain that its entries make.

It is apart from the journals, so that whoever is refused again and again makes no run's journal
grow. One chain goes through the whole store; a seal names its head.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import msgspec

from sayso.errors import BadValue
from sayso.store.base import PAGE_MAX

GENESIS = bytes(32)
"""What the first entry is chained to."""
SALT_BYTES = 16
PAYLOAD_BYTES_MAX = 4096
PROJECT_BYTES_MAX = 512


class DoorEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An entry of the door log, as it is kept."""

    n: int
    """From 1, without gaps, in the whole store."""
    project: str
    at: int
    """Store time of the commit, milliseconds since 1970. Never less than the entry's before."""
    salt: bytes
    payload: bytes
    hash: bytes


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where the door log ends."""

    n: int = 0
    hash: bytes = GENESIS


class Door(Protocol):
    """Keeps the door log, which is only ever added to. May be called from many tasks; raises only
    errors of `sayso.errors`.
    """

    async def note(self, project: str, payload: bytes) -> DoorEntry:
        """Add an entry, durably before the answer. `BadValue` if it is too large. `CommitUnknown`
        if the store cannot tell. Once handed over, it is carried out even if nobody awaits its
        answer any more.
        """
        ...

    async def list(
        self, project: str | None = None, *, after: int = 0, limit: int = 50
    ) -> list[DoorEntry]:
        """List the entries of a project, or of all, by number, from the one after a number on. A
        page has at most `limit`, and never more than `PAGE_MAX`.
        """
        ...

    async def head(self) -> Head:
        """Say where the log ends."""
        ...


def link(prev: bytes, *, project: str, n: int, at: int, salt: bytes, payload: bytes) -> bytes:
    """Chain an entry to the one before."""
    name = project.encode()
    return hashlib.sha256(
        b"sayso.door.1"
        + prev
        + len(name).to_bytes(4, "big")
        + name
        + n.to_bytes(8, "big")
        + at.to_bytes(8, "big")
        + hashlib.sha256(salt + payload).digest()
    ).digest()


def next_entry(
    last: DoorEntry | None, *, project: str, at: int, salt: bytes, payload: bytes
) -> DoorEntry:
    """Make the entry that comes after the last one."""
    n, prev = (1, GENESIS) if last is None else (last.n + 1, last.hash)
    at = at if last is None else max(at, last.at)
    made = link(prev, project=project, n=n, at=at, salt=salt, payload=payload)
    return DoorEntry(n=n, project=project, at=at, salt=salt, payload=payload, hash=made)


def check_note(project: Any, payload: Any) -> None:
    """Raise `BadValue` unless this can be noted."""
    try:
        size = len(project.encode())
    except (AttributeError, UnicodeEncodeError):
        raise BadValue("the project of an entry is text") from None
    if size > PROJECT_BYTES_MAX:
        raise BadValue(f"a project has at most {PROJECT_BYTES_MAX} bytes, not {size}")
    if type(payload) is not bytes or len(payload) > PAYLOAD_BYTES_MAX:
        raise BadValue(f"an entry of the door log is at most {PAYLOAD_BYTES_MAX} bytes")


def check_page(after: Any, limit: Any) -> int:
    """Bound a page of a list by number. `BadValue` unless there can be one."""
    if type(after) is not int or not 0 <= after < 1 << 63:
        raise BadValue(f"a page goes on after a number, not {after!r}")
    if type(limit) is not int or limit < 1:
        raise BadValue(f"the limit of a page is a number from 1 on, not {limit!r}")
    return min(limit, PAGE_MAX)
