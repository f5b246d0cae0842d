"""Where auditors come in: `app.audit`."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime

from sayso.domain.ruling import duration_ms
from sayso.domain.value import Principal
from sayso.engine.archive import Archived, archive
from sayso.engine.door import Refused, guarded, read_attempt
from sayso.engine.evidence import Asked, Line, lines
from sayso.engine.handle import RunHandle
from sayso.engine.ids import look_up
from sayso.engine.keys import check_text
from sayso.engine.name import read_person, read_run
from sayso.engine.parts import Parts
from sayso.engine.retain import Retained, retain
from sayso.engine.seal_file import Path, check_outside, keep_outside, open_lines
from sayso.engine.sealer import Sealer
from sayso.errors import BadKeys, BadPolicy, BadValue, NotAllowed
from sayso.store.audit import Report, verify
from sayso.store.seal import Seal
from sayso.store.seal_key import Signer, public_keys, read_key
from sayso.store.views import RunView

REASON_MAX = 10_000


class AuditDesk:
    """Checks and seals a store, says who decided what and who was refused, and erases what is old.

    It shows all projects of a store, and lets whoever has it: give it to nobody who may not see
    them.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sealer = Sealer(parts.store, parts.vault, parts.bounds.seal_every_s)

    async def verify(
        self,
        *,
        seals: Path | None = None,
        keys: Iterable[str] = (),
        archives: Path | None = None,
        progress: Callable[[Report], None] | None = None,
    ) -> Report:
        """Check every chain, row and seal; `report.ok` says whether all is as it was written.

        `seals` is a file of seals that was kept elsewhere, `keys` are the public keys to trust; by
        default, those of the store's own key ring. `archives` is the directory that archives are in
        by now, if they are not where they were made.
        """
        trusted = self._trusted(keys)
        store = self._parts.store
        where = None if archives is None else pathlib.Path(archives)
        if seals is None:
            return await verify(store, progress, trusted=trusted, archives=where)
        with open_lines(seals) as copies:
            return await verify(store, progress, trusted=trusted, copies=copies, archives=where)

    async def seal(self, *, out: Path | None = None) -> Seal | None:
        """Seal everything that is not sealed yet; give the last seal that was made, if one was.

        With `out`, add all seals that the file does not have to it: keep it where whoever can write
        the store cannot. `StoreRestored` if it has one that this store has lost.
        """
        if out is not None:
            # Before anything is sealed that the file could not follow any more.
            await check_outside(self._parts.store, out)
        made = await self._sealer.seal()
        if out is not None:
            await keep_outside(self._parts.store, out)
        return made

    async def key(self) -> str:
        """Give the public key that seals are signed with; the key ring is made if there is none."""
        return Signer(self._parts.vault.keys()).public

    def export(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        run: str | RunHandle | RunView | None = None,
        project: str | None = None,
        names: Mapping[str, str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> AsyncIterator[Line]:
        """Say who decided what, a line each, in the order of the commits. No line has an argument
        or an answer in it. `names` says what people are called, by their ids; otherwise
        their records do.
        """
        asked = Asked(
            since=_ms(since),
            until=_ms(until),
            run=None if run is None else look_up(read_run(run)),
            project=project,
        )
        return lines(self._parts.store, asked, names, progress, self._parts.records)

    async def refused(
        self, *, project: str | None = None, after: int = 0, limit: int = 50
    ) -> list[Refused]:
        """List who was refused what, oldest first, from the entry after a number on."""
        found = await self._parts.store.door.list(project, after=after, limit=limit)
        return [read_attempt(entry) for entry in found]

    async def retain(
        self,
        older_than: str | float,
        *,
        by: str | Principal,
        dry_run: bool = False,
        project: str | None = None,
        reason: str | None = None,
        progress: Callable[[Retained], None] | None = None,
    ) -> Retained:
        """Erase what is said in runs that were finished longer ago than this; with `dry_run`, only
        say how many. That they were there, who decided and when, and every hash remain: chains and
        seals still verify. It can be interrupted and done again.
        """
        return await _retain(
            self._parts,
            older_than,
            by=read_person(by),
            dry_run=dry_run,
            project=project,
            reason=reason,
            progress=progress,
        )

    async def archive(
        self,
        before: str | float,
        to: Path,
        *,
        by: str | Principal,
        dry_run: bool = False,
        project: str | None = None,
        progress: Callable[[Archived], None] = lambda _: None,
    ) -> Archived:
        """Have runs that were finished longer ago than `before` leave the store for files in the
        directory `to`; with `dry_run`, only say how many. What is in a file still verifies, and so
        does the store. It can be interrupted and done again.
        """
        return await _archive(
            self._parts,
            before,
            by=read_person(by),
            to=pathlib.Path(to),
            dry_run=dry_run,
            project=project,
            progress=progress,
        )

    def _trusted(self, keys: Iterable[str]) -> list[str]:
        given = [read_key(key) for key in keys]
        if given:
            return given
        try:
            return list(public_keys(self._parts.vault.look()))
        except BadKeys:
            return []  # That is a fault as soon as there is a seal.


@guarded("archive", named=False)
async def _archive(
    parts: Parts,
    before: str | float,
    *,
    by: Principal,
    to: pathlib.Path,
    dry_run: bool,
    project: str | None,
    progress: Callable[[Archived], None],
) -> Archived:
    if by.kind == "agent":
        raise NotAllowed(f"{by} may not archive anything: that is for people and services")
    return await archive(
        parts,
        before=parts.store.now() - _age(before),
        to=to,
        project=project,
        dry_run=dry_run,
        progress=progress,
    )


@guarded("retain", named=False)
async def _retain(
    parts: Parts,
    older_than: str | float,
    *,
    by: Principal,
    dry_run: bool,
    project: str | None,
    reason: str | None,
    progress: Callable[[Retained], None] | None,
) -> Retained:
    age = _age(older_than)
    reason = f"older than {older_than}" if reason is None else reason
    check_text(reason, "the reason", REASON_MAX)
    return await retain(
        parts,
        before=parts.store.now() - age,
        by=by,
        reason=reason,
        project=project,
        dry_run=dry_run,
        progress=progress,
    )


def _age(text: str | float) -> int:
    try:
        return duration_ms(text)
    except BadPolicy as error:
        raise BadValue(str(error)) from None


def _ms(when: datetime | None) -> int | None:
    if when is None:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return int(when.timestamp() * 1000)
