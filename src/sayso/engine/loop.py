"""Advances one run for as long as this worker owns it: turns, calls, and what others left behind.

Rule 1: it does what the run says is possible, and looks again whenever the run has moved: an
approved call starts while a slow sibling still runs.
Rule 2: a start is committed before the tool runs; a result is handed over before the model is
asked, but not waited for.
Rule 3: it never raises for what an agent, a model or a tool does: that becomes part of the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.call import CallState
from sayso.domain.run import CallRow, Run
from sayso.domain.standing import startable, strand_due
from sayso.domain.value import SAYSO
from sayso.engine.attempt import Result
from sayso.engine.bell import Bell
from sayso.engine.calls import (
    continue_body,
    look_after,
    propose_continue,
    propose_record,
    propose_starts,
    run_body,
)
from sayso.engine.gate import clean_text
from sayso.engine.insist import insist
from sayso.engine.parts import Parts
from sayso.engine.ports import Scene
from sayso.engine.proposal import Proposal
from sayso.engine.turn import propose_turn
from sayso.errors import (
    CannotGoOn,
    ConditionFailed,
    ModelFailed,
    NotUnderstood,
    StoreClosed,
    StoreError,
    contained,
    describe,
)

log = logging.getLogger("sayso")

QUICK_S = 0.2
"""How long to wait for news of this process before watching the store for other processes'."""


