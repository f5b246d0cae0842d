"""Where parts meet: faults that none of them has alone.

Method: two features at once, on real stores, seen from outside: what ran, what rows keep, what an
audit finds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from sayso import (
    Always,
    Context,
    DeskKey,
    Policy,
    Rule,
    Secret,
    answer,
    approve,
    question,
    tool,
    user,
)
from sayso.errors import KeyReused, WrongVerdict
from sayso.store import migrate
from sayso.testing import call, say

from .kit import Place, agent, completed, held, journal, until

PAY = [call("pay", {"amount": 200}), say("Paid.")]


def payer(place: Place, script: Any = PAY, **options: Any) -> Any:
    @tool(effect="once", **options)
    def pay(ctx: Context, amount: int) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    return agent(script, pay)


async def test_a_store_from_before_words_is_found_by_them_and_verifies(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)
    async with place.app(payer(place, approval=True, title="Zahlung Größe")) as app:
        await held(await app.start("teller", "Pay", by="mira"))
        done = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(done), approve(), by="mira")
        await completed(done)
        await app.redact(done, 1, by="mira")
    conn = apsw.Connection(str(place.path))
    conn.execute("alter table holds drop column words")
    for step in migrate.released()[7:]:
        for kind, name in re.findall(r"create (table|index|trigger) (\w+)", step):
            if f"drop {kind} {name}" not in step:
                conn.execute(f"drop {kind} if exists {name}")
    conn.pragma("user_version", 5)
    conn.close()

    async with place.app(payer(place, approval=True)) as app:
        assert len((await app.holds(search="grösse teller mira")).items) == 1
        report = await app.audit.verify()
        assert report.ok, report.faults


async def test_what_a_redacted_vote_said_is_in_no_row(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[user("ann"), user("bob"), user("cleo")], quorum=3))
    async with place.app(payer(place), policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="ann", note="hers")
        await app.decide(hold, approve(), by="bob", note="his")
        await app.decide(hold, approve(), by="cleo", note="last")
        await completed(run)
        votes = [one.seq for one in await journal(app.store, run.id) if one.type == "vote.cast"]

        await app.redact(run, votes[0], by="mira")

        view = await app.hold(hold.id)
        assert [(vote.by.id, vote.note) for vote in view.votes] == [("ann", ""), ("bob", "his")]
        assert view.decision is not None
        assert view.decision.note == "last"
        report = await app.audit.verify()
        assert report.ok, report.faults


@pytest.mark.parametrize("forged", ["vote", "quorum"])
async def test_a_body_goes_on_only_if_as_many_have_signed_as_it_takes(
    place: Place, tmp_path: Path, forged: str
) -> None:
    @tool(durable=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        await ctx.ask(question("Which account?"), approvers=[user("ann")])
        place.world.act(ctx, {"amount": amount})
        return "paid"

    key = DeskKey.new(tmp_path / "desk.key")
    teller = agent(PAY, pay)
    policy = Policy(Rule("pay", approvers=[user("ann"), user("bob")], quorum=2))
    easy = Policy(Rule("pay", approvers=[user("ann"), user("bob")]))
    # Whoever can write the store votes in Bob's name, or asks only for one, and lets a worker of
    # theirs begin.
    async with place.app(teller, policy=policy if forged == "vote" else easy) as thief:
        run = await thief.start("teller", "Pay", by="mira")
        hold = await held(run)
        if forged == "vote":
            await thief.decide(hold, approve(), by="bob")
        async with place.app(teller, policy=policy, work=False, sign_with=key) as desk:
            await desk.decide(await desk.hold(hold.id), approve(), by="ann")
            asked = await held(run)
            assert asked.kind == "question"
    async with place.app(teller, policy=policy, work=False, sign_with=key) as desk:
        await desk.decide(asked, answer("the first"), by="ann")

    async with place.app(teller, policy=policy, trust=[key.public]) as worker:
        doubt = await held(worker.run(run.id))
        assert (doubt.kind, place.world.effects()) == ("in_doubt", [])


@pytest.mark.parametrize("signed", [True, False])
async def test_a_call_starts_only_if_every_vote_for_it_is_signed(
    place: Place, tmp_path: Path, signed: bool
) -> None:
    key = DeskKey.new(tmp_path / "desk.key")
    policy = Policy(Rule("pay", approvers=[user("ann"), user("bob")], quorum=2))
    async with place.app(payer(place), policy=policy, trust=[key.public]) as worker:
        run = await worker.start("teller", "Pay", by="mira")
        hold = await held(run)
        first = {"sign_with": key} if signed else {}
        for by, options in (("bob", first), ("ann", {"sign_with": key})):
            async with place.app(payer(place), work=False, **options) as desk:
                await desk.decide(await desk.hold(hold.id), approve(), by=by)
        if signed:
            await completed(run)
        else:
            assert "not signed" in (await held(run)).why
        assert len(place.world.effects()) == signed


async def test_no_grant_covers_a_call_with_secrets(place: Place) -> None:
    @tool(approval=True, effect="once")
    def pay(ctx: Context, amount: int, code: Secret | None = None) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    script = [call("pay", {"amount": 1}), call("pay", {"amount": 1, "code": "1234"}), say("ok")]
    async with place.app(agent(script, pay)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira", always=Always(args="any"))
        assert (await held(run)).args["code"] != "1234"
        assert len(place.world.effects()) == 1


@pytest.mark.parametrize("signed", [True, False])
async def test_a_body_is_told_only_what_is_signed_by_all_who_say_it(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture, signed: bool
) -> None:
    @tool(durable=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        await ctx.approval("Really?", approvers=[user("ann"), user("bob")], quorum=2)
        place.world.act(ctx, {"amount": amount})
        return "paid"

    key = DeskKey.new(tmp_path / "desk.key")
    async with place.app(agent(PAY, pay), trust=[key.public]) as worker:
        run = await worker.start("teller", "Pay", by="mira")
        hold = await held(run)
        for by, options in (
            ("bob", {"sign_with": key} if signed else {}),
            ("ann", {"sign_with": key}),
        ):
            async with place.app(agent(PAY, pay), work=False, **options) as desk:
                await desk.decide(await desk.hold(hold.id), approve(), by=by)
        if signed:
            await completed(run)
        else:
            await until(lambda: "is not signed by a desk" in caplog.text, "a warning")
        assert len(place.world.effects()) == signed


async def test_who_has_two_places_in_a_quorum_hands_over_none(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[user("cfo"), user("bob")], quorum=2))
    async with place.app(payer(place), policy=policy) as app:
        for one in ("cfo", "bob", "crony"):
            await app.people.put(one)
        await app.people.stand_in("bob", of="cfo", until="1d")
        hold = await held(await app.start("teller", "Pay", by="mira"))

        with pytest.raises(WrongVerdict, match="count twice"):
            await app.reassign(hold, to="crony", by="bob")
        await app.reassign(hold, to="crony", by="cfo")


async def test_a_key_that_gave_no_grant_does_not_give_one_later(place: Place) -> None:
    async with place.app(payer(place, approval=True)) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, approve(), by="mira", key="k")

        with pytest.raises(KeyReused):
            await app.decide(hold, approve(), by="mira", key="k", always=Always())
        assert not await app.grants.list()


async def test_a_doubt_names_nobody_who_took_their_word_back(place: Place) -> None:
    @tool(effect="once")
    async def pay(amount: int) -> str:
        raise TimeoutError

    several = [user("ann"), user("bob"), user("cleo")]
    policy = Policy(Rule("pay", approvers=several, quorum=2))
    async with place.app(agent(PAY, pay), policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="cleo")
        hold = await app.decide(hold, approve(args={"amount": 5}), by="cleo")
        await app.undo(hold, by="cleo")
        await app.decide(hold, approve(), by="ann")
        await app.decide(hold, approve(), by="bob", undo="5m")
        await app.undo(hold, by="bob")
        await app.decide(hold, approve(), by="bob")

        doubt = await app.doubt(await held(run))

        assert [one.by.id for one in doubt.decisions] == ["ann", "bob"]


async def test_evidence_says_for_whom_a_stand_in_edits_and_hands_over(place: Place) -> None:
    policy = Policy(Rule("pay", approvers=[user("ann")], not_requester=True))
    async with place.app(payer(place), policy=policy) as app:
        for one in ("ann", "bob", "cleo"):
            await app.people.put(one)
        await app.people.stand_in("bob", of="ann", until="1d")
        hold = await held(await app.start("teller", "Pay", by="mira"))
        hold = await app.decide(hold, approve(args={"amount": 5}), by="bob")
        await app.reassign(hold, to="cleo", by="ann")
        other = await held(await app.start("teller", "Pay", by="mira"))
        await app.reassign(other, to="cleo", by="bob")

        lines = [line async for line in app.audit.export()]

        assert [(line.what, line.by, line.right, line.of) for line in lines] == [
            ("edited", "bob", "user:ann", "ann"),
            ("reassigned", "ann", "", ""),
            ("reassigned", "bob", "user:ann", "ann"),
        ]
