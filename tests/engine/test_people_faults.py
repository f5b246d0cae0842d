"""People who are not who they seem, and records that move at the worst moment.

Method: each test is a way around a rule that somebody could find: two names of one person, rights
that were handed on, a role lost between the reading of the records and the commit. The worst moment
is made: a store keeps an append back, lets something else happen, and then passes it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sayso import (
    Always,
    Context,
    Policy,
    Principal,
    Rule,
    approve,
    reject,
    role,
    tool,
    user,
)
from sayso.agents.oauth_provider import OAuthProvider
from sayso.engine import grants
from sayso.errors import (
    AlreadyDecided,
    BadValue,
    CannotUndo,
    ConditionFailed,
    HoldExpired,
    NotAllowed,
    WrongVerdict,
)
from sayso.store.base import Appended, Store, Write
from sayso.store.keyring import VARIABLE, new_key
from sayso.testing import call, say

from .kit import Delegate, Place, agent, completed, finished, held, tags, types

FINANCE = Policy(Rule("pay", approvers=[role("finance")], within="1h"))
TWO = Policy(Rule("pay", approvers=[role("finance")], quorum=2))


def payer(place: Place, **args: Any) -> Any:
    @tool(effect="once")
    def pay(ctx: Context, amount: float = 1, memo: str = "") -> str:
        place.world.act(ctx, {"amount": amount, "memo": memo})
        return "paid"

    return agent([call("pay", {"amount": 200, **args}), say("Paid.")], pay)


class Meddler(Delegate):
    """A store that does something else before it appends a certain event, once."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.tag = ""
        self.first: Callable[[], Awaitable[Any]] | None = None

    def append(self, *writes: Write) -> Awaitable[Appended]:
        if self.first is None or self.tag not in tags(writes):
            return self.inner.append(*writes)
        first, self.first = self.first, None
        return asyncio.ensure_future(self._after(first, writes))

    async def _after(
        self, first: Callable[[], Awaitable[Any]], writes: tuple[Write, ...]
    ) -> Appended:
        await first()
        return await self.inner.append(*writes)


class Office:
    """An app whose store can be meddled with, and another one on the same place."""

    def __init__(self, place: Place, policy: Policy, **options: Any) -> None:
        self._place = place
        self._opened = place.app(payer(place), policy=policy, wrap=self._wrap, **options)
        self._other = place.app(payer(place), policy=policy, work=False)
        self.meddler: Any = None

    def _wrap(self, store: Store) -> Meddler:
        self.meddler = Meddler(store)
        return self.meddler

    def before(self, tag: str, first: Callable[[], Awaitable[Any]]) -> None:
        """Let something happen right before an event is committed."""
        self.meddler.tag, self.meddler.first = tag, first

    async def __aenter__(self) -> Any:
        self.app, self.aside = await self._opened.__aenter__(), await self._other.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._other.__aexit__(*error)
        await self._opened.__aexit__(*error)


async def staff(app: Any, *names: str, roles: tuple[str, ...] = ("finance",)) -> None:
    for name in names:
        await app.people.put(name, roles=list(roles))


# Two names of one person.


async def test_a_vote_by_an_identity_that_turns_out_to_be_somebodys_is_theirs(
    place: Place,
) -> None:
    mail = "mail:ann@example.com"
    policy = Policy(Rule("pay", approvers=[user("ann"), user(mail), user("bob")], quorum=2))
    async with place.app(payer(place), policy=policy) as app:
        await staff(app, "ann", "bob", roles=())
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        assert (await app.decide(hold, approve(), by=mail)).missing == 1
        await app.people.put("ann", identities=[mail])

        voted = await app.decide(hold, approve(), by="ann")

        assert (voted.status, [one.by.id for one in voted.votes]) == ("open", ["ann"])
        assert (await app.decide(hold, approve(), by="bob")).status == "settled"
        await completed(run)


