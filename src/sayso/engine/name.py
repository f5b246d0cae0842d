"""What callers name runs, holds and people by: ids, handles and views alike.

Rule: what names nothing is refused in a line that says what it was, never with a dump of it.
"""

from __future__ import annotations

from sayso.domain.hold import read_id
from sayso.domain.value import Principal, person
from sayso.engine.handle import RunHandle
from sayso.engine.ids import is_run_id
from sayso.engine.keys import KEY_MAX, check_text
from sayso.errors import BadValue, UnknownHold, UnknownRun
from sayso.store.views import HoldView, RunView


def read_run(run: str | RunHandle | RunView) -> str:
    """Give the id of a run. Whether there is such a run is not looked at."""
    if isinstance(run, RunHandle | RunView):
        return run.id
    if not isinstance(run, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnknownRun(f"{type(run).__name__} is no run: give its handle, its view or its id")
    return run


def read_hold(hold: str | HoldView) -> str:
    """Give the id of a hold. Whether there is such a hold is not looked at."""
    match hold:
        case HoldView():
            return hold.id
        case RunView():  # pyright: ignore[reportUnnecessaryComparison]
            asked = ", ".join(repr(one.id) for one in hold.holds) or "it has none open"
            raise UnknownHold(f"the view of the run {hold.id!r} is not a hold; its holds: {asked}")
        case str():
            return hold
        case _:
            raise UnknownHold(f"{type(hold).__name__} is no hold: give its view, or its id")


def run_of(hold: str) -> str:
    """Give the id of the run that a hold belongs to, or raise `UnknownHold`."""
    place = read_id("hold", hold)
    if place is None or not is_run_id(place[0]):
        raise UnknownHold(f"{hold!r} is not the id of a hold")
    return place[0]


def read_person(by: str | Principal) -> Principal:
    """Give who acts, or raise `BadValue`: a bare id is a person's."""
    who = person(by)
    if not isinstance(who, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"{by!r} is nobody: `by` is a person's id or a Principal")
    check_text(who.id, "the id of who acts", KEY_MAX)
    if not who.id:
        raise BadValue("`by` is empty: say who acts")
    return who
