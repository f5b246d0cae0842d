"""What is signed of a decision: all of it, and its place."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.hold import (
    Answered,
    Approval,
    Approved,
    Ask,
    Decision,
    Delegation,
    Errored,
    Expired,
    Rejected,
    Verdict,
    Withdrawn,
)
from sayso.domain.people import Basis
from sayso.domain.signing import decision_bytes, needs_signature, sign_events
from sayso.domain.transcript import Transcript
from sayso.domain.value import CLOCK, Principal

from .build import APPROVE, ASK, MIRA, NOW, QUESTION, answer, apply_all, begun, commit, held, start

DECISION = Decision(
    verdict=Approved(),
    by=MIRA,
    at=1,
    effective_at=2,
    digest="d",
    channel="inbox",
    assurance="passkey",
    key="k",
    note="n",
)
OTHER: dict[str, Any] = {
    "verdict": Rejected(),
    "by": Principal(kind="service", id="mira"),
    "at": 3,
    "effective_at": 3,
    "digest": "e",
    "channel": "http",
    "assurance": "",
    "key": "",
    "note": "",
    "right": "role:finance",
    "of": "ann",
    "basis": (Basis(person="mira", rev=1),),
    "even_if_alive": True,
}
"""Another value for every field: a field that joins is tried out here, too."""


def test_a_change_of_any_field_is_another_signature():
    run = held("d1")
    signed = decision_bytes(run, 1, 1, DECISION)
    fields = {field.name for field in msgspec.structs.fields(Decision)} - {"signature"}

    assert fields == OTHER.keys()
    changed = [decision_bytes(run, 1, 1, replace(DECISION, **{f: OTHER[f]})) for f in fields]
    assert len({signed, *changed}) == len(fields) + 1


def test_a_decision_cannot_be_moved_to_another_place():
    run = held("d1")
    places = [
        (run, 1, 1),
        (run, 2, 1),
        (run, 1, 2),
        (run, 11, 1),
        (replace(run, id="run_2"), 1, 1),
        (replace(run, project="q"), 1, 1),
        (replace(run, project="prun_", id="1"), 1, 1),
    ]

    assert len({decision_bytes(*place, DECISION) for place in places}) == len(places)


def test_the_signature_itself_is_not_signed():
    run = held("d1")

    assert decision_bytes(run, 1, 1, replace(DECISION, signature="x")) == (
        decision_bytes(run, 1, 1, DECISION)
    )


def test_the_bytes_say_what_they_are_for():
    assert decision_bytes(held("d1"), 1, 1, DECISION)[8:].startswith(b"sayso.decision.1")


def test_a_decision_that_was_kept_and_read_is_the_same_bytes():
    from sayso.domain.codec import decode_decision, encode_decision

    said = replace(DECISION, verdict=Answered(value=msgspec.Raw(b'{"b": 1.50, "a":"\xc3\xa9"}')))
    run = held("d1")

    assert decision_bytes(run, 1, 1, decode_decision(encode_decision(said))) == (
        decision_bytes(run, 1, 1, said)
    )


def test_every_decision_in_an_append_is_signed_and_nothing_else_is_touched():
    run = held("d1", "d2")
    events = settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)
    events = [*events, e.DecisionEffective(hold=1)]

    signed = sign_events(run, events, lambda data: f"{len(data)}")

    assert isinstance(signed[0], e.HoldSettled)
    assert isinstance(events[0], e.HoldSettled)
    data = decision_bytes(run, 1, 1, events[0].decision)
    assert signed[0].decision == replace(events[0].decision, signature=f"{len(data)}")
    assert signed[1:] == events[1:]


def test_silence_is_signed_by_nobody():
    expired = replace(DECISION, verdict=Expired(silence="approve"), by=CLOCK)
    event = e.HoldSettled(hold=1, version=1, decision=expired)

    assert sign_events(held("d1"), [event], lambda _: "x") == [event]


CHILD = Delegation(run="run_c", agent="clerk", input="Find it.")
BY_CHILD = Principal(kind="agent", id="run_c")


@pytest.mark.parametrize(
    "ask, verdict, by, needed",
    [
        (Approval(), Approved(), MIRA, True),
        (Approval(), Rejected(), MIRA, True),
        (QUESTION, Answered(value=msgspec.Raw(b"1")), MIRA, True),
        (QUESTION, Errored(message="no"), MIRA, True),
        (QUESTION, Answered(value=msgspec.Raw(b"1")), BY_CHILD, True),
        (None, Approved(), MIRA, True),
        (QUESTION, Withdrawn(), MIRA, False),
        (Approval(), Expired(silence="reject"), CLOCK, False),
        (Approval(), Expired(silence="approve"), CLOCK, True),
        (QUESTION, Expired(silence="answer"), CLOCK, True),
        (CHILD, Answered(value=msgspec.Raw(b"1")), BY_CHILD, False),
        (CHILD, Answered(value=msgspec.Raw(b"1")), Principal(kind="agent", id="run_d"), True),
        (CHILD, Answered(value=msgspec.Raw(b"1")), MIRA, True),
    ],
)
def test_what_somebody_says_is_signed(
    ask: Ask | None, verdict: Verdict, by: Principal, *, needed: bool
):
    assert needs_signature(ask, replace(DECISION, verdict=verdict, by=by)) is needed


class Story:
    """A run with a call, and its transcript."""

    def __init__(self) -> None:
        first = begun()
        self.transcript = Transcript("run_1")
        self.run = commit(None, first)
        self._seq = 0
        self._tell(first)
        self.go(answer(self.run, "d1"))

    def go(self, *events: e.Event) -> None:
        self.run = apply_all(self.run, events)
        for event in events:
            self._tell(event)

    def _tell(self, event: Any) -> None:
        self._seq += 1
        self.transcript.add(self._seq, event)


def test_a_transcript_knows_which_entry_let_a_call_start():
    story = Story()
    request = verbs.HoldRequest(ref="1.0", ruling=ASK)
    story.go(*verbs.open_holds(story.run, [request], now=NOW))
    story.go(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5))
    settled = story.transcript.settled["1.0"]
    assert (settled.hold, settled.decision.by) == (1, MIRA)

    story.go(*settling.undo(story.run, 1, by=MIRA, now=NOW))
    assert story.transcript.settled == {}


def test_a_transcript_knows_what_was_decided_on_a_step_in_doubt():
    from sayso.domain import bodies

    story = Story()
    row = story.run.call("1.0")
    assert row is not None
    story.go(*verbs.start_calls(story.run, [start(row)]))
    ref = {"ref": "1.0", "attempt": 1}
    story.go(*bodies.start_step(story.run, **ref, name="s", digest="x", effect="once"))  # pyright: ignore[reportArgumentType]
    doubt = {"why": "?", "ruling": ASK, "digest": "d1", "now": NOW}
    story.go(*bodies.doubt_step(story.run, **ref, **doubt))  # pyright: ignore[reportArgumentType]
    story.go(*settling.settle(story.run, 1, APPROVE, by=MIRA, now=NOW, undo_ms=5))
    assert story.transcript.looked_into["1.0"][1].decision.by == MIRA
    assert story.transcript.settled == {}

    story.go(*settling.undo(story.run, 1, by=MIRA, now=NOW))
    assert story.transcript.looked_into == {"1.0": {}}


def test_a_transcript_knows_what_a_hold_asks():
    story = Story()
    request = verbs.HoldRequest(ref="1.0", ruling=ASK)
    story.go(*verbs.open_holds(story.run, [request], now=NOW))

    assert story.transcript.ask_of(1) == Approval()
    assert story.transcript.ask_of(2) is None
