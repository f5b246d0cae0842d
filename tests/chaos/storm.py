"""The storm: one fault after another against everybody who takes part, by a schedule from a seed.

The schedule is the same for the same seed; what the processes are at meanwhile is not, and what
they come to must not depend on it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from sayso.store.postgres import PostgresStore
from tests.chaos.bank import Bank
from tests.chaos.cast import LEASE_S, play
from tests.chaos.proxy import Line, Proxy
from tests.postgres import Cluster

LINES: tuple[Line, ...] = (
    "cut",
    "rst",
    "blackhole",
    "half there",
    "half back",
    "delay",
    "trickle",
    "lose answer",
)
SERVER = ("restart fast", "restart at once", "kill -9", "terminate all", "terminate some")
DECK = (
    *SERVER,
    *LINES,
    *["lose answer"] * 2,
    *["kill worker"] * 4,
    *["kill anybody"] * 2,
    *["stop worker"] * 2,
    "stop anybody",
)
"""What happens, as often as it is named, before it is shuffled again."""
WORKERS, CLIENTS = 4, 8
START_S = 60.0
"""How long it may take to start what is left, once the storm is over."""
_OPEN = "where status in ('running', 'suspended')"
_FINAL = "where status not in ('running', 'suspended')"


class Fault(NamedTuple):
    """One thing that goes wrong."""

    kind: str
    who: int
    """Which of those whom it can happen to."""
    for_s: float


def schedule(seed: int, count: int) -> list[Fault]:
    """Say what goes wrong, one thing after another."""
    chance = random.Random(seed)
    kinds: list[str] = []
    while len(kinds) < count:
        kinds += chance.sample(DECK, len(DECK))
    return [
        Fault(kind, chance.randrange(1000), 0.5 + 3 * chance.random()) for kind in kinds[:count]
    ]


class Actor:
    """A process with a part, and its line to the server."""

    def __init__(self, spec: dict[str, Any], proxy: Proxy | None) -> None:
        self.spec = spec
        self.proxy = proxy
        self.lives = 0
        self.stopped = False
        self.process: BaseProcess | None = None

    def begin(self) -> None:
        """Begin, or begin again."""
        spec = {**self.spec, "life": self.lives}
        self.process = _CONTEXT.Process(target=play, args=(spec,), daemon=True)
        self.process.start()
        self.lives += 1
        self.stopped = False

    def signal(self, number: signal.Signals) -> None:
        process = self.process
        assert process is not None
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)

    def end(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.join(10)


class Storm:
    """Everybody who takes part, and what happens to them."""

    def __init__(self, cluster: Cluster, root: Path, *, runs: int, seed: int, **how: Any) -> None:
        self.cluster = cluster
        self.bank = Bank(root)
        self.runs = runs
        self.seed = seed
        self.how = how
        """More for every part, `pace_s` for clients, and `database`."""
        self.actors: list[Actor] = []
        self.faults: Counter[str] = Counter()
        self.began_to_wait = 0.0
        self._under_way: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    @property
    def workers(self) -> list[Actor]:
        return [one for one in self.actors if one.spec["do"] == "work"]

    async def __aenter__(self) -> Storm:
        _CONTEXT.set_forkserver_preload(["tests.chaos.cast"])
        async with self.store():  # The schema is there before everybody comes at once.
            pass
        for n in range(WORKERS):
            await self._add(f"worker{n}", "work", machine=n % 2, proxied=True)
        for n in range(CLIENTS):
            mine = list(range(n, self.runs, CLIENTS))
            await self._add(f"client{n}", "decide", machine=2, proxied=n % 2 == 0, runs=mine)
        await self._add("resolver", "resolve", machine=3, proxied=False)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.end()
        await self._stack.aclose()

    def end(self) -> None:
        """Let nobody go on."""
        for actor in self.actors:
            actor.end()

    async def _add(self, name: str, do: str, *, proxied: bool, **more: Any) -> None:
        proxy = await self._stack.enter_async_context(Proxy(self.cluster.data)) if proxied else None
        database = self.how.get("database", "postgres")
        url = proxy.url(database, connect_timeout="2") if proxy else self.cluster.url(database)
        spec = {"name": name, "do": do, "url": url, "world": str(self.bank.root), **more}
        self.actors.append(Actor({"seed": self.seed, **self.how, **spec}, proxy))

    def begin(self) -> None:
        """Let everybody begin."""
        for actor in self.actors:
            actor.begin()

    @asynccontextmanager
    async def store(self) -> AsyncIterator[PostgresStore]:
        """Open the store beside all the others."""
        url = self.cluster.url(self.how.get("database", "postgres"))
        store = await PostgresStore.open(url, listen=False)
        try:
            yield store
        finally:
            await store.close()

    async def blow(self, faults: list[Fault], every_s: float) -> None:
        """Let one thing after another go wrong, until all is over; then mend everything."""
        for fault in faults:
            began = time.monotonic()
            await self._happen(fault)
            while time.monotonic() < began + every_s:
                await asyncio.sleep(0.05)
            self._replace_the_dead()
            if await self.is_over():
                break
        while self._under_way:
            await asyncio.wait(self._under_way)
        self._replace_the_dead()

    async def is_over(self) -> bool:
        """Tell whether all runs were started, and are final."""
        try:
            ((final,),) = await self.execute(f"select count(*) from sayso.runs {_FINAL}")
        except psycopg.Error:
            return False  # The server is away.
        return final == self.runs

    async def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(
            self.cluster.execute, statement, self.how.get("database", "postgres")
        )

    async def settle(self, patience_s: float) -> bool:
        """Wait until all runs are final, and tell whether they are. The time counts from when all
        of them were started.
        """
        end = time.monotonic() + START_S
        while len(self.bank.started()) < self.runs:
            self._replace_the_dead()
            assert time.monotonic() < end, "not everything is started"
            await asyncio.sleep(0.1)
        self.began_to_wait = time.monotonic()
        end = self.began_to_wait + patience_s
        while not await self.is_over():
            self._replace_the_dead()
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.1)
        return True

    async def finish(self, patience_s: float, *, lost: Iterable[Actor] = ()) -> float:
        """Wait until all runs are final, and let everybody go home; give how long it took once all
        were started.
        """
        if not await self.settle(patience_s):
            rows = await self.execute(f"select id, status, owner, seq from sayso.runs {_OPEN}")
            raise AssertionError(f"{len(rows)} runs are not final: {rows[:20]}")
        took = time.monotonic() - self.began_to_wait
        (self.bank.root / "over").touch()
        for actor in self.workers:
            actor.signal(signal.SIGTERM)
        for actor in lost:
            actor.end()
        for actor in self.actors:
            if actor in lost:
                continue
            assert actor.process is not None
            await asyncio.to_thread(actor.process.join, patience_s)
            assert actor.process.exitcode == 0, f"{actor.spec['name']}: {actor.process.exitcode}"
        await self._check_retired()
        return took

    async def _check_retired(self) -> None:
        """See that whoever has left in good order has left nothing behind."""
        pids = {
            str(one.process.pid) for one in self.workers if one.process and not one.process.exitcode
        }
        left = {name for name, pid in map(str.split, self.bank.read("workers")) if pid in pids}
        known = {name for (name,) in await self.execute("select id from sayso.workers")}
        assert left, "nobody has left"
        assert not known & left, f"workers that have left are still known: {known & left}"

    def _replace_the_dead(self) -> None:
        for actor in self.actors:
            if actor.process is not None and not actor.process.is_alive():
                # Nobody ends by themselves.
                assert actor.process.exitcode == -signal.SIGKILL, actor.spec["name"]
                actor.begin()

    async def _happen(self, fault: Fault) -> None:
        self.faults[fault.kind] += 1
        if fault.kind in SERVER:
            await self._to_the_server(fault)
        elif fault.kind in LINES:
            lines = [one.proxy for one in self.actors if one.proxy is not None]
            self._meanwhile(self._break_line(lines[fault.who % len(lines)], fault))
        else:
            among = self.workers if fault.kind.endswith("worker") else self.actors
            able = [one for one in among if not one.stopped]
            actor = able[fault.who % len(able)]
            if fault.kind.startswith("kill"):
                actor.end()
                actor.begin()
            else:
                self._meanwhile(self._stop(actor, fault))

    def _meanwhile(self, doing: Any) -> None:
        task = asyncio.create_task(doing)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _break_line(self, proxy: Proxy, fault: Fault) -> None:
        proxy.line = fault.kind  # type: ignore[assignment]
        await asyncio.sleep(fault.for_s)
        proxy.line = "whole"

    async def _stop(self, actor: Actor, fault: Fault) -> None:
        """Stop a process for longer than its lease."""
        process, actor.stopped = actor.process, True
        actor.signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S + fault.for_s)
        if actor.process is process:
            actor.signal(signal.SIGCONT)
            actor.stopped = False

    async def _to_the_server(self, fault: Fault) -> None:
        match fault.kind:
            case "terminate all" | "terminate some":
                some = " and random() < 0.3" if fault.kind == "terminate some" else ""
                await self.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    f"where pid <> pg_backend_pid() and application_name <> ''{some}"
                )
            case "kill -9":
                await asyncio.to_thread(self.cluster.crash)
                await asyncio.to_thread(self.cluster.start)
            case _:
                fast = fault.kind == "restart fast"
                how = signal.SIGINT if fast else signal.SIGQUIT
                await asyncio.to_thread(self.cluster.stop, how)
                await asyncio.to_thread(self.cluster.start)


_CONTEXT = multiprocessing.get_context("forkserver")
