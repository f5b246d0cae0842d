"""The token endpoint: one request, one answer, bounded in time and size.

Rule: whatever the provider says in its own words stays out of our errors. It may quote a code or a
token.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import quote_plus

import msgspec

from sayso.agents.oauth_provider import OAuthProvider
from sayso.errors import BadProvider, SignInFailed

TIMEOUT_S = 20.0
"""How long a request may take as a whole."""
ANSWER_BYTES_MAX = 256 << 10
TOKEN_CHARS_MAX = 16 << 10
LIFETIME_S_MAX = 10 * 366 * 24 * 3600
_OK = 200
_TRY_LATER = 429
_SERVER_FAULT = 500
# The codes of RFC 6749, section 5.2. Any other might be anything, a token included.
_CODES = frozenset(
    (
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
    )
)


class Grant(NamedTuple):
    """What a provider gave."""

    access_token: str
    refresh_token: str | None
    scopes: tuple[str, ...] | None
    """None: it did not say, which means those that were asked for."""
    lifetime_s: int | None
    id_token: str | None = None
    """Who has signed in, as an OpenID provider says; read by whoever verifies it."""


async def ask(provider: OAuthProvider, form: dict[str, str]) -> Grant:
    """Ask for tokens. `SignInFailed` if there are none; `retryable` if another time may do."""
    status, body = await _post(provider, form)
    answer = _object(body)
    # Some providers say what is wrong with a status that says that nothing is.
    if status != _OK or "error" in answer:
        raise _refused(provider, status, answer.get("error"))
    return _read(provider, answer)


async def _post(provider: OAuthProvider, form: dict[str, str]) -> tuple[int, bytes]:
    try:
        import httpx2
    except ImportError:
        raise BadProvider('signing in needs an extra: pip install "sayso[oauth]"') from None
    auth: httpx2.Auth | None = None
    if provider.client_secret is None:
        form = {**form, "client_id": provider.client_id}
    else:
        auth = httpx2.BasicAuth(quote_plus(provider.client_id), quote_plus(provider.client_secret))
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    why, retryable = "its answer is too large", False
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            # Nothing from the environment: a .netrc would replace our own credentials.
            httpx2.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as client,
            client.stream(
                "POST", provider.token_url, data=form, headers=headers, auth=auth
            ) as answer,
        ):
            body = b""
            # Raw, because a compressed answer has no bound before it is unpacked.
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    break
            else:
                return answer.status_code, body
    except TimeoutError:
        why, retryable = "it takes too long to answer", True
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        why, retryable = f"it cannot be reached ({type(error).__name__})", True
    # Out here, because an error remembers the one it was raised in, and that one has the request.
    raise SignInFailed(f"{provider.name!r} gave no token: {why}", retryable=retryable)


def _refused(provider: OAuthProvider, status: int, found: Any) -> SignInFailed:
    code = found if isinstance(found, str) and found in _CODES else None
    said = f"{code} ({status})" if code else f"status {status}"
    return SignInFailed(
        f"{provider.name!r} gave no token: {said}",
        code=code,
        retryable=code is None and (status == _TRY_LATER or status >= _SERVER_FAULT),
    )


def _read(provider: OAuthProvider, answer: dict[str, Any]) -> Grant:
    """Read a good answer, strictly. What is odd is refused rather than guessed at."""
    if not answer:
        raise _unusable(provider, "it is not in a JSON object")
    kind = answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _unusable(provider, "it is of a type other than Bearer")
    access, refresh = answer.get("access_token"), answer.get("refresh_token")
    who = answer.get("id_token")
    if not _is_token(access) or not (refresh is None or _is_token(refresh)):
        raise _unusable(provider, "it cannot be sent as a header")
    scope = answer.get("scope")
    if not (scope is None or isinstance(scope, str)):
        raise _unusable(provider, "its scope is no text")
    return Grant(
        access_token=access,
        refresh_token=refresh,
        scopes=None if scope is None else tuple(dict.fromkeys(scope.split())),
        lifetime_s=_lifetime(provider, answer.get("expires_in")),
        id_token=who if _is_token(who) else None,
    )


def _lifetime(provider: OAuthProvider, found: Any) -> int | None:
    match found:
        case None:
            return None
        case str() if found.isascii() and found.isdigit():
            # Not what the standard says, but what some providers do.
            return min(int(found[:18]), LIFETIME_S_MAX)
        case int() | float() if type(found) is not bool and found >= 0:
            return int(min(found, LIFETIME_S_MAX))
        case _:
            raise _unusable(provider, "its lifetime is no number")


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):
        return {}


def _is_token(token: Any) -> TypeGuard[str]:
    return (
        isinstance(token, str)
        and 0 < len(token) <= TOKEN_CHARS_MAX
        and token.isascii()
        and token.isprintable()
    )


def _unusable(provider: OAuthProvider, why: str) -> SignInFailed:
    return SignInFailed(f"{provider.name!r} gave a token that cannot be used: {why}")
