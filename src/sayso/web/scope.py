"""What a provider is asked to allow, in words for people.

Rule: what is not known here is said as the provider says it. A word that sounds harmless and is not
would be worse than none; so every row also has the very scope that is asked for.
"""

from __future__ import annotations

import re

import msgspec

from sayso.domain.hold import Consent, SignIn

KNOWN = {
    "openid": "Know that it is you",
    "profile": "See your name and your picture",
    "email": "See your e-mail address",
    "phone": "See your phone number",
    "address": "See your postal address",
    "groups": "See which groups you are in",
    "offline_access": "Use it while you are away, without asking you again",
}
_READ, _SEND, _WRITE = {"read", "readonly"}, {"send"}, {"write", "readwrite", "modify", "edit"}
_PIECE = re.compile(r"[a-z]+[0-9]*", re.ASCII)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is allowed, or is not."""

    allowed: bool
    text: str
    scope: str = ""


def scope_rows(ask: SignIn | Consent) -> list[Row]:
    """Say what somebody who signs in for this allows, and what they do not."""
    rows = [Row(allowed=True, text=_say(scope), scope=scope) for scope in ask.scopes]
    if not rows:
        rows = [Row(allowed=True, text=f"Know that you are signed in at {ask.provider}")]
    kept = {thing for thing, verb in map(_read, ask.scopes) if verb == "read"}
    changed = {thing for thing, verb in map(_read, ask.scopes) if verb == "write"}
    rows += [Row(allowed=False, text=f"Change {thing}") for thing in sorted(kept - changed)]
    return [
        *rows,
        Row(allowed=False, text="Anything else in your account"),
        Row(allowed=False, text=f"Your password: only {ask.provider} sees it"),
        Row(allowed=False, text="Use by runs that somebody else has started"),
    ]


def _say(scope: str) -> str:
    if scope in KNOWN:
        return KNOWN[scope]
    thing, verb = _read(scope)
    return {
        "read": f"Read {thing}",
        "send": f"Send {thing} in your name",
        "write": f"Read and change {thing}",
    }.get(verb, "What the provider calls by this name")


def _read(scope: str) -> tuple[str, str]:
    """Read `mail.send`, `read:user` or `https://x.example/auth/calendar.readonly`: of what, and
    what is done with it. Empty if there is any doubt.
    """
    words = [one.lower() for one in re.split(r"[.:]", scope.rsplit("/", 1)[-1])]
    if len(words) != 2 or not all(_PIECE.fullmatch(one) for one in words):  # noqa: PLR2004
        return "", ""
    for thing, verb in (words, words[::-1]):
        for name, known in (("read", _READ), ("send", _SEND), ("write", _WRITE)):
            if verb in known and thing not in _READ | _SEND | _WRITE:
                return thing, name
    return "", ""
