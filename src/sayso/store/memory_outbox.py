"""The outbox of the store in memory."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from sayso.store.base import NewParcel, Write
from sayso.store.outbox import (
    Parcel,
    check_parcel,
    check_parcel_name,
    check_parcel_page,
    check_take,
    check_time,
    cut_error,
)


class MemoryOutbox:
    """Keeps parcels for as long as the process lives; `check` raises when the store is closed."""

    def __init__(
        self,
        check: Callable[[], None],
        now: Callable[[], int],
        ring: Callable[[], None],
        has_run: Callable[[str, str], bool],
    ) -> None:
        self._check = check
        self._now = now
        self._ring = ring
        self._has_run = has_run
        self._parcels: dict[tuple[str, str], tuple[Parcel, int | None]] = {}
        """Each with the time from which on it may be taken; None: it is dead."""
        self._last_taking = 0

    def post(self, write: Write) -> None:
        """Do what an append that is being committed says; it has been checked."""
        for name in write.unparcels:
            self._parcels.pop((write.project, name), None)
        for new in write.parcels:
            self._keep(write.project, write.run, new)

    async def put(self, project: str, run_id: str, parcel: NewParcel) -> bool:
        check_parcel(project, parcel)
        self._check()
        if not self._has_run(project, run_id):
            return False
        self._keep(project, run_id, parcel)
        return True

    def _keep(self, project: str, run_id: str, new: NewParcel) -> None:
        parcel = Parcel(
            project=project,
            id=new.id,
            kind=new.kind,
            run_id=run_id,
            due_at=new.due_at,
            data=new.data,
            tries=0,
            taken=0,
        )
        self._parcels[project, new.id] = parcel, new.due_at

    async def take(self, *, limit: int = 1, lease_ms: int) -> list[Parcel]:
        limit = check_take(limit, lease_ms)
        self._check()
        now = self._now()
        due = [
            (free_at, parcel)
            for parcel, free_at in self._parcels.values()
            if free_at is not None and free_at <= now
        ]
        due.sort(key=lambda one: one[0])
        self._last_taking += 1
        taken = [
            replace(parcel, tries=parcel.tries + 1, taken=self._last_taking)
            for _, parcel in due[:limit]
        ]
        for parcel in taken:
            self._parcels[parcel.project, parcel.id] = parcel, now + lease_ms
        return taken

    async def done(self, parcel: Parcel) -> None:
        self._check()
        if self._has(parcel):
            del self._parcels[parcel.project, parcel.id]

    async def again(
        self, parcel: Parcel, at: int, *, error: str = "", afresh: bool = False
    ) -> None:
        check_time(at)
        error = cut_error(error)
        self._check()
        if self._has(parcel):
            tries = parcel.tries if error else parcel.tries - 1
            back = replace(parcel, due_at=at, taken=0, tries=tries, error=error or parcel.error)
            if afresh:
                back = replace(back, tries=0, error="")
            self._parcels[parcel.project, parcel.id] = back, at

    async def dead(self, parcel: Parcel, error: str) -> None:
        error = cut_error(error)
        self._check()
        if self._has(parcel):
            gone = replace(parcel, taken=0, error=error)
            self._parcels[parcel.project, parcel.id] = gone, None

    async def dead_ones(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return self._page(project, after or "", dead=True)[:limit]

    async def waiting(
        self, project: str, *, limit: int = 50, after: str | None = None
    ) -> list[Parcel]:
        limit = check_parcel_page(project, after, limit)
        return self._page(project, after or "", dead=False)[:limit]

    def _page(self, project: str, after: str, *, dead: bool) -> list[Parcel]:
        self._check()
        found = [
            parcel
            for parcel, free_at in self._parcels.values()
            if (free_at is None) == dead and parcel.project == project and parcel.id > after
        ]
        return sorted(found, key=lambda parcel: parcel.id)

    async def revive(self, project: str, id: str) -> bool:
        check_parcel_name(project, id)
        self._check()
        parcel, free_at = self._parcels.get((project, id), (None, None))
        if parcel is None or free_at is not None:
            return False
        now = self._now()
        self._parcels[project, id] = replace(parcel, due_at=now, tries=0), now
        self._ring()
        return True

    async def next_due(self) -> int | None:
        self._check()
        return min((at for _, at in self._parcels.values() if at is not None), default=None)

    def _has(self, parcel: Parcel) -> bool:
        """Tell whether a parcel is still in the taking that it was given in."""
        found = self._parcels.get((parcel.project, parcel.id))
        return found is not None and 0 < found[0].taken == parcel.taken
