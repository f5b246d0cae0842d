"""Seed 1, ART, "Blocking Tool Calls / Agent Suspension": what the document asks for, section by
section, and what the finished system did. `test_art_failures.py` has what went wrong in it.
"""

from __future__ import annotations

from typing import Any

import pytest

from sayso import (
    Context,
    Declined,
    Returned,
    Sayso,
    answer,
    approve,
    question,
    reject,
    tool,
)
from sayso.errors import (
    AlreadyDecided,
    BadAnswer,
    BadPolicy,
    BadTool,
    HoldExpired,
    UnknownHold,
)
from sayso.testing import call, say
from tests.engine.kit import Child, Place, agent, completed, finished, held, suspended, types, until

from .art import CONFIRM, DECISION, DELETE, LOOK, Art, statuses

YES = answer({"approved": True})
NO = answer({"approved": False, "reason": "not these"})


def asks_first(place: Place, **options: Any) -> Art:
    """Ask, then delete if the person says so."""

    def go_on(messages: Any) -> Any:
        said = messages[-1].outcome.result()
        return DELETE if said["approved"] else say(f"Left alone: {said['reason']}")

    return Art(place, items={"clean": [CONFIRM, go_on, say("Deleted.")]}, **options)


# Sections 2, 3 and 8: what is wrong today, what is wanted, and when it is accepted.


