"""Runs: a list of them, and the story of one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from sayso.domain import events as e
from sayso.domain.hold import Delegation
from sayso.domain.recorded import Recorded
from sayso.engine.story import Story
from sayso.server.caller import App
from sayso.server.wire import NAME_MAX
from sayso.store.base import PAGE_MAX
from sayso.store.views import moment
from sayso.web.page import PageRoute, redirect, render
from sayso.web.session import Form, SignedIn
from sayso.web.span import scale_of, waits

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50
REASON_MAX = 2000
TONES = {
    "approved": "good",
    "answered": "good",
    "completed": "good",
    "held": "wait",
    "in doubt": "wait",
    "suspended": "wait",
    "escalated": "wait",
    "rejected": "bad",
    "expired": "bad",
    "failed": "bad",
    "errored": "bad",
    "late": "bad",
    "cancelled": "bad",
}
RunId = Annotated[str, Path(max_length=NAME_MAX)]
Status = Literal["running", "suspended", "completed", "failed", "cancelled"]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a journal, as it is told."""

    entry: Recorded
    word: str
    text: str
    tone: str
    below: str = ""
    """The run that works on it."""


@router.get("/runs")
async def list_runs(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    status: Status | Literal[""] = "",
    agent: Annotated[str, Query(max_length=NAME_MAX)] = "",
    after: Annotated[str | None, Query(max_length=NAME_MAX)] = None,
) -> Response:
    """List the visitor's runs, newest first; for operators all of them."""
    visitor.caller.need("read")
    found, more = await visitor.caller.window(app).runs(
        status=status or None, agent=agent or None, before=after, limit=PAGE
    )
    return render(
        request,
        "runs.html",
        visitor=visitor,
        view="runs",
        runs=found,
        more=more,
        state=status,
        agent=agent,
        first=after is None,
        moment=moment,
    )


@router.get("/runs/{run_id}")
async def show_run(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    run_id: RunId,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Show a run: where it is, what it waits for, and its story so far."""
    visitor.caller.need("read")
    window = visitor.caller.window(app)
    run, state = await window.run(run_id), await window.check_run(run_id)
    entries = await window.entries(run_id, after=after)
    story, now = Story(), app.store.now()
    told = [_told(story, entry) for entry in entries]
    return render(
        request,
        "run.html",
        visitor=visitor,
        view="runs",
        run=run,
        above=state.lineage,
        told=told,
        decided=await window.settled(run_id),
        spans=waits(entries, now),
        scale=scale_of(entries, now, final=run.final),
        whole=after == 0 and len(entries) < PAGE_MAX,
        more=entries[-1].seq if len(entries) >= PAGE_MAX else None,
        now=now / 1000,
        moment=moment,
    )


@router.post("/runs/{run_id}/stop")
async def stop_run(
    *, request: Request, app: App, visitor: SignedIn, form: Form, run_id: RunId
) -> Response:
    """Cancel a run: what it asks is withdrawn at once, calls under way are waited for."""
    visitor.caller.need("start")
    await visitor.caller.window(app).reach(run_id)
    reason = str(form.get("reason", ""))[:REASON_MAX]
    await app.cancel(run_id, by=visitor.caller.by, reason=reason)
    return redirect(request, f"/runs/{run_id}")


def _told(story: Story, entry: Recorded) -> Told:
    word, text = story.describe(entry)
    below = ""
    if isinstance(entry.event, e.HoldOpened) and isinstance(entry.event.ask, Delegation):
        below = entry.event.ask.run
    return Told(entry=entry, word=word, text=text, tone=TONES.get(word, ""), below=below)
