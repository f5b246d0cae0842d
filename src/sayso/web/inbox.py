"""The inbox: what asks somebody, and one request of it. Looking decides nothing."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from sayso.app import Sayso
from sayso.server.caller import App
from sayso.server.wire import NAME_MAX
from sayso.web.detail import Detail, look
from sayso.web.listing import CHIPS, VIEWS, list_holds
from sayso.web.page import PageRoute, aside, part_of, redirect, render
from sayso.web.session import SignedIn, Visitor
from sayso.web.verdict import LASTS
from sayso.web.words import SAID

router = APIRouter(route_class=PageRoute, include_in_schema=False)

HoldId = Annotated[str, Path(max_length=NAME_MAX)]


@router.get("/")
async def show_inbox(request: Request, app: App, visitor: SignedIn) -> Response:
    """Show what asks the visitor."""
    visitor.caller.need("read")
    listing = await list_holds(request, app, visitor.caller)
    return render(
        request,
        "part/list.html" if part_of(request) == "list" else "inbox.html",
        visitor=visitor,
        listing=listing,
        detail=None,
        now=app.store.now() / 1000,
        chips=CHIPS,
        views=VIEWS,
        flash=SAID.get(request.query_params.get("said", ""), ""),
    )


@router.get("/r/{hold_id}")
async def show_request(request: Request, app: App, visitor: SignedIn, hold_id: HoldId) -> Response:
    """Show one request, beside the list."""
    visitor.caller.need("read")
    editing = "edit" in request.query_params
    detail = await look(app, visitor.caller, hold_id, editing=editing)
    return await show_detail(request, app, visitor, detail)


@router.get("/r/{hold_id}/{deed}")
async def lead_back(request: Request, hold_id: HoldId, deed: str) -> Response:
    """Show a request instead of the address of one of its forms, which is where a browser is that
    was shown what does not fit.
    """
    del deed
    return redirect(request, f"/r/{hold_id}")


async def show_detail(
    request: Request, app: Sayso, visitor: Visitor, detail: Detail, status: int = 200
) -> Response:
    """Answer with a request: all of the page, or the part that a script asks for."""
    part = part_of(request)
    listing = None if part == "request" else await list_holds(request, app, visitor.caller)
    page = partial(
        render,
        request,
        {"request": "part/request.html", "list": "part/list.html"}.get(part, "inbox.html"),
        visitor=visitor,
        status=status,
        listing=listing,
        detail=detail,
        now=app.store.now() / 1000,
        chips=CHIPS,
        views=VIEWS,
        lasts=LASTS,
        flash="",
    )
    several = (detail.hold, *[one for one, _ in detail.together])
    return await aside(sum(len(one.args_json) for one in several), page)
