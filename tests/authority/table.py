"""Who may do what to what, and when: one table, for the library and for every wire.

Method: `cells()` gives every combination of somebody, what a hold asks, where things stand, and a
verb, each with what must come of it: `OK`, or the name of the error. The rules below were written
by hand from the design, and import nothing of Sayso: what is tested must not say what is right.
What makes no sense is left out by `makes_sense`, and by nothing else; `COUNT` says how many are
left, so that none goes missing unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

OK = "ok"

WHO: dict[str, tuple[str, str]] = {
    "owner": ("person", "mira"),
    "owner_linked": ("person", "mail:mira@example.com"),
    "named": ("person", "nora"),
    "member": ("person", "ann"),
    "other_role": ("person", "bob"),
    "in_project": ("person", "dan"),
    "foreign": ("person", "eve"),
    "unknown": ("person", "zoe"),
    "inactive": ("person", "ivan"),
    "stand_in": ("person", "sam"),
    "stand_in_before": ("person", "sue"),
    "stand_in_after": ("person", "sid"),
    "stand_in_of_owner": ("person", "stella"),
    "stand_in_of_stand_in": ("person", "sol"),
    "operator": ("person", "olga"),
    "editor": ("person", "eddy"),
    "voter": ("person", "finn"),
    "agent": ("agent", "mira"),
    "service_named": ("service", "hook"),
    "service": ("service", "mira"),
    "clock": ("clock", "clock"),
    "nobody": ("person", "mail:nobody@example.com"),
    "like_a_role": ("person", "role:finance"),
    "like_anyone": ("person", "anyone"),
}
"""Everybody who tries, as kind and id of a principal."""

PROJECT, ELSEWHERE = "default", "elsewhere"
MAIL = "mail:mira@example.com"

PEOPLE: dict[str, dict[str, Any]] = {
    "mira": {"identities": [MAIL]},
    "nora": {},
    "ann": {"roles": ["finance"]},
    "finn": {"roles": ["finance"]},
    "gil": {"roles": ["finance"]},
    "bob": {"roles": ["sales", "role:finance"]},
    "dan": {},
    "ivan": {"roles": ["finance", "operator"], "active": False},
    "sam": {},
    "sue": {},
    "sid": {},
    "stella": {},
    "sol": {},
    "olga": {"roles": ["operator"]},
    "eddy": {},
}
"""What the project knows of people; `eve` is known elsewhere, with every role there is."""
STAND_INS: tuple[tuple[str, str, str], ...] = (
    ("sam", "nora", "now"),
    ("sue", "nora", "later"),
    ("sid", "nora", "over"),
    ("stella", "mira", "now"),
    ("sol", "sam", "now"),
    # An operator's stand-in is no operator, and somebody who is shut out has no rights to lend.
    ("dan", "olga", "now"),
    ("bob", "ivan", "now"),
)

RELATIONS: dict[str, dict[str, Any]] = {
    "owner": {},
    "named": {"approvers": ["user:nora"]},
    "role": {"approvers": ["role:finance"]},
    "anyone": {"approvers": ["anyone"]},
    "four_eyes": {"approvers": ["anyone"], "not_requester": True},
    "quorum": {"approvers": ["role:finance"], "quorum": 3},
    "outside": {"approvers": ["service:hook", "user:nora"]},
}
"""Whom a hold asks. Under `four_eyes` the editor has edited it, under `quorum` the voter has said
yes; `outside` waits for something that happens elsewhere, all others are approvals.
"""

MEMBERS = frozenset(
    {
        "owner",
        "owner_linked",
        "named",
        "member",
        "other_role",
        "in_project",
        "stand_in",
        "stand_in_before",
        "stand_in_after",
        "stand_in_of_owner",
        "stand_in_of_stand_in",
        "operator",
        "editor",
        "voter",
    }
)
"""Who is a person of the project, known and active, by whatever identity."""
ASKED: dict[str, frozenset[str]] = {
    "owner": frozenset({"owner", "owner_linked", "stand_in_of_owner"}),
    "named": frozenset({"named", "stand_in"}),
    "role": frozenset({"member", "voter"}),
    "anyone": MEMBERS,
    "four_eyes": MEMBERS,
    "quorum": frozenset({"member", "voter"}),
    "outside": frozenset({"named", "stand_in", "service_named"}),
}
"""Who is among the approvers, by name, role or right."""
KEPT_OUT = frozenset({"owner", "owner_linked", "stand_in_of_owner", "editor"})
"""Who is not to decide under four eyes, although they are asked."""
DECIDERS: dict[str, frozenset[str]] = {
    "owner": frozenset({"owner", "owner_linked"}),
    "named": frozenset({"named"}),
    "role": frozenset({"member"}),
    "anyone": frozenset({"in_project"}),
    "four_eyes": frozenset({"in_project"}),
    "quorum": frozenset({"member"}),
    "outside": frozenset({"named"}),
}
"""Who has decided where something is decided: one person, by all their identities."""
OWNING = frozenset({"owner", "owner_linked", "operator"})
"""Who may do to a run what its owner may."""

STATES = (
    "open",
    "decided",
    "settled",
    "expired",
    "withdrawn",
    "cancelled",
    "finished",
    "in_doubt",
)
"""`decided` can still be undone; `expired` is past its deadline, and nobody has swept. In `settled`
and `withdrawn` the run waits at a later hold; the hold looked at is the first.
"""
OVER = frozenset({"settled", "withdrawn", "cancelled", "finished"})
FINAL = frozenset({"cancelled", "finished"})

HOLD_VERBS = (
    "approve",
    "reject",
    "answer",
    "fail",
    "edit",
    "undo",
    "resume",
    "reassign",
    "remind",
    "list",
)
RUN_VERBS = ("say", "supersede", "command", "cancel", "redact", "export", "adopt")
OTHER_VERBS = ("start", "gate", "revoke", "sign_in_url", "oauth_callback")
VERBS = (*HOLD_VERBS, *RUN_VERBS, *OTHER_VERBS)

METHODS: dict[str, str] = {
    "approve": "decide",
    "reject": "decide",
    "answer": "decide",
    "fail": "decide",
    "edit": "decide",
    "undo": "undo",
    "resume": "resume",
    "reassign": "reassign",
    "remind": "remind",
    "list": "holds",
    "say": "say",
    "supersede": "say",
    "command": "command",
    "cancel": "cancel",
    "redact": "redact",
    "export": "export",
    "adopt": "adopt",
    "start": "start",
    "gate": "gate",
    "revoke": "grants.revoke",
    "sign_in_url": "sign_in_url",
    "oauth_callback": "oauth_callback",
}
"""What each verb is in the library. One that acts for somebody and is not here fails the build."""

HANDED_TO: dict[str, str] = {
    "owner": "dan",
    "named": "dan",
    "role": "gil",
    "anyone": "dan",
    "four_eyes": "dan",
    "quorum": "gil",
    "outside": "dan",
}
"""To whom `reassign` hands a hold over: where many are asked, one of the same many."""
COUNT = 16_728


@dataclass(frozen=True)
class Cell:
    """Somebody does something to something, and what must come of it."""

    who: str
    relation: str
    state: str
    verb: str
    expected: str

    def __str__(self) -> str:
        return f"{self.who} {self.verb} {self.relation}/{self.state}"


def cells() -> Iterator[Cell]:
    """Give every cell."""
    for relation in (*RELATIONS, "grant", "sign_in", "none"):
        for state in STATES:
            for verb in VERBS:
                if makes_sense(relation, state, verb):
                    for who in WHO:
                        yield Cell(who, relation, state, verb, expect(who, relation, state, verb))


def places() -> list[tuple[str, str]]:
    """List the combinations of what is asked and where it stands."""
    return list(dict.fromkeys((cell.relation, cell.state) for cell in cells()))


def makes_sense(relation: str, state: str, verb: str) -> bool:
    """Tell whether there is such a thing."""
    if verb in OTHER_VERBS:
        return (relation, state) in _ELSE[verb]
    if relation not in RELATIONS:
        return False
    if relation == "outside" and state == "in_doubt":
        return False  # What waits for something outside has not started, and cannot be in doubt.
    if verb == "adopt":
        return (relation, state) == ("owner", "finished")
    if verb in RUN_VERBS:
        # Whom its hold asks says nothing of who may do what to a run; one that asks others than
        # the owner, and one that asks services, stand for all.
        return relation in ("owner", "role", "outside")
    return True


_ELSE: dict[str, tuple[tuple[str, str], ...]] = {
    "start": (("none", "open"),),
    "gate": (("none", "open"),),
    "revoke": (("grant", "open"), ("grant", "withdrawn")),
    "sign_in_url": (("sign_in", "open"), ("sign_in", "settled")),
    "oauth_callback": (("sign_in", "open"), ("sign_in", "settled")),
}
"""Where the verbs make sense that are neither about a run nor about deciding."""


def expect(who: str, relation: str, state: str, verb: str) -> str:
    """Say what must come of it."""
    if verb in ("start", "gate"):
        return "NotAllowed" if who == "inactive" else OK
    if verb == "revoke":
        # The member gave it. Revoking twice is fine.
        return OK if who in ("member", "operator") else "NotAllowed"
    if relation == "sign_in":
        return _sign_in(who, state, verb)
    if verb in RUN_VERBS:
        return _to_run(who, state, verb) if who in OWNING else "NotAllowed"
    if verb == "list":
        return _listed(who, relation, state)
    if verb == "undo":
        return _undone(who, relation, state)
    if verb == "reassign":
        return _handed(who, relation, state)
    if verb == "remind":
        return _reminded(who, relation, state)
    return _decided(who, relation, state, verb)


def _decided(who: str, relation: str, state: str, verb: str) -> str:
    if (refused := _barred(who, relation, state)) is not None:
        return refused
    if verb == "edit":
        # Neither what has happened nor what happens outside has arguments to edit.
        return "WrongVerdict" if state == "in_doubt" or relation == "outside" else OK
    if state == "in_doubt":
        return OK  # Whoever looks into it may say anything.
    if relation == "outside":
        return "WrongVerdict" if verb == "approve" else OK
    if verb in ("answer", "fail"):
        return "WrongVerdict"
    if relation == "quorum" and who == "voter" and verb != "reject":
        return "AlreadyDecided"  # They count once; one no decides, even of theirs.
    return OK


def _barred(who: str, relation: str, state: str) -> str | None:
    """Say why somebody cannot decide at all."""
    if who not in ASKED[relation]:
        return "NotAllowed"
    if state in OVER:
        return "AlreadyDecided"
    if relation == "four_eyes" and who in KEPT_OUT:
        return "NotAllowed"
    if state == "decided":
        return "AlreadyDecided"
    return "HoldExpired" if state == "expired" else None


def _undone(who: str, relation: str, state: str) -> str:
    if who == "inactive":
        return "NotAllowed"
    if state == "decided":
        return OK if who in DECIDERS[relation] else "NotAllowed"
    voted = relation == "quorum" and who == "voter" and state in ("open", "expired")
    return OK if voted else "CannotUndo"


def _handed(who: str, relation: str, state: str) -> str:
    # An operator hands over what asks many, to one of the many.
    if who == "operator" and state not in OVER and who not in ASKED[relation]:
        if state in ("decided", "expired"):
            return {"decided": "AlreadyDecided", "expired": "HoldExpired"}[state]
        return {"role": OK, "quorum": "WrongVerdict"}.get(relation, "NotAllowed")
    if (refused := _barred(who, relation, state)) is not None:
        return refused
    if relation == "quorum":
        return "WrongVerdict"  # Nobody is asked in place of several.
    # What a service reports is no person's to report.
    return "NotAllowed" if who == "service_named" else OK


def _reminded(who: str, relation: str, state: str) -> str:
    if who == "service_named":
        return "NotAllowed"  # Whoever reports something has nobody to be told.
    refused = _barred(who, relation, state)
    # There is no later any more.
    return "BadValue" if refused == "HoldExpired" else refused or OK


def _listed(who: str, relation: str, state: str) -> str:
    if who not in ASKED[relation] or state in OVER:
        return "absent"
    # A service is shown what it may report, and nobody what they must not decide.
    return "absent" if relation == "four_eyes" and who in KEPT_OUT else OK


def _to_run(who: str, state: str, verb: str) -> str:
    del who
    match verb:
        case "say":
            return OK if state in FINAL else "RunWaiting"
        case "command":
            return "RunFinished" if state in FINAL else OK
        case "cancel":
            return "RunFinished" if state == "finished" else OK
        case "redact":
            return OK if state in FINAL else "RunWaiting"
        case "adopt":
            return "RunExists"
        case _:
            return OK


def _sign_in(who: str, state: str, verb: str) -> str:
    # Nobody signs in for somebody else, not even who stands in for them.
    del verb
    if who not in ("owner", "owner_linked"):
        return "NotAllowed"
    return OK if state == "open" else "AlreadyDecided"
