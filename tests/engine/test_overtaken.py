"""Appends that somebody else's write comes before, while the one who sent them goes on already.

Method: the worker's append of one kind is held up on its way to the store until another process has
written. The model is a function of what it is shown, so the result tells what that was.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from sayso import Instance, Machine, Message, Node, Returned, UserMessage, tool
from sayso.domain import settling
from sayso.domain.call import CallState
from sayso.domain.value import SAYSO
from sayso.engine.calls import propose_starts
from sayso.errors import StoreError
from sayso.store.base import Appended, Store, Write
from sayso.store.journal import read_journal
from sayso.testing import call, say

from .kit import PATIENCE_S, Delegate, Place, agent, completed, suspended, tags, types, until
from .machines import HIRES, Cart, clerk, said, script, shop, statuses, tree


class Late(Delegate):
    """Holds up the first append that is of a kind; all after it wait behind it."""

    def __init__(self, inner: Store, kind: Callable[[list[str]], bool]) -> None:
        super().__init__(inner)
        self._kind = kind
        self._last: asyncio.Future[Any] | None = None
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.unreadable = False

    def append(self, *writes: Write) -> Awaitable[Appended]:
        self._last = asyncio.ensure_future(self._append(self._last, *writes))
        return self._last

    async def _append(self, before: asyncio.Future[Any] | None, *writes: Write) -> Appended:
        if before is not None:
            await asyncio.wait({before})
        if not self.go.is_set() and self._kind(tags(writes)):
            self.reached.set()
            await asyncio.wait_for(self.go.wait(), PATIENCE_S)
        if "attempt.voided" in tags(writes):
            self.unreadable = False
        return await self.inner.append(*writes)

    async def journal(self, *args: Any, **how: Any) -> Any:
        if self.unreadable:
            raise StoreError("it cannot be read just now")
        return await self.inner.journal(*args, **how)

    async def look(self, *args: Any) -> Any:
        if self.unreadable:
            raise StoreError("it cannot be read just now")
        return await self.inner.look(*args)


def late(kind: Callable[[list[str]], bool]) -> tuple[list[Late], Any]:
    made: list[Late] = []

    def wrap(store: Store) -> Late:
        made.append(Late(store, kind))
        return made[-1]

    return made, wrap


async def test_a_message_that_comes_in_before_an_outcome_is_heard(place: Place) -> None:
    asked: list[int] = []

    @tool(effect="none")
    def look() -> str:
        return "seen"

    def heard(messages: tuple[Message, ...]) -> Any:
        asked.append(len(messages))
        if len(messages) == 1:
            return call("look")
        return say(" ".join(m.text for m in messages if isinstance(m, UserMessage)))

    made, wrap = late(lambda kinds: "call.finished" in kinds)
    async with (
        place.app(agent(heard, look), wrap=wrap) as app,
        place.app(agent(heard, look), work=False) as desk,
    ):
        run = await app.start("teller", "Go.", by="ann")
        await made[0].reached.wait()
        # The model is asked while the outcome that it is shown is on its way.
        await until(lambda: len(asked) == 2)
        await desk.say(run.id, "Hurry.", by="ann")
        made[0].go.set()
        view = await completed(run)

    assert view.output == "Go. Hurry."
    assert asked == [1, 3, 4]


async def _command_overtaken(place: Place, *, unreadable: bool) -> tuple[Any, list[str]]:
    """Let a message come in before the start of a command, and see what becomes of the command."""
    turns = script(
        go=[call("spawn", {"node": "clerk", "input": "A"}), *[say("...")] * 5], A=clerk("A")
    )
    made, wrap = late(lambda kinds: kinds == ["call.started"])
    async with place.app(shop(turns), wrap=wrap) as app, place.app(shop(turns), work=False) as desk:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        waiting = asyncio.ensure_future(app.command(run, "note", {"text": "x"}, by="ann"))
        await made[0].reached.wait()
        await desk.say(run.id, "Hurry.", by="ann")
        made[0].unreadable = unreadable
        made[0].go.set()
        done = await asyncio.wait_for(waiting, PATIENCE_S)
        view = await suspended(run)
        assert tree(view)["main"].state["note"] == "x"
        return done, await types(app, run)


async def test_a_command_whose_start_was_overtaken_knows_its_instance(place: Place) -> None:
    done, happened = await _command_overtaken(place, unreadable=False)

    assert isinstance(done.outcome, Returned), done
    assert "attempt.voided" not in happened


async def test_a_call_whose_run_cannot_be_read_was_not_sent(place: Place) -> None:
    done, happened = await _command_overtaken(place, unreadable=True)

    # In doubt it would have asked a person.
    assert isinstance(done.outcome, Returned), done
    assert "attempt.voided" in happened


async def test_a_call_that_came_to_nothing_before_it_was_looked_at_does_not_start(
    place: Place,
) -> None:
    turns = script(go=[call("check", {"what": "x"}), say("end")])
    async with place.app(shop(turns)) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        parts = app._open_parts
        (row,) = (await parts.ledger.load(run.id)).calls(CallState.WAITING)
        # As if an append with this command had been lost, after somebody had seen it.
        gone = msgspec.structs.replace(row, ref="c1", state=CallState.READY)

        proposal = await propose_starts(parts, run.id, [gone], "worker_x")
        written = await parts.ledger.write(run.id, proposal.verb)

    assert written.events == ()
    assert set(proposal.args) == {"c1"}


async def test_a_result_that_a_command_has_made_void_is_asked_for_again(place: Place) -> None:
    asked, inside, end, go = (asyncio.Event() for _ in range(4))
    times: list[int] = []

    @tool
    async def slowly(me: Instance[Cart]) -> None:
        inside.set()
        await asyncio.wait_for(go.wait(), PATIENCE_S)
        me.update_state(note="late")

    async def turn() -> Any:
        asked.set()
        await asyncio.wait_for(end.wait(), PATIENCE_S)
        times.append(1)
        return say("end")

    desk = Node("desk", commands=[slowly], state=Cart)
    machine = Machine("shop", model=script(go=[turn]), root="desk", nodes=[desk])
    async with place.app(machine) as app:
        run = await app.start("shop", "go", by="ann")
        await asked.wait()
        waiting = asyncio.ensure_future(app.command(run, "slowly", by="ann"))
        await inside.wait()
        end.set()
        await until(lambda: len(times) == 1)
        for _ in range(20):
            await asyncio.sleep(0)  # The result gets as far as it can: it waits for the command.
        go.set()
        view = await completed(run)
        await waiting

    assert statuses(view) == {"main": "closed"}
    assert tree(view)["main"].state["note"] == "late"
    assert len(times) == 2


async def test_the_last_instance_may_end_while_the_root_hears_of_another(
    place: Place,
) -> None:
    go = {name: asyncio.Event() for name in ("A", "B", "root")}
    inside = {name: asyncio.Event() for name in go}

    async def reach(name: str) -> None:
        inside[name].set()
        await asyncio.wait_for(go[name].wait(), PATIENCE_S)

    @tool(effect="once")
    async def work(name: str) -> None:
        await reach(name)

    async def think() -> Any:
        await reach("root")
        return say("still one there")

    model = script(
        go=[HIRES, say("..."), say("at the till"), think, say("end")],
        A=[call("work", {"name": "A"})],
        B=[call("work", {"name": "B"})],
    )
    async with place.app(shop(model, lower=[work])) as app:
        run = await app.start("shop", "go", by="ann")
        await inside["A"].wait()
        await inside["B"].wait()
        await until(lambda: _said(run, "..."))
        # What is below the root is to end, once its calls are over.
        await app.command(run, "close_shop", by="ann")
        await until(lambda: _said(run, "at the till"))
        go["A"].set()
        await inside["root"].wait()
        go["B"].set()
        await until(lambda: _closed(run, "clerk.3"))
        go["root"].set()
        view = await completed(run)

    assert view.output == "end"
    assert said(view)[-2:] == ["clerk.2 is over.", "Everything below you is over."]


async def _said(run: Any, text: str) -> bool:
    return getattr((await run.view()).messages[-1], "text", "") == text


async def _closed(run: Any, name: str) -> bool:
    return statuses(await run.view())[name] == "closed"


async def test_a_run_in_memory_is_not_given_with_a_conversation_that_is_ahead_of_it(
    place: Place,
) -> None:
    turns = script(go=[call("spawn", {"node": "clerk", "input": "A"}), say("...")], A=clerk("A"))
    async with place.app(shop(turns)) as app:
        run_id = (await app.start("shop", "go", by="ann")).id
        await suspended(app.run(run_id))
    async with (
        place.app(shop(turns), work=False) as one,
        place.app(shop(turns), work=False) as other,
    ):
        ledger = one._open_parts.ledger
        ledger.pin(run_id)
        live = await ledger.live(run_id)
        live.unread = ()  # As of one whose journal could not be read together with its row.
        before = live.run.seq
        await other.say(run_id, "Hurry.", by="ann")

        live, transcript = await ledger.both(run_id)

    # What one of them then appends would be taken for what the other has heard.
    assert before < live.run.seq == transcript.seq


async def test_a_journal_read_with_the_row_need_not_be_of_the_same_moment(place: Place) -> None:
    turns = script(go=[call("spawn", {"node": "clerk", "input": "A"}), say("...")], A=clerk("A"))
    async with place.app(shop(turns)) as app:
        run_id = (await app.start("shop", "go", by="ann")).id
        await suspended(app.run(run_id))
    async with place.app(shop(turns), work=False) as one:
        ledger = one._open_parts.ledger
        ledger.pin(run_id)
        live = await ledger.live(run_id)
        early = await read_journal(one.store, run_id)
        # Only where it saves a round trip.
        assert live.unread == (() if one.store.queue is None else tuple(early))
        live.unread = early[:-1]

        behind = await ledger.both(run_id)

        ledger._drop(run_id)
        live = await ledger.live(run_id)
        async with place.app(shop(turns), work=False) as other:
            await other.say(run_id, "Hurry.", by="ann")
        live.unread = await read_journal(one.store, run_id)

        ahead = await ledger.both(run_id)

    assert behind[0].run.seq == behind[1].seq == live.run.seq
    assert ahead[0].run.seq == ahead[1].seq > live.run.seq


async def test_a_run_is_opened_though_its_journal_cannot_be_read_just_now(place: Place) -> None:
    made, wrap = late(lambda _: False)
    async with place.app(agent([say("Done.")]), work=False, wrap=wrap) as app:
        run = await app.start("teller", "Go", by="mira")
        ledger = app._open_parts.ledger
        ledger.pin(run.id)
        made[0].unreadable = True

        live = await ledger.live(run.id)

        with pytest.raises(StoreError):
            await ledger.both(run.id)
        made[0].unreadable = False
        assert await ledger.both(run.id) == (live, live.transcript)


async def test_a_post_that_nobody_waits_for_is_made_all_the_same(place: Place) -> None:
    """Whoever is cancelled before it began to wait has handed the append over already."""
    async with place.app(agent([say("Done.")]), work=False) as app:
        run = await app.start("teller", "Go", by="mira")
        ledger = app._open_parts.ledger
        ledger.pin(run.id)
        await ledger.live(run.id)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ledger.post(run.id, partial(settling.cancel, by=SAYSO, now=app.store.now(), reason="x"))
            gc.collect()

        assert (await run.wait(final=True, timeout=PATIENCE_S)).status == "cancelled"
