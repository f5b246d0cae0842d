"""Load a run, write to a run. The only caller of `append`.

Rule 1: a stale append is never sent again: the verb runs again on the reloaded run.
Rule 2: a lost answer is not a failure: the ledger looks for its entry.
Rule 3: a verb may build on appends that are still under way, but nobody is refused, or told that
nothing is to be done, on anything but committed state.
Rule 4: an append that leaves a run not running clears its owner; one that leaves it running
without an owner wakes dispatch.
Rule 5: a run that another one waits for tells it in the append that is its own end; a run that
begins others does so in the append that waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import msgspec

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.run import FOLD, FOLD_LIKE, Run, Status
from sayso.domain.standing import status_of
from sayso.domain.transcript import Transcript
from sayso.engine.beside import WHOLE, look_beside
from sayso.engine.dispatch import Dispatch
from sayso.engine.history import History
from sayso.engine.ids import look_up
from sayso.engine.live import Live
from sayso.engine.parcel import Kind
from sayso.engine.part import first_part, news_of, next_part
from sayso.engine.sent import Begins, Items, Order, Part, Posted, Sent, Takes, Verb, Written
from sayso.engine.write import make_write
from sayso.errors import (
    BadValue,
    CommitUnknown,
    NotUnderstood,
    RunExists,
    SaysoError,
    StaleRun,
    StoreError,
)
from sayso.store.answer import Answer
from sayso.store.base import Appended, HoldRow, Key, RunRow, Store, Write
from sayso.store.journal import decode, read_journal, replay
from sayso.store.look import NOTHING, Wish
from sayso.store.rows import take_steps

TRIES_MAX = 200
"""How often a verb is tried against others who write to the same run."""


class _AboveNeeded(Exception):
    """The run that waits for this one has to be at hand."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class _FoldNeeded(Exception):
    """The conversation of the run has to be at hand."""


