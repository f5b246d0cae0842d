"""Where parts meet: faults that none of them has alone.

Method: two features at once, on real stores, seen from outside: what ran, what rows keep, what an
audit finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from sayso import Context, Policy, Rule, approve, tool, user
from sayso.testing import call, say

from .kit import Place, agent, completed, held, journal

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
