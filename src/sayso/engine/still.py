"""Whether what allowed a call still does: asked again of the records when it is about to start.

A yes is worth what stands behind it now. Whoever has lost a role, was shut out, or does not count
under the rules of today, has allowed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from sayso.domain.hold import Decision
from sayso.domain.people import Authority, Basis, Right, resolve_names, unrecorded
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.standing import says_yes
from sayso.domain.transcript import Transcript
from sayso.domain.value import CLOCK, Value
from sayso.engine.people import Records


class Still(Value, frozen=True, kw_only=True):
    """Whether a call may start on what was decided: `why` says why not."""

    why: str = ""
    basis: tuple[Basis, ...] = ()
    """The records by which it may."""


async def still_allowed(
    records: Records | None,
    run: Run,
    row: CallRow,
    ruling: Require,
    transcript: Transcript,
    *,
    now: int,
) -> Still:
    """Tell whether those who allowed a call still may, and are as many as it takes."""
    if row.start_by is not None and now >= row.start_by:
        return Still(why="it was not started in time")
    approvals = transcript.approvals.get(row.ref, [])
    if not approvals or not says_yes(approvals[-1].verdict):
        return Still(why="its rules were changed")
    if approvals[-1].by == CLOCK:
        silent = ruling.on_silence == "approve"
        return Still() if silent else Still(why="its rules were changed")
    named = approvers_of(run, ruling)
    handed = transcript.handed.get(row.ref, {})
    requesters = {run.by.id, row.by, row.editor} - {""}
    counted: set[str] = set()
    basis: list[Basis] = []
    said = 0
    for decision in approvals:
        who = await authority_of(records, run.project, decision)
        right = _right(who, named, handed)
        if right is None or (ruling.not_requester and who.is_one_of(requesters)):
            continue
        # Who they are known to be now counts as well as who they were taken for.
        persons = {*decision.persons, who.by.id, right.of} - {""}
        if not counted.isdisjoint(persons):
            continue
        counted |= persons
        basis += right.basis
        said += 1
    if said < ruling.quorum:
        few = said < len(approvals)
        return Still(why="somebody lost the right to allow it" if few else "its rules were changed")
    return Still(basis=tuple(dict.fromkeys(basis)))


def approvers_of(run: Run, ruling: Require) -> tuple[str, ...]:
    """Name all whom a ruling lets decide sooner or later."""
    later = [name for step in ruling.escalations for name in step.to]
    return resolve_names((*(ruling.approvers or ("owner",)), *later), run.by)


async def authority_of(records: Records | None, project: str, decision: Decision) -> Authority:
    """Say what whoever decided may do now."""
    if records is None:
        return unrecorded(decision.by)
    return await records.authority(project, decision.by)


def _right(who: Authority, named: Iterable[str], handed: dict[str, str]) -> Right | None:
    if not who.active or who.by.kind != "person":
        return None
    names = set(named)
    # Who is asked by name may have named somebody else, who then has that right.
    taken = [to for to, origin in handed.items() if origin in names and origin.startswith("user:")]
    return who.right(names) or who.right(taken)
