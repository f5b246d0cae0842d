"""Advances one run for as long as this worker owns it: turns, calls, and what others left behind.

Rule 1: it does what the run says is possible, and looks again whenever the run has moved: an
approved call starts while a slow sibling still runs.
Rule 2: a start is committed before the tool runs, and may be handed over behind the decision that
allows it; a result is handed over before the model is asked, but not waited for.
Rule 3: it never raises for what an agent, a model or a tool does: that becomes part of the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.call import CallState
from sayso.domain.run import CallRow, Run
from sayso.domain.standing import startable, turn_due
from sayso.domain.value import SAYSO
from sayso.engine.attempt import Result
from sayso.engine.bell import Bell
from sayso.engine.calls import (
    continue_body,
    look_after,
    propose_continue,
    propose_starts,
    run_body,
)
from sayso.engine.cut import Cut
from sayso.engine.gate import clean_text
from sayso.engine.insist import insist
from sayso.engine.parts import Parts
from sayso.engine.ports import Scene
from sayso.engine.proposal import Proposal
from sayso.engine.record import propose_record
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
"""How long nothing must be new in this process before the store is watched for other processes'."""

Work = Callable[[], Awaitable[Any]]
"""Something to do for a run. It gives what follows from it, a `Work` again, or None."""


class RunLoop:
    """Drives one run: a crew of tasks, each of which does something, and then looks for more.

    There are as many as there are things to do at a time, so that a run that does one after another
    is driven by one task.
    """

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
        self._turns: dict[str, Cut | None] = {}
        """Strands whose turn is being taken, and what waits for the model."""
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()
        self._crew = 0
        """How many tasks are at work, or are about to be: the last one to go ends the watching."""
        self._looking = False
        self._rung = False
        """Whether the run may have moved since somebody looked. While there is a crew, one of them
        looks then, or is about to.
        """
        self.seen: Run | None = None
        """The run as it was last looked at, whatever of it was committed by then."""
        self._looked_at = 0.0
        self._moved = Bell()
        """For whoever waits inside a turn for the run to move."""
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._elsewhere = False
        self._broken = False

    def poke(self, *, elsewhere: bool = False) -> None:
        """Say that the run may have moved; `elsewhere`, if not by a write of this process."""
        self._elsewhere = self._elsewhere or elsewhere
        self._moved.ring()
        self._ring()

    def _ring(self) -> None:
        """Have somebody look."""
        if self._rung:
            return
        self._rung = True
        if self._crew and not self._looking:
            self._spawn(None)

    @property
    def poked(self) -> bool:
        """Tell whether the run may have moved since it was last looked at."""
        return self._rung and not self._broken

    @property
    def executing(self) -> bool:
        """Tell whether calls are under way."""
        return bool(self._busy)

    async def drive(self) -> None:
        """Advance the run until there is nothing more for this worker to do."""
        async with asyncio.TaskGroup() as self._group:
            self._context = contextvars.copy_context()
            self._timer = self._await_quiet(QUICK_S)
            self._crew += 1
            await self._work(None)

    async def _work(self, work: Work | None) -> None:
        """Do something and what follows from it, then what else there is to do."""
        try:
            while True:
                while work is not None:
                    work = await self._guarded(work)
                    self._moved.ring()
                work = await self._look()
                if work is None:
                    return
        finally:
            self._crew -= 1
            if not self._crew:
                self._rest()

    def _rest(self) -> None:
        """Watch no longer."""
        for one in (self._timer, self._watcher):
            if one is not None:
                one.cancel()

    def _spawn(self, work: Work | None) -> None:
        """Have one more at work."""
        if self._create(self._work(work)) is not None:
            self._crew += 1

    def _create(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        assert self._group is not None, "it is driven"
        try:
            # Whoever pokes has a context of its own, which is none of this run's business.
            return self._group.create_task(what, context=self._context.copy())
        except RuntimeError:
            what.close()  # All of them are being stopped.
            return None

    async def _look(self) -> Work | None:
        """Find something to do, and have others do the rest; None if this task is not needed."""
        self._rung = True
        if self._looking:
            return None  # Whoever does looks again.
        self._looking = True
        try:
            while self.poked:
                self._rung = False
                if works := await self._find():
                    for work in works[1:]:
                        self._spawn(work)
                    if self._rung:
                        self._spawn(None)
                    return works[0]
        finally:
            self._looking = False
        return None

    async def _find(self) -> list[Work]:
        # What this process writes is in memory already; only others have to be looked for.
        look, self._elsewhere = self._elsewhere, False
        self._looked_at = asyncio.get_running_loop().time()
        try:
            live = await (self._ledger.refresh if look else self._ledger.live)(self.run_id)
        except StoreClosed:
            self._broken = True
            return []
        except NotUnderstood as error:
            self._leave(error)
            return []  # What is under way is waited for.
        except StoreError as error:
            # Calls that are under way must not be cut off because a read has failed.
            log.warning("%s: %s", self.run_id, error, extra=self._ids)
            await asyncio.sleep(self._parts.bounds.look_s)
            self._elsewhere = self._rung = True
            return []
        self.seen = live.run
        if live.run.ending or live.run.final:
            for cut in self._turns.values():
                if cut is not None:
                    cut.off()
        mine = live.owner == self._worker and not self._broken
        return self._works(live.run) if mine else []

    def _works(self, run: Run) -> list[Work]:
        """Take on what can be done now and nobody does."""
        works: list[Work] = []
        for row in run.calls(CallState.STARTED):
            if not self._is_busy(row.ref):
                self._busy.add(row.ref)
                works.append(partial(self._look_after, row))
        for row in run.calls(CallState.ANSWERED):
            if not self._is_busy(row.ref):
                self._busy.add(row.ref)
                works.append(partial(self._continue, row))
        ready = [row for row in startable(run) if not self._is_busy(row.ref)]
        if ready:
            self._busy.update(row.ref for row in ready)
            works.append(partial(self._start, ready))
        return works + self._turns_due(run)

    def _turns_due(self, run: Run) -> list[Work]:
        due = [
            strand.name
            for strand in run.strands
            if strand.name not in self._turns and turn_due(run, strand)
        ]
        self._turns.update(dict.fromkeys(due))
        return [partial(self._turn, name) for name in due]

    def _is_busy(self, ref: str) -> bool:
        return ref in self._busy or any(ref in proposal.args for proposal in self._proposals)

    async def _guarded(self, work: Work) -> Work | None:
        try:
            return await work()
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
        return None

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

    async def _turn(self, name: str) -> Work | None:
        proposal: Proposal | None = None
        started: list[e.CallStarted] = []
        try:
            with Cut() as self._turns[name]:
                proposal = await propose_turn(self._parts, self.run_id, name, self._worker)
            # From here on it must not be cut off, least of all by the end that it brings itself.
            self._turns[name] = None
            if proposal is not None:
                started = await self._take(proposal)
        except ModelFailed as error:
            await self._failed(name, f"the model failed: {error}")
        except CannotGoOn as error:
            await self._fail(str(error))
        finally:
            del self._turns[name]
        return None if proposal is None else self._begin(started, proposal)

    async def _start(self, rows: Sequence[CallRow]) -> Work | None:
        try:
            proposal = await propose_starts(self._parts, self.run_id, rows, self._worker)
        except BaseException:
            self._busy.difference_update(row.ref for row in rows)
            raise
        try:
            started = await self._commit(proposal)
        except ConditionFailed:
            return None  # Who allowed it may not any more, or not so late: it is checked once more.
        return self._begin(started, proposal)

    def _begin(self, started: Sequence[e.CallStarted], proposal: Proposal) -> Work | None:
        """Have all bodies but one begun, and give that one."""
        works = [partial(self._body, event, proposal) for event in started]
        for work in works[1:]:
            self._spawn(work)
        return works[0] if works else None

    async def _take(self, proposal: Proposal) -> list[e.CallStarted]:
        """Record a turn, once no command is under way that it would cut off."""
        self._moved.silence()
        started = await self._commit(proposal)
        while proposal.waits and not self._broken:
            self._ring()  # A command may have been told to come to an end.
            await self._moved.wait()
            self._moved.silence()
            started = await self._commit(proposal)
        return started

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

    async def _continue(self, row: CallRow) -> Work | None:
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
            return None
        event = events[0]
        result = continue_body(self._parts, self.run_id, event, proposal.tick)
        return await self._conclude(row.ref, event.attempt, result)

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

    async def _body(self, event: e.CallStarted, proposal: Proposal) -> Work | None:
        args = proposal.args[event.call]
        result = run_body(self._parts, self.run_id, event, args, proposal.tick)
        return await self._conclude(event.call, event.attempt, result)

    async def _look_after(self, row: CallRow) -> Work | None:
        # This worker's own attempt may still be under way somewhere: nothing is tried again then.
        own = row.worker == self._worker
        result = look_after(self._parts, self.run_id, row, own=own)
        return await self._conclude(row.ref, row.attempt, result)

    async def _conclude(
        self, ref: str, attempt: int, result: Awaitable[Result | None]
    ) -> Work | None:
        """Record what became of an attempt, and take the next turn while that is committed."""
        try:
            found = await result
            if found is None:
                return None  # Its body waits for an answer; that is recorded.
            verb = await propose_record(self._parts, self.run_id, ref, attempt, found)
            # Handed over here, so that the turn builds on it; waited for below.
            first = self._ledger.post(self.run_id, verb, quiet=True)
            recorded = asyncio.ensure_future(insist(self._parts, self.run_id, verb, first))
            try:
                return await self._turn_if_due()
            finally:
                await recorded
        finally:
            self._busy.discard(ref)

    async def _turn_if_due(self) -> Work | None:
        live = await self._ledger.live(self.run_id)
        if live.owner != self._worker:
            return None
        works = self._turns_due(live.run)
        # The last one needs no task of its own; none of them waits for another's model.
        for work in works[:-1]:
            self._spawn(work)
        return await works[-1]() if works else None

    def _await_quiet(self, wait_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(wait_s, self._notice_quiet)

    def _notice_quiet(self) -> None:
        """Watch the store once nothing has been new in this process for a while."""
        left_s = self._looked_at + QUICK_S - asyncio.get_running_loop().time()
        if left_s > 0:
            self._timer = self._await_quiet(left_s)
        else:
            self._watcher = self._create(self._watch())

    async def _watch(self) -> None:
        """Wait for somebody to move the run, of this process or another one."""
        try:
            watch = self._parts.store.watch(self.run_id)
        except StoreError:
            self.poke(elsewhere=True)  # Whoever looks is told why.
        else:
            try:
                # What was written before it was watched has to be looked for.
                self.poke(elsewhere=True)
                await watch.wait()
                self.poke(elsewhere=True)
            finally:
                watch.close()
        self._timer = self._await_quiet(QUICK_S)
