"""The shelf: the port for small things that are no runs. Each docstring is a contract, and
`sayso.testing.contract` is its test.

People, tokens, sessions, grants, credentials and notifications are items: bytes under a project, a
kind and an id. A shelf knows nothing of what the bytes mean, and keeps no history of them. What is
secret is sealed by whoever puts it there.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from sayso.errors import BadValue, StaleItem
from sayso.store.base import PAGE_MAX

NAME_BYTES_MAX = 512
"""The longest project, kind or id, in UTF-8."""
DATA_BYTES_MAX = 64 << 10
"""The largest item: a full page of them still fits into memory."""
REV_MAX = (1 << 63) - 1


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """An item as it is kept."""

    project: str
    kind: str
    """What it is, such as `credential`."""
    id: str
    rev: int
    """Which version of it: above zero, and never given twice in a store, so that an item which was
    dropped and made anew is not taken for the one before.
    """
    data: bytes


class Shelf(Protocol):
    """Keeps items. May be called from many tasks; raises only errors of `sayso.errors`.

    A project, kind or id is text of 1 to `NAME_BYTES_MAX` bytes, data has up to `DATA_BYTES_MAX`;
    `BadValue` otherwise, and nothing is changed.
    """

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        """Read an item as of the last commit; None if there is none."""
        ...

    async def put(self, project: str, kind: str, id: str, data: bytes, *, rev: int) -> Item:
        """Keep an item in place of the one with this rev, durably before the answer; 0: there must
        be none. The answer has the item's new rev, which is higher.

        `StaleItem` if what is there has another rev, or if nothing is: it was changed by somebody
        else, and this changes nothing. `CommitUnknown` if the store cannot tell; look again. Once
        handed over, a put is carried out even if nobody awaits its answer any more.
        """
        ...

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> list[Item]:
        """List the items of a kind by id, in the order of code points, from the one after an id on.
        A page has at most `limit` items, and never more than `PAGE_MAX`.
        """
        ...

    async def drop(self, project: str, kind: str, id: str, *, rev: int | None = None) -> None:
        """Drop the item with this rev, durably before the answer; None: whichever there is, if any.
        What it held is erased.

        `StaleItem` if a rev is given and what is there has another, or if nothing is.
        """
        ...


def check_name(project: str, kind: str, id: str) -> None:
    """Raise `BadValue` unless this can name an item."""
    for word, text in (("project", project), ("kind", kind), ("id", id)):
        check_text(f"the {word} of an item", text)


def check_put(project: str, kind: str, id: str, data: bytes, rev: int) -> None:
    """Raise `BadValue` unless this can be put."""
    check_name(project, kind, id)
    check_rev(rev, least=0)
    if type(data) is not bytes:
        raise BadValue(f"the data of an item is bytes, not {type(data).__name__}")
    if len(data) > DATA_BYTES_MAX:
        raise BadValue(f"an item of {len(data)} bytes is too large: {DATA_BYTES_MAX} is the most")


def check_rev(rev: Any, *, least: int) -> None:
    """Raise `BadValue` unless an item, or with 0 the lack of one, can have this rev."""
    if type(rev) is not int or not least <= rev <= REV_MAX:
        raise BadValue(f"a rev is a number from {least} on, not {rev!r}")


def check_page(project: str, kind: str, after: str | None, limit: int) -> int:
    """Bound a page of a list. `BadValue` unless there can be one."""
    check_text("the project of an item", project)
    check_text("the kind of an item", kind)
    if after is not None:
        check_text("where a page of items ended", after)
    if type(limit) is not int or limit < 1:
        raise BadValue(f"the limit of a page is a number from 1 on, not {limit!r}")
    return min(limit, PAGE_MAX)


def check_stale(kind: str, id: str, *, found: int, expected: int) -> None:
    """Raise `StaleItem` unless an item has the rev that is expected; 0: there is none."""
    if found != expected:
        there = f"at rev {found}" if found else "not there"
        wanted = f"rev {expected}" if expected else "none"
        raise StaleItem(f"{kind} {id!r} is {there}, where {wanted} was expected", rev=found)


def check_text(what: str, text: Any) -> None:
    """Raise `BadValue` unless this can be a part of a name."""
    if type(text) is not str or not text:
        raise BadValue(f"{what} is text that is not empty, not {text!r:.80}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadValue(f"{what} has half a character in it") from None
    if size > NAME_BYTES_MAX:
        raise BadValue(f"{what} has {size} bytes; {NAME_BYTES_MAX} is the most")
    if not text.isprintable():
        raise BadValue(f"{what} has characters in it that nobody can see")
