"""Check a store against its seals, and against copies of them that were kept elsewhere.

Rule 1: it reads everything once, in order, and keeps a page of it: a million entries take no more
memory than a thousand.
Rule 2: a copy from outside is believed before the table, which whoever can write the file can cut.
Rule 3: a fault is said in words: which seal, and what became of what it covers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from sayso.errors import NotUnderstood
from sayso.store import door
from sayso.store.base import PAGE_MAX, Store
from sayso.store.seal import NOTHING, Leaf, Seal, Tree, read_seal
from sayso.store.seal_key import signature_fault

Tell = Callable[[str], None]
_ODD = (AttributeError, OverflowError, TypeError, ValueError)
"""What comes of a column that holds another kind of value than was ever put there."""


class DoorWalk:
    """Goes through the door log once, and checks its chain on the way."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self._page: Iterator[door.DoorEntry] = iter(())
        self._broken = False
        self.n = 0
        self.hash = door.GENESIS

    async def go_to(self, n: int) -> bool:
        """Go on to the entry with this number; False if the log ends before it."""
        while self.n < n:
            entry = await self._next()
            if entry is None:
                return False
            self._take(entry)
        return True

    async def go_to_end(self) -> int:
        """Go on to the end, and say how many entries there are."""
        while (entry := await self._next()) is not None:
            self._take(entry)
        return self.n

    async def _next(self) -> door.DoorEntry | None:
        entry = next(self._page, None)
        if entry is None:
            await asyncio.sleep(0)
            self._page = iter(await self._store.door.list(after=self.n, limit=PAGE_MAX))
            entry = next(self._page, None)
        return entry

    def _take(self, entry: door.DoorEntry) -> None:
        try:
            made = door.link(
                self.hash,
                project=entry.project,
                n=self.n + 1,
                at=entry.at,
                salt=entry.salt,
                payload=entry.payload,
            )
        except _ODD:
            made = b""
        if not self._broken and (entry.n, entry.hash) != (self.n + 1, made):
            self._broken = True
            what = "is missing" if entry.n != self.n + 1 else "was changed after it was written"
            self._tell(f"entry {self.n + 1} of the door log {what}")
        self.n, self.hash = entry.n, entry.hash


