"""Handing over what one is asked to somebody else: the verb `reassign`.

Rule 1: nobody hands over more than they have: who is meant by name may name somebody else; who is
one of many, or was named by one of them, may only name one of the same many.
Rule 2: nobody is asked in place of several.
"""

from __future__ import annotations

from sayso.domain import events as e
from sayso.domain.apply_holds import has_voted, requesters
from sayso.domain.entitled import decidable, expiry, recorded_right
from sayso.domain.hold import SIGN_INS, Hold, hold_id, name_approvers
from sayso.domain.people import Authority, Right
from sayso.domain.ruling import OPERATOR, anyone
from sayso.domain.run import Run
from sayso.errors import AlreadyDecided, HoldExpired, NotAllowed, WrongVerdict


def reassign(
    run: Run, n: int, *, to: Authority, by: Authority, now: int, note: str = ""
) -> list[e.Event]:
    """Let somebody else decide in one's place."""
    hold, right = _handed(run, n, by, now)
    name = hold_id(run.id, n)
    if hold.kind in SIGN_INS:
        raise WrongVerdict(f"{name!r} asks for a sign-in, and nobody signs in for somebody else")
    if hold.together:
        raise WrongVerdict(f"{name!r} is decided with others, and handed over with none")
    # Whom nobody knows would never decide it, and whoever took that name could.
    if to.by.kind != "person" or not to.active or to.right([anyone]) is None:
        raise NotAllowed(f"{name!r} cannot be handed over to {to.by}: no person who may decide")
    if to.is_one_of(requesters(run, hold)):
        raise NotAllowed(f"{name!r} cannot be handed over to {to.by}, who asked for it")
    # By whatever name: two names of one person would be asked in place of two persons.
    asked_already = to.right(who for who in hold.approvers if who.startswith("user:"))
    if asked_already is not None and not asked_already.of:
        return []
    if has_voted(hold, {by.by.id, *by.also, right.of}):
        raise WrongVerdict(f"{by.by} has voted on {name!r}: take that back first, undo(...)")
    instead_of = right.name
    first = dict(hold.handed).get(right.name, right.name)
    if not first.startswith("user:"):
        # An operator speaks for all who are asked, everybody else for those they are one of.
        theirs = to.right(hold.approvers if right.name == OPERATOR else [first])
        if theirs is None:
            asked = name_approvers(hold.approvers)
            raise NotAllowed(f"{name!r} cannot be handed over to {to.by}: it asks {asked}")
        if max(hold.quorum, hold.reject_quorum) > 1:
            raise WrongVerdict(f"{name!r} asks several persons, and is not handed over to one")
        instead_of = theirs.name if right.name == OPERATOR else right.name
    _check_one_place(hold, by, right, name)
    event = e.HoldReassigned(
        hold=n,
        by=by.by,
        instead_of=instead_of,
        to=f"user:{to.by.id}",
        at=now,
        right=OPERATOR if right.name == OPERATOR else recorded_right(by, right),
        of=right.of,
        basis=right.basis,
        note=note,
    )
    return [event]


def _check_one_place(hold: Hold, by: Authority, right: Right, name: str) -> None:
    """Refuse to hand over one of two places: whoever counts once would choose who counts beside
    them, and there would be two.
    """
    # Whom time will bring in counts as well.
    asked = {*hold.approvers, *(who for rung in hold.ladder for who in rung.to)}
    others = {one.name for one in by.rights if one.name in asked} - {right.name}
    if others and max(hold.quorum, hold.reject_quorum) > 1:
        named = name_approvers(tuple(sorted(others)))
        raise WrongVerdict(
            f"{by.by} is asked about {name!r} as {named} as well, and would count twice if it was "
            "handed over: vote on it, or leave it to others"
        )


def _handed(run: Run, n: int, by: Authority, now: int) -> tuple[Hold, Right]:
    """Find a hold that somebody may hand over: one who may decide it, or an operator."""
    hold = run.hold(n)
    operator = by.right([OPERATOR]) if by.active else None
    try:
        return decidable(run, n, by=by, now=now)
    except NotAllowed:
        if hold is None or hold.child or operator is None:
            raise
    if hold.decision is not None:
        raise AlreadyDecided(decision=hold.decision)
    if hold.deadline is not None and now >= hold.deadline:
        raise HoldExpired(decision=expiry(hold, hold.deadline))
    return hold, operator
