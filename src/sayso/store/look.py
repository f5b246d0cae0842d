"""A run, with what else is wanted of it at the same time: one round trip where each read is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from sayso.store.base import PAGE_MAX, Entry, RunRow

if TYPE_CHECKING:
    from sayso.store.base import Store
    from sayso.store.shelf import Item


class Want(NamedTuple):
    """An item of a run's project."""

    kind: str
    id: str | None = None
    """None: the first of its kind."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted besides a run's row."""

    items: tuple[Want, ...] = ()
    journal_max: int = 0
    """All of the journal, if it has no more entries than this, and else nothing of it."""


NOTHING = Wish()


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A run's row, and what was read with it."""

    row: RunRow
    items: tuple[Item | None, ...] = ()
    """What is there of those that are wanted, each in its place."""
    journal: tuple[Entry, ...] = ()


async def look_by_parts(store: Store, run_id: str, wish: Wish) -> Look | None:
    """Look at a run where reading is cheap: one thing after another."""
    row = await store.load(run_id)
    if row is None:
        return None
    items = [await _item(store, row.project, want) for want in wish.items]
    most = min(wish.journal_max, PAGE_MAX)
    journal = await store.journal(run_id, limit=most) if row.seq <= most else ()
    return Look(row=row, items=tuple(items), journal=tuple(journal))


async def _item(store: Store, project: str, want: Want) -> Item | None:
    if want.id is not None:
        return await store.shelf.get(project, want.kind, want.id)
    return next(iter(await store.shelf.list(project, want.kind, limit=1)), None)