async def test_two_yeses_that_turn_out_to_be_one_persons_start_nothing(place: Place) -> None:
    mail = "mail:ann@example.com"
    policy = Policy(Rule("pay", approvers=[user("ann"), user(mail), user("bob")], quorum=2))
    async with place.app(payer(place), policy=policy, work=False) as desk:
        await staff(desk, "ann", "bob", roles=())
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        for name in ("ann", mail):
            await desk.decide(hold, approve(), by=name)
        await desk.people.put("ann", identities=[mail])

        async with place.app(payer(place), policy=policy) as worker:
            again = await held(worker.run(run.id))

        assert "lost the right" in again.why
        assert not place.world.effects()


async def test_who_votes_for_themselves_does_not_later_vote_for_another_with_it(
    place: Place,
) -> None:
    policy = Policy(Rule("pay", approvers=[role("finance"), user("nora")], quorum=2))
    async with place.app(payer(place), policy=policy) as app:
        await staff(app, "ann")
        await staff(app, "nora", roles=())
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        # What she said for herself would now be said for Nora, who speaks for herself as well.
        await app.people.put("ann", roles=[])
        await app.people.stand_in("ann", of="nora", until="1d")

        voted = await app.decide(hold, approve(), by="nora")

        assert (voted.status, [one.by.id for one in voted.votes]) == ("open", ["nora"])
        await app.cancel(run, by="mira")


async def test_the_start_counts_whom_somebody_speaks_for_now(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[role("finance"), user("nora")], quorum=2))
    async with place.app(payer(place), policy=policy, work=False) as desk:
        await staff(desk, "ann")
        await staff(desk, "nora", roles=())
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        for name in ("ann", "nora"):
            await desk.decide(hold, approve(), by=name)
        await desk.people.put("ann", roles=[])
        await desk.people.stand_in("ann", of="nora", until="1d")

        async with place.app(payer(place), policy=policy) as worker:
            await held(worker.run(run.id))

        assert not place.world.effects()


async def test_names_that_only_look_alike_are_not_the_same_person(place: Place) -> None:
    composed, apart, capital = "jos\u00e9", "jose\u0301", "Jos\u00e9"
    async with place.app(payer(place), policy=FINANCE) as app:
        await app.people.put(composed, roles=["finance"])
        hold = await held(await app.start("teller", "Pay", by="mira"))

        for other in (apart, capital, "finance", "role:finance", "user:" + composed):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=other)
        with pytest.raises(BadValue):
            await app.people.put(apart)
        with pytest.raises(BadValue):
            await app.people.put("jo", roles=[apart])
        with pytest.raises(BadValue):
            await app.people.put("jo", identities=[apart])


async def test_ids_that_look_like_words_of_ours_mean_persons(place: Place) -> None:
    rules = [Rule("pay", approvers=[user("owner"), user("anyone"), user("a:b"), user("role:x")])]
    async with place.app(payer(place), policy=Policy(*rules)) as app:
        await app.people.put("x", roles=["x", "anyone", "owner"], identities=["service:x"])
        for name in ("owner", "anyone", "a:b", "role:x"):
            await app.people.put(name)
            hold = await held(run := await app.start("teller", "Pay", by="mira"))
            for stranger in ("mira", "x", "service:x", Principal(kind="service", id="x")):
                with pytest.raises(NotAllowed):
                    await app.decide(hold, approve(), by=stranger)
            await app.decide(hold, approve(), by=name)
            await completed(run)


# Handing over.


async def test_what_asks_many_is_handed_on_only_among_them(place: Place) -> None:
    async with place.app(payer(place), policy=FINANCE) as app:
        await staff(app, "ann", "bob")
        await staff(app, "cleo", roles=("sales",))
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.reassign(hold, to="bob", by="ann")

        with pytest.raises(NotAllowed):
            await app.reassign(hold, to="cleo", by="bob")

        assert (await app.reassign(hold, to="ann", by="bob")).approvers == ("user:ann",)
        with pytest.raises(NotAllowed):
            await app.decide(hold, reject("mine"), by="cleo")
        await app.decide(hold, approve(), by="ann")
        await completed(run)
    assert len(place.world.effects()) == 1


