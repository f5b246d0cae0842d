"""A run that is to end takes the runs along that it waits for."""

from __future__ import annotations

from functools import partial

from sayso.domain import events as e
from sayso.domain import settling
from sayso.domain.run import Run
from sayso.domain.value import SAYSO
from sayso.engine.ledger import Takes
from sayso.engine.parts import Parts


async def cancel_children(parts: Parts, run_id: str, takes: Takes | None = None) -> bool:
    """Cancel what a run that is to end has begun, at any depth; tell whether there was anything.

    Each of them ends by itself, and tells the run above it in the same append.
    """
    waiting, seen = [run_id], {run_id}
    while waiting:
        run = await parts.ledger.load(waiting.pop())
        if not run.ending and run.id != run_id:
            run = (await parts.ledger.write(run.id, partial(_cancel, parts), takes=takes)).run
        if not run.ending:
            continue
        for hold in run.holds:
            if hold.child and hold.child not in seen:
                seen.add(hold.child)
                waiting.append(hold.child)
    return len(seen) > 1


def _cancel(parts: Parts, run: Run) -> list[e.Event]:
    if run.final or run.ending:
        return []
    now = parts.store.now()
    return settling.cancel(run, by=SAYSO, now=now, reason="the run above it is to end")
