"""The whole cycle through the public API, in memory and on a file.

Method: a scripted model, real tools that write to a ledger outside, a clock that moves only when
told to. At the end of each test the judge reads every journal and the ledger.
"""

import asyncio
import gc
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from sayso import (
    AssistantMessage,
    Bounds,
    Context,
    Declined,
    Delta,
    Failed,
    Policy,
    Principal,
    Returned,
    Rule,
    Sayso,
    ToolMessage,
    UserMessage,
    anyone,
    approve,
    fail,
    reject,
    tool,
    user,
)
from sayso.domain.hold import Expired, Withdrawn
from sayso.engine.live import Live
from sayso.errors import (
    AlreadyDecided,
    BadValue,
    CannotUndo,
    HoldExpired,
    KeyReused,
    NotAllowed,
    NotWhatWasShown,
    RunExists,
    RunFinished,
    RunWaiting,
    ThreadBusy,
    UnknownTool,
    WaitTimeout,
    WrongVerdict,
)
from sayso.store.base import PAGE_MAX
from sayso.testing import call, say

from .judge import judge
from .kit import (
    PATIENCE_S,
    Place,
    World,
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

PAY = {"amount": 200, "recipient": "Jiro"}


def payment(world: World, **options: Any) -> Any:
    """The risky tool: it pays."""

    @tool(name="pay", **{"approval": True, "effect": "once", "within": "4h", **options})
    async def pay(ctx: Context, amount: int, recipient: str) -> dict[str, Any]:
        world.act(ctx, {"amount": amount, "recipient": recipient})
        return {"paid": amount}

    return pay


def teller(world: World, script: Any = None, **options: Any) -> Any:
    return agent(script or [call("pay", PAY), say("Done.")], payment(world, **options))


async def test_an_approved_call_runs_once_and_the_run_goes_on(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        assert (hold.tool, hold.args, hold.kind, hold.version) == ("pay", PAY, "approval", 1)
        assert place.world.effects() == []

        decided = await app.decide(hold, approve(), by="mira", note="seen the invoice")
        view = await completed(run)

        assert decided.status == "settled"
        assert decided.decision is not None
        assert (decided.decision.word, decided.decision.note) == ("approved", "seen the invoice")
        assert view.output == "Done."
        assert place.world.effects() == [hold.call_id]
        assert await types(app, run) == [
            "run.started",
            "turn.taken",
            "hold.opened",
            "run.suspended",
            "hold.settled",
            "run.resumed",
            "call.started",
            "call.finished",
            "turn.taken",
            "run.completed",
        ]
        await judge(app.store, place.world, ("pay",))


async def test_a_run_that_waits_or_is_over_is_in_memory_no_more(place: Place) -> None:
    def in_memory() -> list[Live]:
        return [one for one in gc.get_objects() if isinstance(one, Live) and one.run.id == run.id]

    async with place.app(teller(place.world)) as app:
        gc.disable()  # Nobody is to come by for what could have gone by itself.
        try:
            run = await app.start("teller", "Pay Jiro", by="mira")
            hold = await held(run)
            await until(lambda: not in_memory())

            await app.decide(hold, approve(), by="mira")
            await completed(run)
            await until(lambda: not in_memory())
        finally:
            gc.enable()


async def test_a_rejected_call_never_runs_and_the_model_is_told_why(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")

        await app.decide(await held(run), reject("wrong account"), by="mira")
        view = await completed(run)

        (told,) = [m for m in view.messages if isinstance(m, ToolMessage)]
        assert told.outcome == Declined(reason="wrong account", by="mira")
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_on_reject_cancel_ends_the_run(place: Place) -> None:
    async with place.app(teller(place.world, on_reject="cancel")) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")

        await app.decide(await held(run), reject("no"), by="mira")
        view = await finished(run)

        assert view.status == "cancelled"
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_an_edited_call_runs_as_edited_and_the_model_sees_both(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        decided = await app.decide(hold, approve(args={**PAY, "amount": 150}), by="mira")
        view = await completed(run)

        assert (decided.version, decided.args["amount"], decided.status) == (2, 150, "settled")
        assert decided.digest != hold.digest
        asked = next(m for m in view.messages if isinstance(m, AssistantMessage) and m.calls)
        told = next(m for m in view.messages if isinstance(m, ToolMessage))
        assert json.loads(bytes(asked.calls[0].args)) == PAY
        assert '"amount":150' in told.note
        assert isinstance(told.outcome, Returned)
        assert told.outcome.result() == {"paid": 150}
        await judge(app.store, place.world, ("pay",))


LARGE = Policy(Rule("pay", when=lambda c: c.args["amount"] > 1000, approvers=[user("boss")]))


async def test_an_edit_that_needs_somebody_else_stays_open_for_them(place: Place) -> None:
    pay = payment(place.world, approvers=[anyone])
    async with place.app(agent([call("pay", PAY), say("Done.")], pay), policy=LARGE) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        shown = await held(run)

        more = approve(args={**PAY, "amount": 20_000})
        for _ in range(2):  # The second is a retry.
            edited = await app.decide(shown, more, by="mira", key="k")
            assert (edited.status, edited.version, edited.decision) == ("open", 2, None)
        assert edited.approvers == ("user:boss",)
        assert (await run.view()).status == "suspended"
        with pytest.raises(NotAllowed):
            await app.decide(edited, approve(), by="mira")
        with pytest.raises(NotWhatWasShown):
            await app.decide(shown, approve(), by="boss")
        with pytest.raises(NotWhatWasShown):
            await app.decide(edited.id, approve(), by="boss")
        assert place.world.effects() == []

        await app.decide(edited, approve(), by="boss")
        await completed(run)

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def test_an_edit_is_validated_and_may_be_forbidden(place: Place) -> None:
    policy = Policy(Rule("pay", when=lambda c: c.args["amount"] > 1000, forbid="too much"))
    async with place.app(teller(place.world), policy=policy) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        with pytest.raises(BadValue):
            await app.decide(hold, approve(args={"amount": "lots", "recipient": "J"}), by="mira")
        with pytest.raises(BadValue):
            await app.decide(hold, approve(args={**PAY, "extra": 1}), by="mira")
        with pytest.raises(NotAllowed, match="too much"):
            await app.decide(hold, approve(args={**PAY, "amount": 2000}), by="mira")

        assert (await run.view()).holds[0].version == 1
        await judge(app.store, place.world, ("pay",))


async def test_what_may_not_be_edited_is_not(place: Place) -> None:
    async with place.app(teller(place.world, editable=False)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        assert hold.editable is False
        with pytest.raises(WrongVerdict):
            await app.decide(hold, approve(args=PAY), by="mira")


async def test_a_decision_with_undo_counts_only_later_and_can_be_taken_back(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        decided = await app.decide(hold, approve(), by="mira", undo="5s")
        assert decided.status == "decided"
        assert (await run.view()).status == "suspended"
        with pytest.raises(AlreadyDecided) as told:
            await app.decide(hold, reject("no"), by="mira")
        assert told.value.decision == decided.decision
        with pytest.raises(NotAllowed):
            await app.undo(hold, by="noor")
        undone = await app.undo(hold, by="mira")
        assert (undone.status, undone.decision) == ("open", None)
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="mira")
        place.clock.advance("1h")
        await app.sweep()
        assert (await run.view()).status == "suspended"

        await app.decide(hold, reject("second thoughts"), by="mira")
        view = await completed(run)

        assert outcomes(view) == ["Declined"]
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_key_does_not_decide_again_what_was_undone(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        for _ in range(2):  # The second is a retry, as long as the decision stands.
            decided = await app.decide(hold, approve(), by="mira", key="k", undo="5s")
            assert decided.status == "decided"
        await app.undo(hold, by="mira")
        with pytest.raises(KeyReused, match="was taken back"):
            await app.decide(hold, approve(), by="mira", key="k", undo="5s")
        assert (await held(run)).status == "open"

        await app.decide(hold, approve(), by="mira", key="k2")
        await completed(run)
        await app.decide(hold, approve(), by="mira", key="k2")
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def test_a_decision_takes_effect_when_its_undo_time_is_over(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", undo="5s")

        place.clock.advance(4999)
        await app.sweep()
        assert place.world.effects() == []
        place.clock.advance(1)
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="mira")
        await app.sweep()
        await completed(run)

        assert len(place.world.effects()) == 1
        assert "decision.effective" in await types(app, run)
        await judge(app.store, place.world, ("pay",))


async def test_a_decision_can_be_taken_back_until_the_deadline_and_counts_from_then(
    place: Place,
) -> None:
    async with place.app(teller(place.world, within="10s")) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", undo="1m")

        place.clock.advance("9s")
        await app.sweep()
        assert (await app.undo(hold, by="mira")).status == "open"
        await app.decide(hold, approve(), by="mira", undo="1m")
        place.clock.advance("1s")
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="mira")
        await app.sweep()
        await completed(run)

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


SILENCES = {
    "reject": ("completed", 0, "Declined"),
    "approve": ("completed", 1, "Returned"),
    "fail": ("failed", 0, "Declined"),
    "cancel": ("cancelled", 0, "Declined"),
}


@pytest.mark.parametrize("silence", SILENCES)
async def test_silence_means_what_the_rule_says_from_the_deadline_on(
    place: Place, silence: str
) -> None:
    async with place.app(teller(place.world, within="4h", on_silence=silence)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        place.clock.advance(4 * 3_600_000 - 1)
        await app.sweep()
        assert (await run.view()).status == "suspended"

        place.clock.advance(1)
        await app.sweep()
        view = await finished(run)

        status, effects, outcome = SILENCES[silence]
        assert (view.status, len(place.world.effects()), outcomes(view)) == (
            status,
            effects,
            [outcome],
        )
        settled = await app.hold(hold.id)
        assert settled.decision is not None
        assert settled.decision.verdict == Expired(silence=silence)
        assert settled.decision.by == Principal(kind="clock", id="clock")
        with pytest.raises(HoldExpired):
            await app.decide(hold, approve(), by="mira")
        await judge(app.store, place.world)


@pytest.mark.parametrize("late_ms", [0, 1, 60_000])
@pytest.mark.parametrize("silence", ["reject", "approve"])
async def test_a_late_decision_is_refused_though_nobody_has_swept(
    place: Place, late_ms: int, silence: str
) -> None:
    asleep = Bounds(look_s=3600)
    async with place.app(
        teller(place.world, within="1m", on_silence=silence), bounds=asleep
    ) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        place.clock.advance(60_000 + late_ms)
        verdict = reject("no") if silence == "approve" else approve()
        with pytest.raises(HoldExpired) as told:
            await app.decide(hold, verdict, by="mira")
        await completed(run)

        assert isinstance(told.value.decision.verdict, Expired)
        assert len(place.world.effects()) == (1 if silence == "approve" else 0)
        await judge(app.store, place.world)


async def test_an_edit_at_the_deadline_is_refused_and_one_before_buys_no_time(
    place: Place,
) -> None:
    pay = payment(place.world, approvers=[anyone], within="1m")
    async with place.app(agent([call("pay", PAY), say("x")], pay), policy=LARGE) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        place.clock.advance("59s")
        edited = await app.decide(hold, approve(args={**PAY, "amount": 5000}), by="mira")
        assert edited.deadline == hold.deadline

        place.clock.advance("1s")
        with pytest.raises(HoldExpired):
            await app.decide(edited, approve(args=PAY), by="boss")
        await completed(run)

        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_hold_without_a_deadline_waits_for_ever(place: Place) -> None:
    async with place.app(teller(place.world, within=None)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        assert hold.deadline is None

        place.clock.advance("520w")
        await app.sweep()

        assert (await run.view()).status == "suspended"
        await app.decide(hold, approve(), by="mira")
        await completed(run)


async def test_a_wall_clock_that_is_set_back_does_not_expire_or_revive_anything(
    place: Place,
) -> None:
    async with place.app(teller(place.world, within="1h")) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        place.clock.step_wall(-86_400_000)
        await app.sweep()
        assert (await run.view()).status == "suspended"
        place.clock.step_wall(86_400_000 + 3_600_000)
        with pytest.raises(HoldExpired):
            await app.decide(hold, approve(), by="mira")
        await completed(run)
        place.clock.step_wall(-3_600_000)
        with pytest.raises(HoldExpired):
            await app.decide(hold, approve(), by="mira")

        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_suspended_run_is_cancelled_at_once(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        await app.cancel(run, by="mira", reason="changed my mind")

        view = await run.view()
        assert (view.status, outcomes(view)) == ("cancelled", ["Declined"])
        with pytest.raises(AlreadyDecided) as told:
            await app.decide(hold, approve(), by="mira")
        assert isinstance(told.value.decision.verdict, Withdrawn)
        await app.cancel(run, by="mira")
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_run_is_cancelled_in_the_middle_of_a_model_call(place: Place) -> None:
    asked = asyncio.Event()

    async def script(messages: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with place.app(agent(script)) as app:
        run = await app.start("teller", "Think", by="mira")
        await asked.wait()

        await app.cancel(run, by="mira")

        assert (await run.view()).status == "cancelled"
        assert await types(app, run) == ["run.started", "cancel.requested", "run.cancelled"]


async def test_a_run_that_nobody_works_on_is_cancelled_at_once(place: Place) -> None:
    async with place.app(teller(place.world), work=False) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")

        await app.cancel(run, by="mira")

        assert (await run.view()).status == "cancelled"


async def test_a_decided_and_not_yet_effective_run_is_cancelled_at_once(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", undo="5s")

        await app.cancel(run, by="mira")
        place.clock.advance("1m")
        await app.sweep()

        assert (await run.view()).status == "cancelled"
        with pytest.raises(CannotUndo):
            await app.undo(hold, by="mira")
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


@pytest.mark.parametrize("end", ["completed", "failed"])
async def test_a_finished_run_cannot_be_cancelled(place: Place, end: str) -> None:
    script = [say("hi")] if end == "completed" else [ValueError("the script is broken")]
    async with place.app(agent(script)) as app:
        run = await app.start("teller", "x", by="mira")
        assert (await finished(run)).status == end

        with pytest.raises(RunFinished):
            await app.cancel(run, by="mira")

        assert (await run.view()).status == end


async def test_only_whoever_started_a_run_may_cancel_it_or_speak_to_it(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        for by in ("noor", Principal(kind="service", id="mira")):
            with pytest.raises(NotAllowed):
                await app.cancel(run, by=by)
            with pytest.raises(NotAllowed):
                await app.say(run, "hello", by=by)
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=by)

        assert (await run.view()).status == "suspended"


async def test_a_message_to_a_running_run_is_taken_up_after_the_open_turn(place: Place) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    @tool(effect="none")
    async def slow() -> str:
        inside.set()
        await go.wait()
        return "slow"

    def script(messages: Any) -> Any:
        said = [m.text for m in messages if isinstance(m, UserMessage)]
        return call("slow") if len(messages) == 1 else say(f"heard {said}")

    async with place.app(agent(script, slow)) as app:
        run = await app.start("teller", "one", by="mira")
        await inside.wait()

        assert (await app.say(run, "two", by="mira")).id == run.id
        go.set()
        view = await completed(run)

        assert view.output == "heard ['one', 'two']"
        kinds = [type(m).__name__ for m in view.messages]
        assert kinds == [
            "UserMessage",
            "AssistantMessage",
            "ToolMessage",
            "UserMessage",
            "AssistantMessage",
        ]
        await judge(app.store)


async def test_a_message_that_comes_while_the_model_answers_gets_a_turn_of_its_own(
    place: Place,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def script(messages: Any) -> Any:
        if len(messages) == 1:
            asked.set()
            await go.wait()
        return say(f"seen {len(messages)}")

    async with place.app(agent(script)) as app:
        run = await app.start("teller", "one", by="mira")
        await asked.wait()
        await app.say(run, "two", by="mira")

        go.set()
        view = await completed(run)

        texts = [m.text for m in view.messages if isinstance(m, UserMessage | AssistantMessage)]
        assert texts == ["one", "seen 1", "two", "seen 3"]
        assert view.output == "seen 3"


async def test_a_message_to_a_suspended_run_is_refused_unless_it_supersedes(place: Place) -> None:
    def script(messages: Any) -> Any:
        said = [m.text for m in messages if isinstance(m, UserMessage)]
        return call("pay", PAY) if said == ["Pay Jiro"] else say(said[-1])

    async with place.app(teller(place.world, script)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira")
        hold = await held(run)

        with pytest.raises(RunWaiting) as told:
            await app.say(run, "well?", by="mira")
        assert told.value.holds == [hold.id]  # type: ignore[attr-defined]
        await app.say(run, "never mind", by="mira", supersede=True)
        view = await completed(run)

        assert (view.output, outcomes(view)) == ("never mind", ["Declined"])
        with pytest.raises(AlreadyDecided) as stands:
            await app.decide(hold, approve(), by="mira")
        assert isinstance(stands.value.decision.verdict, Withdrawn)
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_message_to_a_finished_run_starts_the_next_of_its_thread(place: Place) -> None:
    def script(messages: Any) -> Any:
        return say(str([m.text for m in messages]))

    async with place.app(agent(script)) as app:
        first = await app.start("teller", "one", by="mira")
        await completed(first)

        second = await app.say(first, "two", by="mira")
        view = await completed(second)
        third = await app.say(first, "three", by="mira")
        last = await completed(third)

        assert len({first.id, second.id, third.id}) == 3
        assert view.output == "['one', \"['one']\", 'two']"
        assert last.output is not None
        assert last.output.startswith("['one', \"['one']\", 'two', ")
        assert last.output.endswith("'three']")
        assert view.thread == last.thread == first.id


async def test_a_thread_has_one_unfinished_run_at_a_time(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay Jiro", by="mira", thread="t1")
        hold = await held(run)

        with pytest.raises(ThreadBusy):
            await app.start("teller", "again", by="mira", thread="t1")
        other = await app.start("teller", "elsewhere", by="mira", thread="t2")
        await held(other)
        await app.decide(hold, reject("no"), by="mira")
        await completed(run)
        with pytest.raises(ThreadBusy):
            await app.start("teller", "again", by="mira", thread="t2")


async def test_of_many_starts_in_one_thread_one_at_a_time_gets_through(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        tried = await asyncio.gather(
            *(app.start("teller", f"{n}", by="mira", thread="t") for n in range(20)),
            return_exceptions=True,
        )

        started = [one for one in tried if not isinstance(one, Exception)]
        assert len(started) == 1
        assert all(isinstance(one, ThreadBusy) for one in tried if isinstance(one, Exception))


async def test_history_given_at_the_start_comes_first(place: Place) -> None:
    def script(messages: Any) -> Any:
        return say(str([m.text for m in messages]))

    before = [UserMessage(text="a"), AssistantMessage(text="b")]
    async with place.app(agent(script)) as app:
        run = await app.start("teller", "c", by="mira", history=before)

        assert (await completed(run)).output == "['a', 'b', 'c']"


async def test_resume_decides_all_or_nothing(place: Place) -> None:
    turn = [call("pay", {"amount": n, "recipient": "J"}) for n in (1, 2000, 3)]
    pay = payment(place.world, approvers=[anyone])
    async with place.app(agent([turn, say("x")], pay), policy=LARGE) as app:
        run = await app.start("teller", "Pay", by="mira")
        view = await suspended(run)
        (request_id,) = {hold.request_id for hold in view.holds}

        with pytest.raises(NotAllowed):
            await app.resume(request_id, approve(), by="mira")
        assert [hold.status for hold in (await run.view()).holds] == ["open"] * 3
        with pytest.raises(NotWhatWasShown):
            await app.resume(request_id, approve(), by="boss", digest="0" * 64)
        with pytest.raises(WrongVerdict):
            await app.resume(request_id, approve(args=PAY), by="boss")
        decided = await app.resume(request_id, approve(), by="boss")
        await completed(run)
        with pytest.raises(AlreadyDecided) as told:
            await app.resume(request_id, reject("late"), by="boss")

        assert [hold.status for hold in decided] == ["settled"] * 3
        assert told.value.decision.by.id == "boss"
        assert sorted(place.world.effects()) == sorted(hold.call_id for hold in view.holds)
        events = await types(app, run)
        assert events.count("hold.settled") == 3
        await judge(app.store, place.world, ("pay",))


async def test_resume_decides_what_is_still_open_and_only_that(place: Place) -> None:
    turn = [call("pay", {"amount": n, "recipient": "J"}) for n in (1, 2, 3)]
    async with place.app(teller(place.world, [turn, say("x")])) as app:
        run = await app.start("teller", "Pay", by="mira")
        holds = (await suspended(run)).holds
        await app.decide(holds[1], reject("not this"), by="mira")

        await app.resume(holds[0].request_id, approve(), by="mira", key="k")
        await app.resume(holds[0].request_id, approve(), by="mira", key="k")
        view = await completed(run)

        assert outcomes(view) == ["Returned", "Declined", "Returned"]
        await judge(app.store, place.world, ("pay",))


async def test_resume_is_refused_whole_if_one_hold_has_expired(place: Place) -> None:
    policy = Policy(Rule("pay", when=lambda c: c.args["amount"] == 2, within="1m"))
    turn = [call("pay", {"amount": n, "recipient": "J"}) for n in (1, 2, 3)]
    asleep = Bounds(look_s=3600)
    async with place.app(
        teller(place.world, [turn, say("x")]), policy=policy, bounds=asleep
    ) as app:
        run = await app.start("teller", "Pay", by="mira")
        holds = (await suspended(run)).holds
        place.clock.advance("2m")

        with pytest.raises(HoldExpired):
            await app.resume(holds[0].request_id, approve(), by="mira")

        assert [(await app.hold(hold.id)).status for hold in holds] == ["open", "settled", "open"]
        assert place.world.effects() == []
        await judge(app.store, place.world, ("pay",))


async def test_a_retried_start_gives_the_same_run(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        runs = await asyncio.gather(
            *(app.start("teller", "Pay", by="mira", key="k1") for _ in range(10))
        )
        assert len({run.id for run in runs}) == 1
        await held(runs[0])

        again = await app.start("teller", "Pay", by="mira", key="k1")
        assert again.id == runs[0].id
        for other in (
            {"input": "Pay more", "by": "mira"},
            {"input": "Pay", "by": "noor"},
            {"input": "Pay", "by": "mira", "thread": "t"},
            {"input": "Pay", "by": "mira", "metadata": {"a": 1}},
        ):
            with pytest.raises(KeyReused):
                await app.start("teller", key="k1", **other)
        elsewhere = await app.start("teller", "Other", by="mira", key="k1", project="p2")
        assert elsewhere.id != again.id


async def test_a_retried_decision_gets_the_same_answer(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        first = await app.decide(hold, approve(), by="mira", key="click-1")
        await completed(run)
        again = await app.decide(hold, approve(), by="mira", key="click-1")

        assert again == first
        for other in (
            {"verdict": reject("no"), "by": "mira"},
            {"verdict": approve(args=PAY), "by": "mira"},
            {"verdict": approve(), "by": "noor"},
            {"verdict": approve(), "by": "mira", "digest": "0" * 64},
        ):
            with pytest.raises(KeyReused):
                await app.decide(hold, key="click-1", **other)
        with pytest.raises(KeyReused):
            await app.start("teller", "Pay", by="mira", key="click-1")
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def test_a_chosen_run_id_is_taken_once(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay", by="mira", id="run_mine")
        assert run.id == "run_mine"

        with pytest.raises(RunExists):
            await app.start("teller", "Pay", by="mira", id="run_mine")
        with pytest.raises(RunExists):
            await app.start("teller", "Pay", by="mira", id="run_mine", key="k")
        assert (await app.start("teller", "Pay", by="mira", key="k")).id != "run_mine"


class Receipt(BaseModel):
    number: int
    total: float


async def test_a_typed_output_is_validated_and_the_model_is_asked_again(place: Place) -> None:
    script = [
        say("not json"),
        say('{"number": "x"}'),
        say('```json\n{"number": 7, "total": 2}\n```'),
    ]
    async with place.app(agent(script, output=Receipt)) as app:
        run = await app.start("teller", "Receipt, please", by="mira")

        view = await completed(run)

        assert view.output == {"number": 7, "total": 2.0}
        complaints = [m for m in view.messages if isinstance(m, UserMessage)][1:]
        assert len(complaints) == 2
        assert all("cannot be used" in m.text for m in complaints)


async def test_a_run_that_takes_too_many_turns_fails(place: Place) -> None:
    def script(messages: Any) -> Any:
        return call("pay", {"amount": len(messages), "recipient": "J"})

    async with place.app(
        agent(script, payment(place.world, approval=False, within=None), turns_max=3)
    ) as app:
        run = await app.start("teller", "x", by="mira")

        view = await finished(run)

        assert view.status == "failed"
        assert "3 turns" in (view.error or "")
        assert len(place.world.effects()) == 3
        await judge(app.store, place.world)


async def test_a_model_that_fails_is_asked_again_and_one_that_keeps_failing_ends_the_run(
    place: Place,
) -> None:
    from sayso.errors import ModelFailed

    flaky = agent([ModelFailed("busy", retryable=True), say("ok")], name="flaky")
    dead = agent([ModelFailed("busy", retryable=True) for _ in range(9)], name="dead")
    broken = agent([ModelFailed("no such model")], name="broken")
    async with place.app(flaky, dead, broken) as app:
        views = {
            name: await finished(await app.start(name, "x", by="mira"))
            for name in ("flaky", "dead", "broken")
        }

        assert {name: view.status for name, view in views.items()} == {
            "flaky": "completed",
            "dead": "failed",
            "broken": "failed",
        }
        assert "no such model" in (views["broken"].error or "")


async def test_an_unheld_call_runs_without_anybody(place: Place) -> None:
    async with place.app(teller(place.world, approval=False, within=None)) as app:
        run = await app.start("teller", "Pay", by="mira")

        await completed(run)

        assert len(place.world.effects()) == 1
        assert await types(app, run) == [
            "run.started",
            "turn.taken",
            "call.started",
            "call.finished",
            "turn.taken",
            "run.completed",
        ]


async def test_a_call_equal_to_a_rejected_one_is_declined_without_asking(place: Place) -> None:
    script = [call("pay", PAY), call("pay", PAY), call("pay", {**PAY, "amount": 1}), say("x")]
    async with place.app(teller(place.world, script)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), reject("no"), by="mira")

        second = await held(run)
        assert second.args["amount"] == 1
        await app.decide(second, approve(), by="mira")
        view = await completed(run)

        assert outcomes(view) == ["Declined", "Declined", "Returned"]
        assert (await types(app, run)).count("hold.opened") == 2
        await judge(app.store, place.world, ("pay",))


async def test_asks_max_lets_an_equal_call_be_put_to_people_again(place: Place) -> None:
    script = [call("pay", PAY)] * 3 + [say("x")]
    async with place.app(teller(place.world, script, asks_max=2)) as app:
        run = await app.start("teller", "Pay", by="mira")

        first = await held(run)
        await app.decide(first, reject("no"), by="mira")
        second = await held(run)
        assert second.id != first.id
        await app.decide(second, reject("I said no"), by="mira")
        view = await completed(run)

        assert outcomes(view) == ["Declined"] * 3
        assert (await types(app, run)).count("hold.opened") == 2


async def test_an_expired_call_counts_as_refused_and_a_withdrawn_one_does_not(
    place: Place,
) -> None:
    def script(messages: Any) -> Any:
        said = sum(isinstance(m, UserMessage) for m in messages)
        told = sum(isinstance(m, ToolMessage) for m in messages)
        return call("pay", PAY) if told < 1 + said else say("x")

    async with place.app(teller(place.world, script, within="1m")) as app:
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        await app.say(run, "again", by="mira", supersede=True)
        asked_again = await held(run)
        place.clock.advance("1m")
        await app.sweep()
        view = await completed(run)

        assert asked_again.id.endswith(".2")
        assert outcomes(view) == ["Declined"] * 3
        assert (await types(app, run)).count("hold.opened") == 2


async def test_a_repeat_of_a_call_that_nobody_knows_the_outcome_of_is_held_and_linked(
    place: Place,
) -> None:
    @tool(effect="once")
    async def send(ctx: Context, to: str) -> str:
        place.world.act(ctx, {"to": to})
        raise ConnectionResetError("gone")

    script = [call("send", {"to": "x"}), call("send", {"to": "x"}), say("x")]
    async with place.app(agent(script, send)) as app:
        run = await app.start("teller", "Send", by="mira")
        doubt = await held(run)
        assert doubt.kind == "in_doubt"
        await app.decide(doubt, fail("cannot tell"), by="mira")

        repeat = await held(run)
        assert (repeat.kind, repeat.duplicate_of) == ("approval", doubt.call_id)
        await app.decide(repeat, reject("it may have happened"), by="mira")
        view = await completed(run)

        assert outcomes(view) == ["Unknown", "Declined"]
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world)


async def test_holds_are_listed_in_pages_without_a_gap_or_a_double(place: Place) -> None:
    pay = payment(place.world, approvers=[anyone])
    boss = Policy(Rule("pay", when=lambda c: c.args["amount"] % 3 == 0, approvers=[user("boss")]))
    turns = [[call("pay", {"amount": n, "recipient": "J"}) for n in range(7)], say("x")]
    async with place.app(agent(turns, pay), policy=boss) as app:
        runs = [await app.start("teller", "Pay", by="mira") for _ in range(3)]
        for run in runs:
            await suspended(run)

        async def pages(limit: int, **query: Any) -> list[str]:
            found: list[str] = []
            after = None
            while True:
                page = await app.holds(limit=limit, after=after, **query)
                assert len(page) <= limit
                found += [hold.id for hold in page]
                after = page.next
                if after is None:
                    return found

        everything = await pages(500)
        assert len(everything) == len(set(everything)) == 21
        for limit in (1, 2, 5, 7, 21, 22):
            assert await pages(limit) == everything
        assert len(await pages(4, by="boss")) == 21
        assert len(await pages(4, by="noor")) == 12
        await app.decide(everything[1], approve(), by="noor")
        assert len(await pages(4)) == 20
        assert await pages(4, status="settled") == [everything[1]]
        assert sorted(await pages(4, status="any")) == sorted(everything)
        assert len(await pages(4, project="elsewhere")) == 0


async def test_a_page_over_the_limit_goes_on(place: Place) -> None:
    turns = [[call("pay", {"amount": n, "recipient": "J"}) for n in range(102)], say("x")]
    async with place.app(teller(place.world, turns)) as app:
        for _ in range(5):
            await suspended(await app.start("teller", "Pay", by="mira"))

        page = await app.holds(limit=1000)
        rest = await app.holds(limit=1000, after=page.next)

        assert page.next is not None
        assert len(page) + len(rest) == 510


async def follow(app: Sayso, run_id: str, *, after: int = 0, deltas: bool = False) -> list[Any]:
    found: list[Any] = []
    async for one in app.events(run_id, after=after, deltas=deltas):
        found.append(one)
    return found


async def test_readers_who_join_anywhere_miss_nothing_and_get_nothing_twice(place: Place) -> None:
    turn = [call("pay", PAY), call("look", {"at": "x"})]

    @tool(effect="none")
    async def look(at: str) -> str:
        await asyncio.sleep(0)
        return at

    script = [turn, [say("thinking it over "), call("look", {"at": "y"})], say("all of it is done")]
    async with place.app(agent(script, payment(place.world), look)) as app:
        runs = await asyncio.gather(*(app.start("teller", f"{n}", by="mira") for n in range(50)))
        readers: list[asyncio.Task[list[Any]]] = []

        async def read_sometimes() -> None:
            # Whoever joins does so while others write: after 0 to 24 steps of the loop.
            for index, run in enumerate(runs):
                for _ in range(index % 25):
                    await asyncio.sleep(0)
                readers.append(asyncio.create_task(follow(app, run.id, after=index % 7)))
                readers.append(
                    asyncio.create_task(follow(app, run.id, after=index % 3, deltas=True))
                )

        async def decide_all() -> None:
            for run in runs:
                view = await run.wait(timeout=PATIENCE_S, held=True)
                await app.decide(view.holds[0], approve(), by="mira")

        await asyncio.gather(read_sometimes(), decide_all())
        heard = await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S)

        for index, run in enumerate(runs):
            truth = [one.seq for one in await journal(app.store, run.id)]
            plain, mixed = heard[2 * index], heard[2 * index + 1]
            assert [one.seq for one in plain] == truth[index % 7 :]
            recorded = [one for one in mixed if not isinstance(one, Delta)]
            assert [one.seq for one in recorded] == truth[index % 3 :]
        words = "".join(one.text for found in heard for one in found if isinstance(one, Delta))
        assert "all of it is done" in words
        await judge(app.store, place.world, ("pay",))


async def test_a_reader_gets_a_journal_that_is_longer_than_a_page(place: Place) -> None:
    @tool(effect="none")
    async def look() -> str:
        return "nothing"

    script = [*[call("look")] * 180, call("pay", PAY), say("done")]
    teller = agent(script, payment(place.world), look, turns_max=200)
    async with place.app(teller) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        found: list[int] = []

        async def read() -> None:
            async for one in app.events(run.id):
                found.append(one.seq)  # type: ignore[union-attr]

        reader = asyncio.create_task(read())
        suspended_at = (await run.view()).seq
        await until(lambda: len(found) == suspended_at, "the second page")
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)
        await asyncio.wait_for(reader, PATIENCE_S)

        assert suspended_at > PAGE_MAX
        assert found == list(range(1, view.seq + 1))


async def test_a_reader_behind_the_end_is_told_so_at_once(place: Place) -> None:
    async with place.app(agent([say("hi")])) as app:
        run = await app.start("teller", "x", by="mira")
        view = await completed(run)

        assert await asyncio.wait_for(follow(app, run.id, after=view.seq), 5) == []
        assert await asyncio.wait_for(follow(app, run.id, after=view.seq + 5), 5) == []
        assert len(await follow(app, run.id, after=1, deltas=True)) == view.seq - 1


async def test_a_reader_may_leave_at_any_time(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        stream = app.events(run.id, deltas=True)
        assert isinstance(stream, AsyncIterator)
        first = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        waiting = asyncio.create_task(follow(app, run.id))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})

        await app.decide(hold, approve(), by="mira")

        assert first.seq == 1  # type: ignore[union-attr]
        await completed(run)


async def test_the_gate_puts_a_foreign_call_to_people(place: Place) -> None:
    pay = payment(place.world)
    async with place.app(tools=[pay]) as app:
        asked = asyncio.create_task(app.gate("pay", PAY, by="mira"))
        await until(lambda: _open(app))
        (hold,) = await app.holds(by="mira")
        assert (hold.tool, hold.args) == ("pay", PAY)

        await app.decide(hold, approve(args={**PAY, "amount": 3}), by="mira")
        outcome = await asked

        assert isinstance(outcome, Returned)
        assert outcome.result() == {"paid": 3}
        refused = asyncio.create_task(app.gate(pay, PAY, by="mira"))
        await until(lambda: _open(app))
        await app.decide((await app.holds())[0], reject("no"), by="mira")
        assert await refused == Declined(reason="no", by="mira")
        bad = await app.gate("pay", {"amount": "x", "recipient": 1}, by="mira")
        assert isinstance(bad, Failed)
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


async def _open(app: Sayso) -> bool:
    return len(await app.holds()) > 0


async def test_the_gate_gives_the_same_outcome_for_the_same_key_from_another_app(
    place: Place,
) -> None:
    pay = payment(place.world)
    async with place.app(tools=[pay]) as one, place.app(tools=[pay]) as two:
        with pytest.raises(WaitTimeout):
            await one.gate("pay", PAY, by="mira", key="k", timeout=0.2)
        both = [asyncio.create_task(app.gate("pay", PAY, by="mira", key="k")) for app in (one, two)]
        (hold,) = await two.holds()
        await two.decide(hold, approve(), by="mira")

        found = await asyncio.gather(*both)

        assert found[0] == found[1]
        assert isinstance(found[0], Returned)
        assert await one.gate("pay", PAY, by="mira", key="k") == found[0]
        with pytest.raises(KeyReused):
            await one.gate("pay", {**PAY, "amount": 1}, by="mira", key="k")
        assert len(place.world.effects()) == 1


async def test_the_gate_gives_the_same_outcome_for_the_same_key_in_a_new_process(
    file_place: Place,
) -> None:
    place = file_place
    script = textwrap.dedent(
        """
        import asyncio, json, sys
        from sayso import Sayso, tool

        @tool(approval=True, effect="once", within="4h")
        async def pay(amount: int, recipient: str) -> dict:
            raise SystemExit("the second process must not pay")

        async def main():
            async with Sayso(sys.argv[1], tools=[pay]) as app:
                outcome = await app.gate("pay", json.loads(sys.argv[2]), by="mira", key="k")
                print(json.dumps(outcome.result()))

        asyncio.run(main())
        """
    )
    async with Sayso(place.path, tools=[payment(place.world)]) as app:
        asked = asyncio.create_task(app.gate("pay", PAY, by="mira", key="k"))
        await until(lambda: _open(app))
        await app.decide((await app.holds())[0], approve(), by="mira")
        await asked

    child = subprocess.run(
        [sys.executable, "-c", script, str(place.path), json.dumps(PAY)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert child.stdout.strip() == '{"paid": 200}', child.stderr
    assert len(place.world.effects()) == 1


async def test_a_gated_call_whose_run_is_cancelled_before_it_is_asked_about_was_declined(
    place: Place,
) -> None:
    pay = payment(place.world)
    async with place.app(tools=[pay], work=False) as app:
        asked = asyncio.create_task(app.gate("pay", PAY, by="mira", key="k"))
        await until(lambda: _runs(app))
        (row,) = await _runs(app)

        await app.cancel(row.id, by="mira", reason="too late")

        assert isinstance(await asked, Declined)
        assert place.world.effects() == []


async def _runs(app: Sayso) -> Any:
    from sayso.store.query import RunQuery

    return await app.store.runs(RunQuery())


async def test_a_gated_tool_that_is_not_known_is_an_error(place: Place) -> None:
    async with place.app() as app:
        with pytest.raises(UnknownTool):
            await app.gate("pay", PAY, by="mira")
        assert await _runs(app) == []


async def test_a_decision_in_an_app_that_does_not_work_is_carried_out_by_one_that_does(
    place: Place,
) -> None:
    async with place.app(teller(place.world)) as worker:
        run = await worker.start("teller", "Pay", by="mira")
        hold = await held(run)
        async with place.app(work=False) as desk:
            await desk.decide(hold.id, approve(), by="mira")

            view = await desk.run(run.id).wait(final=True, timeout=PATIENCE_S)

            assert view.status == "completed"
    assert len(place.world.effects()) == 1


async def test_a_run_started_where_nobody_works_waits_for_a_worker(place: Place) -> None:
    async with place.app(teller(place.world), work=False) as desk:
        run = await desk.start("teller", "Pay", by="mira")
        with pytest.raises(WaitTimeout):
            await run.wait(timeout=0.05)

    async with place.app(teller(place.world)) as worker:
        hold = await held(worker.run(run.id))
        assert hold.tool == "pay"


async def test_an_app_is_opened_anew_on_what_another_has_left(place: Place) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

    async with place.app(teller(place.world)) as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        view = await completed(app.run(run.id))

        assert view.output == "Done."
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


@pytest.mark.parametrize("steps", range(12))
async def test_a_caller_who_goes_away_leaves_no_run_behind_that_nobody_works_on(
    place: Place, steps: int
) -> None:
    async with place.app(teller(place.world)) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)

        deciding = asyncio.create_task(app.decide(hold, approve(), by="mira", key="k"))
        for _ in range(steps):
            await asyncio.sleep(0)
        deciding.cancel()
        await asyncio.wait({deciding})
        await app.decide(hold, approve(), by="mira", key="k")

        await completed(run)
        assert len(place.world.effects()) == 1


@pytest.mark.parametrize("steps", range(12))
async def test_a_caller_who_goes_away_while_starting_leaves_a_run_that_goes_on(
    place: Place, steps: int
) -> None:
    async with place.app(teller(place.world)) as app:
        starting = asyncio.create_task(app.start("teller", "Pay", by="mira", key="k"))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})

        await held(await app.start("teller", "Pay", by="mira", key="k"))
        assert len(await _runs(app)) == 1


async def test_a_worker_does_not_rescue_its_own_runs_because_time_has_jumped(
    place: Place,
) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    @tool(effect="once", timeout="1m")
    async def slow(ctx: Context) -> str:
        place.world.act(ctx, {})
        inside.set()
        await go.wait()
        return "slow"

    async with place.app(agent([call("slow"), say("x")], slow)) as app:
        run = await app.start("teller", "x", by="mira")
        await inside.wait()

        place.clock.advance("4h")
        await app.sweep()
        go.set()
        await completed(run)

        assert "run.taken_over" not in await types(app, run)
        assert len(place.world.effects()) == 1
