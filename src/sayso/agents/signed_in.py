"""Who is signed in where: credentials for calls that act for a person, refreshed when needed.

Rule 1: a call acts for whoever started its run, and for nobody else.
Rule 2: what a tool names as scopes is demanded; what a provider was made with is only asked for,
because some providers grant such a scope and never say so.
Rule 3: of two refreshes at once the first that is kept stands, and the other one is given it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakValueDictionary

from sayso.agents.credential import Credential, CredentialShelf, Kept
from sayso.agents.oauth import OAuthClient
from sayso.agents.oauth_provider import OAuthProvider
from sayso.domain.hold import Consent, SignIn
from sayso.domain.ruling import require
from sayso.domain.run import Run
from sayso.engine.context import Wanted
from sayso.errors import BadKeys, BadProvider, NotUnderstood, SignInFailed, StaleItem
from sayso.store.base import Store
from sayso.store.keyring import KeyRing

MARGIN_MS = 60_000
"""A credential that can be refreshed is, once it has no longer than this to go."""
TRIES_MAX = 10
"""How often a credential is put on the shelf against others who do the same."""


class SignedIn:
    """Knows who is signed in where."""

    def __init__(self, store: Store, providers: Mapping[str, OAuthProvider], keys: KeyRing) -> None:
        self.clients = {name: OAuthClient(one, keys) for name, one in providers.items()}
        self._store = store
        self._shelf = CredentialShelf(store.shelf, keys)
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    async def missing(self, run: Run, needed: SignIn) -> Wanted | None:
        """Say what whoever started the run is asked before a call can act for them.

        `SignInFailed` if asking would not help: nobody can sign in for a service, and a provider
        that is down is down for everybody.
        """
        found = await self._look(run, needed)
        return None if isinstance(found, Credential) else found

    async def token(self, run: Run, needed: SignIn) -> str | None:
        """Give an access token that is good now; None if somebody has to be asked first."""
        found = await self._look(run, needed)
        return found.access_token if isinstance(found, Credential) else None

    async def granted(self, project: str, person: str, provider: str) -> tuple[str, ...]:
        """List what a person has allowed at a provider so far."""
        kept = await self._kept(project, person, provider)
        return () if kept is None else kept.credential.scopes

    async def satisfies(self, project: str, person: str, ask: SignIn | Consent) -> bool:
        """Tell whether all that is asked is there already."""
        kept = await self._kept(project, person, ask.provider)
        if kept is None or not covers(kept.credential, ask.scopes):
            return False
        try:
            kept = await self._fresh(project, kept)
        except SignInFailed:
            return False
        return kept is not None and covers(kept.credential, ask.scopes)

    async def keep(self, project: str, credential: Credential) -> None:
        """Keep what somebody has just signed in for, in place of whatever there is."""
        person, provider = credential.person, credential.provider
        for _ in range(TRIES_MAX):
            try:
                kept = await self._shelf.get(project, person, provider)
                await self._shelf.put(project, credential, rev=0 if kept is None else kept.rev)
            except StaleItem:
                continue  # Refreshed or replaced meanwhile; who signs in knows better.
            except (BadKeys, NotUnderstood):
                # Nobody can use what is there any more.
                await self._shelf.drop(project, person, provider)
            else:
                return
        raise StaleItem(f"the credential of {person!r} at {provider!r} keeps changing", rev=0)

    def client(self, provider: str) -> OAuthClient:
        """Give the client of a provider, or raise `BadProvider`."""
        client = self.clients.get(provider)
        if client is None:
            raise BadProvider(f"there is no provider {provider!r}: give Sayso(providers=[...])")
        return client

    async def _look(self, run: Run, needed: SignIn) -> Credential | Wanted:
        client = self.client(needed.provider)
        if run.by.kind != "person":
            raise SignInFailed(
                f"{run.by} started the run, and only people sign in at {needed.provider!r}"
            )
        kept = await self._kept(run.project, run.by.id, needed.provider)
        if kept is not None and covers(kept.credential, needed.scopes):
            # A refresh may grant less than before.
            kept = await self._fresh(run.project, kept)
        asked = (*client.provider.scopes, *needed.scopes)
        if kept is None:
            ask = SignIn(provider=needed.provider, scopes=tuple(dict.fromkeys(asked)))
            title = f"Sign in at {needed.provider}"
        elif not covers(kept.credential, needed.scopes):
            asked = (*kept.credential.scopes, *asked)
            ask = Consent(provider=needed.provider, scopes=tuple(dict.fromkeys(asked)))
            title = f"Allow more at {needed.provider}"
        else:
            return kept.credential
        return Wanted(ask=ask, ruling=require(title=title, editable=False))

    async def _kept(self, project: str, person: str, provider: str) -> Kept | None:
        try:
            return await self._shelf.get(project, person, provider)
        except (BadKeys, NotUnderstood):
            return None  # Its key is gone: signing in again is the way out.

    async def _fresh(self, project: str, kept: Kept) -> Kept | None:
        """Give a credential that is good now, refreshed if need be; None: sign in again."""
        if self._is_good(kept):
            return kept
        person, provider = kept.credential.person, kept.credential.provider
        # Some providers take a token that is used twice for a stolen one, and revoke everything.
        lock = self._locks.setdefault((project, person, provider), asyncio.Lock())
        async with lock:
            found = await self._kept(project, person, provider)
            if found is None or self._is_good(found):
                return found
            if found.credential.refresh_token is None:
                return None
            return await self._refresh(project, found)

    async def _refresh(self, project: str, kept: Kept) -> Kept | None:
        old = kept.credential
        failed: SignInFailed | None = None
        try:
            new = await self.client(old.provider).refresh(old, now=self._store.now())
            kept = await self._shelf.put(project, new, rev=kept.rev)
        except StaleItem:
            pass
        except SignInFailed as error:
            failed = error
        else:
            return kept if new.is_fresh(self._store.now()) else None
        # Another process may have been faster, and then this token was used up.
        found = await self._kept(project, old.person, old.provider)
        if found is not None and found.rev != kept.rev and self._is_good(found):
            return found
        if failed is not None and failed.retryable:
            if old.is_fresh(self._store.now()):
                return kept  # It was only about to expire.
            raise failed
        return None

    def _is_good(self, kept: Kept) -> bool:
        # What cannot be refreshed is used to its end: asking earlier would ask for ever if it is
        # short-lived.
        margin_ms = 0 if kept.credential.refresh_token is None else MARGIN_MS
        return kept.credential.is_fresh(self._store.now(), margin_ms=margin_ms)


def covers(credential: Credential, scopes: tuple[str, ...]) -> bool:
    """Tell whether a credential has all of these scopes."""
    return set(scopes) <= set(credential.scopes)
