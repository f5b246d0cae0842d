"""Following a run over HTTP: its journal as server-sent events, with text in between.

Rule 1: an entry's number is its event's id. Whoever comes back with the last one they have seen
misses nothing and sees nothing twice, on whichever server.
Rule 2: text has no id: it is a courtesy, and the turn that follows has all of it.
Rule 3: a stream says how it ends: `end` with the run's status, or `error`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from sayso.domain.recorded import Recorded
from sayso.engine.window import Window
from sayso.errors import SaysoError
from sayso.server.caller import Caller, is_still_in, sayso_of
from sayso.server.event import event_out
from sayso.server.problem import describe
from sayso.server.seat import Seat
from sayso.server.sse import ALIVE_S, alive, event

log = logging.getLogger("sayso")

STREAMS_MAX = 2000
"""How many readers one server has at a time."""
STREAMS_EACH_MAX = STREAMS_MAX // 2
"""How many one of them has: nobody alone takes all there are."""


async def follow(
    request: Request, caller: Caller, run_id: str, seat: Seat, *, after: int, forever: bool
) -> StreamingResponse:
    """Answer with a run's events after one, until it is suspended or finished; with `forever`,
    until it is finished. It ends as well when the credential does.
    """
    window = caller.window(sayso_of(request))
    # Before the answer begins: what is refused has a status of its own.
    await window.check_run(run_id)
    frames = _frames(window, run_id, after=after, forever=forever)

    async def is_good() -> bool:
        try:
            await window.check_run(run_id)
        except SaysoError:
            return False  # It is no longer theirs to look into.
        return await is_still_in(request, caller)

    closing = request.app.state.closing
    return seat.answer(alive(frames, closing, every_s=ALIVE_S, recheck=is_good))


async def _frames(
    window: Window, run_id: str, *, after: int, forever: bool
) -> AsyncIterator[bytes]:
    try:
        async for found in await window.follow(run_id, after=after, deltas=True):
            if not isinstance(found, Recorded):
                text = json.dumps({"turn": found.turn, "text": found.text})
                yield event(text, name="delta")
                continue
            shown = event_out(found)
            yield event(shown.model_dump_json(), id=found.seq, name=found.type)
            if found.type == "run.suspended" and not forever:
                seq, status = await window.stands(run_id)
                if (seq, status) == (found.seq, "suspended"):
                    break
        _, status = await window.stands(run_id)
        yield event(json.dumps({"status": status}), name="end")
    except SaysoError as error:
        # An error of ours may be the caller's to know; what else there is, is not.
        yield event(describe(error).model_dump_json(exclude_none=True), name="error")
    except Exception:
        log.exception("a stream failed")
        yield event(describe(SaysoError()).model_dump_json(exclude_none=True), name="error")
