"""The planner as a value: what it is made of, what it asks, and what it makes of an answer."""

from typing import Any

import msgspec
import pytest

from sayso import Agent, Planner, tool
from sayso.agents.planning import looks_like_plan, read_items, tell_item
from sayso.domain import events as e
from sayso.domain.lifecycle import apply_all
from sayso.domain.plan import Item, Plan, Progress, over, to_raw
from sayso.domain.transcript import Transcript
from sayso.domain.value import Principal
from sayso.engine.ports import Answer, Prompt, Scene
from sayso.errors import BadAgent, BadTool, BadValue, CannotGoOn, NotUnderstood
from sayso.testing import ScriptedModel, say

MODEL = ScriptedModel([say("done")])
MIRA = Principal(id="mira")


@tool(effect="none")
def look(at: str) -> str:
    """Look at something."""
    return at


@tool(effect="none")
def poke() -> None:
    """Poke it."""


def planner(**options: Any) -> Planner:
    return Planner("office", **{"model": MODEL, "tools": [look]} | options)


def scene(*events: e.Event) -> Scene:
    """A run, and what happened in it."""
    first = e.RunStarted(run="run_1", project="p", agent="office", by=MIRA, input="Go.", at=1)
    transcript = Transcript("run_1")
    for seq, event in enumerate((first, *events), start=1):
        transcript.add(seq, event)  # pyright: ignore[reportArgumentType]
    return Scene(apply_all(None, [first, *events]), transcript)


def keeping(plan: Plan) -> e.StrandChanged:
    return e.StrandChanged(strand=e.MAIN, data=to_raw(plan))


def test_a_planner_is_an_agent_with_bounds_of_its_own():
    made = planner()

    assert isinstance(made, Agent)
    assert repr(made) == "<planner 'office'>"
    assert (made.items_max, made.replans_max, made.turns_max) == (20, 2, 200)


def test_a_planner_hands_on_what_an_agent_takes():
    def check(facts: Any) -> bool:
        return bool(facts)

    made = planner(
        instructions="Be kind.",
        turns_max=7,
        timeout="10m",
        model_tries_max=2,
        version="3",
        check_for_intervention=check,
        commands=[poke],
        resolve="together",
        siblings="hold",
    )

    assert (made.turns_max, made.model_tries_max, made.version) == (7, 2, "3")
    assert made.timeout_ms == 600_000
    assert made.check_for_intervention is check
    assert made.batch == ("together", "hold")
    assert (set(made.tools), set(made.commands)) == ({"look", "poke"}, {"poke"})


@pytest.mark.parametrize(
    "options, says",
    [
        ({"items_max": 0}, "items_max of the agent 'office' is a number from 1 on"),
        ({"items_max": True}, "items_max"),
        ({"replans_max": -1}, "replans_max of the agent 'office' is a number from 0 on"),
        ({"replans_max": "2"}, "replans_max"),
        ({"turns_max": 0}, "turns_max"),
        ({"model": None}, "'openai:gpt-5'"),
        ({"resolve": "none"}, "cannot resolve"),
        ({"tools": [look, look]}, "two tools called 'look'"),
    ],
)
def test_a_planner_that_could_not_work_is_refused(options: dict[str, Any], says: str):
    with pytest.raises(BadAgent, match=says):
        planner(**options)


def test_a_plain_function_is_no_tool_of_a_planner():
    with pytest.raises(BadTool, match="@tool"):
        planner(tools=[print])


def test_no_new_plans_at_all_may_be_allowed():
    assert planner(replans_max=0).replans_max == 0


def test_a_plan_is_asked_for_first_and_without_tools():
    prompt = planner(instructions="Be kind.", items_max=7).next(scene(), e.MAIN)

    assert isinstance(prompt, Prompt)
    assert prompt.tools == ()
    for text in ("Be kind.", "at most 7 items", "- look: Look at something.", '"after"'):
        assert text in prompt.instructions


def test_an_item_is_given_the_tools_and_the_whole_request():
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(Item(id="a", task="Look.")))

    prompt = planner(instructions="Be kind.", commands=[poke]).next(scene(opened), "item.2")

    assert isinstance(prompt, Prompt)
    assert [each.name for each in prompt.tools] == ["look"]
    assert [message.text for message in prompt.messages] == ["Look."]
    for text in ("Be kind.", "Go.", "FAILED:"):
        assert text in prompt.instructions


