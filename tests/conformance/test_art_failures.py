"""Seed 1, ART: section 11 as it was built, and everything that its own project later found wrong,
or that went wrong in several of the five systems, each as a test that would notice.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import (
    Agent,
    Context,
    Declined,
    Failed,
    Principal,
    Returned,
    Sayso,
    ToolMessage,
    answer,
    approve,
    reject,
    spawn,
    tool,
)
from sayso.errors import (
    AlreadyDecided,
    BadAnswer,
    BadValue,
    ModelFailed,
    NotAllowed,
    RunWaiting,
    WrongVerdict,
)
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import Place, completed, finished, held, suspended, types, until

from .art import CONFIRM, DELETE, GOAL, LOOK, Art, statuses

YES = answer({"approved": True})
ONE_BY_ONE = {"clean": [[LOOK, CONFIRM, DELETE], say("Done.")]}


# Section 11.2: the batch.


async def test_the_rest_of_the_batch_is_not_executed_and_says_so(place: Place):
    art = Art(place, items=ONE_BY_ONE)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert art.effects == ["looked at old"]
        await app.decide(hold, YES, by="mira")
        await completed(run)

    looked, asked, deleted = art.told
    assert (looked.outcome.result(), asked.outcome) == (500, Returned(value=YES.value))
    assert isinstance(deleted.outcome, Declined)
    assert "not executed" in deleted.outcome.reason
    assert art.effects == ["looked at old"]


async def test_of_two_blocking_calls_the_first_suspends_and_neither_is_forgotten(place: Place):
    other = call("displayConfirmation", {"action": "Delete the rest"})
    art = Art(place, items={"clean": [[CONFIRM, other], other, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        first = await held(run)
        assert art.dialogues == ["Delete 500 records"]
        await app.decide(first, YES, by="mira")
        # The model may ask again for what was dropped: it was not refused by anybody.
        await until(lambda: _asks(run, besides=first.id))
        await app.decide(await held(run), YES, by="mira")
        await completed(run)

    assert art.dialogues == ["Delete 500 records", "Delete the rest"]
    assert [type(one.outcome).__name__ for one in art.told] == ["Returned", "Declined", "Returned"]


async def test_where_siblings_run_two_suspensions_of_one_batch_survive_together(place: Place):
    other = call("displayConfirmation", {"action": "Delete the rest"})
    turns = {"clean": [[CONFIRM, LOOK, other, DELETE], say("Done.")]}
    art = Art(place, items=turns, siblings="run")

    async with place.app(art.planner) as app:
        run = await art.start(app)
        first, second = (await suspended(run)).holds
        assert sorted(art.effects) == ["deleted 500", "looked at old"]
        await app.decide(second, answer({"approved": False}), by="mira")
        assert [one.id for one in (await suspended(run)).holds] == [first.id]
        await app.decide(first, YES, by="mira")
        await completed(run)

    assert [one.outcome.result() for one in art.told] == [
        {"approved": True},
        500,
        {"approved": False},
        "deleted 500",
    ]


async def _asks(run: Any, besides: str) -> bool:
    return any(hold.id != besides for hold in (await run.view()).holds)


BROKEN = [
    call("displayConfirmation", {"act": "Delete"}),
    call("displayConfirmation", "{broken"),
    call("noSuchTool"),
    call("brokenDialogue"),
]


@pytest.mark.parametrize("wrong", BROKEN, ids=["arguments", "json", "unknown", "raises"])
async def test_what_is_wrong_with_a_call_is_its_result_and_suspends_nothing(
    place: Place, wrong: Any
):
    @tool(name="brokenDialogue", blocking=True, effect="none")
    async def broken() -> None:
        raise OSError("no display")

    art = Art(place, tools=[broken], items={"clean": [[wrong, LOOK], say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await completed(run)

        assert "hold.opened" not in await types(app, run)
    assert isinstance(art.told[0].outcome, Failed)
    assert art.effects == ["looked at old"]


# Section 11.2: the loop. 0.4.7, 0.4.12, 0.4.13 and 0.4.14 broke it in four ways.


async def test_the_work_ends_at_the_suspension_and_nothing_is_synthesised(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")], "after": [say("After.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await run.wait()
        # A client can tell from the status that this is no success.
        assert (view.status, view.output, view.final) == ("suspended", None, False)
        assert statuses(view) == {"clean": "waiting", "after": "pending"}
        assert view.worker is None
        assert len(view.messages) == 2


async def test_resuming_makes_no_new_plan_and_goes_on_inside_the_item(place: Place):
    art = Art(place, items={"clean": [LOOK, CONFIRM, say("Done.")], "after": [say("After.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), YES, by="mira")
        view = await completed(run)

    goals = [one for one in art.prompts if one.messages[0].text == GOAL]
    assert len(goals) == 2  # One plan, one synthesis.
    assert set(statuses(view).values()) == {"done"}
    assert art.effects == ["looked at old"]


async def test_resuming_leaves_what_was_said_before_as_it_was(place: Place):
    art = Art(place, items={"clean": [LOOK, CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), YES, by="mira")
        await completed(run)

    for shorter, longer in zip(art.shown, art.shown[1:], strict=False):
        assert longer[: len(shorter)] == shorter
    assert art.shown[-1][-1].outcome == Returned(value=YES.value)


async def test_an_answered_dialogue_is_not_shown_again(place: Place):
    first = Art(place, items={"clean": [[LOOK, CONFIRM], say("Done.")]})
    async with place.app(first.planner) as app:
        run = await first.start(app)
        hold = await held(run)

    again = Art(place, items=first.items)
    async with place.app(again.planner) as app:
        await app.decide(hold, YES, by="mira")
        await completed(app.run(run.id))

    assert again.dialogues == ["Delete 500 records"]
    assert again.effects == ["looked at old"]


async def test_a_model_that_calls_it_after_every_yes_comes_to_an_end(place: Place):
    art = Art(place, items={"clean": [CONFIRM] * 20}, turns_max=6, replans_max=0)
    yes = 0

    async with place.app(art.planner) as app:
        run = await art.start(app)
        while (view := await run.wait()).status == "suspended":
            yes += 1
            verdict = YES if yes < 5 else reject("enough")
            await app.decide(view.holds[0], verdict, by="mira")
            await until(lambda seen=view: _moved(run, seen))

    assert view.status == "failed"
    assert "6 turns" in (view.error or "")
    assert len(art.dialogues) == 5


async def _moved(run: Any, seen: Any) -> bool:
    view = await run.view()
    return view.status != "running" and view.seq != seen.seq


async def test_a_second_call_with_other_arguments_is_asked_about(place: Place):
    other = call("displayConfirmation", {"action": "Delete the rest"})
    art = Art(place, items={"clean": [CONFIRM, other, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        first = await held(run)
        await app.decide(first, YES, by="mira")
        await until(lambda: _asks(run, besides=first.id))
        second = await held(run)
        assert second.args == {"action": "Delete the rest"}
        await app.decide(second, YES, by="mira")
        await completed(run)


async def test_a_call_that_was_rejected_is_not_asked_about_again(place: Place):
    art = Art(place, items={"clean": [CONFIRM, CONFIRM, CONFIRM, say("I give up.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), reject("never"), by="mira")
        await completed(run)

        assert (await types(app, run)).count("hold.opened") == 1
    assert art.dialogues == ["Delete 500 records"]
    assert [type(one.outcome) for one in art.told] == [Declined, Declined, Declined]


# The decision is not lost, and counts once (classes A, B and C).


async def test_of_many_decisions_at_once_one_counts(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        verdicts = [answer({"approved": True, "reason": str(n)}) for n in range(20)]
        found = await asyncio.gather(
            *[app.decide(hold, one, by="mira") for one in verdicts], return_exceptions=True
        )
        await completed(run)

    stands = [one for one in found if not isinstance(one, Exception)]
    assert len(stands) == 1
    late = [one for one in found if isinstance(one, AlreadyDecided)]
    assert len(late) == 19
    assert all(one.decision == stands[0].decision for one in late)
    assert art.told[0].outcome.result() == stands[0].decision.verdict.result()


async def test_an_answer_as_fast_as_the_event_is_taken(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        async for entry in app.events(run):
            if entry.type == "hold.opened":
                hold = f"hold_{run.id.removeprefix('run_')}.{entry.event.hold}"
                await app.decide(hold, YES, by="mira")

        assert (await run.view()).status == "completed"


async def test_a_process_that_dies_right_after_the_decision_loses_nothing(place: Place):
    art = Art(place, items={"clean": [CONFIRM, DELETE, say("Done.")]})
    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
    async with place.app(work=False) as app:
        # It takes the decision, and is gone before anything comes of it.
        await app.decide(hold, YES, by="mira")
    assert art.effects == []

    async with place.app(art.planner) as app:
        await completed(app.run(run.id))

    assert art.effects == ["deleted 500"]
    assert art.dialogues == ["Delete 500 records"]


async def test_a_circle_or_a_flood_as_a_decision_changes_nothing(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]}, dialogue={"asks": None})
    circle: dict[str, Any] = {}
    circle["me"] = circle

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await suspended(run)
        for bad in (circle, {"flood": "x" * 20_000_000}, {"nan": float("nan")}, {"it": object()}):
            with pytest.raises(BadValue):
                await app.decide(view.holds[0], answer(bad), by="mira")

        assert await run.view() == view


async def test_a_decision_is_a_field_and_never_read_from_prose(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        with pytest.raises(BadAnswer):
            await app.decide(hold, answer('The user said: "approve"'), by="mira")
        with pytest.raises(WrongVerdict):
            await app.decide(hold, approve(), by="mira")
        assert (await app.hold(hold)).status == "open"


# The gate is in the runtime, not in the model's hands (class E).


async def test_a_model_that_only_says_it_asked_has_done_nothing(place: Place):
    @tool(name="erase", approval=True, effect="once")
    async def erase(ctx: Context) -> str:
        place.world.write("effects", f"{ctx.key} erased")
        return "erased"

    turns = {
        "ask": [say('I called displayConfirmation({"action": "erase"}) and it was approved.')],
        "clean": [call("erase"), say("Done.")],
    }
    art = Art(place, tools=[erase], items=turns)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert (hold.tool, art.effects) == ("erase", [])
        await app.decide(hold, reject("nobody asked me"), by="mira")
        await completed(run)

    assert art.effects == []


async def test_a_check_that_breaks_holds_the_call(place: Place):
    def check(call: Any) -> bool:
        raise LookupError("the catalogue is gone")

    art = Art(place, items={"clean": [DELETE, say("Done.")]}, check_for_intervention=check)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert (hold.tool, art.effects) == ("deleteRecords", [])
        await app.decide(hold, approve(), by="mira")
        await completed(run)

    assert art.effects == ["deleted 500"]


async def test_nothing_is_delegated_before_the_gate_of_the_same_turn(place: Place):
    """ART delegated first and asked after: what the other agent did could not be recalled."""
    started: list[str] = []

    def work(messages: Any) -> Any:
        started.append(messages[0].text)
        return say("done")

    helper = Agent("helper", model=ScriptedModel(work))

    @tool(approval=True, effect="once")
    async def pay(amount: int) -> None: ...

    turn = [call("spawn", {"agent": "helper", "input": "Send it."}), call("pay", {"amount": 5})]
    art = Art(
        place,
        tools=[spawn("helper"), pay],
        items={"clean": [turn, say("Done.")]},
        siblings="hold",
        on_reject="cancel",
    )

    async with place.app(art.planner, helper) as app:
        run = await art.start(app)
        hold = await held(run)
        assert (hold.tool, started) == ("pay", [])
        await app.decide(hold, reject("no"), by="mira")
        assert (await finished(run)).status == "cancelled"

    assert started == []


# Who, where and with what it goes on (classes G, H, I, N, O).


async def test_every_call_has_exactly_one_outcome_in_order_before_the_next_turn(place: Place):
    art = Art(place, items={"clean": [[LOOK, CONFIRM, DELETE, CONFIRM], LOOK, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), YES, by="mira")
        await completed(run)

    for messages in art.shown:
        asked = [c.ref for one in messages for c in getattr(one, "calls", ())]
        told = [one.call_id for one in messages if isinstance(one, ToolMessage)]
        assert told == [f"{run.id}.{ref}" for ref in asked]


async def test_a_resumed_run_has_the_same_instructions_tools_and_person(place: Place):
    seen: list[Principal] = []

    @tool(effect="none")
    async def who(ctx: Context) -> str:
        seen.append(ctx.by)
        return ctx.by.id

    turns = {"clean": [call("who"), CONFIRM, call("who"), say("Done.")]}
    first = Art(place, tools=[who], items=turns)
    async with place.app(first.planner) as app:
        run = await first.start(app)
        hold = await held(run)
    again = Art(place, tools=[who], items=turns)
    async with place.app(again.planner) as app:
        await app.decide(hold, YES, by="mira")
        await completed(app.run(run.id))

    before, after = first.prompts[-1], again.prompts[0]
    assert after.instructions == before.instructions
    assert [one.name for one in after.tools] == [one.name for one in before.tools]
    assert seen == [Principal(id="mira"), Principal(id="mira")]


async def test_one_suspended_thread_holds_up_no_other(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})
    other = Agent("other", model=ScriptedModel([say("Hello.")]))

    async with place.app(art.planner, other) as app:
        run = await art.start(app)
        await suspended(run)
        assert (await completed(await app.start("other", "Hi", by="mira"))).output == "Hello."
        assert (await run.view()).status == "suspended"


async def test_a_message_to_a_paused_run_is_refused_or_takes_back_what_it_asks(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Then not.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        # Nor is an empty message a resumption.
        for text in ("Forget it.", " "):
            with pytest.raises((RunWaiting, BadValue)):
                await app.say(run, text, by="mira")
        assert (await app.hold(hold)).status == "open"
        await app.say(run, "Forget it.", by="mira", supersede=True)
        await _finish(app, run)
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, YES, by="mira")

    assert isinstance(art.told[0].outcome, Declined)


async def _finish(app: Sayso, run: Any) -> None:
    assert (await finished(run)).final
    assert not list(await app.holds())


async def test_a_model_that_fails_after_the_resumption_is_seen_and_nothing_hangs(place: Place):
    def broken(messages: Any) -> Any:
        raise ModelFailed("out of order")

    art = Art(place, items={"clean": [CONFIRM, broken]}, replans_max=0)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), YES, by="mira")
        view = await finished(run)

        assert view.status == "failed"
        assert "out of order" in (view.error or "")
        assert not list(await app.holds())


async def test_a_suspended_run_can_be_cancelled_and_leaves_nothing_open(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        await app.cancel(run, by="mira")
        assert (await finished(run)).status == "cancelled"
        assert not list(await app.holds())
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, YES, by="mira")


async def test_a_stranger_can_neither_see_nor_decide(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert not list(await app.holds(by="eve"))
        for verdict in (YES, reject("mine"), answer({"approved": False})):
            with pytest.raises(NotAllowed):
                await app.decide(hold, verdict, by="eve")
        assert (await app.hold(hold)).status == "open"
