"""One's own sessions, with an end to each: for whoever has left a browser signed in elsewhere.

The settings page includes `part/sessions.html`, with `sessions=await own_sessions(...)`.
"""

from __future__ import annotations

import re
from datetime import datetime

import msgspec
from fastapi import APIRouter, Request, Response

from sayso.app import Sayso
from sayso.errors import Unknown
from sayso.server.caller import App
from sayso.store.views import moment
from sayso.web.page import PageRoute, redirect
from sayso.web.session import Form, Session, Sessions, SignedIn, Visitor, clear_cookie

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SETTINGS = "/settings"
_VIA = {"local": "link of this machine", "token": "API token", "oidc": "identity provider"}
# The first that fits: most browsers also say that they are others.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_PLAIN = re.compile(r"[^\w ./()-]")


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session, as the one whose it is sees it."""

    id: str
    browser: str
    via: str
    at: datetime
    until: datetime
    here: bool
    """It is the one that is looking."""


async def own_sessions(app: Sayso, visitor: Visitor) -> list[SessionRow]:
    """List the sessions of whoever looks, the newest first."""
    return [
        SessionRow(
            id=one.id,
            browser=_name_browser(one),
            via=_VIA.get(one.via, one.via),
            at=moment(one.at),
            until=moment(one.until),
            here=one.id == visitor.session.id,
        )
        for one in await Sessions(app.store).list(visitor.caller)
    ]


@router.post("/settings/sessions/end")
async def end_session(request: Request, app: App, visitor: SignedIn, form: Form) -> Response:
    """End one session of one's own; ending the one that is looking signs out."""
    sessions, name = Sessions(app.store), str(form.get("session", ""))
    if name not in {one.id for one in await sessions.list(visitor.caller)}:
        raise Unknown("there is no such session of yours: it has ended")
    await sessions.end(name)
    if name != visitor.session.id:
        return redirect(request, SETTINGS)
    answer = redirect(request, "/sign-in")
    clear_cookie(request, answer)
    return answer


@router.post("/settings/sessions/end-others")
async def end_others(request: Request, app: App, visitor: SignedIn, form: Form) -> Response:
    """End every session of one's own but the one that is looking."""
    del form  # Its word has been checked, which is all that it is for.
    sessions = Sessions(app.store)
    for one in await sessions.list(visitor.caller):
        if one.id != visitor.session.id:
            await sessions.end(one.id)
    return redirect(request, SETTINGS)


def _name_browser(session: Session) -> str:
    """Say which browser it is, as far as it says so itself; it may say anything."""
    told = session.agent
    browser = next((name for mark, name in _BROWSERS if mark in told), "")
    system = next((name for mark, name in _SYSTEMS if mark in told), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or _PLAIN.sub("", told)[:40].strip() or "Unknown browser"
