"""The real engine in virtual time: deterministic, and a day takes a moment.

`run_virtual` runs a coroutine in an event loop whose clock jumps to the next timer whenever
nothing is ready. `VirtualClock` gives a store that same time. `Delayed` wraps a store so that
chosen operations are held up: everybody else goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from sayso.domain.lifecycle import FINAL
from sayso.store.base import Appended, Lost, RunRow, Store, Write
from sayso.store.memory import MemoryStore
from sayso.store.query import RunQuery

T = TypeVar("T")
EPOCH_MS = 1_767_225_600_000
END_S, CALM_S, LOOK_S = 400, 80, 10


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: time jumps instead."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for everybody: nothing is scheduled any more")
        if not ready and timeout and timeout > 0:
            self.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        selector = _JumpingSelector()
        selector.jump = self._jump
        super().__init__(selector)

    def _jump(self, seconds: float) -> None:
        self.now_s += seconds

    def time(self) -> float:
        return self.now_s


class VirtualClock:
    """A store's clock that follows the virtual loop."""

    def now(self) -> int:
        return EPOCH_MS + self.tick()

    def tick(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def boot_id(self) -> str:
        return "virtual"


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        # What is cancelled may leave others behind.
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


class Plan:
    """Which operations are held up, and for how long."""

    def __init__(self, delays: dict[int, tuple[float, bool]]) -> None:
        self._delays = delays
        """Operation number -> seconds, and whether the whole process stands still meanwhile."""
        self.operations: list[str] = []
        self.held_up = 0
        """How many operations are being held up."""
        self._stopped: dict[str, asyncio.Event] = {}

    async def operation(self, process: str, name: str) -> None:
        """Pass an operation of a process, when the plan lets it."""
        going = self.going(process)
        await going.wait()
        self.operations.append(f"{process}: {name}")
        found = self._delays.get(len(self.operations))
        if found is None:
            return
        seconds, stops = found
        if stops:
            going.clear()
        self.held_up += 1
        await asyncio.sleep(seconds)
        self.held_up -= 1
        going.set()

    def going(self, process: str) -> asyncio.Event:
        """Set while a process is not standing still."""
        if process not in self._stopped:
            self._stopped[process] = asyncio.Event()
            self._stopped[process].set()
        return self._stopped[process]


async def end_of_day(store: MemoryStore, plan: Plan) -> None:
    """Wait until all runs are over, and nobody is held up who could still come back to them, for
    longer than a lease, a call and a look take; or else for minutes, in which any fault shows.
    """
    calm_s = 0
    for _ in range(0, END_S, LOOK_S):
        rows = await store.runs(RunQuery())
        over = rows and not plan.held_up and all(row.status in FINAL for row in rows)
        calm_s = calm_s + LOOK_S if over else 0
        if calm_s > CALM_S:
            return
        await asyncio.sleep(LOOK_S)


def delayed(store: Store, plan: Plan, process: str) -> Store:
    """Wrap a store for one process, so that the plan can hold its operations up."""
    return cast("Store", _Delayed(store, plan, process))


class _Delayed:
    def __init__(self, store: Store, plan: Plan, process: str) -> None:
        self._store = store
        self._plan = plan
        self._process = process
        self._last: asyncio.Future[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, *writes: Write) -> Awaitable[Appended]:
        # What one process hands over first is committed first, however long it is held up.
        self._last = asyncio.ensure_future(self._append(self._last, writes))
        return self._last

    async def _append(
        self, before: asyncio.Future[Any] | None, writes: Sequence[Write]
    ) -> Appended:
        name = f"append {len(writes[0].entries)} to {writes[0].after}"
        if before is not None:
            await asyncio.wait({before})
        await self._plan.operation(self._process, f"before {name}")
        answer = asyncio.ensure_future(self._store.append(*writes))
        await asyncio.wait({answer})
        await self._plan.operation(self._process, f"after {name}")
        return answer.result()

    async def load(self, run_id: str) -> RunRow | None:
        found = await self._store.load(run_id)
        await self._plan.operation(self._process, "after load")
        return found

    async def claim(self, worker: str, **how: Any) -> list[str]:
        found = await self._store.claim(worker, **how)
        if found:
            await self._plan.operation(self._process, "after claim")
        return found

    async def lost(self, **how: Any) -> list[Lost]:
        found = await self._store.lost(**how)
        if found:
            await self._plan.operation(self._process, "after lost")
        return found

    async def due(self, **how: Any) -> list[str]:
        found = await self._store.due(**how)
        if found:
            await self._plan.operation(self._process, "after due")
        return found

    async def beat(self, worker: str) -> None:
        going = self._plan.going(self._process)
        await going.wait()
        await self._store.beat(worker)
