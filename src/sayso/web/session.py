"""Sessions: a browser that has shown a credential once, and bears a cookie since.

Rule 1: a cookie is good for pages only; the API never looks at one. So what a page of somebody
else's can make a browser send is a form, and no form is taken without the word that only our own
pages have.
Rule 2: a session can do what the credential that it was made of could, and ends when that does: at
the next request after a token was revoked, the server was started again, or the person was put out.
Rule 3: only persons have one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Annotated, cast

import msgspec
from fastapi import Depends, Request, Response
from starlette.datastructures import FormData

from sayso.domain.people import Authority
from sayso.domain.ruling import OPERATOR
from sayso.domain.value import Principal, Value
from sayso.errors import BadValue, NotAllowed, Unauthenticated
from sayso.server.caller import Caller, Scope, sayso_of
from sayso.server.door import Door
from sayso.server.token import Tokens
from sayso.store.base import Store
from sayso.store.views import moment
from sayso.web.origin import check_origin, is_near, is_secure
from sayso.web.word import is_word, make_word

SESSIONS = "sayso:sessions"
"""The project under which sessions are kept: one is looked up before its project is known."""
KIND = "session"
COOKIE = "sayso_session"
LASTS_MS = 7 * 24 * 3600 * 1000
MANY_MAX = 50
"""How many sessions somebody has at most; a further one ends the oldest."""
FIELDS_MAX = 50_000
"""Arguments have at most so many values: none is so large that it cannot even be rejected."""
AGENT_MAX = 200
_CSRF = "csrf"
_TEXT = re.compile(r"([A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})", re.ASCII)


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
    """Of what: the id of a token, which start of the server a local link was of, or which client of
    which issuer.
    """
    agent: str = ""
    """What the browser said it was, for the list of one's sessions."""


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who looks at a page."""

    caller: Caller
    session: Session
    secret: str
    audits: bool = False
    """Whether they may see the audit of the project."""

    @property
    def name(self) -> str:
        """Who it is."""
        return str(self.caller.by)

    def csrf(self) -> str:
        """Give the word that a form of theirs carries; another one each time."""
        return make_word(self.secret, _CSRF)

    def check_csrf(self, word: str) -> None:
        """Raise `NotAllowed` unless a form comes from a page of theirs."""
        if not is_word(self.secret, _CSRF, word):
            raise NotAllowed("this form is not of your session: load the page again, and send it")


class Sessions:
    """Keeps sessions on a store's shelf, those of one person beside each other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shelf = store.shelf

    async def create(
        self, caller: Caller, *, via: str, ref: str = "", agent: str = "", until: int | None = None
    ) -> tuple[Session, str]:
        """Make a session for a person; the second is what their cookie says."""
        if caller.by.kind != "person":
            raise BadValue(f"{caller.by} is no person: only persons sign in to pages")
        name = f"{_owner(caller.project, caller.by)}.{secrets.token_urlsafe(16)}"
        secret = secrets.token_urlsafe(32)
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
            agent="".join(one for one in agent if one.isprintable())[:AGENT_MAX],
        )
        await self._make_room(caller)
        await self._shelf.put(SESSIONS, KIND, name, msgspec.json.encode(session), rev=0)
        return session, f"{name}.{secret}"

    async def find(self, text: str) -> tuple[Session, str] | None:
        """Give the session that a cookie is of, with its secret, if its time is not over."""
        read = _TEXT.fullmatch(text)
        item = None if read is None else await self._shelf.get(SESSIONS, KIND, read[1])
        if read is None or item is None:
            return None
        session = msgspec.json.decode(item.data, type=Session)
        same = hmac.compare_digest(session.hash, _hash(read[2]))
        return (session, read[2]) if same and self._store.now() < session.until else None

    async def list(self, caller: Caller) -> list[Session]:
        """List the sessions of a person whose time is not over, the newest first."""
        now = self._store.now()
        found = [one for one in await self._all(caller) if now < one.until]
        return sorted(found, key=lambda one: (-one.at, one.id))

    async def end(self, id: str) -> None:
        """End a session; one that has ended is fine."""
        await self._shelf.drop(SESSIONS, KIND, id)

    async def _make_room(self, caller: Caller) -> None:
        """Drop those that are over, and as many of the oldest as are too many."""
        good = await self.list(caller)
        kept = {one.id for one in good[: MANY_MAX - 1]}
        for one in await self._all(caller):
            if one.id not in kept:
                await self.end(one.id)

    async def _all(self, caller: Caller) -> list[Session]:
        owner = _owner(caller.project, caller.by)
        page = await self._shelf.list(SESSIONS, KIND, after=f"{owner}.", limit=2 * MANY_MAX)
        return [
            msgspec.json.decode(item.data, type=Session)
            for item in page
            if item.id.startswith(f"{owner}.")
        ]


