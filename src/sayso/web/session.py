"""Sessions: a browser that has shown a credential once, and bears a cookie since.

Rule 1: a cookie is good for pages only; the API never looks at one. So what a page of somebody
else's can make a browser send is a form, and no form is taken without the word that only our own
pages have.
Rule 2: a session can do what the credential that it was made of could, and ends when that does.
Rule 3: only persons have one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from fastapi import Depends, Request, Response
from starlette.datastructures import FormData

from sayso.domain.value import Principal, Value
from sayso.errors import BadValue, NotAllowed, Unauthenticated
from sayso.server.caller import Caller, Scope, sayso_of
from sayso.store.base import Store

SESSIONS = "sayso:sessions"
"""The project under which sessions are kept: one is looked up before its project is known."""
KIND = "session"
COOKIE = "sayso_session"
LASTS_MS = 7 * 24 * 3600 * 1000
FIELDS_MAX = 1000
_TEXT = re.compile(r"([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})")


class Session(Value, frozen=True, kw_only=True):
    """A session as it is kept: without its secret."""

    id: str
    by: Principal
    project: str
    scopes: tuple[Scope, ...]
    hash: str
    at: int
    until: int
    via: str
    """How they came in: `local`, `token` or `oidc`."""
    ref: str = ""
    """Of what: the id of a token, or which start of the server a local link was of."""
    agent: str = ""
    """What the browser said it was, for the list of one's sessions."""


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who looks at a page."""

    caller: Caller
    session: Session
    secret: str

    @property
    def name(self) -> str:
        """Who it is."""
        return str(self.caller.by)

    def csrf(self) -> str:
        """Give the word that a form of theirs carries; another one each time."""
        salt = secrets.token_urlsafe(12)
        return f"{salt}.{_sign(self.secret, salt)}"

    def check_csrf(self, word: str) -> None:
        """Raise `NotAllowed` unless a form comes from a page of theirs."""
        salt, _, signed = word.partition(".")
        if not salt or not hmac.compare_digest(signed.encode(), _sign(self.secret, salt).encode()):
            raise NotAllowed("this form is not of your session: load the page again, and send it")


class Sessions:
    """Keeps sessions on a store's shelf."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shelf = store.shelf

    async def create(
        self, caller: Caller, *, via: str, ref: str = "", agent: str = "", until: int | None = None
    ) -> tuple[Session, str]:
        """Make a session for a person; the second is what their cookie says."""
        if caller.by.kind != "person":
            raise BadValue(f"{caller.by} is no person: only persons sign in to pages")
        name, secret = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        now = self._store.now()
        ends = now + LASTS_MS
        session = Session(
            id=name,
            by=caller.by,
            project=caller.project,
            scopes=tuple(sorted(caller.scopes)),
            hash=_hash(secret),
            at=now,
            until=ends if until is None else min(until, ends),
            via=via,
            ref=ref,
            agent="".join(one for one in agent if one.isprintable())[:200],
        )
        await self._shelf.put(SESSIONS, KIND, name, msgspec.json.encode(session), rev=0)
        return session, f"{name}.{secret}"

    async def find(self, text: str) -> tuple[Session, str] | None:
        """Give the session that a cookie is of, with its secret, if it is still good."""
        read = _TEXT.fullmatch(text)
        item = None if read is None else await self._shelf.get(SESSIONS, KIND, read[1])
        if read is None or item is None:
            return None
        session = msgspec.json.decode(item.data, type=Session)
        same = hmac.compare_digest(session.hash, _hash(read[2]))
        return (session, read[2]) if same and self._store.now() < session.until else None

    async def end(self, id: str) -> None:
        """End a session; one that has ended is fine."""
        await self._shelf.drop(SESSIONS, KIND, id)


async def visitor_of(request: Request) -> Visitor:
    """Give who looks at a page, or raise `Unauthenticated`."""
    found = await Sessions(sayso_of(request).store).find(
        request.cookies.get(cookie_of(request), "")
    )
    if found is None:
        raise Unauthenticated("sign in first")
    session, secret = found
    caller = Caller(
        by=session.by, project=session.project, scopes=frozenset(session.scopes), via="session"
    )
    visitor = Visitor(caller=caller, session=session, secret=secret)
    request.state.visitor = visitor
    return visitor


async def posted(request: Request, visitor: SignedIn) -> FormData:
    """Read a form that somebody has sent from a page of ours."""
    check_origin(request)
    form = await request.form(max_files=0, max_fields=FIELDS_MAX)
    visitor.check_csrf(str(form.get("csrf", "")))
    return form


def check_origin(request: Request) -> None:
    """Raise `NotAllowed` for a form that the page of somebody else's has sent."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("this form was sent by another site")
    origin = request.headers.get("origin")
    ours = {request.headers.get("host", "")}
    if request.app.state.public_url:
        ours.add(urlsplit(str(request.app.state.public_url)).netloc)
    if origin is not None and urlsplit(origin).netloc not in ours:
        raise NotAllowed("this form was sent by another site")


SignedIn = Annotated[Visitor, Depends(visitor_of)]
Form = Annotated[FormData, Depends(posted)]


def is_secure(request: Request) -> bool:
    """Tell whether people reach us by TLS."""
    return urlsplit(str(request.app.state.public_url or request.base_url)).scheme == "https"


def cookie_of(request: Request) -> str:
    """Give the name of our cookie. The prefix has browsers keep a neighbour from setting it."""
    return f"__Host-{COOKIE}" if is_secure(request) else COOKIE


def set_cookie(request: Request, response: Response, text: str, session: Session) -> None:
    """Have a browser keep a session."""
    response.set_cookie(
        cookie_of(request),
        text,
        max_age=(session.until - session.at) // 1000,
        path="/",
        secure=is_secure(request),
        httponly=True,
        # From a mail people come signed in; what another site sends as a form comes without.
        samesite="lax",
    )


def clear_cookie(request: Request, response: Response) -> None:
    """Have a browser forget its session."""
    response.delete_cookie(
        cookie_of(request), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(b"sayso.session.1" + secret.encode()).hexdigest()


def _sign(secret: str, salt: Any) -> str:
    return hmac.new(secret.encode(), f"csrf.{salt}".encode(), hashlib.sha256).hexdigest()
