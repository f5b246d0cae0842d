"""The key ring: one set of keys for signatures and secrets, with rotation.

Rule 1: a key is never used itself; every purpose has its own, derived from it.
Rule 2: the first key signs and encrypts, all of them verify and decrypt.
Rule 3: no key is ever shown: not in a repr, not in a message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sayso.errors import BadKeys
from sayso.store.sqlite_file import sync_dir

KEY_BYTES = 32
FILE_BYTES_MAX = 1 << 16
VARIABLE = "SAYSO_KEYS"
_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_NONCE_BYTES = 12
_SALT = b"sayso.keyring.1"


class KeyRing:
    """Signs, verifies, encrypts and decrypts. The first key is the current one."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise BadKeys("a key ring needs at least one key")
        self._keys = dict(keys)
        self._current = next(iter(self._keys))
        # Per ring rather than per class, so that it goes when the ring goes.
        self._derive = cache(self._derive_now)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"

    def __reduce__(self) -> Any:
        raise BadKeys("a key ring is not to be copied anywhere")

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its keys, the current one first."""
        return tuple(self._keys)

    def has_all_of(self, other: KeyRing) -> bool:
        """Tell whether it has every key of another ring, under the same id."""
        return all(self._keys.get(key_id) == key for key_id, key in other._keys.items())

    @classmethod
    def load(
        cls,
        store_path: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] = os.environ,
        *,
        make: bool = True,
    ) -> KeyRing:
        """Take the keys from `SAYSO_KEYS`, or from the file beside the store.

        The file is made on first use, unless `make` is False. `BadKeys` if there are no keys, or
        others may read the file.
        """
        if env.get(VARIABLE):
            return cls(_read_keys(re.split(r"[,\s]+", env[VARIABLE].strip(", \n\t")), VARIABLE))
        if store_path is None:
            raise BadKeys(f"there are no keys: set {VARIABLE}, to the same on every machine")
        path = _beside(store_path)
        text = read_secret_file(path)
        if text is None and not make:
            raise BadKeys(f"there are no keys: set {VARIABLE}, or make {str(path)!r}")
        if text is None:
            make_secret_file(path, new_key())  # Unless somebody else is faster.
            text = read_secret_file(path) or ""
        return cls(_read_keys(text.split(), str(path)))

    @classmethod
    def look(
        cls, store_path: str | os.PathLike[str] | None = None, env: Mapping[str, str] = os.environ
    ) -> KeyRing | None:
        """Like `load`, but make nothing: None if there are no keys yet."""
        there = store_path is not None and os.path.lexists(_beside(store_path))
        return cls.load(store_path, env) if there or env.get(VARIABLE) else None

    def sign(self, purpose: str, data: bytes) -> str:
        """Sign data for a purpose; the signature names the key."""
        return f"{self._current}.{_encode(self._mac(self._current, purpose, data))}"

    def verify(self, purpose: str, data: bytes, signature: str) -> bool:
        """Tell whether one of the keys has signed exactly this data for this purpose."""
        key_id, _, mac = signature.partition(".")
        if key_id not in self._keys or not mac.isascii():
            return False
        expected = _encode(self._mac(key_id, purpose, data))
        return hmac.compare_digest(expected, mac)

    def derive(self, purpose: str, data: bytes, *, key_id: str | None = None) -> bytes:
        """Derive 32 bytes from data for a purpose, that nobody without the key can guess.

        With the current key, or with the one named. `BadKeys` if the ring does not have it.
        """
        key_id = self._current if key_id is None else key_id
        if key_id not in self._keys:
            raise BadKeys(f"the ring does not have the key {key_id[:32]!r}")
        return hmac.digest(self._derive(key_id, f"derive:{purpose}"), data, "sha256")

    def encrypt(self, purpose: str, data: bytes, aad: bytes = b"") -> bytes:
        """Encrypt data for a purpose, bound to `aad`; what comes out names the key."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher(self._current, purpose).encrypt(nonce, data, aad)
        return self._current.encode() + b"." + nonce + sealed

    def decrypt(self, purpose: str, data: bytes, aad: bytes = b"") -> bytes:
        """Decrypt what one of the keys has encrypted. `BadKeys` if it was changed, or none has."""
        key_id, dot, rest = data.partition(b".")
        name = key_id.decode("ascii", "replace")
        if not dot or name not in self._keys:
            raise BadKeys(f"no key of this ring has encrypted it; its key is {name[:32]!r}")
        cipher = self._cipher(name, purpose)
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], aad)
        except (InvalidTag, ValueError):
            raise BadKeys("it was changed, or encrypted for something else") from None

    def seal(self, purpose: str, data: bytes, aad: bytes = b"") -> str:
        """Encrypt data to the same token each time, so that equal data can be told to be equal by
        whoever has the token, and guessed by nobody; it names the key.
        """
        return f"{self._current}.{_encode(self._siv(self._current, purpose).encrypt(data, [aad]))}"

    def unseal(self, purpose: str, token: str, aad: bytes = b"") -> bytes:
        """Decrypt a token. `BadKeys` if it was changed, or is of no key of this ring."""
        key_id, _, text = token.partition(".")
        data = _decode(text)
        if key_id not in self._keys:
            raise BadKeys(f"no key of this ring has encrypted it; its key is {key_id[:32]!r}")
        cipher = self._siv(key_id, purpose)
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(data or b"", [aad])
        except (InvalidTag, ValueError):
            raise BadKeys("it was changed, or encrypted for something else") from None

    def can_open(self, token: str) -> bool:
        """Tell whether a token is of a key of this ring; it may have been changed all the same."""
        key_id = token.partition(".")[0]
        try:
            return key_id in self._keys and bool(self._siv(key_id, "any"))
        except BadKeys:
            return False

    def _siv(self, key_id: str, purpose: str) -> Any:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        except ImportError:
            raise BadKeys("encryption needs one more package: pip install sayso[crypto]") from None
        halves = [self._derive(key_id, f"{half}:{purpose}") for half in ("siv-mac", "siv-ctr")]
        return AESSIV(b"".join(halves))

    def _mac(self, key_id: str, purpose: str, data: bytes) -> bytes:
        return hmac.digest(self._derive(key_id, f"sign:{purpose}"), data, "sha256")

    def _cipher(self, key_id: str, purpose: str) -> Any:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise BadKeys("encryption needs one more package: pip install sayso[crypto]") from None
        return AESGCM(self._derive(key_id, f"encrypt:{purpose}"))

    def _derive_now(self, key_id: str, info: str) -> bytes:
        """HKDF-SHA256 (RFC 5869) for one block."""
        extracted = hmac.digest(_SALT, self._keys[key_id], "sha256")
        return hmac.digest(extracted, info.encode() + b"\x01", "sha256")


