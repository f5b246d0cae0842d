"""Grants: what a standing yes covers, for how long, how often, and what it never covers.

Method: one call is allowed with `always=`, then calls like it and unlike it are made, on every
store. The outside ledger says what ran; the journal says under which grant.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import Always, Context, Policy, Principal, Rule, Sayso, approve, reject, role, tool
from sayso.errors import BadValue, NotAllowed, UnknownGrant, WrongVerdict
from sayso.testing import call, say

from .kit import Place, agent, completed, finished, held, journal, suspended


def teller(place: Place, *amounts: int, to: str = "jiro", **options: Any) -> Any:
    @tool(effect="once", **options)
    def pay(ctx: Context, amount: int, to: str = "jiro") -> str:
        place.world.act(ctx, {"amount": amount, "to": to})
        return "paid"

    script = [call("pay", {"amount": one, "to": to}) for one in amounts]
    return agent([*script, say("Done.")], pay)


ASKED = Policy(Rule("pay", approvers=[role("finance")]))


async def granted(app: Sayso, place: Place, always: Always, by: str = "ann") -> Any:
    await app.people.put("ann", roles=["finance"])
    await app.people.put("bob", roles=["finance"])
    hold = await held(run := await app.start("teller", "Pay", by="mira"))
    assert hold.grantable
    await app.decide(hold, approve(), by=by, always=always)
    await completed(run)
    del place
    (grant,) = await app.grants.list()
    return grant


async def test_a_call_like_it_starts_without_anybody_and_the_journal_says_why(
    place: Place,
) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        grant = await granted(app, place, Always())
        assert (grant.by.id, grant.tool, grant.used) == ("ann", "pay", 0)
        run = await app.start("teller", "Pay again", by="mira")
        await completed(run)
        found = {one.type: one.event for one in await journal(app.store, run.id)}
        assert "hold.opened" not in found
        started = found["call.started"]
        assert (started.grant, started.grant_until) == (grant.id, grant.until)
        assert [one.person for one in started.basis] == ["ann"]
        assert (await app.grants.list())[0].used == 1
    assert len(place.world.effects()) == 2


@pytest.mark.parametrize(
    "limits, amount, to, covered",
    [
        ("same", 5, "jiro", True),
        ("same", 6, "jiro", False),
        ("same", 5, "eve", False),
        ("any", 10**6, "eve", True),
        ({"amount": {"at_most": 10}}, 10, "jiro", True),
        ({"amount": {"at_most": 10}}, 11, "jiro", False),
        ({"amount": {"at_most": 10}}, 5, "eve", False),
        ({"amount": {"at_least": 5}}, 4, "jiro", False),
        ({"amount": "any", "to": {"one_of": ["jiro", "kim"]}}, 99, "kim", True),
        ({"amount": "any", "to": {"one_of": ["jiro", "kim"]}}, 99, "Kim", False),
    ],
)
async def test_what_a_grant_does_not_speak_of_stays_the_same(
    place: Place, limits: Any, amount: int, to: str, covered: bool
) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always(args=limits))
    async with place.app(teller(place, amount, to=to), policy=ASKED) as app:
        view = await (await app.start("teller", "Pay", by="mira")).wait(timeout=20)
        assert view.status == ("completed" if covered else "suspended")
    assert len(place.world.effects()) == 1 + covered


async def test_the_last_use_is_had_by_one(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always(uses=3))
        runs = [await app.start("teller", "Pay", by="mira") for _ in range(8)]
        views = await asyncio.gather(*[run.wait(timeout=20) for run in runs])
        assert sorted(view.status for view in views) == ["completed"] * 3 + ["suspended"] * 5
        assert not await app.grants.list()
        assert [one.used for one in await app.grants.list(good=False)] == [3]
    assert len(place.world.effects()) == 4


async def test_calls_of_one_turn_share_the_uses_that_are_left(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always(uses=2))

    @tool(effect="once")
    def pay(ctx: Context, amount: int, to: str = "jiro") -> str:
        place.world.act(ctx, {"amount": amount, "to": to})
        return "paid"

    three = [call("pay", {"amount": 5, "to": "jiro"}) for _ in range(3)]
    async with place.app(agent([three, say("Done.")], pay), policy=ASKED) as app:
        view = await suspended(run := await app.start("teller", "Pay", by="mira"))
        assert len(view.holds) == 1
        await app.decide(view.holds[0], reject("enough"), by="bob")
        await completed(run)
    assert len(place.world.effects()) == 3


async def test_a_grant_ends_when_it_says_and_when_it_is_revoked(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        grant = await granted(app, place, Always(until="1d"))
        for who in ("bob", "mira"):
            with pytest.raises(NotAllowed):
                await app.grants.revoke(grant, by=who)
        with pytest.raises(UnknownGrant):
            await app.grants.revoke("grant_0", by="ann")
        await app.grants.revoke(grant.id, by="ann")
        await app.grants.revoke(grant, by="ann")
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="bob", always=Always(until="1d"))
        await completed(run)
        await completed(await app.start("teller", "Pay", by="mira"))
        place.clock.advance("25h")
        await held(await app.start("teller", "Pay", by="mira"))
        assert [one.revoked_by for one in await app.grants.list(good=False)].count(
            Principal(id="ann")
        ) == 1
    assert len(place.world.effects()) == 3


async def test_a_grant_is_worth_what_whoever_gave_it_may_allow_now(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always())
        await app.people.put("ann", roles=[])
        await held(await app.start("teller", "Pay", by="mira"))
        await app.people.put("ann", roles=["finance"])
        await completed(await app.start("teller", "Pay", by="mira"))
        await app.people.put("ann", active=False)
        await held(await app.start("teller", "Pay", by="mira"))


async def test_a_grant_of_a_run_is_for_that_run(place: Place) -> None:
    async with place.app(teller(place, 5, 5), policy=ASKED) as app:
        await app.people.put("ann", roles=["finance"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", always=Always(scope="run"))
        await completed(run)
        await held(await app.start("teller", "Pay", by="mira"))
    assert len(place.world.effects()) == 2


@pytest.mark.parametrize(
    "rule",
    [
        Rule("pay", approvers=[role("finance")], quorum=2),
        Rule("pay", approvers=[role("finance")], not_requester=True),
        Rule("pay", approvers=[role("finance")], risk="critical"),
    ],
    ids=["quorum", "four eyes", "critical"],
)
async def test_no_grant_is_given_or_used_where_one_yes_is_not_enough(
    place: Place, rule: Rule
) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always(args="any"))
    async with place.app(teller(place, 5), policy=Policy(rule)) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        assert not hold.grantable
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann", always=Always())
        assert (await app.hold(hold)).status == "open"
        assert len(await app.grants.list()) == 1
        await app.cancel(run, by="mira")
        await finished(run)


async def test_what_could_not_be_granted_is_refused_and_nothing_is_decided(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await app.people.put("ann", roles=["finance"])
        hold = await held(await app.start("teller", "Pay", by="mira"))
        bad: list[Any] = [
            Always(args="all"),
            Always(args={"who": "any"}),
            Always(args={"amount": {"under": 3}}),
            Always(args={"amount": {"at_most": True}}),
            Always(args={"amount": {}}),
            Always(scope="world"),
            Always(uses=0),
            Always(uses=True),
            Always(until="2000d"),
        ]
        for always in bad:
            with pytest.raises(BadValue):
                await app.decide(hold, approve(), by="ann", always=always)
        with pytest.raises(WrongVerdict):
            await app.decide(hold, reject("no"), by="ann", always=Always())
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="mira", always=Always())
        assert (await app.hold(hold)).status == "open"
        assert not await app.grants.list()


async def test_an_edit_that_others_must_decide_gives_no_grant(place: Place) -> None:
    policy = Policy(
        Rule("pay", when=lambda c: c.args["amount"] <= 100, approvers=[role("finance")]),
        Rule("pay", when=lambda c: c.args["amount"] > 100, approvers=[role("lead")]),
    )
    async with place.app(teller(place, 5), policy=policy) as app:
        await app.people.put("ann", roles=["finance"])
        hold = await held(await app.start("teller", "Pay", by="mira"))
        more = approve(args={"amount": 500, "to": "jiro"})
        edited = await app.decide(hold, more, by="ann", always=Always())
        assert (edited.status, edited.version) == ("open", 2)
        assert not await app.grants.list()


async def test_another_version_of_the_tool_is_asked_about(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always())
    async with place.app(teller(place, 5, version="2"), policy=ASKED) as app:
        await held(await app.start("teller", "Pay", by="mira"))


async def test_a_rule_that_forbids_is_not_loosened(place: Place) -> None:
    async with place.app(teller(place, 5), policy=ASKED) as app:
        await granted(app, place, Always())
    policy = Policy(Rule("pay", forbid="not today"))
    async with place.app(teller(place, 5), policy=policy) as app:
        await completed(await app.start("teller", "Pay", by="mira"))
    assert len(place.world.effects()) == 1
