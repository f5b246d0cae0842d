"""Does what is due: expires holds, lets decisions take effect, rescues runs of dead workers.

It is never what makes a deadline hold: that is compared inside the append. It only makes silence
heard.
"""

from __future__ import annotations

import asyncio
import logging
from binascii import crc32
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.call import CallState
from sayso.domain.run import Run
from sayso.engine.parts import Parts
from sayso.engine.sealer import Sealer
from sayso.engine.worker import Worker
from sayso.errors import ConditionFailed, SaysoError, StoreClosed, StoreError
from sayso.store.base import PAGE_MAX, Lost

log = logging.getLogger("sayso")

PAGES_MAX = 200
"""No sweep is longer; what is left then is for the next one."""
AT_ONCE = 16
"""So many runs are seen to beside each other, and share commits. More would be done sooner, and
keep whoever decides meanwhile waiting for longer.
"""


class Sweeper:
    """Looks for what is due, again and again."""

    def __init__(self, parts: Parts, worker: Worker | None = None) -> None:
        self._parts = parts
        self._worker = worker
        self._sealer = Sealer(parts.store, parts.vault, parts.bounds.seal_every_s)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep."""
        # What a process does first is what somebody waits for, and sealing imports a lot.
        self._sealer.rest()
        self._task = asyncio.create_task(self._serve(), name="sayso-sweep")

    async def stop(self) -> None:
        """Stop sweeping."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def sweep(self) -> int:
        """Do everything that is due now; say how many runs were touched."""
        touched = await _page_by_page(self._expire_page)
        if self._worker is not None:
            touched += await _page_by_page(partial(self._rescue_page, self._worker))
        await self._parts.door.flush()
        await self._sealer.seal_if_due()
        return touched

    async def _expire_page(self, skip: int) -> tuple[int, int]:
        page = await self._parts.store.due(skip=skip)
        return len(page), await self._each(
            [(run_id, partial(self._expire, run_id)) for run_id in page]
        )

    async def _each(self, work: Sequence[tuple[str, Callable[[], Awaitable[bool]]]]) -> int:
        """See to these runs, a few at a time; say in how many something was done. What the store
        cannot do ends it, once what is under way is over.
        """
        left, done, failed = iter(work), list[bool](), list[StoreError]()

        async def do_some() -> None:
            for run_id, do in left:
                try:
                    done.append(await self._apart(run_id, do()))
                except StoreError as error:
                    failed.append(error)
                if failed:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in work[:AT_ONCE]:
                group.create_task(do_some())
        if failed:
            raise failed[0]
        return sum(done)

    async def _rescue_page(self, worker: Worker, skip: int) -> tuple[int, int]:
        await worker.settled()
        # Runs of other agents cannot be gone on with here, so they need not be read.
        agents = [agent for agent in self._parts.drivers if worker.could_take(agent)]
        page = await self._parts.store.lost(agents=agents, skip=skip)
        # Whoever sweeps at the same time begins elsewhere, or all but one would always be too late.
        first = crc32(worker.id.encode()) % (len(page) or 1)
        lost = (*page[first:], *page[:first])
        return len(page), await self._each(
            [(one.run_id, partial(self._rescue, worker, one)) for one in lost]
        )

    async def _apart(self, run_id: str, work: Awaitable[bool]) -> bool:
        try:
            return await work
        except StoreError:
            raise
        except SaysoError as error:
            # A run that this version cannot read must not keep all others waiting.
            log.warning("%s is left alone: %s", run_id, error, extra={"run_id": run_id})
            return False
        except Exception:
            ids = {"run_id": run_id}
            log.exception("%s is left alone after what should not happen", run_id, extra=ids)
            return False

    async def _expire(self, run_id: str) -> bool:
        def verb(run: Run) -> list[e.Event]:
            return [] if run.final else settling.sweep(run, now=self._parts.store.now())

        takes = None if self._worker is None else self._worker.takes
        try:
            written = await self._parts.ledger.write(run_id, verb, takes=takes)
        except ConditionFailed:
            return False  # The clock was set back meanwhile: it is not due after all.
        if written.run.ending and any(hold.child for hold in written.run.holds):
            from sayso.engine.cascade import cancel_children

            await cancel_children(self._parts, run_id, takes)
        return bool(written.events)

    async def _rescue(self, worker: Worker, lost: Lost) -> bool:
        if lost.worker == worker.id:
            return False  # Whoever sweeps is alive, however long its machine was asleep.
        run = await self._parts.ledger.load(lost.run_id)
        if lost.proof == "lease" and not self._given_up(run):
            return False
        return await worker.take_over(run.id, run.agent, lost.worker, lost.proof)

    def _given_up(self, run: Run) -> bool:
        """Tell whether a worker that is only silent has had all the time its calls could take."""
        grace = self._parts.bounds.takeover_grace_ms
        ends = [c.tick + c.timeout_ms + grace for c in run.calls(CallState.STARTED)]
        return self._parts.store.tick() >= max(ends, default=0)

    async def _serve(self) -> None:
        while True:
            try:
                await self.sweep()
            except StoreClosed:
                return
            except StoreError as error:
                log.warning("the sweeper goes on after: %s", error)
            except Exception:
                # A sweeper that has ended is missed by nobody, and no deadline is heard any more.
                log.exception("the sweeper goes on after what should not happen")
            await asyncio.sleep(self._parts.bounds.look_s)


async def _page_by_page(work: Callable[[int], Awaitable[tuple[int, int]]]) -> int:
    """Work through a list; `work` is told how many to skip, and says how many it was given and how
    many of them it has dealt with. The others stay where they are, and must not hide the rest.
    """
    touched = left = 0
    for _ in range(PAGES_MAX):
        found, done = await work(left)
        touched += done
        left += found - done
        if found < PAGE_MAX:
            break
    return touched
