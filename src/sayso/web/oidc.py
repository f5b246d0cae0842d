"""Signing in at an identity provider: OpenID Connect, with an authorization code and PKCE (S256).

Rule 1: nothing is kept on the way but the secret of the browser. State, nonce and verifier are made
of it, so that what one browser has begun no other can finish, and any process can.
Rule 2: what the provider says of somebody counts only from its own token, verified, and made for
this client and this very sign-in.

Who signs out here is still signed in at the provider.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from sayso.agents.oauth import CODE_CHARS_MAX
from sayso.agents.oauth_provider import OAuthProvider
from sayso.agents.oauth_token import ask
from sayso.agents.sign_in import ERROR_CODES
from sayso.app import Sayso
from sayso.errors import BadProvider, BadSetup, SignInFailed, Unauthenticated, Unknown
from sayso.server.caller import Caller, sayso_of
from sayso.server.head import get_only
from sayso.server.issuer import About, Claimed, Issuer
from sayso.server.problem import status_of
from sayso.web.before import Before, before_of, forget_before
from sayso.web.origin import own_path, site_of
from sayso.web.page import PageRoute, redirect, render
from sayso.web.session import LASTS_MS, read_form, signed_in
from sayso.web.sign_in import TOO_MANY, peer_of, sign_in_page
from sayso.web.tries import Tries

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CALLBACK = "/sign-in/callback"
SCOPES = ("openid", "profile", "email")
AGE_MAX_S = 600
"""How long somebody may take at the provider."""
SKEW_S = 60
"""How far the clocks of two machines may be apart."""
_BAD = 400
_STATE = re.compile(r"(\d{1,12})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]*)\.([0-9a-f]{64})", re.ASCII)


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that a browser has begun: what it was sent with, and where it goes on to."""

    state: str
    nonce: str
    verifier: str
    there: str


class Oidc:
    """One client of one issuer. `BadSetup` if it could not work."""

    def __init__(
        self,
        sayso: Sayso,
        *,
        issuer: str | Issuer,
        client_id: str,
        client_secret: str | None = None,
        project: str = "default",
        person_claim: str = "sub",
        roles_claim: str | None = None,
        scopes: tuple[str, ...] = SCOPES,
        lasts_ms: int = LASTS_MS,
    ) -> None:
        if not client_id:
            raise BadSetup("say as which client people sign in at the issuer")
        self._issuer = Issuer(issuer) if isinstance(issuer, str) else issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = tuple(dict.fromkeys(("openid", *scopes)))
        self._claimed = Claimed(
            sayso, project=project, person_claim=person_claim, roles_claim=roles_claim
        )
        self.lasts_ms = lasts_ms
        self.host = self._issuer.host
        named = hashlib.sha256(f"{self._issuer.url}\0{client_id}".encode()).hexdigest()
        self.ref = named[:22]
        """What sessions of it are made of."""

    async def url(self, begun: Begun, back: str) -> str:
        """Say where a browser goes to sign in; `SignInFailed` if that is not known just now."""
        provider = self._provider(await self._about(), back)
        parameters = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": back,
            "scope": " ".join(self._scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": _encode(hashlib.sha256(begun.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in provider.authorize_url else "?"
        return f"{provider.authorize_url}{joint}{urlencode(parameters, quote_via=quote)}"

    async def enter(self, begun: Begun, back: str, *, code: str, iss: str | None) -> Caller:
        """Give who has signed in, by the code that came back. `Unauthenticated` if what the issuer
        says is not good here, `SignInFailed` if it says nothing.
        """
        about = await self._about()
        named = about.authorization_response_iss_parameter_supported or iss is not None
        if named and iss != self._issuer.url:
            raise Unauthenticated("the answer is from another issuer")
        if not 0 < len(code) <= CODE_CHARS_MAX or not (code.isascii() and code.isprintable()):
            raise SignInFailed("what came back is no code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": begun.verifier,
        }
        grant = await ask(self._provider(about, back), form)
        if grant.id_token is None:
            raise SignInFailed("it does not say who has signed in: ask for the scope openid")
        claims = await self._issuer.verify(grant.id_token, self._client_id)
        self._check(claims, begun)
        return await self._claimed.enter(claims, via="session")

    def _check(self, claims: dict[str, Any], begun: Begun) -> None:
        """Raise `Unauthenticated` unless a verified token is of this client and this sign-in."""
        nonce, audience = claims.get("nonce"), claims.get("aud")
        many = isinstance(audience, list) and len(cast("list[object]", audience)) > 1
        party = claims.get("azp", None if many else self._client_id)
        if party != self._client_id:
            raise Unauthenticated("this token was made for another client")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), begun.nonce.encode()
        ):
            raise Unauthenticated("this token is of another sign-in")
        if not isinstance(claims.get("iat"), int | float):
            raise Unauthenticated("this token does not say when it was made")

    async def _about(self) -> About:
        try:
            return await self._issuer.about()
        except Unauthenticated as error:
            raise SignInFailed(str(error), retryable=True) from None

    def _provider(self, about: About, back: str) -> OAuthProvider:
        """Hold what the issuer says of itself to the rules for providers: nothing without TLS."""
        try:
            return OAuthProvider(
                "oidc",
                authorize_url=about.authorization_endpoint,
                token_url=about.token_endpoint,
                client_id=self._client_id,
                client_secret=self._client_secret,
                redirect_url=back,
                scopes=self._scopes,
                issuer=self._issuer.url,
            )
        except BadProvider as error:
            raise SignInFailed(f"the issuer cannot be used: {error}") from None


