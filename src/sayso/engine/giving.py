"""A decision that gives a grant: what has to be known before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sayso.domain.hold import Approved
from sayso.domain.secret import is_sealed
from sayso.engine.edit import Edit
from sayso.engine.grants import Giving
from sayso.engine.parts import Parts
from sayso.errors import NotAllowed, WrongVerdict
from sayso.store.views import hold_view

if TYPE_CHECKING:
    from sayso.engine.request import Decide


async def giving_of(
    parts: Parts, run_id: str, ns: Sequence[int], request: Decide, edit: Edit | None
) -> Giving:
    """Make ready the grant that a decision is to give, if it is."""
    if request.always is None:
        return Giving()
    if len(ns) != 1 or not isinstance(request.verdict, Approved):
        raise WrongVerdict("always= goes with approve() of one hold")
    if request.undo_ms:
        raise WrongVerdict("a grant counts at once, and is revoked: leave out undo=")
    found = await parts.store.hold(run_id, ns[0])
    if found is None:
        return Giving()  # There is none, as will be said.
    shown = hold_view(found)
    if shown.operands:
        raise NotAllowed("there is no standing yes to what files say: they may say otherwise")
    ruling = shown.ruling if edit is None else edit.ruling
    run = await parts.ledger.load(run_id)
    hold = run.hold(ns[0])
    if hold is None:
        return Giving()  # It is not open, as will be said.
    transcript = await parts.ledger.transcript(run_id)
    args = transcript.args[hold.call] if edit is None else edit.args
    if is_sealed(args):
        raise NotAllowed("there is no standing yes to a call with secrets among its arguments")
    grant = parts.grants.give(
        request.always,
        run,
        hold,
        ruling=ruling,
        by=await parts.records.acting(run.project, request.by),
        tool_version=transcript.tool_versions.get(hold.call, ""),
        args=args,
    )
    return Giving(grant)
