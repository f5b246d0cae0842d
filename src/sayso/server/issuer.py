"""An identity provider: what it says of itself, its keys, and whom its tokens name.

Rule 1: nothing in a token counts before its signature, issuer, audience and time have been checked.
Rule 2: keys are fetched from the issuer alone, and a forged key id does not make us fetch again.
Rule 3: roles are records. A token brings them up to date, and never an older token after a newer.
"""

from __future__ import annotations

import asyncio
import logging
import time
import unicodedata
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from sayso.app import Sayso
from sayso.domain.people import SLACK
from sayso.domain.value import Principal
from sayso.engine.keys import KEY_MAX
from sayso.errors import BadSetup, BadValue, StaleItem, StoreBusy, Unauthenticated
from sayso.server.caller import SCOPES, Caller

log = logging.getLogger("sayso")

ALGORITHMS = [
    *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)),
    "EdDSA",
    "Ed25519",
]
"""Those with a public key only: with a shared one, whoever verifies could also make."""
LEEWAY_S = 30
KEYS_GOOD_S = 3600.0
TRIES_MAX = 20
RETRY_S = 5.0
"""How long after a failure the issuer is asked again, while none of its keys is known."""
KEYS_AGAIN_S = 60.0
"""How long a key that is not known is not asked for again."""
FETCH_S = 10.0
ANSWER_BYTES_MAX = 1 << 20
_CLAIMS = "claims"

Fetch = Callable[[str], Awaitable[Any]]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What an issuer says of itself, as far as it is needed here."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False


