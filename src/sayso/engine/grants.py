"""Grants, given with a decision, found for a call, used in the append that starts it.

Rule 1: a use is counted in the very append that starts the call: of two that want the last use, one
gets it.
Rule 2: whoever gave a grant must be allowed to give the same yes now, by the records of now.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.grant import GRANT, USES_MAX, Grant, item_id, may_be_granted, read_limits
from sayso.domain.hold import Hold, hold_id
from sayso.domain.people import Basis
from sayso.domain.ruling import OPERATOR, Require, duration_ms
from sayso.domain.run import Run
from sayso.domain.value import Principal, Value
from sayso.engine.keys import check_text
from sayso.engine.people import Records
from sayso.engine.ports import Tool
from sayso.engine.still import approvers_of
from sayso.errors import BadValue, NotAllowed, NotUnderstood, StaleItem, UnknownGrant
from sayso.store.base import PAGE_MAX, ItemPut, Store
from sayso.store.shelf import Item

YEAR_MS = 366 * 86_400_000
NOTE_MAX = 1000
TRIES_MAX = 20


class Always(msgspec.Struct, frozen=True, kw_only=True):
    """How far a yes goes beyond the call that it is for: `decide(..., always=Always(...))`."""

    args: Mapping[str, Any] | str = "same"
    """What later calls may be called with: `same`, `any`, or limits such as
    `{"amount": {"at_most": 100}, "memo": "any"}`; what is not named must stay the same.
    """
    scope: str = "project"
    """All of the `project`, or only this `run` and the runs below it."""
    until: datetime | str | float = "30d"
    """When it ends: a moment, or a duration. A year at most."""
    uses: int | None = None
    """How often it can be used; None: as often as it is needed."""
    note: str = ""


class Found(Value, frozen=True, kw_only=True):
    """A grant that covers a call, and what that rests on."""

    grant: Grant
    rev: int
    basis: tuple[Basis, ...]


class Grants:
    """Standing permissions: `app.grants`."""

    def __init__(self, store: Store, records: Records, project: str) -> None:
        self._store = store
        self._records = records
        self._project = project

    async def list(
        self, *, project: str | None = None, tool: str | None = None, good: bool = True
    ) -> builtins.list[Grant]:
        """List grants, of one tool if it is named; with `good`, only those that can be used."""
        where = self._project if project is None else project
        found: builtins.list[Grant] = []
        after = None if tool is None else item_id(tool, "")
        while items := await self._store.shelf.list(where, GRANT, after=after, limit=PAGE_MAX):
            mine = [one for one in items if tool is None or one.id.startswith(item_id(tool, ""))]
            found += [_read(one) for one in mine]
            if len(mine) < len(items):
                break
            after = items[-1].id
        now = self._store.now()
        return [one for one in found if one.is_good(now) or not good]

    async def revoke(
        self, grant: str | Grant, *, by: str | Principal, project: str | None = None
    ) -> Grant:
        """End a grant at once: whoever gave it may, and an operator. Calls that have started under
        it go on. Revoking twice is fine.
        """
        where = self._project if project is None else project
        name = grant.id if isinstance(grant, Grant) else grant
        person = Principal(id=by) if isinstance(by, str) else by
        if not isinstance(person, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadValue(f"{by!r} is nobody: `by` is a person's id or a Principal")
        for _ in range(TRIES_MAX):
            who = await self._records.authority(where, person)
            item = await self._find_item(where, name)
            found = _read(item)
            mine = who.by == found.by or (found.by.kind == "person" and found.by.id in who.also)
            if not who.active or not (mine or who.right([OPERATOR])):
                raise NotAllowed(f"only {found.by} or an operator may revoke {name!r}")
            if found.revoked is not None:
                return found
            ended = replace(found, revoked=self._store.now(), revoked_by=who.by)
            data = msgspec.json.encode(ended)
            try:
                await self._store.shelf.put(where, GRANT, item.id, data, rev=item.rev)
            except StaleItem:
                continue
            return ended
        raise StaleItem(f"{name!r} was used by others {TRIES_MAX} times in a row; try again")

    async def _find_item(self, project: str, name: str) -> Item:
        after: str | None = None
        while items := await self._store.shelf.list(project, GRANT, after=after, limit=PAGE_MAX):
            for one in items:
                if one.id.rpartition("/")[2] == name:
                    return one
            after = items[-1].id
        raise UnknownGrant(f"there is no grant {name!r}")

    async def covering(
        self, run: Run, tool: Tool, args: bytes, ruling: Require, lineage: Sequence[str] = ()
    ) -> Found | None:
        """Find a grant that covers a call, and that whoever gave it could give now."""
        if not may_be_granted(ruling):
            return None
        now, where = self._store.now(), run.project
        runs = (run.id, run.root, run.parent, *lineage)
        prefix = after = item_id(tool.name, "")
        # Page by page: those that are over must not hide the others.
        while items := await self._store.shelf.list(where, GRANT, after=after, limit=PAGE_MAX):
            for item in items:
                if not item.id.startswith(prefix):
                    return None
                grant = _read(item)
                covers = grant.is_good(now) and grant.covers(
                    tool_version=tool.version, args=args, runs=runs, agent=run.agent
                )
                basis = await self._basis(run, grant, ruling) if covers else None
                if basis is not None:
                    return Found(grant=grant, rev=item.rev, basis=basis)
            after = items[-1].id
        return None

    async def _basis(self, run: Run, grant: Grant, ruling: Require) -> tuple[Basis, ...] | None:
        """Give the records by which whoever gave a grant could give the same yes now, if any."""
        who = await self._records.authority(run.project, grant.by)
        right = who.right(approvers_of(run, ruling)) if who.active else None
        return None if right is None else right.basis

    def give(
        self,
        always: Always,
        run: Run,
        hold: Hold,
        *,
        ruling: Require,
        by: Principal,
        tool_version: str,
        args: bytes,
    ) -> Grant:
        """Make the grant that a decision gives; `NotAllowed` where none may be given."""
        row = run.call(hold.call)
        name = hold_id(run.id, hold.n)
        if row is None or hold.kind != "approval" or hold.then != "start":
            raise NotAllowed(f"{name!r} is not about a call that may start: nothing to grant")
        if not may_be_granted(ruling):
            raise NotAllowed(
                f"there is no standing yes to {name!r}: it is critical, or takes several persons, "
                "or others than who asked for it"
            )
        if always.scope not in ("project", "run"):
            raise BadValue(f"a grant is for the 'project' or the 'run', not {always.scope!r}")
        uses = always.uses
        if uses is not None and (type(uses) is not int or not 1 <= uses <= USES_MAX):
            raise BadValue(f"uses is a number from 1 to {USES_MAX:,}, not {uses!r}")
        check_text(always.note, "the note", NOTE_MAX)
        now = self._store.now()
        return Grant(
            id=f"grant_{os.urandom(8).hex()}",
            tool=row.tool,
            tool_version=tool_version,
            by=by,
            at=now,
            until=_until(always.until, now),
            hold=name,
            args=msgspec.Raw(args),
            limits=read_limits(always.args, args),
            run=run.id if always.scope == "run" else "",
            agent=run.agent,
            uses_max=uses,
            note=always.note,
        )


class Giving:
    """The grant that a decision gives, if it does."""

    def __init__(self, grant: Grant | None = None) -> None:
        self._grant = grant
        self._given = False

    def events(self, n: int, decided: Sequence[e.Event]) -> builtins.list[e.Event]:
        """Say so in the journal, if the hold is settled by this."""
        self._given = self._grant is not None and any(
            isinstance(one, e.HoldSettled) for one in decided
        )
        if self._grant is None or not self._given:
            return []
        return [e.GrantGiven(hold=n, grant=self._grant)]

    def items(self) -> builtins.list[ItemPut]:
        """Give what the append puts on the shelf."""
        return [put_new(self._grant)] if self._grant is not None and self._given else []


class Uses:
    """Uses of grants by one append."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[Found, int]] = {}

    def clear(self) -> None:
        """Begin anew."""
        self._times.clear()

    def take(self, found: Found) -> bool:
        """Count one more use; False if there is none left."""
        first, times = self._times.get(found.grant.item, (found, 0))
        most = first.grant.uses_max
        if first.rev != found.rev or (most is not None and first.grant.used + times >= most):
            return False
        self._times[found.grant.item] = (first, times + 1)
        return True

    def items(self) -> builtins.list[ItemPut]:
        """Give what the append puts on the shelf."""
        return [put_used(found, times) for found, times in self._times.values()]


def put_new(grant: Grant) -> ItemPut:
    """Keep a grant that was just given."""
    return ItemPut(kind=GRANT, id=grant.item, rev=0, data=msgspec.json.encode(grant))


def put_used(found: Found, times: int) -> ItemPut:
    """Count uses of a grant."""
    used = replace(found.grant, used=found.grant.used + times)
    return ItemPut(kind=GRANT, id=used.item, rev=found.rev, data=msgspec.json.encode(used))


def _until(until: datetime | str | float, now: int) -> int:
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise BadValue(f"{until} has no time zone: nobody could say when it is")
        end = int(until.timestamp() * 1000)
    else:
        end = now + duration_ms(until)
    if not now < end <= now + YEAR_MS:
        raise BadValue("a grant ends in the future, and within a year")
    return end


def _read(item: Item) -> Grant:
    try:
        return msgspec.json.decode(item.data, type=Grant)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotUnderstood(f"the grant {item.id!r} cannot be read: {error}") from None
