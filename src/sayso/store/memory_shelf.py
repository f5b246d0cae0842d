"""The shelf of the store in memory."""

from __future__ import annotations

import builtins
from collections.abc import Callable

from sayso.store.shelf import Item, check_name, check_page, check_put, check_rev, check_stale


class MemoryShelf:
    """Keeps items for as long as the process lives; `check` raises when the store is closed."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._items: dict[tuple[str, str, str], Item] = {}
        self._last_rev = 0

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        check_name(project, kind, id)
        self._check()
        return self._items.get((project, kind, id))

    async def put(self, project: str, kind: str, id: str, data: bytes, *, rev: int) -> Item:
        check_put(project, kind, id, data, rev)
        self._check()
        check_stale(kind, id, found=self.rev(project, kind, id), expected=rev)
        item = Item(project=project, kind=kind, id=id, rev=self.next_rev(), data=data)
        self._items[project, kind, id] = item
        return item

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> builtins.list[Item]:
        limit = check_page(project, kind, after, limit)
        self._check()
        found = [
            item
            for item in self._items.values()
            if (item.project, item.kind) == (project, kind) and (after is None or item.id > after)
        ]
        return sorted(found, key=lambda item: item.id)[:limit]

    async def drop(self, project: str, kind: str, id: str, *, rev: int | None = None) -> None:
        check_name(project, kind, id)
        if rev is not None:
            check_rev(rev, least=1)
        self._check()
        if rev is not None:
            check_stale(kind, id, found=self.rev(project, kind, id), expected=rev)
        self._items.pop((project, kind, id), None)

    def rev(self, project: str, kind: str, id: str) -> int:
        """Give an item's rev, or 0."""
        found = self._items.get((project, kind, id))
        return 0 if found is None else found.rev

    def next_rev(self) -> int:
        """Give a rev that no item has ever had."""
        self._last_rev += 1
        return self._last_rev

    def keep(self, items: dict[tuple[str, str, str], Item | None]) -> None:
        """Take what an append puts, None for what it drops; it has looked at the revs."""
        for name, item in items.items():
            if item is None:
                self._items.pop(name, None)
            else:
                self._items[name] = item
