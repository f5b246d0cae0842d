"""The inbox: what asks somebody, and one request of it. Looking decides nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from sayso.server.caller import App
from sayso.server.wire import NAME_MAX
from sayso.web.page import PageRoute, part_of, render
from sayso.web.session import SignedIn

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50
HoldId = Annotated[str, Path(max_length=NAME_MAX)]


@router.get("/")
async def show_inbox(request: Request, app: App, visitor: SignedIn) -> Response:
    """Show what asks the visitor."""
    caller = visitor.caller
    page = await app.holds(by=caller.by, project=caller.project, limit=PAGE)
    name = "part/list.html" if part_of(request) == "list" else "inbox.html"
    return render(request, name, visitor=visitor, page=page, hold=None, now=app.store.now() / 1000)


@router.get("/r/{hold_id}")
async def show_request(request: Request, app: App, visitor: SignedIn, hold_id: HoldId) -> Response:
    """Show one request, beside the list."""
    caller = visitor.caller
    hold = await caller.window(app).hold(hold_id)
    now = app.store.now() / 1000
    if part_of(request) == "request":
        return render(request, "part/request.html", visitor=visitor, hold=hold, now=now)
    page = await app.holds(by=caller.by, project=caller.project, limit=PAGE)
    return render(request, "inbox.html", visitor=visitor, page=page, hold=hold, now=now)
