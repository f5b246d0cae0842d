"""Load a run, write to a run. The only caller of `append`.

Rule 1: a stale append is never sent again: the verb runs again on the reloaded run.
Rule 2: a lost answer is not a failure: the ledger looks for its entry.
Rule 3: a verb may build on appends that are still under way, but nobody is refused, or told that
nothing is to be done, on anything but committed state.
Rule 4: an append that leaves a run not running clears its owner; one that leaves it running
without an owner wakes dispatch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import cast

import msgspec

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.lifecycle import epilogue, status_of
from sayso.domain.run import FOLD, Run, Status
from sayso.domain.transcript import Transcript
from sayso.engine.dispatch import Dispatch
from sayso.engine.history import History
from sayso.engine.ids import look_up
from sayso.engine.live import Live
from sayso.engine.write import make_write
from sayso.errors import (
    BadValue,
    CommitUnknown,
    RunExists,
    SaysoError,
    StaleRun,
    StoreError,
    UnknownRun,
)
from sayso.store.base import Appended, Key, RunRow, Store, Write
from sayso.store.journal import decode, read_journal, replay
from sayso.store.rows import Step, take_steps

TRIES_MAX = 200
"""How often a verb is tried against others who write to the same run."""

Verb = Callable[[Run], Sequence[e.Event]]
Takes = Callable[[str], str]
"""Gives the worker that would take a run of an agent on right now, or nothing."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did: the run after it, and the events that were appended (none: no need)."""

    run: Run
    owner: str
    events: tuple[e.Event, ...] = ()
    at: int = 0


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An append under way, and what it comes to."""

    live: Live
    run: Run
    events: tuple[e.Event, ...]
    owner: str
    write: Write
    answer: asyncio.Future[Appended]
    """The store's. Nobody awaits it: whoever goes away would take it along."""
    landed: asyncio.Future[None]
    """Done after the answer, once that was taken note of."""
    quiet: bool


