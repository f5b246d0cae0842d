"""The keys of seals: Ed25519, derived from the key ring.

Whoever checks a seal needs the public half only, and cannot make one with it. The cryptography
comes with an extra, and is imported when something is signed or checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sayso.errors import BadKeys
from sayso.store.seal import Seal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sayso.store.keyring import KeyRing

_PURPOSE = "seal"
_DATA = b"ed25519.1"
_KEY_BYTES = 32


class Signer:
    """Signs seals with the current key of a ring."""

    def __init__(self, ring: KeyRing) -> None:
        self._private = _private(ring, ring.ids[0])
        self.public = _public(self._private)
        """The public key, in hexadecimal."""

    def __repr__(self) -> str:
        return f"Signer({self.public})"

    def sign(self, seal: Seal) -> Seal:
        """Give the seal with its key and signature."""
        named = replace(seal, key=self.public)
        return replace(named, signature=self._private.sign(named.signed()).hex())


def public_keys(ring: KeyRing) -> tuple[str, ...]:
    """Give the public keys of a ring, in hexadecimal, the current one first."""
    return tuple([_public(_private(ring, key_id)) for key_id in ring.ids])


def read_key(text: str) -> str:
    """Read a public key that somebody was given. `BadKeys` if it is none."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise BadKeys("a public key is 64 hexadecimal digits, as `sayso audit key` prints it")
    return key.hex()


def signature_fault(seal: Seal, trusted: Iterable[str]) -> str:
    """Say what is wrong with who signed a seal; nothing if one of these keys has."""
    if seal.key not in trusted:
        return "it is signed with a key that is not trusted here"
    ed25519, invalid = _ed25519()
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.key))
        key.verify(bytes.fromhex(seal.signature), seal.signed())
    except (invalid, ValueError):
        return "its signature does not fit what it says"
    return ""


def _private(ring: KeyRing, key_id: str) -> Any:
    seed = ring.derive(_PURPOSE, _DATA, key_id=key_id)
    return _ed25519()[0].Ed25519PrivateKey.from_private_bytes(seed)


def _public(private: Any) -> str:
    return private.public_key().public_bytes_raw().hex()


def _ed25519() -> tuple[Any, type[Exception]]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BadKeys("seals need one more package: pip install sayso[crypto]") from None
    return ed25519, InvalidSignature
