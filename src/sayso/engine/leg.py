"""One leg of a durable body: from its start, or an answer, to its end or the next thing it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from sayso.domain.call import Effect, Failed, Returned
from sayso.domain.transcript import Place
from sayso.engine.attempt import Done, Doubt, Parked, Result, StepDoubt, Void, read_error
from sayso.engine.body import DurableBody
from sayso.engine.ports import Tool
from sayso.errors import BodyGone, NotDone, SaysoError


async def run_leg(body: DurableBody, tool: Tool) -> Result | None:
    """Wait for the end of a leg. None if the body has asked, or does not count any more."""
    try:
        task = await body.leg(tool.timeout_ms / 1000)
    except TimeoutError:
        body.park()
        why = f"it neither ended nor asked within {tool.timeout_ms / 1000:g} seconds"
        if body.beginning:
            return Parked(why=why, again=True)  # The store took its time, not the body.
        going = not await body.ends_at_once()
        return _cut_off(body.places, why, may_live=going) or Done(
            outcome=Failed(error="Interrupted", message=why)
        )
    except asyncio.CancelledError:
        body.park()
        raise
    if body.doubt:
        return StepDoubt(why=body.doubt)
    if body.diverged:
        return Doubt(why=body.diverged)
    if body.late:
        return Parked(why=body.late, again=True)
    if body.spoiled is not None:
        body.park()
        return Done(outcome=_spoiled(body.spoiled))
    if task is None or body.gone:
        return None
    return _result(body, task)


def look_into_body(places: Sequence[Place], why: str, *, may_live: bool) -> Result:
    """Say what becomes of a body whose worker is gone."""
    return _cut_off(places, why, may_live=may_live) or Parked(why=why)


def _cut_off(places: Sequence[Place], why: str, *, may_live: bool) -> Result | None:
    last = places[-1] if places else None
    if last is None or not last.name or last.outcome is not None:
        return None
    if last.effect == Effect.ONCE:
        return StepDoubt(why=f"{why}, at its step {last.name!r}", may_live=may_live)
    return Parked(why=why, again=True)


def _spoiled(why: SaysoError) -> Failed:
    kind = "Cancelled" if isinstance(why, BodyGone) else type(why).__name__
    return Failed(error=kind, message=str(why))


def _result(body: DurableBody, task: asyncio.Task[bytes]) -> Result:
    if body.unread:
        return Doubt(
            why=f"its code has changed: it ended {body.unread} places before its journal does"
        )
    try:
        value = task.result()
    except NotDone as error:
        if not body.places:
            return Void(why=body.veil.text(str(error)))
        return Done(outcome=Failed(error="NotDone", message=body.veil.text(str(error))))
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome.
        return Done(outcome=read_error(error, body.veil)[1])
    kept = msgspec.Raw(body.veil.value(value))
    return Done(outcome=Returned(value=kept), moves=tuple(body.moves))
