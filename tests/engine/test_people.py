"""People: roles, identities, four eyes, quorums, stand-ins, escalation, handing over.

Method: a payment that needs some people, decided by them and by others, on every store. What is
changed about people in between is changed in their records, as an administrator would.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sayso import Context, Policy, Principal, Rule, approve, fail, owner, reject, role, tool, user
from sayso.errors import (
    AlreadyDecided,
    BadValue,
    CannotUndo,
    HoldExpired,
    IdentityTaken,
    NotAllowed,
    UnknownPerson,
    WrongVerdict,
)
from sayso.testing import call, say

from .kit import Place, agent, completed, finished, held, journal, outcomes, suspended, types

PAY = [call("pay", {"amount": 200}), say("Paid.")]


def payer(place: Place, script: Any = PAY, **options: Any) -> Any:
    @tool(effect="once", **options)
    def pay(ctx: Context, amount: int) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    return agent(script, pay)


def rules(**words: Any) -> Policy:
    return Policy(Rule("pay", **words))


async def test_a_role_may_decide_and_nobody_else(place: Place) -> None:
    async with place.app(payer(place), policy=rules(approvers=[role("finance")])) as app:
        await app.people.put("ann", name="Ann", roles=["finance"])
        await app.people.put("bob", roles=["sales"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        assert [one.id for one in await app.holds(by="ann")] == [hold.id]
        assert not (await app.holds(by="bob")).items
        for who in ("bob", "mira", "finance", "role:finance"):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=who)
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by=Principal(kind="service", id="ann"))
        done = await app.decide(hold, approve(), by="ann")
        assert done.decision is not None
        assert (done.decision.right, done.decision.basis[0].person) == ("role:finance", "ann")
        await completed(run)
        assert len(place.world.effects()) == 1


async def test_who_has_lost_the_role_before_the_start_has_allowed_nothing(place: Place) -> None:
    policy = rules(approvers=[role("finance")])
    async with place.app(payer(place), policy=policy, work=False) as desk:
        await desk.people.put("ann", roles=["finance"])
        await desk.people.put("bob", roles=["finance"])
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        await desk.decide(hold, approve(), by="ann")
        await desk.people.put("ann", roles=[])
        async with place.app(payer(place), policy=policy) as worker:
            again = await held(worker.run(run.id))
            assert again.id != hold.id
            assert "lost the right" in again.why
            assert not place.world.effects()
            await worker.decide(again, approve(), by="bob")
            await completed(worker.run(run.id))
    assert len(place.world.effects()) == 1


@pytest.mark.parametrize(
    "words, active",
    [({"quorum": 2}, True), ({"not_requester": True}, True), ({}, False)],
    ids=["quorum", "four eyes", "shut out"],
)
async def test_a_yes_is_worth_at_the_start_what_it_is_worth_then(
    place: Place, words: dict[str, Any], active: bool
) -> None:
    policy = rules(approvers=[role("finance")])
    async with place.app(payer(place), policy=policy, work=False) as desk:
        for name in ("mira", "ann"):
            await desk.people.put(name, roles=["finance"])
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        await desk.decide(hold, approve(), by="mira")
        await desk.people.put("mira", active=active)
        policy = rules(approvers=[role("finance")], **words)
        async with place.app(payer(place), policy=policy) as worker:
            assert (await held(worker.run(run.id))).id != hold.id
    assert not place.world.effects()


async def test_who_is_shut_out_does_nothing_whoever_names_them(place: Place) -> None:
    async with place.app(payer(place, approval=True)) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.people.put("mira", active=False)
        with pytest.raises(NotAllowed, match="no longer active"):
            await app.decide(hold, approve(), by="mira")
        with pytest.raises(NotAllowed):
            await app.cancel(run, by="mira")
        with pytest.raises(NotAllowed):
            await app.start("teller", "Pay", by="mira")
        await app.people.put("mira", active=True)
        await app.decide(hold, approve(), by="mira")
        await completed(run)


async def test_one_person_counts_once_whatever_they_come_by(place: Place) -> None:
    policy = rules(approvers=[role("finance")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        mail = "mail:ann@example.com"
        await app.people.put("ann", roles=["finance"], identities=[mail, "slack:U1"])
        await app.people.put("bob", roles=["finance"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        voted = await app.decide(hold, approve(), by=mail)
        assert (voted.status, voted.missing) == ("open", 1)
        assert [(vote.by.id, vote.assurance) for vote in voted.votes] == [("ann", mail)]
        for again in ("ann", "slack:U1", mail):
            with pytest.raises(AlreadyDecided, match="counts once"):
                await app.decide(hold, approve(), by=again)
        assert not place.world.effects()
        done = await app.decide(hold, approve(), by="bob")
        assert done.status == "settled"
        await completed(run)
        assert (await types(app, run)).count("vote.cast") == 1
        assert [one.by.id for one in (await app.hold(hold)).votes] == ["ann"]


async def test_one_no_decides_and_so_do_several_where_the_rule_wants_several(place: Place) -> None:
    names = [user(name) for name in ("ann", "bob", "cleo")]
    script = [call("pay", {"amount": 1}), call("pay", {"amount": 2}), say("Well.")]
    one = Rule("pay", when=lambda c: c.args["amount"] == 1, approvers=names, quorum=2)
    two = Rule(
        "pay", when=lambda c: c.args["amount"] == 2, approvers=names, quorum=2, reject_quorum=2
    )
    async with place.app(payer(place, script), policy=Policy(one, two)) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        await app.decide(hold, reject("no"), by="ann")  # Who has said yes may still say no.
        hold = await held(run)
        assert hold.reject_quorum == 2
        await app.decide(hold, approve(), by="ann")
        assert (await app.decide(hold, reject("hm"), by="bob")).status == "open"
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve(), by="bob")
        assert (await app.decide(hold, reject("no"), by="cleo")).status == "settled"
        view = await completed(run)
        assert outcomes(view) == ["Declined", "Declined"]
    assert not place.world.effects()


async def test_a_vote_is_taken_back_until_the_hold_is_settled(place: Place) -> None:
    policy = rules(approvers=[user("ann"), user("bob")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="bob")
        assert not (await app.undo(hold, by="ann")).votes
        await app.decide(hold, approve(), by="bob")
        assert (await app.hold(hold)).status == "open"
        await app.decide(hold, approve(), by="ann")
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="ann")
        await completed(run)
    assert len(place.world.effects()) == 1


async def test_a_vote_of_one_who_has_lost_the_role_does_not_count(place: Place) -> None:
    policy = rules(approvers=[role("finance")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        for name in ("ann", "bob", "cleo"):
            await app.people.put(name, roles=["finance"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        await app.people.put("ann", roles=[])
        after = await app.decide(hold, approve(), by="bob")
        assert (after.status, [vote.by.id for vote in after.votes]) == ("open", ["bob"])
        await app.decide(hold, approve(), by="cleo")
        await completed(run)
        assert (await types(app, run)).count("vote.undone") == 1


async def test_four_eyes_keeps_out_who_asked_their_accounts_and_their_stand_ins(
    place: Place,
) -> None:
    policy = rules(approvers=[role("finance")], not_requester=True)
    async with place.app(payer(place), policy=policy) as app:
        await app.people.put("mira", roles=["finance"])
        await app.people.put("ann", roles=["finance"], identities=["chat:9"])
        await app.people.put("bob", roles=["finance"])
        await app.people.stand_in("bob", of="mira", until="1d")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        for who in ("mira", "bob"):
            with pytest.raises(NotAllowed, match="others than who asked"):
                await app.decide(hold, approve(), by=who)
        await app.people.put("ann", identities=["chat:9"])
        other = await held(await app.start("teller", "Pay", by="chat:9"))
        with pytest.raises(NotAllowed):
            await app.decide(other, approve(), by="ann")
        await app.decide(hold, approve(), by="ann")
        await completed(run)


async def test_who_edits_under_four_eyes_does_not_approve_their_own_edit(place: Place) -> None:
    policy = rules(approvers=[role("finance")], not_requester=True)
    async with place.app(payer(place), policy=policy) as app:
        for name in ("ann", "bob"):
            await app.people.put(name, roles=["finance"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        edited = await app.decide(hold, approve(args={"amount": 20}), by="ann")
        assert (edited.status, edited.version, edited.args) == ("open", 2, {"amount": 20})
        with pytest.raises(NotAllowed):
            await app.decide(edited, approve(), by="ann")
        await app.decide(edited, approve(), by="bob")
        await completed(run)


async def test_an_edit_voids_the_votes_before_it(place: Place) -> None:
    policy = rules(approvers=[user("ann"), user("bob"), user("cleo")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="ann")
        edited = await app.decide(hold, approve(args={"amount": 20}), by="bob")
        assert [vote.by.id for vote in edited.votes] == ["bob"]
        await app.decide(edited, approve(), by="ann")
        await completed(run)
    assert len(place.world.effects()) == 1


async def test_a_stand_in_decides_for_a_time_and_the_two_count_as_one(place: Place) -> None:
    policy = rules(approvers=[user("ann"), user("bob")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        for name in ("ann", "bob", "cleo"):
            await app.people.put(name)
        await app.people.stand_in("cleo", of="ann", until="2h")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        voted = await app.decide(hold, approve(), by="cleo")
        assert [(vote.by.id, vote.of, vote.right) for vote in voted.votes] == [
            ("cleo", "ann", "user:ann")
        ]
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve(), by="ann")
        place.clock.advance("3h")
        # Its time is over before the hold is settled: it does not count any more.
        after = await app.decide(hold, approve(), by="bob")
        assert [vote.by.id for vote in after.votes] == ["bob"]
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="cleo")
        await app.decide(hold, approve(), by="ann")
        await completed(run)


async def test_silence_asks_others_as_well_and_then_means_no(place: Place) -> None:
    policy = rules(
        approvers=[user("ann")], within="4h", on_silence="escalate", escalate_to=[role("lead")]
    )
    async with place.app(payer(place), policy=policy) as app:
        await app.people.put("lea", roles=["lead"])
        await app.people.put("ann")
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        assert hold.deadline is not None
        assert hold.escalates_at is not None
        assert hold.deadline - hold.opened_at == timedelta(hours=8)
        assert hold.escalates_at - hold.opened_at == timedelta(hours=4)
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="lea")
        place.clock.advance("4h")
        await app.decide(hold, approve(), by="lea")  # Whether or not a sweeper has looked.
        await completed(run)
        assert (await types(app, run)).count("hold.escalated") == 1
        late = await held(other := await app.start("teller", "Pay", by="mira"))
        place.clock.advance("8h")
        with pytest.raises(HoldExpired):
            await app.decide(late, approve(), by="lea")
        assert outcomes(await completed(other)) == ["Declined"]


async def test_a_chain_of_escalations_comes_in_its_order(place: Place) -> None:
    policy = rules(
        approvers=[user("ann")],
        within="3d",
        escalate=[("4h", role("lead")), ("1d", [role("chief"), owner])],
    )
    async with place.app(payer(place), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        place.clock.advance("4h")
        await app.sweep()
        assert (await app.hold(hold)).approvers == ("user:ann", "role:lead")
        place.clock.advance("20h")
        await app.sweep()
        asked = await app.hold(hold)
        assert asked.approvers == ("user:ann", "role:lead", "role:chief", "user:mira")
        assert asked.escalates_at is None
        await app.decide(hold, approve(), by="mira")
        await completed(run)


async def test_a_yes_that_is_not_used_in_time_goes_back_to_a_person(place: Place) -> None:
    policy = rules(approvers=[user("ann")], start_by="15m")
    async with place.app(payer(place), policy=policy, work=False) as desk:
        run = await desk.start("teller", "Pay", by="mira")
        async with place.app(payer(place), policy=policy) as worker:
            hold = await held(worker.run(run.id))
        await desk.decide(hold, approve(), by="ann")
        place.clock.advance("16m")
        async with place.app(payer(place), policy=policy) as worker:
            again = await held(worker.run(run.id))
            assert "not started in time" in again.why
            assert not place.world.effects()
            await worker.decide(again, approve(), by="ann")
            await completed(worker.run(run.id))
    assert len(place.world.effects()) == 1


async def test_what_one_is_asked_by_name_is_handed_over_to_anybody(place: Place) -> None:
    async with place.app(payer(place), policy=rules(approvers=[user("ann")])) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        with pytest.raises(NotAllowed):
            await app.reassign(hold, to="bob", by="bob")
        handed = await app.reassign(hold, to="bob", by="ann", note="on holiday")
        assert handed.approvers == ("user:bob",)
        assert [one.id for one in await app.holds(by="bob")] == [hold.id]
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")
        await app.decide(hold, approve(), by="bob")
        await completed(run)
        with pytest.raises(AlreadyDecided):
            await app.reassign(hold, to="cleo", by="bob")
    assert len(place.world.effects()) == 1


async def test_one_of_many_hands_over_only_to_one_of_the_same_many(place: Place) -> None:
    async with place.app(payer(place), policy=rules(approvers=[role("finance")])) as app:
        for name in ("ann", "bob"):
            await app.people.put(name, roles=["finance"])
        await app.people.put("cleo", roles=["sales"])
        await app.people.put("olga", roles=["operator"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        with pytest.raises(NotAllowed):
            await app.reassign(hold, to="cleo", by="ann")
        await app.reassign(hold, to="bob", by="olga")
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="olga")
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")
        await app.decide(hold, approve(), by="bob")
        await completed(run)


async def test_nobody_is_asked_in_place_of_several(place: Place) -> None:
    policy = rules(approvers=[role("finance")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        for name in ("ann", "bob"):
            await app.people.put(name, roles=["finance"])
        hold = await held(await app.start("teller", "Pay", by="mira"))
        with pytest.raises(WrongVerdict):
            await app.reassign(hold, to="bob", by="ann")


async def test_an_operator_does_what_the_owner_may(place: Place) -> None:
    async with place.app(payer(place, approval=True)) as app:
        await app.people.put("olga", roles=["operator"])
        await app.people.put("ann")
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        with pytest.raises(NotAllowed):
            await app.cancel(run, by="ann")
        await app.cancel(run, by="olga", reason="enough")
        assert (await finished(run)).status == "cancelled"


async def test_anyone_is_a_person_of_the_project(place: Place) -> None:
    async with place.app(payer(place), policy=rules(approvers=["anyone"])) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        await app.people.put("ann")
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="stranger")
        await app.people.put("eve", project="elsewhere")
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="eve")
        await app.decide(hold, approve(), by="ann")
        await completed(run)


async def test_records_of_people_are_refused_where_they_could_not_work(place: Place) -> None:
    async with place.app() as app:
        await app.people.put("ann", identities=["mail:a"], roles=["x"])
        for bad in ("", " ann", "a\nb", "x" * 300):
            with pytest.raises(BadValue):
                await app.people.put(bad)
        with pytest.raises(BadValue):
            await app.people.put("bob", roles="finance")
        for taken in (["mail:a"], ["ann"]):
            with pytest.raises(IdentityTaken):
                await app.people.put("bob", identities=taken)
        with pytest.raises(IdentityTaken):
            await app.people.put("mail:a")
        with pytest.raises(UnknownPerson):
            await app.people.stand_in("ann", of="nobody", until="1d")
        with pytest.raises(UnknownPerson):
            await app.people.remove("nobody")
        with pytest.raises(BadValue):
            await app.people.stand_in("ann", of="ann", until="1d")
        assert await app.people.get("bob") is None
        ann = await app.people.get("mail:a")
        assert ann is not None
        assert (ann.id, ann.roles) == ("ann", ("x",))
        await app.people.put("ann", identities=[])
        assert await app.people.get("mail:a") is None
        await app.people.put("bob", identities=["mail:a"])
        assert [one.id for one in await app.people.list()] == ["ann", "bob"]
        await app.people.remove("bob")
        assert [one.id for one in await app.people.list(after="a")] == ["ann"]


async def test_an_identity_that_was_given_up_is_nobodys(place: Place) -> None:
    async with place.app() as app:
        await app.people.put("ann", identities=["mail:a"])
        link = await app.store.shelf.get("default", "identity", "mail:a")
        assert link is not None
        await app.people.put("ann", identities=[])
        # As if the process had died before it took the link away.
        await app.store.shelf.put("default", "identity", "mail:a", link.data, rev=0)

        assert await app.people.get("mail:a") is None


async def test_the_last_person_of_a_project_stays_or_everybody_would_be_one(place: Place) -> None:
    async with place.app(payer(place), policy=rules(approvers=["anyone"])) as app:
        await app.people.put("ann")
        await app.people.put("bob")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await app.people.remove("bob")
        with pytest.raises(BadValue, match="active=False"):
            await app.people.remove("ann")
        await app.people.put("ann", active=False)
        for who in ("stranger", "ann"):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=who)
    assert not place.world.effects()


async def test_the_journal_says_by_what_right_and_on_which_records(place: Place) -> None:
    policy = rules(approvers=[role("finance")], quorum=2)
    async with place.app(payer(place), policy=policy) as app:
        for name in ("ann", "bob"):
            await app.people.put(name, roles=["finance"])
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        for name in ("ann", "bob"):
            await app.decide(hold, approve(), by=name)
        await completed(run)
        found = {one.type: one.event for one in await journal(app.store, run.id)}
        assert {one.person for one in found["call.started"].basis} == {"ann", "bob"}
        assert {one.person for one in found["hold.settled"].decision.basis} == {"ann", "bob"}


async def test_a_doubt_is_looked_into_by_as_many_as_the_call_needs(place: Place) -> None:
    policy = rules(approvers=[user("ann"), user("bob")], quorum=2)

    @tool(effect="once", timeout="1s")
    async def pay(ctx: Context, amount: int) -> str:
        place.world.act(ctx, {"amount": amount})
        if ctx.attempt == 1:
            raise ConnectionResetError
        return "paid"

    async with place.app(agent(PAY, pay), policy=policy) as app:
        hold = await held(run := await app.start("teller", "Pay", by="mira"))
        for name in ("ann", "bob"):
            await app.decide(hold, approve(), by=name)
        doubt = (await suspended(run)).holds[0]
        assert (doubt.kind, doubt.quorum) == ("in_doubt", 2)
        assert (await app.decide(doubt, approve(), by="ann")).status == "open"
        await app.decide(doubt, fail("nobody knows"), by="bob")
        assert outcomes(await completed(run)) == ["Unknown"]


async def test_what_is_decided_together_is_voted_on_and_taken_back_together(place: Place) -> None:
    policy = rules(approvers=[user("ann"), user("bob")], quorum=2, resolve="together")
    script = [[call("pay", {"amount": 1}), call("pay", {"amount": 2})], say("Paid.")]
    async with place.app(payer(place, script), policy=policy) as app:
        view = await suspended(run := await app.start("teller", "Pay", by="mira"))
        request = view.holds[0].request_id
        await app.resume(request, approve(), by="ann")
        await app.undo(view.holds[1], by="ann")
        assert [one.votes for one in await app.holds()] == [(), ()]
        for name in ("ann", "bob"):
            await app.resume(request, approve(), by=name)
        await completed(run)
    assert len(place.world.effects()) == 2


async def test_who_is_shut_out_is_shown_nothing(place: Place) -> None:
    async with place.app(payer(place, approval=True)) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        assert [one.id for one in await app.holds(by="mira")] == [hold.id]
        await app.people.put("mira", active=False)
        for status in ("open", "any", "settled"):
            assert not (await app.holds(by="mira", status=status)).items
