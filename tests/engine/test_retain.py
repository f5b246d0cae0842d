"""What old runs say is erased for good; that they were there, and every hash, remains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sayso import Agent, Bounds, Principal, answer, approve, ask_user, reject, tool
from sayso.engine.retain import Retained
from sayso.errors import BadValue, NotAllowed
from sayso.store.keyring import new_key
from sayso.store.query import HoldQuery
from sayso.store.views import RunView
from sayso.testing import ScriptedModel, call, say

from .kit import Place, agent, completed, finished, held, journal, suspended

CANARY = "canary-4111-1111"
BY_HAND = Bounds(look_s=600.0)


@tool(approval=True, effect="once")
def pay(amount: int, to: str) -> str:
    return f"paid {to}"


def teller() -> Agent:
    script = [
        [
            call("pay", {"amount": 1, "to": CANARY}),
            call("pay", {"amount": 2, "to": CANARY}),
            call("ask_user", {"question": f"{CANARY}?"}),
        ],
        say(CANARY),
    ]
    return agent(script, pay, ask_user())


async def done(app: Any) -> RunView:
    """Finish a run that has said everything everywhere."""
    run = await app.start("teller", CANARY, by="mira", metadata={"x": CANARY})
    one, two, three = (await suspended(run)).holds
    await app.decide(one, approve(args={"amount": 3, "to": CANARY}), by="mira", note=CANARY)
    await app.decide(two, reject(CANARY), by="mira")
    await app.decide(three, answer(CANARY), by="mira")
    return await completed(run)


def files(place: Place) -> bytes:
    return b"".join(
        path.read_bytes() for path in place.path.parent.glob("sayso.db*") if path.is_file()
    )


async def test_what_was_said_is_gone_and_everything_verifies(place: Place):
    async with place.app(teller(), bounds=BY_HAND) as app:
        view = await done(app)
        await app.audit.seal()
        place.clock.advance("91d")
        before = await app.store.journal(view.id)
        if place.kind == "sqlite":
            assert CANARY.encode() in files(place)

        retained = await app.audit.retain("90d", by="noor", reason="our policy")

        assert retained == Retained(looked_at=1, runs=1, entries=view.seq)
        report = await app.audit.verify()
        assert report.faults == []
        assert (report.redacted, report.sealed) == (view.seq, view.seq)
        after = await app.store.journal(view.id)
        assert [e.hash for e in after[:-1]] == [e.hash for e in before]
        assert [e.position for e in after[:-1]] == [e.position for e in before]
        assert [entry.type for entry in await journal(app.store, view.id)] == [
            *["redacted"] * view.seq,
            "run.erased",
        ]
        event = (await journal(app.store, view.id))[-1].event
        assert (event.by.id, event.through, event.reason) == ("noor", view.seq, "our policy")
        if place.kind == "sqlite":
            await app.store.beat("w")
            assert CANARY.encode() not in files(place)


async def test_what_is_shown_of_it_says_that_it_is_erased(place: Place):
    async with place.app(teller()) as app:
        view = await done(app)
        cancelled = await app.start("teller", CANARY, by="mira")
        await suspended(cancelled)
        await app.cancel(cancelled, by="mira", reason=CANARY)
        await finished(cancelled)
        place.clock.advance("91d")
        await app.audit.retain("90d", by="noor")

        now = await app.run(view.id).view()
        holds = await app.holds(status="any")
        other = await app.run(cancelled.id).view()

        assert (now.status, now.output, now.error) == ("completed", "[erased]", None)
        assert [message.text for message in now.messages] == ["[erased]"]
        assert (other.status, other.output, other.error) == ("cancelled", None, None)
        assert CANARY not in str((now, holds.items, other))
        # Who decided what, and when, is no secret, and remains.
        decided = {hold.id[-1]: hold.decision for hold in holds if hold.run_id == view.id}
        assert [(n, one.word, one.by.id) for n, one in decided.items()] == [
            ("1", "approved", "mira"),
            ("2", "rejected", "mira"),
            ("3", "answered", "mira"),
        ]
        assert [hold.args_json for hold in holds] == ["[erased]"] * 6
        assert all(
            CANARY.encode() not in (found.row.decision or b"")
            for found in await app.store.holds(HoldQuery(status="any"))
        )


async def test_a_failed_run_shows_its_error_as_erased(place: Place):
    broken = agent([call("nothing_like_it", {})], name="teller", turns_max=1)
    async with place.app(broken) as app:
        run = await app.start("teller", CANARY, by="mira")
        assert (await finished(run)).status == "failed"
        place.clock.advance("91d")
        await app.audit.retain("90d", by="noor")

        view = await run.view()

        assert (view.status, view.error, view.output) == ("failed", "[erased]", None)


async def test_what_is_young_or_not_finished_is_left_alone(place: Place):
    async with place.app(teller()) as app:
        old = await done(app)
        waiting = await app.start("teller", "Pay.", by="mira")
        await suspended(waiting)
        place.clock.advance("91d")
        young = await done(app)

        dry = await app.audit.retain("90d", by="noor", dry_run=True)
        assert (dry.looked_at, dry.runs, dry.entries) == (2, 1, old.seq)
        assert (await app.run(old.id).view()).output == CANARY
        wet = await app.audit.retain("90d", by="noor")

        assert (wet.runs, wet.entries) == (1, old.seq)
        assert (await app.run(young.id).view()).output == CANARY
        assert len((await waiting.view()).holds) == 3


async def test_it_can_be_done_again_and_after_single_entries(place: Place):
    async with place.app(teller()) as app:
        view = await done(app)
        await app.redact(view.id, 2, by="mira", reason=CANARY)
        place.clock.advance("91d")

        assert (await app.audit.retain("90d", by="noor")).runs == 1
        place.clock.advance("91d")
        assert (await app.audit.retain("90d", by="noor")).runs == 0

        report = await app.audit.verify()
        assert (report.faults, report.redacted) == ([], view.seq + 1)


async def test_whoever_is_interrupted_goes_on_later(place: Place):
    class Enough(Exception):
        pass

    def stop(retained: Retained) -> None:
        if retained.runs == 2:
            raise Enough

    async with place.app(teller()) as app:
        for _ in range(4):
            await done(app)
        place.clock.advance("91d")

        with pytest.raises(Enough):
            await app.audit.retain("90d", by="noor", progress=stop)
        assert (await app.audit.verify()).ok
        assert (await app.audit.retain("90d", by="noor")).runs == 2

        assert (await app.audit.verify()).faults == []


async def test_one_project_is_enough(place: Place):
    async with place.app(teller()) as app:
        await done(app)
        place.clock.advance("91d")

        assert (await app.audit.retain("90d", by="noor", project="other")).looked_at == 0
        assert (await app.audit.retain("90d", by="noor", project="default")).runs == 1


async def test_a_thread_goes_on_after_its_beginning_was_erased(place: Place):
    model = ScriptedModel([say("Hello.")])
    async with place.app(Agent("teller", model=model)) as app:
        first = await app.start("teller", CANARY, by="mira", thread="t")
        await completed(first)
        place.clock.advance("91d")
        await app.audit.retain("90d", by="noor")

        second = await app.say(first, "And now?", by="mira")

        assert CANARY not in str((await completed(second)).messages)


@pytest.mark.parametrize("age", ["", "soon", "-1d", 0, None])
async def test_an_age_that_is_none_erases_nothing(place: Place, age: Any):
    async with place.app(teller()) as app:
        view = await done(app)
        place.clock.advance("9999d")

        with pytest.raises(BadValue):
            await app.audit.retain(age, by="noor")

        assert (await app.run(view.id).view()).output == CANARY


async def test_no_agent_erases_anything(place: Place):
    async with place.app(teller()) as app:
        view = await done(app)
        place.clock.advance("91d")

        with pytest.raises(NotAllowed, match="people and services"):
            await app.audit.retain("90d", by=Principal(kind="agent", id="teller"))

        assert (await app.run(view.id).view()).output == CANARY


async def test_an_entry_that_says_what_was_decided_is_erased_from_the_row_as_well(place: Place):
    script = [call("ask_user", {"question": "Which card?"}), say("Thanks.")]
    async with place.app(agent(script, ask_user())) as app:
        run = await app.start("teller", "Hi.", by="mira")
        hold = await held(run)
        await app.decide(hold, answer(CANARY), by="mira", note=CANARY)
        await completed(run)
        entries = await journal(app.store, run.id)
        seq = next(one.seq for one in entries if one.type == "hold.settled")
        assert CANARY in str(await app.hold(hold.id))

        await app.redact(run, seq, by="mira")

        now = await app.hold(hold.id)
        assert CANARY not in str(now)
        assert now.decision is not None
        assert (now.decision.word, now.decision.by.id) == ("answered", "mira")


async def test_a_decision_that_stands_keeps_what_was_said_when_an_earlier_one_is_erased(
    place: Place,
):
    async with place.app(
        agent([call("pay", {"amount": 1, "to": "Jiro"}), say("Paid.")], pay)
    ) as app:
        run = await app.start("teller", "Pay.", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", undo="5m", note="first")
        await app.undo(hold, by="mira")
        await app.decide(hold, approve(), by="mira", note="second")
        await completed(run)
        entries = await journal(app.store, run.id)
        first, second = (one.seq for one in entries if one.type == "hold.settled")

        await app.redact(run, first, by="mira")
        stands = (await app.hold(hold.id)).decision
        await app.redact(run, second, by="mira")
        erased = (await app.hold(hold.id)).decision

        assert stands is not None
        assert erased is not None
        assert (stands.note, erased.note) == ("second", "")


async def test_an_erased_run_can_be_moved_and_still_verifies(place: Place, tmp_path: Path):
    other = place.another(tmp_path / "other")
    other.path.parent.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAYSO_KEYS", new_key())
        async with place.app(teller()) as app:
            view = await done(app)
            place.clock.advance("91d")
            await app.audit.retain("90d", by="noor")
            data = await app.export(view.id, by="mira")
        assert CANARY not in str(data)

        async with other.app(teller()) as app:
            run = await app.adopt(data, by="mira")

            assert (await app.audit.verify()).faults == []
            moved = await run.view()
            assert (moved.status, moved.output) == ("completed", "[erased]")
