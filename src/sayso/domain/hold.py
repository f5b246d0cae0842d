"""Holds, what they ask, and how they are settled."""

import enum
import re
from typing import Any, Literal

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.people import Authority, Basis, resolve_names, unrecorded
from sayso.domain.question import Question
from sayso.domain.ruling import Require
from sayso.domain.value import Principal, RawOrNone, Row, Tagged, Value
from sayso.errors import BadPolicy


class Approval(Tagged, frozen=True, kw_only=True, tag="approval"):
    """May this call run? It has not started."""


class InDoubt(Tagged, frozen=True, kw_only=True, tag="in_doubt"):
    """Did this call happen? It was started, and nobody heard how it ended."""

    attempt: int
    worker: str
    why: str
    probe: str = ""
    """What the tool's probe answered, if it has one."""
    step: int = 0
    """The step of its body that is in doubt, if it is not the call as a whole."""
    may_live: bool = False
    """Whether the attempt may still have been under way when this was asked: nobody had seen it
    end, and its worker was not proven dead.
    """
    elsewhere: bool = False
    """Whether it was under way in another store, whose workers nobody here can see."""


class SignIn(Tagged, frozen=True, kw_only=True, tag="sign_in"):
    """Sign in at a provider, so that the call can act for you."""

    provider: str
    scopes: tuple[str, ...] = ()


class Consent(Tagged, frozen=True, kw_only=True, tag="consent"):
    """Let the call do more at a provider than you have allowed so far."""

    provider: str
    scopes: tuple[str, ...] = ()
    """All that is needed, what was allowed before included."""


class External(Tagged, frozen=True, kw_only=True, tag="external"):
    """Something outside has to happen; whatever it gives is the answer."""

    reason: str = ""
    metadata: RawOrNone = None
    client: bool = False
    """Whoever started the run executes the call, and sends what it gave."""


class Delegation(Tagged, frozen=True, kw_only=True, tag="delegation"):
    """Another run is at work on this; its end is the answer."""

    run: str
    agent: str
    input: str


Ask = Approval | InDoubt | Question | SignIn | Consent | External | Delegation
ASK_KINDS: dict[type, str] = {
    Approval: "approval",
    InDoubt: "in_doubt",
    Question: "question",
    SignIn: "sign_in",
    Consent: "consent",
    External: "external",
    Delegation: "delegation",
}
SIGN_INS = frozenset({"sign_in", "consent"})
"""The kinds of ask that a sign-in settles, and nobody's word."""
Then = Literal["start", "outcome", "continue"]
"""What a settled hold does for its call: it starts, has its outcome, or its body goes on."""


class Approved(Tagged, frozen=True, kw_only=True, tag="approved"):
    """Yes. With `args`, yes to these arguments instead."""

    args: RawOrNone = None


class Rejected(Tagged, frozen=True, kw_only=True, tag="rejected"):
    """No."""

    reason: str = ""


class Answered(Tagged, frozen=True, kw_only=True, tag="answered"):
    """This is the answer."""

    value: msgspec.Raw
    """What may be seen of it: the answer itself, or a mask if it is sensitive."""
    sealed: str = ""
    """A sensitive answer, encrypted: only the call's own body is given what is inside."""

    def result(self) -> Any:
        """Parse the answer."""
        return decode_value(bytes(self.value))


class Errored(Tagged, frozen=True, kw_only=True, tag="errored"):
    """There will be no answer, and this is why."""

    message: str


class Expired(Tagged, frozen=True, kw_only=True, tag="expired"):
    """Nobody decided in time. Nobody's decision, so `silence` says what the rule made of it."""

    silence: str
    answer: RawOrNone = None
    """What silence answers, where it does."""


class Withdrawn(Tagged, frozen=True, kw_only=True, tag="withdrawn"):
    """The question no longer stands."""

    reason: str = ""


Verdict = Approved | Rejected | Answered | Errored | Expired | Withdrawn
VERDICT_WORDS: dict[type, str] = {
    Approved: "approved",
    Rejected: "rejected",
    Answered: "answered",
    Errored: "errored",
    Expired: "expired",
    Withdrawn: "withdrawn",
}


def approve(args: dict[str, Any] | None = None) -> Approved:
    """Say yes; with `args`, say yes to these arguments instead of the ones shown."""
    return Approved(args=None if args is None else msgspec.Raw(encode_value(args)))


def reject(reason: str = "") -> Rejected:
    """Say no. The model is told the reason."""
    return Rejected(reason=reason)


def answer(value: Any) -> Answered:
    """Answer a question; for a call in doubt: it happened, and this is its result."""
    return Answered(value=msgspec.Raw(encode_value(value)))


def fail(message: str) -> Errored:
    """Say that there will be no answer; for a call in doubt: give up finding out."""
    return Errored(message=message)