async def test_an_edit_forgets_who_was_asked_in_place_of_whom(place: Place) -> None:
    policy = Policy(
        Rule("pay", when=lambda c: c.args["amount"] == 200, approvers=[role("finance")]),
        Rule("pay", when=lambda c: c.args["amount"] != 200, approvers=[user("bob"), user("ann")]),
    )
    async with place.app(payer(place), policy=policy) as app:
        await staff(app, "ann", "bob")
        await staff(app, "cleo", roles=())
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.reassign(hold, to="bob", by="ann")
        with pytest.raises(NotAllowed):
            await app.reassign(hold, to="cleo", by="bob")
        await app.decide(hold, approve(args={"amount": 20}), by="bob")
        await completed(run)
        other = await held(await app.start("teller", "Pay", by="mira"))
        assert other.approvers == ("role:finance",)


async def test_nothing_is_handed_over_to_somebody_unknown_or_shut_out(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[user("ann")]))
    async with place.app(payer(place), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await staff(app, "ann", roles=())
        await app.people.put("ivan", active=False)
        await app.people.put("eve", project="elsewhere")

        for name in ("ivan", "eve", "nobody", Principal(kind="agent", id="ann")):
            with pytest.raises(NotAllowed):
                await app.reassign(hold, to=name, by="ann")

        assert "hold.reassigned" not in await types(app, run)


async def test_nothing_is_handed_over_to_who_asked_for_it(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[role("finance")], not_requester=True))
    async with place.app(payer(place), policy=policy) as app:
        await staff(app, "ann", "mira", "sam")
        await app.people.put("mira", identities=["mail:mira"])
        await app.people.stand_in("sam", of="mira", until="1d")
        hold = await held(await app.start("teller", "Pay", by="mira"))

        for name in ("mira", "mail:mira", "sam"):
            with pytest.raises(NotAllowed):
                await app.reassign(hold, to=name, by="ann")


# Records that move at the worst moment.


async def test_a_vote_that_comes_in_meanwhile_counts_only_if_it_still_may(place: Place) -> None:
    async with Office(place, TWO) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann", "bob", "cleo")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))

        async def vote_and_go() -> None:
            await aside.decide(hold, approve(), by="ann")
            await aside.people.put("ann", roles=[])

        office.before("vote.cast", vote_and_go)
        voted = await app.decide(hold, approve(), by="bob")

        assert (voted.status, [one.by.id for one in voted.votes]) == ("open", ["bob"])
        await app.decide(hold, approve(), by="cleo")
        await completed(run)


async def test_a_role_lost_before_the_commit_is_lost(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        office.before("hold.settled", lambda: aside.people.put("ann", roles=[]))

        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")

        assert (await app.hold(hold)).status == "open"


async def test_a_vote_before_the_last_one_is_lost_with_its_role_up_to_the_commit(
    place: Place,
) -> None:
    async with Office(place, TWO) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann", "bob")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        office.before("hold.settled", lambda: aside.people.put("ann", roles=[]))

        voted = await app.decide(hold, approve(), by="bob")

        assert (voted.status, [one.by.id for one in voted.votes]) == ("open", ["bob"])


async def test_a_yes_that_was_good_until_the_commit_of_its_start_is_asked_for_again(
    place: Place,
) -> None:
    policy = Policy(Rule("pay", approvers=[role("finance")], start_by="10m"))
    async with Office(place, policy) as office:
        app = office.app
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))

        decided = asyncio.Event()

        async def wait() -> None:
            await decided.wait()
            place.clock.step_wall(600_000)

        office.before("call.started", wait)
        await app.decide(hold, approve(), by="ann")
        decided.set()

        assert "not started in time" in (await held(run)).why
        assert not place.world.effects()


