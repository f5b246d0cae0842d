"""The end of a run and the waking of the one above it are one append, whatever is around it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from sayso import Agent, approve, spawn, tool
from sayso.domain import settling
from sayso.domain.run import Run
from sayso.domain.value import SAYSO
from sayso.errors import StoreBusy
from sayso.store.base import Appended, RunRow, Write
from sayso.testing import ScriptedModel, call, say

from .kit import PATIENCE_S, Delegate, Place, finished, held
from .stage import check


@tool(approval=True)
async def pay() -> str:
    return "paid"


def cast() -> list[Agent]:
    below = Agent("below", model=ScriptedModel([call("pay"), say("Done.")]), tools=[pay])
    asks = call("spawn", {"agent": "below", "input": "Pay"})
    return [
        Agent("root", model=ScriptedModel([asks, say("Done.")]), tools=[spawn(below)]),
        below,
    ]


class Slow(Delegate):
    """A store whose second look at a run waits, and that once does not take an end."""

    run_id = ""
    looks = 0
    fails = False

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def load(self, run_id: str) -> RunRow | None:
        found = await self.inner.load(run_id)
        if run_id == self.run_id:
            self.looks += 1
            if self.looks == 2:
                self.reached.set()
                await self.go_on.wait()
        return found

    def append(self, *writes: Write) -> Any:
        if self.fails and len(writes) > 1:
            self.fails = False
            return asyncio.ensure_future(_busy())
        return self.inner.append(*writes)


async def _busy() -> Appended:
    raise StoreBusy


def end(now: int, run: Run) -> Any:
    return [] if run.final else settling.cancel(run, by=SAYSO, now=now, reason="enough")


async def test_an_end_that_builds_on_one_that_failed_is_told_all_the_same(place: Place) -> None:
    """Two ends are tried at a time. The first stands still between looking at the run above and at
    its own; the second is handed over, so that the run above waits no more in memory, and fails.
    """
    async with place.app(*cast()) as app:
        run = await app.start("root", "Go", by="mira")
        below = (await held(run)).run_id
    slow: list[Slow] = []

    def wrap(store: Any) -> Any:
        slow.append(Slow(store))
        return slow[0]

    async with place.app(*cast(), wrap=wrap, work=False) as app:
        ledger = app._open_parts.ledger
        verb = partial(end, app.store.now())
        ledger.pin(run.id)
        await ledger.live(run.id)
        slow[0].run_id = below
        first = asyncio.ensure_future(ledger.write(below, verb))
        await slow[0].reached.wait()
        slow[0].fails = True
        second = await asyncio.gather(ledger.write(below, verb), return_exceptions=True)
        assert isinstance(second[0], StoreBusy), second
        slow[0].go_on.set()
        await first

        assert await app.run(below).status() == "cancelled"
        assert await app.run(run.id).status() == "running", "nobody has told the run above"
    async with place.app(*cast()) as app:
        assert (await finished(app.run(run.id))).status == "completed"
        await check(app.store)


class Meanwhile(Delegate):
    """A store where something happens right before a run is looked at for the first time."""

    run_id = ""
    happens: Any = None

    async def load(self, run_id: str) -> RunRow | None:
        if run_id == self.run_id and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
        return await self.inner.load(run_id)


async def test_an_end_between_two_looks_leaves_nobody_suspended_for_nothing(place: Place) -> None:
    between: list[Meanwhile] = []

    def wrap(store: Any) -> Any:
        between.append(Meanwhile(store))
        return between[0]

    async with place.app(*cast()) as worker, place.app(*cast(), wrap=wrap, work=False) as desk:
        run = await worker.start("root", "Go", by="mira")
        hold = await held(run)

        async def goes_on() -> None:
            await worker.decide(hold, approve(), by="mira")
            await finished(run)

        between[0].run_id, between[0].happens = hold.run_id, goes_on
        view = await desk.run(run.id).wait(timeout=PATIENCE_S)

        assert (view.status, view.output) == ("completed", "Done.")
