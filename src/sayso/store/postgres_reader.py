"""The SQL of everything that reads: a statement a question, so that each sees one moment."""

# ruff: noqa: S608 - statements are put together from the constants below, never from data.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sayso.store.admit import check_hold_query, page_size, read_hold_key
from sayso.store.base import Entry, HoldFound, KeyRow, RunRow
from sayso.store.columns import (
    ARGS,
    DIGEST,
    ENTRY,
    REVISED,
    WHO,
    WORDS,
    Found,
    asked_of,
    entry_of,
    hold_of,
    run_of,
)
from sayso.store.look import Look, Wish
from sayso.store.postgres_archive import PostgresArchives
from sayso.store.postgres_lane import Lane
from sayso.store.postgres_link import Link
from sayso.store.postgres_look import Looks
from sayso.store.query import Asked, HoldQuery, RunQuery, turn

_RUN = """
id, project, agent, coalesce(thread, ''), status, seq, hash, last, fold, state, due_at, owner
"""
_ENTRY = "{0}.seq, {0}.position, {0}.id, {0}.at, {0}.salt, {0}.payload, {0}.hash"
_E = _ENTRY.format("j")
_LOAD = f"""
select q.o, {_RUN} from unnest(%s::text[]) with ordinality q (asked, o) join runs on id = q.asked
"""
_THREAD = f"select {_RUN} from runs where project = %s and thread = %s order by k desc limit 1"
_JOURNAL = f"""
select q.o, {_E} from unnest(%s::text[], %s::bigint[], %s::bigint[])
    with ordinality q (asked, after, most, o)
join runs r on r.id = q.asked
cross join lateral (
    select * from journal where run = r.k and seq > q.after order by seq limit q.most
) j
order by q.o, j.seq
"""
# One by one: by `any` and in order, servers before 17 would read the whole journal of the run.
_ENTRIES = f"""
select {_E} from runs r cross join unnest(%s::bigint[]) q (asked)
cross join lateral (select * from journal where run = r.k and seq = q.asked offset 0) j
where r.id = %s
"""
_TAIL = f"""
select coalesce(r.id, ''), {_E} from journal j left join runs r on r.k = j.run
where j.position > %s order by j.position limit %s
"""
_KEY = """
select k.digest, r.id, k.seq from keys k join runs r on r.k = k.run
where k.project = %(project)s and k.key = %(key)s
union all
select digest, run_id, seq from archived_keys where project = %(project)s and key = %(key)s
"""
# A time of its own for every row would be one that no index knows.
_DUE = """
select id from runs where due_at <= (select now_ms(%s::bigint))
order by due_at, k limit %s offset %s
"""
_OWNED = """
select r.id, r.agent, r.owner, w.boot, w.lease_until <= tick_ms(%s::bigint)
from runs r left join workers w on w.id = r.owner
where r.status = 'running' and r.owner > '' order by r.owner, r.k
"""
_SIGHT = """
select boot, lease_until <= tick_ms(%(tick)s::bigint), tick_ms(%(tick)s::bigint) - seen_at, host
from workers where id = %(worker)s
"""
_WORKERS = """
select r.owner, w.boot, w.lease_until <= tick_ms(%(tick)s::bigint), count(*)
from runs r left join workers w on w.id = r.owner
where r.status = 'running' and r.owner > '' group by r.owner, w.boot, w.lease_until
union all
select id, boot, lease_until <= tick_ms(%(tick)s::bigint), 0 from workers w
where not exists (select 1 from runs where status = 'running' and owner = w.id)
order by 1
"""
_FACTS = """
select (select count(*) from runs where status = 'running' and owner = ''),
    coalesce((select at from journal order by position desc limit 1), 0), now_ms(%s::bigint)
"""
# Looked for once a hold: the journal is many tables, and each look at it touches all of them.
_OF_HOLD = """
(select array_agg(seq) seq, array_agg(position) position, array_agg(id) id, array_agg(at) at,
    array_agg(salt) salt, array_agg(payload) payload, array_agg(hash) hash
from journal where run = h.run and seq = any(array[h.entry, h.args_entry, h.revised]))
"""
_HOLD = f"""
select r.id, r.project, r.agent,
    h.n, h.opened, h.status, h.call, h.kind, h.tool, h.version, h.digest, h.suspension, h.entry,
    h.revised, h.args_entry, h.opened_at, h.deadline, h.who, h.decision, h.votes,
    h.escalates_at, h.words,
    {_ENTRY.format("e")}
from {{source}}
join runs r on r.k = h.run
cross join lateral {_OF_HOLD} e
"""
# As `words.has_words` has it; ids are of plain letters, which can be folded here.
_FOUND = """
    and (%(search)s::bytea[] is null or not exists (
        select 1 from unnest(%(search)s::bytea[]) q where position(q in h.words) = 0
            and position(q in convert_to(lower('hold_' || substr(r.id, 5) || '.' || h.n || chr(10)
                || 'req_' || substr(r.id, 5) || '.' || h.suspension || chr(10)
                || r.id), 'UTF8')) = 0
    ))
"""
_ONE_HOLD = _HOLD.format(source="holds h") + "where r.id = %s and h.n = %s"
_HOLDS_OF_RUN = (
    _HOLD.format(source="holds h")
    + """
where r.id = %(run)s and (h.opened, h.n) > (%(opened)s, %(n)s)
    and (%(project)s::text is null or r.project = %(project)s)
    and (%(suspension)s::bigint is null or h.suspension = %(suspension)s)
    and (%(status)s = 'any' or (h.status = 'settled') = (%(status)s = 'settled'))
    and (%(who)s::text[] is null or h.who && %(who)s::text[])
"""
    + _FOUND
    + "order by h.opened, h.n limit %(limit)s"
)
_PAGE = """
(select h.opened, h.n, h.run from holds h join runs r on r.k = h.run
where {status} and (h.opened, h.n) > (%(opened)s, %(n)s)
    and (%(project)s::text is null or r.project = %(project)s)
    and (%(who)s::text[] is null or h.who && %(who)s::text[])
    {found}
order by h.opened, h.n limit %(limit)s)
"""
_OPEN = _PAGE.format(status="h.status <> 'settled'", found=_FOUND)
_SETTLED = _PAGE.format(status="h.status = 'settled'", found=_FOUND)
_WAITING = """
(select distinct w.opened, w.n, w.run from audiences a cross join lateral (
    select opened, n, run from waiting
    where audience = a.k and (opened, n) > (%(opened)s, %(n)s)
    order by opened, n limit %(limit)s
) w
where a.who = any(%(who)s::text[]) and (%(project)s::text is null or a.project = %(project)s)
order by 1, 2 limit %(limit)s)
"""

