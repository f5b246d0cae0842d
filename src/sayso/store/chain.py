"""The hash chain that makes a journal tamper-evident, and still lets content be erased.

`hash = H(prev || header || H(salt || payload))`: whoever erases salt and payload keeps the inner
hash in their place, and the chain still verifies. The salt keeps short payloads from being guessed
from their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sayso.errors import BrokenChain
from sayso.store.base import Entry

GENESIS = bytes(32)
"""What the first entry of a run is chained to."""
SALT_BYTES = 16


def leaf(salt: bytes, payload: bytes) -> bytes:
    """Hash an entry's content."""
    return hashlib.sha256(salt + payload).digest()


def link(prev: bytes, *, run_id: str, seq: int, entry_id: bytes, at: int, content: bytes) -> bytes:
    """Chain an entry to the one before; `content` is its leaf."""
    run = run_id.encode()
    return hashlib.sha256(
        b"sayso.entry.1"
        + prev
        + len(run).to_bytes(4, "big")
        + run
        + seq.to_bytes(8, "big")
        + entry_id
        + at.to_bytes(8, "big")
        + content
    ).digest()


def verify(run_id: str, entries: Iterable[Entry], *, seq: int, head: bytes) -> int:
    """Check a run's whole journal against its row; raise `BrokenChain` at the first fault.

    Return how many entries are redacted.
    """
    prev, count, redacted = GENESIS, 0, 0
    for entry in entries:
        count += 1
        if entry.seq != count or entry.run_id != run_id:
            raise BrokenChain(f"entry {count} of {run_id!r} is missing", run_id=run_id, seq=count)
        content = entry.payload if entry.redacted else leaf(entry.salt, entry.payload)
        prev = link(
            prev,
            run_id=run_id,
            seq=entry.seq,
            entry_id=entry.id,
            at=entry.at,
            content=content,
        )
        if prev != entry.hash:
            raise BrokenChain(
                f"entry {count} of {run_id!r} was changed after it was written",
                run_id=run_id,
                seq=count,
            )
        redacted += entry.redacted
    if count != seq or prev != head:
        raise BrokenChain(
            f"the journal of {run_id!r} does not end where its row says", run_id=run_id, seq=count
        )
    return redacted
