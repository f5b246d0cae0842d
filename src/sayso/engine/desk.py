"""Where people come in: start, say, decide, undo, cancel.

Rule: who acts is given by the caller's credentials, never by what is in the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from sayso.domain import codec, settling, verbs
from sayso.domain import events as e
from sayso.domain.digest import encode_value
from sayso.domain.lifecycle import FINAL
from sayso.domain.message import Message
from sayso.domain.run import Run, Status
from sayso.domain.settling import Draft
from sayso.domain.standing import status_of
from sayso.domain.value import Principal
from sayso.engine.decide import Decided, Decider
from sayso.engine.door import DoorKeeper, guarded
from sayso.engine.ids import check_run_id, is_run_id, new_id
from sayso.engine.keys import KEY_MAX, check_text, idempotency_key, is_retry, start_key
from sayso.engine.parts import Parts
from sayso.engine.ports import AskedCall, Driver, Scene, Tool
from sayso.engine.request import REASON_MAX, Decide
from sayso.errors import (
    BadValue,
    KeyReused,
    NotAllowed,
    Refused,
    RunArchived,
    RunWaiting,
    ThreadBusy,
    TooManyCommands,
    UnknownAgent,
    UnknownRun,
)
from sayso.store.base import HoldFound, HoldRow, Key
from sayso.store.journal import decode, read_journal
from sayso.store.rows import erased_row, without_vote

if TYPE_CHECKING:
    from sayso.engine.remind import When
    from sayso.engine.worker import Worker

INPUT_MAX = 1_000_000
"""No message to an agent is longer."""
COMMANDS_MAX = 128
"""No run has more commands that are not over: its row holds all of them."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be started."""

    agent: str
    input: str
    by: Principal
    project: str = "default"
    thread: str | None = None
    id: str | None = None
    history: tuple[Message, ...] = ()
    key: str | None = None
    metadata: dict[str, Any] | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command to be invoked on a run."""

    name: str
    args: Mapping[str, Any]
    by: Principal
    strand: str | None = None
    key: str | None = None


class Desk:
    """What people can do."""

    def __init__(self, parts: Parts, worker: Worker | None = None) -> None:
        self._parts = parts
        self._worker = worker
        self._decider = Decider(parts, self._takes)

    @property
    def door(self) -> DoorKeeper:
        """Where those are written down who are refused."""
        return self._parts.door

    @guarded("start")
    async def start(self, request: Start) -> str:
        """Start a run; give its id. A retry with the same key gives the same run."""
        known = isinstance(request.agent, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        driver = self._parts.drivers.get(request.agent) if known else None
        if driver is None:
            raise _unknown_agent(request.agent, self._parts.drivers)
        _check(request)
        metadata = None if request.metadata is None else encode_value(request.metadata)
        key = start_key(
            request.project,
            request.key,
            agent=request.agent,
            input=request.input,
            by=request.by,
            thread=request.thread or "",
            metadata=metadata,
        )
        return await self._once(key, lambda: self._begin(request, driver, metadata, key))

    async def _begin(
        self, request: Start, driver: Driver, metadata: bytes | None, key: Key | None
    ) -> str:
        now = self._parts.store.now()
        who = await self._parts.records.authority(request.project, request.by)
        if not who.active:
            raise NotAllowed(f"{who.by} may not start anything: they are no longer active")
        previous = await self._previous(request.project, request.thread, request.by)
        event = e.RunStarted(
            run=new_id("run", now) if request.id is None else check_run_id(request.id),
            project=request.project,
            agent=request.agent,
            by=who.by,
            input=request.input,
            at=now,
            agent_version=driver.version,
            policy_version=self._parts.gate.policy.version,
            thread=request.thread or "",
            previous=previous,
            history=request.history,
            metadata=None if metadata is None else msgspec.Raw(metadata),
            key=request.key or "",
            turns_max=driver.turns_max,
            timeout_ms=driver.timeout_ms,
        )
        worker = self._takes(request.agent)
        return (await self._parts.ledger.begin(event, worker=worker, key=key)).id

    @guarded("say")
    async def say(
        self,
        run_id: str,
        text: str,
        *,
        by: Principal,
        supersede: bool = False,
        key: str | None = None,
    ) -> str:
        """Say something to a run; to a finished one, start its thread's next. Give the run's id. A
        retry with the same key says nothing more, whatever has become of the run.
        """
        check_text(text, "the message", INPUT_MAX)
        run = await self._parts.ledger.load(run_id)
        by = await self._parts.records.owning(run, by)
        how = "supersede" if supersede else ""
        bound = idempotency_key(run.project, key, "say", run_id, text, str(by), how)
        driver = self._parts.drivers.get(run.agent)
        if status_of(run) in FINAL:
            if driver is None:
                raise _unknown_agent(run.agent, self._parts.drivers)
            thread, agent = run.thread or run.id, run.agent
            following = Start(
                agent=agent, input=text, by=by, project=run.project, thread=thread, key=key
            )
            return await self._once(bound, lambda: self._begin(following, driver, None, bound))
        now = self._parts.store.now()
        listens = driver is not None and driver.listens

        async def speak() -> str:
            await self._parts.ledger.write(
                run_id,
                lambda run: verbs.say(
                    run,
                    text,
                    by=by,
                    now=now,
                    key=key or "",
                    supersede=supersede,
                    listens=listens,
                ),
                takes=self._takes,
                key=bound,
            )
            return run_id

        return await self._once(bound, speak)

    @guarded("cancel")
    async def cancel(self, run_id: str, *, by: Principal, reason: str = "") -> None:
        """End a run. What has started is waited for. Cancelling twice is fine."""
        check_text(reason, "the reason", REASON_MAX)
        run = await self._parts.ledger.load(run_id)
        by = await self._parts.records.owning(run, by)
        now = self._parts.store.now()
        await self._parts.ledger.write(
            run_id,
            lambda run: (
                []
                if run.final == Status.CANCELLED
                else settling.cancel(run, by=by, now=now, reason=reason)
            ),
            takes=self._takes,
        )
        from sayso.engine.cascade import cancel_children

        await cancel_children(self._parts, run_id, self._takes)

    @guarded("command")
    async def command(self, run_id: str, request: Command) -> str:
        """Invoke a command on a run; give its call's ref. What is wrong with it is its outcome."""
        check_text(request.name, "the name of the command", KEY_MAX)
        run = await self._parts.ledger.load(run_id)
        request = msgspec.structs.replace(
            request, by=await self._parts.records.owning(run, request.by)
        )
        driver = self._parts.drivers.get(run.agent)
        if driver is None:
            raise UnknownAgent(f"the agent {run.agent!r} of {run_id!r} is not known here")
        args = encode_value(dict(request.args))
        key = idempotency_key(
            run.project,
            request.key,
            "command",
            run_id,
            request.name,
            str(request.by),
            self._name_args(driver.commands.get(request.name), args),
            request.strand or "",
        )
        if key is not None and await is_retry(self._parts.store, key):
            return await self._commanded(run_id, request.key or "")
        strand = request.strand or e.MAIN
        transcript = await self._parts.ledger.transcript(run_id)
        admitted = await self._parts.gate.admit(
            run,
            AskedCall(tool=request.name, args=args.decode()),
            ref="c0",
            tools=driver.commands_of(Scene(run, transcript), strand),
            transcript=transcript,
            checks=self._parts.checks(run),
        )

        def verb(run: Run) -> list[e.Event]:
            if run.strand(strand) is None:
                raise UnknownRun(f"{run_id!r} has no strand {strand!r} any more")
            if len(run.commands) >= COMMANDS_MAX:
                raise TooManyCommands(
                    f"{run_id!r} has {COMMANDS_MAX} open commands: decide what they ask, or wait "
                    "for them, then try again"
                )
            now = self._parts.store.now()
            draft = Draft(run)
            draft.add(
                *verbs.command(
                    run,
                    admitted.call,
                    by=request.by,
                    now=now,
                    key=request.key or "",
                    strand=strand,
                )
            )
            ref = draft.run.commands[-1].ref
            if admitted.outcome is not None:
                draft.add(*verbs.decline(draft.run, ref, admitted.outcome))
            elif admitted.request is not None:
                asked = msgspec.structs.replace(admitted.request, ref=ref)
                draft.add(*verbs.open_holds(draft.run, [asked], now=now))
            return draft.events

        try:
            written = await self._parts.ledger.write(run_id, verb, takes=self._takes, key=key)
        except KeyReused:
            # An impatient client may have sent the same request twice, and this is the second.
            if key is None or not await is_retry(self._parts.store, key):
                raise
            return await self._commanded(run_id, request.key or "")
        return next(one.call.ref for one in written.events if isinstance(one, e.CommandReceived))

    def _name_args(self, tool: Tool | None, args: bytes) -> bytes:
        # What is secret must not be found out by trying values against its digest.
        if tool is None or not tool.takes_secrets:
            return args
        return self._parts.vault.keys().sign("command", args).encode()

    async def _commanded(self, run_id: str, key: str) -> str:
        for entry in await read_journal(self._parts.store, run_id):
            event = decode(entry)
            if isinstance(event, e.CommandReceived) and event.key == key:
                return event.call.ref
        raise KeyReused

    @guarded("decide")
    async def decide(self, hold: str, request: Decide) -> Decided:
        """Decide a hold. The first decision stands; `AlreadyDecided` says which."""
        return await self._decider.decide(hold, request)

    @guarded("resume")
    async def resume(self, request_id: str, request: Decide) -> list[HoldFound]:
        """Decide everything that a suspension still asks, all or nothing."""
        return await self._decider.resume(request_id, request)

    @guarded("reassign")
    async def reassign(
        self, hold: str, *, to: Principal, by: Principal, note: str = ""
    ) -> HoldFound:
        """Let somebody else decide in one's place."""
        return await self._decider.reassign(hold, to=to, by=by, note=note)

    @guarded("remind")
    async def remind(self, hold: str, when: When, *, by: Principal) -> datetime:
        """Have somebody told again of what they are asked; say when that is."""
        from sayso.engine.remind import remind_later

        return await remind_later(self._parts, hold, when, by)

    @guarded("undo")
    async def undo(self, hold: str, *, by: Principal) -> HoldFound:
        """Take back one's own decision before it is effective."""
        return await self._decider.undo(hold, by=by)

    @guarded("redact")
    async def redact(self, run_id: str, entry: int, *, by: Principal, reason: str = "") -> None:
        """Erase the content of an entry of a finished run."""
        check_text(reason, "the reason", REASON_MAX)
        run = await self._parts.ledger.load(run_id)
        by = await self._parts.records.owning(run, by)
        if not run.final:
            raise RunWaiting(f"{run_id!r} is not finished: nothing of it can be erased yet")
        now = self._parts.store.now()
        event = e.EntryRedacted(entry=entry, by=by, at=now, reason=reason)
        await self._parts.ledger.redact(run_id, event, await self._rows_of(run_id, entry))

    async def _rows_of(self, run_id: str, entry: int) -> list[HoldRow]:
        """Give the row of a hold without what an entry says of how it was decided."""
        read = await self._parts.store.entries(run_id, [entry])
        event = decode(read[0]) if read else None
        if not isinstance(event, e.HoldSettled | e.VoteCast):
            return []
        found = await self._parts.store.hold(run_id, event.hold)
        if found is not None and isinstance(event, e.VoteCast):
            return [without_vote(found.row, event.decision)]
        if found is None or found.row.decision != codec.encode_decision(event.decision):
            return []  # It was taken back, and decided again.
        return [erased_row(found.row)]

    async def _once(self, key: Key | None, attempt: Callable[[], Awaitable[str]]) -> str:
        """Do something that a key is good for once; give the run that it was done to."""
        if key is not None and (run_id := await self._done_to(key)) is not None:
            return run_id
        try:
            return await attempt()
        except Refused:
            # An impatient client may have sent the same request twice, and this is the second.
            run_id = None if key is None else await self._done_to(key)
            if run_id is None:
                raise
            return run_id

    async def _done_to(self, key: Key) -> str | None:
        if not await is_retry(self._parts.store, key):
            return None
        found = await self._parts.store.key(key.project, key.key)
        return None if found is None else found.run_id

    async def _previous(self, project: str, thread: str | None, by: Principal) -> str:
        if thread is None:
            return ""
        try:
            row = await self._parts.store.thread(project, thread)
            if row is None and is_run_id(thread):
                # A thread may be named by the run that it began with.
                row = await self._parts.store.load(thread)
        except RunArchived as error:
            if error.project == project:
                raise
            return ""
        if row is None or row.project != project:
            return ""
        await self._parts.records.owning(await self._parts.ledger.read(row), by)
        if row.status not in FINAL:
            raise ThreadBusy(f"the thread's latest run {row.id!r} is {row.status}", run_id=row.id)
        return row.id

    def _takes(self, agent: str) -> str:
        return "" if self._worker is None else self._worker.takes(agent)


def _unknown_agent(name: object, drivers: Iterable[str]) -> UnknownAgent:
    # Nobody can give an agent a name with a dot: those are our own.
    known = ", ".join(sorted(each for each in drivers if "." not in each))
    there = f"the agents are: {known}" if known else "there are none: give Sayso(agents=[...])"
    return UnknownAgent(f"there is no agent {name!r}; {there}")


def _check(request: Start) -> None:
    check_text(request.input, "the input", INPUT_MAX)
    check_text(request.project, "the project", KEY_MAX)
    if request.thread is not None:
        check_text(request.thread, "the thread", KEY_MAX)
        if not request.thread:
            raise BadValue("an empty thread is no thread: leave it out")
    if not all(isinstance(message, Message) for message in request.history):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue("a history is made of messages: UserMessage, AssistantMessage, ToolMessage")
