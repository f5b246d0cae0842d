"""What the engine's tests share: places to open apps on, a ledger outside, misbehaving stores."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sayso import Agent, Bounds, Context, HoldView, RunHandle, RunView, Sayso
from sayso.store.base import Appended, Entry, Store, Write
from sayso.store.memory import MemoryStore
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock, ScriptedModel

if TYPE_CHECKING:  # The processes of `child.py` have no way to it.
    from tests.postgres import Cluster

PATIENCE_S = 20.0
"""No wait in a test is longer; a run that needs it is stuck."""
APP, KEEPER = "sayso_app", "sayso_keeper"
_ROLES = f"""
do $$ begin
    create role {APP} login;
    create role {KEEPER} login;
exception when duplicate_object then null;
end $$
"""
QUICK = Bounds(look_s=0.02, backoff_s=0.01, backoff_max_s=0.05)


class World:
    """What happens outside: lines in files, each written by one system call, never taken back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, line: str) -> None:
        handle = os.open(self.root / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)

    def read(self, name: str) -> list[str]:
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def act(self, ctx: Context, args: Any) -> None:
        """Have the effect that a payment would have."""
        text = json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.write("effects", f"{ctx.key} {ctx.attempt} {digest}")

    def effects(self, call_id: str | None = None) -> list[str]:
        """List the keys of all effects, or of one call."""
        keys = [line.split(" ", 1)[0] for line in self.read("effects")]
        return keys if call_id is None else [key for key in keys if key == call_id]


class Delegate:
    """A store that passes everything on; what a test needs to go wrong is overridden."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, *writes: Write) -> Awaitable[Appended]:
        return self.inner.append(*writes)


class Place:
    """Where runs are kept: in memory, in a file or in a database. Any number of apps can be opened
    on it.
    """

    def __init__(self, kind: str, root: Path, cluster: Cluster | None = None) -> None:
        self.kind = kind
        self.clock = FakeClock()
        self.world = World(root / "world")
        self.path = root / "sayso.db"
        self._memory: MemoryStore | None = None
        self.cluster = cluster
        self._schema = ""
        self.role = APP
        """As whom PostgreSQL is used: everything but erasing has to work as the app's role."""

    def another(self, root: Path) -> Place:
        """Make another place of the same kind."""
        return Place(self.kind, root, self.cluster)

    async def store(self) -> Store:
        """Open the place once more."""
        if self.kind == "sqlite":
            return await SqliteStore.open(self.path, clock=self.clock)
        if self.kind == "postgres":
            return await self._postgres()
        if self._memory is None:
            self._memory = MemoryStore(clock=self.clock)
        return self._memory

    async def _postgres(self) -> Store:
        from sayso.store.postgres import PostgresStore

        assert self.cluster is not None
        if not self._schema:
            roles = ((APP, "app"), (KEEPER, "keeper"))
            self._schema = await self.cluster.lender.lend(roles, prepare=_ROLES)
        return await PostgresStore.open(
            self.cluster.url("postgres", user=self.role),
            schema=self._schema,
            clock=self.clock,
            proof_dir=str(self.path.with_suffix(".workers")),
        )

    def kill(self, worker: str) -> None:
        """Play the death of a worker's process; a file knows by itself."""
        if self._memory is not None:
            self._memory.kill(worker)

    @asynccontextmanager
    async def app(
        self, *agents: Agent, wrap: Callable[[Store], Any] | None = None, **options: Any
    ) -> AsyncIterator[Sayso]:
        """Open an app on it; `wrap` puts something between the app and the store."""
        store = await self.store()
        options.setdefault("bounds", QUICK)
        options.setdefault("drain_s", 5.0)
        try:
            async with Sayso(wrap(store) if wrap else store, agents=agents, **options) as app:
                yield app
        finally:
            if self.kind != "memory":
                await store.close()


def agent(script: Any, *tools: Any, name: str = "teller", **options: Any) -> Agent:
    """Make an agent of a script and tools."""
    return Agent(name, model=ScriptedModel(script), tools=tools, **options)


async def suspended(run: RunHandle) -> RunView:
    """Wait until a run is suspended, and look at it."""
    view = await run.wait(timeout=PATIENCE_S)
    assert view.status == "suspended", f"{view.status}: {view.error}"
    return view


async def held(run: RunHandle) -> HoldView:
    """Wait for a run to be suspended by exactly one hold, and give it."""
    (hold,) = (await suspended(run)).holds
    return hold


async def finished(run: RunHandle) -> RunView:
    """Wait until a run is finished, and look at it."""
    return await run.wait(final=True, timeout=PATIENCE_S)


async def completed(run: RunHandle) -> RunView:
    """Wait until a run is finished, and well."""
    view = await finished(run)
    assert view.status == "completed", f"{view.status}: {view.error}"
    return view


async def until(there: Callable[[], Any], what: str = "it") -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = there()
        if (await found) if asyncio.iscoroutine(found) else found:
            return
        assert time.monotonic() < end, f"{what} did not come about"
        await asyncio.sleep(0.002)


async def entries(store: Store) -> list[Entry]:
    """Read everything that is kept, in the order in which it was committed."""
    found: list[Entry] = []
    while page := await store.tail(after=found[-1].position if found else 0):
        found += page
    return found


async def types(app: Sayso, run: RunHandle | str) -> list[str]:
    """List what happened to a run so far, by name."""
    run_id = run if isinstance(run, str) else run.id
    return [one.type for one in await journal(app.store, run_id)]


async def journal(store: Store, run_id: str) -> list[Any]:
    """Read a run's entries with their places and times."""
    from sayso.store.journal import read_journal, recorded

    return [recorded(entry) for entry in await read_journal(store, run_id)]


def outcomes(view: RunView) -> list[str]:
    """Name the outcomes that the model is shown, in order."""
    return [type(m.outcome).__name__ for m in view.messages if hasattr(m, "outcome")]


def tags(writes: Sequence[Write]) -> list[str]:
    """Name the events in an append."""
    from sayso.domain import codec

    return [
        codec.event_tag(codec.decode_event(entry.payload)).rpartition(".")[0]
        for write in writes
        for entry in write.entries
    ]


class Child:
    """A process of its own, as `child.py` describes it."""

    def __init__(self, place: Place, **spec: Any) -> None:
        spec = {"db": str(place.path), "world": str(place.world.root), **spec}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child.py")), json.dumps(spec)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._heard = b""

    @property
    def words(self) -> list[str]:
        """What it has said so far."""
        assert self.process.stdout is not None
        self._heard += self.process.stdout.read() or b""
        return self._heard.decode().split("\n")[:-1]

    async def said(self, word: str) -> None:
        """Wait until it has said something."""
        await until(lambda: word in self.words or self._died(word), word)

    def _died(self, word: str) -> bool:
        if self.process.poll() is None or word in self.words:
            return False
        assert self.process.stderr is not None
        raise AssertionError(f"no {word!r}, but {self.process.stderr.read().decode()}")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def gone(self) -> int:
        """Wait until it has ended; give its exit code."""
        await until(lambda: self.process.poll() is not None, "the end of the process")
        assert self.process.returncode is not None
        return self.process.returncode

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