async def test_a_role_lost_before_the_start_is_committed_starts_nothing(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        decided = asyncio.Event()

        async def go() -> None:
            await decided.wait()
            await aside.people.put("ann", roles=[])

        office.before("call.started", go)
        await app.decide(hold, approve(), by="ann")
        decided.set()

        assert (await held(run)).id != hold.id
        assert not place.world.effects()


async def test_who_is_removed_and_made_anew_is_somebody_else(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann", "bob")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        before = await app.people.get("ann")

        async def anew() -> None:
            await aside.people.remove("ann")
            await aside.people.put("ann", roles=[])
            await aside.people.put("ann", roles=["finance"])
            assert await aside.people.get("ann") == before
            await aside.people.put("ann", active=False)

        office.before("hold.settled", anew)
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")


async def test_a_stand_in_whose_time_ends_before_the_commit_is_told_so(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app = office.app
        await staff(app, "ann")
        await staff(app, "sam", roles=())
        await app.people.stand_in("sam", of="ann", until="10m")
        hold = await held(await app.start("teller", "Pay", by="mira"))

        async def wait() -> None:
            place.clock.advance("10m")

        office.before("hold.settled", wait)
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="sam")

        assert (await app.hold(hold)).status == "open"


async def test_who_stands_in_for_somebody_shut_out_has_no_rights_of_theirs(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann")
        await staff(app, "sam", "sol", roles=())
        await app.people.stand_in("sam", of="ann", until="10m")
        await app.people.stand_in("sol", of="sam", until="10m")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="sol")
        office.before("hold.settled", lambda: aside.people.put("ann", active=False))

        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="sam")

        assert (await app.hold(hold)).status == "open"


async def test_others_are_not_asked_before_their_time_by_the_stores_clock(
    place: Place,
) -> None:
    policy = Policy(
        Rule("pay", approvers=[user("ann")], escalate_after="1h", escalate_to=[user("lea")])
    )
    async with Office(place, policy) as office:
        app = office.app
        hold = await held(await app.start("teller", "Pay", by="mira"))
        place.clock.advance("1h")

        async def set_back() -> None:
            place.clock.step_wall(-3_600_000)

        office.before("hold.escalated", set_back)
        with pytest.raises((NotAllowed, ConditionFailed)):
            await app.decide(hold, approve(), by="lea")

        assert (await app.hold(hold)).approvers == ("user:ann",)


async def test_what_becomes_effective_meanwhile_cannot_be_undone(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app = office.app
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", undo="1m")

        async def wait() -> None:
            place.clock.advance("1m")

        office.before("decision.undone", wait)
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="ann")

        await app.sweep()
        await completed(run)


async def test_what_expires_while_it_is_handed_over_is_said_to_have_expired(
    place: Place,
) -> None:
    async with Office(place, FINANCE) as office:
        app = office.app
        await staff(app, "ann", "bob")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))

        async def wait() -> None:
            place.clock.advance("1h")

        office.before("hold.reassigned", wait)
        with pytest.raises(HoldExpired):
            await app.reassign(hold, to="bob", by="ann")

        await completed(run)


async def test_whoever_is_shut_out_takes_nothing_back(place: Place) -> None:
    async with place.app(payer(place), policy=TWO) as app:
        await staff(app, "ann", "bob")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, reject("no"), by="bob", undo="5m")
        await app.people.put("bob", active=False)

        with pytest.raises(NotAllowed):
            await app.undo(hold, by="bob")

        place.clock.advance("5m")
        await app.sweep()
        await completed(run)


