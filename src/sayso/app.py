"""`Sayso`: store, agents, policy, worker and sweeper wired together. The one place that chooses
implementations.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from sayso.agents.agent import Agent
from sayso.agents.single import NAME as SINGLE
from sayso.agents.single import REF, SingleCall, describe_call
from sayso.agents.tools import check_tool
from sayso.domain import events as e
from sayso.domain.call import Outcome
from sayso.domain.hold import Verdict, may_decide, named_as
from sayso.domain.message import Message
from sayso.domain.policy import Policy, duration_ms
from sayso.domain.value import Principal
from sayso.engine.decide import Decide
from sayso.engine.desk import Command, Desk, Start
from sayso.engine.dispatch import LocalDispatch
from sayso.engine.feed import Delta, Feed
from sayso.engine.gate import Gate
from sayso.engine.handle import RunHandle
from sayso.engine.hot import HotBodies
from sayso.engine.ledger import Ledger
from sayso.engine.name import read_hold, read_person, read_run, run_of
from sayso.engine.parts import Bounds, Parts
from sayso.engine.ports import Driver, Intervention, Tool
from sayso.engine.sweeper import Sweeper
from sayso.engine.vault import Vault
from sayso.engine.worker import Worker
from sayso.errors import (
    BadPolicy,
    BadSetup,
    BadTool,
    BadValue,
    StoreClosed,
    UnknownTool,
)
from sayso.given import (
    check_sign_in,
    load_keys,
    make_signed_in,
    open_store,
    read_agents,
    read_providers,
    read_tools,
)
from sayso.store.admit import page_size
from sayso.store.base import HoldQuery, Store
from sayso.store.clock import Clock
from sayso.store.views import CommandView, HoldView, Page, RunView, hold_view

if TYPE_CHECKING:
    from sayso.agents.oauth_provider import OAuthProvider
    from sayso.agents.sign_in import SignInDesk

DRAIN_S = 30.0
"""How long leaving waits for calls under way."""


class Sayso:
    """Durable human-in-the-loop for agents, in one process or several on one store.

    Use it as `async with Sayso("pay.db", agents=[...]) as app`. The store is a path, "memory:", or
    a store object. With `work=False` it decides and looks, and leaves the work to other processes.
    """

    ledger_class = Ledger

    def __init__(
        self,
        store: str | Path | Store = "sayso.db",
        *,
        agents: Iterable[Driver] = (),
        tools: Iterable[Tool] = (),
        providers: Iterable[OAuthProvider] = (),
        policy: Policy | None = None,
        check_for_intervention: Intervention | None = None,
        deps: Any = None,
        work: bool = True,
        project: str = "default",
        bounds: Bounds | None = None,
        clock: Clock | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        self._where = store
        self._owns_store = isinstance(store, str | Path)
        """Whoever opened the store closes it."""
        self._clock = clock
        self._project = project
        self._work = work
        self._drain_s = drain_s
        self._deps = deps
        self._bounds = bounds or Bounds()
        if policy is not None and not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadPolicy(f"{policy!r} is not a policy: make one with Policy(Rule(...), ...)")
        if check_for_intervention is not None and not callable(check_for_intervention):
            raise BadSetup(f"check_for_intervention cannot be called: {check_for_intervention!r}")
        self._gate = Gate(policy, check_for_intervention)
        self._drivers = read_agents(agents)
        self._single = SingleCall(read_tools(self._drivers, tools))
        self._drivers[SINGLE] = self._single
        self._providers = read_providers(providers, self._drivers)
        self._parts: Parts | None = None
        self._desk: Desk | None = None
        self._sign_ins: SignInDesk | None = None
        self._worker: Worker | None = None
        self._sweeper: Sweeper | None = None
        self._dispatch: LocalDispatch | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store; start a worker and a sweeper, unless `work=False`."""
        if self._parts is not None:
            raise BadSetup("this Sayso is open already")
        for driver in self._drivers.values():
            if self._work and isinstance(driver, Agent):
                driver.check_model()
        store = await open_store(self._where, self._clock)
        try:
            await self._wire(store)
        except BaseException:
            if self._owns_store:
                await store.close()
            raise

    async def close(self) -> None:
        """Wait for calls under way (`drain_s` at most), then let go of everything, the models'
        connections included.
        """
        parts = self._parts
        if parts is None:
            return
        self._parts = None
        # Last in, first out; whatever fails, the store is closed.
        async with AsyncExitStack() as stack:
            if self._owns_store:
                stack.push_async_callback(parts.store.close)
            for driver in self._drivers.values():
                if isinstance(driver, Agent):
                    stack.push_async_callback(driver.aclose)
            if self._dispatch is not None:
                stack.callback(self._dispatch.close)
            if self._worker is not None:
                stack.push_async_callback(self._worker.drain, self._drain_s)
            if self._sweeper is not None:
                stack.push_async_callback(self._sweeper.stop)

    async def serve(self) -> None:
        """Work until SIGTERM or SIGINT, then drain. For processes that only work."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            for name in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(name, stop.set)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise BadSetup(f"serve() is for a program's main thread: {error}") from error
        try:
            async with self:
                await stop.wait()
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(name)

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
    ) -> HoldView:
        """Decide a hold: `approve()`, `approve(args={...})`, `reject("why")`, `answer(value)`,
        `fail("why")`. Durable when this returns.

        The first decision stands: `AlreadyDecided` carries it. A hold view brings the digest of
        what was shown; an id alone decides only what was never edited. With `key` a retry gets the
        same answer. With `undo` the decision can be taken back for that long, and counts after.
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
        )
        decision = await self._open_desk.decide(name, request)
        if decision is None or not isinstance(hold, HoldView) or request.edits:
            return await self.hold(name)
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
    ) -> list[HoldView]:
        """Decide everything that a suspension still asks, all or nothing, with one verdict."""
        request = Decide(verdict=verdict, by=read_person(by), digest=digest, key=key)
        return [hold_view(found) for found in await self._open_desk.resume(request_id, request)]

    async def undo(self, hold: str | HoldView, *, by: str | Principal) -> HoldView:
        """Take back one's own decision before it is effective."""
        name = read_hold(hold)
        return hold_view(await self._open_desk.undo(name, by=read_person(by)))

    async def hold(self, hold: str | HoldView) -> HoldView:
        """Look at one hold, open or settled."""
        name = read_hold(hold)
        return await self.run(run_of(name)).hold(name)

    async def holds(
        self,
        *,
        by: str | Principal | None = None,
        status: Literal["open", "settled", "any"] = "open",
        limit: int = 50,
        after: str | None = None,
        project: str | None = None,
    ) -> Page:
        """List holds, oldest first; with `by`, those that this person may decide."""
        who = None if by is None else read_person(by)
        query = HoldQuery(
            project=project or self._project,
            status=status,
            who=None if who is None else named_as(who),
            limit=limit,
            after=after,
        )
        found = await self._open_parts.store.holds(query)
        more = found and len(found) == page_size(limit)
        # A service that owns a run is not asked for the approvals in it.
        mine = [one for one in found if who is None or may_decide(one.row.who, who, one.row.kind)]
        return Page(
            items=tuple(hold_view(one) for one in mine), next=found[-1].key if more else None
        )

    async def say(
        self,
        run: str | RunHandle | RunView,
        text: str,
        *,
        by: str | Principal,
        supersede: bool = False,
    ) -> RunHandle:
        """Say something to a run. One that waits for a person refuses, unless `supersede=True`
        withdraws what it asks; to a finished run, this starts the next run of its thread.
        """
        run_id = read_run(run)
        return self.run(
            await self._open_desk.say(run_id, text, by=read_person(by), supersede=supersede)
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
        run = await self.start(SINGLE, describe_call(name, dict(args)), by=by, key=key)
        return await run.outcome(REF, timeout=timeout)

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
    ) -> AsyncIterator[e.Recorded | Delta]:
        """Follow a run: its entries after one, then live, until it is finished. With `deltas`, the
        text of turns under way comes in between.
        """
        feed, run_id = self._open_parts.feed, read_run(run)
        if type(after) is not int:
            raise BadValue(f"entries are followed after a number, not {after!r}")
        return feed.follow_all(run_id, after=after) if deltas else feed.follow(run_id, after=after)

    async def sweep(self) -> int:
        """Do what is due right now rather than at the sweeper's next look; for tests and cron."""
        parts = self._open_parts
        return await (self._sweeper or Sweeper(parts)).sweep()

    async def _wire(self, store: Store) -> None:
        self._dispatch = LocalDispatch(store)
        ledger = self.ledger_class(store, self._dispatch)
        parts = Parts(
            store=store,
            ledger=ledger,
            gate=self._gate,
            drivers=self._drivers,
            feed=Feed(store),
            bounds=self._bounds,
            deps=self._deps,
            hot=HotBodies(self._bounds.stay_hot_s, self._bounds.bodies_max),
            vault=Vault(partial(load_keys, store)),
        )
        signed_in = make_signed_in(store, self._providers, parts.vault)
        self._gate.sign_ins = signed_in
        if self._work:
            self._worker = Worker(parts, self._dispatch)
            await self._worker.start()
            self._sweeper = Sweeper(parts, self._worker)
            self._sweeper.start()
        self._desk = Desk(parts, self._worker)
        if signed_in is not None:
            from sayso.agents.sign_in import SignInDesk

            self._sign_ins = SignInDesk(store, self._desk, signed_in)
        self._parts = parts

    @property
    def store(self) -> Store:
        """The open store."""
        return self._open_parts.store

    @property
    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise StoreClosed("this Sayso is not open: use it as `async with Sayso(...) as app`")
        return self._parts

    @property
    def _open_sign_ins(self) -> SignInDesk:
        assert self._open_parts
        if self._sign_ins is None:
            raise BadSetup("nobody can sign in here: give Sayso(providers=[OAuthProvider(...)])")
        return self._sign_ins

    @property
    def _open_desk(self) -> Desk:
        assert self._open_parts
        assert self._desk is not None
        return self._desk
