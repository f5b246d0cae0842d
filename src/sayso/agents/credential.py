"""Credentials: what a provider gave an agent to act for a person, sealed wherever it is kept.

Rule: a token is never shown. It is in no repr and in no message, and on the shelf only encrypted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from sayso.domain.value import Value
from sayso.errors import NotUnderstood
from sayso.store.keyring import KeyRing
from sayso.store.shelf import Item, Shelf

KIND = "credential"
"""What credentials are called on the shelf, and the purpose that they are encrypted for."""


class Credential(Value, frozen=True, kw_only=True):
    """Tokens of one person at one provider."""

    provider: str
    person: str
    scopes: tuple[str, ...]
    """What was granted, which may be less than was asked for."""
    access_token: str
    refresh_token: str | None = None
    expires_at: int | None = None
    """Milliseconds since 1970; None: the provider did not say."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Credential({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Leave the tokens out; what comes with the base class would show them."""
        shown = ("provider", "person", "scopes", "expires_at")
        return [(name, getattr(self, name)) for name in shown]

    def is_fresh(self, now: int, *, margin_ms: int = 0) -> bool:
        """Tell whether it will be valid for this much longer, as far as the provider has said."""
        return self.expires_at is None or now + margin_ms < self.expires_at

    def seal(self, keys: KeyRing, project: str) -> bytes:
        """Encrypt it, bound to the project, the person and the provider."""
        return keys.encrypt(
            KIND, msgspec.json.encode(self), _place(project, self.person, self.provider)
        )

    @classmethod
    def unseal(
        cls, keys: KeyRing, data: bytes, *, project: str, person: str, provider: str
    ) -> Credential:
        """Decrypt a credential. `BadKeys` if it was changed, belongs to somebody else, or no key of
        the ring has sealed it.
        """
        opened = keys.decrypt(KIND, data, _place(project, person, provider))
        try:
            return msgspec.json.decode(opened, type=cls)
        except ValueError:
            # Without the cause, which might quote what was inside.
            pass
        raise NotUnderstood(f"the credential of {person!r} at {provider!r} cannot be read")


class Kept(NamedTuple):
    """A credential on the shelf, and the rev to replace it by."""

    credential: Credential
    rev: int


class CredentialShelf:
    """Keeps one credential for each project, person and provider, sealed."""

    def __init__(self, shelf: Shelf, keys: KeyRing) -> None:
        self._shelf = shelf
        self._keys = keys

    async def get(self, project: str, person: str, provider: str) -> Kept | None:
        """Read a credential; None if there is none. `BadKeys` if it cannot be unsealed."""
        item = await self._shelf.get(project, KIND, _id(person, provider))
        return None if item is None else self._kept(item, person, provider)

    async def put(self, project: str, credential: Credential, *, rev: int) -> Kept:
        """Keep a credential in place of the one with this rev; 0: there must be none.

        `StaleItem` if there is another: somebody else has refreshed it, dropped it or signed in,
        and theirs stands. Get that one.
        """
        name = _id(credential.person, credential.provider)
        sealed = credential.seal(self._keys, project)
        item = await self._shelf.put(project, KIND, name, sealed, rev=rev)
        return Kept(credential, item.rev)

    async def drop(
        self, project: str, person: str, provider: str, *, rev: int | None = None
    ) -> None:
        """Forget a credential; None: whichever there is, if any. `StaleItem` if it has another
        rev.
        """
        await self._shelf.drop(project, KIND, _id(person, provider), rev=rev)

    def _kept(self, item: Item, person: str, provider: str) -> Kept:
        credential = Credential.unseal(
            self._keys, item.data, project=item.project, person=person, provider=provider
        )
        return Kept(credential, item.rev)


def _id(person: str, provider: str) -> str:
    # No provider has a slash in its name, so that no two pairs share an id.
    return f"{provider}/{person}"


def _place(project: str, person: str, provider: str) -> bytes:
    return msgspec.json.encode([project, person, provider])
