"""Browsers that have not signed in yet: a secret of theirs, so that nobody else's page or link can
sign them in as somebody else.
"""

from __future__ import annotations

import re
import secrets

import msgspec
from fastapi import Request, Response

from sayso.errors import NotAllowed
from sayso.web.origin import is_secure
from sayso.web.word import is_word, make_word, sign

COOKIE = "sayso_before"
LASTS_S = 3600
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_FORM = "sign-in"


class Before(msgspec.Struct, frozen=True):
    """A browser before it signs in."""

    secret: str

    def sign(self, text: str) -> str:
        """Sign something that this browser brings back."""
        return sign(self.secret, text)

    def word(self) -> str:
        """Give the word that its form carries."""
        return make_word(self.secret, _FORM)

    def check(self, word: str) -> None:
        """Raise `NotAllowed` unless a form is of a page that this very browser was shown."""
        if not is_word(self.secret, _FORM, word):
            raise NotAllowed("this form is not of your browser: load the page again, and send it")


def before_of(request: Request) -> Before | None:
    """Give the browser that has been shown the page before."""
    text = request.cookies.get(_cookie(request), "")
    return Before(text) if _SECRET.fullmatch(text) else None


def new_before() -> Before:
    """Give a browser a secret."""
    return Before(secrets.token_urlsafe(32))


def keep_before(request: Request, response: Response, before: Before) -> Response:
    """Have a browser keep its secret until it has signed in."""
    response.set_cookie(
        _cookie(request),
        before.secret,
        max_age=LASTS_S,
        path="/",
        secure=is_secure(request),
        httponly=True,
        # Whoever comes back from a provider is sent by it, and has to bring this along.
        samesite="lax",
    )
    return response


def forget_before(request: Request, response: Response) -> None:
    """Have a browser forget it: what was begun with it cannot be finished again."""
    response.delete_cookie(
        _cookie(request), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def _cookie(request: Request) -> str:
    return f"__Host-{COOKIE}" if is_secure(request) else COOKIE
