"""A chat: a thread as one person sees it. What a request asks is done; what is true is told.

Rule 1: a chat is somebody's own. One of another project or person is, in every answer, one that
does not exist: whoever uses the same id has another chat.
Rule 2: a decision goes through the desk like any other, bound to the digest of what this client was
shown. One that comes too late, twice, or on something that has changed decides nothing, and is
answered with what stands.
Rule 3: what a request names is looked up before anything of it is done.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from sayso.app import Sayso
from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.hold import Delegation, Verdict, answer, approve, read_id, reject
from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.domain.run import FOLD, FOLD_LIKE, Run
from sayso.engine.ids import is_run_id
from sayso.engine.keys import KEY_MAX, check_text
from sayso.engine.people import has_started
from sayso.errors import (
    BadValue,
    NotAllowed,
    NotWhatWasShown,
    Refused,
    RunArchived,
    ThreadBusy,
    UnknownAgent,
    UnknownHold,
    UnknownRun,
    WrongVerdict,
)
from sayso.protocols.ai_sdk_message import UIMessage, show_run
from sayso.protocols.ai_sdk_part import message_id, read_message_id
from sayso.protocols.ai_sdk_request import Answer, ChatRequest
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target
from sayso.server.caller import Caller
from sayso.server.problem import describe
from sayso.store.base import RunRow
from sayso.store.journal import read_journal, recorded, replay
from sayso.store.views import HoldView

RUNS_MAX = 100
"""How many runs of a chat are shown at once, the last ones."""
FAMILY_MAX = 200
"""How many runs are told as one: a run, and those below it."""
NAMES_MAX = 8
"""How many threads of one id are looked at for one that is not somebody else's."""
_OWN = re.compile("chat_[0-9a-f]{64}")
FINAL_BADLY = ("failed", "cancelled")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a chat, for a page that loads it."""

    messages: list[UIMessage]
    status: str | None
    """Of its last run; None: there is none."""
    before: str | None = None
    """Where the page before this one ends; None: there is none."""


class Chat:
    """One person's chat. Open it with `open_chat`."""

    def __init__(
        self, app: Sayso, caller: Caller, who: Authority, thread: str, row: RunRow | None
    ) -> None:
        self.who = who
        self.row = row
        """Its last run; None: nobody has said anything yet."""
        self._app = app
        self._caller = caller
        self._thread = thread

    async def take(self, request: ChatRequest, *, supersede: bool = True) -> Target:
        """Do what a request asks, and say what is to be told in answer."""
        self._caller.need("read")  # Whatever it does, it is told what is in the chat.
        if request.answers:
            self._caller.need("decide")
            return await self._answer(request)
        if request.text is not None or request.again:
            self._caller.need("start")
        if request.text is not None:
            return await self._say(request, request.text, supersede=supersede)
        row = self._last()
        if request.again and row.status in FINAL_BADLY:
            return await self._again(request, row)
        place = read_message_id(request.message)
        if request.again or place is None or place[0] != row.id:
            return Target(run_id=row.id)
        return Target(run_id=row.id, message=place[1], seen=request.seen)

    async def is_under_way(self) -> bool:
        """Tell whether something goes on that nobody is asked about, here or in a run below."""
        if self.row is None or self.row.status not in ("running", "suspended"):
            return False
        shown = show_run(self.row.id, await read_family(self._app, self.row.id))
        return shown.status == "running"

    async def page(self, *, before: str | None = None, limit: int = RUNS_MAX) -> Page:
        """Give the chat's messages. The one that its stream would play again is not among them:
        older clients would show it twice.
        """
        runs: list[list[UIMessage]] = []
        row = self.row if before is None else await self._run(before)
        status = None if self.row is None else self.row.status
        while row is not None and len(runs) < limit:
            entries = await read_family(self._app, row.id)
            shown = show_run(row.id, entries, self.who)
            status = shown.status if row is self.row else status
            live = message_id(row.id, shown.upcoming) if shown.status == "running" else ""
            runs.append([one for one in shown.messages if one.id != live])
            row = await self._before(row)
        messages = [one for run in reversed(runs) for one in run]
        return Page(messages=messages, status=status, before=None if row is None else row.id)

    async def _before(self, row: RunRow) -> RunRow | None:
        """Find the run before another one. What others have said in the thread is not theirs."""
        previous = await self._load((await self._state(row)).previous)
        mine = previous is not None and has_started(self.who, await self._state(previous))
        return previous if mine else None

    async def _say(self, request: ChatRequest, text: str, *, supersede: bool) -> Target:
        row, agent = self.row, request.agent
        if agent is None:
            agent = self._only_agent() if row is None else row.agent
        # What is sent again after a lost answer is not said again.
        key = _key(self._thread, request.text_id, text) if request.text_id else None
        within = None if key is None else _key("say", key)
        if within and (said := await self._app.store.key(self._caller.project, within)) is not None:
            return Target(run_id=said.run_id)
        try:
            return await self._start(agent, text, key)
        except ThreadBusy:
            row, mine = await _find(self._app, self.who, self._caller.project, self._thread)
            if row is None or not mine:
                raise
        by = self._caller.by
        run = await self._app.say(row.id, text, by=by, supersede=supersede, key=within)
        return Target(run_id=run.id)

    async def _again(self, request: ChatRequest, row: RunRow) -> Target:
        """Try once more what has failed: say the same in the next run. What did not fail has been
        done, and is only told again.
        """
        shown = show_run(row.id, await read_family(self._app, row.id))
        said = [one for one in shown.messages if one.role == "user"]
        text = said[-1].parts[0]["text"] if said else ""
        key = _key(self._thread, "again", row.id)
        return await self._start(request.agent or row.agent, text, key)

    async def _start(self, agent: str, text: str, key: str | None) -> Target:
        # Those with a dot in their names are our own parts: they do what they are told, unasked.
        if agent not in self._app.agents:
            raise UnknownAgent(f"there is no agent {agent!r}")
        run = await self._app.start(
            agent,
            text,
            by=self._caller.by,
            project=self._caller.project,
            thread=self._thread,
            key=key,
        )
        return Target(run_id=run.id, message=1)

    async def _answer(self, request: ChatRequest) -> Target:
        holds = {one.hold: await self._hold(one.hold) for one in request.answers}
        alone = [one for one in request.answers if not holds[one.hold].together]
        groups: dict[str, list[Answer]] = {}
        for one in request.answers:
            if holds[one.hold].together:
                groups.setdefault(holds[one.hold].request_id, []).append(one)
        taken: set[str] = set()
        refusals: list[Chunk] = []
        for batch in [*([one] for one in alone), *groups.values()]:
            try:
                await self._decide(batch, holds, request.digests)
                taken |= {one.hold for one in batch}
            except Refused as error:
                refusals += [_refusal(one.hold, error) for one in batch]
        run_id = await self._top(holds[request.answers[-1].hold].run_id)
        place = read_message_id(request.message)
        ours = place is not None and place[0] == run_id
        return Target(
            run_id=run_id,
            message=place[1] if ours and place is not None else None,
            seen=request.seen if ours else frozenset(),
            answered=frozenset(taken),
            refusals=tuple(refusals),
        )

    async def _decide(
        self, batch: Sequence[Answer], holds: dict[str, HoldView], digests: dict[str, str]
    ) -> None:
        for one in batch:
            _check_shown(one, holds[one.hold], digests)
        first, hold, by = batch[0], holds[batch[0].hold], self._caller.by
        if not hold.together:
            await self._app.decide(
                hold.id, _verdict(first, hold), by=by, digest=digests[hold.id], channel="chat"
            )
            return
        noes = [one for one in batch if not one.approved]
        verdict = _verdict((noes or batch)[0], hold)
        # One verdict is for all of them: then all of them were shown, as they are.
        whole = await self._caller.window(self._app).request(hold.request_id)
        for one in whole.holds:
            if one.together and one.status == "open" and digests.get(one.id) != one.digest:
                raise NotWhatWasShown(digest=whole.digest)
        await self._app.resume(hold.request_id, verdict, by=by, digest=whole.digest, channel="chat")

    async def _hold(self, name: str) -> HoldView:
        """Find a hold of this chat; `UnknownHold` for every other one."""
        place = read_id("hold", name)
        row = await self._load(place[0]) if place else None
        if row is None or not await self._is_of_chat(row):
            raise UnknownHold(f"there is no hold {name!r}")
        return await self._app.hold(name)

    async def _run(self, run_id: str) -> RunRow:
        row = await self._load(run_id)
        if row is None or not await self._is_of_chat(row):
            raise UnknownRun(f"there is no run {run_id!r}")
        return row

    async def _is_of_chat(self, row: RunRow) -> bool:
        run = await self._state(row)
        if run.root and run.root != run.id:
            # What a run below another one asks is asked where the topmost of them is.
            top = await self._load(run.root)
            return top is not None and await self._is_of_chat(top)
        return self._thread in (row.thread, row.id) and has_started(self.who, run)

    async def _top(self, run_id: str) -> str:
        row = await self._run(run_id)
        return (await self._state(row)).root or run_id

    def _last(self) -> RunRow:
        if self.row is None:
            raise UnknownRun("there is no such chat")
        return self.row

    def _only_agent(self) -> str:
        agents = self._app.agents
        if len(agents) != 1:
            known = ", ".join(agents)
            raise UnknownAgent(f"say which agent this is for, as 'agent': {known or 'none'}")
        return agents[0]

    async def _load(self, run_id: str) -> RunRow | None:
        return await _load(self._app, self._caller.project, run_id)

    async def _state(self, row: RunRow) -> Run:
        return await _read(self._app, row)


