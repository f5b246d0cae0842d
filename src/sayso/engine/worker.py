"""Advances runs: those that this process made work for, and those that nobody works on.

Rule 1: a bounded number at a time; what is over is left unowned, and found again by `claim`, which
is fair between projects.
Rule 2: draining takes no new run, and waits for what has started. What must be cut off stays owned
by this worker, so that others look into it only once this process is certainly gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sayso.domain import events as e
from sayso.domain.run import Run, Status
from sayso.domain.standing import only_starts, status_of
from sayso.engine.dispatch import Dispatch
from sayso.engine.ids import new_id
from sayso.engine.loop import RunLoop
from sayso.engine.parts import Parts
from sayso.errors import StoreClosed, StoreError, StoreNewer
from sayso.store.queue import Taker

log = logging.getLogger("sayso")

TAKE_MAX = 16
"""How many runs are claimed at a time, so that what comes at once is spread over all workers."""


class Worker:
    """Works on runs, many at a time, in this process."""

    loop_class = RunLoop

    def __init__(self, parts: Parts, dispatch: Dispatch) -> None:
        self.id = new_id("worker", parts.store.now())
        self._parts = parts
        self._dispatch = dispatch
        self._loops: dict[str, RunLoop] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._services: list[asyncio.Task[None]] = []
        self._taking_over: set[str] = set()
        self._claiming = 0
        """How many runs a claim under way may bring."""
        self._draining = False
        self._cut_off = False
        """Whether a call may be under way that nobody here looks after any more."""
        self._taking = asyncio.Lock()
        self._asked = self._answered = 0
        """How often somebody has asked for a claim, and up to which of these there was one."""
        self._more = False
        """Whether there was more to claim than there was room for."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.outdated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the store is for newer code by now: nothing can be written from here again."""

    async def start(self) -> None:
        """Make the worker known, and begin to look for work."""
        await self._parts.store.beat(self.id)
        self._parts.ledger.listeners.append(self.notice)
        self._parts.ledger.expectant.append(self.expect)
        self._services = [
            asyncio.create_task(self._serve(self._claim), name="sayso-claim"),
            asyncio.create_task(self._serve(self._beat), name="sayso-beat"),
        ]
        taker = Taker(
            agents=tuple(self._parts.drivers),
            room=self.room,
            take=self.take,
            hint=lambda: self._dispatch.wake(""),
        )
        self._dispatch.serve(taker)

    def room(self) -> int:
        """Say how many more runs could be worked on here."""
        # What is on its way counts, or whatever comes at once would be taken by one worker.
        coming = self._parts.ledger.giving | self._taking_over
        under_way = len(self._loops) + len(coming - self._loops.keys())
        return 0 if self._draining else self._parts.bounds.runs_max - under_way

    async def settled(self) -> None:
        """Wait until no claim is under way, and it is certain how much room there is."""
        async with self._taking:
            pass

    def could_take(self, agent: str) -> bool:
        """Tell whether a run of this agent could be worked on here right now."""
        return self.room() > self._claiming and agent in self._parts.drivers

    def takes(self, agent: str) -> str:
        """Give this worker's id if an append may make it the owner of a run, else nothing."""
        # How many of a project are worked on is counted by claims only.
        bounded = self._parts.bounds.project_runs_max is not None
        return self.id if self.could_take(agent) and not bounded else ""

    def notice(self, run: Run, owner: str) -> None:
        """Hear of a committed write to a run."""
        if run.ending or run.final:
            self._parts.hot.forget(run.id)
        loop = self._loops.get(run.id)
        # After an answer that was lost, what was looked at is gone, or is from before the write.
        known = self._parts.ledger.at_hand(run.id) is not None
        if loop is not None and loop.seen is run and known:
            return  # It has been looked at since it was handed over.
        if loop is not None or (owner == self.id and status_of(run) is Status.RUNNING):
            self._adopt(run.id, elsewhere=not known)

    def expect(self, run: Run, owner: str) -> None:
        """Hear of a write that is about to be handed over: while it is being committed, the start
        of what it allows is prepared, and handed over behind it. Nothing else: no model is asked,
        and no body goes on, because of what may come to nothing.
        """
        if owner == self.id and run.id not in self._loops and only_starts(run):
            self._adopt(run.id)

    async def take_over(self, run_id: str, agent: str, before: str, proof: str) -> bool:
        """Go on with a run whose worker is gone."""
        if not self.could_take(agent):
            return False
        event = e.RunTakenOver(worker=self.id, before=before, proof=proof)
        self._taking_over.add(run_id)  # Many are tried at a time, and each is to see the others.
        try:
            written = await self._parts.ledger.take_over(run_id, event)
        finally:
            self._taking_over.discard(run_id)
        if written is None:
            return False
        log.warning("%s taken over from %s (%s)", run_id, before, proof, extra={"run_id": run_id})
        return True

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Take no new run and wait until none is under way; False if some had to be cut off."""
        self._draining = True
        self._parts.vault.close()
        try:
            async with asyncio.timeout(timeout_s):
                await self.settled()  # What a claim under way brings is left to others.
                await self._idle.wait()
        except TimeoutError:
            pass
        for task in [*self._services, *self._tasks]:
            task.cancel()
        self._parts.hot.let_go()
        clean = not self._cut_off and not any(loop.executing for loop in self._loops.values())
        await asyncio.gather(*self._services, *self._tasks, return_exceptions=True)
        if self.notice in self._parts.ledger.listeners:
            self._parts.ledger.listeners.remove(self.notice)
            self._parts.ledger.expectant.remove(self.expect)
        # Its lock is the only proof of when a function ends that nobody waits for any more.
        clean = clean and not self._parts.going.doubted
        if clean and self._services:
            try:
                await self._parts.store.retire(self.id)
            except StoreError as error:
                log.warning("the worker %s could not sign off: %s", self.id, error)
        return clean

    def _adopt(self, run_id: str, *, elsewhere: bool = False) -> None:
        """Work on a run, or look again if it is being worked on, even if only just still."""
        if run_id in self._loops:
            self._loops[run_id].poke(elsewhere=elsewhere)
            return
        self._parts.ledger.pin(run_id)
        loop = self._loops[run_id] = self.loop_class(self._parts, run_id, self.id)
        if elsewhere:
            loop.poke(elsewhere=True)
        self._idle.clear()
        task = asyncio.create_task(self._drive(loop), name=f"sayso-{run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drive(self, loop: RunLoop) -> None:
        try:
            await loop.drive()
            # No await between looking and letting go, or a decision made just now would be lost.
            while loop.poked:
                await loop.drive()
        except StoreClosed:
            pass
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            raise
        except BaseException:
            self._cut_off = True
            # One run must not take the others down. It stays owned, and is taken over from here
            # once this process is gone.
            ids = {"run_id": loop.run_id}
            log.exception("%s cannot go on in this process", loop.run_id, extra=ids)
        finally:
            del self._loops[loop.run_id]
            self._parts.ledger.unpin(loop.run_id)
            if self._more or self._parts.bounds.project_runs_max is not None:
                self._dispatch.wake(loop.run_id)
            if not self._loops:
                self._idle.set()

    async def take(self) -> None:
        """Claim runs, if there is room; once for all who ask while a claim is under way."""
        self._asked = mine = self._asked + 1
        async with self._taking:
            if self._answered >= mine:
                return
            asked = self._asked
            await self._take()
            self._answered = asked

    async def _take(self) -> None:
        bounds, agents = self._parts.bounds, tuple(self._parts.drivers)
        self._more = True
        while (room := self.room()) > 0:
            self._claiming = limit = min(room, TAKE_MAX)
            try:
                found = await self._parts.store.claim(
                    self.id, limit=limit, agents=agents, project_max=bounds.project_runs_max
                )
            finally:
                self._claiming = 0
            if self._draining:
                return  # They are left to others when this worker retires.
            for run_id in found:
                self._adopt(run_id, elsewhere=True)
            if len(found) < limit:
                self._more = False
                return

    async def _claim(self) -> None:
        await self.take()
        await self._dispatch.wait(self._parts.bounds.look_s)

    async def _beat(self) -> None:
        await asyncio.sleep(self._parts.bounds.beat_s)
        await self._parts.store.beat(self.id)

    async def _serve(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except StoreClosed:
                return
            except StoreNewer as error:
                log.error("the worker %s stops: %s", self.id, error)  # noqa: TRY400 - it says it all.
                if not self.outdated.done():
                    self.outdated.set_exception(error)
                    self.outdated.exception()  # Not everybody serves, and has to hear it.
                return
            except Exception as error:
                # A worker that stopped looking, or fell silent, would be missed by nobody.
                if isinstance(error, StoreError):
                    log.warning("the worker %s goes on after: %s", self.id, error)
                else:
                    log.exception("the worker %s goes on after what should not happen", self.id)
                await asyncio.sleep(self._parts.bounds.look_s)
