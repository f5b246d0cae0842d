"""Whatever people, clocks and crashes do, in whatever order: the app does what a plain model says.

Method: hypothesis makes up stories of starts, decisions by the right and the wrong person on right
and old digests with new and used keys, edits, undos, cancellations, time, sweeps, crashes, doubts.
After each step the app is compared with a model that is nothing but dictionaries; the judge, who
knows only the promises, reads journals and ledger on the way and at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sayso import (
    Agent,
    Bounds,
    Context,
    NotDone,
    Policy,
    Rule,
    Sayso,
    answer,
    anyone,
    approve,
    fail,
    reject,
    tool,
    user,
)
from sayso.domain.digest import suspension_digest
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    HoldExpired,
    KeyReused,
    NotAllowed,
    NotWhatWasShown,
    RunFinished,
    RunWaiting,
    SaysoError,
    StoreClosed,
    WorkerMayLive,
    WrongVerdict,
)
from sayso.store.base import Write
from sayso.store.query import HoldQuery
from sayso.testing import ScriptedModel, call, say

from .judge import judge
from .kit import Delegate, Place, journal

HOUR = 3_600_000
LARGE = 1000
PEOPLE = ("mira", "boss", "noor")
KINDS = ("free", "asks", "bolder")
"""Calls that need nobody, somebody within the hour, and somebody whose silence is a yes."""
HOWS = ("fine", "fails", "slow", "lost", "early")
SEEN: Counter[str] = Counter()
"""What the stories came by: one that never meets anything tests nothing."""
SOMETIMES = {
    "AlreadyDecided", "CannotUndo", "HoldExpired", "NotAllowed", "NotWhatWasShown", "RunWaiting",
    "approved approval", "approved in_doubt", "expired approval", "rejected approval",
    "withdrawn approval", "retry", "doubt lost", "doubt slow",
}  # fmt: skip


# The model: what should be so.


@dataclass
class MHold:
    index: int
    call: MCall
    kind: str
    who: tuple[str, ...]
    deadline: int | None
    version: int = 1
    n: int = 0
    """Its number and its suspension, as found: of two doubts at a time either may be first."""
    suspension: int = 0
    status: str = "open"
    decided_by: str = ""
    word: str = ""
    effective_at: int = 0

    def may(self, by: str) -> bool:
        return "anyone" in self.who or f"user:{by}" in self.who


@dataclass
class MCall:
    ref: str
    kind: str
    how: str
    amount: int
    state: str = "new"
    version: int = 1
    attempt: int = 0
    effects: int = 0
    outcome: str = ""


@dataclass
class MRun:
    id: str
    calls: list[MCall]
    holds: list[MHold] = field(default_factory=list)
    cancelling: bool = False
    final: str = ""

    @property
    def status(self) -> str:
        if self.final:
            return self.final
        return "running" if any(c.state == "slow" for c in self.calls) else "suspended"

    @property
    def open(self) -> list[MHold]:
        return [hold for hold in self.holds if hold.status != "settled"]


class Model:
    """All runs, as they should be."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.runs: dict[str, MRun] = {}

    def start(self, run: MRun) -> None:
        self.runs[run.id] = run
        for one in run.calls:
            if one.kind != "free":
                one.state = "held"
                self.ask(run, one, "approval")
        for one in run.calls:
            if one.kind == "free":
                self.begin(run, one)
        self.end(run)

    def approvers(self, one: MCall) -> tuple[str, ...]:
        if one.amount > LARGE:
            return ("user:boss",)
        return ("anyone",) if one.kind in ("asks", "bolder") else ("user:mira",)

    def ask(self, run: MRun, one: MCall, kind: str) -> None:
        asked = kind == "approval" and one.kind != "rule"
        deadline = self.now + HOUR if asked else None
        index = len(run.holds)
        who = self.approvers(one)
        run.holds.append(MHold(index, one, kind, who, deadline, version=one.version))

    def begin(self, run: MRun, one: MCall) -> None:
        one.attempt += 1
        match one.how:
            case "fine":
                one.effects += 1
                self.finish(run, one, "Returned")
            case "fails":
                self.finish(run, one, "Failed")
            case "slow":
                one.effects += 1
                one.state = "slow"
            case "lost":
                one.effects += 1
                self.doubt(run, one)
            case "early":
                one.attempt += one.attempt == 1
                one.effects += 1
                self.finish(run, one, "Returned")

    def doubt(self, run: MRun, one: MCall) -> None:
        SEEN[f"doubt {one.how}"] += 1
        one.state = "doubted"
        self.ask(run, one, "in_doubt")

    def finish(self, run: MRun, one: MCall, outcome: str) -> None:
        one.state, one.outcome = "done", outcome
        self.end(run)

    def end(self, run: MRun) -> None:
        if not run.final and all(c.state == "done" for c in run.calls):
            run.final = "cancelled" if run.cancelling else "completed"

    def settle(self, run: MRun, hold: MHold, word: str, by: str) -> None:
        SEEN[f"{word} {hold.kind}"] += 1
        hold.status, hold.word, hold.decided_by = "settled", word, by
        one = hold.call
        silent_yes = one.kind == "bolder" and one.amount <= LARGE
        yes = word == "approved" or (word == "expired" and silent_yes)
        if yes and run.cancelling:
            self.finish(run, one, "Declined")
        elif yes:
            self.begin(run, one)
        else:
            said = {"answered": "Returned", "errored": "Unknown"}
            self.finish(run, one, said.get(word, "Declined"))

    def sweep(self, run: MRun) -> None:
        for hold in list(run.open):
            if hold.status == "decided":
                if hold.effective_at <= self.now:
                    self.settle(run, hold, hold.word, hold.decided_by)
            elif hold.deadline is not None and hold.deadline <= self.now:
                self.settle(run, hold, "expired", "clock")

    def cancel(self, run: MRun) -> None:
        run.cancelling = True
        for hold in list(run.open):
            if hold.kind == "approval":
                self.settle(run, hold, "withdrawn", "mira")
        self.end(run)

    def refusal(self, run: MRun, hold: MHold, by: str, shown: int | None) -> Any:
        """Which error a decision meets before anything else is looked at; None if none."""
        if hold.status == "settled":
            self.sweep(run)
            if not hold.may(by):
                return NotAllowed
            return HoldExpired if hold.word == "expired" else AlreadyDecided
        if shown != hold.version and (shown is not None or hold.version > 1):
            return NotWhatWasShown
        if not hold.may(by):
            return NotAllowed
        if hold.status == "decided":
            return AlreadyDecided
        if hold.deadline is not None and hold.deadline <= self.now:
            self.sweep(run)
            return HoldExpired
        return None