def test_a_reply_is_asked_for_with_the_plan_while_it_is_worked_on():
    items = (Item(id="a", task="Look."), Item(id="b", task="Tell.", after=("a",)))
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(items[0]))

    prompt = planner().next(scene(keeping(Plan(items=items, round=1)), opened), e.MAIN)

    assert isinstance(prompt, Prompt)
    assert "- a (in_progress): Look." in prompt.instructions
    assert "- b (pending): Tell." in prompt.instructions


def test_the_result_is_asked_for_with_its_schema():
    item = Item(id="a", task="Look.")
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(item))
    closed = e.StrandClosed(strand="item.2", result=to_raw(item))

    prompt = planner(output=list[int]).next(
        scene(keeping(Plan(items=(item,), round=1)), opened, closed), e.MAIN
    )

    assert isinstance(prompt, Prompt)
    assert '"integer"' in prompt.instructions
    assert '"after"' not in prompt.instructions


def test_a_run_whose_plans_are_used_up_cannot_go_on():
    with pytest.raises(CannotGoOn, match="no usable plan in 3 tries: no items"):
        planner().next(scene(keeping(Plan(tries=3, trouble="no items"))), e.MAIN)


def test_a_plan_of_another_version_is_not_planned_over():
    strange = e.StrandChanged(strand=e.MAIN, data=to_raw(Item(id="a", task="b")))

    with pytest.raises(NotUnderstood, match="no plan that this version can read"):
        planner().next(scene(strange), e.MAIN)


def test_an_item_that_says_that_it_failed_has_failed():
    items = (Item(id="a", task="Look."),)
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(items[0]))
    now = scene(keeping(Plan(items=items, round=1)), opened)

    for text, why in ((" FAILED: no light ", "no light"), ("FAILED:", "it did not say why")):
        change = planner().read(now, "item.2", Answer(text=text)).change
        assert change is not None
        closed = change(now)[0]
        assert isinstance(closed, e.StrandClosed)
        assert (closed.error, closed.result) == (why, None)


@pytest.mark.parametrize("text", ["It FAILED: no light", "failed: no light", "", "FAILED"])
def test_other_answers_are_results(text: str):
    items = (Item(id="a", task="Look."),)
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(items[0]))
    now = scene(keeping(Plan(items=items, round=1)), opened)

    change = planner().read(now, "item.2", Answer(text=text)).change

    assert change is not None
    closed = change(now)[0]
    assert isinstance(closed, e.StrandClosed)
    assert closed.error == ""


def test_an_error_without_end_is_cut():
    change = planner().failed("item.2", "x" * 10_000)
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(Item(id="a", task="Look.")))

    assert change is not None
    closed = change(scene(keeping(Plan(items=(Item(id="a", task="Look."),))), opened))[0]

    assert isinstance(closed, e.StrandClosed)
    assert len(closed.error) == 2000


def test_the_run_fails_with_its_main_strand():
    assert planner().failed(e.MAIN, "no") is None


def test_changes_are_the_same_each_time_they_are_asked_for():
    items = (Item(id="a", task="Look."), Item(id="b", task="Tell.", after=("a",)))
    opened = e.StrandOpened(strand="item.2", text="Look.", data=to_raw(items[0]))
    now = scene(keeping(Plan(items=items, round=1)), opened)
    change = planner().read(now, "item.2", Answer(text="seen")).change

    assert change is not None
    first = change(now)
    assert msgspec.json.encode(first) == msgspec.json.encode(change(now))
    (after,) = [event for event in first if isinstance(event, e.StrandOpened)]
    assert (after.strand, after.text) == (
        "item.3",
        "Tell.\n\nWhat this builds on:\n\n[a] Look.\nseen",
    )


def test_an_item_that_builds_on_nothing_is_just_its_task():
    one = over(Progress(item=Item(id="x", task="X.")), b'"y"', "")

    assert tell_item(Item(id="a", task="Look."), [one]) == "Look."


@pytest.mark.parametrize(
    "text, is_plan",
    [
        ('{"items": []}', True),
        ('```json\n{"items": []}\n```', True),
        ('{"plan": []}', False),
        ("The items are done.", False),
        ("", False),
    ],
)
def test_a_plan_is_told_from_a_reply(text: str, is_plan: bool):
    assert looks_like_plan(text) is is_plan


def test_a_plan_with_a_key_twice_is_refused():
    with pytest.raises(BadValue, match="same key twice"):
        read_items('{"items": [], "items": []}', 1)