async def test_criterion_1_a_tool_can_declare_that_it_blocks(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        hold = await held(await art.start(app))

        assert (hold.tool, hold.kind, hold.args) == (
            "displayConfirmation",
            "question",
            {"action": "Delete 500 records"},
        )
        assert art.dialogues == ["Delete 500 records"]


async def test_criterion_2_the_agent_pauses_after_invoking_a_blocking_tool(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await suspended(run)
        # Whatever a worker could do without a person, it would do now.
        await app.sweep()

        assert (await run.view()).seq == view.seq
        assert art.effects == []
        assert len(art.shown) == 1


async def test_criterion_3_the_frontend_is_told_of_the_suspension_and_of_the_resumption(
    place: Place,
):
    art = asks_first(place)
    heard: list[str] = []

    async with place.app(art.planner) as app:
        run = await art.start(app)
        async for entry in app.events(run):
            heard.append(entry.type)
            if entry.type == "run.suspended":
                (hold,) = (await run.view()).holds
                await app.decide(hold, YES, by="mira")

    lifecycle = [one for one in heard if one in ("hold.opened", "hold.settled")]
    assert lifecycle == ["hold.opened", "hold.settled"]
    assert [one for one in heard if one.startswith("run.")] == [
        "run.started",
        "run.suspended",
        "run.resumed",
        "run.completed",
    ]


async def test_criterion_4_and_5_the_agent_goes_on_with_the_decision(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), YES, by="mira")
        view = await completed(run)

    assert view.output == "All is clean."
    assert art.effects == ["deleted 500"]
    assert art.shown[1][-1].outcome == Returned(value=YES.value)


async def test_criterion_6_a_suspension_survives_a_page_refresh(place: Place):
    first = asks_first(place)
    async with place.app(first.planner) as app:
        run = await first.start(app)
        before = await suspended(run)

    again = asks_first(place)
    async with place.app(again.planner) as app:
        view = await suspended(app.run(run.id))
        assert view == before
        await app.decide(view.holds[0], YES, by="mira")
        await completed(app.run(run.id))

    assert again.dialogues == ["Delete 500 records"]
    assert again.effects == ["deleted 500"]


# Section 4.1: the declaration.


async def test_an_immediate_tool_asks_nobody(place: Place):
    art = Art(place, items={"look": [LOOK, say("500.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await completed(run)

        assert "hold.opened" not in await types(app, run)
    assert art.effects == ["looked at old"]


@pytest.mark.parametrize("mode", ["blocking", "immediate", None])
def test_a_mode_that_there_is_not_is_refused_where_the_tool_is_made(mode: Any):
    with pytest.raises(BadTool, match="blocking"):
        tool(blocking=mode)(_wipe)


# Section 4.2: the signal.


async def test_a_suspension_id_is_unique_and_never_the_tools_own(place: Place):
    art = Art(
        place,
        items={"one": [CONFIRM, CONFIRM, say("Done.")]},
        dialogue={"asks": None},
    )
    ids: list[str] = []

    async with place.app(art.planner) as app:
        run = await art.start(app)
        for _ in range(2):
            hold = await held(run)
            ids.append(hold.id)
            # What the tool returned goes along, and is nothing but data.
            assert hold.metadata["suspensionId"] == "made-by-the-tool"
            await app.decide(hold, YES, by="mira")
            await until(lambda: _settled(app, ids[-1]))
            if len(ids) == 1:
                await until(lambda: _asks(run, besides=ids[0]))
        await completed(run)
        with pytest.raises(UnknownHold):
            await app.hold("made-by-the-tool")

    assert len(set(ids)) == 2


async def _settled(app: Sayso, hold: str) -> bool:
    return (await app.hold(hold)).status == "settled"


async def _asks(run: Any, besides: str) -> bool:
    return any(hold.id != besides for hold in (await run.view()).holds)


async def test_a_tool_may_decide_in_its_body_that_it_suspends(place: Place):
    @tool(name="transfer", effect="none")
    async def transfer(ctx: Context, amount: int) -> Any:
        return "done" if amount < 100 else ctx.suspend(DECISION, within="1h")

    turns = [call("transfer", {"amount": 5}), call("transfer", {"amount": 500}), say("Done.")]
    art = Art(place, tools=[transfer], items={"pay": turns})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert hold.args == {"amount": 500}
        assert hold.deadline is not None
        await app.decide(hold, YES, by="mira")
        await completed(run)

    assert [one.outcome.result() for one in art.told] == ["done", {"approved": True}]


# Section 4.3: resuming.


async def test_a_no_is_the_result_and_the_agent_goes_on(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), NO, by="mira")
        view = await completed(run)

    assert art.effects == []
    assert view.plan[0].result == "Left alone: not these"


async def test_a_rejection_continues_and_says_why(place: Place):
    art = Art(place, items={"clean": [CONFIRM, say("I will look for another way.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), reject("not these"), by="mira")
        view = await completed(run)

    assert art.told[0].outcome == Declined(reason="not these", by="mira")
    assert statuses(view) == {"clean": "done"}


async def test_modified_arguments_are_in_the_decision_payload(place: Place):
    changed = {"approved": True, "modifiedArgs": {"count": 20}}

    def go_on(messages: Any) -> Any:
        return call("deleteRecords", messages[-1].outcome.result()["modifiedArgs"])

    art = Art(place, items={"clean": [CONFIRM, go_on, say("Deleted.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await app.decide(await held(run), answer(changed), by="mira")
        await completed(run)

    assert art.effects == ["deleted 20"]


async def test_modified_arguments_of_an_approved_action_are_what_runs(place: Place):
    @tool(approval=True, effect="once")
    async def erase(ctx: Context, count: int) -> str:
        place.world.write("effects", f"{ctx.key} erased {count}")
        return f"erased {count}"

    art = Art(place, tools=[erase], items={"clean": [call("erase", {"count": 500}), say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert art.effects == []
        await app.decide(hold, approve(args={"count": 20}), by="mira")
        await completed(run)

    assert art.effects == ["erased 20"]
    assert "20" in art.told[0].note


@pytest.mark.parametrize(
    "bad", [{}, {"approved": "yes"}, {"approved": True, "x": 1}, True, "approve", None]
)
async def test_a_decision_that_is_none_is_refused_and_changes_nothing(place: Place, bad: Any):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await suspended(run)
        with pytest.raises(BadAnswer):
            await app.decide(view.holds[0], answer(bad), by="mira")

        assert await run.view() == view


async def test_a_wrong_id_is_refused_and_changes_nothing(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await suspended(run)
        for wrong in (f"hold_{run.id.removeprefix('run_')}.9", "hold_nobody.1", "suspension-1"):
            with pytest.raises(UnknownHold):
                await app.decide(wrong, YES, by="mira")

        assert await run.view() == view


async def test_a_thread_that_is_not_suspended_cannot_be_resumed(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        await app.decide(hold, YES, by="mira")
        view = await completed(run)
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(hold, NO, by="mira")

        assert refused.value.decision.verdict == YES
        assert await run.view() == view
    assert art.effects == ["deleted 500"]


TEAMS = [
    {"value": "a", "label": "Team A", "description": "on call"},
    {"value": "b", "label": "Team B"},
]
FEEDBACK: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "boolean": ({"kind": "yes_no"}, False, "no"),
    "confirm": ({"kind": "yes_no"}, True, 1),
    "text": ({"length_min": 2, "length_max": 5, "pattern": "[a-z]+"}, "okay", "O"),
    "select": ({"options": TEAMS}, "a", "Team A"),
    "multiselect": ({"kind": "choices", "options": TEAMS, "picks_min": 1}, ["b", "a"], []),
    "number": ({"kind": "number", "number_min": 1, "number_max": 9}, 4.5, 10),
    "date": ({"kind": "date"}, "2026-11-16", "tomorrow"),
    "datetime": ({"kind": "date"}, "2026-11-16T10:00:00+01:00", "2026-11-16T10:00"),
    "custom": ({"schema": {"type": "object", "required": ["x"]}}, {"x": [1]}, {"y": 1}),
}
"""ART's types of feedback: the question that asks for it, what is accepted and what is not."""


@pytest.mark.parametrize("kind", FEEDBACK)
async def test_every_type_of_feedback_can_be_asked_for_and_is_checked(place: Place, kind: str):
    words, good, bad = FEEDBACK[kind]
    art = Art(
        place,
        items={"clean": [CONFIRM, say("Done.")]},
        dialogue={"asks": question("Well?", **words), "title": "A dialogue"},
    )

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        assert hold.title == "A dialogue"
        with pytest.raises(BadAnswer):
            await app.decide(hold, answer(bad), by="mira")
        await app.decide(hold, answer(good), by="mira")
        await completed(run)

    assert [one.outcome.result() for one in art.told] == [good]


# Section 5: the use cases. What must not happen before the yes has not happened before it.


@pytest.mark.parametrize(
    "action, risk",
    [
        ("delete_records", "high"),
        ("modify_permissions", "high"),
        ("send_mail", "medium"),
        ("process_payment", "critical"),
        ("transfer_funds", "critical"),
        ("submit_to_regulator", "high"),
    ],
)
async def test_a_sensitive_action_happens_after_the_yes_and_once(
    place: Place, action: str, risk: str
):
    @tool(name=action, approval=True, effect="once", risk=risk)
    async def act(ctx: Context) -> str:
        place.world.write("effects", f"{ctx.key} {action}")
        return "done"

    async with place.app(agent([call(action), say("Done.")], act)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert (hold.risk, place.world.read("effects")) == (risk, [])
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        trail = await types(app, run)

    assert place.world.effects() == [hold.call_id]
    assert trail.index("hold.opened") < trail.index("hold.settled") < trail.index("call.started")


# Section 7, phase 2: time.


async def test_a_suspension_that_nobody_answers_is_rejected_by_the_clock(place: Place):
    art = Art(
        place,
        items={"clean": [CONFIRM, say("Nobody was there.")]},
        dialogue={"within": "1h"},
    )

    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
        place.clock.advance("59m")
        await app.sweep()
        assert (await app.hold(hold)).status == "open"
        place.clock.advance("1m")
        await app.sweep()
        await completed(run)

        settled = await app.hold(hold)
        assert settled.decision is not None
        assert (settled.decision.word, settled.decision.by.kind) == ("expired", "clock")
        assert (await types(app, run)).count("hold.settled") == 1
        with pytest.raises(HoldExpired):
            await app.decide(hold, YES, by="mira")
    assert isinstance(art.told[0].outcome, Declined)


@pytest.mark.parametrize(
    "silence, effects, status",
    [
        ("reject", [], "completed"),
        ("approve", ["sent"], "completed"),
        ("fail", [], "failed"),
        ("cancel", [], "cancelled"),
    ],
)
async def test_what_silence_means_is_set_for_each_tool(
    place: Place, silence: str, effects: list[str], status: str
):
    @tool(approval=True, within="10m", on_silence=silence, risk="low", effect="once")
    async def send(ctx: Context) -> str:
        place.world.write("effects", f"{ctx.key} sent")
        return "sent"

    art = Art(place, tools=[send], items={"mail": [call("send"), say("Done.")]})

    async with place.app(art.planner) as app:
        run = await art.start(app)
        await held(run)
        place.clock.advance("10m")
        await app.sweep()
        view = await finished(run)

    assert (view.status, art.effects) == (status, effects)


def test_silence_approves_only_where_somebody_said_so_and_never_what_is_risky():
    with pytest.raises(BadPolicy, match="high risk"):
        tool(approval=True, within="1h", on_silence="approve", risk="high", effect="once")(_wipe)
    with pytest.raises(BadPolicy, match="within"):
        tool(approval=True, on_silence="approve")(_wipe)
    # A dialogue's outcome is somebody's answer, and silence is none.
    with pytest.raises(BadPolicy, match="no answer"):
        tool(blocking=True, asks=DECISION, within="1h", on_silence="approve")(_wipe)


def _wipe() -> None: ...


async def test_a_time_that_ran_out_while_nobody_was_there_counts_at_the_next_start(place: Place):
    art = Art(
        place, items={"clean": [CONFIRM, say("Nobody was there.")]}, dialogue={"within": "1h"}
    )
    async with place.app(art.planner) as app:
        run = await art.start(app)
        hold = await held(run)
    place.clock.advance("3h")

    async with place.app(art.planner) as app:
        with pytest.raises(HoldExpired):
            await app.decide(hold, YES, by="mira")
        await app.sweep()
        await completed(app.run(run.id))


async def test_silence_answers_nothing_that_a_body_asks(place: Place):
    @tool(durable=True)
    async def ask(ctx: Context) -> Any:
        return await ctx.ask("Sure?", within="1h", on_silence="approve")

    @tool
    async def wait(ctx: Context) -> Any:
        return ctx.suspend(within="1h", on_silence="approve")

    async with place.app(agent([[call("ask"), call("wait")], say("No.")], ask, wait)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    assert [one.outcome.error for one in view.messages[2:4]] == ["BadPolicy", "BadPolicy"]


# Section 7, phase 3: other devices.


async def test_another_device_can_answer(place: Place):
    art = asks_first(place)

    async with place.app(art.planner) as app, place.app(work=False) as phone:
        run = await art.start(app)
        await suspended(run)
        (hold,) = await phone.holds(by="mira")
        await phone.decide(hold, YES, by="mira")
        await completed(run)

    assert art.effects == ["deleted 500"]


async def test_another_process_can_resume_what_this_one_suspended(file_place: Place):
    def script(messages: Any) -> Any:
        return call("pay") if len(messages) == 1 else say("done")

    @tool(approval=True, effect="once")
    async def pay(ctx: Context) -> str:
        raise AssertionError("the other process works")

    async with file_place.app(agent(script, pay)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    async with file_place.app(work=False) as app:
        with Child(file_place, do="serve"):
            await app.decide(hold, approve(), by="mira")
            view = await completed(app.run(run.id))

    assert file_place.world.effects() == [hold.call_id]
    assert view.messages[-2].outcome.result() == "paid by child"


# Section 9: the questions to the framework team.


async def test_a_suspension_is_of_one_step_and_its_item_stays_in_progress(place: Place):
    art = Art(
        place,
        items={"look": [LOOK, say("500.")], "clean": [CONFIRM, say("Yes.")], "sum": [say("Sum.")]},
    )

    async with place.app(art.planner) as app:
        run = await art.start(app)
        view = await suspended(run)
        assert statuses(view) == {"look": "done", "clean": "waiting", "sum": "pending"}
        assert view.plan[1].holds == (view.holds[0].id,)
        await app.decide(view.holds[0], YES, by="mira")
        view = await completed(run)

    assert set(statuses(view).values()) == {"done"}
    assert [item.result for item in view.plan] == ["500.", "Yes.", "Sum."]


async def test_items_beside_each_other_suspend_beside_each_other(place: Place):
    plan = [{"id": name, "task": f"do {name}"} for name in ("a", "b")]
    turns = {name: [CONFIRM, say(f"{name} is done.")] for name in ("a", "b")}
    art = Art(place, plan=plan, items=turns)

    async with place.app(art.planner) as app:
        run = await art.start(app)
        first, second = (await suspended(run)).holds
        await app.decide(second, NO, by="mira")
        await until(lambda: _only(run, first.id))
        await app.decide(first, YES, by="mira")
        view = await completed(run)

    assert [item.result for item in view.plan] == ["a is done.", "b is done."]


async def _only(run: Any, hold: str) -> bool:
    return [one.id for one in (await run.view()).holds] == [hold]
