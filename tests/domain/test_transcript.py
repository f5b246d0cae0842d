import msgspec
import pytest

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import Call, Declined, Failed, Returned
from sayso.domain.hold import Errored, Rejected
from sayso.domain.lifecycle import apply_all, epilogue
from sayso.domain.message import AssistantMessage, ToolMessage, UserMessage
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.domain.secret import blank, mask_args
from sayso.domain.transcript import ERASED, Transcript
from sayso.errors import NotUnderstood

from .build import APPROVE, DONE, MIRA, NOW, begun, call, start
from .specimen import SPECIMENS

EDITED = b'{"amount":20}'


class Story:
    """A run with its journal, told step by step."""

    def __init__(self, first: e.RunStarted | None = None) -> None:
        self.journal: list[e.Event] = []
        self.run: Run = self.add(first or begun())

    def add(self, *events: e.Event) -> Run:
        run = apply_all(getattr(self, "run", None), events)
        more = epilogue(run)
        self.run = apply_all(run, more)
        self.journal += [*events, *more]
        return self.run

    def answer(self, *tools: str, seen: int = 0, text: str = "") -> None:
        turn = self.run.turns + 1
        asked = tuple(
            Call(ref=f"{turn}.{n}", tool=tool, digest=tool, given=f"id{n}", args=msgspec.Raw(b"{}"))
            for n, tool in enumerate(tools)
        )
        self.add(e.TurnTaken(turn=turn, seen=seen or self.run.seq, calls=asked, text=text))

    def hold(self, ref: str, ruling: Require | None = None) -> None:
        request = verbs.HoldRequest(ref=ref, ruling=ruling or Require())
        self.add(*verbs.open_holds(self.run, [request], now=NOW))

    def perform(self, ref: str) -> None:
        self.add(*verbs.start_calls(self.run, [start(call(self.run, ref))]))
        self.add(*verbs.finish_call(self.run, ref, attempt=1, outcome=DONE))

    def told(self) -> Transcript:
        transcript = Transcript(self.run.id)
        for seq, event in enumerate(self.journal, start=1):
            transcript.add(seq, event)  # pyright: ignore[reportArgumentType]
        return transcript


def test_a_conversation_is_what_was_said_each_turn_and_its_outcomes():
    story = Story()
    story.answer("pay", "look", text="Let me see.")
    story.perform("1.1")
    story.perform("1.0")

    messages = story.told().messages()

    assert [type(message) for message in messages] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        ToolMessage,
    ]
    assert messages[0] == UserMessage(text="Pay Jiro.", by="mira")
    assert messages[2] == ToolMessage(
        call_id="run_1.1.0", tool="pay", outcome=DONE, given="id0", note=""
    )
    assert story.told().outcomes == {"1.0": DONE, "1.1": DONE}


def test_a_call_without_an_outcome_has_no_message_yet():
    story = Story()
    story.answer("pay", "look")
    story.perform("1.1")

    messages = story.told().messages()

    assert [m.call_id for m in messages if isinstance(m, ToolMessage)] == ["run_1.1.1"]


def test_what_was_said_while_the_model_was_thinking_comes_after_its_answer():
    story = Story()
    story.add(e.MessageReceived(by=MIRA, text="Wait."))
    story.answer(seen=1, text="Paid.")

    texts = [getattr(message, "text", "") for message in story.told().messages()]

    assert texts == ["Pay Jiro.", "Paid.", "Wait."]


def test_what_was_said_before_the_answer_comes_before_it():
    story = Story()
    story.add(e.MessageReceived(by=MIRA, text="Wait."))
    story.answer("pay")
    story.perform("1.0")

    texts = [getattr(message, "text", "") for message in story.told().messages()]

    assert texts == ["Pay Jiro.", "Wait.", "", ""]


def test_an_earlier_conversation_comes_first():
    before = UserMessage(text="Hello.")
    history = (UserMessage(text="Long ago."),)
    transcript = Transcript("run_1", (before,))
    transcript.add(1, msgspec.structs.replace(begun(), history=history))

    texts = [getattr(message, "text", "") for message in transcript.messages()]

    assert texts == ["Hello.", "Long ago.", "Pay Jiro."]