class SealWalk:
    """Goes through seals and entries side by side. Signatures are checked with the keys that are
    trusted; if those are not known (None), they are not.
    """

    def __init__(
        self,
        store: Store,
        tell: Tell,
        *,
        trusted: Iterable[str] | None,
        copies: Iterable[bytes] = (),
    ) -> None:
        self._store = store
        self._tell = tell
        self._trusted = None if trusted is None else frozenset(trusted)
        self._copies = _Copies(copies, tell)
        self._doors = DoorWalk(store, tell)
        self._leaves: Iterator[Leaf] = iter(())
        self._leaf: Leaf | None = None
        self._position = 0
        self._lost: list[int] = []
        """The first and the last of the seals that only the copies have, while they go on."""
        self.seals = 0
        self.sealed = 0
        """How many entries they cover, as far as they hold."""

    async def check(self) -> int:
        """Check everything; say how many entries the door log has."""
        before: Seal | None = None
        async for seal in self._merged():
            if not self.seals and not self._trusted and self._trusted is not None:
                self._tell(
                    "there are seals, and no key to check them with: set SAYSO_KEYS, or give the "
                    "key that `sayso audit key` has printed"
                )
            self.seals += 1
            await self._check(seal, before)
            before = seal
        self._tell_lost()
        return await self._doors.go_to_end()

    async def _merged(self) -> AsyncIterator[Seal]:
        """Give every seal once, by number, and say which are not where they should be."""
        expected = 1
        async for kept in self._kept():
            while (copy := self._copies.peek()) is not None and copy.n < kept.n:
                self._copies.pop()
                self._note_lost(copy.n)
                self._check_gap(expected, copy.n)
                expected = copy.n + 1
                yield copy
            self._tell_lost()
            self._check_gap(expected, kept.n)
            expected = kept.n + 1
            if copy is None or copy.n != kept.n:
                yield kept
                continue
            self._copies.pop()
            if copy.line() != kept.line():
                self._tell(f"seal {kept.n} in the store is not the one that was kept outside")
            yield copy
        while (copy := self._copies.pop()) is not None:
            self._note_lost(copy.n)
            self._check_gap(expected, copy.n)
            expected = copy.n + 1
            yield copy

    async def _kept(self) -> AsyncIterator[Seal]:
        after = 0
        while page := await self._store.seals.list(after=after, limit=PAGE_MAX):
            for place, data in page:
                try:
                    seal = read_seal(data)
                except NotUnderstood as error:
                    self._tell(f"seal {place} cannot be read: {error}")
                    continue
                if seal.n != place:
                    self._tell(f"where seal {place} should be is seal {seal.n}")
                    continue
                yield seal
            after = page[-1].n

    def _check_gap(self, expected: int, n: int) -> None:
        if n > expected:
            several = f"seals {expected} to {n - 1} are" if n - 1 > expected else None
            self._tell(f"{several or f'seal {expected} is'} missing")

    def _note_lost(self, n: int) -> None:
        self._lost = [self._lost[0] if self._lost else n, n]

    def _tell_lost(self) -> None:
        if self._lost:
            first, last = self._lost
            which = f"seal {first} is" if first == last else f"seals {first} to {last} are"
            self._tell(f"{which} not in the store any more, but in what was kept outside")
            self._lost = []

    async def _check(self, seal: Seal, before: Seal | None) -> None:
        name = f"seal {seal.n}"
        why = signature_fault(seal, self._trusted) if self._trusted else ""
        if why:
            # What it says is somebody else's word: nothing else about it is worth a look.
            self._tell(f"{name} is not to be trusted: {why}")
            return
        follows = before is not None and before.n == seal.n - 1
        if seal.n == 1 or follows:
            if seal.before != (NOTHING if before is None else before.hash()).hex():
                self._tell(f"{name} does not name the seal that is before it")
            if seal.first != (1 if before is None else before.last + 1):
                self._tell(f"{name} does not go on where the seal before it ends")
        await self._check_entries(seal, name)
        reached = await self._doors.go_to(seal.refused)
        if not reached:
            self._tell(
                f"the door log was cut: it has {self._doors.n} entries, and {name} has seen "
                f"{seal.refused}"
            )
        elif self._doors.n == seal.refused and self._doors.hash.hex() != seal.door:
            self._tell(
                f"the door log was changed up to entry {seal.refused}: {name} has seen others"
            )

    async def _check_entries(self, seal: Seal, name: str) -> None:
        tree = Tree()
        async for leaf in self._covered(seal.first, seal.last):
            tree.add(leaf.hash)
        where = f"{name} covers {seal.count} entries at positions {seal.first} to {seal.last}"
        if tree.count < seal.count:
            self._tell(f"entries were removed: {where}, and {tree.count} of them are there")
        elif tree.count > seal.count:
            self._tell(f"entries were put in: {where}, and now {tree.count} are there")
        elif tree.root().hex() != seal.root:
            self._tell(f"entries were exchanged or hashed again: {where}, and they are others now")
        else:
            self.sealed += tree.count

    async def _covered(self, first: int, last: int) -> AsyncIterator[Leaf]:
        while True:
            leaf = self._leaf or await self._next()
            if leaf is None or leaf.position > last:
                self._leaf = leaf
                return
            self._leaf = None
            if leaf.position >= first:
                yield leaf

    async def _next(self) -> Leaf | None:
        leaf = next(self._leaves, None)
        if leaf is None:
            await asyncio.sleep(0)
            page = await self._store.seals.leaves(after=self._position, limit=PAGE_MAX)
            self._leaves = iter(page)
            leaf = next(self._leaves, None)
        if leaf is not None:
            self._position = leaf.position
        return leaf


class _Copies:
    """Seals that were kept outside, by ascending number."""

    def __init__(self, lines: Iterable[bytes], tell: Tell) -> None:
        self._lines = enumerate(lines, start=1)
        self._tell = tell
        self._next: Seal | None = None
        self._last = 0

    def peek(self) -> Seal | None:
        """Give the next one, and leave it there."""
        while self._next is None:
            found = next(self._lines, None)
            if found is None:
                return None
            self._next = self._read(*found)
        return self._next

    def pop(self) -> Seal | None:
        """Take the next one."""
        seal, self._next = self.peek(), None
        return seal

    def _read(self, number: int, line: bytes) -> Seal | None:
        if not line.strip():
            return None
        try:
            seal = read_seal(line.strip())
        except NotUnderstood as error:
            self._tell(f"line {number} of what was kept outside cannot be read: {error}")
            return None
        if seal.n <= self._last:
            self._tell(f"line {number} of what was kept outside has seal {seal.n} out of order")
            return None
        if self._last and seal.n > self._last + 1:
            self._tell(f"seal {self._last + 1} is missing in what was kept outside")
        self._last = seal.n
        return seal
