"""Notices: who is told what of a hold, when, and how often.

Method: a clock that stands still, so that every time is exact; `app.sweep()` does what is due, as
the sweeper and the courier would. What was told is a list that the test keeps.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sayso import Notice, Policy, Require, Rule, Sayso, answer, approve, reject, tool, user
from sayso.engine import courier
from sayso.engine.parcel import parcel_id
from sayso.errors import BadSetup
from sayso.store.query import HoldQuery
from sayso.testing import call, say

from .kit import Delegate, Place, agent, completed, held, until

HOUR = 3_600_000


@tool(effect="once")
async def pay(amount: int = 1) -> str:
    return "paid"


def rule(**more: Any) -> Policy:
    return Policy(Rule("pay", **{"remind_every": "1h", **more}))


class Told:
    """Keeps what it is told; goes wrong as often as it is to."""

    def __init__(self, *, fails: int = 0) -> None:
        self.notices: list[Notice] = []
        self.fails = fails
        self.tries = 0

    async def __call__(self, notice: Notice) -> None:
        self.tries += 1
        if self.tries <= self.fails:
            raise ConnectionError("no such address")
        self.notices.append(notice)

    def of(self, kind: str) -> list[Notice]:
        return [one for one in self.notices if one.kind == kind]

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.notices]


@asynccontextmanager
async def asked(place: Place, told: Any, **options: Any) -> AsyncIterator[tuple[Sayso, Any]]:
    """An app with a payment that is held, and a courier that looks only when it is told to."""
    options.setdefault("policy", rule())
    teller = agent([call("pay"), say("x")], pay)
    # It looks once a minute by the event loop: a test is over by then.
    options.setdefault("bounds", courier_sleeps())
    async with place.app(teller, notify=told, **options) as app:
        run = await app.start("teller", "Pay", by="mira")
        yield app, await held(run)


def courier_sleeps() -> Any:
    from sayso import Bounds

    return Bounds(look_s=60.0)


async def test_who_is_asked_is_told(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, hold):
        await app.sweep()

        (notice,) = told.notices
        assert (notice.kind, notice.to, notice.times) == ("asked", ("user:mira",), 0)
        assert notice.hold == await app.hold(hold.id)
        await app.sweep()
        assert len(told.notices) == 1


async def test_a_reminder_comes_when_its_time_has_come_and_not_before(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, _):
        place.clock.advance(HOUR - 1)
        await app.sweep()
        assert told.of("reminder") == []

        place.clock.advance(1)
        await app.sweep()
        (first,) = told.of("reminder")
        assert (first.times, first.to) == (1, ("user:mira",))

        place.clock.advance(HOUR - 1)
        await app.sweep()
        assert len(told.of("reminder")) == 1
        place.clock.advance(1)
        await app.sweep()
        assert [one.times for one in told.of("reminder")] == [1, 2]
        assert len({one.id for one in told.notices}) == 3


async def test_what_was_missed_is_not_made_up_for(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, _):
        place.clock.advance(50 * HOUR + 7)
        await app.sweep()
        await app.sweep()

        assert [one.times for one in told.of("reminder")] == [50]
        place.clock.advance(HOUR - 7)
        await app.sweep()
        assert [one.times for one in told.of("reminder")] == [50, 51]


@pytest.mark.parametrize("how", ["settled", "expired", "cancelled", "undoable"])
async def test_nobody_is_reminded_of_what_is_not_asked_any_more(place: Place, how: str) -> None:
    told = Told()
    policy = rule(within="90m") if how == "expired" else rule()
    async with asked(place, told, policy=policy) as (app, hold):
        await app.sweep()
        match how:
            case "settled":
                await app.decide(hold, approve(), by="mira")
            case "undoable":
                await app.decide(hold, approve(), by="mira", undo="10m")
            case "cancelled":
                await app.cancel(hold.run_id, by="mira")
            case _:
                place.clock.advance("90m")
                await app.sweep()
                told.notices.clear()

        assert await app.store.outbox.next_due() is None
        place.clock.advance(5 * HOUR)
        await app.sweep()
        assert told.of("reminder") == []


async def test_nobody_is_told_of_what_another_process_has_settled(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, hold), place.app(work=False) as desk:
        await desk.decide(hold, reject("no"), by="mira")

        # A process that tells nobody knows of no notices but reminders.
        assert await app.store.outbox.next_due() is not None
        await app.sweep()
        assert told.notices == []
        assert await app.store.outbox.next_due() is None


async def test_nobody_is_reminded_of_what_is_about_to_expire(place: Place) -> None:
    told = Told()
    async with asked(place, told, policy=rule(within="90m")) as (app, _):
        await app.notices.deliver()
        place.clock.advance("2h")
        await app.notices.deliver()

        assert told.kinds == ["asked"]
        assert await app.store.outbox.next_due() == place.clock.now() + 60_000


async def test_a_rule_that_reminds_no_more_ends_the_reminders(place: Place) -> None:
    def check(facts: Any) -> Any:
        few = facts.args["amount"] > 10
        return Require(
            approvers=(user("boss" if few else "mira"),), remind_every_ms=None if few else HOUR
        )

    async with asked(place, None, policy=None, check_for_intervention=check) as (app, hold):
        assert await app.store.outbox.next_due() is not None
        await app.decide(hold, approve(args={"amount": 50}), by="mira")

        assert await app.store.outbox.next_due() is None


async def test_a_decision_that_was_taken_back_is_reminded_of_again(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, hold):
        await app.notices.deliver()
        place.clock.advance("90m")
        await app.decide(hold, approve(), by="mira", undo="10m")
        place.clock.advance("5m")
        await app.undo(hold, by="mira")

        assert (
            await app.store.outbox.next_due() == int(hold.opened_at.timestamp() * 1000) + 2 * HOUR
        )
        place.clock.advance("25m")
        await app.sweep()
        assert [one.times for one in told.of("reminder")] == [2]
        assert len(told.of("asked")) == 1


@pytest.mark.parametrize("back", [True, False])
async def test_who_was_not_told_before_it_was_decided_is_told_if_that_is_taken_back(
    place: Place, back: bool
) -> None:
    told = Told()
    async with asked(place, told, policy=rule(remind_every=None)) as (app, hold):
        await app.decide(hold, approve(), by="mira", undo="10m")
        await app.notices.deliver()
        assert told.notices == []
        if back:
            await app.undo(hold, by="mira")
        place.clock.advance("10m")
        await app.sweep()
        await app.notices.deliver()

        assert told.kinds == (["asked"] if back else [])
        assert await app.store.outbox.next_due() is None


async def test_two_processes_remind_once(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, _), place.app(notify=told, work=False) as other:
        for _ in range(3):
            place.clock.advance(HOUR)
            await asyncio.gather(app.sweep(), other.sweep(), app.sweep(), other.sweep())

        assert sorted(one.times for one in told.of("reminder")) == [1, 2, 3]


async def test_who_is_asked_later_is_told_and_reminded(place: Place) -> None:
    told = Told()
    policy = rule(
        approvers=[user("mira")], escalate_after="90m", escalate_to=[user("boss")], within="9h"
    )
    async with asked(place, told, policy=policy) as (app, _):
        place.clock.advance(HOUR)
        await app.sweep()
        assert told.of("reminder")[0].to == ("user:mira",)

        place.clock.advance("30m")
        await app.sweep()
        (risen,) = told.of("escalated")
        assert (risen.to, risen.added) == (("user:mira", "user:boss"), ("user:boss",))

        place.clock.advance("30m")
        await app.sweep()
        assert told.of("reminder")[1].to == ("user:mira", "user:boss")


async def test_whoever_is_handed_it_is_told(place: Place) -> None:
    told = Told()
    async with asked(place, told, policy=rule(approvers=[user("ann")])) as (app, hold):
        await app.sweep()
        place.clock.advance(1)
        await app.reassign(hold, to="bob", by="ann")
        await app.sweep()

        assert [one.to for one in told.of("asked")] == [("user:ann",), ("user:bob",)]
        assert len({one.id for one in told.notices}) == 2


async def test_what_was_edited_into_something_else_is_asked_anew(place: Place) -> None:
    def check(facts: Any) -> Any:
        who = user("boss") if facts.args["amount"] > 10 else user("mira")
        return Require(approvers=(who,), remind_every_ms=2 * HOUR)

    told = Told()
    async with asked(place, told, policy=None, check_for_intervention=check) as (app, hold):
        await app.sweep()
        place.clock.advance("1m")
        edited = await app.decide(hold, approve(args={"amount": 50}), by="mira")
        assert edited.status == "open"
        await app.sweep()

        assert [one.hold.version for one in told.of("asked")] == [1, 2]
        assert [one.to for one in told.of("asked")] == [("user:mira",), ("user:boss",)]


async def test_a_notice_that_is_refused_comes_again_later_and_later(place: Place) -> None:
    told = Told(fails=3)
    async with asked(place, told, policy=rule(remind_every=None)) as (app, _):
        await app.sweep()
        for tries, minutes in enumerate((1, 2, 4), start=1):
            assert told.tries == tries
            place.clock.advance(minutes * 60_000 - 1)
            await app.sweep()
            assert told.tries == tries
            place.clock.advance(1)
            await app.sweep()

        assert (told.tries, told.kinds) == (4, ["asked"])
        assert await app.store.outbox.next_due() is None


async def test_a_notice_that_is_always_refused_is_given_up_and_can_be_revived(place: Place) -> None:
    told = Told(fails=10)
    async with asked(place, told, policy=rule(remind_every=None)) as (app, hold):
        for _ in range(20):
            await app.sweep()
            place.clock.advance(HOUR)

        assert told.tries == 10
        (dead,) = await app.notices.dead()
        assert (dead.kind, dead.hold_id, dead.tries) == ("asked", hold.id, 10)
        assert dead.error == "ConnectionError: no such address"
        assert await app.notices.dead(after=dead.id) == []
        assert await app.notices.revive(dead)
        assert not await app.notices.revive(dead.id)
        await app.sweep()
        assert told.kinds == ["asked"]
        assert await app.notices.dead() == []


async def test_a_notice_whose_couriers_always_die_is_given_up(place: Place) -> None:
    told = Told()
    async with asked(place, told, policy=rule(remind_every=None)) as (app, _):
        for _ in range(10):
            assert len(await app.store.outbox.take(limit=9, lease_ms=1)) == 1
            place.clock.advance(1)
        await app.sweep()

        assert told.notices == []
        assert [one.error for one in await app.notices.dead()] == ["its couriers died"]


async def test_a_dead_notice_goes_with_its_hold(place: Place) -> None:
    told = Told(fails=99)
    async with asked(place, told) as (app, hold):
        for _ in range(20):
            await app.sweep()
            place.clock.advance(HOUR)
        assert {one.kind for one in await app.notices.dead()} == {"asked", "reminder"}

        await app.decide(hold, reject("no"), by="mira")

        assert await app.notices.dead() == []


async def test_a_reminder_that_was_delivered_has_all_its_tries_again(place: Place) -> None:
    told = Told()
    async with asked(place, told) as (app, _):
        await app.sweep()
        for n in range(1, 15):
            told.fails = told.tries + 1
            place.clock.advance(HOUR - (60_000 if n > 1 else 0))
            await app.sweep()
            place.clock.advance(60_000)
            await app.sweep()
            assert len(told.of("reminder")) == n

        assert await app.notices.dead() == []


class Dies(Delegate):
    """A store whose process dies after a notice was told, before it could say so."""

    dead = False

    @property
    def outbox(self) -> Any:
        return _DeadOutbox(self.inner.outbox) if Dies.dead else self.inner.outbox


class _DeadOutbox(Delegate):
    async def again(self, *args: Any, **more: Any) -> None:
        await asyncio.Event().wait()

    done = again


async def test_what_was_told_before_a_crash_comes_again(place: Place) -> None:
    told, later = Told(), Told()
    Dies.dead = True
    try:
        async with asked(place, told, wrap=Dies, drain_s=0.05) as (app, _):
            place.clock.advance(HOUR)
            sweep = asyncio.ensure_future(app.sweep())
            await until(lambda: len(told.notices) == 2, "the notices")
            sweep.cancel()
    finally:
        Dies.dead = False

    async with place.app(notify=later, work=False) as app:
        await app.sweep()
        assert later.notices == []
        place.clock.advance(courier.TAKEN_MS - 1)
        await app.sweep()
        assert later.notices == []
        place.clock.advance(1)
        await app.sweep()
        assert {one.id for one in later.notices} == {one.id for one in told.notices}


async def test_without_notify_reminders_wait_and_nothing_else_is_there(place: Place) -> None:
    async with asked(place, None) as (app, hold):
        due = await app.store.outbox.next_due()
        assert due == int(hold.opened_at.timestamp() * 1000) + HOUR
        place.clock.advance(10 * HOUR)
        await app.sweep()
        assert await app.store.outbox.next_due() == due

        told = Told()
        async with place.app(notify=told, work=False) as other:
            await other.sweep()
            assert [(one.kind, one.times) for one in told.notices] == [("reminder", 10)]


async def test_a_parcel_holds_ids_and_times_alone(place: Place) -> None:
    told = Told(fails=99)
    async with asked(place, told) as (app, hold):
        parcels = await app.store.outbox.take(limit=9, lease_ms=1)
        place.clock.advance(HOUR)
        parcels += await app.store.outbox.take(limit=9, lease_ms=1)

        at = int(hold.opened_at.timestamp() * 1000)
        found = {one.id: one.data.decode() for one in parcels}
        n = int(hold.id.rpartition(".")[2])
        said = f'{{"hold":"{hold.id}","at":{at}}}'
        assert found == {
            parcel_id("asked", hold.run_id, n): said,
            parcel_id("reminder", hold.run_id, n): said,
        }


async def test_the_courier_delivers_by_itself_and_a_function_may_block(place: Place) -> None:
    told: list[Notice] = []
    teller = agent([call("pay"), say("x")], pay)
    async with place.app(teller, notify=told.append, policy=rule()) as app:
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        await until(lambda: told, "the notice")
        due = place.clock.now() + HOUR
        # Or it would be taken for lost, and come again.
        await until(lambda: _is_due(app, due), "the end of the delivery")
        place.clock.advance(HOUR)
        await until(lambda: len(told) == 2, "the reminder")

        assert [one.kind for one in told] == ["asked", "reminder"]


async def _is_due(app: Sayso, at: int) -> bool:
    return await app.store.outbox.next_due() == at


async def test_a_notify_that_fails_or_hangs_is_nothing_to_a_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "NOTIFY_S", 0.05)
    end = threading.Event()
    calls: list[str] = []

    def hangs(notice: Notice) -> None:
        calls.append(notice.id)
        end.wait()

    teller = agent(lambda messages: say("x") if len(messages) > 1 else PAYMENTS, pay)
    async with place.app(teller, notify=hangs, policy=rule()) as app:
        runs = [await app.start("teller", "Pay", by="mira") for _ in range(3)]
        views = [await run.wait(timeout=20) for run in runs]
        await until(lambda: len(calls) == courier.AT_ONCE, "the notices")
        for hold in [hold for view in views for hold in view.holds]:
            await app.decide(hold, approve(), by="mira")
        for run in runs:
            await completed(run)

        await app.notices.deliver()
        assert len(calls) <= courier.AT_ONCE
        end.set()


PAYMENTS = [call("pay", {"amount": n}) for n in range(10)]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_a_notify_that_would_end_the_process_does_not(
    place: Place, kind: type[BaseException]
) -> None:
    tries: list[str] = []

    async def ends(notice: Notice) -> None:
        tries.append(notice.id)
        raise kind

    async with asked(place, ends) as (app, hold):
        await app.sweep()

        assert len(tries) == 1
        await app.decide(hold, approve(), by="mira")
        await completed(app.run(hold.run_id))


async def test_leaving_waits_for_what_is_being_delivered(place: Place) -> None:
    told: list[str] = []
    begun = asyncio.Event()

    async def slow(notice: Notice) -> None:
        begun.set()
        await asyncio.sleep(0.1)
        told.append(notice.id)

    teller = agent([call("pay"), say("x")], pay)
    async with place.app(teller, notify=slow, policy=rule()) as app:
        await held(await app.start("teller", "Pay", by="mira"))
        await begun.wait()

    assert len(told) == 1


async def test_a_parcel_of_another_kind_is_left_to_others(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    from msgspec.structs import replace

    class Odd(Delegate):
        def append(self, *writes: Any) -> Any:
            odd = [
                replace(write, parcels=tuple(replace(one, kind="mail") for one in write.parcels))
                for write in writes
            ]
            return self.inner.append(*odd)

    told = Told()
    caplog.set_level(logging.WARNING)
    async with asked(place, told, wrap=Odd) as (app, _):
        await app.sweep()

        assert told.notices == []
        assert await app.notices.dead() == []
        assert await app.store.outbox.next_due() == place.clock.now() + HOUR


async def test_a_child_run_is_nobodys_to_be_reminded_of(place: Place) -> None:
    from sayso import spawn

    told = Told()
    clerk = agent([call("pay"), say("found")], pay, name="clerk")
    boss = agent(
        [call("spawn", {"agent": "clerk", "input": "Pay"}), say("x")], spawn("clerk"), name="boss"
    )
    async with place.app(boss, clerk, notify=told, policy=rule(), bounds=courier_sleeps()) as app:
        run = await app.start("boss", "Go", by="mira")
        await run.wait(held=True, timeout=20)
        holds = await app.store.holds(HoldQuery())
        parcels = await app.store.outbox.take(limit=9, lease_ms=1)
        assert {one.run_id for one in parcels} == {one.row.run_id for one in holds}
        assert run.id not in {one.run_id for one in parcels}
        place.clock.advance(1)
        await app.sweep()

        assert [one.hold.tool for one in told.notices] == ["pay"] == [one.row.tool for one in holds]


async def test_a_question_is_told_of_as_well(place: Place) -> None:
    from sayso import ask_user

    told = Told()
    teller = agent([call("ask_user", {"question": "Which?"}), say("x")], ask_user())
    async with place.app(teller, notify=told, bounds=courier_sleeps()) as app:
        hold = await held(await app.start("teller", "Go", by="mira"))
        await app.sweep()
        await app.decide(hold, answer("this"), by="mira")

        assert [(one.kind, one.hold.kind) for one in told.notices] == [("asked", "question")]


async def test_a_period_made_by_hand_is_bounded(place: Place) -> None:
    for every in (0, -5, 1, 10**30):
        check = Require(remind_every_ms=every)
        teller = agent([call("pay"), say("x")], pay)
        async with place.app(
            teller, check_for_intervention=lambda _, found=check: found, bounds=courier_sleeps()
        ) as app:
            hold = await held(await app.start("teller", "Pay", by="mira"))
            due = await app.store.outbox.next_due()
            opened = int(hold.opened_at.timestamp() * 1000)
            wanted = {0: None, -5: None, 1: opened + 60_000}
            if every in wanted:
                assert due == wanted[every]
            else:
                assert due is not None
            await app.decide(hold, reject("no"), by="mira")


def test_notify_is_a_function() -> None:
    with pytest.raises(BadSetup, match="notify"):
        Sayso("memory:", notify="mail")  # pyright: ignore[reportArgumentType]
