"""API tokens: made once, shown once, kept as hashes.

A token is `sayso_<id>_<secret>`. Its secret is random and long, so a plain hash of it is all that
is kept; whoever reads the store cannot use what they find.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import datetime

import msgspec

from sayso.domain.ruling import duration_ms
from sayso.domain.value import Principal, Value
from sayso.errors import BadValue, StaleItem, Unknown
from sayso.server.caller import SCOPES, Caller, Scope
from sayso.store.base import PAGE_MAX, Store
from sayso.store.shelf import check_text
from sayso.store.views import moment

TOKENS = "sayso:tokens"
"""The project under which tokens are kept: a token is looked up before its project is known."""
KIND = "token"
_TEXT = re.compile(r"sayso_([a-z2-7]{16})_([A-Za-z0-9_-]{43})")


class Token(Value, frozen=True, kw_only=True):
    """A token as it is kept: without its secret."""

    id: str
    name: str
    by: Principal
    project: str
    scopes: tuple[Scope, ...]
    at: int
    hash: str
    until: int | None = None
    revoked: int | None = None
    made_by: str = ""
    """Who made it; empty: whoever can write the store."""

    @property
    def expires_at(self) -> datetime | None:
        """When it ends by itself."""
        return None if self.until is None else moment(self.until)

    def is_good(self, now: int) -> bool:
        """Tell whether it can still be used."""
        return self.revoked is None and (self.until is None or now < self.until)


class Tokens:
    """Keeps tokens on a store's shelf."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shelf = store.shelf

    async def create(
        self,
        *,
        name: str,
        by: Principal,
        project: str,
        scopes: Iterable[Scope] = SCOPES,
        expires: str | float | None = None,
        made_by: Principal | None = None,
    ) -> tuple[Token, str]:
        """Make a token; the second is its text, which nobody can give again."""
        check_text("the name of a token", name)
        check_text("the project of a token", project)
        check_text("whose token it is", by.id)
        given = frozenset(scopes)
        if not given or not given <= SCOPES:
            raise BadValue(f"the scopes of a token are some of: {', '.join(sorted(SCOPES))}")
        # Whoever may not call with it cannot have it.
        Caller(by=by, project=project, scopes=given)
        if project == TOKENS:
            raise BadValue(f"{TOKENS!r} is no project of anybody's")
        secret = secrets.token_urlsafe(32)
        now = self._store.now()
        token = Token(
            id=_new_id(),
            name=name,
            by=by,
            project=project,
            scopes=tuple(sorted(given)),
            at=now,
            hash=_hash(secret),
            until=None if expires is None else now + duration_ms(expires),
            made_by="" if made_by is None else str(made_by),
        )
        await self._shelf.put(TOKENS, KIND, token.id, msgspec.json.encode(token), rev=0)
        return token, f"sayso_{token.id}_{secret}"

    async def find(self, text: str) -> Token | None:
        """Give the token that a text is, if it is one and is still good."""
        read = _TEXT.fullmatch(text)
        if read is None:
            return None
        item = await self._shelf.get(TOKENS, KIND, read[1])
        if item is None:
            return None
        token = msgspec.json.decode(item.data, type=Token)
        same = hmac.compare_digest(token.hash, _hash(read[2]))
        return token if same and token.is_good(self._store.now()) else None

    async def is_good(self, token_id: str) -> bool:
        """Tell whether a token can still be used, for whoever has been let in by it."""
        item = await self._shelf.get(TOKENS, KIND, token_id)
        token = None if item is None else msgspec.json.decode(item.data, type=Token)
        return token is not None and token.is_good(self._store.now())

    async def list(self, project: str) -> list[Token]:
        """List the tokens of a project, those that are revoked or over as well."""
        found: list[Token] = []
        after: str | None = None
        while page := await self._shelf.list(TOKENS, KIND, after=after, limit=PAGE_MAX):
            tokens = [msgspec.json.decode(item.data, type=Token) for item in page]
            found += [one for one in tokens if one.project == project]
            after = page[-1].id
        return sorted(found, key=lambda one: (one.at, one.id))

    async def revoke(self, token_id: str, *, project: str) -> Token:
        """End a token for good. Doing it twice is fine; `Unknown` if the project has no such."""
        while True:
            item = None
            if re.fullmatch(r"[a-z2-7]{16}", token_id):
                item = await self._shelf.get(TOKENS, KIND, token_id)
            token = None if item is None else msgspec.json.decode(item.data, type=Token)
            if item is None or token is None or token.project != project:
                raise Unknown(f"there is no token {token_id!r}")
            if token.revoked is not None:
                return token
            ended = msgspec.structs.replace(token, revoked=self._store.now())
            try:
                data = msgspec.json.encode(ended)
                await self._shelf.put(TOKENS, KIND, token_id, data, rev=item.rev)
            except StaleItem:
                continue
            return ended


def _new_id() -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    return "".join(secrets.choice(alphabet) for _ in range(16))


def _hash(secret: str) -> str:
    return hashlib.sha256(b"sayso.token.1" + secret.encode()).hexdigest()