def test_a_call_is_executed_with_the_arguments_as_edited_and_the_model_is_told():
    story = Story()
    story.answer("pay")
    story.hold("1.0")
    revised = verbs.revise(
        story.run, 1, args=EDITED, digest="d2", ruling=Require(), by=MIRA, now=NOW
    )
    story.add(*revised)
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW))
    story.perform("1.0")

    told = story.told()

    assert told.args["1.0"] == EDITED
    assert bytes(told.calls["1.0"].args) == b"{}"
    last = told.messages()[-1]
    assert isinstance(last, ToolMessage)
    assert EDITED.decode() in last.note


def test_the_last_decision_on_a_call_is_known():
    story = Story()
    story.answer("pay")
    story.hold("1.0")
    story.add(*settling.settle(story.run, 1, Rejected(reason="no"), by=MIRA, now=NOW))

    told = story.told()

    assert told.decisions["1.0"].verdict == Rejected(reason="no")
    assert told.outcomes["1.0"] == Declined(reason="no", by="mira")


def test_a_decision_that_was_undone_is_no_decision():
    story = Story()
    story.answer("pay")
    story.hold("1.0")
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5000))
    assert story.told().decisions

    story.add(*settling.undo(story.run, 1, by=MIRA, now=NOW + 1))

    assert not story.told().decisions


def test_what_a_run_does_is_traced_to_its_start_or_to_the_last_decision():
    story = Story(msgspec.structs.replace(begun(), trace="00-start"))
    story.answer("pay", "look")
    assert story.told().trace == "00-start"

    story.hold("1.0")
    opened = story.journal[2]
    story.journal[2] = msgspec.structs.replace(opened, trace="00-turn")
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW))
    assert story.told().trace == ""
    story.journal = [
        msgspec.structs.replace(one, trace="00-decide") if isinstance(one, e.HoldSettled) else one
        for one in story.journal
    ]

    told = story.told()
    assert told.trace == "00-decide"
    assert (told.traces_of("1.0"), told.traces_of("1.1")) == (["00-turn"], [])


def test_a_late_result_is_kept_apart():
    story = Story()
    story.answer("pay")
    story.perform("1.0")
    story.add(*verbs.finish_call(story.run, "1.0", attempt=1, outcome=Failed(message="x")))

    told = story.told()

    assert [late.call for late in told.late] == ["1.0"]
    assert told.outcomes["1.0"] == DONE


def test_the_result_of_a_run_is_known():
    story = Story()
    turn = e.TurnTaken(turn=1, seen=1, text="Paid.")
    story.add(turn, e.RunCompleted(output=msgspec.Raw(b'"Paid."')))

    assert story.told().output == b'"Paid."'


def test_the_error_of_a_run_is_known():
    story = Story()
    story.add(*settling.cancel(story.run, by=MIRA, now=NOW, error="no turns left"))

    assert story.told().error == "no turns left"


def test_an_entry_that_is_missing_is_not_passed_over():
    transcript = Transcript("run_1")

    with pytest.raises(NotUnderstood, match="entry 1"):
        transcript.add(2, begun())


def test_what_was_erased_leaves_a_mark_where_the_run_begins():
    transcript = Transcript("run_1")
    transcript.add(1, None)
    transcript.add(2, None)

    assert transcript.messages() == (UserMessage(text=ERASED),)


def test_an_erased_hold_is_nobodys():
    story = Story()
    story.answer("pay")
    story.hold("1.0")
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW))
    transcript = Transcript("run_1")
    for seq, event in enumerate(story.journal, start=1):
        erased = isinstance(event, e.HoldOpened)
        transcript.add(seq, None if erased else event)  # pyright: ignore[reportArgumentType]

    assert "1.0" not in transcript.decisions


@pytest.mark.parametrize(
    "said",
    [one for one in SPECIMENS if hasattr(one, "hold") and not isinstance(one, e.HoldOpened)],
    ids=lambda one: type(one).__name__,
)
def test_what_is_said_of_an_erased_hold_is_of_no_call(said: e.AnyEvent):
    transcript = Transcript("run_1")
    transcript.add(1, None)
    transcript.add(2, said)

    assert transcript.args == transcript.decisions == transcript.approvers == {}
    assert transcript.handed == transcript.looked_into == transcript.places == {}


def test_a_returned_value_survives_the_fold():
    story = Story()
    story.answer("pay")
    story.perform("1.0")

    outcome = story.told().outcomes["1.0"]

    assert isinstance(outcome, Returned)
    assert outcome.result() == "done"