class RunLoop:
    """Drives one run."""

    def __init__(self, parts: Parts, run_id: str, worker: str) -> None:
        self.run_id = run_id
        self._ids = {"run_id": run_id}
        self._parts = parts
        self._ledger = parts.ledger
        self._worker = worker
        self._busy: set[str] = set()
        """Calls that a task of this loop looks after."""
        self._proposals: set[Proposal] = set()
        """Appends under way that start calls."""
        self._turns: dict[str, asyncio.Task[Any] | None] = {}
        """Strands whose turn is being taken, and the task that waits for the model."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._poked = Bell()
        self._moved = Bell()
        """Like `_poked`, for whoever waits inside a turn."""
        self._elsewhere = False
        self._broken = False

    def poke(self, *, elsewhere: bool = False) -> None:
        """Say that the run may have moved; `elsewhere`, if not by a write of this process."""
        self._elsewhere = self._elsewhere or elsewhere
        self._poked.ring()
        self._moved.ring()

    @property
    def poked(self) -> bool:
        """Tell whether the run may have moved since it was last looked at."""
        return self._poked.rung and not self._broken

    @property
    def executing(self) -> bool:
        """Tell whether calls are under way."""
        return bool(self._busy)

    async def drive(self) -> None:
        """Advance the run until there is nothing more for this worker to do."""
        async with asyncio.TaskGroup() as group:
            while await self._look(group):
                pass

    async def _look(self, group: asyncio.TaskGroup) -> bool:
        try:
            return await self._advance(group)
        except StoreClosed:
            self._broken = True
            return False
        except NotUnderstood as error:
            self._leave(error)
            return False  # What is under way is waited for.
        except StoreError as error:
            # Calls that are under way must not be cut off because a read has failed.
            log.warning("%s: %s", self.run_id, error, extra=self._ids)
            await asyncio.sleep(self._parts.bounds.look_s)
            self._elsewhere = True
            return True

    async def _advance(self, group: asyncio.TaskGroup) -> bool:
        """Do what can be done now, then wait for news. False when this worker is done here."""
        self._poked.silence()
        # What this process writes is in memory already; only others have to be looked for.
        look, self._elsewhere = self._elsewhere, False
        live = await (self._ledger.refresh if look else self._ledger.live)(self.run_id)
        if live.owner == self._worker and not self._broken:
            self._launch(live.run, group)
        if live.run.ending or live.run.final:
            for task in self._turns.values():
                if task is not None:
                    task.cancel()
        if not self._tasks:
            return self._poked.rung
        await self._news()
        return True

    def _launch(self, run: Run, group: asyncio.TaskGroup) -> None:
        for row in run.calls(CallState.STARTED):
            if not self._is_busy(row.ref):
                self._spawn(group, partial(self._look_after, row, group), (row.ref,))
        for row in run.calls(CallState.ANSWERED):
            if not self._is_busy(row.ref):
                self._spawn(group, partial(self._continue, row, group), (row.ref,))
        ready = [row for row in startable(run) if not self._is_busy(row.ref)]
        if ready:
            self._spawn(group, partial(self._start, ready, group), [row.ref for row in ready])
        for strand in run.strands:
            if strand_due(run, strand) and strand.name not in self._turns:
                self._turns[strand.name] = None
                self._spawn(group, partial(self._turn, strand.name, group), ())

    def _is_busy(self, ref: str) -> bool:
        return ref in self._busy or any(ref in proposal.args for proposal in self._proposals)

    def _spawn(
        self, group: asyncio.TaskGroup, work: Callable[[], Awaitable[None]], refs: Iterable[str]
    ) -> None:
        self._busy.update(refs)
        task = group.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._poked.ring()
        self._moved.ring()

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody has asked this task to stop: something inside has cancelled itself.
            await self._fail("it was cancelled from within")
        except StoreClosed:
            self._broken = True
        except NotUnderstood as error:
            self._leave(error)
        except StoreError as error:
            # The work is still to be done, and is looked at again.
            log.warning("%s: %s", self.run_id, error, extra=self._ids)
            await asyncio.sleep(self._parts.bounds.look_s)
        except KeyboardInterrupt:
            raise  # Of a person at the keyboard: that of an agent's code is an error by now.
        except BaseException as error:
            # An agent's mistake ends its run, not the worker; nor the calls beside it.
            log.exception("%s failed", self.run_id, extra=self._ids)
            await self._fail(describe(error))

    def _leave(self, error: NotUnderstood) -> None:
        """Do nothing more with a run that this code does not understand: newer code will."""
        if not self._broken:
            log.warning("%s is left alone: %s", self.run_id, error, extra=self._ids)
        self._broken = True

    async def _fail(self, error: str) -> None:
        text = clean_text(error)[:2000]
        now = self._parts.store.now()

        def verb(run: Run) -> list[e.Event]:
            return [] if run.final else settling.cancel(run, by=SAYSO, now=now, error=text)

        while not self._broken:
            try:
                await self._ledger.write(self.run_id, verb, owned_by=self._worker)
            except StoreClosed:
                self._broken = True
            except StoreError as again:
                log.warning("%s: %s", self.run_id, again, extra=self._ids)
                await asyncio.sleep(self._parts.bounds.look_s)
            else:
                return

    async def _turn(self, name: str, group: asyncio.TaskGroup) -> None:
        self._turns[name] = asyncio.current_task()
        try:
            proposal = await propose_turn(self._parts, self.run_id, name, self._worker)
            # From here on it must not be cut off, least of all by the end that it brings itself.
            self._turns[name] = None
            if proposal is not None:
                await self._take(proposal, group)
        except ModelFailed as error:
            await self._failed(name, f"the model failed: {error}")
        except CannotGoOn as error:
            await self._fail(str(error))
        finally:
            del self._turns[name]

    async def _start(self, rows: Sequence[CallRow], group: asyncio.TaskGroup) -> None:
        try:
            proposal = await propose_starts(self._parts, self.run_id, rows, self._worker)
        except BaseException:
            self._busy.difference_update(row.ref for row in rows)
            raise
        try:
            started = await self._commit(proposal)
        except ConditionFailed:
            return  # Who allowed it may not any more, or not so late: it is checked once more.
        # The last one needs no task of its own.
        for event in started[:-1]:
            self._spawn(group, partial(self._body, event, proposal, group), ())
        for event in started[-1:]:
            await self._body(event, proposal, group)

    async def _take(self, proposal: Proposal, group: asyncio.TaskGroup) -> None:
        """Record a turn, once no command is under way that it would cut off."""
        self._moved.silence()
        started = await self._commit(proposal)
        while proposal.waits and not self._broken:
            self._poked.ring()  # A command may have been told to come to an end.
            await self._moved.wait()
            self._moved.silence()
            started = await self._commit(proposal)
        for event in started:
            self._spawn(group, partial(self._body, event, proposal, group), ())

    async def _failed(self, name: str, error: str) -> None:
        """Let the agent go on after a strand could not, or end the run."""
        run = (await self._ledger.live(self.run_id)).run
        with contained(f"the agent {run.agent!r}"):
            change = self._parts.drivers[run.agent].failed(name, error)
        if change is None:
            await self._fail(error)
            return

        def verb(run: Run) -> Sequence[e.Event]:
            if run.ending or run.final or run.strand(name) is None:
                return []
            with contained(f"the agent {run.agent!r}"):
                return change(Scene(run, self._ledger.fold(run), self._parts.store.now()))

        await self._ledger.post(self.run_id, verb, owned_by=self._worker, quiet=True)

    async def _continue(self, row: CallRow, group: asyncio.TaskGroup) -> None:
        """Let a body go on that has its answers."""
        try:
            proposal = await propose_continue(self._parts, self.run_id, row, self._worker)
            written = await self._ledger.post(
                self.run_id, proposal.verb, owned_by=self._worker, quiet=True
            )
        except BaseException:
            self._busy.discard(row.ref)
            raise
        events = [one for one in written.events if isinstance(one, e.CallContinued)]
        if not events:
            self._busy.discard(row.ref)
            return
        event = events[0]
        result = continue_body(self._parts, self.run_id, event, proposal.tick)
        await self._conclude(row.ref, event.attempt, result, group)

    async def _commit(self, proposal: Proposal) -> list[e.CallStarted]:
        """Append what is proposed; give what was started, and let go of what was not."""
        self._proposals.add(proposal)
        started: list[e.CallStarted] = []
        try:
            # Whoever was taken over meanwhile starts nothing any more.
            written = await self._ledger.post(
                self.run_id,
                proposal.verb,
                owned_by=self._worker,
                quiet=True,
                items=proposal.items,
            )
            started = [event for event in written.events if isinstance(event, e.CallStarted)]
        finally:
            self._proposals.discard(proposal)
            self._busy.difference_update(proposal.args)
            self._busy.update(one.call for one in started)
        return started

    async def _body(
        self, event: e.CallStarted, proposal: Proposal, group: asyncio.TaskGroup
    ) -> None:
        args = proposal.args[event.call]
        result = run_body(self._parts, self.run_id, event, args, proposal.tick)
        await self._conclude(event.call, event.attempt, result, group)

    async def _look_after(self, row: CallRow, group: asyncio.TaskGroup) -> None:
        # This worker's own attempt may still be under way somewhere: nothing is tried again then.
        own = row.worker == self._worker
        result = look_after(self._parts, self.run_id, row, own=own)
        await self._conclude(row.ref, row.attempt, result, group)

    async def _conclude(
        self, ref: str, attempt: int, result: Awaitable[Result | None], group: asyncio.TaskGroup
    ) -> None:
        """Record what became of an attempt, and take the next turn while that is committed."""
        try:
            found = await result
            if found is None:
                return  # Its body waits for an answer; that is recorded.
            verb = await propose_record(self._parts, self.run_id, ref, attempt, found)
            # Handed over here, so that the turn builds on it; waited for below.
            first = self._ledger.post(self.run_id, verb, quiet=True)
            recorded = asyncio.ensure_future(insist(self._parts, self.run_id, verb, first))
            try:
                await self._turn_if_due(group)
            finally:
                await recorded
        finally:
            self._busy.discard(ref)

    async def _turn_if_due(self, group: asyncio.TaskGroup) -> None:
        live = await self._ledger.live(self.run_id)
        if live.owner != self._worker:
            return
        due = [
            strand.name
            for strand in live.run.strands
            if strand_due(live.run, strand) and strand.name not in self._turns
        ]
        self._turns.update(dict.fromkeys(due))
        # The last one needs no task of its own; none of them waits for another's model.
        for name in due[:-1]:
            self._spawn(group, partial(self._turn, name, group), ())
        for name in due[-1:]:
            await self._turn(name, group)

    async def _news(self) -> None:
        if not await self._poked.wait(QUICK_S):
            await self._watch()

    async def _watch(self) -> None:
        """Wait for this process or another one to move the run."""
        watch = self._parts.store.watch(self.run_id)
        poked = asyncio.ensure_future(self._poked.wait())
        moved = asyncio.ensure_future(watch.wait())
        try:
            before = (await self._ledger.live(self.run_id)).run.seq
            if (await self._ledger.refresh(self.run_id)).run.seq == before:
                await asyncio.wait({poked, moved}, return_when=asyncio.FIRST_COMPLETED)
                self._elsewhere = moved.done()
        finally:
            watch.close()
            poked.cancel()
            moved.cancel()
