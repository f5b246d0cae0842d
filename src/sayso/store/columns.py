"""From the columns that every SQL store selects to rows: one order of columns for all of them."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from sayso.store.admit import hold_key
from sayso.store.base import Entry, HoldFound, HoldRow, RunRow

if TYPE_CHECKING:
    from sayso.store.query import Asked

Found = tuple[Any, ...]
DIGEST, WHO, WORDS = 10, 17, 21
"""Where a hold has what each store keeps in its own way,"""
ENTRY, REVISED, ARGS = 12, 13, 14
"""and the numbers of its entries."""


def run_of(row: Found) -> RunRow:
    """Read a run's row."""
    run_id, project, agent, thread, status, seq, head, last, fold, state, due_at, owner = row
    return RunRow(
        id=run_id,
        project=project,
        agent=agent,
        thread=thread,
        status=status,
        seq=seq,
        hash=head,
        last=last,
        fold=fold,
        state=state,
        due_at=due_at,
        owner=owner,
    )


def entry_of(run_id: str, row: Found) -> Entry:
    """Read an entry of a run."""
    seq, position, entry_id, at, salt, payload, link = row
    return Entry(
        run_id=run_id,
        seq=seq,
        position=position,
        id=entry_id,
        at=at,
        salt=b"" if salt is None else salt,
        payload=payload,
        hash=link,
        redacted=salt is None,
    )


def asked_of(row: Found, who: Container[str]) -> Asked:
    """Read who is told of a hold, with those who may decide it: nobody, if it is not open."""
    from sayso.store.query import Asked

    audience, opened, n, run_id, name = row
    return Asked(run_id=run_id, n=n, who=name, fits=name in who, place=(audience, opened, n))


def hold_of(row: Found, *, digest: str, who: tuple[str, ...], words: str) -> HoldFound:
    """Read a hold with its entries; each store keeps `digest`, `who` and `words` in its own way."""
    run_id, project, agent, n, opened, status, call, kind, tool, version = row[:10]
    suspension, entry, revised, args_entry, opened_at, deadline = row[11:17]
    decision, votes, escalates_at = row[18:21]
    return HoldFound(
        row=HoldRow(
            run_id=run_id,
            n=n,
            call=call,
            kind=kind,
            tool=tool,
            version=version,
            digest=digest,
            status=status,
            suspension=suspension,
            entry=entry,
            revised=revised,
            args_entry=args_entry,
            opened_at=opened_at,
            deadline=deadline,
            who=who,
            decision=decision,
            votes=votes,
            escalates_at=escalates_at,
            words=words,
        ),
        project=project,
        agent=agent,
        opened=entry_of(run_id, row[22:29]),
        revision=None if row[36] is None else entry_of(run_id, row[36:43]),
        args=entry_of(run_id, row[29:36]),
        key=hold_key(opened, n),
    )
