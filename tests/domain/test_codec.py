import copy
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.codec import (
    decode_decision,
    decode_event,
    decode_run,
    encode_ask,
    encode_decision,
    encode_event,
    encode_run,
    encode_verdict,
)
from sayso.domain.hold import Answered, Approval, Approved, Consent, Hold, Rejected, SignIn, approve
from sayso.domain.question import Question
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.value import Row
from sayso.errors import BadValue, NotUnderstood

from .build import (
    APPROVE,
    DELEGATION,
    QUESTION,
    asked,
    asking,
    commanded,
    decided,
    doubted,
    executing,
    held,
    opened_strand,
    started,
    step_doubted,
)
from .nasty import ACCEPTED, REFUSED
from .specimen import GOLDENS, decision

DECODERS = [decode_event, decode_run, decode_decision]
NOT_UNDERSTOOD: dict[str, bytes] = {
    "unknown tag": b'{"type":"run.exploded.1"}',
    "newer version": b'{"type":"run.suspended.2"}',
    "no tag": b'{"hold":1}',
    "tag of another type": b'{"type":7,"hold":1}',
    "tag of a value": b'{"type":"approved"}',
    "tag only inside": b'{"event":{"type":"run.suspended.1"}}',
    "unknown field": b'{"type":"run.suspended.1","why":"x"}',
    "unknown field inside": b'{"type":"decision.undone.1","hold":1,"by":{"id":"a","x":1},"at":1}',
    "missing field": b'{"type":"decision.effective.1"}',
    "text for a number": b'{"type":"decision.effective.1","hold":"1"}',
    "fraction for a number": b'{"type":"decision.effective.1","hold":1.5}',
    "boolean for a number": b'{"type":"decision.effective.1","hold":true}',
    "null for a number": b'{"type":"decision.effective.1","hold":null}',
    "number for text": b'{"type":"run.failed.1","error":5}',
    "NaN": b'{"type":"decision.effective.1","hold":NaN}',
    "NaN in opaque JSON": b'{"type":"run.completed.1","output":NaN}',
    "no JSON in opaque JSON": b'{"type":"run.completed.1","output":nope}',
    "unknown verdict": (
        b'{"type":"hold.settled.1","hold":1,"version":1,"decision":{"verdict":{"is":"maybe"},'
        b'"by":{"id":"a"},"at":1,"effective_at":1,"digest":"d"}}'
    ),
    "unknown kind of principal": (
        b'{"type":"decision.undone.1","hold":1,"by":{"id":"a","kind":"root"},"at":1}'
    ),
    "a list": b"[]",
    "text": b'"run.suspended.1"',
    "null": b"null",
    "nothing": b"",
    "two events": b'{"type":"run.suspended.1"}{"type":"run.suspended.1"}',
    "invalid UTF-8": b'{"type":"run.failed.1","error":"\xff"}',
    "lone surrogate": b'{"type":"run.failed.1","error":"\\ud800"}',
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_an_entry_that_is_not_understood_is_refused(name: str):
    with pytest.raises(NotUnderstood):
        decode_event(NOT_UNDERSTOOD[name])


@pytest.mark.parametrize("name", GOLDENS)
def test_an_entry_cut_anywhere_is_refused(name: str):
    data = encode_event(GOLDENS[name])

    for end in range(0, len(data), max(1, len(data) // 40)):
        with pytest.raises(NotUnderstood):
            decode_event(data[:end])


@pytest.mark.parametrize("name", GOLDENS)
def test_an_entry_with_one_more_field_is_refused(name: str):
    data = encode_event(GOLDENS[name])

    with pytest.raises(NotUnderstood):
        decode_event(data[:-1] + b',"new_field":1}')


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("name", [*REFUSED, *ACCEPTED])
def test_what_is_no_entry_at_all_is_refused(name: str, decode: Any):
    with pytest.raises(NotUnderstood):
        decode((REFUSED | ACCEPTED)[name])


@given(st.binary(max_size=60), st.sampled_from(DECODERS))
@example(b'{"type":"run.suspended.1"}', decode_event)
def test_any_bytes_are_understood_or_refused(data: bytes, decode: Any):
    with suppress(NotUnderstood):
        decode(data)


@given(st.sampled_from(sorted(GOLDENS)), st.data())
def test_a_changed_entry_is_understood_or_refused(name: str, data: st.DataObject):
    good = encode_event(GOLDENS[name])
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + data.draw(st.binary(max_size=3)) + good[at + 1 :]

    with suppress(NotUnderstood):
        decode_event(changed)


def json_mutants(value: Any) -> st.SearchStrategy[Any]:
    """The same JSON with one value somewhere replaced by one of another type."""
    odd = st.sampled_from([None, True, -1, 1.5, "", "x", [], {}, [1], {"is": "x"}, 2**70])

    @st.composite
    def mutate(draw: st.DrawFn) -> Any:
        mutant = copy.deepcopy(value)
        at = mutant
        while True:
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
                at[key] = draw(odd)
                return mutant
            at = at[key]

    return mutate()


@given(
    st.sampled_from(sorted(GOLDENS)).flatmap(
        lambda name: json_mutants(json.loads(encode_event(GOLDENS[name])))
    )
)
def test_an_entry_with_one_odd_value_is_understood_or_refused(mutant: Any):
    try:
        event = decode_event(json.dumps(mutant).encode())
    except NotUnderstood:
        return

    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    "event",
    [
        e.MessageReceived(by=started().by, text="\ud800"),
        e.RunFailed(error="x\udfff"),
        e.RunCompleted(output=msgspec.Raw(b"")),
        e.RunCompleted(output=msgspec.Raw(b"NaN")),
        e.RunCompleted(output=msgspec.Raw(b'1,"type":"run.failed.1"')),
        e.RunCompleted(output=msgspec.Raw(b'"\\ud800"')),
        e.RunCompleted(output=msgspec.Raw(b'"\xff"')),
        e.TurnTaken(turn=1, seen=1, raw=msgspec.Raw(b"[" * 10_000 + b"]" * 10_000)),
        e.RunFailed(error=5),  # pyright: ignore[reportArgumentType]
        e.DecisionEffective(hold=object()),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_could_never_be_read_back_is_not_written(event: e.AnyEvent):
    with pytest.raises(BadValue):
        encode_event(event)


def test_opaque_json_comes_back_verbatim():
    raw = b'{ "b": 1e2,\n"a": 9007199254740993, "a": "\\u0061" }'
    event = e.TurnTaken(turn=1, seen=1, raw=msgspec.Raw(raw))

    found = decode_event(encode_event(event))

    assert isinstance(found, e.TurnTaken)
    assert found.raw is not None
    assert bytes(found.raw) == raw


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag of long ago, when a run failed with a reason rather than an error."""

    def upcast(old: dict[str, Any]) -> dict[str, Any]:
        return {"type": "run.failed.1", "error": old["reason"]}

    monkeypatch.setitem(codec.UPCASTS, "run.failed.0", upcast)


@pytest.mark.usefixtures("older")
def test_an_older_version_is_brought_up():
    assert decode_event(b'{"type":"run.failed.0","reason":"x"}') == e.RunFailed(error="x")


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("name", GOLDENS)
def test_present_versions_are_read_beside_older_ones(name: str):
    assert decode_event(encode_event(GOLDENS[name])) == GOLDENS[name]


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"run.failed.0"}',
        b'{"type":"run.failed.0","reason":5}',
        b'{"reason":"x"}',
        *NOT_UNDERSTOOD.values(),
    ],
)
def test_an_older_version_that_is_not_understood_is_refused(data: bytes):
    with pytest.raises(NotUnderstood):
        decode_event(data)


RUNS: dict[str, Run] = {
    "started": started(),
    "asked": asked("d", "e"),
    "held": held("d", "e", ruling=Require(within_ms=1000, on_silence="fail"), ready=("r",)),
    "decided": decided(held("d"), 1, APPROVE, undo_ms=5000),
    "executing": executing("d"),
    "doubted": doubted(executing("d")),
    "asking": asking(QUESTION, DELEGATION),
    "in doubt about a step": step_doubted(),
    "commanded": commanded(held("d")),
    "strands": opened_strand(held("d")),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_state_of_a_run_is_read_back(name: str):
    assert decode_run(encode_run(RUNS[name])) == RUNS[name]


@pytest.mark.parametrize("name", RUNS)
def test_a_state_that_was_written_whole_is_read_as_well(name: str):
    assert decode_run(msgspec.json.encode(RUNS[name])) == RUNS[name]


@pytest.mark.parametrize("kind", [Hold, CallRow])
def test_what_is_left_out_of_a_state_is_its_end(kind: type[Row]):
    required = [field.required for field in msgspec.structs.fields(kind)]

    assert required == sorted(required, reverse=True)


def test_a_row_of_a_state_that_says_no_more_ends_there():
    state = msgspec.json.decode(encode_run(held("d")))

    (strand,), (hold,) = state[6:8]
    assert len(strand[4][0]) == sum(f.required for f in msgspec.structs.fields(CallRow))
    assert len(hold) == sum(f.required for f in msgspec.structs.fields(Hold))


@pytest.mark.parametrize("tail", codec._TAILS)
@pytest.mark.parametrize("quoted", [False, True])
def test_what_somebody_said_is_no_end_of_a_row(tail: bytes, quoted: bool):
    said = b"[1" + tail
    value = msgspec.json.encode(said.decode()) if quoted else said
    run = decided(asking(QUESTION), 1, Answered(value=msgspec.Raw(value)), undo_ms=5000)

    found = decode_run(encode_run(run)).hold(1)

    assert found is not None
    assert found.decision is not None
    assert isinstance(found.decision.verdict, Answered)
    assert bytes(found.decision.verdict.value) == value


@given(
    text=st.text(alphabet='01,"[]\\ntrufalsei', max_size=200), tail=st.sampled_from(codec._TAILS)
)
def test_a_name_is_no_end_of_a_row(text: str, tail: bytes):
    run = msgspec.structs.replace(held("d"), thread=text + tail.decode() + text)

    assert decode_run(encode_run(run)) == run


@pytest.mark.parametrize("name", RUNS)
def test_a_cut_state_is_refused(name: str):
    data = encode_run(RUNS[name])

    for end in range(0, len(data), 7):
        with pytest.raises(NotUnderstood):
            decode_run(data[:end])


def test_a_state_with_more_to_it_is_refused():
    state = msgspec.json.decode(encode_run(doubted(executing("d"))))
    full = len(Run.__struct_fields__)

    more = [*state, *[None] * (full - len(state)), "new"]

    with pytest.raises(NotUnderstood):
        decode_run(msgspec.json.encode(more))


def test_a_decision_is_read_back():
    made = decision(Approved())

    assert decode_decision(encode_decision(made)) == made
    with pytest.raises(NotUnderstood):
        decode_decision(encode_decision(made)[:-1])


def test_verdicts_are_told_apart_by_their_bytes():
    said = [Approved(), approve({}), approve({"amount": 20}), Rejected(), Rejected(reason="no")]

    assert len({encode_verdict(verdict) for verdict in said}) == len(said)
    assert encode_verdict(approve({"b": 1, "a": 2})) == encode_verdict(approve({"a": 2, "b": 1}))


def test_asks_are_told_apart_by_their_bytes():
    asks = [
        Approval(),
        Question(text="How much?"),
        Question(text="How many?"),
        SignIn(provider="mail"),
        Consent(provider="mail"),
        Consent(provider="mail", scopes=("send",)),
    ]

    assert len({encode_ask(ask) for ask in asks}) == len(asks)
