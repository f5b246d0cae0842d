"""The outbox: the port for parcels, which are to be delivered. Each docstring is a contract, and
`sayso.testing.contract` is its test.

Parcels are written by `append`, with the entries that they are about or not at all, or put for
somebody who wants to hear of something again. They are delivered at least once: whoever delivers
one takes it for a while, and if nothing is heard of it by then, it comes again. An outbox knows
nothing of what the bytes mean. They should hold nothing secret: what a parcel held may be read from
the store's files for some time after it is gone.
"""

from __future__ import annotations

import builtins
from typing import Any, Protocol

import msgspec

from sayso.errors import BadValue
from sayso.store.base import PAGE_MAX, NewParcel, Write
from sayso.store.shelf import DATA_BYTES_MAX, check_text

PARCEL_LEASE_MS_MAX = 24 * 3600 * 1000
"""Nobody takes a parcel for longer."""
ERROR_CHARS_MAX = 1000
"""How much is kept of what went wrong."""
TIME_MAX = (1 << 63) - 1


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """A parcel as it was taken, or as it lies among the dead."""

    project: str
    id: str
    kind: str
    """What it is, such as `reminder`."""
    run_id: str
    """The run whose write put it there."""
    due_at: int
    """When it was to be delivered, in store time."""
    data: bytes
    tries: int
    """How often it was taken, this time included and without those when it was put back for no
    error. A taker that crashed has tried.
    """
    taken: int
    """Which taking this is: above zero, and never given twice in a store for the same parcel or
    one of the same id; 0 among the dead.
    """
    error: str = ""
    """What went wrong last, if anybody said so."""


class Outbox(Protocol):
    """Keeps parcels. May be called from many tasks; raises only errors of `sayso.errors`.

    The project, kind and id of a parcel are text as the shelf has it, data has up to
    `DATA_BYTES_MAX` bytes; `BadValue` otherwise, and nothing is changed. Every change is durable
    before its answer; `CommitUnknown` if the store cannot tell, and the parcel may then come again.
    """

    async def put(self, project: str, run_id: str, parcel: NewParcel) -> bool:
        """Put a parcel that no append is about, in place of the one with the same id, if there is
        one. False, and nothing happens, if the project has no such run.
        """
        ...

    async def take(self, *, limit: int = 1, lease_ms: int) -> builtins.list[Parcel]:
        """Take parcels that are due by store time and that nobody has, oldest due first.

        They are the caller's for `lease_ms` by store time, and given to nobody else meanwhile. One
        that is neither done, put back nor dead by then is due again at that time. At most `limit`
        parcels, and never more than `PAGE_MAX`. Costs no more than a read when nothing is due.
        """
        ...

    async def done(self, parcel: Parcel) -> None:
        """Remove a parcel that was delivered.

        Nothing happens if it is no longer in this very taking: somebody else has it by now, or an
        append has replaced or removed it. That its time has passed alone is no hindrance.
        """
        ...

    async def again(
        self, parcel: Parcel, at: int, *, error: str = "", afresh: bool = False
    ) -> None:
        """Put a parcel back, due at another time. Without an error this was no try. Of the error,
        `ERROR_CHARS_MAX` characters are kept. With `afresh` it is one that was never tried, and had
        no error: it was delivered, and is to be once more. Nothing happens if it is no longer in
        this taking.
        """
        ...

    async def dead(self, parcel: Parcel, error: str) -> None:
        """Give a parcel up: it lies among the dead, and is never due, until it is revived, replaced
        or removed. Nothing happens if it is no longer in this taking.
        """
        ...

    async def dead_ones(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> builtins.list[Parcel]:
        """List the dead parcels of a project by id, in the order of code points, from the one after
        an id on. A page has at most `limit` parcels, and never more than `PAGE_MAX`.
        """
        ...

    async def waiting(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> builtins.list[Parcel]:
        """List the parcels of a project that are not dead, those that somebody has taken included,
        in the same way.
        """
        ...

    async def revive(self, project: str, id: str) -> bool:
        """Make a dead parcel due now, as one that was never tried; tell whether there was one. A
        watch on all runs hears of it.
        """
        ...

    async def next_due(self) -> int | None:
        """Say when the next parcel is due, in store time: now or earlier if one can be taken, later
        if all are, or are taken by somebody; None if there is none.
        """
        ...


def check_parcels(write: Write) -> None:
    """Raise `BadValue` unless the parcels of a write can be kept, and those it removes be named."""
    for parcel in write.parcels:
        check_parcel(write.project, parcel)
    for name in write.unparcels:
        check_parcel_name(write.project, name)


def check_parcel(project: str, parcel: NewParcel) -> None:
    """Raise `BadValue` unless a parcel can be kept."""
    check_parcel_name(project, parcel.id)
    check_text("the kind of a parcel", parcel.kind)
    check_time(parcel.due_at)
    if type(parcel.data) is not bytes:
        raise BadValue(f"the data of a parcel is bytes, not {type(parcel.data).__name__}")
    if len(parcel.data) > DATA_BYTES_MAX:
        raise BadValue(
            f"a parcel of {len(parcel.data)} bytes is too large: {DATA_BYTES_MAX} is the most"
        )


def check_parcel_name(project: str, id: str) -> None:
    """Raise `BadValue` unless a parcel can have this name."""
    check_text("the project of a parcel", project)
    check_text("the id of a parcel", id)


def check_time(at: Any) -> None:
    """Raise `BadValue` unless a parcel can be due at this time."""
    if type(at) is not int or not 0 <= at <= TIME_MAX:
        raise BadValue(f"a parcel is due at a number of milliseconds since 1970, not {at!r}")


def check_take(limit: Any, lease_ms: Any) -> int:
    """Bound a taking. `BadValue` unless there can be one."""
    if type(lease_ms) is not int or not 1 <= lease_ms <= PARCEL_LEASE_MS_MAX:
        raise BadValue(
            f"parcels are taken for 1 to {PARCEL_LEASE_MS_MAX} milliseconds, not {lease_ms!r}"
        )
    return _check_limit(limit)


def check_parcel_page(project: str, after: str | None, limit: int) -> int:
    """Bound a page of parcels. `BadValue` unless there can be one."""
    check_text("the project of a parcel", project)
    if after is not None:
        check_text("where a page of parcels ended", after)
    return _check_limit(limit)


def cut_error(error: Any) -> str:
    """Keep of an error what an outbox keeps: a fault in a message must not lose the parcel."""
    if type(error) is not str:
        raise BadValue(f"what went wrong with a parcel is text, not {type(error).__name__}")
    return error[:ERROR_CHARS_MAX].encode("utf-8", "replace").decode()


def _check_limit(limit: Any) -> int:
    if type(limit) is not int or limit < 1:
        raise BadValue(f"the limit of a page is a number from 1 on, not {limit!r}")
    return min(limit, PAGE_MAX)
