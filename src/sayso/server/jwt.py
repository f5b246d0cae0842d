"""Bearers of an identity provider's tokens: OpenID Connect, as JWTs that are verified here.

Rule 1: nothing in a token counts before its signature, issuer, audience and time have been checked.
Rule 2: keys are fetched from the issuer alone, and a forged key id does not make us fetch again.
Rule 3: roles are records. A token brings them up to date, and never an older token after a newer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.requests import HTTPConnection

from sayso.app import Sayso
from sayso.domain.value import Principal
from sayso.errors import BadSetup, BadValue, StaleItem, StoreBusy, Unauthenticated
from sayso.server.caller import SCOPES, Caller

log = logging.getLogger("sayso")

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"]
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


class JwtWay:
    """Lets in who bears a token of one issuer, made for this audience."""

    def __init__(
        self,
        sayso: Sayso,
        *,
        issuer: str,
        audience: str,
        project: str = "default",
        person_claim: str = "sub",
        roles_claim: str | None = None,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        at = urlsplit(issuer)
        near = at.hostname in ("localhost", "127.0.0.1", "::1")
        if at.scheme != "https" and not (at.scheme == "http" and near):
            raise BadSetup(f"the issuer {issuer!r} has to be reached by https")
        if not audience:
            raise BadSetup("say for which audience tokens are made: any other's would be good here")
        self._sayso = sayso
        self._issuer = issuer
        self._audience = audience
        self._project = project
        self._person_claim = person_claim
        self._roles_claim = roles_claim
        self._keys = _Keys(issuer, fetch or _fetch, clock)
        self._bringing = asyncio.Lock()

    async def enter(self, credential: str, request: HTTPConnection) -> Caller | None:
        """Verify it."""
        del request
        if credential.count(".") != 2:  # noqa: PLR2004 - a JWT has three parts.
            return None
        claims = await self._verify(credential)
        name = claims.get(self._person_claim)
        if not isinstance(name, str) or not name or not name.isprintable():
            raise Unauthenticated(f"this token has no {self._person_claim!r} that names a person")
        if self._roles_claim is not None:
            await self._bring_up(name, claims)
        return Caller(by=Principal(id=name), project=self._project, scopes=SCOPES, via="jwt")

    async def _verify(self, credential: str) -> dict[str, Any]:
        try:
            head = jws.extract_compact(credential.encode()).headers()
            keys = await self._keys.get(str(head.get("kid", "")))
            claims = jwt.decode(credential, keys, algorithms=ALGORITHMS).claims
            jwt.JWTClaimsRegistry(
                iss={"essential": True, "value": self._issuer},
                aud={"essential": True, "value": self._audience},
                exp={"essential": True},
                leeway=LEEWAY_S,
            ).validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            # Why it is no good is for the log: whoever forges need not know how far they came.
            log.info("a token was refused: %s", type(error).__name__)
            raise Unauthenticated("this token is not good here") from None
        return claims

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
                last = None if item is None else msgspec.json.decode(item.data, type=_Claimed)
                if last is not None and issued <= last.iat:
                    if tries:  # What was kept here may have come after what is newer.
                        await self._keep(name, last.roles)
                    return
                # First who they are, then that this is known: whoever is cut off does it again.
                if last is None or roles != last.roles or tries:
                    await self._keep(name, roles)
                data = msgspec.json.encode(_Claimed(iat=issued, roles=roles))
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


class _Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest token has said of somebody."""

    iat: float
    roles: list[str]


class _Keys:
    """The keys of an issuer: kept for an hour, and fetched again for one that is not known."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: KeySet | None = None
        self._at = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, kid: str) -> KeySet:
        if self._is_due(kid):
            async with self._lock:
                if self._is_due(kid):
                    await self._load()
                    self._at = self._clock()
        if self._keys is None:
            raise Unauthenticated("the issuer of tokens cannot be reached just now")
        return self._keys

    def _is_due(self, kid: str) -> bool:
        age = self._clock() - self._at
        if self._keys is None:
            return age > RETRY_S
        known = any(key.kid == kid for key in self._keys.keys)
        return age > KEYS_GOOD_S or (not known and age > KEYS_AGAIN_S)

    async def _load(self) -> None:
        try:
            about = await self._fetch(
                f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
            )
            if about.get("issuer") != self._issuer:
                raise ValueError("it names itself otherwise")
            self._keys = KeySet.import_key_set(await self._fetch(about["jwks_uri"]))
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
