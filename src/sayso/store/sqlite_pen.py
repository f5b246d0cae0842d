"""The SQL of everything that writes. All of it runs on the writer thread, inside its transaction.

Rule: only columns that change are set. SQLite rewrites every index of a column that an update
names, and a commit costs what it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import apsw
import msgspec

from sayso.errors import KeyReused, StoreError, ThreadBusy
from sayso.store import chain
from sayso.store.admit import check_conditions, check_guard, check_item, make_entries
from sayso.store.base import LEASE_MS, Appended, Entry, HoldRow, ItemPut, Key, KeyRow, Write
from sayso.store.clock import Clock
from sayso.store.fair import choose
from sayso.store.lease import this_host
from sayso.store.migrate import since_of
from sayso.store.sqlite_error import not_kept
from sayso.store.sqlite_origin import SqliteOrigin
from sayso.store.sqlite_shelf import ShelfPen

if TYPE_CHECKING:
    from sayso.store.sqlite_archive import ArchivePen
    from sayso.store.sqlite_audit import AuditPen
    from sayso.store.sqlite_outbox import OutboxPen

_RUN = "select k, seq, at, hash, last, status, owner, due_at from runs where id = ?"
_NEW_RUN = """
insert into runs
    (id, project, agent, thread, status, owner, due_at, seq, at, fold, hash, last, state)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ENTRY = """
insert into journal (position, run, seq, id, at, salt, payload, hash)
values (?, ?, ?, ?, ?, ?, ?, ?)
"""
_LAST_POSITION = "select max(position) from journal"
_MOVED = """
select distinct r.id from journal j join runs r on r.k = j.run where j.position > ? limit ?
"""
_POSITION = "select position from journal where run = ? and seq = ?"
_CONTENT = "select salt, payload from journal where run = ? and seq = ?"
_REDACT = "update journal set salt = null, payload = ? where run = ? and seq = ?"
_KEY = """
select k.digest, r.id, k.seq from keys k join runs r on r.k = k.run
where k.project = ?1 and k.key = ?2
union all select digest, run_id, seq from archived_keys where project = ?1 and key = ?2
"""
_NEW_KEY = "insert into keys (project, key, digest, run, seq) values (?, ?, ?, ?, ?)"
_HOLD = "select status, who, opened, words from holds where run = ? and n = ?"
_PUT_HOLD = """
insert or replace into holds (run, n, opened, status, call, kind, tool, version, digest,
    suspension, entry, revised, args_entry, opened_at, deadline, who, decision,
    votes, escalates_at, words)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UNTITLE = """
update holds set words = iif(instr(words, char(10)), substr(words, instr(words, char(10))), '')
where run = ? and ? in (entry, revised)
"""
_AUDIENCE = "select k from audiences where who = ? and project = ?"
_NEW_AUDIENCE = "insert into audiences (who, project) values (?, ?)"
_WAIT = "insert into waiting (audience, opened, n, run) values (?, ?, ?, ?)"
_STOP_WAITING = "delete from waiting where audience = ? and opened = ? and n = ?"
_OWN = "update runs set owner = ? where k = ?"
_BEAT = """
insert into workers (id, boot, lease_until, host, seen_at) values (?, ?, ?, ?, ?)
on conflict (id) do update set boot = excluded.boot, lease_until = excluded.lease_until,
    host = excluded.host, seen_at = excluded.seen_at
