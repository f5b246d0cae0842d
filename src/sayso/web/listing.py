"""The list beside a request: which holds somebody sees, filtered, a page at a time.

Rule 1: nothing is counted that would have to be read for it: beyond a page it says `50+`.
Rule 2: what a filter cannot ask the store for is looked through in bounded pieces; the list goes on
where it stopped looking.
"""

from __future__ import annotations

from typing import Literal, get_args
from urllib.parse import urlencode

import msgspec
from fastapi import Request

from sayso.app import Sayso
from sayso.domain.filter import Filter, read_filter
from sayso.domain.ruling import RISKS
from sayso.errors import BadFilter, NotAllowed
from sayso.server.caller import Caller
from sayso.store.views import HoldView

View = Literal["mine", "team", "all"]
VIEWS: tuple[View, ...] = get_args(View)
PAGE = 50
LOOK = 200
"""How many holds are read at a time when they are filtered here."""
LOOKS_MAX = 10
WORKING_MAX = 100
AFTER_MAX = 200
CHIPS = (("All", ""), ("High risk", "risk:>=high"), ("Questions", "kind:question"))


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the list."""

    view: View = "mine"
    query: str = ""
    items: tuple[HoldView, ...] = ()
    next: str | None = None
    """Where the next page goes on."""
    later: bool = False
    """Whether this is not the first page."""
    problem: str = ""
    """Why the filter shows nothing: it is none."""
    sees_all: bool = False
    working: int | None = None
    """If nothing waits: how many of their runs go on without anybody. None: they have no runs."""

    @property
    def count(self) -> str:
        """How many there are, as far as that is known."""
        return f"{len(self.items)}+" if self.next else str(len(self.items))

    def link(self, path: str = "/", **changes: str | None) -> str:
        """Give the address of a page that has this list, or this list with changes."""
        known = {"view": self.view if self.view != "mine" else "", "q": self.query, **changes}
        said = urlencode({key: value for key, value in known.items() if value})
        return f"{path}?{said}" if said else path


async def list_holds(request: Request, app: Sayso, caller: Caller) -> Listing:
    """List what the address of a request asks for."""
    params = request.query_params
    given = params.get("view", "mine")
    view: View = given if given in VIEWS else "mine"
    query, after = params.get("q", "").strip(), params.get("after", "")[:AFTER_MAX] or None
    window = caller.window(app)
    sees_all = await window.is_operator()
    if view == "all" and not sees_all:
        raise NotAllowed("only an operator sees all requests of the project")
    listing = Listing(view=view, query=query, sees_all=sees_all, later=after is not None)
    try:
        wanted = read_filter(query)
    except BadFilter as error:
        return msgspec.structs.replace(listing, problem=str(error))
    items, more = await _look(app, caller, view, wanted, after)
    working = None
    if not items and not query and view == "mine":
        running, _ = await window.runs(status="running", limit=WORKING_MAX)
        any_runs, _ = (running, None) if running else await window.runs(limit=1)
        working = len(running) if any_runs else None
    if more is None and after is None:
        # All there is: then what ends first comes first.
        items.sort(key=_urgency)
    return msgspec.structs.replace(listing, items=tuple(items), next=more, working=working)


async def _look(
    app: Sayso, caller: Caller, view: View, wanted: Filter, after: str | None
) -> tuple[list[HoldView], str | None]:
    """Read on until a page is full, or for as long as it may take."""
    found: list[HoldView] = []
    narrow = wanted != Filter(words=wanted.words) or view == "team"
    now = app.store.now()
    for _ in range(LOOKS_MAX):
        page = await app.holds(
            by=None if view == "all" else caller.by,
            project=caller.project,
            search=wanted.search,
            limit=LOOK if narrow else PAGE,
            after=after,
        )
        for hold in page:
            waited = now - int(hold.opened_at.timestamp() * 1000)
            if _waits(hold, view, caller) and wanted.fits(hold, waited_ms=waited):
                found.append(hold)
        after = page.next
        if after is None or len(found) >= PAGE:
            break
    return found, after


def _waits(hold: HoldView, view: View, caller: Caller) -> bool:
    # What is decided and can still be taken back waits for nobody.
    if hold.status != "open":
        return False
    if view == "all":
        return True
    if hold.kind == "delegation":
        return False  # It waits for another run, and nobody can say anything.
    return view == "mine" or f"user:{caller.by.id}" not in hold.approvers


def _urgency(hold: HoldView) -> tuple[float, int, float]:
    ends = float("inf") if hold.deadline is None else hold.deadline.timestamp()
    risk = RISKS.index(hold.risk) if hold.risk in RISKS else len(RISKS)  # pyright: ignore[reportArgumentType]
    return ends, -risk, hold.opened_at.timestamp()