async def test_whoever_is_shut_out_signs_in_nowhere(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, new_key())
    provider = OAuthProvider(
        "idp",
        authorize_url="https://idp.example/authorize",
        token_url="https://idp.example/token",
        client_id="sayso",
        client_secret="secret",
        redirect_url="https://sayso.example/back",
    )

    @tool(sign_in="idp", effect="none")
    def look(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "seen"

    async with place.app(agent([call("look"), say("So.")], look), providers=[provider]) as app:
        await staff(app, "mira", "sam", roles=())
        await app.people.stand_in("sam", of="mira", until="1d")
        hold = await held(await app.start("teller", "Look", by="mira"))
        url = await app.sign_in_url(hold, by="mira")
        state = url.partition("state=")[2].partition("&")[0]
        # What they would sign in with is their own, whomever they stand in for.
        with pytest.raises(NotAllowed):
            await app.sign_in_url(hold, by="sam")
        with pytest.raises(WrongVerdict):
            await app.reassign(hold, to="sam", by="mira")
        await app.people.put("mira", active=False)

        with pytest.raises(NotAllowed):
            await app.sign_in_url(hold, by="mira")
        with pytest.raises(NotAllowed):
            await app.oauth_callback(state, "code", by="mira")

        assert not await app.store.shelf.list("default", "credential")


# Four eyes.


async def test_who_edited_a_call_does_not_allow_it_when_it_is_asked_again(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[role("finance")], not_requester=True))
    async with place.app(payer(place), policy=policy, work=False) as desk:
        await staff(desk, "ann", "bob", "cleo")
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        edited = await desk.decide(hold, approve(args={"amount": 20}), by="ann")
        await desk.decide(edited, approve(), by="bob")
        await desk.people.put("bob", roles=[])
        async with place.app(payer(place), policy=policy) as worker:
            again = await held(worker.run(run.id))
            assert again.args["amount"] == 20

            with pytest.raises(NotAllowed):
                await worker.decide(again, approve(), by="ann")
            assert again.id not in [one.id for one in await worker.holds(by="ann")]
            assert [one.id for one in await worker.holds(by="cleo")] == [again.id]

            await worker.decide(again, approve(), by="cleo")
            await completed(worker.run(run.id))
    assert len(place.world.effects()) == 1


async def test_a_vote_an_edit_and_an_undo_come_in_any_order(place: Place) -> None:
    async with place.app(payer(place), policy=TWO) as app:
        await staff(app, "ann", "bob", "cleo")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        await app.undo(hold, by="ann")
        await app.decide(hold, approve(), by="ann")
        edited = await app.decide(hold, approve(args={"amount": 20}), by="bob")
        with pytest.raises(CannotUndo):
            await app.undo(edited, by="ann")  # What she said was said of something else.
        await app.undo(edited, by="bob")
        again = await app.decide(edited, approve(args={"amount": 30}), by="bob")
        assert (again.version, [one.by.id for one in again.votes]) == (3, ["bob"])
        with pytest.raises(AlreadyDecided):
            await app.decide(again, approve(), by="bob")
        await app.decide(again, approve(), by="cleo", undo="1m")
        await app.undo(again, by="cleo")
        still = await app.hold(again)
        assert (still.status, [one.by.id for one in still.votes]) == ("open", ["bob"])
        await app.decide(again, approve(), by="ann")
        await completed(run)
    assert len(place.world.effects()) == 1


async def test_a_quorum_that_was_raised_after_the_votes_is_asked_for(place: Place) -> None:
    three = Policy(Rule("pay", approvers=[role("finance")], quorum=3), version="2")
    async with place.app(payer(place), policy=TWO, work=False) as desk:
        await staff(desk, "ann", "bob", "cleo")
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=TWO) as worker:
            hold = await held(worker.run(run.id))
        for name in ("ann", "bob"):
            await desk.decide(hold, approve(), by=name)

        # A process with the stricter rules is the one that would start it.
        async with place.app(payer(place), policy=three) as worker:
            again = await held(worker.run(run.id))
            assert (again.id != hold.id, again.quorum) == (True, 3)
            assert not place.world.effects()
            for name in ("ann", "bob", "cleo"):
                await worker.decide(again, approve(), by=name)
            await completed(worker.run(run.id))
    assert len(place.world.effects()) == 1


async def test_who_asked_for_it_has_not_allowed_it_under_rules_that_came_since(
    place: Place,
) -> None:
    eyes = Policy(Rule("pay", approvers=[role("finance")], not_requester=True), version="2")
    async with place.app(payer(place), policy=FINANCE, work=False) as desk:
        await staff(desk, "mira", "ann")
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=FINANCE) as worker:
            hold = await held(worker.run(run.id))
        await desk.decide(hold, approve(), by="mira")

        async with place.app(payer(place), policy=eyes) as worker:
            again = await held(worker.run(run.id))
            assert (again.not_requester, place.world.effects()) == (True, [])
            await worker.decide(again, approve(), by="ann")
            await completed(worker.run(run.id))
    assert len(place.world.effects()) == 1