class Decision(Value, frozen=True, kw_only=True):
    """A verdict with everything an auditor asks about it."""

    verdict: Verdict
    by: Principal
    at: int
    """Store time, in milliseconds since 1970."""
    effective_at: int
    """From when it counts; until then it can be undone."""
    digest: str
    """Of what was shown to whoever decided."""
    channel: str = "library"
    assurance: str = ""
    """How the person was known to be that person."""
    key: str = ""
    note: str = ""
    right: str = ""
    """By which of the approvers' names whoever decided was meant; empty: by their own."""
    of: str = ""
    """Whom they stood in for."""
    basis: tuple[Basis, ...] = ()
    """The records that their right was read from."""
    signature: str = ""
    """Of the desk where it was made, over all of it and its place; see `signing`."""
    even_if_alive: bool = False
    """Said of a call in doubt: run it again although the attempt before may still be under way."""

    @property
    def persons(self) -> tuple[str, ...]:
        """Who counts as having said this: whoever did, and whom they stood in for."""
        return (self.by.id, self.of) if self.of else (self.by.id,)

    @property
    def word(self) -> str:
        """The verdict in one word."""
        return VERDICT_WORDS[type(self.verdict)]


class HoldStatus(enum.StrEnum):
    """Where a hold stands."""

    OPEN = "open"
    DECIDED = "decided"
    """Decided, and not yet effective: it can still be undone."""
    SETTLED = "settled"


class Rung(Row, frozen=True, kw_only=True):
    """Who is asked as well from some time on."""

    at: int
    to: tuple[str, ...]


class Hold(Row, frozen=True, kw_only=True):
    """One thing a run waits for a person to settle, as far as the verbs need to know it."""

    n: int
    """Its number in the run; with the run's id it is the hold's id."""
    call: str
    kind: str
    """Of its ask; see `ASK_KINDS`."""
    version: int
    digest: str
    suspension: int
    approvers: tuple[str, ...]
    deadline: int | None
    on_silence: str
    entry: int
    """The entry that opened it."""
    opened_at: int
    revised: int = 0
    """The entry that revised it last."""
    editable: bool = True
    on_reject: str = "tell"
    decision: Decision | None = None
    """Decided, and not yet effective."""
    then: Then = "start"
    together: bool = False
    """It is decided with all others of its suspension, or not at all."""
    step: int = 0
    """The place in its call's body where it was asked, or the step that is in doubt."""
    child: str = ""
    """The run whose end settles it."""
    quorum: int = 1
    reject_quorum: int = 1
    not_requester: bool = False
    votes: tuple[Decision, ...] = ()
    """What was said on this version of it so far, if that did not settle it."""
    ladder: tuple[Rung, ...] = ()
    """Who is asked as well as time goes by."""
    start_by_ms: int | None = None
    silent_answer: str = ""
    """What silence answers, as JSON."""
    attempt: int = 0
    """The attempt that is in doubt."""
    may_live: bool = False
    """Whether that attempt may still be under way, as far as the journal knows."""
    worker: str = ""
    """Who made that attempt; empty if that was in another store."""
    remind_every_ms: int | None = None
    handed: tuple[tuple[str, str], ...] = ()
    """Who is asked in place of whom who was asked first."""

    @property
    def status(self) -> HoldStatus:
        """Where it stands. A settled hold is no longer part of the run's state."""
        return HoldStatus.OPEN if self.decision is None else HoldStatus.DECIDED

    @property
    def resumes(self) -> bool:
        """Tell whether a body goes on once it is settled, whatever with."""
        return self.then == "continue" or (self.kind == "in_doubt" and bool(self.step))


def check_silent_answer(ask: Question, ruling: Require) -> None:
    """Refuse to let silence answer a question that has nothing to be answered with."""
    if ruling.on_silence == "answer" and ask.default is None:
        raise BadPolicy(
            "on_silence='answer' gives the default of a question, and this one has none: "
            "question(..., default=...)"
        )


def resolve_approvers(ruling: Require, owner: Principal) -> tuple[str, ...]:
    """Name the approvers of a ruling, the run's owner by name."""
    return resolve_names(ruling.approvers, owner)


def may_decide(
    approvers: tuple[str, ...], by: Principal | Authority, kind: str = "approval"
) -> bool:
    """Tell whether somebody is among the approvers. Only people ever are, but for what happens
    outside: a service may report that.
    """
    who = by if isinstance(by, Authority) else unrecorded(by)
    if who.by.kind != "person" and (kind != "external" or who.by.kind != "service"):
        return False
    return who.active and who.right(approvers) is not None


_WORDS = {"anyone": "anyone of the project"}


def name_approvers(approvers: tuple[str, ...]) -> str:
    """Name approvers for people to read."""
    return " or ".join(_WORDS.get(who, who.removeprefix("user:")) for who in approvers)


def hold_id(run: str, n: int) -> str:
    """Make the public id of a hold."""
    return f"hold_{run.removeprefix('run_')}.{n}"


def request_id(run: str, suspension: int) -> str:
    """Make the public id of a suspension."""
    return f"req_{run.removeprefix('run_')}.{suspension}"


def read_id(prefix: str, text: str) -> tuple[str, int] | None:
    """Read the run and number out of a hold's or suspension's id; None if it is neither."""
    found = _ID.fullmatch(text)
    if found is None or found[1] != prefix:
        return None
    return f"run_{found[2]}", int(found[3])


# One thing has one id: no leading zeros, no digits of other scripts.
_ID = re.compile(r"(hold|req)_(.+)\.([1-9][0-9]{0,9})", re.DOTALL)
