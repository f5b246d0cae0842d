"""Signing a person in at a provider: OAuth 2.0 with an authorization code and PKCE (S256).

Rule 1: nothing is stored on the way. The `state` that travels through the browser is signed and
says what the sign-in is for, and the PKCE verifier is derived from it with the key ring: any
process can finish what another began.
Rule 2: no code, verifier, secret or token is ever in a message, a repr or a URL that we make.

A state is good until it is too old, not once: what makes a sign-in count once is that providers
take a code once, and that a hold is settled once.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterable
from typing import Literal
from urllib.parse import quote, urlencode

import msgspec

from sayso.agents.credential import Credential
from sayso.agents.oauth_provider import OAuthProvider, read_scopes
from sayso.agents.oauth_token import Grant, ask
from sayso.errors import BadState, BadValue, SignInFailed
from sayso.store.keyring import KeyRing

STATE_AGE_MAX_MS = 15 * 60_000
"""How long a person may take to sign in."""
STATE_CHARS_MAX = 4096
CODE_CHARS_MAX = 4096
_SKEW_MS = 60_000
"""How far the clocks of two machines may be apart."""
_STATE = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", re.ASCII)
_SIGNED = "oauth.state"
_DERIVED = "oauth.pkce"

Why = Literal["malformed", "forged", "expired", "provider"]


class StateFacts(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What a sign-in under way is for."""

    hold_id: str
    provider: str
    person: str
    """Who was sent to sign in. Whoever comes back must be this person, which the caller checks."""
    scopes: tuple[str, ...]
    nonce: str
    issued_at: int


