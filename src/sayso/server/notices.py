"""Notifications inside an application: what asks somebody, with what they have read of it.

Rule: a notification is its hold. There is nothing to deliver and nothing to mark: what is answered
anywhere is answered here. All that is kept is what somebody has read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request

from sayso.app import Sayso
from sayso.engine.remind import READ, is_read, read_name
from sayso.errors import StaleItem
from sayso.server.caller import App, Caller, Reader
from sayso.server.holds import HoldId
from sayso.server.json import StrictRoute
from sayso.server.problem import documented
from sayso.server.runs import After, Limit, base_of
from sayso.server.wire import DecisionOut, Out, decision_out
from sayso.store.views import HoldView

router = APIRouter(prefix="/v1", route_class=StrictRoute)


class ActionOut(Out):
    """Something that can be done about it."""

    action: Literal["approve", "reject", "answer"]
    method: Literal["POST"]
    url: str
    """Where; a decision carries `seen` as well."""


class NotificationOut(Out):
    """What asks somebody."""

    id: str
    """The id of the hold."""
    kind: str
    title: str
    risk: str
    agent: str
    run_id: str
    asked_at: datetime
    deadline: datetime | None
    read: bool
    """Whether it is nothing new: it was read, or is put off until later."""
    seen: str
    answered: DecisionOut | None
    """By whom it was answered, wherever that was."""
    actions: list[ActionOut]
    link: str


class NotificationsOut(Out):
    """A page of notifications."""

    items: list[NotificationOut]
    unread: int
    """How many of this page are neither read nor answered."""
    next: str | None


@router.get("/notifications", responses=documented())
async def list_notifications(
    *,
    request: Request,
    app: App,
    caller: Reader,
    status: Literal["open", "settled", "any"] = "open",
    after: After = None,
    limit: Limit = 50,
) -> NotificationsOut:
    """List what asks the caller, oldest first."""
    page = await app.holds(
        by=caller.by, status=status, project=caller.project, after=after, limit=limit
    )
    items = await asyncio.gather(*[_shown(app, caller, hold, base_of(request)) for hold in page])
    unread = sum(not one.read and one.answered is None for one in items)
    return NotificationsOut(items=items, unread=unread, next=page.next)


@router.post("/notifications/{hold_id}/read", responses=documented(404))
async def read_notification(
    *, request: Request, app: App, caller: Reader, hold_id: HoldId
) -> NotificationOut:
    """Say that the caller has read it. Doing so twice is fine."""
    hold = await caller.window(app).hold(hold_id)
    name = read_name(caller.by, hold.id)
    item = await app.store.shelf.get(caller.project, READ, name)
    # Whoever wants to be told later is, although they have read it now.
    if not is_read(item, app.store.now()):
        with suppress(StaleItem):  # Somebody else was faster, who is the same.
            rev = 0 if item is None else item.rev
            await app.store.shelf.put(caller.project, READ, name, b"1", rev=rev)
    return await _shown(app, caller, hold, base_of(request))


async def _shown(app: Sayso, caller: Caller, hold: HoldView, base: str) -> NotificationOut:
    item = await app.store.shelf.get(caller.project, READ, read_name(caller.by, hold.id))
    link = f"{base}/v1/holds/{hold.id}"
    said = hold.decision if hold.status != "open" else None
    return NotificationOut(
        id=hold.id,
        kind=hold.kind,
        title=hold.title,
        risk=hold.risk,
        agent=hold.agent,
        run_id=hold.run_id,
        asked_at=hold.opened_at,
        deadline=hold.deadline,
        read=is_read(item, app.store.now()),
        seen=hold.digest,
        answered=None if said is None else decision_out(said),
        actions=_actions(hold, link) if said is None else [],
        link=link,
    )


def _actions(hold: HoldView, link: str) -> list[ActionOut]:
    decide = f"{link}/decision"
    match hold.kind:
        case "approval":
            yes = ActionOut(action="approve", method="POST", url=decide)
            return [yes, ActionOut(action="reject", method="POST", url=decide)]
        case "question":
            return [ActionOut(action="answer", method="POST", url=decide)]
        case _:
            return [ActionOut(action="reject", method="POST", url=decide)]
