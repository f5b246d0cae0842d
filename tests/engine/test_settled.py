"""Notices for whoever keeps a message up to date: that somebody has voted, and what became of it.

Method: as in `test_notices.py`. A `Card` wants all kinds of notices.
"""

from __future__ import annotations

from typing import Any

import pytest

from sayso import Policy, Rule, anyone, approve, reject
from sayso.engine.parcel import KINDS
from sayso.engine.wanted import GOOD_MS, leave_word, read_word
from sayso.testing import call, say

from .kit import Place, agent, held, until
from .test_notices import Told, asked, courier_sleeps, pay, rule


class Card(Told):
    """Wants to hear of everything."""

    tells = frozenset(KINDS)


PLAIN = {"remind_every": None}


@pytest.mark.parametrize("how", ["approved", "rejected", "expired", "withdrawn", "undoable"])
async def test_what_became_of_it_is_told_once(place: Place, how: str) -> None:
    told = Card()
    more = {"within": "90m"} if how == "expired" else {}
    async with asked(place, told, policy=rule(**PLAIN, **more)) as (app, hold):
        await app.sweep()
        match how:
            case "approved":
                await app.decide(hold, approve(), by="mira")
            case "rejected":
                await app.decide(hold, reject("no"), by="mira")
            case "undoable":
                await app.decide(hold, approve(), by="mira", undo="5s")
                await app.sweep()
                assert told.kinds == ["asked"]
                place.clock.advance("5s")
            case "withdrawn":
                await app.cancel(hold.run_id, by="mira")
            case _:
                place.clock.advance("90m")
        await app.sweep()
        await app.sweep()

        (notice,) = told.of("settled")
        assert told.kinds == ["asked", "settled"]
        assert notice.hold.status == "settled"
        assert notice.hold.decision is not None
        assert notice.hold.decision.word == how.replace("undoable", "approved")
        assert await app.store.outbox.next_due() is None


async def test_a_vote_that_settles_nothing_is_told(place: Place) -> None:
    told = Card()
    policy = rule(**PLAIN, approvers=[anyone], quorum=2)
    async with asked(place, told, policy=policy) as (app, hold):
        await app.sweep()
        await app.decide(hold, approve(), by="ann")
        await app.sweep()
        assert [len(one.hold.votes) for one in told.of("voted")] == [1]
        await app.decide(hold, approve(), by="bob")
        await app.sweep()

        assert told.kinds == ["asked", "voted", "settled"]


async def test_a_vote_is_not_told_of_what_is_settled_by_now(place: Place) -> None:
    told = Card()
    policy = rule(**PLAIN, approvers=[anyone], quorum=2)
    async with asked(place, told, policy=policy) as (app, hold):
        await app.decide(hold, approve(), by="ann")
        await app.decide(hold, approve(), by="bob")
        await app.sweep()

        assert told.kinds == ["settled"]


async def test_who_does_not_want_to_hear_of_it_does_not(place: Place) -> None:
    told = Told()
    policy = rule(**PLAIN, approvers=[anyone], quorum=2)
    async with asked(place, told, policy=policy) as (app, hold):
        await app.decide(hold, approve(), by="ann")
        await app.decide(hold, approve(), by="bob")

        assert await app.store.outbox.next_due() is None


async def test_what_was_decided_where_nobody_tells_is_told_all_the_same(place: Place) -> None:
    """The process that decides has no channels. That others have, it knows from the store."""
    told = Card()
    options: dict[str, Any] = {"notify": told, "policy": rule(**PLAIN)}
    async with place.app(agent([call("pay"), say("x")], pay), **options) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await until(lambda: told.of("asked"), "the card")
        async with place.app(work=False) as desk:
            await desk.decide(hold, reject("no"), by="mira")
        await until(lambda: told.of("settled"), "its end")


async def test_word_that_somebody_tells_is_believed_for_a_while(place: Place) -> None:
    async with place.app(work=False) as app:
        assert await read_word(app.store) == frozenset()
        await leave_word(app.store, ("asked", "settled"))
        place.clock.advance(GOOD_MS - 1)
        await leave_word(app.store, ("asked",))
        assert await read_word(app.store) == {"asked", "settled"}
        place.clock.advance(1)
        assert await read_word(app.store) == {"asked"}


async def test_a_parcel_that_nobody_here_tells_goes_to_the_dead(place: Place) -> None:
    """Somebody left word who is not there any more; others are not told what they never wanted."""
    told = Told()
    async with place.app(work=False) as before:
        await leave_word(before.store, ("settled",))
        async with asked(place, told, policy=rule(**PLAIN)) as (app, hold):
            await app.sweep()
            await app.decide(hold, approve(), by="mira")
            for _ in range(12):
                await app.sweep()
                place.clock.advance("1h")

            assert told.kinds == ["asked"]
            (dead,) = await app.notices.dead()
            assert (dead.kind, dead.error) == ("settled", "nobody here tells of it")


async def test_what_another_run_settles_is_nobodys_card(place: Place) -> None:
    from sayso import spawn

    told = Card()
    clerk = agent([say("found")], name="clerk")
    boss = agent([call("spawn", {"agent": "clerk", "input": "x"}), say("x")], spawn("clerk"))
    async with place.app(boss, clerk, notify=told, bounds=courier_sleeps()) as app:
        await (await app.start("teller", "Go", by="mira")).wait(final=True, timeout=20)

        assert await app.store.outbox.next_due() is None


async def test_a_card_whose_call_was_edited_ends_once(place: Place) -> None:
    told = Card()
    policy = Policy(Rule("pay", approvers=[anyone]))
    async with asked(place, told, policy=policy) as (app, hold):
        await app.sweep()
        place.clock.advance("1m")
        await app.decide(hold, approve(args={"amount": 5}), by="ann")
        await app.sweep()

        assert told.kinds[-1] == "settled"
        assert len(told.of("settled")) == 1
