"""The SQL of everything that reads, on a connection of its own, on the event loop's thread.

Rule: every cursor is read to its end at once. An unfinished one would stay in its old snapshot, and
keep the log from being cleared.
"""

# ruff: noqa: S608 - statements are put together from the constants below, never from data.

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import apsw
import msgspec

from sayso.errors import StoreDamaged
from sayso.store.admit import check_hold_query, page_size, read_hold_key
from sayso.store.base import Entry, HoldFound, KeyRow, RunRow
from sayso.store.columns import DIGEST, WHO, WORDS, Found, asked_of, entry_of, hold_of, run_of
from sayso.store.fair import choose
from sayso.store.sqlite_file import close
from sayso.store.sqlite_pen import unpack_digest
from sayso.store.sqlite_shelf import ShelfReader
from sayso.store.transfer import MARK, Mark, read_mark

if TYPE_CHECKING:
    from sayso.store.query import Asked, HoldQuery, RunQuery
    from sayso.store.sqlite_archive import ArchiveReader
    from sayso.store.sqlite_audit import AuditReader
    from sayso.store.sqlite_outbox import OutboxReader

_RUN = """
id, project, agent, coalesce(thread, ''), status, seq, hash, last, fold, state, due_at, owner
"""
_ENTRY = "{0}.seq, {0}.position, {0}.id, {0}.at, {0}.salt, {0}.payload, {0}.hash"
_E = _ENTRY.format("j")

_LOAD = f"select {_RUN} from runs where id = ?"
_THREAD = f"select {_RUN} from runs where project = ? and thread = ? order by k desc limit 1"
_JOURNAL = f"""
select {_E} from runs r join journal j on j.run = r.k
where r.id = ? and j.seq > ? order by j.seq limit ?
"""
_TAIL = f"""
select coalesce(r.id, ''), {_E} from journal j left join runs r on r.k = j.run
where j.position > ? order by j.position limit ?
"""
_KEY = """
select k.digest, r.id, k.seq from keys k join runs r on r.k = k.run
where k.project = ?1 and k.key = ?2
union all select digest, run_id, seq from archived_keys where project = ?1 and key = ?2
"""
_DUE = "select id from runs where due_at <= ? order by due_at, k limit ? offset ?"
_OWNED = """
select r.id, r.agent, r.owner, w.boot, w.lease_until
from runs r left join workers w on w.id = r.owner
where r.status = 'running' and r.owner > '' order by r.owner, r.k
"""
_SIGHT = "select boot, lease_until, seen_at, host from workers where id = ?"
_WORKERS = """
select r.owner, w.boot, w.lease_until, count(*)
from runs r left join workers w on w.id = r.owner
where r.status = 'running' and r.owner > '' group by r.owner
union all
select id, boot, lease_until, 0 from workers w
where not exists (select 1 from runs where status = 'running' and owner = w.id)
order by 1
"""
_FREE = "select count(*) from runs where status = 'running' and owner = ''"
_LAST_AT = "select at from journal order by position desc limit 1"
_HOLD = f"""
select r.id, r.project, r.agent,
    h.n, h.opened, h.status, h.call, h.kind, h.tool, h.version, h.digest, h.suspension, h.entry,
    h.revised, h.args_entry, h.opened_at, h.deadline, h.who, h.decision, h.votes,
    h.escalates_at, h.words,
    {_ENTRY.format("o")}, {_ENTRY.format("a")}, {_ENTRY.format("v")}
from {{source}}
join runs r on r.k = h.run
join journal o on o.position = h.opened
join journal a on a.run = h.run and a.seq = h.args_entry
left join journal v on v.run = h.run and v.seq = h.revised
"""
_ONE_HOLD = _HOLD.format(source="holds h") + "where r.id = ? and h.n = ?"
_HOLDS_OF_RUN = _HOLD.format(source="holds h") + "where r.id = ? order by h.opened, h.n"
_HOLDS_LISTED = (
    _HOLD.format(source="holds h")
    + """
where (h.status = 'settled') = ? and (h.opened, h.n) > (?, ?) and (? is null or r.project = ?)
{match} order by h.opened, h.n limit ?
"""
)
_AUDIENCES = "select k from audiences where who = ? and (? is null or project = ?)"
_WAITING = """
select * from (
    select opened, n, run from waiting
    where audience = ? and (opened, n) > (?, ?) order by opened, n limit ?
)
"""
_ASKED = """
select w.audience, w.opened, w.n, coalesce(r.id, ''), coalesce(a.who, ''), h.who
from waiting w left join audiences a on a.k = w.audience left join runs r on r.k = w.run
left join holds h on h.run = w.run and h.n = w.n and h.opened = w.opened
    and h.status <> 'settled' and r.project = a.project
where (w.audience, w.opened, w.n) > (?, ?, ?) order by w.audience, w.opened, w.n limit ?
"""
# From the first waiting one on: sorting those that match would take finding them all.
_WAITING_MATCH = """
select * from (
    select p.opened, p.n, p.run from waiting p
    cross join holds h on h.run = p.run and h.n = p.n
    cross join runs r on r.k = p.run
    where p.audience = ? and (p.opened, p.n) > (?, ?) {match} order by p.opened, p.n limit ?
)
"""
# As `words.has_words` has it. Ids are of plain letters, which SQLite can fold itself; only some
# words can be in the id of a hold or a request and not in that of the run, and cost more.
_MATCH = "and (instr(h.words, ?) or instr(lower(r.id), ?))"
_MATCH_IDS = """
and (instr(h.words, ?) or instr(lower('hold_' || substr(r.id, 5) || '.' || h.n || char(10)
    || r.id || char(10) || 'req_' || substr(r.id, 5) || '.' || h.suspension), ?))
"""


