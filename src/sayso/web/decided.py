"""What was decided: newest first, each with who, when, where and after how long."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sayso.errors import BadValue
from sayso.server.caller import App
from sayso.server.wire import NAME_MAX
from sayso.store.views import moment
from sayso.web.page import PageRoute, render
from sayso.web.session import SignedIn

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50


@router.get("/decided")
async def list_decided(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    q: Annotated[str, Query(max_length=200)] = "",
    all: bool = False,
    after: Annotated[str | None, Query(max_length=NAME_MAX)] = None,
) -> Response:
    """List what was decided of what the visitor could decide; for operators, all of it."""
    caller = visitor.caller
    caller.need("read")
    operator = await caller.window(app).is_operator()
    wide = all and operator
    page, problem = None, ""
    try:
        page = await app.holds(
            by=None if wide else caller.by,
            status="settled",
            search=q or None,
            newest=True,
            limit=PAGE,
            after=after,
            project=caller.project,
        )
    except BadValue as error:
        problem = str(error)
    return render(
        request,
        "decided.html",
        visitor=visitor,
        view="decided",
        page=page,
        problem=problem,
        q=q,
        wide=wide,
        operator=operator,
        moment=moment,
    )