class Ledger:
    """The one door to the store for everything that changes a run."""

    def __init__(self, store: Store, dispatch: Dispatch | None = None) -> None:
        self.store = store
        self.dispatch = dispatch
        self.listeners: list[Callable[[Run, str], None]] = []
        """Called with the run and its owner after every committed write of this process."""
        self.expectant: list[Callable[[Run, str], None]] = []
        """Called in the same way before a write is handed over, for whoever prepares what follows
        from it. It may come to nothing: nothing is done, and nobody is told, before it is
        committed.
        """
        self.notices: frozenset[Kind] = frozenset()
        """What somebody is to be told of what runs ask."""
        self.giving: set[str] = set()
        """Runs that get an owner by what is on its way to the store."""
        self._history = History(store, self.read)
        self._lives: dict[str, Live] = {}
        self._pins: set[str] = set()

    async def load(self, run_id: str) -> Run:
        """Read a run as it was last committed."""
        return (await self.look(run_id)).run

    async def look(self, run_id: str, wish: Wish = NOTHING) -> Live:
        """Like `load`, for whoever is about to write to the run, and may wish to know more."""
        found, beside = await look_beside(self.store, look_up(run_id), wish)
        return Live.of(await self.read(found.row), found, beside)

    async def read(self, row: RunRow) -> Run:
        """Read a run from its row. `NotUnderstood` if a newer Sayso has written to it: what its
        entries mean there is not known here, even if all of them can be read.
        """
        if FOLD_LIKE <= row.fold <= FOLD:
            return codec.decode_run(row.state)
        if row.fold > FOLD:
            raise NotUnderstood(f"{row.id!r} was written to by a newer Sayso; upgrade this one")
        # The row was written by code that kept its state in another shape.
        return await replay(self.store, row.id)

    def at_hand(self, run_id: str) -> Live | None:
        """Give the run in memory, if it is there, whatever of it is committed."""
        return self._lives.get(run_id)

    async def begin(self, event: e.RunStarted, *, worker: str = "", key: Key | None = None) -> Run:
        """Create a run. `RunExists` if its id is taken, `ThreadBusy` if its thread is."""
        part = self._first_part(event, worker, key)
        run = part.run
        if not run.previous:
            part.live.transcript = Transcript(run.id)
        await self._create(part)
        return run

    async def adopt(self, *runs: tuple[Run, Write]) -> None:
        """Create runs with their whole journals, all or none. `RunExists` if an id is taken."""
        lives = [(Live(run, owner="", last=b""), write) for run, write in runs]
        await self._create(*[Part(live=one, run=one.run, write=write) for one, write in lives])

    async def _create(self, *parts: Part) -> None:
        if await self._landed(self._hand_over(*parts)) is not None:
            return
        for part in parts:
            if await self.store.load(part.run.id) is not None:
                raise RunExists(f"the run {part.run.id!r} exists already")
        # The append was lost with its answer. It may still come: do not send it again.
        raise CommitUnknown

    async def write(
        self,
        run_id: str,
        verb: Verb,
        *,
        takes: Takes | None = None,
        key: Key | None = None,
        owned_by: str | None = None,
        items: Items | None = None,
        seen: Live | None = None,
    ) -> Written:
        """Do something to a run. Committed when this returns; what a verb raises goes through.

        If the run is left running and has no owner, the worker that `takes` names becomes it.
        With `owned_by`, nothing is done unless that worker owns the run at the time of the commit.
        Whoever has just looked at the run gives what they have `seen`, which need not be read again
        unless somebody else was first.
        """
        return await self.post(
            run_id, verb, takes=takes, key=key, owned_by=owned_by, items=items, seen=seen
        )

    def post(
        self,
        run_id: str,
        verb: Verb,
        *,
        takes: Takes | None = None,
        key: Key | None = None,
        owned_by: str | None = None,
        quiet: bool = False,
        begins: Begins | None = None,
        items: Items | None = None,
        seen: Live | None = None,
    ) -> Posted:
        """Like `write`; if the run is in memory, the append is handed over in the call itself, so
        that the next verb builds on it. Await the answer before telling anybody. With `quiet`,
        listeners are not told: the one who works on the run has done this. `begins` names runs that
        begin in the same append; `items`, asked after the verb, what it puts on the shelf.
        """
        order = Order(
            verb=verb,
            takes=takes,
            key=key,
            owned_by=owned_by,
            quiet=quiet,
            begins=begins,
            items=items,
        )
        live = self._lives.get(run_id, seen)
        sent: Sent | None = None
        if live is not None and not live.stale:
            try:
                sent = self._send(order, live)
            except (SaysoError, _AboveNeeded, _FoldNeeded):
                sent = None  # Only committed state may refuse: `_finish` looks again.
        return Posted(partial(self._finish, run_id, order, sent))

    async def take_over(self, run_id: str, event: e.RunTakenOver) -> Written | None:
        """Make `event.worker` the owner in place of one that is gone; None if it is not."""
        live = await self.look(run_id)
        if status_of(live.run) is not Status.RUNNING or live.owner != event.before:
            return None
        self._drop(run_id)
        steps = take_steps(live.run, (event,))
        write = make_write(live.last, steps, owner=event.worker, owner_was=event.before)
        part = Part(
            live=live, run=steps[-1].after, events=(event,), owner=event.worker, write=write
        )
        return await self._landed(self._hand_over(part))

    async def redact(self, run_id: str, event: e.Erasing, holds: Sequence[HoldRow] = ()) -> None:
        """Erase what entries of a finished run say, and put these rows of holds; hashes stay."""
        live = await self.look(run_id)
        if not 0 < event.erases.start < event.erases.stop <= live.run.seq + 1:
            raise BadValue(f"{run_id!r} has no entry {event.erases.stop - 1}")
        self._drop(run_id)
        steps = take_steps(live.run, (event,))
        write = msgspec.structs.replace(make_write(live.last, steps), holds=tuple(holds))
        part = Part(live=live, run=steps[-1].after, events=(event,), owner="", write=write)
        if await self._landed(self._hand_over(part)) is None:
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
        return await self._open(run_id, whole=run_id in self._pins)

    async def refresh(self, run_id: str) -> Live:
        """Like `live`, after making sure that no other process has written meanwhile."""
        while (live := self._lives.get(run_id)) is not None and not live.stale:
            # The owner is known only once everything under way has landed: a claim moves it
            # without an entry.
            await live.idle()
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
        return (await self.both(run_id))[1]

    async def both(self, run_id: str) -> tuple[Live, Transcript]:
        """Give the run in memory together with its conversation."""
        while True:
            live = await self.live(run_id)
            found = live.transcript
            if found is not None and found.seq == live.run.seq:
                return live, found
            if found is None:
                found = await self._history.begin(live.run)
            journal, live.unread = live.unread, ()
            journal = journal or await read_journal(self.store, run_id, after=found.seq)
            if live.contradicts(journal):
                # Somebody else has written, and what is under way comes to nothing.
                await live.idle()
                self._spoil(live)
                continue
            for entry in journal:
                if entry.seq > found.seq:
                    found.add(entry.seq, decode(entry))
            if live.stale:
                continue
            live.committed = max([live.committed, *(entry.seq for entry in journal[-1:])])
            live.add_to(found)
            live.transcript = found
            if found.seq >= live.run.seq:
                return live, found
            # What is missing is on its way to the store.
            await live.idle()

    def fold(self, run: Run) -> Transcript:
        """Give the conversation of a run, inside a verb; it is run again once that is at hand."""
        live = self._lives.get(run.id)
        if live is None or live.run is not run or live.transcript is None:
            raise _FoldNeeded
        if live.transcript.seq != run.seq:
            raise _FoldNeeded
        return live.transcript

    async def _finish(self, run_id: str, order: Order, sent: Sent | None) -> Written:
        above: dict[str, Live] = {}
        lost: list[Sent] = []
        for _ in range(TRIES_MAX):
            if sent is not None:
                written = await self._landed(sent)
                if written is not None:
                    return written
                lost += [sent] if sent.lost else []
            live = await self._open(run_id)
            committed = not live.pending
            try:
                sent = self._send(order, live, above)
            except _AboveNeeded as needed:
                known = above.get(needed.run_id)
                if known is not None:
                    await known.idle()
                above[needed.run_id] = await self._open(needed.run_id)
                sent = None
                continue
            except _FoldNeeded:
                await self.transcript(run_id)
                sent = None
                continue
            except SaysoError:
                if committed:
                    if (mine := await self._arrived(lost)) is not None:
                        return mine
                    raise
                sent = None
            above = {}
            if sent is None and committed:
                mine = await self._arrived(lost)
                return mine or Written(run=live.run, owner=live.owner)
            if sent is None:
                await live.idle()
        raise StaleRun(f"{run_id!r} was written to by others {TRIES_MAX} times in a row")

    async def _landed(self, sent: Sent) -> Written | None:
        """Wait for an append; None if somebody else was first and the verb must run again."""
        try:
            await sent.landed
            answer = sent.answer.result()
        except StaleRun:
            return None
        except CommitUnknown as unknown:
            return await self._found(sent, unknown)
        return sent.parts[0].written(answer.at)

    async def _arrived(self, lost: Sequence[Sent]) -> Written | None:
        """Find what was not there when it was first looked for: it may have been on its way, and be
        what there is nothing left to do after. Whoever wrote it is not told that others did.
        """
        for sent in lost:
            if (written := await self._found(sent, CommitUnknown())) is not None:
                return written
        return None

    async def _found(self, sent: Sent, unknown: CommitUnknown) -> Written | None:
        """Find out whether an append whose answer was lost is there, and what it did."""
        write = sent.parts[0].write
        try:
            found = await self.store.entries(write.run, [write.after + 1])
        except StoreError:
            raise unknown from None
        if not found or found[0].id != write.entries[0].id:
            sent.lost = True
            return None
        for part in sent.parts:
            self._tell(part.run, part.owner, quiet=part.quiet)
        return sent.parts[0].written(found[0].at)

    def _answered(self, sent: Sent, answer: asyncio.Future[Appended]) -> None:
        """Take note of an answer, whether or not anybody still waits for it."""
        if not sent.landed.done():
            sent.landed.set_result(None)
        failed = answer.cancelled() or answer.exception() is not None
        for part in sent.parts:
            live = part.live
            live.landed()
            self.giving.discard(part.run.id)
            if failed:
                self._spoil(live)
            else:
                live.committed = max(live.committed, part.run.seq)
                self._tell(part.run, part.owner, live, quiet=part.quiet)

    def _send(
        self, order: Order, live: Live, above: Mapping[str, Live] = MappingProxyType({})
    ) -> Sent | None:
        """Run a verb and hand its append over, with no await in between."""
        if order.owned_by is not None and live.owner != order.owned_by:
            return None
        events = order.verb(live.run)
        if not events:
            return None
        parts = [self._part(live, events, order)]
        # An end may be the end of the run above as well, and so on.
        while (run := parts[-1].run).final and run.parent:
            one = above.get(run.parent)
            if one is None or one.stale:
                raise _AboveNeeded(run.parent)
            news = news_of(parts[-1], one.run, self.store.now())
            if not news and one.pending:
                # What is under way may fail: only a committed run waits for nobody.
                raise _AboveNeeded(run.parent)
            if not news:
                break
            parts.append(self._part(one, news, Order(verb=order.verb, takes=order.takes)))
        children = () if order.begins is None else order.begins(parts[0].run, events)
        parts += [self._first_part(child) for child in children]
        return self._hand_over(*parts)

    def _first_part(self, event: e.RunStarted, worker: str = "", key: Key | None = None) -> Part:
        return first_part(event, worker, key)

    def _part(self, live: Live, events: Sequence[e.Event], order: Order) -> Part:
        now = 0 if live.run.work_time is None else self.store.now()
        return next_part(
            live, events, order, owner=self._owner_after, notices=self.notices, now=now
        )

    def _owner_after(self, owner: str, run: Run, takes: Takes | None) -> str | None:
        """Say who owns a run that was left like this; None: whoever did before."""
        if status_of(run) is not Status.RUNNING:
            return ""
        worker = "" if owner or takes is None else takes(run.agent)
        return worker or None

    def _hand_over(self, *parts: Part) -> Sent:
        """Give an append to the store; its runs in memory are from now on what they will be."""
        # First, so that what is prepared in the same breath is handed over together with this.
        for part in parts:
            for expect in () if part.quiet else self.expectant:
                expect(part.run, part.owner)
        sent = Sent(
            parts=parts,
            answer=asyncio.ensure_future(self.store.append(*[part.write for part in parts])),
            landed=asyncio.get_running_loop().create_future(),
        )
        for part in parts:
            live, after, entries = part.live, part.write.after, part.write.entries
            said = [
                (seq, entry.id, event)
                for seq, (entry, event) in enumerate(
                    zip(entries, part.events, strict=False), start=after + 1
                )
            ]
            live.go_on(part.run, owner=part.owner, last=entries[-1].id, said=said)
            self.giving.update([part.run.id] if part.write.owner else ())
            if after:
                self._lives.setdefault(part.run.id, live)
        answered = partial(self._answered, sent)
        if isinstance(sent.answer, Answer):
            sent.answer.tell(answered)  # Whoever waits for it is then woken a tick sooner.
        else:
            sent.answer.add_done_callback(answered)
        return sent

    async def _open(self, run_id: str, *, whole: bool = False) -> Live:
        live = await self.look(run_id, WHOLE if whole else NOTHING)
        known = self._lives.get(run_id)
        if known is not None and not known.stale and known.run.seq >= live.run.seq:
            if known.last == live.last:
                # A claim gives a run its owner without an entry, and nothing takes it so.
                known.owner = known.owner or live.owner
            return known
        if known is not None:
            known.stale = True
        self._lives.pop(run_id, None)
        if run_id in self._pins:
            self._lives[run_id] = live
        return live

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