class Ledger:
    """The one door to the store for everything that changes a run."""

    def __init__(self, store: Store, dispatch: Dispatch | None = None) -> None:
        self.store = store
        self.dispatch = dispatch
        self.listeners: list[Callable[[Run, str], None]] = []
        """Called with the run and its owner after every committed write of this process."""
        self._history = History(store, self.read)
        self._lives: dict[str, Live] = {}
        self._pins: set[str] = set()

    async def load(self, run_id: str) -> Run:
        """Read a run as it was last committed."""
        return (await self._read(run_id)).run

    async def read(self, row: RunRow) -> Run:
        """Read a run from its row."""
        if row.fold == FOLD:
            return codec.decode_run(row.state)
        # The row was written by code that kept its state in another shape.
        return await replay(self.store, row.id)

    def committed(self, row: RunRow) -> Live | None:
        """Give the run in memory if this row says that all of it is committed."""
        live = self._lives.get(row.id)
        return live if live is not None and live.last == row.last else None

    async def begin(self, event: e.RunStarted, *, worker: str = "", key: Key | None = None) -> Run:
        """Create a run. `RunExists` if its id is taken, `ThreadBusy` if its thread is."""
        steps = take_steps(None, (event,))
        run = steps[0].after
        write = make_write(b"", steps, owner=worker, key=key)
        live = Live(run, owner=worker, last=b"")
        if not run.previous:
            live.transcript = Transcript(run.id)
            live.transcript.add(1, event)
        if await self._landed(self._hand_over(live, steps, write, owner=worker)) is None:
            if await self.store.load(event.run) is None:
                # The append was lost with its answer. It may still come: do not send it again.
                raise CommitUnknown
            raise RunExists(f"the run {event.run!r} exists already")
        return run

    async def write(
        self,
        run_id: str,
        verb: Verb,
        *,
        takes: Takes | None = None,
        key: Key | None = None,
        owned_by: str | None = None,
    ) -> Written:
        """Do something to a run. Committed when this returns; what a verb raises goes through.

        If the run is left running and has no owner, the worker that `takes` names becomes it.
        With `owned_by`, nothing is done unless that worker owns the run at the time of the commit.
        """
        return await self.post(run_id, verb, takes=takes, key=key, owned_by=owned_by)

    def post(
        self,
        run_id: str,
        verb: Verb,
        *,
        takes: Takes | None = None,
        key: Key | None = None,
        owned_by: str | None = None,
        quiet: bool = False,
    ) -> Awaitable[Written]:
        """Like `write`; if the run is in memory, the append is handed over in the call itself, so
        that the next verb builds on it. Await the answer before telling anybody. With `quiet`,
        listeners are not told: the one who works on the run has done this.
        """
        send = partial(self._send, verb=verb, takes=takes, key=key, owned_by=owned_by, quiet=quiet)
        live = self._lives.get(run_id)
        sent: _Sent | None = None
        if live is not None and not live.stale:
            try:
                sent = send(live)
            except SaysoError:
                sent = None  # Only committed state may refuse: `_finish` looks again.
        return self._finish(run_id, send, sent)

    async def take_over(self, run_id: str, event: e.RunTakenOver) -> Written | None:
        """Make `event.worker` the owner in place of one that is gone; None if it is not."""
        live = await self._read(run_id)
        if status_of(live.run) is not Status.RUNNING or live.owner != event.before:
            return None
        self._drop(run_id)
        steps = take_steps(live.run, (event,))
        write = make_write(live.last, steps, owner=event.worker, owner_was=event.before)
        return await self._landed(self._hand_over(live, steps, write, owner=event.worker))

    async def redact(self, run_id: str, event: e.EntryRedacted) -> None:
        """Erase the content of an entry of a finished run; its hash stays, and the chain holds."""
        live = await self._read(run_id)
        if not 0 < event.entry <= live.run.seq:
            raise BadValue(f"{run_id!r} has no entry {event.entry}")
        self._drop(run_id)
        steps = take_steps(live.run, (event,))
        write = msgspec.structs.replace(make_write(live.last, steps), redacts=(event.entry,))
        if await self._landed(self._hand_over(live, steps, write)) is None:
            raise StaleRun

    def pin(self, run_id: str) -> None:
        """Keep a run in memory, once it is there, until `unpin`."""
        self._pins.add(run_id)

    def unpin(self, run_id: str) -> None:
        """Let a pinned run go."""
        self._pins.discard(run_id)
        self._let_go(run_id)

    def _let_go(self, run_id: str) -> None:
        live = self._lives.get(run_id)
        if live is not None and not live.pending and run_id not in self._pins:
            del self._lives[run_id]

    async def live(self, run_id: str) -> Live:
        """Give the run in memory if it is there and not stale, else as it was last committed."""
        live = self._lives.get(run_id)
        if live is not None and not live.stale:
            return live
        return await self._open(run_id)

    async def refresh(self, run_id: str) -> Live:
        """Like `live`, after making sure that no other process has written meanwhile."""
        while (live := self._lives.get(run_id)) is not None and not live.stale:
            # The owner is known only once everything under way has landed: a claim moves it
            # without an entry.
            await live.idle.wait()
            row = await self.store.load(run_id)
            if live.pending:
                continue
            if row is not None and row.last != live.last:
                self._drop(run_id)
            elif row is not None:
                live.owner = row.owner
            break
        return await self.live(run_id)

    async def transcript(self, run_id: str) -> Transcript:
        """Give the run's conversation up to now, appends under way included."""
        while True:
            live = await self.live(run_id)
            found = live.transcript
            if found is not None and found.seq == live.run.seq:
                return found
            if found is None:
                found = await self._history.begin(live.run)
            for entry in await read_journal(self.store, run_id, after=found.seq):
                if entry.seq > found.seq:
                    found.add(entry.seq, decode(entry))
            if live.stale:
                continue
            live.transcript = found
            if found.seq >= live.run.seq:
                return found
            # What is missing is on its way to the store.
            await live.idle.wait()

    async def _finish(
        self, run_id: str, send: Callable[[Live], _Sent | None], sent: _Sent | None
    ) -> Written:
        for _ in range(TRIES_MAX):
            if sent is not None:
                written = await self._landed(sent)
                if written is not None:
                    return written
            live = await self._open(run_id)
            committed = not live.pending
            try:
                sent = send(live)
            except SaysoError:
                if committed:
                    raise
                sent = None
            if sent is None and committed:
                return Written(run=live.run, owner=live.owner)
            if sent is None:
                await live.idle.wait()
        raise StaleRun(f"{run_id!r} was written to by others {TRIES_MAX} times in a row")

    async def _landed(self, sent: _Sent) -> Written | None:
        """Wait for an append; None if somebody else was first and the verb must run again."""
        try:
            await sent.landed
            answer = sent.answer.result()
        except StaleRun:
            return None
        except CommitUnknown as unknown:
            found = await self._look_for(sent.write, unknown)
            if found is None:
                return None
            answer = found
            self._tell(sent.run, sent.owner, quiet=sent.quiet)
        return Written(run=sent.run, owner=sent.owner, events=sent.events, at=answer.at)

    def _answered(self, sent: _Sent, answer: asyncio.Future[Appended]) -> None:
        """Take note of an answer, whether or not anybody still waits for it."""
        live = sent.live
        if not sent.landed.done():
            sent.landed.set_result(None)
        live.pending -= 1
        if not live.pending:
            live.idle.set()
        if answer.cancelled() or answer.exception() is not None:
            self._spoil(live)
        else:
            self._tell(sent.run, sent.owner, live, quiet=sent.quiet)

    def _send(
        self,
        live: Live,
        *,
        verb: Verb,
        takes: Takes | None,
        key: Key | None,
        owned_by: str | None,
        quiet: bool,
    ) -> _Sent | None:
        """Run a verb and hand its append over, with no await in between."""
        before = live.run
        if owned_by is not None and live.owner != owned_by:
            return None
        events = tuple(verb(before))
        if not events:
            return None
        steps = take_steps(before, events)
        steps += take_steps(steps[-1].after, epilogue(steps[-1].after))
        after = steps[-1].after
        owner = self._owner_after(live.owner, after, takes)
        owner_was = "" if owner else owned_by
        write = make_write(live.last, steps, owner=owner, owner_was=owner_was, key=key)
        owner = live.owner if owner is None else owner
        if live.transcript is not None and live.transcript.seq == before.seq:
            for seq, step in enumerate(steps, start=before.seq + 1):
                live.transcript.add(seq, cast("e.AnyEvent", step.event))
        sent = self._hand_over(live, steps, write, owner=owner, quiet=quiet)
        self._lives.setdefault(before.id, live)
        return sent

    def _hand_over(
        self,
        live: Live,
        steps: Sequence[Step],
        write: Write,
        *,
        owner: str = "",
        quiet: bool = False,
    ) -> _Sent:
        """Give an append to the store; the run in memory is from now on what it will be."""
        sent = _Sent(
            live=live,
            run=steps[-1].after,
            events=tuple(step.event for step in steps),
            owner=owner,
            write=write,
            answer=asyncio.ensure_future(self.store.append(write)),
            landed=asyncio.get_running_loop().create_future(),
            quiet=quiet,
        )
        live.run, live.owner, live.last = sent.run, owner, write.entries[-1].id
        live.pending += 1
        live.idle.clear()
        sent.answer.add_done_callback(partial(self._answered, sent))
        return sent

    def _owner_after(self, owner: str, run: Run, takes: Takes | None) -> str | None:
        """Say who owns a run that was left like this; None: whoever did before."""
        if status_of(run) is not Status.RUNNING:
            return ""
        worker = "" if owner or takes is None else takes(run.agent)
        return worker or None

    async def _look_for(self, write: Write, unknown: CommitUnknown) -> Appended | None:
        """Find out whether an append whose answer was lost is there."""
        try:
            found = await self.store.entries(write.run, [write.after + 1])
        except StoreError:
            raise unknown from None
        if not found or found[0].id != write.entries[0].id:
            return None
        return Appended(at=found[0].at, position=found[0].position)

    async def _open(self, run_id: str) -> Live:
        live = await self._read(run_id)
        known = self._lives.get(run_id)
        if known is not None and not known.stale and known.run.seq >= live.run.seq:
            return known
        if known is not None:
            known.stale = True
        self._lives.pop(run_id, None)
        if run_id in self._pins:
            self._lives[run_id] = live
        return live

    async def _read(self, run_id: str) -> Live:
        row = await self.store.load(look_up(run_id))
        if row is None:
            raise UnknownRun(f"there is no run {run_id!r}")
        return Live(await self.read(row), owner=row.owner, last=row.last)

    def _spoil(self, live: Live) -> None:
        live.stale = True
        if self._lives.get(live.run.id) is live:
            del self._lives[live.run.id]

    def _drop(self, run_id: str) -> None:
        live = self._lives.get(run_id)
        if live is not None:
            self._spoil(live)

    def _tell(self, run: Run, owner: str, live: Live | None = None, *, quiet: bool = False) -> None:
        """Tell whoever listens of a committed write. Whoever pins the run has it in memory."""
        if live is not None and not live.stale:
            self._lives.setdefault(run.id, live)
        if self.dispatch is not None and not owner and status_of(run) is Status.RUNNING:
            self.dispatch.wake(run.id)
        for listener in () if quiet else self.listeners:
            listener(run, owner)
        self._let_go(run.id)
