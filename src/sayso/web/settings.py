"""Settings: who one is here, colours, keys, and signing out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sayso.server.caller import App
from sayso.web.origin import is_secure
from sayso.web.page import THEME_COOKIE, THEMES, PageRoute, redirect, render
from sayso.web.session import Form, SignedIn
from sayso.web.session_list import own_sessions

router = APIRouter(route_class=PageRoute, include_in_schema=False)

YEAR_S = 365 * 86400


@router.get("/settings")
async def show_settings(request: Request, app: App, visitor: SignedIn) -> Response:
    """Show who the visitor is, and what they can choose."""
    caller = visitor.caller
    person = await app.people.get(caller.by.id, project=caller.project)
    return render(
        request,
        "settings.html",
        visitor=visitor,
        view="settings",
        person=person,
        sessions=await own_sessions(app, visitor),
    )


@router.post("/settings/theme")
async def choose_theme(request: Request, visitor: SignedIn, form: Form) -> Response:
    """Keep the colours that the visitor likes, in this browser."""
    del visitor
    theme = str(form.get("theme", ""))
    response = redirect(request, "/settings")
    if theme in THEMES:
        response.set_cookie(
            THEME_COOKIE,
            theme,
            max_age=YEAR_S,
            path="/",
            secure=is_secure(request),
            samesite="lax",
        )
    else:
        response.delete_cookie(THEME_COOKIE, path="/")
    return response
