"""What must not be read by whoever can read the journal: sensitive answers, sealed.

Rule: a key is looked for when something is first sealed or opened, and not before.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sayso.store.keyring import KeyRing

_PURPOSE = "answer"
_STEP = "step"


class Vault:
    """Seals answers for the runs they belong to."""

    def __init__(self, load: Callable[[], KeyRing] | None = None) -> None:
        self._load = load
        self._ring: KeyRing | None = None

    def seal(self, run_id: str, data: bytes) -> str:
        """Encrypt an answer so that it opens for this run only."""
        sealed = self.keys().encrypt(_PURPOSE, data, run_id.encode())
        return base64.b64encode(sealed).decode()

    def unseal(self, run_id: str, sealed: str) -> bytes:
        """Give what was sealed for this run."""
        return self.keys().decrypt(_PURPOSE, base64.b64decode(sealed), run_id.encode())

    def check(self) -> None:
        """Raise `BadSetup` if nothing can be sealed here."""
        self.seal("", b"")

    def name(self, step: str, args: bytes) -> str:
        """Name the arguments of a step so that only the keys can tell what they are."""
        return self.keys().sign(_STEP, _join(step, args))

    def names(self, digest: str, step: str, args: bytes) -> bool:
        """Tell whether this is such a name of these arguments, by whichever key."""
        return "." in digest and self.keys().verify(_STEP, _join(step, args), digest)

    def keys(self) -> KeyRing:
        """Give the key ring."""
        if self._ring is None:
            from sayso.store.keyring import KeyRing

            self._ring = KeyRing.load() if self._load is None else self._load()
        return self._ring


def _join(step: str, args: bytes) -> bytes:
    return step.encode() + b"\0" + args
