"""The desk of a store: opened here, by whoever has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from sayso.app import Sayso
from sayso.cli.opened import Place, opened
from sayso.domain.hold import SIGN_INS, Approved, Verdict, hold_id
from sayso.errors import UnknownHold, UnknownRun, WrongVerdict
from sayso.store.journal import read_journal, recorded
from sayso.store.moved import find_end, moved_by
from sayso.store.views import HoldView, Page
from sayso.wired import only_looking

if TYPE_CHECKING:
    from sayso.cli.desk import Desk
    from sayso.domain.grant import Grant
    from sayso.engine.grants import Always

CHANNEL = "terminal"


@asynccontextmanager
async def open_local(
    app: Sayso | None, place: Place | None, *, who: str, project: str
) -> AsyncGenerator[Desk]:
    """Open a store that is there, with an app's code if one is named; it leaves the work alone."""
    if app is not None:
        async with only_looking(app, None if place is None else place.where) as looking:
            yield LocalDesk(looking, who, project)
        return
    assert place is not None, "a store is named"
    async with opened(place) as store, Sayso(store, work=False) as looking:
        yield LocalDesk(looking, who, project)


class LocalDesk:
    """Decides in a store. Whoever can read it may look at all of it."""

    web = ""

    def __init__(self, app: Sayso, who: str, project: str) -> None:
        self._app = app
        self._who = who
        self._project = project
        self._watch = app.store.watch()
        self._place: int | None = None
        self.name = app.store.name

    async def who(self) -> str:
        return self._who

    async def page(
        self,
        *,
        search: str | None = None,
        status: str = "open",
        everyone: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        return await self._app.holds(
            by=None if everyone else self._who,
            status=cast("Literal['open', 'settled', 'any']", status),
            search=search,
            limit=limit,
            after=after,
            project=self._project,
        )

    async def hold(self, hold: str) -> HoldView:
        found = await self._app.hold(hold)
        if found.project != self._project:
            raise UnknownHold(f"there is no hold {hold!r} in the project {self._project!r}")
        return found

    async def decide(
        self,
        hold: HoldView,
        verdict: Verdict,
        *,
        note: str = "",
        undo_s: float | None = None,
        always: Always | None = None,
        even_if_alive: bool = False,
    ) -> HoldView:
        if isinstance(verdict, Approved) and verdict.args is not None and not self._app.agents:
            raise WrongVerdict(
                "changed arguments are checked by the code of the app: say --app MODULE:APP, or "
                "--url where it is served"
            )
        return await self._app.decide(
            hold,
            verdict,
            by=self._who,
            undo=undo_s,
            note=note,
            channel=CHANNEL,
            always=always,
            even_if_alive=even_if_alive,
        )

    async def undo(self, hold: str) -> HoldView:
        await self.hold(hold)
        return await self._app.undo(hold, by=self._who)

    async def reassign(self, hold: str, *, to: str, note: str = "") -> HoldView:
        await self.hold(hold)
        return await self._app.reassign(hold, to=to, by=self._who, note=note)

    async def remind(self, hold: str, in_s: float) -> datetime:
        await self.hold(hold)
        return await self._app.remind(hold, in_s, by=self._who)

    async def sign_in_url(self, hold: str) -> str:
        kind = (await self.hold(hold)).kind
        if kind not in SIGN_INS:
            raise WrongVerdict(f"{hold!r} asks for no sign-in: it is a {kind}")
        return await self._app.sign_in_url(hold, by=self._who)

    async def events(self, run: str) -> list[dict[str, Any]]:
        from sayso.server.event import event_out

        row = await self._app.store.load(run)
        if row is None or row.project != self._project:
            raise UnknownRun(f"there is no run {run!r} in {self.name!r}")
        journal = await read_journal(self._app.store, run)
        return [event_out(recorded(entry)).model_dump(mode="json") for entry in journal]

    async def grants(self) -> Sequence[Grant]:
        return await self._app.grants.list(project=self._project)

    async def revoke(self, grant: str) -> Grant:
        return await self._app.grants.revoke(grant, by=self._who, project=self._project)

    async def changed(self, within_s: float) -> frozenset[str]:
        store = self._app.store
        if self._place is None:
            self._place = await find_end(store)
            return frozenset()
        await self._watch.wait(within_s)
        found: set[str] = set()
        while page := await store.tail(after=self._place):
            found |= {hold_id(one.run_id, one.n) for entry in page for one in moved_by(entry)}
            self._place = page[-1].position
        return frozenset(found)
