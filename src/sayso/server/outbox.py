"""The outbox over HTTP: what is still to be told, what was given up, and trying that again. For
credentials with the scope `admin` whose bearer is an operator of the project.

Rule: it says which notice of which hold, and what kind of error there was. Not what an error says:
that is of whatever tells people, and may name addresses that are secrets.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path

from sayso.engine.parcel import read_slip
from sayso.errors import Unknown
from sayso.server.caller import App
from sayso.server.govern import Governor
from sayso.server.json import StrictRoute
from sayso.server.problem import documented
from sayso.server.runs import After, Limit
from sayso.server.wire import NAME_MAX, Out
from sayso.store.outbox import Parcel
from sayso.store.views import moment

router = APIRouter(prefix="/v1", route_class=StrictRoute)

State = Literal["waiting", "dead"]
ParcelId = Annotated[str, Path(min_length=1, max_length=NAME_MAX, examples=["asked:hold_x.1"])]


class ParcelOut(Out):
    """A notice to deliver, or one that was given up."""

    id: str
    kind: str
    hold_id: str | None
    """None if what is in it is not understood here."""
    run_id: str
    state: State
    due_at: datetime
    """From when on it is to be delivered; of a dead one, when it was."""
    tries: int
    error: str | None
    """What kind of error there was last."""


class OutboxOut(Out):
    """A page of the outbox."""

    items: list[ParcelOut]
    next: str | None


class AgainOut(Out):
    """What is tried again."""

    id: str
    state: State = "waiting"


@router.get("/outbox", responses=documented())
async def list_outbox(
    *, app: App, caller: Governor, state: State = "waiting", after: After = None, limit: Limit = 50
) -> OutboxOut:
    """List what is still to be told by channels, or with `state=dead` what was given up, by id."""
    outbox = app.store.outbox
    listed = outbox.dead_ones if state == "dead" else outbox.waiting
    found = await listed(caller.project, limit=limit, after=after or None)
    more = found[-1].id if len(found) >= limit else None
    return OutboxOut(items=[_parcel(one, state) for one in found], next=more)


@router.post("/outbox/{parcel_id}/again", responses=documented(404))
async def try_again(*, app: App, caller: Governor, parcel_id: ParcelId) -> AgainOut:
    """Deliver something that was given up, as if it had never been tried."""
    if not await app.notices.revive(parcel_id, project=caller.project):
        raise Unknown(f"nothing of the name {parcel_id!r} was given up")
    return AgainOut(id=parcel_id)


def _parcel(one: Parcel, state: State) -> ParcelOut:
    slip = read_slip(one.data)
    return ParcelOut(
        id=one.id,
        kind=one.kind,
        hold_id=None if slip is None else slip.hold,
        run_id=one.run_id,
        state=state,
        due_at=moment(min(one.due_at, _LAST)),
        tries=one.tries,
        error=one.error.partition(":")[0] or None,
    )


_LAST = 253_402_300_799_000
"""The end of the last year that a date has; a parcel may be due after it."""
