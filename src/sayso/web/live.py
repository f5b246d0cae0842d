"""What happens, told to browsers as it happens: which requests, and how they stand.

Rule 1: a session is told of a hold as everybody is (`server/live.py`), and whatever it shows, it
asks for.
Rule 2: who comes back is told to look at the list again; nothing is kept for them.
Rule 3: a stream ends with its session.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import cast

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from sayso.domain.hold import hold_id
from sayso.engine.window import Window
from sayso.errors import SaysoError
from sayso.server.caller import App
from sayso.server.live import Ear, Live, live_of, seen
from sayso.server.seat import Seats
from sayso.server.sse import alive, event
from sayso.store.moved import Moved
from sayso.store.views import HoldView
from sayso.web.page import PageRoute
from sayso.web.session import SignedIn, is_still_in
from sayso.web.words import by_who, decided

router = APIRouter(route_class=PageRoute, include_in_schema=False)

RETRY_MS = 2000
"""After how long a browser comes back. It says then that it was here: see `again`."""
_LIST = event("true", name="list")
"""Look at the list, and whether what is open is still so."""


@router.get("/live")
async def follow(request: Request, app: App, visitor: SignedIn) -> StreamingResponse:
    """Tell a session what happens to the requests that it may see, until it ends."""
    visitor.caller.need("read")
    again = "last-event-id" in request.headers
    frames = _frames(live_of(request, app), visitor.caller.window(app), again=again)

    still = partial(is_still_in, request, visitor)
    with cast("Seats", request.app.state.streams).take(visitor.caller) as seat:
        return seat.answer(alive(frames, request.app.state.closing, recheck=still))


async def _frames(live: Live, window: Window, *, again: bool) -> AsyncIterator[bytes]:
    ear = Ear()
    yield f"retry: {RETRY_MS}\n\n".encode()
    try:
        await live.join(ear)
        # Whatever it knew is from before: it looks, and hears of what comes after.
        yield event(json.dumps(again), id=0, name="list")
        while True:
            moved, behind = await ear.wait()
            if behind:
                yield _LIST
                continue
            if any([await _may_leave(window, one) for one in moved if one.wide]):
                yield _LIST
            for one in moved:
                told = await _told(window, one)
                if told is not None:
                    yield event(json.dumps(told), id=one.position, name="hold")
    finally:
        live.leave(ear)


async def _may_leave(window: Window, moved: Moved) -> bool:
    """Tell whether a hold could have been in their list; what is of another project could not."""
    try:
        await window.reach(hold_id(moved.run_id, moved.n))
    except SaysoError:
        return False
    return True


async def _told(window: Window, moved: Moved) -> dict[str, str] | None:
    hold = await seen(window, moved)
    return None if hold is None else {"id": hold.id, "status": hold.status, "said": _said(hold)}


def _said(hold: HoldView) -> str:
    if hold.status == "open" or hold.decision is None:
        return ""
    return f"{decided(hold)}{by_who(hold.decision)}."
