"""Events and run states to bytes and back. What is not understood is refused.

Rule: an entry that cannot be read raises `NotUnderstood` with the reason; it is never skipped.

The modules of what is read here do without `from __future__ import annotations`: it would make text
of every annotation, which msgspec has to compile at each start of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sayso.domain.events import AnyEvent, Event
from sayso.domain.hold import Ask, Decision, Hold, Verdict
from sayso.domain.run import CallRow, Run
from sayso.domain.value import Row
from sayso.errors import BadValue, NotUnderstood

# Old tag -> a function from the old object to the new one. Empty until a tag gets a second version.
UPCASTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_encoder = msgspec.json.Encoder()
_event_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_run_decoder: msgspec.json.Decoder[Run] = msgspec.json.Decoder(Run)
_decision_decoder: msgspec.json.Decoder[Decision] = msgspec.json.Decoder(Decision)
_votes_decoder: msgspec.json.Decoder[tuple[Decision, ...]] = msgspec.json.Decoder(
    tuple[Decision, ...]
)


def _tail(kind: type[Row]) -> bytes:
    """Give how a row ends of which every field that has a default is at it."""
    fields = msgspec.structs.fields(kind)
    ends = [_default(field) for field in fields if not field.required]
    return b"".join([b",%b" % _encoder.encode(end) for end in ends]) + b"]"


def _default(field: msgspec.structs.FieldInfo) -> object:
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


_TAILS = (_tail(Hold), _tail(CallRow))
"""Nothing else of ours ends like them: no list of a run has true, false or null in it, and in text
there is no quotation mark without a backslash before it.
"""

_UNBOUNDED = b",null]"
"""How a run ends that may work for as long as it takes."""

# What msgspec raises for bad bytes, bad text and too much nesting, and an upcast for a gap.
_BAD = (ValueError, TypeError, LookupError, RecursionError)


def encode_event(event: Event) -> bytes:
    """Encode an event to what the journal keeps; `BadValue` if it could not be read back."""
    try:
        data = _encoder.encode(event)
        # Opaque JSON goes in as it came. If it is none, nobody could ever read the run again.
        data.decode("utf-8")
        _event_decoder.decode(data)
    except _BAD as error:
        raise BadValue(f"this cannot be kept in a journal: {error}") from None
    return data


def decode_event(data: bytes) -> AnyEvent:
    """Read an event of any version this code knows."""
    try:
        if UPCASTS:
            return _upcast(data)
        return _event_decoder.decode(data)
    except _BAD as error:
        raise NotUnderstood(f"this entry cannot be read: {error}") from None


def _upcast(data: bytes) -> AnyEvent:
    found = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    tag = msgspec.json.decode(found["type"], type=str)
    upcast = UPCASTS.get(tag)
    if upcast is None:
        return _event_decoder.decode(data)
    return _event_decoder.decode(_encoder.encode(upcast(dict(found))))


def encode_run(run: Run) -> bytes:
    """Encode a run's state to what its row keeps, without what is at the end of a row of it and
    says nothing: a parked run is a row for as long as it is parked.
    """
    data = _encoder.encode(run)
    if run.work_time is None:
        data = data.removesuffix(_UNBOUNDED) + b"]"
    for hold in run.holds:
        if hold.decision is not None or hold.votes:
            return data  # An answer is whatever somebody has said, and may look like anything.
    for tail in _TAILS:
        data = data.replace(tail, b"]")
    return data


def decode_run(data: bytes) -> Run:
    """Read a run's state."""
    try:
        return _run_decoder.decode(data)
    except _BAD as error:
        raise NotUnderstood(f"this run's state cannot be read: {error}") from None


def encode_decision(decision: Decision) -> bytes:
    """Encode a decision to what a hold's row keeps."""
    return _encoder.encode(decision)


def decode_decision(data: bytes) -> Decision:
    """Read a decision."""
    try:
        return _decision_decoder.decode(data)
    except _BAD as error:
        raise NotUnderstood(f"this decision cannot be read: {error}") from None


def encode_votes(votes: tuple[Decision, ...]) -> bytes:
    """Encode the votes on a hold to what its row keeps."""
    return _encoder.encode(votes)


def decode_votes(data: bytes) -> tuple[Decision, ...]:
    """Read the votes on a hold."""
    try:
        return _votes_decoder.decode(data)
    except _BAD as error:
        raise NotUnderstood(f"these votes cannot be read: {error}") from None


def encode_ask(ask: Ask) -> bytes:
    """Encode an ask, for its digest."""
    return _encoder.encode(ask)


def encode_verdict(verdict: Verdict) -> bytes:
    """Encode a verdict, to tell a retry from another request."""
    return _encoder.encode(verdict)


def event_tag(event: Event) -> str:
    """Give the tag that names an event's kind and version."""
    return str(event.__struct_config__.tag)
