"""Bearers of an identity provider's tokens: OpenID Connect, as JWTs that are verified here."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.requests import HTTPConnection

from sayso.app import Sayso
from sayso.errors import BadSetup
from sayso.server.caller import Caller
from sayso.server.issuer import Claimed, Fetch, Issuer


class JwtWay:
    """Lets in who bears a token of one issuer, made for this audience."""

    def __init__(
        self,
        sayso: Sayso,
        *,
        issuer: str | Issuer,
        audience: str,
        project: str = "default",
        person_claim: str = "sub",
        roles_claim: str | None = None,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not audience:
            raise BadSetup("say for which audience tokens are made: any other's would be good here")
        named = isinstance(issuer, str)
        self._issuer = Issuer(issuer, fetch=fetch, clock=clock) if named else issuer
        self._audience = audience
        self._claimed = Claimed(
            sayso, project=project, person_claim=person_claim, roles_claim=roles_claim
        )

    async def enter(self, credential: str, request: HTTPConnection) -> Caller | None:
        """Verify it."""
        del request
        if credential.count(".") != 2:  # noqa: PLR2004 - a JWT has three parts.
            return None
        claims = await self._issuer.verify(credential, self._audience)
        return await self._claimed.enter(claims, via="jwt")