# Grants.


async def test_a_standing_yes_that_could_be_taken_back_is_refused(place: Place) -> None:
    async with place.app(payer(place), policy=FINANCE) as app:
        await staff(app, "ann")
        hold = await held(await app.start("teller", "Pay", by="mira"))

        with pytest.raises(WrongVerdict):
            await app.decide(hold, approve(), by="ann", undo="1m", always=Always())

        assert (await app.hold(hold)).status == "open"
        assert not await app.grants.list(good=False)


async def test_a_grant_too_large_to_keep_is_refused_and_nothing_is_decided(place: Place) -> None:
    async with place.app(payer(place, memo="x" * 70_000), policy=FINANCE) as app:
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))

        with pytest.raises(BadValue):
            await app.decide(hold, approve(), by="ann", always=Always())

        assert (await app.hold(hold)).status == "open"
        await app.decide(hold, approve(), by="ann")
        await completed(run)


@pytest.mark.parametrize("amount", [1.0, True, "1", None, -0.0, 2**70, 1.0000000000000002])
async def test_a_grant_for_one_number_is_for_no_other(place: Place, amount: Any) -> None:
    @tool(effect="once")
    def pay(ctx: Context, amount: Any) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    def one(value: Any) -> Any:
        return agent([call("pay", {"amount": value}), say("Paid.")], pay)

    async with place.app(one(1), policy=FINANCE) as app:
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", always=Always())
        await completed(run)
    async with place.app(one(amount), policy=FINANCE) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        for limit in (float("nan"), float("inf"), True, "9", [9], None):
            always = Always(args={"amount": {"at_most": limit}})
            with pytest.raises(BadValue):
                await app.decide(hold, approve(), by="ann", always=always)
    assert len(place.world.effects()) == 1


async def test_a_limit_on_a_number_allows_numbers_only(place: Place) -> None:
    @tool(effect="once")
    def pay(ctx: Context, amount: Any = 3, memo: Any = None) -> str:
        place.world.act(ctx, {"amount": amount, "memo": memo})
        return "paid"

    def with_args(args: Any) -> Any:
        return agent([call("pay", args), say("Paid.")], pay)

    async with place.app(with_args({"amount": 5}), policy=FINANCE) as app:
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        limits = {"amount": {"at_most": 10}}
        await app.decide(hold, approve(), by="ann", always=Always(args=limits))
        await completed(run)
    for args in ({"amount": True}, {"amount": "5"}, {"amount": [1]}, {"amount": 5, "memo": ""}):
        async with place.app(with_args(args), policy=FINANCE) as app:
            await held(await app.start("teller", "Pay", by="mira"))
    # What is left out is what its default says.
    for args in ({}, {"amount": 10.0}, {"amount": -(2**80)}):
        async with place.app(with_args(args), policy=FINANCE) as app:
            await completed(await app.start("teller", "Pay", by="mira"))
    assert len(place.world.effects()) == 4


async def test_a_grant_is_for_a_tool_by_its_whole_name(place: Place) -> None:
    def named(name: str) -> Any:
        @tool(name=name, effect="once")
        def pay(ctx: Context, amount: int) -> str:
            place.world.act(ctx, {"amount": amount})
            return "paid"

        return agent([call(name, {"amount": 5}), say("Paid.")], pay)

    policy = Policy(Rule("pay*", approvers=[role("finance")]), Rule("Pay", approvers=[user("ann")]))
    async with place.app(named("pay"), policy=policy) as app:
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", always=Always(args="any"))
        await completed(run)
    for name in ("pay2", "pay-", "Pay"):
        async with place.app(named(name), policy=policy) as app:
            await held(await app.start("teller", "Pay", by="mira"))
            assert not await app.grants.list(tool=name)
    assert len(place.world.effects()) == 1