def begin(before: Before, there: str, *, now_s: int) -> Begun:
    """Begin a sign-in in a browser."""
    salt = secrets.token_urlsafe(12)
    return _begun(before, f"{now_s}.{salt}.{_encode(there.encode())}", salt, there)


def come_back(before: Before, state: str, *, now_s: int) -> Begun | None:
    """Give the sign-in that this browser has begun; None if it did not, or too long ago."""
    read = _STATE.fullmatch(state)
    if read is None or not -SKEW_S <= now_s - int(read[1]) <= AGE_MAX_S:
        return None
    body, _, signed = state.rpartition(".")
    if not hmac.compare_digest(signed, before.sign(f"oidc.state.{body}")):
        return None
    return _begun(before, body, read[2], own_path(_decode(read[3])))


def _begun(before: Before, body: str, salt: str, there: str) -> Begun:
    return Begun(
        state=f"{body}.{before.sign(f'oidc.state.{body}')}",
        nonce=before.sign(f"oidc.nonce.{salt}"),
        verifier=before.sign(f"oidc.pkce.{salt}"),
        there=there,
    )


@router.post("/sign-in/provider")
async def go_to_provider(request: Request) -> Response:
    """Send a browser to the provider: by a page, because our forms lead to our own pages only."""
    oidc = _oidc(request)
    form = await read_form(request)
    there = own_path(str(form.get("next", "/")))
    before = before_of(request)
    if before is None:
        return sign_in_page(request, there, said="Your browser has kept no cookie: try again.")
    before.check(str(form.get("word", "")))
    begun = begin(before, there, now_s=_now_s(request))
    try:
        url = await oidc.url(begun, site_of(request) + CALLBACK)
    except SignInFailed as error:
        return _refused(request, oidc, there, f"it cannot be asked just now: {error}.", error)
    return render(request, "leave.html", url=url, host=oidc.host, name="", back="/sign-in")


@router.get(CALLBACK, dependencies=[Depends(get_only)])
async def come_in(
    request: Request,
    state: str = "",
    code: str = "",
    iss: str | None = None,
    error: str | None = None,
) -> Response:
    """Take a browser back from the provider, and sign it in."""
    oidc, before = _oidc(request), before_of(request)
    begun = None if before is None else come_back(before, state, now_s=_now_s(request))
    if begun is None:
        said = "This sign-in was not begun in this browser, or took too long: try again."
        return sign_in_page(request, "/", said=said, status=_BAD)
    if error is not None:
        why = "you said no." if error == "access_denied" else f"{_said(error)}."
        return _refused(request, oidc, begun.there, why)
    tries, peer = cast("Tries", request.app.state.tries), peer_of(request)
    if tries.is_over(peer):
        said = "Too many sign-ins from your address have failed: wait a minute."
        return sign_in_page(request, begun.there, said=said, status=TOO_MANY)
    try:
        caller = await oidc.enter(begun, site_of(request) + CALLBACK, code=code, iss=iss)
    except (SignInFailed, Unauthenticated) as failed:
        tries.fail(peer)
        return _refused(request, oidc, begun.there, f"{failed}.", failed)
    until = sayso_of(request).store.now() + oidc.lasts_ms
    answer = redirect(request, begun.there)
    await signed_in(request, answer, caller, via="oidc", ref=oidc.ref, until=until)
    forget_before(request, answer)
    return answer


def _refused(
    request: Request, oidc: Oidc, there: str, why: str, error: Exception | None = None
) -> Response:
    status = _BAD if error is None else status_of(error)
    said = f"You are not signed in at {oidc.host}: {why}"
    return sign_in_page(request, there, said=said, status=status)


def _said(error: str) -> str:
    return f"it says {error}" if error in ERROR_CODES else "it refuses"


def _oidc(request: Request) -> Oidc:
    oidc = request.app.state.oidc
    if oidc is None:
        raise Unknown("there is no such page")
    return cast("Oidc", oidc)


def _now_s(request: Request) -> int:
    return sayso_of(request).store.now() // 1000


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""
