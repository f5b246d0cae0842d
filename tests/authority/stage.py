"""The stage on which the table is played: the people, the agents, and holds in every state.

It knows the library; a wire has a stage of its own, and the same table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sayso import (
    Agent,
    Always,
    Bounds,
    Context,
    HoldView,
    Policy,
    Principal,
    Rule,
    RunHandle,
    Sayso,
    answer,
    approve,
    fail,
    reject,
    tool,
)
from sayso.agents.oauth_provider import OAuthProvider
from sayso.store.base import Entry
from sayso.store.journal import decode
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import PATIENCE_S, Place, finished, held, suspended

from . import table

# Nothing is swept unless the test says so.
STILL = Bounds(look_s=3600.0, backoff_s=0.01, backoff_max_s=0.05)
CHANGES_NOTHING = frozenset({"list", "export", "remind", "sign_in_url"})
"""What leaves no entry even where it is allowed."""


@dataclass
class Case:
    """A run, and the hold that is looked at."""

    run: RunHandle
    hold: HoldView | None = None
    extra: Any = None


Staged = TypeVar("Staged", bound="Stage")


class Stage:
    """An app with everybody in it, and ways to make a case of any kind."""

    def __init__(self, place: Place, app: Sayso, state: str, lost: list[bool]) -> None:
        self.place = place
        self.app = app
        self.state = state
        self.left: Case | None = None
        """A case that the last try has left as it was."""
        self.earlier = ""
        """The run of the last try."""
        self._lost = lost
        self._at = 0

    async def news(self) -> list[Entry]:
        """Give what was committed since the last look."""
        found: list[Entry] = []
        while page := await self.app.store.tail(after=self._at):
            found += page
            self._at = page[-1].position
        return found

    async def shelf(self) -> list[tuple[str, int]]:
        """Say at which rev everything is that is no run."""
        kinds = ("person", "identity", "grant", "credential")
        pages = [
            await self.app.store.shelf.list(where, kind, limit=200)
            for where in (table.PROJECT, table.ELSEWHERE)
            for kind in kinds
        ]
        return [(item.id, item.rev) for page in pages for item in page]

    async def case(self, relation: str) -> Case:
        """Make a new run, with its hold in the state that this stage is for."""
        if relation in ("none", "grant", "sign_in"):
            return await getattr(self, f"_{relation}")()
        case = await self._asked(relation)
        await getattr(self, f"_{self.state}")(case, relation)
        if case.hold is not None:
            case.hold = await self.app.hold(case.hold.id)
        return case

    async def _asked(self, relation: str) -> Case:
        run = await self.app.start(relation, "go", by="mira")
        return Case(run, await self._prepared(await held(run), relation))

    async def _prepared(self, hold: HoldView, relation: str) -> HoldView:
        if relation == "four_eyes":
            return await self.app.decide(hold, approve(args={"n": 5}), by="eddy")
        if relation == "quorum":
            return await self.app.decide(hold, approve(), by="finn")
        return hold

    async def _decide(
        self, hold: HoldView, relation: str, yes: bool, undo: str | None = None
    ) -> HoldView:
        """Let those decide whom the table says have decided."""
        verdict = approve() if yes else reject("no")
        if relation == "outside":
            verdict = answer("so") if yes else reject("no")
        if relation == "quorum" and yes:
            await self.app.decide(hold, verdict, by="gil")
        (who,) = (one for one in table.DECIDERS[relation] if one != "owner_linked")
        by = table.WHO[who][1]
        return await self.app.decide(hold, verdict, by=by, undo=undo)

    async def _open(self, case: Case, relation: str) -> None:
        pass

    async def _decided(self, case: Case, relation: str) -> None:
        assert case.hold is not None
        case.hold = await self._decide(case.hold, relation, yes=True, undo="5m")

    async def _settled(self, case: Case, relation: str) -> None:
        assert case.hold is not None
        await self._decide(case.hold, relation, yes=False)
        await suspended(case.run)

    async def _expired(self, case: Case, relation: str) -> None:
        self.place.clock.advance("2h")

    async def _withdrawn(self, case: Case, relation: str) -> None:
        await self.app.say(case.run, "Never mind.", by="mira", supersede=True)
        await suspended(case.run)

    async def _cancelled(self, case: Case, relation: str) -> None:
        await self.app.cancel(case.run, by="mira")
        await finished(case.run)

    async def _finished(self, case: Case, relation: str) -> None:
        assert case.hold is not None
        await self._decide(case.hold, relation, yes=False)
        last = await held(case.run)
        await self._decide(last, relation, yes=False)
        await finished(case.run)

    async def _in_doubt(self, case: Case, relation: str) -> None:
        assert case.hold is not None
        self._lost[0] = True
        await self._decide(case.hold, relation, yes=True)
        case.hold = await held(case.run)
        self._lost[0] = False
        assert case.hold.kind == "in_doubt"

    async def _none(self) -> Case:
        return Case(self.app.run("run_none"))

    async def _grant(self) -> Case:
        case = await self._asked("role")
        assert case.hold is not None
        await self.app.decide(case.hold, approve(), by="ann", always=Always())
        (grant, *_) = [
            one for one in await self.app.grants.list(good=False) if one.hold == case.hold.id
        ]
        if self.state == "withdrawn":
            grant = await self.app.grants.revoke(grant, by="ann")
        await case.run.wait(timeout=PATIENCE_S)
        return Case(case.run, None, grant.id)

    async def _sign_in(self) -> Case:
        run = await self.app.start("sign_in", "go", by="mira")
        hold = await held(run)
        url = await self.app.sign_in_url(hold, by="mira")
        state = url.partition("state=")[2].partition("&")[0]
        if self.state == "settled":
            await self.app.decide(hold, reject("no"), by="mira")
            await finished(run)
        return Case(run, await self.app.hold(hold.id), state)

    async def act(self, cell: table.Cell, case: Case) -> str:
        """Do it; say what came of it."""
        kind, name = table.WHO[cell.who]
        by: str | Principal = name if kind == "person" else Principal(id=name, kind=kind)
        try:
            return await getattr(self, f"do_{cell.verb}")(cell, case, by) or table.OK
        except Exception as error:
            return type(error).__name__

    async def do_approve(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.decide(case.hold, approve(), by=by)

    async def do_reject(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.decide(case.hold, reject("no"), by=by)

    async def do_answer(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.decide(case.hold, answer("so"), by=by)

    async def do_fail(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.decide(case.hold, fail("no"), by=by)

    async def do_edit(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.decide(case.hold, approve(args={"n": 7}), by=by)

    async def do_undo(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.undo(case.hold, by=by)

    async def do_resume(self, cell: table.Cell, case: Case, by: Any) -> None:
        from sayso.domain.digest import suspension_digest

        assert case.hold is not None
        verdict = answer("so") if cell.relation == "outside" else approve()
        request = case.hold.request_id
        digest = suspension_digest(request_id=request, members=[case.hold.digest])
        await self.app.resume(request, verdict, by=by, digest=digest)

    async def do_reassign(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.reassign(case.hold, to=table.HANDED_TO[cell.relation], by=by)

    async def do_remind(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.remind(case.hold, "1m", by=by)

    async def do_list(self, cell: table.Cell, case: Case, by: Any) -> str:
        assert case.hold is not None
        after, seen = None, False
        while not seen:
            page = await self.app.holds(by=by, limit=500, after=after)
            seen = case.hold.id in [one.id for one in page]
            if (after := page.next) is None:
                break
        return table.OK if seen else "absent"

    async def do_say(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.say(case.run, "Well?", by=by)

    async def do_supersede(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.say(case.run, "Well?", by=by, supersede=True)

    async def do_command(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.command(case.run, "note", {}, by=by, timeout=PATIENCE_S)

    async def do_cancel(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.cancel(case.run, by=by)

    async def do_redact(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.redact(case.run, 1, by=by)

    async def do_export(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.export(case.run, by=by)

    async def do_adopt(self, cell: table.Cell, case: Case, by: Any) -> None:
        if case.extra is None:
            case.extra = await self.app.export(case.run, by="mira")
        await self.app.adopt(case.extra, by=by)

    async def do_start(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.start("owner", "go", by=by)

    async def do_gate(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.gate("look", {}, by=by, timeout=PATIENCE_S)

    async def do_revoke(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.grants.revoke(case.extra, by=by)

    async def do_sign_in_url(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.sign_in_url(case.hold, by=by)

    async def do_oauth_callback(self, cell: table.Cell, case: Case, by: Any) -> None:
        await self.app.oauth_callback(case.extra, by=by, error="access_denied")


@asynccontextmanager
async def stage(
    place: Place, relation: str, state: str, kind: type[Staged]
) -> AsyncIterator[Staged]:
    """Open a stage for one relation and one state."""
    lost = [False]

    @tool(effect="once")
    async def pay(ctx: Context, n: int) -> str:
        place.world.act(ctx, {"n": n})
        if lost[0]:
            raise ConnectionResetError
        return "paid"

    outside = table.RELATIONS["outside"]

    @tool(blocking=True, within="1h", **outside)
    async def wait(ctx: Context, n: int) -> str:
        place.world.act(ctx, {"n": n})
        return "waits"

    @tool
    async def note() -> str:
        return "noted"

    @tool(effect="none")
    async def look() -> str:
        return "seen"

    @tool(sign_in="idp", effect="none")
    async def acting(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "acted"

    def agent(name: str) -> Agent:
        used = {"outside": wait, "sign_in": acting}.get(name, pay)
        args = [{}] if name == "sign_in" else [{"n": 1}, {"n": 2}]
        script = [*(call(used.name, one) for one in args), say("Done.")]
        return Agent(name, model=ScriptedModel(script), tools=[used], commands=[note])

    def rule(name: str, words: dict[str, Any]) -> Rule:
        return Rule("pay", when=lambda c: c.agent == name, within="1h", **words)

    rules = [rule(n, dict(w)) for n, w in table.RELATIONS.items() if n != "outside"]
    names = {relation, "role", "owner"} if relation != "sign_in" else {"sign_in"}
    agents = [agent(name) for name in names if name not in ("none", "grant")]
    provider = OAuthProvider(
        "idp",
        authorize_url="https://idp.example/authorize",
        token_url="https://idp.example/token",
        client_id="sayso",
        client_secret="secret",
        redirect_url="https://sayso.example/back",
    )
    async with place.app(
        *agents, policy=Policy(*rules), bounds=STILL, tools=[look], providers=[provider]
    ) as app:
        await introduce(app, place)
        yield kind(place, app, state, lost)


async def introduce(app: Sayso, place: Place) -> None:
    """Make everybody known, as the table says."""
    for name, words in table.PEOPLE.items():
        await app.people.put(name, **words)
    roles = ["finance", "sales", "operator"]
    await app.people.put("eve", roles=roles, project=table.ELSEWHERE)
    for who, of, when in table.STAND_INS:
        if when == "over":
            await app.people.stand_in(who, of=of, until="1m")
    place.clock.advance("2m")
    later = datetime.fromtimestamp(app.store.now() / 1000, UTC) + timedelta(days=300)
    for who, of, when in table.STAND_INS:
        if when != "over":
            since = later if when == "later" else None
            await app.people.stand_in(who, of=of, until="30w", since=since)


async def play(there: Stage, cell: table.Cell) -> list[str]:
    """Play a cell; say what was wrong: what came of it, or what a refusal has left behind."""
    case = there.left or await there.case(cell.relation)
    there.left = None
    await there.news()
    before = await there.shelf(), there.place.world.effects()

    found = await there.act(cell, case)

    wrong = [] if found == cell.expected else [f"{cell}: {found}, not {cell.expected}"]
    # What became of the case before goes on meanwhile.
    earlier, there.earlier = there.earlier, case.run.id
    news = [one for one in await there.news() if one.run_id == case.run.id or one.run_id != earlier]
    if cell.expected in (table.OK, "absent"):
        quiet = cell.verb in CHANGES_NOTHING or cell.relation == "grant"
        done_before = cell.verb == "cancel" and cell.state == "cancelled"
        if not (news or quiet or done_before) and not wrong:
            wrong.append(f"{cell}: it was allowed, and nothing happened")
        if not news and not wrong and cell.relation not in ("grant", "none"):
            there.left = case
        return wrong
    if found == "HoldExpired" and news:
        # Whoever comes too late is told by the clock, which has the last word on the way.
        first = decode(news[0])
        settled = getattr(first, "decision", None)
        if settled is None or settled.by.kind != "clock":
            wrong.append(f"{cell}: a refusal that did {type(first).__name__}")
    elif news:
        wrong.append(f"{cell}: a refusal that did {[type(decode(one)).__name__ for one in news]}")
    else:
        there.left = case
    if (await there.shelf(), there.place.world.effects()) != before:
        wrong.append(f"{cell}: a refusal that changed a record, or ran something")
    return wrong
