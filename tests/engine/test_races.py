"""Everything that can happen at the same moment, does: in many tasks, in many processes.

Method: many deciders, the clock and a canceller race for the same holds; the ledger outside counts
what happened, and the judge reads the journals. A race that only one side ever wins tests nothing,
so each kind of winner must be seen.
"""

import asyncio
import contextlib
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from sayso import Bounds, Context, Sayso, answer, approve, reject, tool
from sayso.errors import AlreadyDecided, HoldExpired, RunFinished
from sayso.store.base import Appended, Store, Write
from sayso.store.sqlite import SqliteStore
from sayso.testing import call, say

from . import child
from .judge import judge
from .kit import (
    PATIENCE_S,
    Child,
    Delegate,
    Place,
    agent,
    completed,
    finished,
    held,
    journal,
    outcomes,
    suspended,
    types,
    until,
)

CLICKS = 50
PROCESSES = 4


def payer(place: Place, **options: Any) -> Any:
    @tool(name="pay", approval=True, effect="once", **options)
    async def pay(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "paid"

    return agent([call("pay"), say("done")], pay)


async def click(place: Place, hold: str, key: str | None) -> list[dict[str, Any]]:
    """Let four processes click fifty times in all, at once; give every answer."""
    counts = [CLICKS // PROCESSES + (n < CLICKS % PROCESSES) for n in range(PROCESSES)]
    children = [
        Child(place, do="decide", hold=hold, key=key, clicks=count, n=n)
        for n, count in enumerate(counts)
    ]
    try:
        for one in children:
            await one.said("ready")
        (place.world.root / "go").touch()
        for one in children:
            assert await one.gone() == 0
        return [found for one in children for found in json.loads(one.words[-1])]
    finally:
        (place.world.root / "go").unlink(missing_ok=True)
        for one in children:
            one.__exit__()


async def test_of_fifty_clicks_in_four_processes_one_stands_and_the_others_are_told(
    file_place: Place,
) -> None:
    place = file_place
    async with Sayso(place.path, agents=[payer(place)]) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        answers = await click(place, hold.id, key=None)
        view = await completed(run)

        assert len(answers) == CLICKS
        assert Counter(one["answer"] for one in answers) == {"stands": 1, "told": CLICKS - 1}
        (winner,) = (one for one in answers if one["answer"] == "stands")
        for one in answers:
            assert {**one, "answer": ""} == {**winner, "answer": ""}
        yes = winner["said"] == "approved"
        assert len(place.world.effects()) == (1 if yes else 0)
        assert outcomes(view) == ["Returned" if yes else "Declined"]
        await judge(app.store, place.world, ("pay",))


async def test_fifty_equal_requests_with_one_key_are_one_decision_and_fifty_equal_answers(
    file_place: Place,
) -> None:
    place = file_place
    async with Sayso(place.path, agents=[payer(place)]) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        answers = await click(place, hold.id, key="one click")
        await completed(run)

        assert len(answers) == CLICKS
        assert all(one == answers[0] for one in answers)
        assert answers[0]["answer"] == "stands"
        assert (await types(app, run)).count("hold.settled") == 1
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def test_of_fifty_clicks_in_one_process_one_stands(place: Place) -> None:
    async with place.app(payer(place)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        tried = await asyncio.gather(
            *(
                app.decide(hold, approve() if n % 2 else reject(str(n)), by="mira")
                for n in range(CLICKS)
            ),
            return_exceptions=True,
        )
        await completed(run)

        stands = [one for one in tried if not isinstance(one, BaseException)]
        told = [one for one in tried if isinstance(one, AlreadyDecided)]
        assert (len(stands), len(told)) == (1, CLICKS - 1)
        assert all(one.decision == stands[0].decision for one in told)
        await judge(app.store, place.world, ("pay",))


async def test_fifty_equal_requests_with_one_key_in_one_process_get_equal_answers(
    place: Place,
) -> None:
    async with place.app(payer(place)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        answers = await asyncio.gather(
            *(app.decide(hold, approve(), by="mira", key="k") for _ in range(CLICKS))
        )
        await completed(run)

        assert all(one == answers[0] for one in answers)
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def race(place: Place, app: Sayso, chance: random.Random, runs: int) -> Counter[str]:
    """Let a decision, the deadline and a cancellation meet on each of some runs."""
    started = [await app.start("teller", "Pay", by="mira") for _ in range(runs)]
    holds = [await held(run) for run in started]

    async def after(steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    async def decide(n: int) -> Any:
        await after(chance.randrange(16))
        verdict = approve() if n % 2 else reject("no")
        try:
            return await app.decide(holds[n], verdict, by="mira")
        except AlreadyDecided as error:
            return error

    async def cancel(n: int) -> Any:
        await after(chance.randrange(40))
        try:
            return await app.cancel(started[n], by="mira")
        except RunFinished as error:
            return error

    async def expire() -> None:
        await after(chance.randrange(20))
        place.clock.advance("1m")
        await app.sweep()

    answers = await asyncio.gather(
        *(decide(n) for n in range(runs)), *map(cancel, range(runs)), expire()
    )
    won: Counter[str] = Counter()
    for n, run in enumerate(started):
        await finished(run)
        stands = await app.hold(holds[n].id)
        assert stands.decision is not None
        won[stands.decision.word] += 1
        mine = answers[n]
        if isinstance(mine, AlreadyDecided):
            assert stands.decision.word in ("expired", "withdrawn")
            assert isinstance(mine, HoldExpired) == (stands.decision.word == "expired")
            assert mine.decision.verdict == stands.decision.verdict
            assert mine.decision.by == stands.decision.by
        else:
            assert mine.decision == stands.decision
        paid = len(place.world.effects(holds[n].call_id))
        assert paid <= (stands.decision.word == "approved")
    return won


@pytest.mark.parametrize("kind, groups", [("memory", 150), ("sqlite", 50)])
async def test_a_decision_the_deadline_and_a_cancellation_never_both_win(
    tmp_path: Path, kind: str, groups: int
) -> None:
    place = Place(kind, tmp_path)
    chance = random.Random(20261115)
    won: Counter[str] = Counter()
    async with place.app(payer(place, within="1m")) as app:
        for _ in range(groups):
            won += await race(place, app, chance, 20)

        assert won.total() == groups * 20
        for word in ("approved", "rejected", "expired", "withdrawn"):
            share = won[word] / won.total()
            assert share >= 0.05, f"{word} wins {share:.1%} of the races: {won}"
        await judge(app.store, place.world, ("pay",))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_a_decision_the_deadline_and_a_cancellation_never_both_win_at_length(
    tmp_path: Path, seed: int
) -> None:
    place = Place("memory" if seed % 2 else "sqlite", tmp_path)
    async with place.app(payer(place, within="1m")) as app:
        for _ in range(200):
            await race(place, app, random.Random(seed), 20)
        await judge(app.store, place.world, ("pay",))


async def test_deadlines_a_few_milliseconds_ahead_by_the_real_clock_are_kept(
    tmp_path: Path,
) -> None:
    place = Place("sqlite", tmp_path)
    won: Counter[str] = Counter()
    busy = Bounds(look_s=0.001)
    async with Sayso(place.path, agents=[payer(place, within="12ms")], bounds=busy) as app:
        for n in range(120):
            run = await app.start("teller", "Pay", by="mira")
            view = await run.wait(timeout=PATIENCE_S)
            if view.status == "suspended":
                wait_s = view.holds[0].deadline.timestamp() - time.time() + (n % 7 - 3) / 1000
                await asyncio.sleep(max(0, wait_s))
                with contextlib.suppress(HoldExpired):
                    await app.decide(view.holds[0], approve(), by="mira")
            await finished(run)
            settled = next(e for e in await journal(app.store, run.id) if e.type == "hold.settled")
            won[settled.event.decision.word] += 1

        assert won["approved"] >= 6
        assert won["expired"] >= 6
        await judge(app.store, place.world, ("pay",))


async def test_two_deciders_of_two_holds_never_lose_a_wake_up(place: Place) -> None:
    @tool(name="pay", approval=True, effect="once")
    async def pay(ctx: Context, n: int) -> str:
        place.world.act(ctx, {"n": n})
        return "paid"

    two = [call("pay", {"n": 1}), call("pay", {"n": 2})]
    chance = random.Random(7)
    async with (
        place.app(agent([two, say("done")], pay)) as one,
        place.app(agent([two, say("done")], pay)) as other,
    ):
        for _ in range(60):
            run = await one.start("teller", "Pay", by="mira")
            holds = (await suspended(run)).holds

            async def decide(app: Sayso, hold: Any) -> None:
                for _ in range(chance.randrange(12)):
                    await asyncio.sleep(0)
                await app.decide(hold, approve(), by="mira")

            await asyncio.gather(decide(one, holds[0]), decide(other, holds[1]))
            await completed(run)

        assert Counter(Counter(place.world.effects()).values()) == {1: 120}
        await judge(one.store, place.world, ("pay",))


# Two workers on one run, one of them stopped.

LEASE = {"lease_ms": 400}
HASTE = {"beat_s": 0.1, "takeover_grace_ms": 100, "start_grace_ms": 200}


def is_stopped(process: Child) -> bool:
    stat = Path(f"/proc/{process.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("verdict", ["approve", "answer", "reject"])
async def test_a_worker_stopped_between_its_start_and_the_call_does_not_act_when_it_wakes(
    file_place: Place, verdict: str
) -> None:
    place = file_place
    store = await SqliteStore.open(place.path, **LEASE)
    with Child(
        place, do="serve", stop="started", timeout="200ms", store=LEASE, bounds=HASTE
    ) as first:
        await first.said("ready")
        async with Sayso(store, work=False) as desk:
            run, hold = await _held_by(place, desk)
            await desk.decide(hold, approve(), by="mira")
            await first.said("started")
            await until(lambda: is_stopped(first), "the stop")

        heir = child.teller(place.world, {"name": "heir", "stay": "before"})
        async with Sayso(store, agents=[heir], bounds=Bounds(look_s=0.05, **HASTE)) as app:
            handle = app.run(run)
            doubt = await held(handle)
            assert (doubt.kind, place.world.effects()) == ("in_doubt", [])
            said = {"approve": approve(), "answer": answer("no need"), "reject": reject("no")}
            again = verdict == "approve"
            # The first worker is silent, and it takes somebody's word to run it again.
            await app.decide(doubt, said[verdict], by="mira", even_if_alive=again)
            if again:
                # The second attempt is under way while the first worker wakes.
                await until(lambda: _started(app, run, 2), "the second attempt")
            else:
                await completed(handle)

            first.signal(signal.SIGCONT)
            await asyncio.sleep(0.1)
            first.signal(signal.SIGTERM)
            assert await first.gone() == 0
            (place.world.root / "go").touch()
            await completed(handle)

            assert "before" not in first.words
            assert len(place.world.effects()) == (1 if verdict == "approve" else 0)
            assert "late.result" not in await types(app, run)
            proofs = [
                e.event.proof for e in await journal(store, run) if e.type == "run.taken_over"
            ]
            assert proofs == ["lease"]
            await judge(store, place.world, ("pay",))
    await store.close()


@pytest.mark.parametrize("verdict", ["answer", "reject"])
async def test_a_worker_stopped_in_its_tool_past_its_lease_comes_back_with_a_late_result(
    file_place: Place, verdict: str
) -> None:
    place = file_place
    store = await SqliteStore.open(place.path, **LEASE)
    with Child(
        place, do="serve", stop="before", timeout="200ms", store=LEASE, bounds=HASTE
    ) as first:
        await first.said("ready")
        async with Sayso(store, work=False) as desk:
            run, hold = await _held_by(place, desk)
            await desk.decide(hold, approve(), by="mira")
            await first.said("before")
            await until(lambda: is_stopped(first), "the stop")

        heir = child.teller(place.world, {"name": "heir"})
        async with Sayso(store, agents=[heir], bounds=Bounds(look_s=0.05, **HASTE)) as app:
            handle = app.run(run)
            doubt = await held(handle)
            assert (doubt.kind, place.world.effects()) == ("in_doubt", [])
            said = {"answer": answer("as it were"), "reject": reject("leave it")}[verdict]
            await app.decide(doubt, said, by="mira")
            before = await completed(handle)

            first.signal(signal.SIGCONT)
            await until(lambda: _late(app, run), "the late result")
            after = await handle.view()

            assert outcomes(after) == outcomes(before)
            assert after.output == before.output
            (late,) = after.late
            assert late.outcome.result() == "paid by child"
            assert len(place.world.effects()) == 1
            first.signal(signal.SIGTERM)
            assert await first.gone() == 0
            await judge(store, place.world, ("pay",))
    await store.close()


async def test_a_worker_stopped_for_less_than_its_time_is_left_alone(file_place: Place) -> None:
    place = file_place
    store = await SqliteStore.open(place.path, **LEASE)
    with Child(place, do="serve", stop="before", timeout="60s", store=LEASE, bounds=HASTE) as first:
        await first.said("ready")
        heir = child.teller(place.world, {"name": "heir"})
        async with Sayso(store, agents=[], work=False) as desk:
            run, hold = await _held_by(place, desk)
            await desk.decide(hold, approve(), by="mira")
            await first.said("before")
            await until(lambda: is_stopped(first), "the stop")
        async with Sayso(store, agents=[heir], bounds=Bounds(look_s=0.02, **HASTE)) as app:
            # Its lease is over by now, but its call may take a minute.
            await until(lambda: _lost(store), "the end of the lease")
            for _ in range(5):
                assert await app.sweep() == 0

            first.signal(signal.SIGCONT)
            view = await completed(app.run(run))

            assert outcomes(view) == ["Returned"]
            assert len(place.world.effects()) == 1
            assert "run.taken_over" not in await types(app, run)
            await judge(store, place.world, ("pay",))
    await store.close()


async def _held_by(place: Place, desk: Sayso) -> tuple[str, Any]:
    """Start a run where only another process works, and wait for its hold."""
    async with Sayso(desk.store, agents=[child.teller(place.world, {})], work=False) as starter:
        run = await starter.start("teller", "Pay", by="mira")
    return run.id, await held(desk.run(run.id))


async def _started(app: Sayso, run_id: str, count: int) -> bool:
    return (await types(app, run_id)).count("call.started") == count


async def _late(app: Sayso, run_id: str) -> bool:
    return "late.result" in await types(app, run_id)


async def _lost(store: SqliteStore) -> bool:
    return bool(await store.lost())


class Late(Delegate):
    """A store that keeps appends back, once it is told to."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()

    def append(self, *writes: Write) -> Awaitable[Appended]:
        if self.open.is_set():
            return self.inner.append(*writes)
        self.asked.set()
        return asyncio.ensure_future(self._later(writes))

    async def _later(self, writes: tuple[Write, ...]) -> Appended:
        await self.open.wait()
        return await self.inner.append(*writes)


async def test_a_view_shows_nothing_that_is_not_committed(place: Place) -> None:
    stores: list[Late] = []

    def late(store: Store) -> Late:
        stores.append(Late(store))
        return stores[-1]

    async with place.app(payer(place), wrap=late) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        stores[0].open.clear()
        deciding = asyncio.create_task(app.decide(hold, approve(), by="mira"))
        await stores[0].asked.wait()

        view = await run.view()

        assert (view.status, len(view.holds)) == ("suspended", 1)
        stores[0].open.set()
        await deciding
        assert (await completed(run)).holds == ()
