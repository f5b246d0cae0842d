"""Which notices somebody delivers of a store, so that processes that tell nobody write them, too.

A decision at a terminal has to reach the card in a chat that another process has posted. Whoever
delivers leaves word on the shelf, and every process reads it when it opens the store. The word runs
out: notices that nobody comes for any more do not pile up for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sayso.engine.parcel import KINDS, TOLD, Kind
from sayso.errors import StaleItem
from sayso.store.base import Store
from sayso.store.shelf import Item

NOTICES = "sayso:notices"
"""The project under which word is left: notices of all projects go the same ways."""
KIND, ID = "word", "wanted"
SAY_MS = 24 * 3_600_000
"""How often whoever delivers says so again."""
GOOD_MS = 7 * SAY_MS
"""How long it is believed."""


_Word = dict[str, int]
"""By kind of notice, when somebody last said that they deliver it."""


def kinds_of(notify: object) -> frozenset[Kind]:
    """Give the kinds of notices that something tells: what its `tells` says, or what everybody is
    told; none if there is nothing.
    """
    return frozenset() if notify is None else frozenset(getattr(notify, "tells", TOLD))


async def read_word(store: Store) -> frozenset[Kind]:
    """Give the kinds of notices that somebody is known to deliver."""
    said = _read(await store.shelf.get(NOTICES, KIND, ID))
    since = store.now() - GOOD_MS
    return frozenset(kind for kind in KINDS if said.get(kind, since) > since)


async def leave_word(store: Store, kinds: Iterable[Kind]) -> None:
    """Say that somebody delivers these."""
    item = await store.shelf.get(NOTICES, KIND, ID)
    word = {**_read(item), **dict.fromkeys(kinds, store.now())}
    try:
        data = msgspec.json.encode(word)
        await store.shelf.put(NOTICES, KIND, ID, data, rev=0 if item is None else item.rev)
    except StaleItem:
        return  # Somebody else just has, and this is said again tomorrow.


def _read(item: Item | None) -> _Word:
    try:
        return {} if item is None else msgspec.json.decode(item.data, type=_Word)
    except msgspec.MsgspecError:
        return {}  # Of a newer version, which delivers what it knows of.
