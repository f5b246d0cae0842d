"""Seals what is new, again and again.

It never stands in the way of anything: it reads a page at a time, and whatever keeps it from
sealing is said once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from sayso.engine.vault import Vault
from sayso.errors import BadSetup, NotUnderstood, StaleItem, StoreError
from sayso.store.base import PAGE_MAX, Store

if TYPE_CHECKING:
    from sayso.store.keyring import KeyRing
    from sayso.store.seal import Seal
    from sayso.store.seal_key import Signer

log = logging.getLogger("sayso")

ENTRIES_MAX = 100_000
"""No seal covers more; what is left then is for the next one."""
TRIES_MAX = 10
"""How often to begin again because somebody else has sealed meanwhile."""


class Sealer:
    """Makes seals."""

    def __init__(self, store: Store, vault: Vault, every_s: float) -> None:
        self._store = store
        self._vault = vault
        self._every_ms = int(every_s * 1000)
        self._look_at = 0
        """When to look again, by the lease clock."""
        self._signer: Signer | None = None
        self._said = ""

    def rest(self) -> None:
        """Look again when it is time for the next seal, and not before."""
        self._look_at = self._store.tick() + self._every_ms

    async def seal_if_due(self) -> Seal | None:
        """Seal if the last seal is old enough and there is something new. The key ring is used as
        it is, and not made.
        """
        if self._store.tick() < self._look_at:
            return None
        self.rest()
        try:
            last = await self._store.seals.last()
            if self._is_young(last) or not await self._is_new(last):
                return None
            seal = await self._seal(last, make=False)
        except StaleItem:
            return None  # Somebody else has sealed it.
        except (BadSetup, NotUnderstood, StoreError) as error:
            self._say(
                f"nothing is sealed: {error}; `sayso audit key STORE` makes a key if there is "
                "none, and `sayso audit verify STORE` says whether the seals are as they were"
            )
            return None
        if seal.count >= ENTRIES_MAX:
            self._look_at = 0
        return seal

    async def seal(self) -> Seal | None:
        """Seal everything that is not sealed yet; give the last seal made, None if nothing was new.
        A key ring is made if there is none.
        """
        made: Seal | None = None
        stale = 0
        while True:
            last = await self._store.seals.last()
            if not await self._is_new(last):
                return made
            try:
                made = await self._seal(last, make=True)
            except StaleItem:
                stale += 1
                if stale == TRIES_MAX:
                    raise

    def _is_young(self, last: Seal | None) -> bool:
        # One that is full has left something for the next.
        if last is None or last.count >= ENTRIES_MAX:
            return False
        return 0 <= self._store.now() - last.at < self._every_ms

    async def _is_new(self, last: Seal | None) -> bool:
        after = 0 if last is None else last.last
        seen = 0 if last is None else last.refused
        if await self._store.seals.leaves(after=after, limit=1):
            return True
        return (await self._store.door.head()).n > seen

    async def _seal(self, last: Seal | None, *, make: bool) -> Seal:
        signer = self._sign_with(self._vault.keys() if make else self._vault.look())
        first = 1 if last is None else last.last + 1
        head = await self._store.door.head()
        from sayso.store.seal import NOTHING, Seal, Tree

        tree, position = Tree(), first - 1
        while tree.count < ENTRIES_MAX:
            limit = min(PAGE_MAX, ENTRIES_MAX - tree.count)
            page = await self._store.seals.leaves(after=position, limit=limit)
            for leaf in page:
                tree.add(leaf.hash)
                position = leaf.position
            if len(page) < limit:
                break
            await asyncio.sleep(0)
        now = self._store.now()
        bare = Seal(
            n=1 if last is None else last.n + 1,
            first=first,
            last=position,
            count=tree.count,
            root=tree.root().hex(),
            before=(NOTHING if last is None else last.hash()).hex(),
            refused=head.n,
            door=head.hash.hex(),
            at=now if last is None else max(now, last.at),
            key="",
        )
        seal = signer.sign(bare)
        await self._store.seals.put(seal)
        return seal

    def _sign_with(self, ring: KeyRing) -> Signer:
        if self._signer is None:
            from sayso.store.seal_key import Signer

            self._signer = Signer(ring)
        return self._signer

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("%s", what)
