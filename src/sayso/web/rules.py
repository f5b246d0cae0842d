"""Rules: what is always allowed, by whom and until when, and how to end it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from sayso.domain.digest import decode_value
from sayso.domain.grant import Grant
from sayso.domain.rendering import render as draw
from sayso.server.caller import App
from sayso.server.wire import NAME_MAX
from sayso.store.views import moment
from sayso.web.page import PageRoute, redirect, render
from sayso.web.session import Form, SignedIn

router = APIRouter(route_class=PageRoute, include_in_schema=False)

GrantId = Annotated[str, Path(max_length=NAME_MAX)]


@router.get("/rules")
async def list_rules(
    *, request: Request, app: App, visitor: SignedIn, ended: bool = False
) -> Response:
    """List standing permissions: those that the visitor gave, for operators all of them."""
    caller = visitor.caller
    caller.need("read")
    operator = await caller.window(app).is_operator()
    found = await app.grants.list(project=caller.project, good=not ended)
    mine = [one for one in found if operator or one.by == caller.by]
    return render(
        request,
        "rules.html",
        visitor=visitor,
        view="rules",
        grants=[(one, draw(bytes(one.args)), scope_of(one)) for one in mine],
        ended=ended,
        operator=operator,
        now=app.store.now(),
        moment=moment,
    )


@router.post("/rules/{grant_id}/revoke")
async def revoke(
    *, request: Request, app: App, visitor: SignedIn, form: Form, grant_id: GrantId
) -> Response:
    """End a standing permission at once."""
    del form  # That it was sent from a page of ours is all that it says.
    visitor.caller.need("decide")
    await app.grants.revoke(grant_id, by=visitor.caller.by, project=visitor.caller.project)
    return redirect(request, "/rules")


def scope_of(grant: Grant) -> list[str]:
    """Say in words what a grant covers beyond the very same arguments."""
    words = {"at_most": "at most", "at_least": "at least", "one_of": "one of"}
    return [
        f"{limit.arg}: anything"
        if limit.kind == "any"
        else f"{limit.arg}: {words[limit.kind]} {decode_value(bytes(limit.value))}"
        for limit in grant.limits
    ]
