"""A decision that somebody wants to make, before anybody has looked whether they may."""

from __future__ import annotations

import msgspec

from sayso.domain.digest import decode_value
from sayso.domain.hold import VERDICT_WORDS, Answered, Approved, Errored, Rejected, Verdict
from sayso.domain.value import Principal
from sayso.engine.genuine import Shown
from sayso.engine.grants import Always
from sayso.engine.keys import KEY_MAX, check_text
from sayso.errors import BadValue, WrongVerdict

REASON_MAX = 10_000
UNDO_MAX_MS = 600_000
"""No decision can be taken back for longer: undo is for a slip of the hand, and until it is over
the run waits for a person who has decided.
"""


class Decide(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to be made."""

    verdict: Verdict
    by: Principal
    digest: str | None = None
    """Of what was shown. Without it only a hold that was never edited can be decided."""
    key: str | None = None
    undo_ms: int = 0
    note: str = ""
    channel: str = "library"
    whole: bool = False
    """Whether it decides all of a suspension."""
    always: Always | None = None
    """How far a yes goes beyond the call that it is for."""
    signed_in: bool = False
    """Whether whoever decides has signed in where the hold asks them to."""
    shown: Shown | None = None
    """What was shown, if whoever asks has it at hand."""
    even_if_alive: bool = False
    """Whether a call in doubt is run again although the attempt before may still be under way."""

    @property
    def edits(self) -> bool:
        """Tell whether it says yes to other arguments than were shown."""
        return isinstance(self.verdict, Approved) and self.verdict.args is not None


def check_request(request: Decide) -> None:
    """Refuse what could not be a decision of anybody."""
    verdict = request.verdict
    if type(verdict) not in VERDICT_WORDS:
        raise WrongVerdict(
            f"{verdict!r} is not a verdict: use approve(), reject('why'), answer(value) or "
            "fail('why')"
        )
    if isinstance(verdict, Answered):
        # It may have been made by hand, of bytes that two readers would read differently.
        decode_value(bytes(verdict.value))
    if isinstance(verdict, Rejected):
        check_text(verdict.reason, "the reason", REASON_MAX)
    if isinstance(verdict, Errored):
        check_text(verdict.message, "the message", REASON_MAX)
    if not 0 <= request.undo_ms <= UNDO_MAX_MS:
        raise BadValue(f"undo is at most '{UNDO_MAX_MS // 60_000}m', and never negative")
    if type(request.even_if_alive) is not bool:
        raise BadValue(f"even_if_alive is True or False, not {request.even_if_alive!r}")
    check_text(request.note, "the note", REASON_MAX)
    check_text(request.channel, "the channel", KEY_MAX)
    if request.digest is not None:
        check_text(request.digest, "the digest", KEY_MAX)
