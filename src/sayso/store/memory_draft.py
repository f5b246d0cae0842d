"""An append in the making, in memory: what is kept of it, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sayso.domain.lifecycle import OPEN
from sayso.errors import KeyReused, StoreError, ThreadBusy
from sayso.store import chain
from sayso.store.admit import check_conditions, check_guard, check_item, make_entries
from sayso.store.base import Entry, HoldRow, ItemPut, KeyRow, RunRow, Write
from sayso.store.memory_shelf import MemoryShelf
from sayso.store.outbox import check_parcels
from sayso.store.shelf import Item
from sayso.store.words import without_title


class Kept:
    """All that is kept."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}
        self.journals: dict[str, tuple[Entry, ...]] = {}
        self.holds: dict[tuple[str, int], HoldRow] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.busy: dict[tuple[str, str], str] = {}
        """The unfinished run of a thread, or nothing."""
        self.log: list[tuple[str, int]] = []
        """Run and number of every entry; its position is its index plus one."""


class Draft:
    """One append in the making: kept as a whole, or dropped."""

    def __init__(self, kept: Kept, shelf: MemoryShelf) -> None:
        self._kept = kept
        self._shelf = shelf
        self._runs: dict[str, RunRow] = {}
        self._journals: dict[str, tuple[Entry, ...]] = {}
        self._holds: dict[tuple[str, int], HoldRow] = {}
        self._keys: dict[tuple[str, str], KeyRow] = {}
        self._busy: dict[tuple[str, str], str] = {}
        self._log: list[tuple[str, int]] = []
        self._items: dict[tuple[str, str, str], Item | None] = {}

    def last_at(self, run_id: str) -> int:
        journal = self._kept.journals.get(run_id)
        return journal[-1].at if journal else 0

    def write(self, write: Write, at: int) -> None:
        row = self._runs.get(write.run) or self._kept.runs.get(write.run)
        check_guard(
            write,
            seq=row.seq if row else 0,
            last=row.last if row else b"",
            owner=row.owner if row else "",
        )
        check_conditions(write, at, self._rev)
        self._take_key(write)
        self._take_thread(write)
        journal = self._journals.get(write.run) or self._kept.journals.get(write.run, ())
        prev = journal[-1].hash if journal else chain.GENESIS
        position = len(self._kept.log) + len(self._log) + 1
        made = make_entries(write, prev=prev, at=at, position=position)
        self._log += [(entry.run_id, entry.seq) for entry in made]
        self._journals[write.run] = journal = _redact((*journal, *made), write.redacts)
        owner = write.owner if write.owner is not None else (row.owner if row else "")
        if owner and write.status != "running":
            raise StoreError(f"{write.run!r} is {write.status} and cannot have an owner")
        self._runs[write.run] = RunRow(
            id=write.run,
            project=row.project if row else write.project,
            agent=row.agent if row else write.agent,
            thread=row.thread if row else write.thread,
            status=write.status,
            seq=made[-1].seq,
            hash=made[-1].hash,
            last=made[-1].id,
            fold=write.fold,
            state=write.state,
            due_at=write.due_at,
            owner=owner,
        )
        for hold in write.holds:
            if not 0 < hold.entry <= len(journal):
                raise StoreError(f"hold {hold.n} of {write.run!r} names an entry that is not there")
            self._put_hold(hold)
        self._untitle(write)
        for item in write.items:
            self._put_item(write, item)
        check_parcels(write)

    def _put_hold(self, hold: HoldRow) -> None:
        place = (hold.run_id, hold.n)
        if hold.words is None:
            known = self._holds.get(place) or self._kept.holds.get(place)
            hold = replace(hold, words=known.words if known else "")
        self._holds[place] = hold

    def _untitle(self, write: Write) -> None:
        """Forget what redacted entries said of holds."""
        if not write.redacts:
            return
        for place, hold in {**self._kept.holds, **self._holds}.items():
            if place[0] == write.run and {hold.entry, hold.revised} & set(write.redacts):
                self._holds[place] = replace(hold, words=without_title(hold.words or ""))

    def _put_item(self, write: Write, item: ItemPut) -> None:
        check_item(write, item, self._rev)
        project, kind, name = write.project, item.kind, item.id
        self._items[project, kind, name] = (
            item.data
            if item.data is None
            else Item(
                project=project, kind=kind, id=name, rev=self._shelf.next_rev(), data=item.data
            )
        )

    def _rev(self, project: str, kind: str, id: str) -> int:
        """Give the rev of an item as this append has left it until here."""
        if (project, kind, id) not in self._items:
            return self._shelf.rev(project, kind, id)
        item = self._items[project, kind, id]
        return 0 if item is None else item.rev

    def _take_key(self, write: Write) -> None:
        if write.key is None:
            return
        place = (write.key.project, write.key.key)
        found = self._keys.get(place) or self._kept.keys.get(place)
        if found is not None:
            raise KeyReused(f"the key {write.key.key!r} was used before", found=found)
        self._keys[place] = KeyRow(digest=write.key.digest, run_id=write.run, seq=write.after + 1)

    def _take_thread(self, write: Write) -> None:
        place = (write.project, write.thread)
        if not write.thread:
            return
        busy = self._busy.get(place, self._kept.busy.get(place, ""))
        if write.status in OPEN:
            if busy not in ("", write.run):
                raise ThreadBusy(f"the thread {write.thread!r} is busy with {busy!r}")
            self._busy[place] = write.run
        elif busy == write.run:
            self._busy[place] = ""

    def keep(self) -> None:
        self._kept.runs.update(self._runs)
        self._kept.journals.update(self._journals)
        self._kept.holds.update(self._holds)
        self._kept.keys.update(self._keys)
        self._kept.busy.update(self._busy)
        self._kept.log += self._log
        self._shelf.keep(self._items)


def _redact(journal: tuple[Entry, ...], seqs: Sequence[int]) -> tuple[Entry, ...]:
    entries = list(journal)
    for seq in seqs:
        if not 0 < seq <= len(entries):
            raise StoreError(f"there is no entry {seq} to redact")
        entry = entries[seq - 1]
        if not entry.redacted:
            content = chain.leaf(entry.salt, entry.payload)
            entries[seq - 1] = replace(entry, salt=b"", payload=content, redacted=True)
    return tuple(entries)