# The app under test.


class Cable(Delegate):
    """The line between an app and its store: once cut, the app's process is as good as dead."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        if self.cut and name not in ("now", "tick", "name"):
            raise StoreClosed
        return getattr(self.inner, name)

    def append(self, *writes: Write) -> Any:
        if self.cut:
            raise StoreClosed
        return self.inner.append(*writes)


class Lifecycle(RuleBasedStateMachine):
    kind = "memory"

    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        shm = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(prefix="sayso-", dir=shm if shm.is_dir() else None))
        self.place = Place(self.kind, self.root)
        self.model = Model(self.place.clock.now())
        self.loop = asyncio.new_event_loop()
        self.go: dict[str, asyncio.Event] = {}
        self.digests: dict[tuple[str, int], str] = {}
        self.keys: dict[str, tuple[Any, ...]] = {}
        self.counter = 0
        self.steps = 0

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    @initialize()
    def open(self) -> None:
        self.do(self._open())

    async def _open(self) -> None:
        store = await self.place.store()
        self.store = store
        self.cable = Cable(store)
        self.app = Sayso(
            self.cable,
            agents=[self._agent()],
            policy=Policy(
                Rule("act_*", when=lambda c: c.args["amount"] > LARGE, approvers=[user("boss")])
            ),
            bounds=Bounds(look_s=3600, beat_s=3600),
            drain_s=0.0,
        )
        await self.app.open()

    def _agent(self) -> Agent:
        def make(kind: str, **options: Any) -> Any:
            @tool(name=f"act_{kind}", effect="once", timeout="1m", **options)
            async def act(ctx: Context, amount: int, how: str) -> str:
                if how == "early" and ctx.attempt == 1:
                    raise NotDone("not yet")
                if how == "fails":
                    raise ValueError("no")
                self.place.world.act(ctx, {"amount": amount, "how": how})
                if how == "lost":
                    raise ConnectionResetError("gone")
                if how == "slow":
                    await self.go.setdefault(ctx.key, asyncio.Event()).wait()
                return "acted"

            return act

        asks = {"approval": True, "approvers": [anyone], "within": "1h"}
        script: dict[str, Any] = {}
        self.scripts = script

        def turn(messages: Any) -> Any:
            self.place.world.write("turns", f"{messages[0].text} {len(messages)}")
            return say("done") if len(messages) > 1 else script[messages[0].text]

        return Agent(
            "teller",
            model=ScriptedModel(turn),
            tools=[
                make("free"),
                make("asks", **asks),
                make("bolder", on_silence="approve", **asks),
            ],
        )

    def teardown(self) -> None:
        try:
            if hasattr(self, "app"):
                self.do(self._judge())
                self.cable.cut = True
                self.do(self.app.close())
                self.do(self._close_store())
        finally:
            self.loop.run_until_complete(self._cancel_all())
            self.loop.close()
            shutil.rmtree(self.root, ignore_errors=True)

    async def _cancel_all(self) -> None:
        pending = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _judge(self) -> None:
        await judge(self.store, self.place.world, ("act_asks", "act_bolder"))
        turns = self.place.world.read("turns")
        assert len(turns) == len(set(turns)), "a turn was taken twice (I14)"

    async def _close_store(self) -> None:
        if self.kind == "sqlite":
            await self.store.close()

    # What people do.

    @rule(
        target=holds,
        calls=st.lists(
            st.tuples(st.sampled_from(KINDS), st.sampled_from(HOWS), st.sampled_from((10, 5000))),
            min_size=1,
            max_size=4,
        ),
    )
    def start(self, calls: list[tuple[str, str, int]]) -> Any:
        if len(self.model.runs) >= 4:
            return multiple()
        self.counter += 1
        run_id = f"run_{self.counter}"
        made = [
            # A free call over the limit is asked about after all.
            MCall(f"1.{i}", "rule" if kind == "free" and amount > LARGE else kind, how, amount)
            for i, (kind, how, amount) in enumerate(calls)
        ]
        self.scripts[run_id] = [
            call(f"act_{kind}", {"amount": amount, "how": how}) for kind, how, amount in calls
        ]
        self._scripts_kept = {**getattr(self, "_scripts_kept", {}), run_id: self.scripts[run_id]}
        run = MRun(run_id, made)
        self.model.start(run)
        self.do(self.app.start("teller", run_id, by="mira", id=run_id))
        self._remember(run)
        return multiple(*((run_id, hold.index) for hold in run.holds))

    @rule(
        target=holds,
        at=holds,
        by=st.sampled_from(PEOPLE),
        said=st.sampled_from(("approve", "reject", "answer", "fail")),
        seen=st.sampled_from(("now", "now", "now", "first", "none", "wrong")),
        undo=st.booleans(),
        key=st.sampled_from((None, None, "new", "used")),
    )
    def decide(self, at: Any, by: str, said: str, seen: str, undo: bool, key: str | None) -> Any:
        return self._decide(at, by, said, seen, undo=undo, key=key)

    @rule(
        target=holds,
        at=holds,
        yes=st.booleans(),
        undo=st.sampled_from((False, False, True)),
        key=st.sampled_from((None, "new")),
    )
    def decide_as_one_should(self, at: Any, yes: bool, undo: bool, key: str | None) -> Any:
        _, hold = self._at(at)
        by = "boss" if hold.may("boss") else "mira"
        no = "answer" if hold.kind == "in_doubt" else "reject"
        return self._decide(at, by, "approve" if yes else no, "now", undo=undo, key=key)

    def _may_live(self, run: MRun, hold: Any) -> bool:
        """Tell what the card says that people are shown: deciding must agree with it."""
        return self.do(self.app.doubt(self._id(run, hold))).may_live

    def _decide(
        self, at: Any, by: str, said: str, seen: str, *, undo: bool, key: str | None
    ) -> Any:
        run, hold = self._at(at)
        digest = {
            "now": self.digests[run.id, hold.index, hold.version],
            "first": self.digests[run.id, hold.index, self._first(run, hold)],
            "none": None,
            "wrong": "0" * 64,
        }[seen]
        shown = {"now": hold.version, "first": self._first(run, hold), "none": None, "wrong": 0}
        verdict = self._verdict(said)
        name, body = self._key(key, (run.id, hold.index, by, said, digest))
        expected: Any = None
        if name is not None and name in self.keys:
            expected = "retry" if self.keys[name] == body else KeyReused
        else:
            expected = self.model.refusal(run, hold, by, shown[seen])
            fits = said in ("approve", "reject") or hold.kind == "in_doubt"
            if expected is None and not fits:
                expected = WrongVerdict
            again = hold.kind == "in_doubt" and said == "approve"
            if expected is None and again and run.cancelling:
                expected = WrongVerdict
            if expected is None and again and self._may_live(run, hold):
                expected = WorkerMayLive
        if expected is None:
            word = {"approve": "approved", "reject": "rejected", "answer": "answered"}
            hold.word, hold.decided_by = word.get(said, "errored"), by
            if undo:
                ends = self.model.now + 5000
                ends = ends if hold.deadline is None else min(ends, hold.deadline)
                hold.status, hold.effective_at = "decided", ends
            else:
                self.model.settle(run, hold, hold.word, by)
            if name is not None:
                self.keys[name] = body
        before = self._names(run)
        self._meets(
            expected,
            self.app.decide(
                self._id(run, hold),
                verdict,
                by=by,
                digest=digest,
                key=name,
                undo="5s" if undo else None,
            ),
        )
        return self._news(run, before)

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def say_it_once_more(self, data: st.DataObject) -> None:
        """A client that heard no answer sends the same request again."""
        name = data.draw(st.sampled_from(sorted(self.keys)))
        run_id, index, by, said, digest = self.keys[name]
        run, hold = self._at((run_id, index))
        again = self.app.decide(
            self._id(run, hold), self._verdict(said), by=by, digest=digest, key=name
        )
        # What was taken back is not decided, and whoever sends it again must not believe it is.
        undone = hold.status == "open" and hold.may(by)
        self._meets(KeyReused if undone else "retry", again)

    @rule(
        target=holds, at=holds, by=st.sampled_from(PEOPLE), amount=st.sampled_from((10, 20, 9999))
    )
    def edit(self, at: Any, by: str, amount: int) -> Any:
        run, hold = self._at(at)
        before = self._names(run)
        expected = self.model.refusal(run, hold, by, hold.version)
        digest = self.digests[run.id, hold.index, hold.version]
        if expected is None and hold.kind == "in_doubt":
            expected = WrongVerdict
        if expected is None:
            one = hold.call
            one.amount = amount
            one.version = hold.version = hold.version + 1
            hold.who = self.model.approvers(one)
            if hold.may(by):
                self.model.settle(run, hold, "approved", by)
        how = hold.call.how
        self._meets(
            expected,
            self.app.decide(
                self._id(run, hold),
                approve(args={"amount": amount, "how": how}),
                by=by,
                digest=digest,
            ),
        )
        return self._news(run, before)

    @rule(target=holds, at=holds, by=st.sampled_from(PEOPLE), shown=st.booleans())
    def resume_all(self, at: Any, by: str, shown: bool) -> Any:
        run, hold = self._at(at)
        mine = [one for one in run.holds if one.suspension == hold.suspension]
        asked = [one for one in mine if one.status == "open"] or mine[:1]
        request = f"req_{run.id.removeprefix('run_')}.{hold.suspension}"
        members = [self.digests[run.id, one.index, one.version] for one in mine]
        digest = suspension_digest(request_id=request, members=members) if shown else None
        before = self._names(run)
        expected = None
        for one in asked:
            if expected is None:
                seen = one.version if shown else None
                expected = self.model.refusal(run, one, by, seen)
                if expected is HoldExpired:
                    # The first that is not open any more is what is told of.
                    told = next(each for each in asked if each.status == "settled")
                    expected = HoldExpired if told.may(by) else NotAllowed
            if expected is None and one.kind == "in_doubt" and run.cancelling:
                expected = WrongVerdict
            if expected is None and one.kind == "in_doubt" and self._may_live(run, one):
                expected = WorkerMayLive
        if expected is None:
            for one in asked:
                self.model.settle(run, one, "approved", by)
        self._meets(expected, self.app.resume(request, approve(), by=by, digest=digest))
        return self._news(run, before)

    @rule(at=holds, by=st.sampled_from(PEOPLE))
    def undo(self, at: Any, by: str) -> None:
        run, hold = self._at(at)
        expected: Any = None
        if hold.status != "decided" or hold.effective_at <= self.model.now:
            expected = CannotUndo
        elif hold.decided_by != by:
            expected = NotAllowed
        else:
            hold.status, hold.word, hold.decided_by = "open", "", ""
        self._meets(expected, self.app.undo(self._id(run, hold), by=by))

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), by=st.sampled_from(("mira", "noor")))
    def cancel(self, data: st.DataObject, by: str) -> None:
        run = self.model.runs[data.draw(st.sampled_from(sorted(self.model.runs)))]
        expected: Any = None
        if by != "mira":
            expected = NotAllowed
        elif run.final == "completed":
            expected = RunFinished
        elif not run.final and not run.cancelling:
            self.model.cancel(run)
        self._meets(expected, self.app.cancel(run.id, by=by))

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def say_to_a_waiting_run(self, data: st.DataObject) -> None:
        run = self.model.runs[data.draw(st.sampled_from(sorted(self.model.runs)))]
        if run.final or run.status == "running":
            return
        expected = RunFinished if run.cancelling else RunWaiting
        self._meets(expected, self.app.say(run.id, "well?", by="mira"))

    # What time and chance do.

    @rule(ms=st.sampled_from((1, 4999, 5000, HOUR // 2, HOUR - 1, HOUR)))
    def advance(self, ms: int) -> None:
        self.place.clock.advance(ms)
        self.model.now += ms

    @rule(target=holds)
    def sweep(self) -> Any:
        before = {run.id: self._names(run) for run in self.model.runs.values()}
        for run in self.model.runs.values():
            self.model.sweep(run)
        self.do(self.app.sweep())
        return multiple(
            *(new for run in self.model.runs.values() for new in self._new(run, before[run.id]))
        )

    @rule(target=holds, data=st.data())
    def release(self, data: st.DataObject) -> Any:
        slow = [(r, c) for r in self.model.runs.values() for c in r.calls if c.state == "slow"]
        if not slow:
            return multiple()
        run, one = slow[data.draw(st.integers(0, len(slow) - 1))]
        before = self._names(run)
        self.model.finish(run, one, "Returned")
        key = f"{run.id}.{one.ref}"
        self.go.setdefault(key, asyncio.Event()).set()
        return self._news(run, before)

    @rule(target=holds)
    def crash(self) -> Any:
        """The process dies; much later another one opens the store."""
        before = {run.id: self._names(run) for run in self.model.runs.values()}
        self.do(self._crash())
        self.place.clock.advance("10m")
        self.model.now += 600_000
        self.do(self._open())
        self.scripts.update(getattr(self, "_scripts_kept", {}))
        for run in self.model.runs.values():
            lost = [one for one in run.calls if one.state == "slow"]
            self.model.sweep(run)
            for one in lost:
                self.model.doubt(run, one)
        self.do(self.app.sweep())
        return multiple(
            *(new for run in self.model.runs.values() for new in self._new(run, before[run.id]))
        )

    async def _crash(self) -> None:
        self.cable.cut = True
        worker = self.app._worker
        await self.app.close()
        if self.kind == "memory":
            self.place.kill(worker.id)
        await self._close_store()
        self.go.clear()

    # What must be so.

    @invariant()
    def the_app_is_as_the_model_says(self) -> None:
        if not hasattr(self, "app"):
            return
        self.steps += 1
        self.do(self._compare())
        if self.steps % 7 == 0:
            self.do(self._judge())

    async def _compare(self) -> None:
        for _ in range(500):
            if await self._seen() == self._wanted():
                return
            await asyncio.sleep(0.002)
        assert await self._seen() == self._wanted()

    def _wanted(self) -> Any:
        return {
            run.id: (
                run.status,
                run.cancelling,
                sorted((h.call.ref, h.kind, h.status, h.version, h.who) for h in run.open),
                {c.ref: c.outcome for c in run.calls if c.outcome},
                {c.ref: c.effects for c in run.calls if c.effects},
            )
            for run in self.model.runs.values()
        }

    async def _seen(self) -> Any:
        found: dict[str, Any] = {}
        effects = self.place.world.effects()
        for run in self.model.runs.values():
            row = await self.store.load(run.id)
            assert row is not None
            events = [one.event for one in await journal(self.store, run.id)]
            holds = await self.store.holds(HoldQuery(run_id=run.id, limit=500))
            done = {
                e.call: type(e.outcome).__name__
                for e in events
                if type(e).__name__ == "CallFinished"
            }
            mine = [
                key.removeprefix(f"{run.id}.") for key in effects if key.startswith(f"{run.id}.")
            ]
            found[run.id] = (
                row.status,
                any(type(e).__name__ == "CancelRequested" for e in events),
                sorted(
                    (h.row.call, h.row.kind, h.row.status, h.row.version, h.row.who) for h in holds
                ),
                done,
                {ref: mine.count(ref) for ref in sorted(set(mine))},
            )
        return found

    # Helpers.

    def _at(self, at: Any) -> tuple[MRun, MHold]:
        run = self.model.runs[at[0]]
        return run, run.holds[at[1]]

    def _first(self, run: MRun, hold: MHold) -> int:
        return min(v for r, i, v in self.digests if (r, i) == (run.id, hold.index))

    def _id(self, run: MRun, hold: MHold) -> str:
        return f"hold_{run.id.removeprefix('run_')}.{hold.n}"

    def _key(self, key: str | None, body: tuple[Any, ...]) -> tuple[str | None, Any]:
        if key is None:
            return None, body
        if key == "used" and self.keys:
            return min(self.keys), body
        self.counter += 1
        return f"key-{self.counter}", body

    def _verdict(self, said: str) -> Any:
        return {
            "approve": approve(),
            "reject": reject("no"),
            "answer": answer("it did"),
            "fail": fail("who knows"),
        }[said]

    def _names(self, run: MRun) -> int:
        return len(run.holds)

    def _new(self, run: MRun, before: int) -> list[tuple[str, int]]:
        if len(run.holds) > before or any(h.version > 1 for h in run.holds):
            self.do(self._compare())
            self._remember(run)
        return [(run.id, hold.index) for hold in run.holds[before:]]

    def _news(self, run: MRun, before: int) -> Any:
        return multiple(*self._new(run, before))

    def _remember(self, run: MRun) -> None:
        """Note the digest of every hold and version, as a person would be shown it."""

        async def look() -> None:
            await self._compare()
            found = await self.store.holds(HoldQuery(run_id=run.id, status="any", limit=500))
            named = {hold.n for hold in run.holds}
            for hold in run.holds:
                if not hold.n:
                    rows = [one.row for one in found if one.row.n not in named]
                    row = next(r for r in rows if (r.call, r.kind) == (hold.call.ref, hold.kind))
                    hold.n, hold.suspension = row.n, row.suspension
                    named.add(row.n)
                view = await self.app.hold(self._id(run, hold))
                self.digests[run.id, hold.index, view.version] = view.digest
                assert view.args["amount"] == hold.call.amount or hold.status == "settled"

        self.do(look())

    def _meets(self, expected: Any, work: Any) -> None:
        SEEN[getattr(expected, "__name__", str(expected))] += 1
        note(f"expecting {expected}")
        try:
            self.do(work)
        except SaysoError as error:
            assert expected not in (None, "retry"), f"refused with {error!r}"
            assert type(error) is expected, f"{error!r} instead of {expected}"
        else:
            assert expected in (None, "retry"), f"{expected} was not raised"


class OnFile(Lifecycle):
    kind = "sqlite"


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_the_app_does_what_the_model_says_in_memory() -> None:
    SEEN.clear()

    for _ in range(5):
        run_state_machine_as_test(Lifecycle, settings=_settings(400, 40))
        if SEEN.keys() >= SOMETIMES:
            break

    assert not SOMETIMES - SEEN.keys(), "the stories never came by this"


def test_the_app_does_what_the_model_says_on_a_file() -> None:
    run_state_machine_as_test(OnFile, settings=_settings(200, 40))


@pytest.mark.soak
@pytest.mark.parametrize("machine, examples", [(Lifecycle, 3000), (OnFile, 1000)])
def test_the_app_does_what_the_model_says_at_length(machine: Any, examples: int) -> None:
    run_state_machine_as_test(machine, settings=_settings(examples, 50))
