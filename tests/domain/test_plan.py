"""Plans: how far each item has come, which can begin, and which could never."""

import msgspec
import pytest

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.plan import (
    Item,
    Plan,
    Progress,
    check_order,
    over,
    plan_of,
    progress,
    ready,
    to_raw,
)
from sayso.domain.ruling import Require
from sayso.errors import BadValue

from .build import MIRA, NOW, answer, call, start
from .test_transcript import Story

A = Item(id="a", task="Look.")
B = Item(id="b", task="Pay.", after=("a",))
C = Item(id="c", task="Tell.", after=("a", "b"))
RESULT = msgspec.Raw(b'"seen"')


class PlanStory(Story):
    """A run with a plan whose first item is being worked on."""

    def __init__(self, *items: Item) -> None:
        super().__init__()
        self.plan = Plan(items=items or (A, B, C), round=1)
        changed = e.StrandChanged(strand=e.MAIN, data=to_raw(self.plan))
        self.add(answer(self.run), changed, self.opening(self.plan.items[0]))

    def opening(self, item: Item) -> e.StrandOpened:
        name = f"item.{self.run.strands_opened + 1}"
        return e.StrandOpened(strand=name, text=item.task, data=to_raw(item))

    def open(self, item: Item) -> None:
        self.add(self.opening(item))

    def statuses(self) -> dict[str, str]:
        told = self.told()
        plan = plan_of(told)
        assert plan is not None
        return {one.item.id: one.status for one in progress(plan, self.run, told)}


def test_a_plan_is_what_is_kept_of_the_main_strand():
    assert plan_of(PlanStory().told()) == Plan(items=(A, B, C), round=1)


def test_a_run_without_a_plan_has_none():
    assert plan_of(Story().told()) is None


def test_what_another_agent_keeps_of_its_strand_is_no_plan():
    story = Story()
    story.add(e.StrandChanged(strand=e.MAIN, data=msgspec.Raw(b'{"node":"start"}')))

    assert plan_of(story.told()) is None


def test_a_plan_of_a_newer_version_is_not_half_understood():
    story = Story()
    story.add(e.StrandChanged(strand=e.MAIN, data=msgspec.Raw(b'{"is":"plan.1","more":1}')))

    assert plan_of(story.told()) is None


def test_an_item_without_a_strand_is_pending():
    assert PlanStory().statuses() == {"a": "in_progress", "b": "pending", "c": "pending"}


def test_an_item_is_as_its_strand_ended():
    story = PlanStory()
    done = e.StrandClosed(strand="item.2", result=RESULT)
    failed = e.StrandClosed(strand="item.3", error="no")
    story.add(answer(story.run, strand="item.2"), done, story.opening(B))
    said = e.MessageReceived(by=MIRA, text="x")
    story.add(answer(story.run, strand="item.3"), failed, said)

    found = progress(story.plan, story.run, story.told())

    assert story.statuses() == {"a": "done", "b": "failed", "c": "pending"}
    assert [one.strand for one in found] == ["item.2", "item.3", ""]
    assert (found[0].result, found[1].error) == (b'"seen"', "no")


def test_an_item_waits_once_nothing_of_it_goes_on_without_a_person():
    story = PlanStory()
    story.add(answer(story.run, "d", "e", strand="item.2"))
    story.hold("2.0")
    assert story.statuses()["a"] == "in_progress"

    story.add(*verbs.start_calls(story.run, [start(call(story.run, "2.1"))]))
    assert story.statuses()["a"] == "in_progress"
    story.add(*verbs.finish_call(story.run, "2.1", attempt=1, outcome=verbs.Declined(reason="x")))

    assert story.statuses()["a"] == "waiting"
    assert story.run.told == "suspended"


def test_calls_that_are_kept_back_do_not_keep_an_item_from_waiting():
    story = PlanStory()
    turn = answer(story.run, "d", "e", strand="item.2", siblings="hold")
    draft = settling.Draft(story.run)
    draft.add(turn)
    request = verbs.HoldRequest(ref="2.0", ruling=Require())
    story.add(turn, *verbs.open_holds(draft.run, [request], now=NOW))

    assert story.statuses()["a"] == "waiting"


def test_an_item_that_its_run_left_behind_has_failed():
    story = PlanStory()
    story.add(*settling.cancel(story.run, by=MIRA, now=NOW))

    found = progress(story.plan, story.run, story.told())

    assert [(one.status, one.error) for one in found] == [
        ("failed", "the run is cancelled"),
        ("pending", ""),
        ("pending", ""),
    ]


def test_an_item_of_a_later_plan_is_not_the_one_of_its_id_before():
    story = PlanStory(A)
    again = Item(id="a", task="Look again.", round=2)
    changed = e.StrandChanged(strand=e.MAIN, data=to_raw(Plan(items=(again,), round=2)))
    said = e.MessageReceived(by=MIRA, text="x")
    closed = e.StrandClosed(strand="item.2", error="no")
    story.add(answer(story.run, strand="item.2"), closed, changed, said)
    assert story.statuses() == {"a": "pending"}

    story.open(again)

    assert story.statuses() == {"a": "in_progress"}


def test_strands_whose_opening_was_erased_are_left_out():
    story = PlanStory()
    told = story.told()
    told.strands["item.2"].data = None

    assert [one.status for one in progress(story.plan, story.run, told)] == ["pending"] * 3


def test_a_strand_that_the_run_does_not_have_yet_is_in_progress():
    story = PlanStory()
    before = story.run
    told = story.told()
    story.add(story.opening(B))
    told = story.told()

    assert progress(story.plan, before, told)[1].status == "in_progress"


@pytest.mark.parametrize(
    "done, able",
    [((), ["a"]), (("a",), ["b"]), (("a", "b"), ["c"]), (("b",), ["a"]), (("a", "b", "c"), [])],
)
def test_an_item_can_begin_once_all_it_builds_on_is_done(done: tuple[str, ...], able: list[str]):
    states = [
        over(Progress(item=item), b"1", "") if item.id in done else Progress(item=item)
        for item in (A, B, C)
    ]

    assert [item.id for item in ready(states)] == able


def test_an_item_cannot_begin_after_one_that_failed():
    assert ready([over(Progress(item=A), None, "no"), Progress(item=B)]) == []


def test_items_that_have_an_order_are_taken_in_any_order():
    check_order([C, B, A])
    check_order([C], known=["a", "b"])
    check_order([])


@pytest.mark.parametrize(
    "items, says",
    [
        ([A, A, B], "more than one item has the id 'a'"),
        ([B], "the item 'b' is after 'a', which is no item"),
        ([Item(id="x", task="x", after=("x",))], "wait for one another: 'x'"),
        (
            [A, Item(id="x", task="x", after=("a", "y")), Item(id="y", task="y", after=("x",))],
            "wait for one another: 'x', 'y'",
        ),
    ],
)
def test_items_that_no_order_could_be_found_for_are_refused(items: list[Item], says: str):
    with pytest.raises(BadValue, match=says):
        check_order(items)
