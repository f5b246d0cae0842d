"""Signing in for a tool: a person whom a hold asks goes to the provider, and comes back.

A hold like this is settled by the sign-in itself. Going there is a form with the word of the
session, and no link: where somebody has allowed the same before, a provider sends them straight
back, and a link that anybody can write would have settled the hold.
"""

from __future__ import annotations

import logging
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from sayso.errors import AlreadyDecided, BadSetup, Unknown
from sayso.server.caller import App
from sayso.server.head import get_only
from sayso.server.wire import NAME_MAX
from sayso.web.page import PageRoute, redirect, render
from sayso.web.session import Form, SignedIn

router = APIRouter(route_class=PageRoute, include_in_schema=False)

log = logging.getLogger("sayso")

HoldId = Annotated[str, Path(max_length=NAME_MAX)]
Given = Annotated[str | None, Query(max_length=8192)]


@router.post("/r/{hold_id}/go")
async def go(
    request: Request, app: App, visitor: SignedIn, form: Form, hold_id: HoldId
) -> Response:
    """Send the person whom a hold asks to the provider."""
    del form  # Its word has been checked, which is all that it is for.
    caller = visitor.caller
    caller.need("decide")
    hold = await caller.window(app).hold(hold_id)
    try:
        url = await app.sign_in_url(hold, by=caller.by)
    except AlreadyDecided:
        return redirect(request, f"/r/{hold.id}")
    host, back = urlsplit(url).netloc, f"/r/{hold.id}"
    return render(request, "leave.html", visitor=visitor, url=url, host=host, name="", back=back)


@router.get("/oauth/callback", dependencies=[Depends(get_only)])
async def come_back(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    state: Given = None,
    code: Given = None,
    iss: Given = None,
    error: Given = None,
) -> Response:
    """Take somebody back from the provider, to the request that sent them.

    It settles a hold although it is a GET, as OAuth has it: the state is signed and of this very
    person, and a code is good once and with the verifier of that state only.
    """
    caller = visitor.caller
    caller.need("decide")
    try:
        hold = await app.oauth_callback(state or "", code, by=caller.by, iss=iss, error=error)
    except BadSetup:
        log.info("somebody came back from a provider, and this app has none that could be asked")
        raise Unknown("there is no such page") from None
    return redirect(request, f"/r/{hold.id}")
