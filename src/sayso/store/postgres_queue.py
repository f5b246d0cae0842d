"""The queue of a PostgreSQL store: listening for work, and pgqueuer under supervision.

pgqueuer ends when a statement of its fails, and does not notice when it hears nothing any more. So
it is begun again, its statements go over the pool, and what is called out is heard here, on a
connection that is made anew when it is cut.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Literal

import msgspec

from sayso.errors import SaysoError, StoreClosed
from sayso.store.checkup import Finding
from sayso.store.postgres_address import work_channel
from sayso.store.postgres_ear import RETRY_MAX_S, RETRY_S, end, listen
from sayso.store.queue import HELD_MAX, HeldJob, Taker

if TYPE_CHECKING:
    from sayso.store.postgres_jobs import Picker
    from sayso.store.postgres_link import Link

LATER_S = 0.05
"""How long after a hint jobs are picked: its run is claimed by then, and many are one batch."""
STEADY_S = 30.0
"""What ran for so long is begun again without a pause."""
STOP_S = 5.0
"""How long to wait for jobs to be handed back."""
TIDY_S = 60.0
log = logging.getLogger("sayso.store")


class _Called(msgspec.Struct, frozen=True):
    """What was called out on the channel of the queue."""

    type: str
    operation: Literal["insert", "update", "delete", "truncate"] | None = None


class PostgresQueue:
    """The jobs of one store."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._services: list[Service] = []

    def serve(self, taker: Taker) -> Service:
        self._services.append(Service(self._link, taker))
        return self._services[-1]

    async def close(self) -> None:
        """Pick no more jobs for anybody."""
        for service in self._services:
            await service.stop()

    async def held(self, *, limit: int = HELD_MAX) -> list[HeldJob]:
        await _load()
        from sayso.store.postgres_jobs import list_held

        return await list_held(self._link, limit)

    async def requeue(self, *ids: int) -> int:
        await _load()
        from sayso.store.postgres_jobs import requeue

        return await requeue(self._link, ids)

    async def requeue_all(self, progress: Callable[[int, int], None] | None = None) -> int:
        await _load()
        from sayso.store.postgres_jobs import requeue_all

        return await requeue_all(self._link, progress)

    async def checkup(self) -> Finding:
        """Look at the jobs: what waits, and what failed."""
        await _load()
        from sayso.store.postgres_jobs import count

        try:
            found = await count(self._link)
            failed = await self.held(limit=1) if found.get("failed") else []
        except StoreClosed:
            raise
        except SaysoError as error:
            return _found("warning", f"the queue cannot be used, and work is found late: {error}")
        for first in failed:
            return _found(
                "warning",
                f"{found['failed']:,} of its jobs failed and are held; the first is {first.id}, of "
                f"the agent {first.agent!r}: {first.why}. Work is found all the same, only later. "
                "Once that is mended, `sayso jobs requeue --all` offers them again.",
            )
        waiting = found.get("queued", 0) + found.get("picked", 0)
        return _found("ok", f"{waiting:,} of its jobs wait or are being picked, none failed.")


class Service:
    """Picks jobs for one worker."""

    def __init__(self, link: Link, taker: Taker) -> None:
        self._link = link
        self._taker = taker
        self._picker: Picker | None = None
        self._later: asyncio.TimerHandle | None = None
        self._stopped = False
        ear = listen(link, {work_channel(link.address.schema): self._hear}, self._look)
        self._picking = asyncio.create_task(self._pick(), name="sayso-queue")
        self._tasks = [
            self._picking,
            asyncio.create_task(ear, name="sayso-queue-ear"),
            asyncio.create_task(self._tidy(), name="sayso-queue-tidy"),
        ]

    async def stop(self) -> None:
        self._stopped = True
        if self._picker is not None:
            self._picker.stop()
            await asyncio.wait([self._picking], timeout=STOP_S)
        tasks, self._tasks = self._tasks, []
        await end(tasks)

    async def _pick(self) -> None:
        await _load()
        from sayso.store.postgres_jobs import Picker

        pause = RETRY_S
        while not self._stopped:
            began = time.monotonic()
            self._picker = Picker(self._link, self._taker)
            running = asyncio.create_task(self._picker.run(), name="sayso-queue-run")
            try:
                await asyncio.wait([running])
            finally:
                await end([running])
            error = None if running.cancelled() else running.exception()
            if isinstance(error, StoreClosed) or self._stopped:
                return
            log.warning("jobs of %s are picked again after: %s", self._link.name, error)
            pause = RETRY_S if time.monotonic() - began > STEADY_S else min(pause * 2, RETRY_MAX_S)
            await asyncio.sleep(pause)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY_S)
            try:
                await self._link.write("select forget_work()")
            except SaysoError as error:
                log.debug("the log of jobs stays as long as it is: %s", error)

    def _hear(self, text: str) -> None:
        try:
            said = _CALLED.decode(text)
        except ValueError:
            return  # Anybody may call out on a channel.
        if said.operation in ("delete", "truncate"):
            return  # Jobs that are done make no work.
        if said.operation is None:
            self._pass_on(text)
        else:
            self._look()

    def _look(self) -> None:
        """There may be work: claim at once, and pick jobs a little later, once for all hints."""
        self._taker.hint()
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER_S, self._pass_on)

    def _pass_on(self, text: str | None = None) -> None:
        if text is None:
            self._later = None
        if self._picker is not None:
            self._picker.hear(text)


async def _load() -> None:
    """Import pgqueuer; that takes longer than anybody should wait for anything else."""
    await asyncio.to_thread(import_module, "sayso.store.postgres_jobs")


def _found(level: Literal["ok", "warning"], text: str) -> Finding:
    return Finding(name="queue", level=level, text=text)


_CALLED = msgspec.json.Decoder(_Called)
