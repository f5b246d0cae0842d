"""A start that is prepared while the decision behind it is still being committed.

Method: an append of one process is held up on its way to the store. What is handed over behind it
shows how far that process has gone ahead; what has happened outside, that it has gone no further.
Meanwhile others may write, so that all of it comes to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sayso import (
    Agent,
    Context,
    HoldView,
    Message,
    Sayso,
    ToolMessage,
    UserMessage,
    approve,
    reject,
    tool,
)
from sayso.domain import events as e
from sayso.domain.value import SAYSO
from sayso.engine import beside
from sayso.errors import CommitUnknown
from sayso.store.base import Appended, Store, Write
from sayso.store.journal import decode, read_journal
from sayso.store.look import Look, Wish
from sayso.store.memory import MemoryStore
from sayso.testing import ScriptedModel, call, say

from .kit import Delegate, Place, completed, held, tags, types, until

DECIDED = "hold.settled"


class Held(Delegate):
    """Keeps back the first append of a kind, and all that is handed over behind it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.kind = ""
        self.go = asyncio.Event()
        self.behind: list[list[str]] = []
        """What was kept back, in order."""

    def append(self, *writes: Write) -> Any:
        found = tags(writes)
        if not self.kind or not (self.behind or self.kind in found):
            return self.inner.append(*writes)
        self.behind.append(found)
        return asyncio.ensure_future(self._append(writes))

    async def _append(self, writes: tuple[Write, ...]) -> Appended:
        await self.go.wait()
        return await self.inner.append(*writes)