async def test_grants_that_are_over_do_not_hide_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "PAGE_MAX", 3)
    async with place.app(payer(place), policy=FINANCE) as app:
        await staff(app, "ann")
        for _ in range(8):
            hold = await held(run := await app.start("teller", "Pay", by="mira"))
            await app.decide(hold, approve(), by="ann", always=Always())
            await completed(run)
            (grant,) = await app.grants.list(tool="pay")
            await completed(await app.start("teller", "Pay", by="mira"))
            await app.grants.revoke(grant.id, by="ann")
    assert len(place.world.effects()) == 16


async def test_a_grant_ends_between_the_check_and_the_start(place: Place) -> None:
    async with Office(place, FINANCE) as office:
        app, aside = office.app, office.aside
        await staff(app, "ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", always=Always(until="1h"))
        await completed(run)
        (grant,) = await app.grants.list()

        async def end() -> None:
            place.clock.advance("1h")

        office.before("call.started", lambda: aside.people.put("ann", roles=["finance", "new"]))
        await completed(await app.start("teller", "Pay", by="mira"))
        office.before("call.started", end)
        await held(await app.start("teller", "Pay", by="mira"))
        assert len(place.world.effects()) == 2
        assert (await app.grants.list(good=False))[0].used == 1

        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann", always=Always())
        await completed(run)
        (grant,) = await app.grants.list()
        office.before("call.started", lambda: aside.grants.revoke(grant, by="ann"))
        await held(await app.start("teller", "Pay", by="mira"))
    assert len(place.world.effects()) == 3


async def test_whoever_goes_by_another_identity_revokes_what_they_gave_by_it(
    place: Place,
) -> None:
    mail = "mail:ann@example.com"
    policy = Policy(Rule("pay", approvers=["anyone"]))
    async with place.app(payer(place), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by=mail, always=Always())
        await completed(run)
        await app.people.put("ann", identities=[mail])
        (grant,) = await app.grants.list()
        for nobody in (None, 7, b"ann"):
            with pytest.raises(BadValue):
                await app.grants.revoke(grant, by=nobody)

        assert (await app.grants.revoke(grant, by="ann")).revoked is not None


# Whole runs, and odd projects.


async def test_votes_stay_behind_when_a_run_moves(
    place: Place, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, new_key())
    there = place.another(tmp_path / "there")
    async with place.app(payer(place), policy=TWO) as app:
        await staff(app, "ann", "bob")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        data = await app.export(run, by="mira")
    async with there.app(payer(there), policy=TWO) as app:
        run = await app.adopt(data, by="mira")
        hold = await held(run)
        assert (hold.quorum, hold.votes) == (2, ())
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")  # Nobody here knows of her role.
        await staff(app, "ann", "bob")
        await app.decide(hold, approve(), by="ann")
        assert not there.world.effects()
        await app.decide(hold, approve(), by="bob")
        await completed(run)
    assert len(there.world.effects()) == 1


@pytest.mark.parametrize("project", ["a/b", "a:b", "person", "%", "'; --", "jos\u00e9", "x" * 120])
async def test_people_of_one_project_are_nobody_in_another(place: Place, project: str) -> None:
    async with place.app(payer(place), policy=FINANCE) as app:
        await app.people.put("ann", roles=["finance"], project=project)
        await app.people.put("bob", roles=["finance"])
        here = await held(await app.start("teller", "Pay", by="mira"))
        there = await held(await app.start("teller", "Pay", by="mira", project=project))

        for hold, stranger in ((here, "ann"), (there, "bob")):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=stranger)
        assert not (await app.holds(by="ann")).items
        assert [one.id for one in await app.holds(by="ann", project=project)] == [there.id]
        for hold, known in ((here, "bob"), (there, "ann")):
            await app.decide(hold, approve(), by=known)
            await finished(app.run(hold.run_id))
    assert len(place.world.effects()) == 2