class OAuthClient:
    """Sends people to one provider, and takes them back. All times are milliseconds since 1970."""

    def __init__(self, provider: OAuthProvider, keys: KeyRing) -> None:
        self.provider = provider
        self._keys = keys

    def __repr__(self) -> str:
        return f"<client of {self.provider.name!r}>"

    def authorization_url(
        self, hold_id: str, person: str, scopes: Iterable[str] = (), *, now: int
    ) -> str:
        """Say where to send a person to sign in and to consent.

        Without scopes, for those that the provider was made with. `BadProvider` if one is none. The
        state in it is signed, but not secret: hold and person can be read there.
        """
        provider = self.provider
        asked = read_scopes(provider.name, scopes) or provider.scopes
        facts = StateFacts(
            hold_id=hold_id,
            provider=provider.name,
            person=person,
            scopes=asked,
            nonce=secrets.token_urlsafe(16),
            issued_at=now,
        )
        body = _encode(msgspec.json.encode(facts))
        state = f"{body}.{self._keys.sign(_SIGNED, body.encode())}"
        if len(state) > STATE_CHARS_MAX:
            raise BadValue(
                "the state of this sign-in is too long: use shorter ids, or ask for fewer scopes"
            )
        parameters = {
            **provider.extra,
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": provider.redirect_url,
            **({"scope": " ".join(asked)} if asked else {}),
            # OpenID providers may insist on it; the ID token that has it is not read here.
            **({"nonce": facts.nonce} if "openid" in asked else {}),
            "state": state,
            "code_challenge": _encode(hashlib.sha256(self._verifier(state)).digest()),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in provider.authorize_url else "?"
        return f"{provider.authorize_url}{joint}{urlencode(parameters, quote_via=quote)}"

    def read_state(self, state: str, *, now: int, max_age_ms: int = STATE_AGE_MAX_MS) -> StateFacts:
        """Read a state that came back.

        `BadState` if it is malformed, forged, too old, or of another provider; `reason` says which.
        """
        facts = self._verified(state)
        if facts.provider != self.provider.name:
            raise _bad("provider", f"it is of {facts.provider!r}, not of {self.provider.name!r}")
        if not -_SKEW_MS <= now - facts.issued_at <= max_age_ms:
            raise _bad("expired", "too much time has passed; start the sign-in again")
        return facts

    def check_issuer(self, issuer: str | None) -> None:
        """Raise `BadState` if an answer, whatever it says, names another issuer than this one."""
        if issuer is not None and self.provider.issuer not in (None, issuer):
            raise _bad("provider", "the answer is from another issuer")

    async def exchange(
        self,
        code: str,
        state: str,
        *,
        now: int,
        issuer: str | None = None,
        max_age_ms: int = STATE_AGE_MAX_MS,
    ) -> Credential:
        """Make a credential of the code that came back with a state.

        `issuer` is the parameter `iss` that came back as well, if one did. `BadState` as from
        `read_state`, or if the issuer is not the provider's; `SignInFailed` if the provider refuses
        the code, cannot be reached or does not answer as it should.
        """
        facts = self.read_state(state, now=now, max_age_ms=max_age_ms)
        self.check_issuer(issuer)
        if type(code) is not str or not 0 < len(code) <= CODE_CHARS_MAX or not _is_visible(code):
            raise SignInFailed(f"what came back from {self.provider.name!r} is no code")
        grant = await ask(
            self.provider,
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self.provider.redirect_url,
                "code_verifier": self._verifier(state).decode(),
            },
        )
        return _credential(
            grant,
            provider=facts.provider,
            person=facts.person,
            scopes=facts.scopes,
            refresh_token=None,
            now=now,
        )

    async def refresh(self, credential: Credential, *, now: int) -> Credential:
        """Make a new credential of an old one.

        `SignInFailed` as from `exchange`, or if there is nothing to refresh it with; unless it is
        `retryable`, the person has to sign in again.
        """
        if credential.provider != self.provider.name:
            raise SignInFailed(
                f"the credential is of {credential.provider!r}, not of {self.provider.name!r}"
            )
        if credential.refresh_token is None:
            raise SignInFailed(
                f"{self.provider.name!r} gave nothing to refresh it with: sign in again"
            )
        grant = await ask(
            self.provider,
            {"grant_type": "refresh_token", "refresh_token": credential.refresh_token},
        )
        return _credential(
            grant,
            provider=credential.provider,
            person=credential.person,
            scopes=credential.scopes,
            refresh_token=credential.refresh_token,
            now=now,
        )

    def _verified(self, state: str) -> StateFacts:
        # Whatever comes in the query of a request, so not even certainly text.
        if type(state) is not str or len(state) > STATE_CHARS_MAX:
            raise _bad("malformed", "it is no text of ours")
        parts = _STATE.fullmatch(state)
        if parts is None:
            raise _bad("malformed", "it is no text of ours")
        body, signature = parts.groups()
        if not self._keys.verify(_SIGNED, body.encode(), signature):
            raise _bad("forged", "no key of this ring has signed it")
        try:
            return msgspec.json.decode(_decode(body), type=StateFacts)
        except ValueError:
            raise _bad("malformed", "it was signed by another version of Sayso") from None

    def _verifier(self, state: str) -> bytes:
        """Derive the PKCE verifier: with the key that has signed the state, which the ring may have
        rotated away from since.
        """
        body, key_id, _ = state.split(".")
        return _encode(self._keys.derive(_DERIVED, body.encode(), key_id=key_id)).encode()


def _credential(
    grant: Grant,
    *,
    provider: str,
    person: str,
    scopes: tuple[str, ...],
    refresh_token: str | None,
    now: int,
) -> Credential:
    """Fill in what the provider may leave out because it has not changed."""
    # From the time before the request: too early is a refresh, too late is a refused call.
    expires_at = None if grant.lifetime_s is None else now + grant.lifetime_s * 1000
    return Credential(
        provider=provider,
        person=person,
        scopes=scopes if grant.scopes is None else grant.scopes,
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or refresh_token,
        expires_at=expires_at,
    )


def _bad(reason: Why, message: str) -> BadState:
    return BadState(f"the state of the sign-in cannot be used: {message}", reason=reason)


def _is_visible(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
