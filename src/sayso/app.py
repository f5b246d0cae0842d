"""`Sayso`: all that a program can do with it, each verb in a line or two."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sayso.agents.single import NAME as SINGLE
from sayso.agents.single import REF, describe_call, describe_secret_call
from sayso.agents.tools import check_tool
from sayso.domain.call import Outcome
from sayso.domain.hold import Verdict
from sayso.domain.message import Message
from sayso.domain.recorded import Recorded
from sayso.domain.ruling import duration_ms
from sayso.domain.value import Principal
from sayso.engine.desk import Command, Start
from sayso.engine.feed import Delta
from sayso.engine.grants import Always
from sayso.engine.handle import RunHandle
from sayso.engine.ledger import Ledger
from sayso.engine.name import read_hold, read_person, read_run, run_of
from sayso.engine.ports import Tool
from sayso.engine.request import Decide
from sayso.engine.voters import asked
from sayso.errors import (
    BadTool,
    BadValue,
    UnknownTool,
)
from sayso.given import (
    check_sign_in,
    look_for_ring,
)
from sayso.store.admit import page_size
from sayso.store.views import CommandView, HoldView, Page, RunView, hold_view
from sayso.wired import Wired

if TYPE_CHECKING:
    from sayso.engine.audit_desk import AuditDesk
    from sayso.engine.doctor import Report
    from sayso.engine.genuine import Shown
    from sayso.engine.window import Window
    from sayso.store.doubt import DoubtView

DRAIN_S = 30.0
"""How long leaving waits for calls under way."""


class Sayso(Wired):
    """Durable human-in-the-loop for agents, in one process or several on one store.

    Use it as `async with Sayso("pay.db", agents=[...]) as app`. The store is a path, "memory:",
    the address of a database ("postgresql://..."), or a store object. With `work=False` it decides
    and looks, and leaves the work to other processes.
    """

    ledger_class = Ledger

    async def start(
        self,
        agent: str,
        input: str,
        *,
        by: str | Principal,
        project: str | None = None,
        thread: str | None = None,
        id: str | None = None,
        history: Iterable[Message] = (),
        key: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> RunHandle:
        """Start a run. It is committed when this returns; the worker takes it from there.

        `id` chooses the run's id, `history` is an earlier conversation, and a retried start with
        the same `key` gives the same run.
        """
        run_id = await self._open_desk.start(
            Start(
                agent=agent,
                input=input,
                by=read_person(by),
                project=project or self._project,
                thread=thread,
                id=id,
                history=tuple(history),
                key=key,
                metadata=metadata,
            )
        )
        return self.run(run_id)

    def run(self, run: str | RunHandle | RunView) -> RunHandle:
        """Give a handle on a run. Whether there is such a run shows when the handle is used."""
        return RunHandle(self._open_parts, read_run(run))

    async def decide(
        self,
        hold: str | HoldView,
        verdict: Verdict,
        *,
        by: str | Principal,
        digest: str | None = None,
        key: str | None = None,
        undo: str | float | None = None,
        note: str = "",
        channel: str = "library",
        always: Always | None = None,
        even_if_alive: bool = False,
    ) -> HoldView:
        """Decide a hold: `approve()`, `approve(args={...})`, `reject("why")`, `answer(value)`,
        `fail("why")`. Durable when this returns.

        The first decision stands: `AlreadyDecided` carries it. A hold view brings the digest of
        what was shown; an id alone decides only what was never edited. With `key` a retry gets the
        same answer. With `undo` the decision can be taken back for that long, and counts after.
        With `always` a yes goes for later calls like this one, too. A call in doubt whose worker
        may still be alive is run again only with `even_if_alive=True`: else `WorkerMayLive`.
        """
        if isinstance(hold, HoldView):
            digest = digest or hold.digest
        name = read_hold(hold)
        request = Decide(
            verdict=verdict,
            by=read_person(by),
            digest=digest,
            key=key,
            undo_ms=0 if undo is None else duration_ms(undo),
            note=note,
            channel=channel,
            always=always,
            shown=_shown(hold) if isinstance(hold, HoldView) else None,
            even_if_alive=even_if_alive,
        )
        done = await self._open_desk.decide(name, request)
        decision = done.decision
        if decision is None or not isinstance(hold, HoldView) or request.edits:
            return done.view or await self.hold(name)
        # What was decided on is what was shown: its digest says so.
        status = "settled" if decision.effective_at <= decision.at else "decided"
        return msgspec.structs.replace(hold, status=status, decision=decision)

    async def resume(
        self,
        request_id: str,
        verdict: Verdict,
        *,
        by: str | Principal,
        digest: str | None = None,
        key: str | None = None,
        note: str = "",
        channel: str = "library",
    ) -> list[HoldView]:
        """Decide everything that a suspension still asked, all or nothing, with one verdict."""
        request = Decide(
            verdict=verdict,
            by=read_person(by),
            digest=digest,
            key=key,
            note=note,
            channel=channel,
        )
        return [hold_view(found) for found in await self._open_desk.resume(request_id, request)]

    async def reassign(
        self,
        hold: str | HoldView,
        *,
        to: str | Principal,
        by: str | Principal,
        note: str = "",
    ) -> HoldView:
        """Hand over what one is asked to somebody else. Who is meant by name may name anybody
        of the project; who is one of many, or an operator, only one of the same many.
        """
        found = await self._open_desk.reassign(
            read_hold(hold), to=read_person(to), by=read_person(by), note=note
        )
        return hold_view(found)

    async def remind(
        self, hold: str | HoldView, when: datetime | timedelta | str | float, *, by: str | Principal
    ) -> datetime:
        """Have somebody told again of what they are asked: at a time, or in a while, such as "1h".
        Say when that is. The deadline keeps running. For those whom the hold asks (`NotAllowed`);
        one reminder each, in place of the one before, and none once it is settled.
        """
        return await self._open_desk.remind(read_hold(hold), when, by=read_person(by))

    async def undo(self, hold: str | HoldView, *, by: str | Principal) -> HoldView:
        """Take back one's own decision before it is effective, or one's own vote before the hold is
        settled.
        """
        name = read_hold(hold)
        return hold_view(await self._open_desk.undo(name, by=read_person(by)))

    async def hold(self, hold: str | HoldView) -> HoldView:
        """Look at one hold, open or settled."""
        name = read_hold(hold)
        return await self.run(run_of(name)).hold(name)

    async def doubt(self, hold: str | HoldView) -> DoubtView:
        """Look at a call in doubt: all that is known of it, and what can be said."""
        from sayso.store.doubt import read_doubt

        return await read_doubt(self._open_parts.store, read_hold(hold))

    async def holds(
        self,
        *,
        by: str | Principal | None = None,
        status: Literal["open", "settled", "any"] = "open",
        search: str | None = None,
        newest: bool = False,
        limit: int = 50,
        after: str | None = None,
        project: str | None = None,
    ) -> Page:
        """List holds, oldest first unless it says `newest`; with `by`, those that this person may
        decide.

        With `search`, those that have each of its words in their title, tool, agent, requester or
        ids. What a call would be executed with is not searched.
        """
        from sayso.store.query import HoldQuery
        from sayso.store.words import read_search

        wanted = read_search(search)
        where = project or self._project
        who = None
        if by is not None:
            who = await self._open_parts.records.authority(where, read_person(by))
        query = HoldQuery(
            project=where,
            status=status,
            who=None if who is None else who.names,
            search=wanted,
            newest=newest,
            limit=limit,
            after=after,
        )
        found = await self._open_parts.store.holds(query)
        more = found and len(found) == page_size(limit)
        parts = self._open_parts
        views = [hold_view(one) if who is None else await asked(parts, one, who) for one in found]
        mine = tuple(view for view in views if view is not None)
        return Page(items=mine, next=found[-1].key if more else None)

    async def say(
        self,
        run: str | RunHandle | RunView,
        text: str,
        *,
        by: str | Principal,
        supersede: bool = False,
        key: str | None = None,
    ) -> RunHandle:
        """Say something to a run. One that waits for a person refuses, unless `supersede=True`
        withdraws what it asks; to a finished run, this starts the next run of its thread. A retry
        with the same `key` says nothing more, and gives the same run.
        """
        run_id, who = read_run(run), read_person(by)
        return self.run(
            await self._open_desk.say(run_id, text, by=who, supersede=supersede, key=key)
        )

    async def cancel(
        self, run: str | RunHandle | RunView, *, by: str | Principal, reason: str = ""
    ) -> None:
        """End a run: open holds are withdrawn at once, calls under way are waited for."""
        await self._open_desk.cancel(read_run(run), by=read_person(by), reason=reason)

    async def redact(
        self, run: str | RunHandle | RunView, entry: int, *, by: str | Principal, reason: str = ""
    ) -> None:
        """Erase what an entry of a finished run says. That it was there, and its place in the
        chain, remain and still verify.
        """
        await self._open_desk.redact(read_run(run), entry, by=read_person(by), reason=reason)

    async def export(
        self, run: str | RunHandle | RunView, *, by: str | Principal
    ) -> dict[str, Any]:
        """Give a whole run, with the runs below it, as signed data that is safe as JSON."""
        from sayso.engine.adopt import export_run

        return await export_run(self._open_parts, read_run(run), by=read_person(by))

    async def adopt(self, data: dict[str, Any], *, by: str | Principal) -> RunHandle:
        """Take in a run that was exported elsewhere, under quarantine: what was approved there is
        asked again, what was under way there is in doubt. Data that was edited is `BadExport`.
        """
        from sayso.engine.adopt import adopt_run

        return self.run(await adopt_run(self._open_parts, data, by=read_person(by)))

    async def gate(
        self,
        tool: str | Tool,
        args: Mapping[str, Any],
        *,
        by: str | Principal,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Put one call of somebody else's agent through the gate; give its outcome once it has one.

        With the same `key`, a retry waits for the same call, also in another process and after a
        crash. Tools that such calls use are given to `Sayso(tools=[...])`.
        """
        if not isinstance(tool, str):
            check_tool(tool)
            check_sign_in(tool, self._providers)
            known = self._single.tools.setdefault(tool.name, tool)
            if known is not tool:
                raise BadTool(f"two different tools are called {tool.name!r}")
        name = tool if isinstance(tool, str) else tool.name
        if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadValue(f"the arguments of {name!r} are one object, not {type(args).__name__}")
        if name not in self._single.tools:
            raise UnknownTool(f"there is no tool {name!r}; give it to Sayso(tools=[...])")
        said = self._describe(name, dict(args), key)
        run = await self.start(SINGLE, said, by=by, key=key)
        return await run.outcome(REF, timeout=timeout)

    def _describe(self, name: str, args: dict[str, Any], key: str | None) -> str:
        if not self._single.tools[name].takes_secrets:
            return describe_call(name, args)
        scope = os.urandom(16).hex() if key is None else f"{self._project}/{key}"
        return describe_secret_call(self._open_parts.vault, name, args, scope)

    async def command(
        self,
        run: str | RunHandle | RunView,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        by: str | Principal,
        strand: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> CommandView:
        """Invoke a command on a run, through the same gate as every call; wait until it has an
        outcome or asks somebody. What is wrong with it is its outcome, and changes nothing.
        """
        request = Command(name=name, args=args or {}, by=read_person(by), strand=strand, key=key)
        run_id = read_run(run)
        ref = await self._open_desk.command(run_id, request)
        return await self.run(run_id).command(ref, timeout=timeout)

    async def sign_in_url(self, hold: str | HoldView, *, by: str | Principal) -> str:
        """Say where to send the person whom an open hold asks to sign in or to consent.

        For that person only (`NotAllowed`). Coming back takes 15 minutes at most, to any process.
        """
        return await self._open_sign_ins.url(read_hold(hold), by=read_person(by))

    async def oauth_callback(
        self,
        state: str,
        code: str | None = None,
        *,
        by: str | Principal | None = None,
        iss: str | None = None,
        error: str | None = None,
    ) -> HoldView:
        """Take a person back from a provider: what came in the query of the redirect address.

        The credential is kept encrypted, and the hold is settled, with all others that wait for the
        same. `BadState` or `AlreadyDecided` if the state is not good (any more), `SignInFailed` if
        the provider gives no token: the hold stays open. `error="access_denied"` rejects the hold.
        `by` is who is signed in to your own site: without it, a person can be lured into signing in
        for somebody else.
        """
        who = None if by is None else read_person(by)
        name = await self._open_sign_ins.come_back(state, code, by=who, issuer=iss, error=error)
        return await self.hold(name)

    def events(
        self, run: str | RunHandle | RunView, *, after: int = 0, deltas: bool = False
    ) -> AsyncIterator[Recorded | Delta]:
        """Follow a run: its entries after one, then live, until it is finished. With `deltas`, the
        text of turns under way comes in between.
        """
        feed, run_id = self._open_parts.feed, read_run(run)
        if type(after) is not int:
            raise BadValue(f"entries are followed after a number, not {after!r}")
        return feed.follow_all(run_id, after=after) if deltas else feed.follow(run_id, after=after)

    def window(self, *, by: str | Principal, project: str | None = None) -> Window:
        """Look with somebody's eyes: what they may not see is refused, and what is of another
        project is not there.
        """
        from sayso.engine.window import Window

        return Window(self._open_parts, project or self._project, read_person(by))

    @property
    def audit(self) -> AuditDesk:
        """Checking and sealing the store, showing who decided what, and erasing what is old."""
        from sayso.engine.audit_desk import AuditDesk

        return AuditDesk(self._open_parts)

    async def doctor(self, progress: Callable[[Report], None] | None = None) -> Report:
        """Look everything over, and change nothing: the store, the tools, and whether the agents of
        now can go on with every open run. `progress` hears of it after every run.
        """
        from sayso.engine.doctor import examine

        parts = self._open_parts
        return await examine(
            parts,
            keys=look_for_ring(parts.store),
            knows_code=len(self._drivers) > 1 or bool(self._single.tools),
            progress=progress,
        )

    async def sweep(self) -> int:
        """Do what is due right now rather than at the sweeper's next look, notices included; for
        tests and cron. Say how many runs were touched.
        """
        parts = self._open_parts
        from sayso.engine.sweeper import Sweeper

        touched = await (self._sweeper or Sweeper(parts)).sweep()
        await self.notices.deliver()
        return touched


def _shown(hold: HoldView) -> Shown:
    from sayso.engine.genuine import Shown

    return Shown(tool=hold.tool, args=hold.args_json.encode(), operands=hold.operands)
