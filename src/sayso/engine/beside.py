"""Items of a project that were read together with a run: good for a moment, and then read anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sayso.domain.people import PERSON
from sayso.errors import UnknownRun
from sayso.store.base import PAGE_MAX, Store
from sayso.store.journal import look_at
from sayso.store.look import Look, Want, Wish
from sayso.store.shelf import Item

WHOLE = Wish(items=(Want(PERSON),), journal_max=PAGE_MAX)
"""What whoever goes on with a run asks next."""
FRESH_MS = 100
"""After this something slow has come between, such as a check, and people may have changed. Their
revs are compared in the append, but not that a project keeps no people at all.
"""


class Items(Protocol):
    """The reading part of a shelf."""

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        """Read an item."""
        ...

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> list[Item]:
        """List the items of a kind."""
        ...


class Beside:
    """What was read with a run; everything else is read from the shelf."""

    def __init__(
        self,
        project: str,
        found: Mapping[Want, Item | None],
        *,
        shelf: Items,
        tick: Callable[[], int],
        asked: int,
    ) -> None:
        self._project = project
        self._found = found
        self._shelf = shelf
        self._tick = tick
        self._asked = asked
        """When it was asked for."""

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        want = Want(kind, id)
        if self._knows(project, want):
            return self._found[want]
        return await self._shelf.get(project, kind, id)

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> list[Item]:
        want = Want(kind)
        if after is None and limit == 1 and self._knows(project, want):
            first = self._found[want]
            return [] if first is None else [first]
        return await self._shelf.list(project, kind, after=after, limit=limit)

    def _knows(self, project: str, want: Want) -> bool:
        fresh = self._tick() - self._asked <= FRESH_MS
        return fresh and project == self._project and want in self._found


async def look_beside(store: Store, run_id: str, wish: Wish) -> tuple[Look, Beside | None]:
    """Look at a run; give what was read with it of its project, if anything was."""
    asked = store.tick()
    found = await look_at(store, run_id, wish)
    if found is None:
        raise UnknownRun(f"there is no run {run_id!r}")
    if not found.items:
        return found, None
    items = dict(zip(wish.items, found.items, strict=True))
    beside = Beside(found.row.project, items, shelf=store.shelf, tick=store.tick, asked=asked)
    return found, beside