def test_a_call_asked_about_again_is_known_by_its_tools_new_version():
    story = Story()
    story.answer("pay")
    story.hold("1.0")
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW))
    again = verbs.HoldRequest(ref="1.0", ruling=Require(), digest="f" * 64, tool_version="2")
    story.add(*verbs.open_holds(story.run, [again], now=NOW))

    assert story.told().tool_versions["1.0"] == "2"


def test_who_could_decide_on_a_call_is_who_was_asked_last():
    story = Story()
    story.answer("pay", "look")
    story.hold("1.0", Require(approvers=("user:mira", "user:noor")))
    assert story.told().approvers == {"1.0": ("user:mira", "user:noor")}

    ruling = Require(approvers=("user:noor",))
    story.add(
        *verbs.revise(story.run, 1, args=EDITED, digest="f" * 64, ruling=ruling, by=MIRA, now=NOW)
    )

    assert story.told().approvers == {"1.0": ("user:noor",)}


def test_whom_time_brought_in_could_decide_as_well():
    story = Story()
    story.answer("pay")
    ruling = Require(approvers=("user:mira",), escalate_after_ms=10, escalate_to=("user:noor",))
    story.hold("1.0", ruling)
    story.add(*settling.sweep(story.run, now=NOW + 10))

    assert story.told().approvers == {"1.0": ("user:mira", "user:noor")}


def test_what_is_in_doubt_is_found_by_tool_and_arguments():
    story = Story()
    story.answer("pay", "look")
    story.add(*verbs.start_calls(story.run, [start(call(story.run, "1.0"))]))
    doubt = verbs.doubt_call(story.run, "1.0", attempt=1, why="lost", ruling=Require(), now=NOW)
    story.add(*doubt)
    story.add(*settling.settle(story.run, 1, Rejected(), by=MIRA, now=NOW))
    before = {("pay", b"[]"): "run_0.1.0", ("pay", b"{}"): "run_0.2.0"}

    found = story.told()
    later = Transcript("run_1", doubts=before)

    assert found.doubted(story.run) == {("pay", b"{}"): "1.0"}
    # What was redacted cannot be compared, and what came later is the nearer one.
    assert later.doubted(story.run) == before


def test_of_an_erased_run_there_is_nothing_left_to_say_but_that():
    found = Transcript("run_1")
    for seq in (1, 2, 3):
        found.add(seq, None)
    assert not found.erased

    found.add(4, e.RunErased(by=MIRA, at=NOW, through=3))

    assert found.erased
    assert found.messages() == (UserMessage(text=ERASED),)


def test_a_conversation_has_marks_where_a_call_has_secrets():
    story = Story()
    sealed = msgspec.Raw(b'{"password":{"$sealed":"k1.c2VhbGVk"}}')
    asked = Call(ref="1.0", tool="log_in", digest="d", args=sealed)
    story.add(e.TurnTaken(turn=1, seen=1, calls=(asked,)))
    story.hold("1.0")
    edited = b'{"password":{"$sealed":"k1.b3RoZXI"}}'
    revised = verbs.revise(
        story.run, 1, args=edited, digest="d2", ruling=Require(), by=MIRA, now=NOW
    )
    story.add(*revised)
    story.add(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW))
    story.perform("1.0")

    found = story.told()
    (_, said, done) = found.messages()

    assert found.args["1.0"] == edited
    assert isinstance(said, AssistantMessage)
    assert isinstance(done, ToolMessage)
    assert bytes(said.calls[0].args) == mask_args(bytes(sealed)) != bytes(sealed)
    assert done.note.endswith(mask_args(edited).decode())


def test_doubts_are_known_again_whatever_their_secrets():
    story = Story()
    sealed = msgspec.Raw(b'{"password":{"$sealed":"k1.c2VhbGVk"}}')
    asked = Call(ref="1.0", tool="log_in", digest="d", args=sealed)
    story.add(e.TurnTaken(turn=1, seen=1, calls=(asked,)))
    story.add(*verbs.start_calls(story.run, [start(call(story.run, "1.0"))]))
    doubt = verbs.doubt_call(
        story.run, "1.0", attempt=1, why="?", ruling=Require(), now=NOW, probe=""
    )
    story.add(*doubt)
    story.add(*settling.settle(story.run, 1, Errored(message="?"), by=MIRA, now=NOW))

    assert story.told().doubted(story.run) == {("log_in", blank(bytes(sealed))): "1.0"}