_ASKED = """
select w.audience, w.opened, w.n, coalesce(r.id, ''), coalesce(a.who, ''), h.who
from waiting w left join audiences a on a.k = w.audience left join runs r on r.k = w.run
left join holds h on h.run = w.run and h.n = w.n and h.opened = w.opened
    and h.status <> 'settled' and r.project = a.project
where (w.audience, w.opened, w.n) > (%s, %s, %s) order by w.audience, w.opened, w.n limit %s
"""


def _listed(picked: str) -> str:
    source = f"""
    (select * from ({picked}) x order by opened, n limit %(limit)s) p
    cross join lateral (select * from holds where run = p.run and n = p.n offset 0) h
    """
    return _HOLD.format(source=source) + "order by p.opened, p.n"


_LISTS = {
    "open": _listed(_OPEN),
    "settled": _listed(_SETTLED),
    "any": _listed(f"{_OPEN} union all {_SETTLED}"),
    "waiting": _listed(_WAITING),
}
_TURNED = {sql: turn(sql) for sql in (_HOLDS_OF_RUN, *_LISTS.values())}


class Reader:
    """Reads the store as of the last commit."""

    def __init__(self, link: Link, archives: PostgresArchives) -> None:
        self._link = link
        self._rows = Lane(link, _LOAD)
        self._journals = Lane(link, _JOURNAL)
        self._looks = Looks(link)
        self._archives = archives

    async def load(self, run_id: str) -> RunRow | None:
        found = await self._rows.ask(run_id)
        return run_of(found[0]) if found else await self._archives.check_run(run_id)

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        found = await self._looks.look(run_id, wish)
        return found or await self._archives.check_run(run_id)

    async def thread(self, project: str, thread: str) -> RunRow | None:
        found = await self._link.read(_THREAD, (project, thread))
        return run_of(found[0]) if found else await self._archives.check_thread(project, thread)

    async def journal(self, run_id: str, after: int, limit: int) -> list[Entry]:
        found = await self._journals.ask(run_id, after, page_size(limit))
        if not found and not after:
            await self._archives.check_run(run_id)
        return [entry_of(run_id, row) for row in found]

    async def entries(self, run_id: str, seqs: Sequence[int]) -> list[Entry]:
        found = await self._link.read(_ENTRIES, (sorted(set(seqs)), run_id))
        return [entry_of(run_id, row) for row in found]

    async def tail(self, after: int, limit: int) -> list[Entry]:
        found = await self._link.read(_TAIL, (after, page_size(limit)))
        return [entry_of(row[0], row[1:]) for row in found]

    async def key(self, project: str, key: str) -> KeyRow | None:
        found = await self._link.read(_KEY, {"project": project, "key": key})
        return KeyRow(digest=found[0][0], run_id=found[0][1], seq=found[0][2]) if found else None

    async def due(self, given: int | None, skip: int, limit: int) -> list[str]:
        found = await self._link.read(_DUE, (given, page_size(limit), skip))
        return [row[0] for row in found]

    async def owned(self, tick: int | None) -> list[tuple[str, str, str, str | None, bool | None]]:
        """Every running run that has an owner: run, agent, worker, its boot id, whether its lease
        has passed.
        """
        return cast("Any", await self._link.read(_OWNED, (tick,)))

    async def sight(self, worker: str, tick: int | None) -> tuple[str, bool, int, str] | None:
        """Read a worker's boot id, whether its lease has passed, how long it is silent, and where
        it was.
        """
        found = await self._link.read(_SIGHT, {"worker": worker, "tick": tick})
        return (found[0][0], found[0][1], found[0][2], found[0][3]) if found else None

    async def workers(self, tick: int | None) -> list[tuple[str, str | None, bool | None, int]]:
        """Every worker, and everyone who owns a running run: boot id, whether the lease has passed,
        how many.
        """
        return cast("Any", await self._link.read(_WORKERS, {"tick": tick}))

    async def facts(self, given: int | None) -> tuple[int, int, int]:
        """How many runs are running and have no owner, when the last entry was, and store time."""
        ((free, last_at, now),) = await self._link.read(_FACTS, (given,))
        return free, last_at, now

    async def runs(self, query: RunQuery) -> list[RunRow]:
        where, bindings = ["true"], list[Any]()
        for name in ("project", "status", "agent", "thread"):
            value = getattr(query, name)
            if value is not None:
                where.append(f"coalesce({name}, '') = %s" if value == "" else f"{name} = %s")
                bindings.append(value)
        if query.status is not None and query.status != "running":
            where.append("owner = ''")  # True of them all, and lets the index give the order.
        if query.before is not None:
            where.append("k < (select k from runs where id = %s)")
            bindings.append(query.before)
        sql = f"select {_RUN} from runs where {' and '.join(where)} order by k desc limit %s"
        return [
            run_of(row) for row in await self._link.read(sql, (*bindings, page_size(query.limit)))
        ]

    async def hold(self, run_id: str, n: int) -> HoldFound | None:
        found = _holds(await self._link.read(_ONE_HOLD, (run_id, n)))
        return found[0] if found else await self._archives.check_run(run_id)

    async def holds(self, query: HoldQuery) -> list[HoldFound]:
        check_hold_query(query)
        opened, n = read_hold_key(query.after, newest=query.newest)
        bindings = {
            "run": query.run_id,
            "opened": opened,
            "n": n,
            "project": query.project,
            "suspension": query.suspension,
            "status": query.status,
            "who": None if query.who is None else list(query.who),
            "limit": page_size(query.limit),
            "search": [word.encode() for word in query.search] or None,
        }
        if query.run_id is not None:
            sql = _HOLDS_OF_RUN
        elif query.status == "open" and query.who is not None and not query.search:
            sql = _LISTS["waiting"]
        else:
            sql = _LISTS[query.status]
        sql = _TURNED[sql] if query.newest else sql
        return _holds(await self._link.read(sql, bindings))

    async def asked(self, after: tuple[int, int, int], limit: int) -> list[Asked]:
        found = await self._link.read(_ASKED, (*after, page_size(limit)))
        return [asked_of(row[:5], row[5] or ()) for row in found]


def _holds(rows: list[Found]) -> list[HoldFound]:
    found: list[HoldFound] = []
    for row in rows:
        fields, entries = row[: WORDS + 1], [one or () for one in row[WORDS + 1 :]]
        said = {entry[0]: entry for entry in zip(*entries, strict=True)}
        opened, args = said.get(row[ENTRY]), said.get(row[ARGS])
        if opened is None or args is None:
            continue  # Only a damaged store has such a hold, and an audit tells of it.
        revised = said.get(row[REVISED], _NONE)
        words = bytes(row[WORDS]).decode()
        whole = (*fields, *opened, *args, *revised)
        found.append(hold_of(whole, digest=row[DIGEST], who=tuple(row[WHO]), words=words))
    return found


_NONE = (None,) * 7
"""In the place of a revision that there is not."""
