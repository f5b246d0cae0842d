"""Keys of desks: a desk signs what people decide there, and a worker counts nothing else.

Rule 1: only the desk has the private key. Whoever can write the store, and has none, can decide
nothing in the eyes of a worker that trusts certain desks.
Rule 2: what does not verify does not count, whatever the reason: no signature, an unknown key, a
decision that was changed or moved. No error of this module lets anything pass.
Rule 3: no private key is ever shown: not in a repr, not in a message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sayso.domain import events as e
from sayso.domain.hold import Ask, Decision, hold_id
from sayso.domain.run import CallRow, Run
from sayso.domain.signing import decision_bytes, needs_signature
from sayso.domain.standing import says_yes
from sayso.domain.transcript import Transcript
from sayso.errors import BadKeys
from sayso.store.keyring import make_secret_file, read_secret_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

log = logging.getLogger("sayso")

KEY_BYTES = 32
PRIVATE, PUBLIC = "deskkey_", "deskpub_"
"""What the texts of keys begin with, so that nobody takes one for the other."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)


class DeskKey:
    """The private key of a desk, where people decide."""

    def __init__(self, text: str) -> None:
        seed = _read(text, PRIVATE)
        if seed is None:
            raise BadKeys(f"this is no key of a desk: one is '{PRIVATE}' and {KEY_BYTES} bytes")
        from_seed = _ed25519().Ed25519PrivateKey.from_private_bytes
        self._key: Ed25519PrivateKey = from_seed(seed)
        self._public = self._key.public_key().public_bytes_raw()
        self.id = _id_of(self._public)
        """What its signatures call it."""

    def __repr__(self) -> str:
        return f"DeskKey({self.id})"

    def __reduce__(self) -> Any:
        raise BadKeys("the key of a desk is not to be copied anywhere")

    @classmethod
    def load(cls, source: str | os.PathLike[str], env: Mapping[str, str] = os.environ) -> DeskKey:
        """Take the key from a file that only its owner may read, or from an environment variable:
        a name in capitals, such as `SAYSO_DESK_KEY`. `BadKeys` if there is none.
        """
        if isinstance(source, str) and _VARIABLE.fullmatch(source):
            if source not in env:
                raise BadKeys(f"the environment has no variable {source}")
            return cls(env[source].strip())
        text = read_secret_file(Path(source))
        if text is None:
            raise BadKeys(f"there is no file {str(source)!r}: make one with 'sayso desk-key new'")
        return cls(text.strip())

    @classmethod
    def new(cls, path: str | os.PathLike[str]) -> DeskKey:
        """Make a new key in a new file that only its owner may read."""
        text = PRIVATE + _encode(os.urandom(KEY_BYTES))
        made = cls(text)
        if not make_secret_file(Path(path), text):
            raise BadKeys(f"{str(path)!r} is there already: name another file")
        return made

    @property
    def public(self) -> str:
        """What workers are given to trust this desk: `Sayso(trust=[...])`."""
        return PUBLIC + _encode(self._public)

    def sign(self, data: bytes) -> str:
        """Sign data; the signature names the key."""
        return f"{self.id}.{_encode(self._key.sign(data))}"


class Trust:
    """The desks whose decisions count here."""

    def __init__(self, keys: Iterable[str]) -> None:
        if isinstance(keys, str) or not isinstance(keys, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadKeys("trust is a list of the public texts of desks' keys")
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._told: set[str] = set()
        for number, text in enumerate(keys, start=1):
            if isinstance(text, str) and text.startswith(PRIVATE):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadKeys(
                    f"key {number} of trust is a private one: a worker is given the public text, "
                    "which 'sayso desk-key show' prints"
                )
            raw = _read(text, PUBLIC)
            if raw is None:
                raise BadKeys(
                    f"key {number} of trust is not '{PUBLIC}' and {KEY_BYTES} bytes in base64"
                )
            self._keys[_id_of(raw)] = _ed25519().Ed25519PublicKey.from_public_bytes(raw)
        if not self._keys:
            raise BadKeys("trust is empty: nothing that people decide would ever count")

    def __repr__(self) -> str:
        return f"Trust({', '.join(self._keys)})"

    def verifies(self, run: Run, hold: int, version: int, decision: Decision) -> bool:
        """Tell whether a desk that is trusted has signed exactly this decision on this hold."""
        key_id, _, text = decision.signature.partition(".")
        key, signature = self._keys.get(key_id), _decode(text)
        if key is None or signature is None:
            return False
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(signature, decision_bytes(run, hold, version, decision))
        except InvalidSignature:
            return False
        return True

    def starts(self, run: Run, row: CallRow, settled: e.HoldSettled | None) -> bool:
        """Tell whether a signed yes stands behind a call as it is now."""
        if settled is None or not says_yes(settled.decision.verdict):
            return False
        if settled.decision.digest != row.digest:
            return False
        return self.verifies(run, settled.hold, settled.version, settled.decision)

    def allows(self, run: Run, row: CallRow, transcript: Transcript, quorum: int = 1) -> bool:
        """Tell whether a signed yes stands behind a call, every vote that it rests on is signed as
        well, and they are those of as many persons as it takes.
        """
        settled = transcript.settled.get(row.ref)
        if settled is None or not self.starts(run, row, settled):
            return False
        counted: set[str] = set()
        said = 0
        for decision in transcript.approvals.get(row.ref, ()):
            if not self.verifies(run, settled.hold, settled.version, decision):
                return False
            said += counted.isdisjoint(decision.persons)
            counted.update(decision.persons)
        return said >= quorum

    def answers(self, run: Run, row: CallRow, transcript: Transcript) -> bool:
        """Tell whether all that the body of a call was told by people is signed; that it is not is
        logged once for a run.
        """
        # What a body asks is asked in one version.
        told: list[tuple[int, int, Ask | None, Decision]] = [
            (n, 1, place.asks.get(n), decision)
            for place in transcript.places.get(row.ref, ())
            for n, decision in place.decisions.items()
        ]
        told += [
            (event.hold, event.version, None, event.decision)
            for event in transcript.looked_into.get(row.ref, {}).values()
        ]
        for n, version, ask, decision in told:
            if not needs_signature(ask, decision):
                continue
            said = [*transcript.votes_for(n, decision), decision]
            if not all(self.verifies(run, n, version, one) for one in said):
                self._tell(run.id, n)
                return False
        return True

    def _tell(self, run_id: str, n: int) -> None:
        if run_id in self._told:
            return
        self._told.add(run_id)
        log.warning(
            "%s waits: the decision on its hold %d is not signed by a desk that this worker "
            "trusts. Give it that desk's key, or cancel the run",
            run_id,
            n,
            extra={"run_id": run_id, "hold_id": hold_id(run_id, n)},
        )


def _read(text: Any, prefix: str) -> bytes | None:
    if not isinstance(text, str) or not text.startswith(prefix):
        return None
    raw = _decode(text.removeprefix(prefix))
    return raw if raw is not None and len(raw) == KEY_BYTES else None


def _id_of(public: bytes) -> str:
    return f"desk_{hashlib.sha256(public).hexdigest()[:16]}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BadKeys("signatures need one more package: pip install sayso[crypto]") from None
    return ed25519
