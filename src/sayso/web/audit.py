"""The audit: who decided what and who was refused, and whether all is as it was written.

For operators with the scope `admin`: it shows a whole project.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from sayso.app import Sayso
from sayso.engine.door import Refused
from sayso.engine.evidence import FIELDS, Line, cells
from sayso.engine.window import Window
from sayso.errors import BadValue, NotAllowed, SaysoError
from sayso.server.caller import App
from sayso.server.seat import Seats
from sayso.store.base import PAGE_MAX
from sayso.store.views import moment
from sayso.web.page import HEADERS, PageRoute, render
from sayso.web.session import Form, SignedIn, Visitor

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LINES_MAX = 200
"""How many lines a page shows: the newest of the days asked for."""
DAYS = 7
REFUSED_MAX = 50
REFUSED_LOOKS = 20
"""In how many pages of the newest refusals of the store those of a project are looked for."""
LOOKS_MAX, LOOKS_EACH_MAX = 4, 2
"""How often the whole store is read at a time, and for each person."""


async def _auditor(visitor: SignedIn) -> Visitor:
    visitor.caller.need("admin")
    if not visitor.audits:
        raise NotAllowed("only an operator sees the audit of a project")
    return visitor


Auditor = Annotated[Visitor, Depends(_auditor)]


class Days:
    """The days that are asked for: the last week, unless something else is."""

    def __init__(self, app: App, since: date | None = None, until: date | None = None) -> None:
        today = moment(app.store.now()).date()
        self.until = until or today
        try:
            self.since = since or self.until - timedelta(days=DAYS - 1)
            self.begin, self.end = _midnight(self.since), _midnight(self.until) + timedelta(days=1)
        except OverflowError:
            raise BadValue("these days are none that anything could be of") from None


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


AskedDays = Annotated[Days, Depends(Days)]
What = Annotated[str, Query(max_length=40)]
Who = Annotated[str, Query(max_length=200)]


@router.get("/audit")
async def show_audit(
    *,
    request: Request,
    app: App,
    visitor: Auditor,
    days: AskedDays,
    who: Who = "",
    what: What = "",
    tool: Who = "",
) -> Response:
    """Show the newest lines of the days that are asked for."""
    found: list[Line] = []
    with _seats(request).take(visitor.caller):
        async for line in _lines(app, visitor, days):
            if _wanted(line, who, what, tool):
                found.append(line)
                del found[:-LINES_MAX]
    refused = await _refused(app, visitor)
    return render(
        request,
        "audit.html",
        visitor=visitor,
        view="audit",
        lines=found[::-1],
        cut=len(found) >= LINES_MAX,
        days=days,
        who=who,
        what=what,
        tool=tool,
        refused=refused,
        moment=moment,
    )


@router.post("/audit/verify")
async def verify(*, request: Request, app: App, visitor: Auditor, form: Form) -> Response:
    """Check every chain, row and seal of the store, and show what was found."""
    del form  # That it was sent from a page of ours is all that it says.
    with _seats(request).take(visitor.caller):
        report = await app.audit.verify()
    # The store may have projects that are none of the visitor's business.
    window = visitor.caller.window(app)
    faults = [one for one in report.faults if not one.run_id or await _has(window, one.run_id)]
    return render(
        request, "verified.html", visitor=visitor, view="audit", report=report, faults=faults
    )


@router.get("/audit/export.csv")
async def export(
    *,
    app: App,
    visitor: Auditor,
    days: AskedDays,
    who: Who = "",
    what: What = "",
    tool: Who = "",
) -> Response:
    """Give the lines as a table; no cell starts a formula."""

    async def rows() -> AsyncIterator[bytes]:
        yield _row(list(FIELDS))
        async for line in _lines(app, visitor, days):
            if _wanted(line, who, what, tool):
                yield _row(cells(line))

    name = f"sayso-{days.since}-{days.until}.csv"
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(rows(), media_type="text/csv; charset=utf-8", headers=headers)


async def _has(window: Window, run_id: str) -> bool:
    try:
        await window.reach(run_id)
    except SaysoError:
        return False
    return True


def _lines(app: Sayso, visitor: Visitor, days: Days) -> AsyncIterator[Line]:
    project = visitor.caller.project
    return app.audit.export(since=days.begin, until=days.end, project=project)


def _wanted(line: Line, who: str, what: str, tool: str) -> bool:
    return (
        (not who or who in (line.by, line.name))
        and (not what or line.what == what)
        and (not tool or line.tool == tool)
    )


async def _refused(app: Sayso, visitor: Visitor) -> list[Refused]:
    before = (await app.store.door.head()).n + 1
    found: list[Refused] = []
    for _ in range(REFUSED_LOOKS):
        after = max(0, before - 1 - PAGE_MAX)
        page = await app.audit.refused(project=visitor.caller.project, after=after, limit=PAGE_MAX)
        found = [one for one in page if one.n < before] + found
        before = after + 1
        if len(found) >= REFUSED_MAX or not after:
            break
    return found[-REFUSED_MAX:][::-1]


def _seats(request: Request) -> Seats:
    state = request.app.state
    if getattr(state, "audits", None) is None:
        state.audits = Seats(LOOKS_MAX, LOOKS_EACH_MAX)
    return state.audits


def _row(values: list[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(values)
    return out.getvalue().encode()