async def visitor_of(request: Request) -> Visitor:
    """Give who looks at a page, or raise `Unauthenticated`."""
    sessions = Sessions(sayso_of(request).store)
    found = await sessions.find(request.cookies.get(cookie_of(request), ""))
    if found is None:
        raise Unauthenticated("sign in first")
    session, secret = found
    who = await _check_credential(request, session, sessions)
    caller = Caller(
        by=session.by, project=session.project, scopes=frozenset(session.scopes), via="session"
    )
    audits = "admin" in caller.scopes and who.right([OPERATOR]) is not None
    visitor = Visitor(caller=caller, session=session, secret=secret, audits=audits)
    request.state.visitor = visitor
    return visitor


async def is_still_in(request: Request, visitor: Visitor) -> bool:
    """Tell whether the session that a request came with is still good."""
    try:
        return (await visitor_of(request)).session.id == visitor.session.id
    except Unauthenticated:
        return False


async def _check_credential(request: Request, session: Session, sessions: Sessions) -> Authority:
    """Raise `Unauthenticated` unless what a session was made of is still good; say what whoever
    has it may do.
    """
    app = sayso_of(request)
    if session.via == "local":
        local = cast("Door", request.app.state.door).local
        # Left where it is: another server on this machine, whose cookies are the same, may know it.
        if local is None or local.id != session.ref or not is_near(request):
            raise Unauthenticated("sign in by the link that the server printed when it started")
    elif session.via == "oidc":
        oidc = request.app.state.oidc
        if oidc is None or oidc.ref != session.ref:
            raise Unauthenticated("sign in again")
    elif session.via != "token" or not await Tokens(app.store).is_good(session.ref):
        await sessions.end(session.id)
        raise Unauthenticated("the token that you have signed in with was revoked, or has ended")
    who = await app.people.authority(session.project, session.by)
    if not who.active:
        await sessions.end(session.id)
        raise Unauthenticated("whoever keeps the people of this project has put you out")
    return who


async def posted(request: Request, visitor: SignedIn) -> FormData:
    """Read a form that somebody has sent from a page of ours."""
    form = await read_form(request)
    visitor.check_csrf(str(form.get("csrf", "")))
    return form


async def read_form(request: Request) -> FormData:
    """Read a form that no other site's page has sent: fields only, and text as pages send it."""
    check_origin(request)
    # Whoever says how text is to be decoded can have it mean what no page has shown.
    if "charset" in request.headers.get("content-type", "").lower().replace("charset=utf-8", ""):
        raise BadValue("a form is sent as UTF-8")
    # Whoever parses forms bounds each field, and not all of them together: this does.
    await request.body()
    return await request.form(max_files=0, max_fields=FIELDS_MAX)


SignedIn = Annotated[Visitor, Depends(visitor_of)]
Form = Annotated[FormData, Depends(posted)]


async def signed_in(
    request: Request,
    response: Response,
    caller: Caller,
    *,
    via: str,
    ref: str,
    until: int | None = None,
) -> Response:
    """Have an answer sign a browser in: with a new session, and an end to the one it had."""
    caller.need("read")
    if not (await sayso_of(request).people.authority(caller.project, caller.by)).active:
        raise NotAllowed("whoever keeps the people of this project has put you out")
    sessions = Sessions(sayso_of(request).store)
    before = await sessions.find(request.cookies.get(cookie_of(request), ""))
    agent = request.headers.get("user-agent", "")
    session, text = await sessions.create(caller, via=via, ref=ref, agent=agent, until=until)
    if before is not None:
        await sessions.end(before[0].id)
    response.set_cookie(
        cookie_of(request),
        text,
        max_age=(session.until - session.at) // 1000,
        expires=moment(session.until),
        path="/",
        secure=is_secure(request),
        httponly=True,
        # From a mail people come signed in; what another site sends as a form comes without.
        samesite="lax",
    )
    return response


def cookie_of(request: Request) -> str:
    """Give the name of our cookie. The prefix has browsers keep a neighbour from setting it."""
    return f"__Host-{COOKIE}" if is_secure(request) else COOKIE


def clear_cookie(request: Request, response: Response) -> None:
    """Have a browser forget its session."""
    response.delete_cookie(
        cookie_of(request), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(b"sayso.session.1" + secret.encode()).hexdigest()


def _owner(project: str, by: Principal) -> str:
    """Give what the ids of somebody's sessions begin with."""
    found = hashlib.sha256(f"sayso.owner.1\0{project}\0{by.id}".encode()).digest()
    return base64.urlsafe_b64encode(found)[:22].decode()