def new_key() -> str:
    """Make a key as `SAYSO_KEYS` and the key file have it."""
    return f"k{secrets.token_hex(4)}:{_encode(os.urandom(KEY_BYTES))}"


def _beside(store_path: str | os.PathLike[str]) -> Path:
    return Path(os.path.realpath(store_path) + ".keys")


def _read_keys(items: list[str], source: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for number, item in enumerate(items, start=1):
        key_id, _, text = item.partition(":")
        key = _decode(text)
        if not _ID.fullmatch(key_id) or key is None or len(key) != KEY_BYTES:
            raise BadKeys(f"key {number} of {source} is not 'id:' and {KEY_BYTES} bytes in base64")
        if key_id in keys:
            raise BadKeys(f"{source} has two keys with the id {key_id!r}")
        keys[key_id] = key
    if not keys:
        raise BadKeys(f"there is no key in {source}")
    return keys


def read_secret_file(path: Path) -> str | None:
    """Read a key file, and refuse one that anybody else may read; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadKeys(f"{str(path)!r} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadKeys(f"{str(path)!r} is not a file")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise BadKeys(f"others may read {str(path)!r}: chmod 600 it, and think of new keys")
        if found.st_uid not in (os.geteuid(), 0):
            raise BadKeys(f"{str(path)!r} belongs to somebody else")
        return os.read(fd, FILE_BYTES_MAX).decode("ascii", "replace")
    finally:
        os.close(fd)


def make_secret_file(path: Path, key: str) -> bool:
    """Make a key file with one key, durably; False if there is a file of that name.

    It gets its name when it is complete: nobody reads half a key.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
    try:
        fd = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(f"{key}\n".encode())
                file.flush()
                os.fsync(fd)
            os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_dir(str(path.parent))
    except FileExistsError:
        return False
    except OSError as error:
        raise BadKeys(f"{str(path)!r} cannot be made: {error.strerror}") from None
    return True


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


# An HKDF block is a SHA-256 digest, and that is the size of our keys.
assert hashlib.sha256().digest_size == KEY_BYTES
