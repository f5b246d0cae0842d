"""What every store does to a write before it keeps it, whatever it keeps it in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from sayso.domain.guard import Before, ItemAt, Since
from sayso.errors import BadValue, ConditionFailed, StaleRun
from sayso.store import chain
from sayso.store.base import PAGE_MAX, Entry, ItemPut, Write
from sayso.store.shelf import check_name, check_put, check_rev

if TYPE_CHECKING:
    from sayso.store.query import HoldQuery

HOLD_STATUSES = ("open", "settled", "any")
PLACE_MAX = (1 << 63) - 1


def check_shape(writes: tuple[Write, ...]) -> None:
    """Refuse what no caller may hand over."""
    assert writes, "an append without a write"
    for write in writes:
        assert write.entries, "a write without an entry"
        for entry in write.entries:
            assert len(entry.id) == 8, "an entry id has eight bytes"  # noqa: PLR2004


def check_guard(write: Write, *, seq: int, last: bytes, owner: str) -> None:
    """Raise `StaleRun` unless the run is where the write expects it; `seq` 0: there is none."""
    if seq != write.after:
        raise StaleRun(
            f"run {write.run!r} is at entry {seq}, not {write.after}", run_id=write.run, seq=seq
        )
    if write.after_id is not None and last != write.after_id:
        raise StaleRun(
            f"entry {seq} of run {write.run!r} is another than expected", run_id=write.run, seq=seq
        )
    if write.owner_was is not None and owner != write.owner_was:
        raise StaleRun(
            f"run {write.run!r} is owned by {owner!r}, not {write.owner_was!r}",
            run_id=write.run,
            seq=seq,
        )


class RevOf(Protocol):
    """Gives the rev that an item has right now, or 0."""

    def __call__(self, project: str, kind: str, id: str, /) -> int: ...


def check_conditions(write: Write, at: int, rev_of: RevOf) -> None:
    """Raise `ConditionFailed` unless every condition holds at this store time."""
    for condition in write.only_if:
        match condition:
            case ItemAt(kind=kind, id=id, rev=rev):
                check_name(write.project, kind, id)
                check_rev(rev, least=0)
                _check_item(condition, rev_of(write.project, kind, id))
                continue
            case Before():
                holds = at < condition.at
            case Since():
                holds = at >= condition.at
        if not holds:
            raise ConditionFailed(f"it is {at}, which {condition} forbids", condition=condition)


def check_item(write: Write, item: ItemPut, rev_of: RevOf) -> None:
    """Raise `ConditionFailed` unless an item that a write puts or drops has the rev it names."""
    if item.data is None:
        check_name(write.project, item.kind, item.id)
        check_rev(item.rev, least=1)
    else:
        check_put(write.project, item.kind, item.id, item.data, item.rev)
    expected = ItemAt(kind=item.kind, id=item.id, rev=item.rev)
    _check_item(expected, rev_of(write.project, item.kind, item.id))


def _check_item(expected: ItemAt, found: int) -> None:
    if found != expected.rev:
        there = f"at rev {found}" if found else "not there"
        raise ConditionFailed(
            f"{expected.kind} {expected.id!r} is {there}, which {expected} forbids",
            condition=expected,
        )


def make_entries(write: Write, *, prev: bytes, at: int, position: int) -> list[Entry]:
    """Give numbers, salt and hashes to a write's entries; `position` is the first one's."""
    made: list[Entry] = []
    salts = os.urandom(chain.SALT_BYTES * len(write.entries))
    for index, new in enumerate(write.entries):
        salt = salts[index * chain.SALT_BYTES : (index + 1) * chain.SALT_BYTES]
        seq = write.after + 1 + index
        prev = chain.link(
            prev,
            run_id=write.run,
            seq=seq,
            entry_id=new.id,
            at=at,
            content=chain.leaf(salt, new.payload),
        )
        made.append(
            Entry(
                run_id=write.run,
                seq=seq,
                position=position + index,
                id=new.id,
                at=at,
                salt=salt,
                payload=new.payload,
                hash=prev,
            )
        )
    return made


def check_hold_query(query: HoldQuery) -> None:
    """Refuse a query that no list of holds answers."""
    assert query.suspension is None or query.run_id is not None, "a suspension is of a run"
    if query.status not in HOLD_STATUSES:
        choices = ", ".join(map(repr, HOLD_STATUSES))
        raise BadValue(f"{query.status!r} is no status to list holds by: use one of {choices}")
    if type(query.limit) is not int or query.limit < 1:
        raise BadValue(f"the limit of a page is a number from 1 on, not {query.limit!r}")
    from sayso.store.words import check_search

    check_search(query.search)


def page_size(limit: int) -> int:
    """Bound a page; no page of anything is empty by request or longer than `PAGE_MAX`."""
    return max(1, min(limit, PAGE_MAX))


def hold_key(opened: int, n: int) -> str:
    """Where a list of holds goes on: the position that opened the hold, and its number."""
    return f"{opened}.{n}"


def read_hold_key(key: str | None, *, newest: bool = False) -> tuple[int, int]:
    """Read such a key; None is the beginning. `BadValue` if it is none of ours."""
    if key is None:
        return (PLACE_MAX, PLACE_MAX) if newest else (0, 0)
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"{key!r} is not where a page of holds ended: use `Page.next`")
    opened, dot, n = key.partition(".")
    if not (dot and key.isascii() and opened.isdigit() and n.isdigit()) or len(key) > 36:  # noqa: PLR2004
        raise BadValue(f"{key!r} is not where a page of holds ended")
    # Beyond every hold that there could be, one place is as good as another.
    return min(int(opened), PLACE_MAX), min(int(n), PLACE_MAX)