class Desk:
    """A teller that pays once it may, and a store that can keep its appends back."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.asked: list[str] = []
        self.stores: list[Held] = []

    def agent(self) -> Agent:
        @tool(approval=True, effect="once", timeout="30s", approvers=["anyone"])
        async def pay(ctx: Context, amount: int) -> str:
            self.place.world.act(ctx, {"amount": amount})
            return "paid"

        def turn(messages: tuple[Message, ...]) -> Any:
            self.asked.append(type(messages[-1]).__name__)
            told = any(isinstance(one, ToolMessage) for one in messages)
            return say("Done.") if told else call("pay", {"amount": 200})

        return Agent("teller", model=ScriptedModel(turn), tools=[pay])

    def wrap(self, store: Store) -> Held:
        self.stores.append(Held(store))
        return self.stores[-1]

    async def suspend(self, app: Sayso) -> HoldView:
        """Have a run ask, and keep back what is decided from now on."""
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await until(lambda: app._open_parts.ledger.at_hand(hold.run_id) is None)
        self.stores[0].kind = DECIDED
        return hold


@pytest.fixture
def desk(place: Place) -> Desk:
    return Desk(place)


async def test_a_start_is_handed_over_behind_the_decision_and_the_tool_waits_for_both(
    place: Place, desk: Desk
) -> None:
    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        hold = await desk.suspend(app)
        store = desk.stores[0]
        deciding = asyncio.create_task(app.decide(hold, approve(), by="mira"))
        await until(lambda: len(store.behind) == 2)

        assert DECIDED in store.behind[0]
        assert store.behind[1] == ["call.started"]
        assert not deciding.done()
        assert place.world.effects() == []
        assert DECIDED not in await types(app, hold.run_id)

        store.go.set()
        await deciding
        await completed(app.run(hold.run_id))
        assert len(place.world.effects()) == 1


async def test_nobody_is_asked_what_comes_next_before_the_no_is_committed(
    place: Place, desk: Desk
) -> None:
    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        hold = await desk.suspend(app)
        store = desk.stores[0]
        deciding = asyncio.create_task(app.decide(hold, reject("No."), by="mira"))
        await until(lambda: store.behind != [])
        for _ in range(50):
            await asyncio.sleep(0)

        assert desk.asked == ["UserMessage"]

        store.go.set()
        await deciding
        await completed(app.run(hold.run_id))
        assert desk.asked == ["UserMessage", "ToolMessage"]
        assert place.world.effects() == []


async def test_no_model_is_asked_for_a_run_that_may_never_be(place: Place, desk: Desk) -> None:
    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        store = desk.stores[0]
        store.kind = "run.started"
        starting = asyncio.create_task(app.start("teller", "Pay", by="mira"))
        await until(lambda: store.behind != [])
        for _ in range(50):
            await asyncio.sleep(0)

        assert desk.asked == []

        store.go.set()
        await held(await starting)


async def _overtaken(
    place: Place, desk: Desk, app: Sayso, other: Callable[[Sayso, HoldView], Any]
) -> HoldView:
    """Let a decision and the start behind it be held up until another process has written."""
    hold = await desk.suspend(app)
    store = desk.stores[0]
    deciding = asyncio.create_task(app.decide(hold, approve(), by="ann"))
    await until(lambda: len(store.behind) == 2)
    async with place.app(desk.agent(), work=False) as elsewhere:
        await other(elsewhere, hold)
    store.go.set()
    await asyncio.wait({deciding})
    return hold


async def test_a_start_behind_a_decision_that_came_too_late_comes_to_nothing(
    place: Place, desk: Desk
) -> None:
    async def say_no(app: Sayso, hold: HoldView) -> None:
        await app.decide(hold, reject("No."), by="mira")

    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        hold = await _overtaken(place, desk, app, say_no)

        view = await completed(app.run(hold.run_id))

        assert view.output == "Done."
        assert place.world.effects() == []
        assert "call.started" not in await types(app, hold.run_id)


async def test_a_start_names_the_yes_that_stands_and_not_one_that_came_to_nothing(
    place: Place, desk: Desk
) -> None:
    async def say_yes(app: Sayso, hold: HoldView) -> None:
        await app.decide(hold, approve(), by="mira")

    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        for name in ("ann", "mira"):
            await app.people.put(name, roles=["finance"])
        hold = await _overtaken(place, desk, app, say_yes)

        await completed(app.run(hold.run_id))

        entries = await read_journal(app.store, hold.run_id)
        started = [one for one in map(decode, entries) if isinstance(one, e.CallStarted)]
        assert [[basis.person for basis in one.basis] for one in started] == [["mira"]]
        assert len(place.world.effects()) == 1


async def say_more(app: Sayso, hold: HoldView) -> None:
    event = e.MessageReceived(by=SAYSO, text="Hurry.")
    await app._open_parts.ledger.write(hold.run_id, lambda _: [event])


async def test_a_decision_that_is_overtaken_by_a_message_is_made_all_the_same(
    place: Place, desk: Desk
) -> None:
    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        hold = await _overtaken(place, desk, app, say_more)

        await completed(app.run(hold.run_id))

        assert len(place.world.effects()) == 1
        assert (await types(app, hold.run_id)).count("call.started") == 1


async def test_what_is_under_way_is_not_told_on_top_of_what_others_wrote_instead(
    place: Place, desk: Desk
) -> None:
    async with place.app(desk.agent(), wrap=desk.wrap) as app:
        hold = await desk.suspend(app)
    async with place.app(desk.agent(), work=False, wrap=desk.wrap) as app:
        ledger, store = app._open_parts.ledger, desk.stores[1]
        ledger.pin(hold.run_id)
        await ledger.live(hold.run_id)
        store.kind = "message.received"
        event = e.MessageReceived(by=SAYSO, text="Never mind.")
        posted = ledger.post(hold.run_id, lambda _: [event, event])
        async with place.app(desk.agent(), work=False) as elsewhere:
            await say_more(elsewhere, hold)

        reading = asyncio.create_task(ledger.both(hold.run_id))
        await asyncio.sleep(0.05)
        assert not reading.done()
        store.go.set()

        live, transcript = await reading
        said = [one.text for one in transcript.messages() if isinstance(one, UserMessage)]
        assert said[:2] == ["Pay", "Hurry."]
        assert transcript.seq == live.run.seq
        await posted


async def test_a_decision_and_the_start_behind_it_are_one_commit(tmp_path: Path) -> None:
    desk = Desk(Place("sqlite", tmp_path))
    async with desk.place.app(desk.agent(), wrap=desk.wrap) as app:
        queue = desk.stores[0].inner._queue
        give, sizes = queue._give, list[int]()
        hold = await desk.suspend(app)
        desk.stores[0].kind = ""

        def count(batch: list[Any]) -> None:
            sizes.append(len(batch))
            give(batch)

        queue._give = count
        await app.decide(hold, approve(), by="mira")
        await completed(app.run(hold.run_id))

        # What is decided with its start, and the result with the last turn.
        assert sizes == [2, 2]


class Lost(Delegate):
    """Loses the answer to a decision, and commits it only after somebody has read the run."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.on = False
        self.lost, self.read, self.there, self.told = (asyncio.Event() for _ in range(4))

    def append(self, *writes: Write) -> Any:
        if not self.on or self.lost.is_set() or DECIDED not in tags(writes):
            return self.inner.append(*writes)
        self.late = asyncio.ensure_future(self._late(writes))
        return asyncio.ensure_future(self._lose())

    async def _lose(self) -> Appended:
        self.lost.set()
        raise CommitUnknown

    async def _late(self, writes: tuple[Write, ...]) -> None:
        await self.read.wait()
        await self.inner.append(*writes)
        self.there.set()

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        found = await self.inner.look(run_id, wish)
        if self.lost.is_set() and not self.read.is_set():
            self.read.set()
            await self.told.wait()  # A row of before that comes late.
        return found

    async def entries(self, run_id: str, seqs: Any) -> Any:
        if self.lost.is_set():
            await self.there.wait()
        return await self.inner.entries(run_id, seqs)