class Reader:
    """Reads the store as of the last commit."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        self.shelf = ShelfReader(conn)

    @cached_property
    def outbox(self) -> OutboxReader:
        from sayso.store.sqlite_outbox import OutboxReader

        return OutboxReader(self._conn)

    @cached_property
    def audit(self) -> AuditReader:
        from sayso.store.sqlite_audit import AuditReader

        return AuditReader(self._conn)

    @cached_property
    def archive(self) -> ArchiveReader:
        from sayso.store.sqlite_archive import ArchiveReader

        return ArchiveReader(self._conn)

    def close(self) -> None:
        close(self._conn)

    def load(self, run_id: str) -> RunRow | None:
        found = self._all(_LOAD, (run_id,))
        return run_of(found[0]) if found else self.archive.check_run(run_id)

    def mark(self) -> Mark | None:
        return read_mark(self._all(MARK, ()))

    def thread(self, project: str, thread: str) -> RunRow | None:
        found = self._all(_THREAD, (project, thread))
        return run_of(found[0]) if found else self.archive.check_thread(project, thread)

    def journal(self, run_id: str, after: int, limit: int) -> list[Entry]:
        found = self._all(_JOURNAL, (run_id, after, page_size(limit)))
        if not found and not after:
            self.archive.check_run(run_id)
        return [entry_of(run_id, row) for row in found]

    def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        wanted = sorted(set(seqs))
        found = self._all(_entries_sql(len(wanted)), (run_id, *wanted))
        return [entry_of(run_id, row) for row in found]

    def tail(self, after: int, limit: int) -> list[Entry]:
        return [entry_of(row[0], row[1:]) for row in self._all(_TAIL, (after, page_size(limit)))]

    def key(self, project: str, key: str) -> KeyRow | None:
        found = self._all(_KEY, (project, key))
        return KeyRow(digest=found[0][0], run_id=found[0][1], seq=found[0][2]) if found else None

    def due(self, now: int, skip: int, limit: int) -> list[str]:
        return [row[0] for row in self._all(_DUE, (now, page_size(limit), skip))]

    def has_free(self, agents: Sequence[str] | None, project_max: int | None) -> bool:
        return bool(choose(self._conn, 1, agents, project_max))

    def owned(self) -> list[tuple[str, str, str, str | None, int | None]]:
        """Every running run that has an owner: run, agent, worker, its boot id and its lease."""
        return cast("Any", self._all(_OWNED, ()))

    def sight(self, worker: str) -> tuple[str, int, int | None, str] | None:
        """Read a worker's boot id, its lease, when it was last heard of, and where."""
        found = self._all(_SIGHT, (worker,))
        return cast("Any", found[0]) if found else None

    def workers(self) -> list[tuple[str, str | None, int | None, int]]:
        """Every worker, and everyone who owns a running run: its boot id, its lease, how many."""
        return cast("Any", self._all(_WORKERS, ()))

    def free(self) -> int:
        """How many runs are running and have no owner."""
        return self._all(_FREE, ())[0][0]

    def last_at(self) -> int:
        """Store time of the last entry of all."""
        found = self._all(_LAST_AT, ())
        return found[0][0] if found else 0

    def runs(self, query: RunQuery) -> list[RunRow]:
        where, bindings = ["1"], list[Any]()
        for name in ("project", "status", "agent", "thread"):
            value = getattr(query, name)
            if value is not None:
                where.append(f"coalesce({name}, '') = ?" if value == "" else f"{name} = ?")
                bindings.append(value)
        if query.status is not None and query.status != "running":
            where.append("owner = ''")  # True of them all, and lets the index give the order.
        if query.before is not None:
            where.append("k < (select k from runs where id = ?)")
            bindings.append(query.before)
        sql = f"select {_RUN} from runs where {' and '.join(where)} order by k desc limit ?"
        return [run_of(row) for row in self._all(sql, (*bindings, page_size(query.limit)))]

    def hold(self, run_id: str, n: int) -> HoldFound | None:
        found = self._all(_ONE_HOLD, (run_id, n))
        return _hold(found[0]) if found else self.archive.check_run(run_id)

    def holds(self, query: HoldQuery) -> list[HoldFound]:
        check_hold_query(query)
        after = read_hold_key(query.after, newest=query.newest)
        if query.run_id is not None:
            return self._holds_of_run(query, after)
        if query.status == "open" and query.who is not None:
            return self._holds_for(query, query.who, after)
        return self._holds_listed(query, after)

    def asked(self, after: tuple[int, int, int], limit: int) -> list[Asked]:
        found = self._all(_ASKED, (*after, page_size(limit)))
        return [asked_of(row[:5], _names(row[5])) for row in found]

    def _holds_of_run(self, query: HoldQuery, after: tuple[int, int]) -> list[HoldFound]:
        from sayso.store.query import turn

        sql = turn(_HOLDS_OF_RUN) if query.newest else _HOLDS_OF_RUN
        found = [_hold(row) for row in self._all(sql, (query.run_id,))]
        from sayso.store.words import has_words

        return [
            hold
            for hold in found
            if query.follows(_place(hold), after)
            and has_words(query.search, hold.row)
            and query.project in (None, hold.project)
            and query.suspension in (None, hold.row.suspension)
            and (
                query.status == "any" or (hold.row.status == "settled") == (query.status != "open")
            )
            and _may(query.who, hold)
        ][: page_size(query.limit)]

    def _holds_for(
        self, query: HoldQuery, who: tuple[str, ...], after: tuple[int, int]
    ) -> list[HoldFound]:
        """List the open holds that one of these may decide: the inbox."""
        audiences = [
            row[0]
            for name in dict.fromkeys(who)
            for row in self._all(_AUDIENCES, (name, query.project, query.project))
        ]
        if not audiences:
            return []
        limit = page_size(query.limit)
        wanted, match = _match(query.search)
        bindings = [value for k in audiences for value in (k, *after, *wanted, limit)]
        sql = _waiting_sql(len(audiences), match, newest=query.newest)
        found = self._all(sql, (*bindings, limit))
        # Sorted here: SQLite would sort the whole wide rows, and take longer than for all the rest.
        return sorted((_hold(row) for row in found), key=_place, reverse=query.newest)

    def _holds_listed(self, query: HoldQuery, after: tuple[int, int]) -> list[HoldFound]:
        limit = page_size(query.limit)
        settled = {"open": (0,), "settled": (1,), "any": (0, 1)}[query.status]
        pages = [self._holds_page(query, flag, after, limit) for flag in settled]
        return list(heapq.merge(*pages, key=_place, reverse=query.newest))[:limit]

    def _holds_page(
        self, query: HoldQuery, settled: int, after: tuple[int, int], limit: int
    ) -> list[HoldFound]:
        page: list[HoldFound] = []
        wanted, match = _match(query.search)
        sql = _HOLDS_LISTED.format(match=match)
        from sayso.store.query import turn

        sql = turn(sql) if query.newest else sql
        while True:
            bindings = (settled, *after, query.project, query.project, *wanted, limit)
            found = [_hold(row) for row in self._all(sql, bindings)]
            page += [hold for hold in found if _may(query.who, hold)]
            if len(page) >= limit or len(found) < limit:
                return page[:limit]
            after = _place(found[-1])

    def _all(self, sql: str, bindings: tuple[Any, ...]) -> list[Found]:
        found: list[Found] = self._conn.execute(sql, bindings).fetchall()
        return found


