"""What is read again, and what is not: nothing that this process has just written, and everything
that somebody else may have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

from sayso import Context, Policy, Rule, Sayso, anyone, approve, role, tool
from sayso.engine import handle
from sayso.engine.beside import FRESH_MS, WHOLE, Beside
from sayso.store.base import Appended, Store, Write
from sayso.store.look import Want
from sayso.store.shelf import Item
from sayso.store.watch import RunWatch, Watches
from sayso.testing import call, say

from .kit import PATIENCE_S, Delegate, Place, agent, completed, held, suspended, until

READS = ("load", "look", "journal", "entries", "hold", "holds")
PAID = [call("pay", {"amount": 5}), say("Paid.")]


class Counting(Delegate):
    """Notes what of a run is read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            self.read.append(name)
        return super().__getattr__(name)


class Deaf(Counting):
    """Hears of what is committed, by itself and by others, only when a test says so."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.heard = Watches()
        self.written: list[Write] = []

    def append(self, *writes: Write) -> Awaitable[Appended]:
        self.written += writes
        return self.inner.append(*writes)

    def watch(self, run_id: str | None = None, *, own: bool = True) -> RunWatch:
        return self.heard.add(run_id, own=own)


def paying(place: Place) -> Any:
    @tool(approval=True, effect="once")
    def pay(ctx: Context, amount: int) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    return pay


async def test_whoever_waits_is_told_what_this_process_has_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "SOON_S", PATIENCE_S)
    go = asyncio.Event()

    @tool(approval=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        await go.wait()
        return "paid"

    async with place.app(agent(PAID, pay)) as app:
        # It alone is counted: what works on the run looks at it by itself.
        store: Any = Counting(app.store)
        parts = replace(app._open_parts, store=store)
        run = handle.RunHandle(parts, (await app.start("teller", "Pay", by="mira")).id)
        view = await suspended(run)
        asked, shown = [*store.read], await run.view()
        store.read.clear()
        await app.decide(view.holds[0], approve(), by="mira")
        waiting = asyncio.ensure_future(completed(run))
        await asyncio.sleep(0)
        go.set()

        done = await waiting

        assert (asked, store.read) == ([], [])
        assert (shown, await run.view()) == (view, done)


async def test_an_answer_that_comes_late_takes_nobody_back_in_time(place: Place) -> None:
    went, go = asyncio.Event(), asyncio.Event()

    @tool(approval=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        went.set()
        await go.wait()
        return "paid"

    stores: list[Deaf] = []
    async with (
        place.app(agent(PAID, pay)) as other,
        place.app(
            agent(PAID, pay), wrap=lambda store: stores.append(Deaf(store)) or stores[-1]
        ) as app,
    ):
        (store,) = stores
        hold = await held(other.run((await app.start("teller", "Pay", by="mira")).id))
        await until(lambda: app._open_parts.ledger.at_hand(hold.run_id) is None)
        await other.decide(hold, approve(), by="mira")
        await went.wait()
        waiting = asyncio.ensure_future(app.run(hold.run_id).wait(timeout=PATIENCE_S))
        store.read.clear()
        await until(lambda: store.read.count("load") == 1)

        store.heard.tell(store.written[-1:])  # By which the run was suspended.
        await until(lambda: waiting.done() or store.read.count("load") == 2)
        go.set()
        await completed(other.run(hold.run_id))
        store.heard.ring([hold.run_id])

        assert (await waiting).status == "completed"


@pytest.mark.parametrize("asks", [False, True])
async def test_holds_that_were_opened_before_the_last_write_are_shown(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    monkeypatch.setattr(handle, "SOON_S", PATIENCE_S)
    go = asyncio.Event()

    @tool(durable=True, effect="once")
    async def ask(ctx: Context) -> str:
        await go.wait()
        return str(await ctx.ask("Why?")) if asks else "because"

    script = [[call("pay", {"amount": 5}), call("ask")], say("Paid.")]
    async with place.app(agent(script, paying(place), ask)) as app:
        run = await app.start("teller", "Pay", by="mira")
        first = await run.wait(held=True, timeout=PATIENCE_S)
        waiting = asyncio.ensure_future(suspended(run))
        await asyncio.sleep(0)
        go.set()

        view = await waiting

        assert (first.status, [one.tool for one in first.holds]) == ("running", ["pay"])
        assert first.worker == app._worker.id
        assert [one.tool for one in view.holds] == (["pay", "ask"] if asks else ["pay"])
        assert view == await run.view()


async def test_whoever_decides_by_an_id_is_shown_what_is_kept(place: Place) -> None:
    script = [[call("pay", {"amount": n}) for n in range(3)], say("Paid.")]
    policy = Policy(Rule("pay", approvers=[role("finance")], quorum=2))
    async with place.app(agent(script, paying(place)), policy=policy) as app:
        for name in ("ann", "bob"):
            await app.people.put(name, roles=["finance"])
        run = await app.start("teller", "Pay", by="mira")
        one, two, three = [hold.id for hold in (await suspended(run)).holds]
        edited = approve(args={"amount": 7})

        said = [
            (one, await app.decide(one, approve(), by="ann"), await app.hold(one)),
            (one, await app.decide(one, approve(), by="bob"), await app.hold(one)),
            (two, await app.decide(two, edited, by="ann"), await app.hold(two)),
            (three, await app.decide(three, approve(), by="ann", undo="1m"), await app.hold(three)),
        ]

        assert [view for _, view, _ in said] == [kept for *_, kept in said]
        assert [view.status for _, view, _ in said] == ["open", "settled", "open", "open"]
        assert [len(view.votes) for _, view, _ in said] == [1, 1, 1, 1]
        assert said[2][1].args == {"amount": 7}


async def test_somebody_elses_end_of_a_run_is_seen_though_it_is_worked_on_here(
    place: Place,
) -> None:
    go = asyncio.Event()

    @tool(effect="none")
    async def slow(ctx: Context) -> str:
        await go.wait()
        return "late"

    async with place.app(agent([call("slow"), say("Done.")], slow)) as app:
        run = await app.start("teller", "Go", by="mira")
        waiting = asyncio.ensure_future(run.wait(final=True, timeout=PATIENCE_S))
        await until(lambda: app._worker._loops and app._worker._loops[run.id].executing)
        async with place.app(agent([say("-")]), work=False) as desk:
            await desk.cancel(run, by="mira")
        go.set()

        assert (await waiting).status == "cancelled"


class Slow(Delegate):
    """Lets a person be put, and a while pass, after a run was read to be gone on with."""

    def __init__(self, inner: Store, place: Place, desk: Sayso) -> None:
        super().__init__(inner)
        self.place, self.desk = place, desk
        self.done = False

    async def look(self, *args: Any) -> Any:
        found = await self.inner.look(*args)
        await self._later()
        return found

    async def journal(self, *args: Any, **how: Any) -> Any:
        found = await self.inner.journal(*args, **how)
        await self._later()
        return found

    async def _later(self) -> None:
        if not self.done:
            self.done = True
            await self.desk.people.put("bob", roles=["finance"])
            self.place.clock.advance("1s")


async def test_a_yes_counts_by_the_people_of_now_however_long_reading_took(place: Place) -> None:
    """With the first record of anybody, whoever has none is nobody: no rev of theirs says so."""
    pays, policy = agent(PAID, paying(place)), Policy(Rule("pay", approvers=[anyone]))
    async with place.app(pays, work=False) as desk:
        async with place.app(pays, policy=policy) as app:
            run = desk.run((await app.start("teller", "Pay", by="mira")).id)
            hold = await held(run)
        await desk.decide(hold, approve(), by="mira")

        def wrap(store: Store) -> Slow:
            return Slow(store, place, desk)

        async with place.app(pays, policy=policy, wrap=wrap):
            again = await held(run)

        assert again.id != hold.id
        assert "lost the right" in again.why
        assert not place.world.effects()


async def test_a_yes_counts_by_the_people_there_are_after_a_check(place: Place) -> None:
    async def check(facts: Any) -> bool:
        if decided:
            await desk.people.put("bob", roles=["finance"])
        return False

    decided: list[str] = []
    policy = Policy(Rule("pay", approvers=[anyone]))
    pays = agent(PAID, paying(place), check_for_intervention=check)
    async with place.app(pays, work=False) as desk:
        async with place.app(pays, policy=policy) as app:
            run = desk.run((await app.start("teller", "Pay", by="mira")).id)
            hold = await held(run)
        decided.append((await desk.decide(hold, approve(), by="mira")).id)
        async with place.app(pays, policy=policy):
            assert (await held(run)).id != hold.id

        assert not place.world.effects()


async def test_what_was_read_beside_a_run_is_used_once(place: Place) -> None:
    async with place.app(agent(PAID, paying(place)), work=False) as app:
        run = await app.start("teller", "Pay", by="mira")
        parts = app._open_parts
        live = await parts.ledger.look(run.id, WHOLE)
        live.beside = Beside("p", {}, shelf=app.store.shelf, tick=app.store.tick, asked=0)

        assert parts.records.beside(live) is not parts.records
        assert parts.records.beside(live) is parts.records


class Shelf:
    def __init__(self) -> None:
        self.read: list[tuple[str, ...]] = []

    async def get(self, project: str, kind: str, id: str) -> Item | None:
        self.read.append((project, kind, id))
        return None

    async def list(
        self, project: str, kind: str, *, after: str | None = None, limit: int = 50
    ) -> list[Item]:
        self.read.append((project, kind, after or "", str(limit)))
        return []


async def test_what_was_read_beside_a_run_is_good_for_its_project_and_a_moment() -> None:
    now, shelf = [1000], Shelf()
    ann = Item(project="p", kind="person", id="ann", rev=1, data=b"")
    found = {Want("person"): ann, Want("person", "ann"): ann, Want("person", "bob"): None}
    beside = Beside("p", found, shelf=shelf, tick=lambda: now[0], asked=1000)

    now[0] += FRESH_MS
    assert await beside.list("p", "person", limit=1) == [ann]
    assert await beside.get("p", "person", "ann") == ann
    assert await beside.get("p", "person", "bob") is None
    assert shelf.read == []
    await beside.list("p", "person", limit=2)
    await beside.list("p", "person", after="a", limit=1)
    await beside.list("q", "person", limit=1)
    await beside.get("p", "person", "zoe")
    await beside.get("q", "person", "ann")
    now[0] += 1
    await beside.list("p", "person", limit=1)
    await beside.get("p", "person", "ann")
    assert shelf.read == [
        ("p", "person", "", "2"),
        ("p", "person", "a", "1"),
        ("q", "person", "", "1"),
        ("p", "person", "zoe"),
        ("q", "person", "ann"),
        ("p", "person", "", "1"),
        ("p", "person", "ann"),
    ]