async def test_a_decision_whose_answer_is_lost_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, paid = Lost(MemoryStore()), list[int]()
    monkeypatch.setattr(beside, "look_at", lambda store, *what: store.look(*what))

    @tool(approval=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        paid.append(amount)
        return "paid"

    async def check(facts: Any) -> None:
        if store.on:
            await store.lost.wait()  # The start is prepared, and not yet handed over.
            await asyncio.sleep(0)

    def turn(messages: tuple[Message, ...]) -> Any:
        told = any(isinstance(one, ToolMessage) for one in messages)
        return say("Done.") if told else call("pay", {"amount": 200})

    teller = Agent("teller", model=ScriptedModel(turn), tools=[pay], check_for_intervention=check)
    async with Sayso(store, agents=[teller]) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await until(lambda: app._open_parts.ledger.at_hand(run.id) is None)
        store.on = True

        decided = await app.decide(hold, approve(), by="mira")
        store.told.set()
        await completed(run)

    assert decided.status == "settled"
    assert paid == [200]


class Overdue(Delegate):
    """Loses the answer to an append of a kind, and commits it only when it is sent anew."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.kind = ""
        self._lost: tuple[Write, ...] = ()

    def append(self, *writes: Write) -> Any:
        if not self.kind or self.kind not in tags(writes):
            return self.inner.append(*writes)
        return asyncio.ensure_future(self._append(writes))

    async def _append(self, writes: tuple[Write, ...]) -> Appended:
        if not self._lost:
            self._lost = writes
            raise CommitUnknown
        self.kind = ""
        await self.inner.append(*self._lost)
        return await self.inner.append(*writes)


@pytest.mark.parametrize("kind", [DECIDED, "call.finished"])
async def test_who_has_written_what_arrives_late_is_not_told_that_somebody_else_has(
    place: Place, kind: str
) -> None:
    made: list[Overdue] = []
    async with place.app(
        Desk(place).agent(), wrap=lambda store: made.append(Overdue(store)) or made[-1]
    ) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        made[0].kind = kind

        decided = await app.decide(hold, approve(), by="mira")
        await completed(app.run(hold.run_id))

        assert decided.decision is not None
        assert made[0].kind == ""
        happened = await types(app, hold.run_id)
    assert len(place.world.effects()) == 1
    assert [happened.count(one) for one in (DECIDED, "call.started", "call.finished")] == [1] * 3
