"""Who is let in: the credential of a request, turned into a caller.

Rule: the first way in that knows a credential decides; one that is no good lets nobody in, whatever
else is sent along.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Protocol

from starlette.requests import HTTPConnection

from sayso.app import Sayso
from sayso.domain.value import Principal
from sayso.errors import Unauthenticated
from sayso.server.caller import Caller
from sayso.server.token import Tokens

BEARER_MAX = 16_384
LOOPBACK = frozenset({"127.0.0.1", "::1"})
_PASSED_ON = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What a request has that has come by way of another machine."""


class Way(Protocol):
    """A way in: knows one kind of bearer credential."""

    async def enter(self, credential: str, request: HTTPConnection) -> Caller | None:
        """Give whose credential it is; None: it is of no kind known here. `Unauthenticated` if it
        is, and is no good.
        """
        ...


class Door:
    """Lets callers in by what they bear."""

    def __init__(self, ways: Sequence[Way]) -> None:
        self._ways = ways

    async def identify(self, request: HTTPConnection) -> Caller:
        """Give who sends a request, or raise `Unauthenticated`."""
        return await self.admit(_bearer(request), request)

    async def admit(self, credential: str, request: HTTPConnection) -> Caller:
        """Give whose credential this is, or raise `Unauthenticated`."""
        if len(credential) > BEARER_MAX or not credential.isascii():
            raise Unauthenticated("this is no credential")
        for way in self._ways:
            caller = await way.enter(credential, request)
            if caller is not None:
                return caller
        raise Unauthenticated("this credential is not known here, or has ended")

    @property
    def local(self) -> LocalWay | None:
        """The way in of one person on this machine, if there is one."""
        return next((way for way in self._ways if isinstance(way, LocalWay)), None)


class TokenWay:
    """Lets in who bears an API token."""

    def __init__(self, sayso: Sayso) -> None:
        self._sayso = sayso

    async def enter(self, credential: str, request: HTTPConnection) -> Caller | None:
        """Look the token up."""
        del request
        if not credential.startswith("sayso_"):
            return None
        token = await Tokens(self._sayso.store).find(credential)
        if token is None:
            raise Unauthenticated("this token is not known, was revoked, or has ended")
        return Caller(
            by=token.by, project=token.project, scopes=frozenset(token.scopes), via="token"
        )


class LocalWay:
    """Lets one person in on this machine, by a token that lives as long as the server does."""

    def __init__(self, by: Principal, project: str) -> None:
        self.caller = Caller(by=by, project=project, via="local")
        self.text = f"local_{secrets.token_urlsafe(32)}"
        self.id = secrets.token_urlsafe(16)
        """Which start of the server this is."""
        self.code = secrets.token_urlsafe(32)
        """What the link has in it that the server prints; a browser comes in by it once."""
        self._used = False

    async def enter(self, credential: str, request: HTTPConnection) -> Caller | None:
        """Compare it, for callers on this machine."""
        if not credential.startswith("local_"):
            return None
        if not is_from_here(request) or not hmac.compare_digest(
            credential.encode(), self.text.encode()
        ):
            raise Unauthenticated("this local token is not the one that the server has printed")
        return self.caller

    def is_code(self, code: str) -> bool:
        """Tell whether somebody can come in by a code. Asking does not use it up."""
        return not self._used and hmac.compare_digest(code.encode(), self.code.encode())

    def use(self, code: str) -> Caller:
        """Let somebody in by a code, once; `Unauthenticated` after that."""
        if not self.is_code(code):
            raise Unauthenticated("this link was used, or is of an earlier start of the server")
        self._used = True
        return self.caller


def is_from_here(request: HTTPConnection) -> bool:
    """Tell whether a request was sent on this machine, and not only handed on by it."""
    near = request.client is not None and request.client.host in LOOPBACK
    return near and not any(name in request.headers for name in _PASSED_ON)


def _bearer(request: HTTPConnection) -> str:
    sent = request.headers.getlist("authorization")
    if not sent:
        raise Unauthenticated("send a credential: Authorization: Bearer ...")
    kind, _, credential = sent[0].partition(" ")
    if len(sent) > 1 or kind.lower() != "bearer" or not credential:
        raise Unauthenticated("send one credential: Authorization: Bearer ...")
    return credential
