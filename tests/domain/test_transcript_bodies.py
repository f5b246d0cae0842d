"""What the transcript keeps of bodies, strands and commands, also when entries were erased."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec import Raw

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import Call, Failed
from sayso.domain.hold import Approved, Ask, Rejected, SignIn, answer
from sayso.domain.message import AssistantMessage, ToolMessage, UserMessage
from sayso.domain.ruling import Require
from sayso.domain.transcript import Place, Transcript

from .build import ANN, APPROVE, DONE, EXTERNAL, MIRA, NOW, QUESTION, call, start
from .test_transcript import Story

SIGN_IN = SignIn(provider="mail")


class BodyStory(Story):
    """A run whose first call is a durable body."""

    def __init__(self) -> None:
        super().__init__()
        self.answer("pay")

    def begin(self) -> None:
        self.add(*verbs.start_calls(self.run, [start(call(self.run))]))

    @property
    def attempt(self) -> int:
        return call(self.run).attempt

    def step(self, name: str, *, done: bool = True) -> None:
        made = {"name": name, "digest": f"digest of {name}", "effect": "once"}
        self.add(*bodies.start_step(self.run, "1.0", attempt=self.attempt, **made))
        if done:
            self.add(*bodies.finish_step(self.run, "1.0", attempt=self.attempt, outcome=DONE))

    def put(self, *asks: Ask) -> None:
        place = call(self.run).step + 1
        requests = [
            verbs.HoldRequest(
                ref="1.0", ruling=Require(), ask=ask, then="continue", step=place, digest="q"
            )
            for ask in asks
        ]
        ask = bodies.ask(self.run, "1.0", requests=requests, attempt=self.attempt, now=NOW)
        self.add(*ask)

    def settle(self, n: int, verdict, **more) -> None:
        self.add(*settling.settle(self.run, n, verdict, by=MIRA, now=NOW, **more))

    def resume(self) -> None:
        self.add(*bodies.continue_call(self.run, start(call(self.run))))

    def without(self, erased: Callable[[e.Event], bool]) -> Transcript:
        transcript = Transcript(self.run.id)
        for seq, event in enumerate(self.journal, start=1):
            transcript.add(seq, None if erased(event) else event)  # pyright: ignore[reportArgumentType]
        return transcript


def shape(place: Place) -> tuple[str, bool, list[int], list[int]]:
    return (place.name, place.outcome is not None, sorted(place.asks), sorted(place.decisions))


def full_story() -> BodyStory:
    """A step, two questions at once, a step, a question, a step under way."""
    story = BodyStory()
    story.begin()
    story.step("reserve")
    story.put(QUESTION, EXTERNAL)
    story.settle(2, answer("second"))
    story.settle(1, answer("first"))
    story.resume()
    story.step("book")
    story.put(QUESTION)
    story.settle(3, Rejected(reason="no"))
    story.resume()
    story.step("pay", done=False)
    return story


def test_a_body_is_known_place_by_place():
    places = full_story().told().places["1.0"]

    assert [shape(place) for place in places] == [
        ("reserve", True, [], []),
        ("", False, [1, 2], [1, 2]),
        ("book", True, [], []),
        ("", False, [3], [3]),
        ("pay", False, [], []),
    ]
    assert (places[0].digest, places[0].effect) == ("digest of reserve", "once")
    assert places[0].outcome == DONE
    assert places[1].asks == {1: QUESTION, 2: EXTERNAL}
    assert places[1].decisions[1].verdict == answer("first")
    assert places[1].decisions[2].verdict == answer("second")
    assert places[3].decisions[3].verdict == Rejected(reason="no")


def test_a_call_without_a_body_of_that_kind_has_no_places():
    story = Story()
    story.answer("pay")
    story.perform("1.0")

    assert story.told().places == {}


def test_a_step_that_did_nothing_leaves_no_place():
    story = BodyStory()
    story.begin()
    story.step("reserve")
    story.step("pay", done=False)
    story.add(*bodies.park(story.run, "1.0", attempt=1, why="not sent", again=True))
    assert [place.name for place in story.told().places["1.0"]] == ["reserve"]

    story.resume()
    story.step("pay")

    assert [place.name for place in story.told().places["1.0"]] == ["reserve", "pay"]


def test_what_a_person_said_of_a_step_is_its_outcome():
    story = BodyStory()
    story.begin()
    story.step("pay", done=False)
    made = {"why": "?", "ruling": Require(), "digest": "s", "now": NOW}
    story.add(*bodies.doubt_step(story.run, "1.0", attempt=1, **made))
    story.settle(1, answer("paid"))

    told = story.told()

    (place,) = told.places["1.0"]
    assert place.outcome is not None
    assert place.asks == {}
    # Whether a step happened says nothing about who let the call start.
    assert told.decisions == {}
    assert told.approvers == {}


def test_an_answer_that_was_undone_is_no_answer():
    story = BodyStory()
    story.begin()
    story.put(QUESTION)
    story.settle(1, answer(1), undo_ms=5000)
    assert story.told().places["1.0"][0].decisions

    story.add(*settling.undo(story.run, 1, by=MIRA, now=NOW + 1))

    assert story.told().places["1.0"][0].decisions == {}


def approved_story() -> BodyStory:
    story = BodyStory()
    story.hold("1.0", Require(approvers=("user:ann",)))
    story.add(*settling.settle(story.run, 1, Approved(), by=ANN, now=NOW))
    return story


def test_a_sign_in_does_not_stand_for_the_approval():
    story = approved_story()
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=SIGN_IN)
    story.add(*verbs.open_holds(story.run, [request], now=NOW))
    story.settle(2, APPROVE, undo_ms=5000)
    before = story.told()
    story.add(*settling.undo(story.run, 2, by=MIRA, now=NOW + 1))
    story.settle(2, APPROVE)

    for told in (before, story.told()):
        assert told.decisions["1.0"].by == ANN
        assert told.approvers["1.0"] == ("user:ann",)


def test_an_undone_sign_in_leaves_the_approval_alone():
    story = approved_story()
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=SIGN_IN)
    story.add(*verbs.open_holds(story.run, [request], now=NOW))
    story.settle(2, APPROVE, undo_ms=5000)
    story.add(*settling.undo(story.run, 2, by=MIRA, now=NOW + 1))

    assert story.told().decisions["1.0"].by == ANN


def test_what_is_said_inside_a_body_leaves_the_approval_alone():
    story = approved_story()
    story.begin()
    story.put(QUESTION)
    story.settle(2, answer(1), undo_ms=5000)
    story.add(*settling.undo(story.run, 2, by=MIRA, now=NOW + 1))
    story.settle(2, Rejected())

    assert story.told().decisions["1.0"].by == ANN
    assert story.told().approvers["1.0"] == ("user:ann",)


def test_what_blocks_a_call_is_no_decision_on_its_start():
    story = BodyStory()
    story.begin()
    request = verbs.HoldRequest(ref="1.0", ruling=Require(), ask=QUESTION, then="outcome")
    story.add(*bodies.ask(story.run, "1.0", requests=[request], attempt=1, now=NOW))
    story.settle(1, answer(7))

    told = story.told()

    assert told.decisions == {}
    assert told.approvers == {}
    assert told.places == {}
    last = told.messages()[-1]
    assert isinstance(last, ToolMessage)
    assert last.outcome.result() == 7  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("at", range(1, len(full_story().journal) + 1))
def test_whatever_was_erased_every_other_place_stays_where_it_was(at: int):
    story = full_story()
    whole = [shape(place) for place in story.told().places["1.0"]]

    erased = story.journal[at - 1]
    found = story.without(lambda event: event is erased).places.get("1.0", [])

    different = [n for n, place in enumerate(found) if shape(place) != whole[n]]
    assert len(different) <= 1
    # The last place is known by nothing but its beginning.
    assert len(found) == (4 if at == len(story.journal) else 5)


@pytest.mark.parametrize("kind", [(e.StepStarted,), (e.HoldOpened,), (e.StepStarted, e.HoldOpened)])
def test_a_body_whose_beginnings_were_erased_is_still_read(kind: tuple[type, ...]):
    story = full_story()

    found = story.without(lambda event: isinstance(event, kind))

    names = [place.name for place in found.places["1.0"]]
    assert ("reserve" in names) is (e.StepStarted not in kind)


def test_a_step_whose_beginning_was_erased_is_voided_all_the_same():
    story = BodyStory()
    story.begin()
    story.step("reserve")
    story.step("pay", done=False)
    story.add(*bodies.park(story.run, "1.0", attempt=1, why="?", again=True))

    found = story.without(lambda event: isinstance(event, e.StepStarted) and event.name == "pay")

    assert [place.name for place in found.places["1.0"]] == ["reserve"]


class StrandStory(Story):
    """A run with two lines of thought."""

    def __init__(self) -> None:
        super().__init__()
        self.answer("pay")
        opened = e.StrandOpened(
            strand="item.2", text="Find the invoice.", data=msgspec.Raw(b'{"n":1}')
        )
        self.add(opened, e.StrandOpened(strand="item.3", parent="item.2"))
        turn = e.TurnTaken(turn=2, seen=self.run.seq, strand="item.2", text="Found.")
        self.add(turn)
        self.add(e.MessageReceived(by=MIRA, text="And?", strand="item.2"))
        self.add(e.StrandChanged(strand="item.2", data=msgspec.Raw(b'{"n":2}')))
        self.add(
            e.StrandClosed(strand="item.3", error="nothing to do"),
            e.StrandClosed(strand="item.2", result=msgspec.Raw(b'"found"')),
        )


def test_each_strand_has_a_conversation_of_its_own():
    told = StrandStory().told()

    assert told.messages("item.2") == (
        UserMessage(text="Find the invoice."),
        AssistantMessage(text="Found."),
        UserMessage(text="And?", by="mira"),
    )
    assert told.messages("item.3") == ()
    assert [type(message) for message in told.messages()] == [UserMessage, AssistantMessage]


def test_only_the_first_strand_goes_on_with_an_earlier_conversation():
    story = StrandStory()
    transcript = Transcript("run_1", (UserMessage(text="Hello."),))
    for seq, event in enumerate(story.journal, start=1):
        transcript.add(seq, event)  # pyright: ignore[reportArgumentType]

    assert transcript.messages()[0] == UserMessage(text="Hello.")
    assert len(transcript.messages("item.2")) == 3


def test_what_an_agent_keeps_of_a_strand_is_known():
    strands = StrandStory().told().strands

    two, three = strands["item.2"], strands["item.3"]
    assert (two.parent, two.data, two.closed) == ("main", b'{"n":2}', True)
    assert (two.result, two.error) == (b'"found"', "")
    assert (three.parent, three.data, three.closed) == ("item.2", None, True)
    assert (three.result, three.error) == (None, "nothing to do")
    assert (strands["main"].parent, strands["main"].closed) == ("", False)


def test_a_strand_whose_beginning_was_erased_is_still_read():
    story = StrandStory()
    transcript = Transcript("run_1")
    for seq, event in enumerate(story.journal, start=1):
        erased = isinstance(event, e.StrandOpened)
        transcript.add(seq, None if erased else event)  # pyright: ignore[reportArgumentType]

    assert [getattr(m, "text", "") for m in transcript.messages("item.2")] == ["Found.", "And?"]
    assert transcript.strands["item.2"].closed
    assert transcript.strands["item.2"].result == b'"found"'


def test_a_command_is_known_by_who_invoked_it_and_on_which_strand():
    story = Story()
    story.answer("pay")
    made = Call(ref="", tool="refund", args=msgspec.Raw(b'{"n":1}'), tool_version="3")
    story.add(*verbs.command(story.run, made, by=ANN, now=NOW))
    story.add(*verbs.start_calls(story.run, [start(call(story.run, "c1"))]))
    failed = Failed(message="no such payment")
    story.add(*verbs.finish_call(story.run, "c1", attempt=1, outcome=failed))

    told = story.told()

    assert told.commands == {"c1": (ANN, "main")}
    assert (told.args["c1"], told.tool_versions["c1"]) == (b'{"n":1}', "3")
    assert told.calls["c1"].tool == "refund"
    assert told.outcomes["c1"] == failed
    # No turn asked for it, so no model is shown it.
    assert len(told.messages()) == 2


def test_what_was_kept_of_a_strand_when_a_call_started_is_told_for_ever():
    first, later = b'{"at":1}', b'{"at":2}'
    transcript = Transcript("run_1")
    started = e.CallStarted(call="1.0", attempt=1, worker="w1", digest="d", tick=0, timeout_ms=1000)
    turn = e.TurnTaken(turn=1, seen=1, calls=(Call(ref="1.0", tool="pay", digest="d"),))
    changed = [e.StrandChanged(strand=e.MAIN, data=Raw(data)) for data in (first, later)]
    for seq, event in enumerate([turn, changed[0], started, changed[1], started], start=1):
        transcript.add(seq, event)

    assert transcript.began == {"1.0": first}
    assert transcript.strands[e.MAIN].data == later
