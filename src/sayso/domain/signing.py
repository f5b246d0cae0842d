"""What a desk signs of a decision: bytes in which nothing of it can be changed or moved elsewhere.

Rule 1: they name the project, the run, the hold and its version, and have the whole decision but
its signature: a field that joins `Decision` is signed from then on, without a word here.
Rule 2: one that has its default is left out, so what was signed before a field joined still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.hold import Ask, Decision, Delegation, Expired, Withdrawn
from sayso.domain.run import Run
from sayso.domain.value import CLOCK, Principal

TAG = "sayso.decision.1"
"""A signature over anything else never passes for one of a decision."""
SPEAKING = frozenset({"approve", "answer"})
"""What silence may be told to mean that somebody would have to say otherwise."""
Sign = Callable[[bytes], str]


def decision_bytes(run: Run, hold: int, version: int, decision: Decision) -> bytes:
    """Give what is signed of a decision on a hold of a run."""
    data = codec.encode_decision(replace(decision, signature=""))
    parts = [TAG, run.project, run.id, str(hold), str(version)]
    # Every part is preceded by its length, so that no two decisions are the same bytes.
    encoded = [*(part.encode() for part in parts), data]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)


def sign_events(run: Run, events: Iterable[e.Event], sign: Sign) -> list[e.Event]:
    """Sign every decision in these events, but for those of the clock: nobody has made them."""
    return [_signed(run, event, sign) for event in events]


def needs_signature(ask: Ask | None, decision: Decision) -> bool:
    """Tell whether a decision has to be signed before the body of a call goes on with it.

    That nobody decided, or that a question was taken back, is nobody's word. The end of a run that
    others wait for is that run's own.
    """
    verdict = decision.verdict
    if isinstance(verdict, Withdrawn):
        return False
    if isinstance(verdict, Expired):
        return verdict.silence in SPEAKING
    child = Principal(kind="agent", id=ask.run) if isinstance(ask, Delegation) else None
    return decision.by != child


def _signed(run: Run, event: e.Event, sign: Sign) -> e.Event:
    # By what it carries: whatever event records a decision, it is signed.
    found: Any = event
    decision = getattr(found, "decision", None)
    if not isinstance(decision, Decision) or decision.by == CLOCK:
        return event
    signature = sign(decision_bytes(run, found.hold, found.version, decision))
    return replace(found, decision=replace(decision, signature=signature))
