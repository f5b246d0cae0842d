"""A planner's runs: what order items are worked on in, and what holds, deaths, failures, messages
and the end of the run do to them.

Method: a model that is a function of the prompt alone, and writes every turn it takes to a ledger
outside; tools that write there as well, and wait for the test where it says so.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from sayso import (
    AssistantMessage,
    Context,
    Message,
    Planner,
    RunHandle,
    RunView,
    ToolMessage,
    approve,
    reject,
    tool,
)
from sayso.errors import ModelFailed, RunWaiting
from sayso.testing import ScriptedModel, call, say

from .kit import PATIENCE_S, Place, completed, finished, journal, outcomes, suspended, types, until

GOAL = "Pay everybody."


def plan(*items: Any) -> str:
    """Write a plan: each item is an id, or an id and the ids it is after."""
    found: list[dict[str, Any]] = []
    for item in items:
        name, *after = (item,) if isinstance(item, str) else item
        found.append({"id": name, "task": f"do {name}", "after": after})
    return json.dumps({"items": found})


class Office:
    """A planner whose items do as they are called: `pay-1` asks a person and pays, `look-1` looks
    and asks nobody, `say-1` needs no call, `fail-1` fails, `break-1` has a model that does.
    """

    def __init__(self, place: Place, *plans: str, **options: Any) -> None:
        self.place = place
        self.plans = plans
        self.go: dict[str, asyncio.Event] = {}
        """What waits for the test."""
        self.inside: dict[str, asyncio.Event] = {}
        self.reply: Callable[[tuple[Message, ...]], str] = lambda _: "Noted."
        self.final = "All is done."

        @tool(approval=True, effect="once")
        async def pay(ctx: Context, to: str) -> str:
            return await self._act(ctx, to)

        @tool(effect="once")
        async def look(ctx: Context, at: str) -> str:
            return await self._act(ctx, at)

        self.planner = Planner(
            "office", model=ScriptedModel(self._script), tools=[pay, look], **options
        )

    def hold_back(self, *names: str) -> None:
        for name in names:
            self.go[name] = asyncio.Event()

    async def reached(self, name: str) -> None:
        event = self.inside.setdefault(name, asyncio.Event())
        await asyncio.wait_for(event.wait(), PATIENCE_S)

    @property
    def turns(self) -> list[str]:
        return self.place.world.read("turns")

    @property
    def acts(self) -> list[str]:
        return self.place.world.read("acts")

    async def _act(self, ctx: Context, name: str) -> str:
        self.place.world.write("acts", name)
        await self._pass(name)
        return f"{name} by {ctx.key}"

    async def _pass(self, name: str) -> None:
        self.inside.setdefault(name, asyncio.Event()).set()
        if name in self.go:
            await asyncio.wait_for(self.go[name].wait(), PATIENCE_S)

    async def _script(self, messages: tuple[Message, ...]) -> Any:
        first = messages[0]
        assert hasattr(first, "text")
        if first.text.startswith("do "):
            return await self._item(first.text, messages)
        return await self._main(messages)

    async def _main(self, messages: tuple[Message, ...]) -> Any:
        last = messages[-1]
        assert hasattr(last, "text")
        if last.text.startswith("Every item"):
            self.place.world.write("turns", "synthesise")
            await self._pass("synthesise")
            return say(self.final)
        if last.text == GOAL or last.text.startswith(("The plan cannot", "Your plan cannot")):
            made = sum(isinstance(m, AssistantMessage) for m in messages)
            self.place.world.write("turns", f"plan {made + 1}")
            await self._pass("plan")
            return say(self.plans[made])
        self.place.world.write("turns", f"reply to {last.text}")
        await self._pass("reply")
        return say(self.reply(messages))

    async def _item(self, text: str, messages: tuple[Message, ...]) -> Any:
        name = text.split()[1]
        at = sum(isinstance(m, AssistantMessage) for m in messages)
        self.place.world.write("turns", f"{name} {at + 1}")
        await self._pass(f"turn of {name}")
        what = name.split("-")[0]
        if what == "break":
            raise ModelFailed("it is out of order")
        if what == "fail":
            return say("FAILED: nobody is there")
        if at == 0 and what in ("pay", "look"):
            return call(what, {"to": name} if what == "pay" else {"at": name})
        told = [m.outcome for m in messages if isinstance(m, ToolMessage)]
        how = type(told[-1]).__name__ if told else "said"
        seen = " ".join(line[1:-1] for line in text.split() if line.startswith("["))
        return say(f"{name} {how} after {seen}".removesuffix(" after "))


def states(view: RunView) -> dict[str, str]:
    return {item.id: item.status for item in view.plan}


def results(view: RunView) -> dict[str, Any]:
    return {item.id: item.result for item in view.plan}


async def decide(app: Any, view: RunView, item: str, verdict: Any = None) -> None:
    (hold,) = next(one.holds for one in view.plan if one.id == item)
    found = next(one for one in view.holds if one.id == hold)
    await app.decide(found, verdict or approve(), by="mira")


async def started(app: Any) -> RunHandle:
    return await app.start("office", GOAL, by="mira")


async def test_items_are_worked_on_in_the_order_of_the_plan(place: Place):
    office = Office(place, plan("look-1", ("say-2", "look-1"), ("look-3", "say-2")))

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert view.output == "All is done."
    assert office.turns == [
        "plan 1",
        "look-1 1",
        "look-1 2",
        "say-2 1",
        "look-3 1",
        "look-3 2",
        "synthesise",
    ]
    assert [item.after for item in view.plan] == [(), ("look-1",), ("say-2",)]


async def test_an_item_sees_the_results_of_what_it_is_after_and_no_others(place: Place):
    office = Office(place, plan("say-1", "say-2", ("say-3", "say-1"), ("say-4", "say-2", "say-3")))

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert results(view) == {
        "say-1": "say-1 said",
        "say-2": "say-2 said",
        "say-3": "say-3 said after say-1",
        "say-4": "say-4 said after say-2 say-3",
    }


async def test_the_main_strand_is_told_every_result(place: Place):
    office = Office(place, plan("say-1", ("say-2", "say-1")))

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    told = view.messages[-2]
    assert "say-1 said" in told.text
    assert "say-2 said after say-1" in told.text
    assert [type(m).__name__ for m in view.messages] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
        "AssistantMessage",
    ]


async def test_items_that_do_not_need_one_another_run_beside_each_other(place: Place):
    office = Office(place, plan("look-1", "look-2", ("say-3", "look-1", "look-2")))
    office.hold_back("look-1", "look-2")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await office.reached("look-2")
        assert states(await run.view()) == {
            "look-1": "in_progress",
            "look-2": "in_progress",
            "say-3": "pending",
        }
        office.go["look-2"].set()
        await until(lambda: _is(run, "look-2", "done"))
        office.go["look-1"].set()
        view = await completed(run)

    assert set(states(view).values()) == {"done"}


async def _is(run: RunHandle, item: str, status: str) -> bool:
    return states(await run.view()).get(item) == status


async def test_the_models_of_items_are_asked_beside_each_other(place: Place):
    office = Office(place, plan("say-1", "say-2"))
    office.hold_back("turn of say-1", "turn of say-2")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("turn of say-1")
        await office.reached("turn of say-2")
        for event in office.go.values():
            event.set()
        await completed(run)

    assert office.turns.count("synthesise") == 1


@pytest.mark.parametrize("first", ["pay-1", "pay-2"])
async def test_holds_in_two_items_are_decided_in_either_order(place: Place, first: str):
    second = "pay-2" if first == "pay-1" else "pay-1"
    office = Office(place, plan("pay-1", "pay-2", ("say-3", "pay-1", "pay-2")))

    async with place.app(office.planner) as app:
        run = await started(app)
        view = await suspended(run)
        assert states(view) == {"pay-1": "waiting", "pay-2": "waiting", "say-3": "pending"}
        await decide(app, view, first)
        await until(lambda: _is(run, first, "done"))
        view = await suspended(run)
        assert states(view) == {first: "done", second: "waiting", "say-3": "pending"}
        await decide(app, view, second)
        view = await completed(run)

    assert office.acts == [first, second]
    assert results(view)["say-3"] == "say-3 said after pay-1 pay-2"


async def test_an_item_that_waits_does_not_keep_the_others_waiting(place: Place):
    office = Office(place, plan("pay-1", "look-2", ("look-3", "look-2"), ("say-4", "pay-1")))

    async with place.app(office.planner) as app:
        run = await started(app)
        view = await suspended(run)
        assert states(view) == {
            "pay-1": "waiting",
            "look-2": "done",
            "look-3": "done",
            "say-4": "pending",
        }
        await decide(app, view, "pay-1")
        await completed(run)

    assert office.acts == ["look-2", "look-3", "pay-1"]


async def test_an_item_with_something_under_way_does_not_wait(place: Place):
    office = Office(place, plan("both"))
    office.hold_back("at")

    async def item(text: str, messages: tuple[Message, ...]) -> Any:
        del text
        if len(messages) == 1:
            return [call("pay", {"to": "x"}), call("look", {"at": "at"})]
        return say("done")

    office._item = item

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("at")
        view = await run.view()
        assert states(view) == {"both": "in_progress"}
        assert len(view.plan[0].holds) == 1
        office.go["at"].set()
        view = await suspended(run)
        assert states(view) == {"both": "waiting"}
        await decide(app, view, "both")
        await completed(run)


async def test_a_rejection_inside_an_item_is_told_to_its_model(place: Place):
    office = Office(place, plan("pay-1", ("say-2", "pay-1")))

    async with place.app(office.planner) as app:
        run = await started(app)
        await decide(app, await suspended(run), "pay-1", reject("too much"))
        view = await completed(run)

    assert office.acts == []
    assert results(view)["pay-1"] == "pay-1 Declined"
    assert results(view)["say-2"] == "say-2 said after pay-1"


async def test_another_process_goes_on_inside_the_item(place: Place):
    office = Office(place, plan("look-1", "pay-2", ("pay-3", "look-1", "pay-2")))
    async with place.app(office.planner) as app:
        run = await started(app)
        await suspended(run)
    before = [*office.turns]

    again = Office(place, *office.plans)
    async with place.app(again.planner) as app:
        run = app.run(run.id)
        await decide(app, await suspended(run), "pay-2")
        await until(lambda: _is(run, "pay-3", "waiting"))
    third = Office(place, *office.plans)
    async with place.app(third.planner) as app:
        run = app.run(run.id)
        await decide(app, await suspended(run), "pay-3")
        view = await completed(run)

    assert sorted(before) == ["look-1 1", "look-1 2", "pay-2 1", "plan 1"]
    assert office.turns[len(before) :] == ["pay-2 2", "pay-3 1", "pay-3 2", "synthesise"]
    assert office.acts == ["look-1", "pay-2", "pay-3"]
    assert results(view)["pay-3"] == "pay-3 Returned after look-1 pay-2"


async def test_a_failed_item_leads_to_a_new_plan_that_keeps_what_is_done(place: Place):
    office = Office(
        place,
        plan("look-1", ("fail-2", "look-1"), ("say-3", "fail-2")),
        plan(("look-4", "look-1"), ("say-3", "look-4")),
    )

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert office.acts == ["look-1", "look-4"]
    assert [item.id for item in view.plan] == ["look-1", "look-4", "say-3"]
    assert results(view)["look-4"] == "look-4 Returned after look-1"
    told = next(m.text for m in view.messages if m.text.startswith("The plan cannot"))
    assert "fail-2: nobody is there" in told
    assert "not begun: say-3" in told
    assert "look-1 Returned" in told


async def test_a_new_plan_may_use_the_id_of_a_failed_item_again(place: Place):
    office = Office(place, plan("fail-1", "say-2"), plan("fail-1"), plan(("say-1", "say-2")))

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert office.turns.count("fail-1 1") == 2
    assert states(view) == {"say-2": "done", "say-1": "done"}


async def test_the_successor_of_a_failed_item_waits_for_what_it_is_after(place: Place):
    office = Office(place, plan("fail-1"), plan("look-2", ("fail-1", "look-2")), plan("say-3"))
    office.hold_back("look-2")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-2")
        assert states(await run.view()) == {"look-2": "in_progress", "fail-1": "pending"}
        office.go["look-2"].set()
        await completed(run)

    assert office.turns.count("fail-1 1") == 2


async def test_a_new_plan_may_list_what_is_done_all_over_again(place: Place):
    office = Office(
        place,
        plan("look-1", ("fail-2", "look-1")),
        plan("look-1", ("say-2", "look-1")),
    )

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert office.acts == ["look-1"]
    assert states(view) == {"look-1": "done", "say-2": "done"}


async def test_a_new_plan_may_leave_nothing_to_do(place: Place):
    office = Office(place, plan("say-1", "fail-2"), plan())

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert states(view) == {"say-1": "done"}
    assert office.turns.count("synthesise") == 1


async def test_an_item_fails_whose_model_does(place: Place):
    office = Office(place, plan("break-1", "say-2"), plan("say-3"))

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert states(view) == {"say-2": "done", "say-3": "done"}
    told = next(m.text for m in view.messages if m.text.startswith("The plan cannot"))
    assert "break-1: the model failed: it is out of order" in told


async def test_after_a_failure_what_has_begun_goes_on_and_nothing_else_begins(place: Place):
    office = Office(place, plan("pay-1", "fail-2", ("say-3", "pay-1")), plan(("say-4", "pay-1")))

    async with place.app(office.planner) as app:
        run = await started(app)
        view = await suspended(run)
        assert states(view) == {"pay-1": "waiting", "fail-2": "failed", "say-3": "pending"}
        assert view.plan[1].error == "nobody is there"
        assert "plan 2" not in office.turns
        await decide(app, view, "pay-1")
        view = await completed(run)

    assert "say-3 1" not in office.turns
    assert states(view) == {"pay-1": "done", "say-4": "done"}


@pytest.mark.parametrize("replans_max", [0, 2])
async def test_new_plans_are_bounded(place: Place, replans_max: int):
    office = Office(place, *[plan("say-0", "fail-1")] * 9, replans_max=replans_max)

    async with place.app(office.planner) as app:
        view = await finished(await started(app))

    assert view.status == "failed"
    assert view.error is not None
    assert "the item 'fail-1' failed: nobody is there" in view.error
    assert office.turns.count("fail-1 1") == 1 + replans_max
    assert office.turns.count("say-0 1") == 1
    assert states(view) == {"say-0": "done", "fail-1": "failed"}


BAD = {
    "no JSON": ("I will pay them.", "this is not JSON"),
    "no items": ('{"plan": []}', 'an object with "items"'),
    "no list": ('{"items": "pay"}', '"items" is a list'),
    "empty": (plan(), "at least one item"),
    "no object": ('{"items": ["pay"]}', "item 1 is no object"),
    "no task": ('{"items": [{"id": "a", "task": " "}]}', 'the "task" of item 1'),
    "a long task": (json.dumps({"items": [{"id": "a", "task": "x" * 10_001}]}), "10,000"),
    "no id": ('{"items": [{"task": "pay"}]}', "names an id"),
    "a long id": (json.dumps({"items": [{"id": "x" * 65, "task": "x"}]}), "64"),
    "invented fields": ('{"items": [{"id": "a", "task": "b", "tool": "c"}]}', "has tool"),
    "after a text": ('{"items": [{"id": "a", "task": "b", "after": "c"}]}', "list of ids"),
    "after an object": ('{"items": [{"id": "a", "task": "b", "after": [{}]}]}', "names an id"),
    "after itself": (plan(("a", "a")), "wait for one another: 'a'"),
    "a circle": (plan("x", ("a", "b"), ("b", "a")), "wait for one another: 'a', 'b'"),
    "unknown": (plan(("a", "b", "c")), "'a' is after 'b', 'c', which is no item"),
    "twice": (plan("a", "a", "b"), "more than one item has the id 'a'"),
    "too many": (plan(*"abcdef"), "6 items, more than 5"),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_plan_that_cannot_be_used_is_complained_about(place: Place, what: str):
    text, trouble = BAD[what]
    office = Office(place, text, plan("say-1"), items_max=5)

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    complaint = view.messages[2].text
    assert complaint.startswith("Your plan cannot be used: ")
    assert trouble in complaint
    assert states(view) == {"say-1": "done"}


async def test_a_model_that_gives_no_usable_plan_ends_the_run(place: Place):
    office = Office(place, *["What?"] * 9)

    async with place.app(office.planner) as app:
        view = await finished(await started(app))

    assert view.status == "failed"
    assert view.error is not None
    assert "no usable plan in 3 tries" in view.error
    assert office.turns == ["plan 1", "plan 2", "plan 3"]
    assert view.plan == ()


async def test_each_new_plan_has_as_many_tries(place: Place):
    office = Office(
        place, "?", "?", plan("fail-1"), "?", "?", plan("fail-1"), "?", "?", plan("say-1")
    )

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert states(view) == {"say-1": "done"}


async def test_a_fenced_plan_with_numbers_for_ids_is_read(place: Place):
    items = [{"id": 1, "task": "do say-1"}, {"id": 2, "task": "do say-2", "after": [1, 1]}]
    office = Office(place, f"Here it is:\n```json\n{json.dumps({'items': items})}\n```")

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert [(item.id, item.after) for item in view.plan] == [("1", ()), ("2", ("1",))]


async def test_a_model_that_calls_tools_instead_of_planning_is_told_there_are_none(place: Place):
    office = Office(place)

    async def main(messages: tuple[Message, ...]) -> Any:
        at = sum(isinstance(m, AssistantMessage) for m in messages)
        return [call("look", {"at": "x"}), say(plan("say-1")), say("done")][at]

    office._main = main

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert office.acts == []
    assert outcomes(view) == ["Failed"]


async def test_the_budget_of_turns_is_for_the_whole_run(place: Place):
    office = Office(place, plan("look-1", ("say-2", "look-1"), ("say-3", "say-2")), turns_max=4)

    async with place.app(office.planner) as app:
        view = await finished(await started(app))

    assert (view.status, view.error) == ("failed", "the run took 4 turns without coming to an end")
    # Nobody is asked for a turn that would not count, and no new plan could help.
    assert office.turns == ["plan 1", "look-1 1", "look-1 2", "say-2 1"]
    assert view.plan[2].error == "the run is failed"


async def test_models_that_are_asked_at_once_do_not_overdraw_the_budget(place: Place):
    office = Office(place, plan("say-1", "say-2", "look-3"), turns_max=2)
    office.hold_back("turn of say-1", "turn of say-2", "turn of look-3")

    async with place.app(office.planner) as app:
        run = await started(app)
        for name in office.go:
            await office.reached(name)
        for event in office.go.values():
            event.set()
        view = await finished(run)
        taken = (await types(app, run)).count("turn.taken")

    assert view.status == "failed"
    assert taken == 2
    assert len(office.acts) <= 1


async def test_the_time_is_for_the_whole_run(place: Place):
    office = Office(place, plan("look-1", "say-2", ("say-3", "look-1")), timeout="10m")
    office.hold_back("turn of say-2", "look-1")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("turn of say-2")
        await office.reached("look-1")
        place.clock.advance("10m")
        office.go["look-1"].set()
        view = await finished(run)

    assert view.status == "failed"
    assert view.error == "the run worked for 10m, as long as it may, without coming to an end"
    # No item fails by it, to be planned anew, and the model that is being waited for is cut off.
    assert sorted(office.turns) == ["look-1 1", "plan 1", "say-2 1"]


async def test_cancelling_ends_every_item(place: Place):
    office = Office(place, plan("pay-1", "look-2", ("say-3", "pay-1")))
    office.hold_back("look-2")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-2")
        await until(lambda: _is(run, "pay-1", "waiting"))
        await app.cancel(run, by="mira", reason="enough")
        assert (await run.view()).cancelling
        office.go["look-2"].set()
        view = await finished(run)

    assert view.status == "cancelled"
    assert view.holds == ()
    assert office.acts == ["look-2"]
    assert states(view) == {"pay-1": "failed", "look-2": "failed", "say-3": "pending"}
    assert view.plan[0].error == "the run is cancelled"


async def test_a_message_is_answered_while_items_go_on(place: Place):
    office = Office(place, plan("look-1", ("say-2", "look-1")))
    office.hold_back("look-1")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "How is it going?", by="mira")
        await until(lambda: "reply to How is it going?" in office.turns)
        office.go["look-1"].set()
        view = await completed(run)

    assert [m.text for m in view.messages][2:4] == ["How is it going?", "Noted."]
    assert states(view) == {"look-1": "done", "say-2": "done"}


async def test_a_message_may_change_what_is_pending(place: Place):
    office = Office(place, plan("look-1", ("say-2", "look-1")))
    office.hold_back("look-1")
    office.reply = lambda _: plan("look-1", ("say-3", "look-1"), "say-4")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "Leave out 2, and do 3 and 4.", by="mira")
        await until(lambda: _is(run, "say-4", "done"))
        assert states(await run.view()) == {
            "look-1": "in_progress",
            "say-3": "pending",
            "say-4": "done",
        }
        office.go["look-1"].set()
        view = await completed(run)

    assert "say-2 1" not in office.turns
    assert results(view)["say-3"] == "say-3 said after look-1"
    assert office.acts == ["look-1"]


async def test_a_bad_plan_in_a_reply_is_complained_about_and_the_old_one_goes_on(place: Place):
    office = Office(place, plan("look-1", ("say-2", "look-1")), *[plan(("x", "y"))] * 9)
    office.hold_back("look-1")
    office.reply = lambda _: plan(("x", "y"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "Do x.", by="mira")
        await until(lambda: "plan 5" in office.turns)
        office.go["look-1"].set()
        view = await completed(run)

    assert states(view) == {"look-1": "done", "say-2": "done"}
    complaints = [m for m in view.messages if m.text.startswith("Your plan cannot")]
    assert len(complaints) == 3


async def test_bad_plans_in_replies_do_not_count_after_a_failure(place: Place):
    office = Office(place, plan("fail-1"), *[plan(("x", "y"))] * 4, plan("say-2"))
    office.hold_back("turn of fail-1")
    office.reply = lambda _: plan(("x", "y"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("turn of fail-1")
        await app.say(run, "Do x.", by="mira")
        await until(lambda: "plan 5" in office.turns)
        office.go["turn of fail-1"].set()
        view = await completed(run)

    assert states(view) == {"say-2": "done"}


async def test_a_reply_that_takes_longer_than_the_work_is_no_result(place: Place):
    office = Office(place, plan("look-1"))
    office.hold_back("look-1", "reply")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "How is it going?", by="mira")
        await office.reached("reply")
        office.go["look-1"].set()
        await until(lambda: _is(run, "look-1", "done"))
        office.go["reply"].set()
        view = await completed(run)

    assert view.output == "All is done."


async def test_items_that_a_late_reply_adds_are_worked_on_before_the_end(place: Place):
    office = Office(place, plan("look-1"))
    office.hold_back("look-1", "reply")
    office.reply = lambda _: plan(("say-2", "look-1"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "Do 2 as well.", by="mira")
        await office.reached("reply")
        office.go["look-1"].set()
        await until(lambda: _is(run, "look-1", "done"))
        office.go["reply"].set()
        view = await completed(run)

    assert states(view) == {"look-1": "done", "say-2": "done"}
    assert "say-2 said after look-1" in view.messages[-2].text


async def test_a_late_reply_that_changes_nothing_is_not_the_end_twice(place: Place):
    office = Office(place, plan("look-1"))
    office.hold_back("look-1", "reply")
    office.reply = lambda _: office.plans[0]

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("look-1")
        await app.say(run, "Do nothing else.", by="mira")
        await office.reached("reply")
        office.go["look-1"].set()
        await until(lambda: _is(run, "look-1", "done"))
        office.go["reply"].set()
        view = await completed(run)

    assert sum(m.text.startswith("Every item") for m in view.messages) == 1
    assert office.acts == ["look-1"]


async def test_a_late_reply_does_not_hide_a_failure(place: Place):
    office = Office(place, plan("fail-1"), plan("say-3"), plan("say-3"), replans_max=1)
    office.hold_back("turn of fail-1", "reply")
    office.reply = lambda _: plan(("say-2", "fail-1"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("turn of fail-1")
        await app.say(run, "Do 2 as well.", by="mira")
        await office.reached("reply")
        office.go["turn of fail-1"].set()
        await until(lambda: _is(run, "fail-1", "failed"))
        office.go["reply"].set()
        view = await completed(run)

    assert "say-2 1" not in office.turns
    assert states(view) == {"say-3": "done"}


async def test_a_message_while_the_plan_is_made_is_answered_once_there_is_one(place: Place):
    office = Office(place, plan("look-1"))
    office.hold_back("plan", "look-1")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("plan")
        await app.say(run, "Be quick.", by="mira")
        office.go["plan"].set()
        await until(lambda: "reply to Be quick." in office.turns)
        office.go["look-1"].set()
        view = await completed(run)

    assert states(view) == {"look-1": "done"}


async def test_a_message_while_the_result_is_written_is_in_it(place: Place):
    office = Office(place, plan("say-1"))
    office.hold_back("synthesise")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("synthesise")
        await app.say(run, "In French.", by="mira")
        office.reply = lambda _: "Tout est fait."
        office.go["synthesise"].set()
        view = await completed(run)

    assert view.output == "Tout est fait."


async def test_a_message_to_a_suspended_planner_is_refused_or_supersedes(place: Place):
    office = Office(place, plan("pay-1", "pay-2"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await suspended(run)
        with pytest.raises(RunWaiting):
            await app.say(run, "Never mind.", by="mira")
        await app.say(run, "Never mind.", by="mira", supersede=True)
        view = await completed(run)

    assert office.acts == []
    assert results(view) == {"pay-1": "pay-1 Declined", "pay-2": "pay-2 Declined"}
    assert "reply to Never mind." in office.turns


async def test_the_plan_is_in_the_view_at_every_stage(place: Place):
    office = Office(place, plan("pay-1", ("look-2", "pay-1")))
    office.hold_back("plan", "turn of pay-1", "look-2", "synthesise")

    async with place.app(office.planner) as app:
        run = await started(app)
        await office.reached("plan")
        assert (await run.view()).plan == ()
        office.go["plan"].set()
        await office.reached("turn of pay-1")
        assert states(await run.view()) == {"pay-1": "in_progress", "look-2": "pending"}
        office.go["turn of pay-1"].set()
        view = await suspended(run)
        assert states(view) == {"pay-1": "waiting", "look-2": "pending"}
        assert view.plan[0].holds == (view.holds[0].id,)
        await decide(app, view, "pay-1")
        await office.reached("look-2")
        view = await run.view()
        assert states(view) == {"pay-1": "done", "look-2": "in_progress"}
        assert (view.plan[0].task, view.plan[0].result) == ("do pay-1", "pay-1 Returned")
        office.go["look-2"].set()
        await office.reached("synthesise")
        assert states(await run.view()) == {"pay-1": "done", "look-2": "done"}
        office.go["synthesise"].set()
        view = await completed(run)

    assert states(view) == {"pay-1": "done", "look-2": "done"}


async def test_twenty_items_with_a_hold_in_each_fourth(place: Place):
    names = [f"{'pay' if n % 4 == 0 else 'look'}-{n}" for n in range(20)]
    office = Office(place, plan(*names[:10], *[(name, names[0]) for name in names[10:]]))

    async with place.app(office.planner) as app:
        run = await started(app)
        while not (view := await run.wait(timeout=PATIENCE_S)).final:
            for hold in view.holds:
                await app.decide(hold, approve(), by="mira")
        events = [one.event for one in await journal(app.store, run.id)]

    assert view.status == "completed", view.error
    assert set(states(view).values()) == {"done"}
    assert sorted(office.acts) == sorted(names)
    assert len(office.turns) == 42
    strands = [event.strand for event in events if type(event).__name__ == "StrandOpened"]
    assert strands == [f"item.{n}" for n in range(2, 22)]


async def test_the_result_is_typed_if_it_is_to_be(place: Place):
    office = Office(place, plan("say-1"), output=dict[str, int])
    finals = iter(["Done.", '{"paid": 3}'])

    async def main(messages: tuple[Message, ...]) -> Any:
        return say(plan("say-1")) if len(messages) == 1 else say(next(finals))

    office._main = main

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert view.output == {"paid": 3}


async def test_a_result_that_is_too_long_is_complained_about(place: Place):
    office = Office(place, plan("say-1"))

    async def item(text: str, messages: tuple[Message, ...]) -> Any:
        del text
        return say("x" * 70_000 if len(messages) == 1 else "short")

    office._item = item

    async with place.app(office.planner) as app:
        view = await completed(await started(app))

    assert results(view) == {"say-1": "short"}


async def test_a_planner_fails_whose_own_model_does(place: Place):
    office = Office(place)

    async def main(messages: tuple[Message, ...]) -> Any:
        raise ModelFailed("it is out of order")

    office._main = main

    async with place.app(office.planner) as app:
        view = await finished(await started(app))

    assert (view.status, view.error) == ("failed", "the model failed: it is out of order")


async def test_a_redacted_plan_is_not_in_the_view(place: Place):
    office = Office(place, plan("say-1"))

    async with place.app(office.planner) as app:
        run = await started(app)
        await completed(run)
        entries = await journal(app.store, run.id)
        for entry in entries:
            if entry.type == "strand.opened":
                await app.redact(run, entry.seq, by="mira")
        assert states(await run.view()) == {"say-1": "pending"}
        for entry in entries:
            if entry.type == "strand.changed":
                await app.redact(run, entry.seq, by="mira")
        assert (await run.view()).plan == ()