async def open_chat(app: Sayso, caller: Caller, chat: str) -> Chat:
    """Open the chat that a caller means by an id. There need not be anything in it yet."""
    check_text(chat, "the chat's id", KEY_MAX)
    if not chat:
        raise BadValue("a chat has an id")
    who = await app.people.authority(caller.project, caller.by)
    if not who.active:
        raise NotAllowed(f"{who.by} may not chat: they are no longer active")
    # Names of our own making are nobody's to choose, and one that others have taken is not theirs.
    thread = _own(chat, who) if _OWN.fullmatch(chat) else chat
    for _ in range(NAMES_MAX):
        row, free = await _find(app, who, caller.project, thread)
        if free:
            return Chat(app, caller, who, thread, row)
        thread = _own(thread, who)
    raise NotAllowed("this id is taken: begin a chat with another one")


async def _find(
    app: Sayso, who: Authority, project: str, thread: str
) -> tuple[RunRow | None, bool]:
    """Find the last run of a thread; the second says whether somebody may chat in it: it is their
    own, or nobody's yet. Of one that was archived nobody could say whose it was.
    """
    try:
        row = await app.store.thread(project, thread)
        if row is None and is_run_id(thread):
            # A thread may be named by the run that it began with.
            row = await app.store.load(thread)
    except RunArchived as error:
        return None, error.project != project
    if row is None or row.project != project:
        return None, True
    return row, has_started(who, await _read(app, row))


