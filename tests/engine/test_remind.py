"""Hearing of a hold again: who, when, how often, and until when. As in `test_notices.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sayso import anyone, approve, reject, user
from sayso.engine.parcel import LATER
from sayso.errors import AlreadyDecided, BadValue, NotAllowed, UnknownHold
from sayso.store.views import moment

from .kit import Place
from .test_notices import Told, asked, rule

PLAIN: dict[str, Any] = {"remind_every": None}


async def test_who_wants_to_be_told_again_is_and_nobody_else(place: Place) -> None:
    told = Told()
    policy = rule(**PLAIN, approvers=[user("ann"), user("bob")])
    async with asked(place, told, policy=policy) as (app, hold):
        await app.sweep()
        at = await app.remind(hold, "1h", by="ann")
        assert at == moment(place.clock.now() + 3_600_000)
        place.clock.advance(3_600_000 - 1)
        await app.sweep()
        assert told.of("reminder") == []
        place.clock.advance(1)
        await app.sweep()
        place.clock.advance("9h")
        await app.sweep()

        (notice,) = told.of("reminder")
        assert (notice.to, notice.times) == (("user:ann",), 0)
        assert notice.hold.id == hold.id
        assert await app.store.outbox.next_due() is None


async def test_a_later_wish_takes_the_place_of_the_one_before(place: Place) -> None:
    told = Told()
    policy = rule(**PLAIN, approvers=[user("ann"), user("bob")])
    async with asked(place, told, policy=policy) as (app, hold):
        await app.remind(hold, timedelta(hours=1), by="ann")
        await app.remind(hold.id, 7200, by="ann")
        await app.remind(hold, moment(place.clock.now() + 60_000), by="bob")
        for _ in range(30):
            place.clock.advance("5m")
            await app.sweep()

        assert [one.to for one in told.of("reminder")] == [("user:bob",), ("user:ann",)]
        assert len({one.id for one in told.notices}) == 3


async def test_the_deadline_keeps_running(place: Place) -> None:
    told = Told()
    async with asked(place, told, policy=rule(**PLAIN, within="2h")) as (app, hold):
        with pytest.raises(BadValue, match="too late"):
            await app.remind(hold, "2h", by="mira")
        await app.remind(hold, "119m", by="mira")
        place.clock.advance("3h")
        await app.sweep()

        assert (await app.hold(hold)).status == "settled"
        assert told.of("reminder") == []


@pytest.mark.parametrize("how", ["settled", "handed"])
async def test_nobody_is_told_again_of_what_does_not_ask_them(place: Place, how: str) -> None:
    told = Told()
    policy = rule(**PLAIN, approvers=[user("ann")])
    async with asked(place, told, policy=policy) as (app, hold):
        await app.remind(hold, "1h", by="ann")
        if how == "settled":
            await app.decide(hold, reject("no"), by="ann")
        else:
            await app.reassign(hold, to="bob", by="ann")
        place.clock.advance("1h")
        await app.sweep()

        assert told.of("reminder") == []
        assert await app.store.outbox.next_due() is None


async def test_what_is_decided_is_not_put_off(place: Place) -> None:
    async with asked(place, Told(), policy=rule(**PLAIN)) as (app, hold):
        await app.decide(hold, approve(), by="mira", undo="1m")
        with pytest.raises(AlreadyDecided) as caught:
            await app.remind(hold, "1h", by="mira")
        assert caught.value.decision.by.id == "mira"


async def test_only_whom_it_asks_is_told_again(place: Place) -> None:
    policy = rule(**PLAIN, approvers=[anyone], not_requester=True)
    async with asked(place, Told(), policy=policy) as (app, hold):
        before = [one.id for one in await app.store.outbox.waiting("default")]
        with pytest.raises(NotAllowed):
            await app.remind(hold, "1h", by="mira")
        with pytest.raises(UnknownHold):
            await app.remind("hold_01m7hq607ahdnnwh0m9399fc1x.1", "1h", by="mira")

        assert [one.id for one in await app.store.outbox.waiting("default")] == before
        assert await app.store.shelf.list("default", "read") == []


@pytest.mark.parametrize(
    "when",
    [
        0,
        59,
        -5,
        "soon",
        float("nan"),
        timedelta(days=400),
        datetime(2999, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1),  # noqa: DTZ001 - that is what is wrong with it.
        None,
        [],
    ],
)
async def test_a_time_that_is_none_is_refused(place: Place, when: Any) -> None:
    async with asked(place, None, policy=rule(**PLAIN)) as (app, hold):
        with pytest.raises(BadValue):
            await app.remind(hold, when, by="mira")
        assert await app.store.shelf.list("default", "read") == []


async def test_where_nobody_tells_there_is_nothing_to_deliver(place: Place) -> None:
    async with asked(place, None, policy=rule(**PLAIN)) as (app, hold):
        await app.remind(hold, "1h", by="mira")

        assert await app.store.outbox.next_due() is None
        assert len(await app.store.shelf.list("default", "read")) == 1


async def test_an_identity_is_told_as_the_person(place: Place) -> None:
    told = Told()
    async with asked(place, told, policy=rule(**PLAIN, approvers=[user("ann")])) as (app, hold):
        await app.people.put("ann", identities=["mail:a@x.test"])
        await app.remind(hold, "1h", by="mail:a@x.test")
        await app.remind(hold, "2h", by="ann")
        kinds = [one.kind for one in await app.store.outbox.waiting("default")]

        assert kinds.count(LATER) == 1
