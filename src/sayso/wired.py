"""The parts of a `Sayso`, put together: store, agents, policy, worker and sweeper. The one place
that chooses implementations.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from sayso.agents.agent import Agent
from sayso.agents.single import NAME as SINGLE
from sayso.agents.single import SingleCall
from sayso.domain.policy import Policy
from sayso.engine.desk import Desk
from sayso.engine.dispatch import Dispatch, dispatch_of
from sayso.engine.door import DoorKeeper
from sayso.engine.feed import Feed
from sayso.engine.gate import Gate
from sayso.engine.grants import Grants
from sayso.engine.hot import HotBodies
from sayso.engine.ledger import Ledger
from sayso.engine.parts import Bounds, Parts
from sayso.engine.people import People
from sayso.engine.ports import Driver, Intervention, Tool
from sayso.engine.vault import Vault
from sayso.engine.wanted import kinds_of, read_word
from sayso.errors import (
    BadPolicy,
    BadSetup,
    StoreClosed,
)
from sayso.given import (
    load_keys,
    make_signed_in,
    open_store,
    read_agents,
    read_desk_key,
    read_providers,
    read_telemetry,
    read_tools,
    read_trust,
)
from sayso.store.base import Store
from sayso.store.clock import Clock
from sayso.store.transfer import check_work

if TYPE_CHECKING:
    from pathlib import Path

    from sayso.agents.oauth_provider import OAuthProvider
    from sayso.agents.sign_in import SignInDesk
    from sayso.engine.courier import Courier, Notices, Notify
    from sayso.engine.signing import DeskKey
    from sayso.engine.sweeper import Sweeper
    from sayso.engine.telemetry import Telemetry
    from sayso.engine.worker import Worker

DRAIN_S = 30.0
"""How long leaving waits for calls under way."""


class Wired:
    """Opens a store, and starts what works on it."""

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
        notify: Notify | None = None,
        deps: Any = None,
        work: bool = True,
        project: str = "default",
        bounds: Bounds | None = None,
        clock: Clock | None = None,
        drain_s: float = DRAIN_S,
        sign_with: DeskKey | None = None,
        trust: Iterable[str] | None = None,
        telemetry: Telemetry | bool = False,
    ) -> None:
        self._where = store
        self._owns_store = isinstance(store, str | os.PathLike)
        """Whoever opened the store closes it."""
        self._make = True
        """Whether the store is made if there is none."""
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
        if notify is not None and not callable(notify):
            raise BadSetup(f"notify cannot be called: {notify!r}")
        self._notify = notify
        self._desk_key = read_desk_key(sign_with)
        self._telemetry = read_telemetry(telemetry)
        self._gate = Gate(policy, check_for_intervention, trust=read_trust(trust))
        self._drivers = read_agents(agents)
        self._single = SingleCall(read_tools(self._drivers, tools))
        self._drivers[SINGLE] = self._single
        self._providers = read_providers(providers, self._drivers)
        self._parts: Parts | None = None
        self._desk: Desk | None = None
        self._sign_ins: SignInDesk | None = None
        self._worker: Worker | None = None
        self._sweeper: Sweeper | None = None
        self._courier: Courier | None = None
        self._drained = True
        """Whether, when it was closed, nothing under way had to be cut off."""
        self._dispatch: Dispatch | None = None

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
        store = await open_store(self._where, self._clock, make=self._make)
        try:
            if self._work:
                check_work(store.name, store.moved_to)
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
            stack.push_async_callback(parts.door.close)
            for driver in self._drivers.values():
                if isinstance(driver, Agent):
                    stack.push_async_callback(driver.aclose)
            if self._dispatch is not None:
                stack.push_async_callback(self._dispatch.close)
            if self._worker is not None:
                stack.push_async_callback(self._drain, self._worker)
            if self._courier is not None:
                stack.push_async_callback(self._courier.stop, self._drain_s)
            if self._sweeper is not None:
                stack.push_async_callback(self._sweeper.stop)

    async def _drain(self, worker: Worker) -> None:
        self._drained = await worker.drain(self._drain_s)

    async def serve(self, ready: Callable[[str], None] | None = None) -> bool:
        """Work until SIGTERM or SIGINT, then drain; tell whether nothing had to be cut off. For
        processes that only work. `ready` is told the worker's id when it is at work. A second
        SIGINT waits for nothing. `StoreNewer` if a newer Sayso has brought the store up meanwhile.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            stop.set()
            loop.remove_signal_handler(signal.SIGINT)

        try:
            loop.add_signal_handler(signal.SIGTERM, stop.set)
            loop.add_signal_handler(signal.SIGINT, interrupt)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise BadSetup(f"serve() is for a program's main thread: {error}") from error
        try:
            async with self:
                if ready is not None:
                    ready("" if self._worker is None else self._worker.id)
                await self._until(stop)
        finally:
            for name in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(name)
        return self._drained

    async def _until(self, stop: asyncio.Event) -> None:
        """Wait until this is to stop, or could not do anything any more."""
        told = asyncio.ensure_future(stop.wait())
        ends: list[asyncio.Future[Any]] = [told]
        if self._worker is not None:
            ends.append(self._worker.outdated)
        try:
            ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        for end in ended:
            end.result()

    async def _wire(self, store: Store) -> None:
        self._dispatch = dispatch_of(store)
        kinds = _kinds(self.ledger_class, self._telemetry)
        ledger = kinds.ledger(store, self._dispatch)
        ledger.notices = kinds_of(self._notify) | await read_word(store)
        people = People(store, self._project)
        parts = Parts(
            store=store,
            ledger=ledger,
            gate=self._gate,
            drivers=self._drivers,
            feed=Feed(store),
            bounds=self._bounds,
            deps=self._deps,
            records=people,
            grants=Grants(store, people, self._project),
            hot=HotBodies(self._bounds.stay_hot_s, self._bounds.bodies_max),
            door=DoorKeeper(store),
            vault=Vault(partial(load_keys, store), partial(load_keys, store, make=False)),
            desk_key=self._desk_key,
            telemetry=self._telemetry,
        )
        signed_in = make_signed_in(store, self._providers, parts.vault)
        self._gate.sign_ins = signed_in
        self._gate.records = parts.records
        self._gate.grants = parts.grants
        self._gate.vault = parts.vault
        self._single.vault = parts.vault
        if self._notify is not None:
            from sayso.engine.courier import Keeping

            self._courier = kinds.courier()(parts, self._notify)
            if isinstance(self._notify, Keeping):
                self._notify.attach(store, people, self._project)
        if self._work:
            worker, sweeper = kinds.workers()
            self._worker = worker(parts, self._dispatch)
            await self._worker.start()
            self._sweeper = sweeper(parts, self._worker)
            self._sweeper.start()
            if self._courier is not None:
                self._courier.start()
        self._desk = kinds.desk(parts, self._worker)
        if signed_in is not None:
            from sayso.agents.sign_in import SignInDesk

            self._sign_ins = SignInDesk(store, self._desk, signed_in, parts.records)
        self._parts = parts

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that runs can be started of."""
        return tuple(sorted(name for name in self._drivers if "." not in name))

    @property
    def telemetry(self) -> Telemetry | None:
        """Who is told what goes on; None if nobody is."""
        return self._telemetry

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._parts is not None

    @property
    def store(self) -> Store:
        """The open store."""
        return self._open_parts.store

    @property
    def people(self) -> People:
        """Who is who: people with their roles, identities and stand-ins."""
        return self._open_parts.records

    @property
    def grants(self) -> Grants:
        """Standing permissions: what is always allowed, until when, and by whom."""
        return self._open_parts.grants

    @property
    def notify(self) -> Notify | None:
        """What tells people, as it was given."""
        return self._notify

    @property
    def notices(self) -> Notices:
        """What people are told of holds by `notify`, and what nobody could be told."""
        from sayso.engine.courier import Notices

        return Notices(self._open_parts, self._project, self._courier)

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


class _Kinds(msgspec.Struct, frozen=True):
    """The classes of the parts that may be watched."""

    ledger: Callable[[Store, Dispatch], Ledger]
    desk: type[Desk]
    workers: Callable[[], tuple[type[Worker], type[Sweeper]]]
    """Imported by those who work only; the command line, for one, only looks and decides."""
    courier: Callable[[], type[Courier]]


def _kinds(ledger: type[Ledger], telemetry: Telemetry | None) -> _Kinds:
    def plain_courier() -> type[Courier]:
        from sayso.engine.courier import Courier

        return Courier

    def plain_workers() -> tuple[type[Worker], type[Sweeper]]:
        from sayso.engine.sweeper import Sweeper
        from sayso.engine.worker import Worker

        return Worker, Sweeper

    if telemetry is None:
        return _Kinds(ledger, Desk, plain_workers, plain_courier)
    from sayso.engine import watched as w

    watched = partial(w.WatchedLedger, telemetry=telemetry)
    return _Kinds(
        watched,
        w.WatchedDesk,
        lambda: (w.WatchedWorker, w.WatchedSweeper),
        lambda: w.WatchedCourier,
    )


W = TypeVar("W", bound=Wired)


def only_looking(app: W, store: str | Path | Store | None = None, *, make: bool = False) -> W:
    """Give an app as one that only looks: it has no worker, and is over another store if one is
    named. That is made or brought up only if `make` says so.
    """
    other = _over(app, store)
    other._work = False  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    other._make = make  # pyright: ignore[reportPrivateUsage]
    return other


def only_working(
    app: W, store: str | Path | None = None, *, runs: int | None, drain_s: float | None
) -> W:
    """Give an app as one that only works, over another store, on so many runs at a time and
    draining for so long if that is given. `BadSetup` if it could work on nothing.
    """
    other = _over(app, store)
    if not other._work:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        raise BadSetup(
            "this Sayso has work=False, and leaves the work to others: give it work=True"
        )
    if not works_for(other):
        raise BadSetup("this Sayso has no agents and no tools, and so nothing to work on")
    if runs is not None:
        other._bounds = replace(other._bounds, runs_max=runs)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if drain_s is not None:
        other._drain_s = drain_s  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return other


def _over(app: W, store: str | Path | Store | None) -> W:
    if app._parts is not None:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        raise BadSetup("this Sayso is open already")
    from copy import copy

    other = copy(app)
    if store is not None:
        other._where = store  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        other._owns_store = isinstance(store, str | os.PathLike)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return other


def works_for(app: Wired) -> list[str]:
    """Give the names of an app's agents, and of the tools for agents of others; it may be empty."""
    agents = [name for name in app._drivers if name != SINGLE]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return agents or list(app._single.tools)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def where_is(app: Wired) -> str | Path | Store:
    """Give the store of an app as it was named, open or not."""
    return app._where  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