@cache
def _entries_sql(count: int) -> str:
    marks = ", ".join("?" * count)
    return f"""
    select {_E} from runs r join journal j on j.run = r.k
    where r.id = ? and j.seq in ({marks}) order by j.seq
    """


@cache
def _waiting_sql(audiences: int, match: str, *, newest: bool) -> str:
    one = _WAITING_MATCH.format(match=match) if match else _WAITING
    picked = " union ".join([one] * audiences)
    source = f"({picked} order by 1, 2 limit ?) p join holds h on h.run = p.run and h.n = p.n"
    sql = _HOLD.format(source=source)
    from sayso.store.query import turn

    return turn(sql) if newest else sql


def _hold(row: Found) -> HoldFound:
    digest, who = unpack_digest(row[DIGEST]), _who(row[WHO])
    return hold_of(row, digest=digest, who=who, words=row[WORDS])


def _who(text: str) -> tuple[str, ...]:
    try:
        return _WHO.decode(text)
    except ValueError:
        raise StoreDamaged(f"{text!r} is not who may decide a hold") from None


def _names(text: str | None) -> tuple[str, ...]:
    """Read who may decide a hold, if there is one: nobody, if that cannot be read."""
    try:
        return () if text is None else _who(text)
    except StoreDamaged:
        return ()


def _match(search: Sequence[str]) -> tuple[list[str], str]:
    """Give the words to bind, and what they are bound to: the longest first, as the rarest."""
    words = sorted(search, key=len, reverse=True)
    from sayso.store.words import is_of_ids

    matches = [_MATCH_IDS if is_of_ids(word) else _MATCH for word in words]
    return [word for word in words for _ in range(2)], " ".join(matches)


def _place(hold: HoldFound) -> tuple[int, int]:
    return hold.opened.position, hold.row.n


def _may(who: tuple[str, ...] | None, hold: HoldFound) -> bool:
    return who is None or not set(who).isdisjoint(hold.row.who)


_WHO = msgspec.json.Decoder(tuple[str, ...])
