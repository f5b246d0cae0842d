"""One-time nonces: what a page must send along, so that only whoever was shown it decides by it.

A link in a mail is a pointer, and no authority. Scanners follow links, previews fetch them, and
browsers fetch them twice, so that a GET must change nothing. It shows a page; in the form of that
page there is a nonce, and only a POST with it decides, once.

Rule 1: making a nonce writes nothing. It is signed, and names the person, the hold, the digest of
what was shown and when it ends; nobody else's page, and no page of something else, has it.
Rule 2: of two that spend the same one, one does: the shelf takes its name once.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from sayso.domain.digest import encode_value
from sayso.domain.value import Principal
from sayso.errors import BadNonce, StaleItem
from sayso.given import load_keys
from sayso.store.base import Store
from sayso.store.views import HoldView

if TYPE_CHECKING:
    from sayso.store.keyring import KeyRing

GOOD_MS = 8 * 3_600_000
"""How long a page can be left open."""
NONCES = "sayso:nonces"
"""The project under which spent ones are kept, until they end."""
KIND = "spent"
CLEARED = 10
"""How many that have ended are dropped when one is spent: more than come in, so none pile up."""
_TEXT = re.compile(r"([0-9]{15})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9._-]{1,200})")


class Nonces:
    """Makes nonces and spends them: `Nonces(app.store)`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ring: KeyRing | None = None

    def make(self, hold: HoldView, *, by: Principal) -> str:
        """Make a nonce for a page that shows this hold to somebody. Each is another one."""
        until, chance = self._store.now() + GOOD_MS, secrets.token_urlsafe(16)
        said = _said(until, chance, project=hold.project, hold=hold.id, seen=hold.digest, by=by)
        return f"{until:015d}.{chance}.{self._keys.sign('nonce', said)}"

    async def spend(self, text: str, *, project: str, hold: str, seen: str, by: Principal) -> None:
        """Spend a nonce that came back with what a page showed. `BadNonce` if it is not of this
        person, this hold and this digest, has ended, or was spent before.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise BadNonce
        until, chance = int(found[1]), found[2]
        said = _said(until, chance, project=project, hold=hold, seen=seen, by=by)
        if not self._keys.verify("nonce", said, found[3]) or self._store.now() >= until:
            raise BadNonce
        await self._clear()
        try:
            await self._store.shelf.put(NONCES, KIND, f"{found[1]}.{chance}", b"1", rev=0)
        except StaleItem:
            raise BadNonce from None

    async def _clear(self) -> None:
        now = self._store.now()
        for item in await self._store.shelf.list(NONCES, KIND, limit=CLEARED):
            if int(item.id[:15]) > now:
                return  # They are listed by when they end.
            await self._store.shelf.drop(NONCES, KIND, item.id)

    @property
    def _keys(self) -> KeyRing:
        if self._ring is None:
            self._ring = load_keys(self._store)
        return self._ring


def _said(until: int, chance: str, *, project: str, hold: str, seen: str, by: Principal) -> bytes:
    return encode_value([until, chance, project, hold, seen, by.kind, by.id])