"""
_LEAVE = "update runs set owner = '' where status = 'running' and owner = ?"
_FORGET = "delete from workers where id = ?"
_WORKERS = """
select id, boot from workers w
where not exists (select 1 from runs where status = 'running' and owner = w.id)
"""
MOVED_MAX = 1000
"""Beyond it, everybody is told that something has moved."""


class _Head(msgspec.Struct, gc=False):
    """Where a run is."""

    k: int
    seq: int
    at: int
    hash: bytes
    last: bytes
    status: str
    owner: str
    due_at: int | None


_NOWHERE = _Head(k=0, seq=0, at=0, hash=chain.GENESIS, last=b"", status="", owner="", due_at=None)


class Pen:
    """Writes to the store, one append after another."""

    def __init__(
        self,
        conn: apsw.Connection,
        clock: Clock,
        origin: SqliteOrigin,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._conn = conn
        self.origin = origin
        self._clock = clock
        self._lease_ms = lease_ms
        self._host = this_host()
        self.shelf = ShelfPen(conn)
        self.position = 0
        """The last position written, or seen at the last look."""

    @cached_property
    def outbox(self) -> OutboxPen:
        from sayso.store.sqlite_outbox import OutboxPen

        return OutboxPen(self._conn, self._clock, self.shelf.next_rev)

    @cached_property
    def audit(self) -> AuditPen:
        from sayso.store.sqlite_audit import AuditPen

        return AuditPen(self._conn, self._clock)

    @cached_property
    def archive(self) -> ArchivePen:
        from sayso.store.sqlite_archive import ArchivePen

        return ArchivePen(self._conn, self._clock)

    def look(self) -> int:
        """Read the last position of all."""
        self.position = cast("int", self._one(_LAST_POSITION, ())[0] or 0)
        return self.position

    def settings(self) -> dict[str, object]:
        """Read what durability rests on: it belongs to the connection that writes."""
        names = ("journal_mode", "synchronous", "foreign_keys", "user_version")
        return {"since": since_of(self._conn), **{name: self._conn.pragma(name) for name in names}}

    def moved_since(self, position: int) -> list[str]:
        """Name the runs that have entries after this position."""
        found = self._conn.execute(_MOVED, (position, MOVED_MAX)).fetchall()
        return [cast("str", run_id) for (run_id,) in found]

    def append(self, writes: tuple[Write, ...]) -> Appended:
        """Carry an append out, or raise and leave the rollback to the caller."""
        heads = [self._head(write.run) for write in writes]
        # One time for all, and never earlier than what any of the runs was told before.
        at = max(self._clock.now(), *(head.at for head in heads))
        for index, write in enumerate(writes):
            head = heads[index] if index == 0 else self._head(write.run)
            self._write(write, head, at)
        return Appended(at=at, position=self.position)

    def claim(
        self, worker: str, limit: int, agents: Sequence[str] | None, project_max: int | None
    ) -> list[str]:
        """Give free runs an owner."""
        chosen = choose(self._conn, limit, agents, project_max)
        for run in chosen:
            self._conn.execute(_OWN, (worker, run.k))
        return [run.id for run in chosen]

    def beat(self, worker: str) -> None:
        """Prolong a worker's lease."""
        tick = self._clock.tick()
        row = (worker, self._clock.boot_id(), tick + self._lease_ms, self._host, tick)
        self._conn.execute(_BEAT, row)

    def retire(self, worker: str) -> None:
        """Forget a worker and free its runs."""
        self._conn.execute(_LEAVE, (worker,))
        self._conn.execute(_FORGET, (worker,))

    def idle_workers(self) -> list[tuple[str, str]]:
        """All workers that own nothing, each with its boot id."""
        return cast("list[tuple[str, str]]", self._conn.execute(_WORKERS).fetchall())

    def forget(self, worker: str) -> None:
        """Forget a worker that owns nothing."""
        self._conn.execute(_FORGET, (worker,))

    def _one(self, sql: str, bindings: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._conn.execute(sql, bindings).fetchall()[0]

    def _head(self, run_id: str) -> _Head:
        found = self._conn.execute(_RUN, (run_id,)).fetchall()
        return _Head(*cast("Any", found[0])) if found else _NOWHERE

    def _write(self, write: Write, head: _Head, at: int) -> None:
        check_guard(write, seq=head.seq, last=head.last, owner=head.owner)
        check_conditions(write, at, self.shelf.rev)
        if write.key is not None:
            self._check_key(write.key)
        made = make_entries(write, prev=head.hash, at=at, position=self.position + 1)
        run = self._put_run(write, head, made[-1])
        rows = [(e.position, run, e.seq, e.id, at, e.salt, e.payload, e.hash) for e in made]
        self._conn.executemany(_ENTRY, rows)
        self.position = made[-1].position
        if write.key is not None:
            key = write.key
            self._conn.execute(_NEW_KEY, (key.project, key.key, key.digest, run, made[0].seq))
        for hold in write.holds:
            self._put_hold(write, run, hold, made)
        for seq in write.redacts:
            self._redact(run, seq)
        for item in write.items:
            self._put_item(write, item)
        if write.parcels or write.unparcels:
            self.outbox.post(write, run)

    def _put_item(self, write: Write, item: ItemPut) -> None:
        check_item(write, item, self.shelf.rev)
        if item.data is None:
            self.shelf.drop(write.project, item.kind, item.id, None)
        else:
            self.shelf.keep(write.project, item.kind, item.id, item.data)

    def _check_key(self, key: Key) -> None:
        found = self._conn.execute(_KEY, (key.project, key.key)).fetchall()
        if found:
            digest, run_id, seq = cast("tuple[str, str, int]", found[0])
            raise KeyReused(
                f"the key {key.key!r} was used before",
                found=KeyRow(digest=digest, run_id=run_id, seq=seq),
            )

    def _put_run(self, write: Write, head: _Head, last: Entry) -> int:
        owner = head.owner if write.owner is None else write.owner
        try:
            if not head.k:
                self._conn.execute(
                    _NEW_RUN,
                    (
                        write.run,
                        write.project,
                        write.agent,
                        write.thread or None,
                        write.status,
                        owner,
                        write.due_at,
                        last.seq,
                        last.at,
                        write.fold,
                        last.hash,
                        last.id,
                        write.state,
                    ),
                )
                return self._conn.last_insert_rowid()
            changed = (
                write.status != head.status,
                owner != head.owner,
                write.due_at != head.due_at,
            )
            values = [last.seq, last.at, last.hash, last.id, write.fold, write.state]
            maybe = zip(changed, (write.status, owner, write.due_at), strict=True)
            values += [value for is_changed, value in maybe if is_changed]
            self._conn.execute(_update_run(*changed), (*values, head.k))
        except apsw.ConstraintError as error:
            self.archive.check(write.run, write.project, write.thread)
            raise _refused(error, write) from None
        return head.k

    def _put_hold(self, write: Write, run: int, hold: HoldRow, made: list[Entry]) -> None:
        found: list[Any] = []
        if hold.entry > write.after:
            opened = _opened_now(write, hold, made)
        else:
            found = self._conn.execute(_HOLD, (run, hold.n)).fetchall()
            opened = self._opened(run, hold) if not found else cast("int", found[0][2])
        who = msgspec.json.encode(hold.who).decode()
        waits = hold.status != "settled"
        words = hold.words
        if found:
            status, who_was, _, words_were = found[0]
            words = words_were if words is None else words
            waited = status != "settled"
            if waited and (not waits or who_was != who):
                was = msgspec.json.decode(cast("str", who_was), type=list[str])
                self._each_audience(_STOP_WAITING, write.project, was, (opened, hold.n))
            waits = waits and not (waited and who_was == who)
        self._conn.execute(
            _PUT_HOLD,
            (
                run,
                hold.n,
                opened,
                hold.status,
                hold.call,
                hold.kind,
                hold.tool,
                hold.version,
                pack_digest(hold.digest),
                hold.suspension,
                hold.entry,
                hold.revised,
                hold.args_entry,
                hold.opened_at,
                hold.deadline,
                who,
                hold.decision,
                hold.votes,
                hold.escalates_at,
                words or "",
            ),
        )
        if waits:
            self._each_audience(_WAIT, write.project, hold.who, (opened, hold.n, run))

    def _opened(self, run: int, hold: HoldRow) -> int:
        found = self._conn.execute(_POSITION, (run, hold.entry)).fetchall()
        if not found:
            raise StoreError(f"hold {hold.n} of {hold.run_id!r} names an entry that is not there")
        return cast("int", found[0][0])

    def _each_audience(
        self, sql: str, project: str, who: list[str] | tuple[str, ...], rest: tuple[int, ...]
    ) -> None:
        for name in dict.fromkeys(who):
            found = self._conn.execute(_AUDIENCE, (name, project)).fetchall()
            if not found:
                self._conn.execute(_NEW_AUDIENCE, (name, project))
            audience = found[0][0] if found else self._conn.last_insert_rowid()
            self._conn.execute(sql, (audience, *rest))

    def _redact(self, run: int, seq: int) -> None:
        found = self._conn.execute(_CONTENT, (run, seq)).fetchall()
        if not found:
            raise StoreError(f"there is no entry {seq} to redact")
        salt, payload = cast("tuple[bytes | None, bytes]", found[0])
        if salt is not None:
            self._conn.execute(_REDACT, (chain.leaf(salt, payload), run, seq))
        self._conn.execute(_UNTITLE, (run, seq))


def _opened_now(write: Write, hold: HoldRow, made: list[Entry]) -> int:
    """Give the position of the entry that opens a hold in this very write."""
    index = hold.entry - write.after - 1
    if index >= len(made):
        raise StoreError(f"hold {hold.n} of {hold.run_id!r} names an entry that is not there")
    return made[index].position


@cache
def _update_run(status: bool, owner: bool, due_at: bool) -> str:  # noqa: FBT001
    names = ["seq", "at", "hash", "last", "fold", "state"]
    names += ["status"] * status + ["owner"] * owner + ["due_at"] * due_at
    return f"update runs set {', '.join(f'{name} = ?' for name in names)} where k = ?"  # noqa: S608


def _refused(error: apsw.ConstraintError, write: Write) -> Exception:
    if "runs.project, runs.thread" in str(error):
        return ThreadBusy(f"the thread {write.thread!r} is busy with another run")
    return not_kept(error, f"the write to {write.run!r} cannot be kept")


def pack_digest(digest: str) -> str | bytes:
    """Keep a digest in half the bytes, if it is one of ours."""
    try:
        packed = bytes.fromhex(digest)
    except ValueError:
        return digest
    return packed if packed.hex() == digest else digest


def unpack_digest(kept: str | bytes) -> str:
    """Read such a digest back."""
    return kept if isinstance(kept, str) else kept.hex()
