"""What must not be read by whoever can read the journal: sensitive answers and secret arguments,
sealed.

Rule: a key is looked for when something is first sealed or opened, and not before.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sayso.domain import secret
from sayso.domain.digest import BYTES_MAX, decode_value, encode_value
from sayso.errors import BadKeys, StoreClosed

if TYPE_CHECKING:
    from sayso.store.keyring import KeyRing

log = logging.getLogger("sayso")

_PURPOSE = "answer"
_STEP = "step"
_SECRET = "secret"  # noqa: S105 - a purpose of keys, and no key.
_BLOCK = 64
"""Secrets are filled up to a multiple of this: their length is nobody's business either."""


class Vault:
    """Seals answers and secrets for the runs they belong to."""

    def __init__(
        self,
        load: Callable[[], KeyRing] | None = None,
        look: Callable[[], KeyRing] | None = None,
    ) -> None:
        self._load = load
        self._look = look or load
        self._ring: KeyRing | None = None
        self._shut: set[str] = set()
        """Runs of which it was said that their answers do not open here."""
        self._closing = asyncio.Event()

    def seal(self, run_id: str, data: bytes) -> str:
        """Encrypt an answer so that it opens for this run only."""
        sealed = self.keys().encrypt(_PURPOSE, data, run_id.encode())
        return base64.b64encode(sealed).decode()

    def unseal(self, run_id: str, sealed: str) -> bytes:
        """Give what was sealed for this run."""
        return self.keys().decrypt(_PURPOSE, base64.b64decode(sealed), run_id.encode())

    def opens(self, run_id: str, sealed: str) -> bool:
        """Tell whether an answer can be read here; that it cannot is logged once for a run."""
        try:
            self.unseal(run_id, sealed)
        except BadKeys as error:
            self.say_shut(run_id, "the key of its answer", error)
            return False
        return True

    def say_shut(self, run_id: str, what: str, error: BadKeys) -> None:
        """Log once for a run that something of it does not open here."""
        if run_id not in self._shut:
            self._shut.add(run_id)
            ids = {"run_id": run_id}
            log.warning("%s waits for a worker with %s: %s", run_id, what, error, extra=ids)

    def seal_args(self, run_id: str, tool: str, args: bytes) -> bytes:
        """Seal the secrets among frozen arguments so that they open for this run and tool only.

        The same to the same bytes, so that a call that was made before is known again.
        """
        return secret.seal(args, lambda data: self.seal_secret(f"{run_id}/{tool}", data))

    def open_args(self, run_id: str, tool: str, args: bytes) -> bytes:
        """Give arguments with their secrets open."""
        return secret.unseal(args, lambda token: self.open_secret(f"{run_id}/{tool}", token))

    def open_marked(self, run_id: str, tool: str, args: bytes) -> bytes:
        """Give arguments with their secrets open, each beside its mark."""
        return secret.with_marks(args, lambda token: self.open_secret(f"{run_id}/{tool}", token))

    def opens_args(self, run_id: str, tool: str, args: bytes) -> bool:
        """Tell whether arguments are for a worker with these keys; that they are not is logged once
        for a run. Those that nobody can read are for any worker, which finds that out.
        """
        if not secret.is_sealed(args):
            return True
        try:
            self.open_args(run_id, tool, args)
        except BadKeys as error:
            if all(self.keys().can_open(token) for token in secret.tokens(args)):
                return True
            self.say_shut(run_id, "the key of a secret argument", error)
            return False
        return True

    def seal_secret(self, scope: str, data: bytes) -> str:
        """Encrypt a secret so that it opens for this scope only."""
        return self.keys().seal(_SECRET, data + b" " * (-len(data) % _BLOCK), scope.encode())

    def open_secret(self, scope: str, token: str) -> bytes:
        """Give a secret that was sealed for this scope."""
        return self.keys().unseal(_SECRET, token, scope.encode())

    def seal_step(self, run_id: str, ref: str, result: bytes) -> bytes:
        """Seal what a step gave, as a value that can be kept instead."""
        token = self.seal_secret(f"{run_id}/{ref}/step", result)
        return encode_value({secret.SEALED: token}, bytes_max=2 * BYTES_MAX)

    def open_step(self, run_id: str, ref: str, kept: bytes) -> bytes:
        """Give what a step gave, of what is kept of it."""
        if not secret.is_sealed(kept):
            return kept
        value = decode_value(kept, bytes_max=2 * BYTES_MAX)
        if secret.mark_in(value) is None:
            return kept
        return self.open_secret(f"{run_id}/{ref}/step", value[secret.SEALED])

    def opens_step(self, run_id: str, ref: str, kept: bytes) -> bool:
        """Tell whether what a step gave can be read here."""
        try:
            self.open_step(run_id, ref, kept)
        except BadKeys as error:
            self.say_shut(run_id, "the key of what a step gave", error)
            return False
        return True

    async def rest(self, seconds: float) -> None:
        """Wait before an answer is looked at again that does not open. Raise `StoreClosed` if this
        process is to end: it keeps the run from nobody then.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise StoreClosed("the process is about to end")

    def close(self) -> None:
        """Let those go that wait for a key."""
        self._closing.set()

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

    def look(self) -> KeyRing:
        """Give the key ring if there is one. `BadKeys` if there is none: it is not made."""
        if self._ring is not None:
            return self._ring
        from sayso.store.keyring import KeyRing

        return KeyRing.load(make=False) if self._look is None else self._look()


def opens_with(ring: KeyRing | None, run_id: str, sealed: str) -> bool:
    """Tell whether a key ring opens what was sealed for a run; none opens nothing."""
    if ring is None:
        return False
    try:
        ring.decrypt(_PURPOSE, base64.b64decode(sealed), run_id.encode())
    except BadKeys:
        return False
    return True


def _join(step: str, args: bytes) -> bytes:
    return step.encode() + b"\0" + args