class Issuer:
    """One OpenID Connect issuer. `BadSetup` if it could not be trusted."""

    def __init__(
        self,
        url: str,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _is_safe(url):
            raise BadSetup(f"the issuer {url!r} has to be reached by https")
        self.url = url
        self.host = urlsplit(url).netloc
        self._keys = _Keys(url, fetch or _fetch, clock)

    async def about(self) -> About:
        """Say where it is asked for what; `Unauthenticated` if it cannot be reached."""
        return (await self._keys.get(None))[0]

    async def verify(self, token: str, audience: str) -> dict[str, Any]:
        """Give what a token of the issuer says that is made for this audience, or raise
        `Unauthenticated`.
        """
        try:
            head = jws.extract_compact(token.encode()).headers()
            _, keys = await self._keys.get(str(head.get("kid", "")))
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            jwt.JWTClaimsRegistry(
                iss={"essential": True, "value": self.url},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
                leeway=LEEWAY_S,
            ).validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            # Why it is no good is for the log: whoever forges need not know how far they came.
            log.info("a token was refused: %s", type(error).__name__)
            raise Unauthenticated("this token is not good here") from None
        return claims


class Claimed:
    """Finds whom a token names, and brings their record up to what it says."""

    def __init__(
        self, sayso: Sayso, *, project: str, person_claim: str, roles_claim: str | None
    ) -> None:
        self._sayso = sayso
        self._project = project
        self._person_claim = person_claim
        self._roles_claim = roles_claim
        self._bringing = asyncio.Lock()

    async def enter(self, claims: dict[str, Any], *, via: str) -> Caller:
        """Give the caller whom verified claims name, or raise `Unauthenticated`."""
        name = claims.get(self._person_claim)
        if not isinstance(name, str) or not _is_name(name):
            raise Unauthenticated(f"this token has no {self._person_claim!r} that names a person")
        if self._person_claim == "email" and claims.get("email_verified") is not True:
            # Some providers let people say any address to be theirs.
            raise Unauthenticated("the address in this token has not been verified")
        if self._roles_claim is not None:
            await self._bring_up(name, claims)
        return Caller(by=Principal(id=name), project=self._project, scopes=SCOPES, via=via)

    async def _bring_up(self, name: str, claims: dict[str, Any]) -> None:
        given = claims.get(self._roles_claim or "")
        listed = cast("list[object]", given) if isinstance(given, list) else []
        roles = sorted({str(role) for role in listed})
        issued = claims.get("iat")
        if not isinstance(issued, int | float):
            return  # Nobody can tell whether it is older than what is known.
        shelf = self._sayso.store.shelf
        async with self._bringing:
            for tries in range(TRIES_MAX):
                item = await shelf.get(self._project, _CLAIMS, name)
                last = None if item is None else msgspec.json.decode(item.data, type=_Last)
                if last is not None and issued <= last.iat:
                    if tries:  # What was kept here may have come after what is newer.
                        await self._keep(name, last.roles)
                    return
                # First who they are, then that this is known: whoever is cut off does it again.
                if last is None or roles != last.roles or tries:
                    await self._keep(name, roles)
                data = msgspec.json.encode(_Last(iat=issued, roles=roles))
                rev = 0 if item is None else item.rev
                try:
                    await shelf.put(self._project, _CLAIMS, name, data, rev=rev)
                except StaleItem:
                    continue  # Another server has taken another token: the newest counts.
                return
        raise StoreBusy("the roles of this person change too fast")

    async def _keep(self, name: str, roles: list[str]) -> None:
        try:
            await self._sayso.people.put(name, roles=roles, project=self._project)
        except BadValue:
            raise Unauthenticated("this token names nobody, or roles that cannot be kept") from None


class _Last(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest token has said of somebody."""

    iat: float
    roles: list[str]


def _is_safe(url: str) -> bool:
    """Tell whether nobody between here and there can change what is answered."""
    at = urlsplit(url)
    near = at.hostname in ("localhost", "127.0.0.1", "::1")
    return at.scheme == "https" or (at.scheme == "http" and near)


def _is_name(text: str) -> bool:
    """Tell whether somebody can go by this: what looks like another's name is not one, nor what an
    account elsewhere goes by. There are providers where people choose their names themselves.
    """
    plain = text == text.strip() and unicodedata.is_normalized("NFC", text)
    own = bool(text) and not text.startswith(SLACK)
    return own and len(text) <= KEY_MAX and text.isprintable() and plain


class _Keys:
    """The keys of an issuer: kept for an hour, and fetched again for one that is not known."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._known: tuple[About, KeySet] | None = None
        self._at = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, kid: str | None) -> tuple[About, KeySet]:
        """Give what is known of the issuer; with the key of this id, if it has one."""
        if self._is_due(kid):
            async with self._lock:
                if self._is_due(kid):
                    await self._load()
                    self._at = self._clock()
        if self._known is None:
            raise Unauthenticated("the issuer of tokens cannot be reached just now")
        return self._known

    def _is_due(self, kid: str | None) -> bool:
        age = self._clock() - self._at
        if self._known is None:
            return age > RETRY_S
        known = kid is None or any(key.kid == kid for key in self._known[1].keys)
        return age > KEYS_GOOD_S or (not known and age > KEYS_AGAIN_S)

    async def _load(self) -> None:
        try:
            told = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            about = msgspec.convert(told, About)
            if about.issuer != self._issuer:
                raise ValueError("it names itself otherwise")
            asked = (about.jwks_uri, about.authorization_endpoint, about.token_endpoint)
            if not all(_is_safe(url) for url in asked if url):
                raise ValueError("its keys are not reached by https")
            self._known = (about, KeySet.import_key_set(await self._fetch(about.jwks_uri)))
        except (httpx2.HTTPError, JoseError, ValueError, KeyError, TypeError) as error:
            # The keys that are known are good as long as there are no others.
            log.warning("the keys of %s could not be fetched: %s", self._issuer, error)


async def _fetch(url: str) -> Any:
    async with (
        httpx2.AsyncClient(timeout=FETCH_S, follow_redirects=False, trust_env=False) as client,
        client.stream("GET", url) as answer,
    ):
        answer.raise_for_status()
        read = bytearray()
        async for chunk in answer.aiter_bytes():
            read += chunk
            if len(read) > ANSWER_BYTES_MAX:
                raise ValueError("its answer is too large")
    return msgspec.json.decode(bytes(read))
