"""Providers: where people sign in, as the program configures it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sayso.errors import BadProvider

URL_CHARS_MAX = 2048
SCOPES_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
# What a scope may be made of: RFC 6749, section 3.3.
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_URL = re.compile(r"[\x21\x23-\x5b\x5d\x5f\x61-\x7a\x7e]+")
_OURS = frozenset(
    (
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "nonce",
        "redirect_uri",
        "response_type",
        "scope",
        "state",
    )
)


class OAuthProvider:
    """Where people sign in, and as what Sayso asks there. `BadProvider` if it could not work.

    Addresses are https, unless they are of this machine. Without a secret it is a public client.
    `extra` goes into the authorization address, as `{"prompt": "consent"}`.
    """

    def __init__(
        self,
        name: str,
        *,
        authorize_url: str,
        token_url: str,
        client_id: str,
        client_secret: str | None = None,
        redirect_url: str,
        scopes: Iterable[str] = (),
        issuer: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        if type(name) is not str or not _NAME.fullmatch(name):
            raise BadProvider(
                f"{name!r:.80} cannot name a provider: use up to 64 letters, digits, dots, "
                "underscores and hyphens"
            )
        self.name = name
        self.authorize_url = _url(name, "authorize_url", authorize_url)
        _check_parameters(name, dict(parse_qsl(urlsplit(authorize_url).query)))
        self.token_url = _url(name, "token_url", token_url)
        self.redirect_url = _url(name, "redirect_url", redirect_url)
        self.issuer = None if issuer is None else _url(name, "issuer", issuer)
        self.client_id = _text(name, "client_id", client_id)
        self.client_secret = (
            None if client_secret is None else _text(name, "client_secret", client_secret)
        )
        self.scopes = read_scopes(name, scopes)
        self.extra: Mapping[str, str] = MappingProxyType(dict(extra or {}))
        _check_parameters(name, self.extra)

    def __repr__(self) -> str:
        return f"<provider {self.name!r} at {urlsplit(self.token_url).hostname}>"


def read_scopes(name: str, scopes: Iterable[str]) -> tuple[str, ...]:
    """Read scopes, each once. `BadProvider` if one is none."""
    if isinstance(scopes, str):
        raise BadProvider(f"the scopes of {name!r} are a list of texts, not one text: split it")
    found = tuple(dict.fromkeys(scopes))
    if len(found) > SCOPES_MAX:
        raise BadProvider(f"{len(found)} scopes of {name!r} are too many: {SCOPES_MAX} is the most")
    for scope in found:
        if type(scope) is not str or not _SCOPE.fullmatch(scope):
            raise BadProvider(f"{scope!r:.80} is no scope for {name!r}: each is one word")
    return found


def _url(name: str, what: str, url: Any) -> str:
    """Refuse an address that tokens and codes should not travel to."""
    prefix = f"the {what} of {name!r}"
    if type(url) is not str or len(url) > URL_CHARS_MAX or not _URL.fullmatch(url):
        raise BadProvider(f"{prefix} is not a web address")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # A port that is no number raises, too.
    except ValueError:
        raise BadProvider(f"{prefix} is not a web address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise BadProvider(f"{prefix} is not a web address: it starts with https://")
    if parts.username is not None or parts.password is not None:
        raise BadProvider(f"{prefix} must not have a name or a password in it")
    if "#" in url:
        raise BadProvider(f"{prefix} must not have a fragment: nothing after '#' is sent")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise BadProvider(f"{prefix} must be https: everybody on the way could read the tokens")
    return url


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _text(name: str, what: str, text: Any) -> str:
    # The value is left out: a secret may have been given in the wrong place.
    if type(text) is not str or not text or len(text) > URL_CHARS_MAX or not text.isprintable():
        raise BadProvider(f"the {what} of {name!r} is not a text that can be sent")
    return text


def _check_parameters(name: str, parameters: Mapping[str, str]) -> None:
    for key, value in parameters.items():
        _text(name, "name of a parameter", key)
        if key in _OURS:
            raise BadProvider(f"the parameter {key!r} of {name!r} is set by Sayso: leave it out")
        _text(name, f"parameter {key!r}", value)