async def _load(app: Sayso, project: str, run_id: str) -> RunRow | None:
    """Find a run of a project, if it is there and was not archived."""
    row = None
    with suppress(RunArchived):
        row = await app.store.load(run_id) if is_run_id(run_id) else None
    return row if row is not None and row.project == project else None


async def read_family(app: Sayso, run_id: str) -> list[Recorded]:
    """Read all that has happened in a run and in those below it, in the order of commits."""
    found: list[Recorded] = []
    left = [run_id]
    for one in left:
        entries = [recorded(entry) for entry in await read_journal(app.store, one)]
        found += entries
        left += [run for entry in entries for run in begun(entry)][: FAMILY_MAX - len(left)]
    return found if len(left) == 1 else sorted(found, key=lambda entry: entry.position)


def begun(entry: Recorded) -> list[str]:
    """Name the run that an entry has begun below its own."""
    event = entry.event
    if isinstance(event, e.HoldOpened) and isinstance(event.ask, Delegation):
        return [event.ask.run]
    return []


async def _read(app: Sayso, row: RunRow) -> Run:
    if FOLD_LIKE <= row.fold <= FOLD:
        return codec.decode_run(row.state)
    return await replay(app.store, row.id)


def _own(chat: str, who: Authority) -> str:
    """Name the thread of whoever's chat has an id that others use."""
    return _key(chat, str(who.by))


def _key(*parts: str) -> str:
    return "chat_" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _verdict(said: Answer, hold: HoldView) -> Verdict:
    if said.approved is None:
        return answer(said.value)
    if not said.approved:
        return reject(said.reason)
    if hold.kind != "approval":
        raise WrongVerdict(f"{hold.id!r} asks {hold.kind!r}: it is not approved in a chat")
    return approve(said.args)


def _check_shown(said: Answer, hold: HoldView, digests: dict[str, str]) -> None:
    """Refuse whoever does not say what they were shown; and a yes to what is not on the client's
    screen: an old client may not have understood that the arguments were edited, and numbers may
    not have survived the way there.
    """
    if hold.id not in digests:
        raise NotWhatWasShown(
            "an answer comes with the data-suspension part that shows what it is to",
            digest=hold.digest,
            version=hold.version,
        )
    if not said.approved or hold.status != "open" or said.shown is None:
        return
    if said.shown != hold.args:
        raise NotWhatWasShown(digest=hold.digest, version=hold.version)


def _refusal(hold: str, error: Refused) -> Chunk:
    data = {"id": hold, "error": type(error).__name__, "detail": describe(error).detail}
    return {"type": "data-refusal", "id": hold, "data": data, "transient": True}
